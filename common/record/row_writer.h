#pragma once

#include <algorithm>
#include <cstddef>
#include <string>

namespace weir {

// Appends rows of text to a string through a plain pointer, with one check for room per row.
// Lifetime: while it exists the string is longer than what was written; Close cuts it.
// Thread: confined to its owner.
class RowWriter {
 public:
  // `bytes_hint`: what will be written, more or less.
  RowWriter(std::string* out, size_t bytes_hint) : out_(out), used_(out->size()) {
    out_->resize(used_ + bytes_hint);
  }
  // Where to write up to `bytes` bytes.
  char* Reserve(size_t bytes) {
    if (out_->size() - used_ < bytes) out_->resize(std::max(used_ + bytes, out_->size() * 2));
    return out_->data() + used_;
  }
  // `end` is behind the last byte written after Reserve.
  void Commit(const char* end) { used_ = static_cast<size_t>(end - out_->data()); }
  // Bytes of the string that are written.
  size_t used() const { return used_; }
  void Close() { out_->resize(used_); }

 private:
  std::string* out_;
  size_t used_;
};

}  // namespace weir
