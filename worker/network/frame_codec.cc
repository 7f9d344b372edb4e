#include "worker/network/frame_codec.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint8_t kMoreFlag = 1;
constexpr std::string_view kMagic = "WEIR";
constexpr size_t kJobIdBytesMax = 64;
constexpr size_t kWorkerNameBytesMax = 255;

template <typename T>
void Put(T value, char* to) {
  std::memcpy(to, &value, sizeof(T));
}

template <typename T>
T Get(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(T));
  return value;
}

Status Refuse(std::string message) {
  return DataLossError(Concat("the bytes of the peer are no frame: ", message));
}

struct PayloadLimits {
  size_t bytes_min = 0;
  size_t bytes_max = 0;
  bool of_channel = false;
};

PayloadLimits LimitsOf(FrameKind kind) {
  switch (kind) {
    case FrameKind::kHello:
      return {1, kControlPayloadBytesMax, false};
    case FrameKind::kWelcome:
      return {0, 0, false};
    case FrameKind::kRefused:
      return {0, kControlPayloadBytesMax, false};
    case FrameKind::kData:
      return {1, kFragmentBytesMax, true};
    case FrameKind::kBarrier:
      return {kBarrierPayloadBytes, kBarrierPayloadBytes, true};
    case FrameKind::kEndOfInput:
    case FrameKind::kCredit:
      return {0, 0, true};
  }
  return {};
}

// Reads the pieces of a payload; `ok` turns false at the first that is not there.
class PayloadReader {
 public:
  explicit PayloadReader(std::string_view bytes) : rest_(bytes) {}

  template <typename T>
  T Number() {
    if (rest_.size() < sizeof(T)) {
      ok_ = false;
      return T{};
    }
    const T value = Get<T>(rest_.data());
    rest_.remove_prefix(sizeof(T));
    return value;
  }
  std::string Text(size_t bytes_max) {
    const size_t size = Number<uint16_t>();
    if (size > bytes_max || size > rest_.size()) {
      ok_ = false;
      return {};
    }
    std::string text(rest_.substr(0, size));
    rest_.remove_prefix(size);
    return text;
  }
  bool AtEnd() const { return ok_ && rest_.empty(); }

 private:
  std::string_view rest_;
  bool ok_ = true;
};

template <typename T>
void AppendNumber(T value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(T));
}

void AppendText(std::string_view text, std::string* out) {
  AppendNumber(static_cast<uint16_t>(text.size()), out);
  out->append(text);
}

}  // namespace

FrameHeaderBytes EncodeFrameHeader(const FrameHeader& header) {
  FrameHeaderBytes bytes{};
  Put(header.payload_bytes, &bytes[0]);
  Put(static_cast<uint8_t>(header.kind), &bytes[4]);
  Put(static_cast<uint8_t>(header.more ? kMoreFlag : 0), &bytes[5]);
  Put(static_cast<uint32_t>(header.channel.edge), &bytes[8]);
  Put(static_cast<uint32_t>(header.channel.from_subtask), &bytes[12]);
  Put(static_cast<uint32_t>(header.channel.to_subtask), &bytes[16]);
  Put(header.element_bytes, &bytes[20]);
  Put(static_cast<uint64_t>(header.credit_bytes), &bytes[24]);
  return bytes;
}

