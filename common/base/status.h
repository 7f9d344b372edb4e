#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <utility>

#include "common/base/check.h"

namespace weir {

// Whose mistake an error is. Decides what the user is told and what the failover policy does.
enum class ErrorDomain {
  kUser,      // job, data or options are wrong: repeating the same does not help
  kExternal,  // disk, network, peer, broker: may heal
  kInternal,  // a broken invariant of ours
};

enum class StatusCode {
  kOk,
  kInvalidArgument,     // the request itself is wrong
  kNotFound,            // the named thing does not exist
  kAlreadyExists,       // the name is taken
  kFailedPrecondition,  // right request, wrong state
  kOutOfRange,          // a number does not fit (overflow, past the end)
  kResourceExhausted,   // disk full, no slots, over a limit
  kUnavailable,         // peer or storage not reachable now
  kUnknownOutcome,      // the request may or may not have been carried out
  kDataLoss,            // a checksum or length does not hold
  kCancelled,           // given up on purpose
  kStale,               // from an older generation or term: never acted on
  kInternal,
};

std::string_view ToString(StatusCode code);
std::string_view ToString(ErrorDomain domain);

// Outcome of an operation: OK or an error with code, domain, message and a retry hint that only
// the failover policy reads. Immutable, cheap to copy. Thread: immutable.
// Messages say what failed, then the values: "cannot read part-0.csv: No such file or directory".
class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(StatusCode code, ErrorDomain domain, std::string message);

  bool ok() const { return rep_ == nullptr; }
  StatusCode code() const { return rep_ ? rep_->code : StatusCode::kOk; }
  ErrorDomain domain() const { return rep_ ? rep_->domain : ErrorDomain::kInternal; }
  const std::string& message() const;
  // Whether trying the same again may help. Default: external errors yes, all others no.
  bool retryable() const { return rep_ != nullptr && rep_->retryable; }

  // The same error with `context` in front of its message ("context: message"). OK stays OK.
  Status WithContext(std::string_view context) const;
  Status WithRetry(bool retryable) const;

  // "OK" or the message; codes are for programs.
  std::string ToString() const;

 private:
  struct Rep {
    StatusCode code;
    ErrorDomain domain;
    bool retryable;
    std::string message;
  };
  std::shared_ptr<const Rep> rep_;
};

std::ostream& operator<<(std::ostream& out, const Status& status);

// User errors.
Status InvalidArgumentError(std::string message);
Status NotFoundError(std::string message);
Status AlreadyExistsError(std::string message);
Status FailedPreconditionError(std::string message);
Status OutOfRangeError(std::string message);
// External errors, retryable.
Status ResourceExhaustedError(std::string message);
Status UnavailableError(std::string message);
Status UnknownOutcomeError(std::string message);
Status DataLossError(std::string message);
// Neither: the caller's own doing.
Status CancelledError(std::string message);
Status StaleError(std::string message);
Status InternalError(std::string message);
// The external error that errno value `error_number` stands for: "what: strerror".
Status ErrnoError(int error_number, std::string_view what);

// A value or the error that stands in its place.
template <typename T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(T value) : value_(std::move(value)) {}         // NOLINT: implicit by design
  StatusOr(Status status) : status_(std::move(status)) {  // NOLINT: implicit by design
    WEIR_CHECK_MESSAGE(!status_.ok(), "OK has no value to stand in for");
  }
  template <typename U>
    requires(std::is_convertible_v<U, T> && !std::is_same_v<std::decay_t<U>, T> &&
             !std::is_convertible_v<U, Status>)
  StatusOr(U&& value) : value_(std::forward<U>(value)) {}  // NOLINT: implicit by design

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  // REQUIRES: ok().
  T& value() & {
    Require();
    return *value_;
  }
  const T& value() const& {
    Require();
    return *value_;
  }
  T&& value() && {
    Require();
    return std::move(*value_);
  }
  T& operator*() & { return value(); }
  const T& operator*() const& { return value(); }
  T&& operator*() && { return std::move(*this).value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }

 private:
  void Require() const { WEIR_CHECK_MESSAGE(value_.has_value(), status_.message()); }
  Status status_;
  std::optional<T> value_;
};

#define WEIR_CONCAT_INNER(a, b) a##b
#define WEIR_CONCAT(a, b) WEIR_CONCAT_INNER(a, b)
#define WEIR_RETURN_IF_ERROR(expression)                                                     \
  do {                                                                                       \
    if (::weir::Status weir_status_ = (expression); !weir_status_.ok()) return weir_status_; \
  } while (false)
#define WEIR_ASSIGN_OR_RETURN(declaration, expression) \
  WEIR_ASSIGN_OR_RETURN_IMPL(WEIR_CONCAT(weir_status_or_, __LINE__), declaration, expression)
#define WEIR_ASSIGN_OR_RETURN_IMPL(holder, declaration, expression) \
  auto holder = (expression);                                       \
  if (!holder.ok()) return holder.status();                         \
  declaration = std::move(holder).value()

}  // namespace weir
