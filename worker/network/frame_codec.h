#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "common/base/ids.h"
#include "common/base/status.h"
#include "common/record/stream_element.h"
#include "worker/network/channel.h"

// The bytes of a data connection. It carries frames: a header of 32 bytes, all integers little
// endian, and a payload:
//   offset 0   uint32 payload bytes
//          4   uint8  kind
//          5   uint8  flags (bit 0: more fragments of the element follow)
//          6   uint16 0
//          8   uint32 edge, 12 uint32 sending subtask, 16 uint32 receiving subtask
//         20   uint32 bytes of the whole element (DATA)
//         24   uint64 credit: what the element took (DATA), what is given back (CREDIT)
// The dialer, who sends the elements, opens with HELLO and sends nothing else before WELCOME.
// Fields that a kind does not use are 0. Anything else is refused (kDataLoss) before anything is
// allocated for it.
namespace weir {

enum class FrameKind : uint8_t {
  kHello = 1,       // HelloFrame
  kWelcome = 2,     // no payload
  kRefused = 3,     // the reason, as text; the connection ends
  kData = 4,        // a fragment of an encoded batch
  kBarrier = 5,     // uint64 checkpoint, int64 time of the trigger
  kEndOfInput = 6,  // no payload
  kCredit = 7,      // no payload; from receiver to sender
};

inline constexpr uint16_t kProtocolVersion = 2;
inline constexpr size_t kFrameHeaderBytes = 32;
// Larger elements are cut, so that a large row does not hold up the connection's other channels.
inline constexpr size_t kFragmentBytesMax = 256 << 10;
// One row of 64 MiB, what else its batch may hold, and what the encoding adds.
inline constexpr size_t kElementBytesMax = (64 << 20) + (16 << 20);
inline constexpr size_t kControlPayloadBytesMax = 1024;
inline constexpr size_t kBarrierPayloadBytes = 16;

struct FrameHeader {
  uint32_t payload_bytes = 0;
  FrameKind kind = FrameKind::kHello;
  bool more = false;
  ChannelId channel;
  uint32_t element_bytes = 0;
  int64_t credit_bytes = 0;
  bool operator==(const FrameHeader&) const = default;
};

// What a dialer says of itself.
struct HelloFrame {
  JobId job;
  Generation generation;
  WorkerName from;
  WorkerName to;
  bool operator==(const HelloFrame&) const = default;
};

using FrameHeaderBytes = std::array<char, kFrameHeaderBytes>;
FrameHeaderBytes EncodeFrameHeader(const FrameHeader& header);
StatusOr<FrameHeader> DecodeFrameHeader(const FrameHeaderBytes& bytes);

// The header of the fragment that begins at `offset` of an element. REQUIRES: 0 <= offset <
// element_bytes <= kElementBytesMax.
FrameHeader FragmentHeader(const ChannelId& channel, size_t element_bytes, int64_t credit_bytes,
                           size_t offset);

// Payloads.
// Names that are too long for a hello are refused (kInvalidArgument).
StatusOr<std::string> EncodeHello(const HelloFrame& hello);
StatusOr<HelloFrame> DecodeHello(std::string_view payload);
std::string EncodeBarrier(const Barrier& barrier);
// REQUIRES: payload has kBarrierPayloadBytes.
Barrier DecodeBarrier(std::string_view payload);

// Header and payload as one string. REQUIRES: payload is within the limit of its kind.
std::string EncodeFrame(FrameHeader header, std::string_view payload);

// Where a FrameDecoder delivers. An error ends the connection.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  // A fragment begins: where its payload_bytes go, valid until EndFragment.
  virtual StatusOr<char*> BeginFragment(const FrameHeader& header) = 0;
  virtual Status EndFragment(const FrameHeader& header) = 0;
  // Any other frame, whole. `payload` lives as long as the call.
  virtual Status OnFrame(const FrameHeader& header, std::string_view payload) = 0;
};

// Cuts the byte stream of a connection into frames, however it arrives. Owns no memory that grows.
// Thread: confined to its owner. Not to be used after an error.
class FrameDecoder {
 public:
  // `handler` must outlive the decoder.
  explicit FrameDecoder(FrameHandler* handler) : handler_(handler) {}

  // The next bytes of the stream.
  Status Consume(std::string_view bytes);
  // What is missing of the fragment under way, empty between fragments: a reader may put the next
  // bytes of the stream straight there and say so with FragmentBytesRead.
  std::span<char> fragment_rest() const { return fragment_rest_; }
  // REQUIRES: bytes <= fragment_rest().size().
  Status FragmentBytesRead(size_t bytes);

 private:
  Status BeginPayload();

  FrameHandler* const handler_;
  FrameHeaderBytes header_bytes_{};
  size_t header_have_bytes_ = 0;
  FrameHeader header_;
  std::span<char> fragment_rest_;
  std::array<char, kControlPayloadBytesMax> control_{};
  size_t control_have_bytes_ = 0;
};

// An encoded batch as it came from the wire.
struct EncodedElement {
  BufferPtr bytes;
  int64_t credit_bytes = 0;
};

// Puts the fragments of one channel together again. Takes memory as bytes arrive, not as they are
// announced: at most kFirstReserveBytes or twice what is there. Thread: confined to its owner.
class ElementAssembler {
 public:
  static constexpr size_t kFirstReserveBytes = 1 << 20;

  // Room for the fragment's payload; kDataLoss when it does not continue the element under way.
  StatusOr<char*> Begin(const FrameHeader& header);
  // The payload is there; whether the element is complete. Then Take it.
  bool End(const FrameHeader& header);
  EncodedElement Take();
  bool in_progress() const { return have_bytes_ > 0; }

 private:
  BufferPtr bytes_;  // none, or with room for have_bytes_
  size_t have_bytes_ = 0;
  size_t element_bytes_ = 0;
  int64_t credit_bytes_ = 0;
};

}  // namespace weir