StatusOr<FrameHeader> DecodeFrameHeader(const FrameHeaderBytes& bytes) {
  const uint8_t kind = Get<uint8_t>(&bytes[4]);
  if (kind < static_cast<uint8_t>(FrameKind::kHello) ||
      kind > static_cast<uint8_t>(FrameKind::kCredit)) {
    return Refuse(Concat("kind ", int{kind}));
  }
  FrameHeader header;
  header.kind = static_cast<FrameKind>(kind);
  header.payload_bytes = Get<uint32_t>(&bytes[0]);
  const PayloadLimits limits = LimitsOf(header.kind);
  if (header.payload_bytes < limits.bytes_min || header.payload_bytes > limits.bytes_max) {
    return Refuse(Concat("kind ", int{kind}, " with ", header.payload_bytes, " bytes"));
  }
  const uint8_t flags = Get<uint8_t>(&bytes[5]);
  const bool is_data = header.kind == FrameKind::kData;
  if (flags > (is_data ? kMoreFlag : 0) || Get<uint16_t>(&bytes[6]) != 0) {
    return Refuse(Concat("kind ", int{kind}, " with flags ", int{flags}));
  }
  header.more = (flags & kMoreFlag) != 0;

  const uint32_t edge = Get<uint32_t>(&bytes[8]);
  const uint32_t from_subtask = Get<uint32_t>(&bytes[12]);
  const uint32_t to_subtask = Get<uint32_t>(&bytes[16]);
  const uint32_t number_max = limits.of_channel ? std::numeric_limits<int32_t>::max() : 0;
  if (std::max({edge, from_subtask, to_subtask}) > number_max) {
    return Refuse(Concat("channel ", edge, ":", from_subtask, ":", to_subtask));
  }
  header.channel = {static_cast<int>(edge), static_cast<int>(from_subtask),
                    static_cast<int>(to_subtask)};

  header.element_bytes = Get<uint32_t>(&bytes[20]);
  if (is_data
          ? header.element_bytes > kElementBytesMax || header.element_bytes < header.payload_bytes
          : header.element_bytes != 0) {
    return Refuse(
        Concat("an element of ", header.element_bytes, " bytes, at most ", kElementBytesMax));
  }
  const uint64_t credit_bytes = Get<uint64_t>(&bytes[24]);
  uint64_t credit_bytes_max = 0;
  if (is_data) credit_bytes_max = kElementBytesMax;
  if (header.kind == FrameKind::kCredit) credit_bytes_max = std::numeric_limits<int64_t>::max() / 2;
  if (credit_bytes > credit_bytes_max) return Refuse(Concat("credit of ", credit_bytes, " bytes"));
  header.credit_bytes = static_cast<int64_t>(credit_bytes);
  return header;
}

FrameHeader FragmentHeader(const ChannelId& channel, size_t element_bytes, int64_t credit_bytes,
                           size_t offset) {
  WEIR_CHECK(offset < element_bytes && element_bytes <= kElementBytesMax);
  FrameHeader header;
  header.kind = FrameKind::kData;
  header.channel = channel;
  header.element_bytes = static_cast<uint32_t>(element_bytes);
  header.credit_bytes = credit_bytes;
  header.payload_bytes = static_cast<uint32_t>(std::min(kFragmentBytesMax, element_bytes - offset));
  header.more = offset + header.payload_bytes < element_bytes;
  return header;
}

StatusOr<std::string> EncodeHello(const HelloFrame& hello) {
  if (hello.job.value().size() > kJobIdBytesMax ||
      std::max(hello.from.value().size(), hello.to.value().size()) > kWorkerNameBytesMax) {
    return InvalidArgumentError(Concat("names are too long for a data connection: job '", hello.job,
                                       "', workers '", hello.from, "' and '", hello.to, "'"));
  }
  std::string payload(kMagic);
  AppendNumber(kProtocolVersion, &payload);
  AppendNumber(hello.generation.value(), &payload);
  AppendText(hello.job.value(), &payload);
  AppendText(hello.from.value(), &payload);
  AppendText(hello.to.value(), &payload);
  return payload;
}

StatusOr<HelloFrame> DecodeHello(std::string_view payload) {
  if (!payload.starts_with(kMagic)) return Refuse("a hello without the magic bytes");
  PayloadReader reader(payload.substr(kMagic.size()));
  const uint16_t version = reader.Number<uint16_t>();
  if (version != kProtocolVersion) {
    return DataLossError(Concat("the peer speaks version ", version,
                                " of the data protocol, this worker version ", kProtocolVersion));
  }
  HelloFrame hello;
  hello.generation = Generation(reader.Number<uint64_t>());
  hello.job = JobId(reader.Text(kJobIdBytesMax));
  hello.from = WorkerName(reader.Text(kWorkerNameBytesMax));
  hello.to = WorkerName(reader.Text(kWorkerNameBytesMax));
  if (!reader.AtEnd()) return Refuse("a hello of the wrong length");
  return hello;
}

std::string EncodeBarrier(const Barrier& barrier) {
  std::string payload;
  AppendNumber(barrier.checkpoint.value(), &payload);
  AppendNumber(barrier.trigger_wall_us, &payload);
  return payload;
}

