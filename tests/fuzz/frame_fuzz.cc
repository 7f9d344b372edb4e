// Bytes as the stream of a data connection: however they arrive, the same frames and elements, and
// the same error, without more memory than what came.
#include <map>
#include <string>
#include <tuple>

#include "common/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "worker/network/frame_codec.h"

namespace weir {
namespace {

// Notes what arrives. A fragment whose channel does not continue is an error of the stream.
class NotingHandler : public FrameHandler {
 public:
  StatusOr<char*> BeginFragment(const FrameHeader& header) override {
    return AssemblerOf(header).Begin(header);
  }
  Status EndFragment(const FrameHeader& header) override {
    ElementAssembler& assembler = AssemblerOf(header);
    if (!assembler.End(header)) return {};
    const EncodedElement element = assembler.Take();
    const std::string_view bytes(reinterpret_cast<const char*>(element.bytes->data()),
                                 element.bytes->size());
    notes_ += "element " + std::to_string(bytes.size()) + ' ' +
              std::to_string(element.credit_bytes) + ' ' + std::string(bytes) + '\n';
    return {};
  }
  Status OnFrame(const FrameHeader& header, std::string_view payload) override {
    notes_ += "frame " + std::to_string(static_cast<int>(header.kind)) + ' ' +
              std::to_string(header.credit_bytes) + ' ' + std::string(payload) + '\n';
    if (header.kind == FrameKind::kHello) {
      StatusOr<HelloFrame> hello = DecodeHello(payload);
      if (!hello.ok()) return hello.status();
      StatusOr<std::string> encoded = EncodeHello(*hello);
      WEIR_CHECK(encoded.ok() && *DecodeHello(*encoded) == *hello);
    } else if (header.kind == FrameKind::kBarrier) {
      WEIR_CHECK(payload.size() == kBarrierPayloadBytes);
      WEIR_CHECK(EncodeBarrier(DecodeBarrier(payload)) == payload);
    }
    return {};
  }
  std::string notes_;

 private:
  ElementAssembler& AssemblerOf(const FrameHeader& header) {
    const ChannelId& id = header.channel;
    return assemblers_[{id.edge, id.from_subtask, id.to_subtask}];
  }
  std::map<std::tuple<int64_t, int64_t, int64_t>, ElementAssembler> assemblers_;
};

std::string Read(std::string_view bytes, size_t chunk) {
  NotingHandler handler;
  FrameDecoder decoder(&handler);
  while (!bytes.empty()) {
    const size_t take = std::min(chunk, bytes.size());
    Status status = decoder.Consume(bytes.substr(0, take));
    if (!status.ok()) return handler.notes_ + status.ToString();
    bytes.remove_prefix(take);
  }
  return handler.notes_;
}

}  // namespace
}  // namespace weir

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  weir::fuzz::Input input(data, size);
  const size_t chunk = size_t{1} + input.TakeByte() % 100;
  WEIR_CHECK(weir::Read(input.rest(), size + 1) == weir::Read(input.rest(), chunk));
  return 0;
}
