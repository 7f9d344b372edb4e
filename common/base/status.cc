#include "common/base/status.h"

#include <cerrno>
#include <cstring>

#include "common/base/concat.h"

namespace weir {
namespace {

const std::string kOkMessage = "OK";

}  // namespace

std::string_view ToString(StatusCode code) {
  switch (code) {
    case StatusCode::kOk:
      return "ok";
    case StatusCode::kInvalidArgument:
      return "invalid_argument";
    case StatusCode::kNotFound:
      return "not_found";
    case StatusCode::kAlreadyExists:
      return "already_exists";
    case StatusCode::kFailedPrecondition:
      return "failed_precondition";
    case StatusCode::kOutOfRange:
      return "out_of_range";
    case StatusCode::kResourceExhausted:
      return "resource_exhausted";
    case StatusCode::kUnavailable:
      return "unavailable";
    case StatusCode::kUnknownOutcome:
      return "unknown_outcome";
    case StatusCode::kDataLoss:
      return "data_loss";
    case StatusCode::kCancelled:
      return "cancelled";
    case StatusCode::kStale:
      return "stale";
    case StatusCode::kInternal:
      return "internal";
  }
  return "internal";
}

std::string_view ToString(ErrorDomain domain) {
  switch (domain) {
    case ErrorDomain::kUser:
      return "user";
    case ErrorDomain::kExternal:
      return "external";
    case ErrorDomain::kInternal:
      return "internal";
  }
  return "internal";
}

Status::Status(StatusCode code, ErrorDomain domain, std::string message) {
  if (code == StatusCode::kOk) return;
  rep_ = std::make_shared<const Rep>(
      Rep{code, domain, domain == ErrorDomain::kExternal, std::move(message)});
}

const std::string& Status::message() const { return rep_ ? rep_->message : kOkMessage; }

Status Status::WithContext(std::string_view context) const {
  if (ok()) return *this;
  Status result;
  result.rep_ = std::make_shared<const Rep>(
      Rep{rep_->code, rep_->domain, rep_->retryable, Concat(context, ": ", rep_->message)});
  return result;
}

Status Status::WithRetry(bool retryable) const {
  if (ok()) return *this;
  Status result;
  result.rep_ =
      std::make_shared<const Rep>(Rep{rep_->code, rep_->domain, retryable, rep_->message});
  return result;
}

std::string Status::ToString() const { return message(); }

std::ostream& operator<<(std::ostream& out, const Status& status) {
  return out << status.ToString();
}

#define WEIR_DEFINE_ERROR(name, code, domain)                                 \
  Status name##Error(std::string message) {                                   \
    return Status(StatusCode::code, ErrorDomain::domain, std::move(message)); \
  }
WEIR_DEFINE_ERROR(InvalidArgument, kInvalidArgument, kUser)
WEIR_DEFINE_ERROR(NotFound, kNotFound, kUser)
WEIR_DEFINE_ERROR(AlreadyExists, kAlreadyExists, kUser)
WEIR_DEFINE_ERROR(FailedPrecondition, kFailedPrecondition, kUser)
WEIR_DEFINE_ERROR(OutOfRange, kOutOfRange, kUser)
WEIR_DEFINE_ERROR(ResourceExhausted, kResourceExhausted, kExternal)
WEIR_DEFINE_ERROR(Unavailable, kUnavailable, kExternal)
WEIR_DEFINE_ERROR(UnknownOutcome, kUnknownOutcome, kExternal)
WEIR_DEFINE_ERROR(DataLoss, kDataLoss, kExternal)
WEIR_DEFINE_ERROR(Cancelled, kCancelled, kInternal)
WEIR_DEFINE_ERROR(Stale, kStale, kInternal)
WEIR_DEFINE_ERROR(Internal, kInternal, kInternal)
#undef WEIR_DEFINE_ERROR

Status ErrnoError(int error_number, std::string_view what) {
  std::string message = Concat(what, ": ", std::strerror(error_number));
  StatusCode code = StatusCode::kUnavailable;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      code = StatusCode::kNotFound;
      break;
    case EEXIST:
    case ENOTEMPTY:
      code = StatusCode::kAlreadyExists;
      break;
    case ENOSPC:
    case EDQUOT:
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      code = StatusCode::kResourceExhausted;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
    case EISDIR:
      code = StatusCode::kFailedPrecondition;
      break;
    default:
      break;
  }
  return Status(code, ErrorDomain::kExternal, std::move(message));
}

}  // namespace weir
