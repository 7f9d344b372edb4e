#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

// What every fuzzer defines. A WEIR_CHECK that fails is a finding.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace weir::fuzz {

// The bytes of one run; takes its parameters from their front.
class Input {
 public:
  Input(const uint8_t* data, size_t size) : bytes_(reinterpret_cast<const char*>(data), size) {}

  // 0 when there are no more.
  uint8_t TakeByte() {
    if (bytes_.empty()) return 0;
    const char byte = bytes_.front();
    bytes_.remove_prefix(1);
    return static_cast<uint8_t>(byte);
  }
  std::string_view rest() const { return bytes_; }

 private:
  std::string_view bytes_;
};

}  // namespace weir::fuzz