Barrier DecodeBarrier(std::string_view payload) {
  WEIR_CHECK(payload.size() == kBarrierPayloadBytes);
  return {CheckpointId(Get<uint64_t>(payload.data())), Get<int64_t>(payload.data() + 8)};
}

std::string EncodeFrame(FrameHeader header, std::string_view payload) {
  header.payload_bytes = static_cast<uint32_t>(payload.size());
  const FrameHeaderBytes bytes = EncodeFrameHeader(header);
  std::string frame(bytes.data(), bytes.size());
  frame.append(payload);
  return frame;
}

Status FrameDecoder::Consume(std::string_view bytes) {
  while (!bytes.empty()) {
    if (!fragment_rest_.empty()) {
      const size_t size = std::min(fragment_rest_.size(), bytes.size());
      std::memcpy(fragment_rest_.data(), bytes.data(), size);
      bytes.remove_prefix(size);
      WEIR_RETURN_IF_ERROR(FragmentBytesRead(size));
      continue;
    }
    if (header_have_bytes_ < kFrameHeaderBytes) {
      const size_t size = std::min(kFrameHeaderBytes - header_have_bytes_, bytes.size());
      std::memcpy(&header_bytes_[header_have_bytes_], bytes.data(), size);
      bytes.remove_prefix(size);
      header_have_bytes_ += size;
      if (header_have_bytes_ < kFrameHeaderBytes) return {};
      WEIR_RETURN_IF_ERROR(BeginPayload());
      continue;
    }
    const size_t size = std::min(header_.payload_bytes - control_have_bytes_, bytes.size());
    std::memcpy(&control_[control_have_bytes_], bytes.data(), size);
    bytes.remove_prefix(size);
    control_have_bytes_ += size;
    if (control_have_bytes_ < header_.payload_bytes) return {};
    header_have_bytes_ = 0;
    WEIR_RETURN_IF_ERROR(handler_->OnFrame(header_, {control_.data(), control_have_bytes_}));
  }
  return {};
}

Status FrameDecoder::BeginPayload() {
  WEIR_ASSIGN_OR_RETURN(header_, DecodeFrameHeader(header_bytes_));
  if (header_.kind == FrameKind::kData) {
    WEIR_ASSIGN_OR_RETURN(char* target, handler_->BeginFragment(header_));
    fragment_rest_ = {target, header_.payload_bytes};
    return {};
  }
  control_have_bytes_ = 0;
  if (header_.payload_bytes > 0) return {};
  header_have_bytes_ = 0;
  return handler_->OnFrame(header_, {});
}

Status FrameDecoder::FragmentBytesRead(size_t bytes) {
  fragment_rest_ = fragment_rest_.subspan(bytes);
  if (!fragment_rest_.empty()) return {};
  fragment_rest_ = {};
  header_have_bytes_ = 0;
  return handler_->EndFragment(header_);
}

StatusOr<char*> ElementAssembler::Begin(const FrameHeader& header) {
  if (!in_progress()) {
    element_bytes_ = header.element_bytes;
    credit_bytes_ = header.credit_bytes;
  }
  const size_t end_bytes = have_bytes_ + header.payload_bytes;
  if (header.element_bytes != element_bytes_ || header.credit_bytes != credit_bytes_ ||
      end_bytes > element_bytes_ || header.more != (end_bytes < element_bytes_)) {
    return Refuse(Concat("a fragment of ", header.payload_bytes, " bytes at ", have_bytes_,
                         " of an element of ", element_bytes_));
  }
  const size_t capacity_bytes = bytes_ != nullptr ? bytes_->size() : 0;
  if (end_bytes > capacity_bytes) {
    auto grown = std::make_shared<Buffer>(
        std::min(element_bytes_, std::max({kFirstReserveBytes, 2 * capacity_bytes, end_bytes})));
    if (have_bytes_ > 0) std::memcpy(grown->data(), bytes_->data(), have_bytes_);
    bytes_ = std::move(grown);
  }
  return reinterpret_cast<char*>(bytes_->data()) + have_bytes_;
}

bool ElementAssembler::End(const FrameHeader& header) {
  have_bytes_ += header.payload_bytes;
  return have_bytes_ == element_bytes_;
}

EncodedElement ElementAssembler::Take() {
  EncodedElement element{std::move(bytes_), credit_bytes_};
  have_bytes_ = 0;
  return element;
}

}  // namespace weir
