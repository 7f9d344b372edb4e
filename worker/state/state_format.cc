#include "worker/state/state_format.h"

#include <xxhash.h>

#include <cstring>
#include <type_traits>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/record/key_group.h"

namespace weir {
namespace {

constexpr std::string_view kMagic = "WKG2";
constexpr std::string_view kOldMagic = "WKG1";
constexpr size_t kChecksumBytes = sizeof(uint64_t);

template <typename T>
void Put(std::string* out, T value) {
  static_assert(std::is_unsigned_v<T>);
  char bytes[sizeof(T)];
  for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<char>(value >> (8 * i));
  out->append(bytes, sizeof(T));
}

void PutText(std::string* out, std::string_view text) {
  WEIR_CHECK(text.size() <= UINT32_MAX);
  Put<uint32_t>(out, static_cast<uint32_t>(text.size()));
  out->append(text);
}

template <typename T>
bool Take(std::string_view* in, T* value) {
  if (in->size() < sizeof(T)) return false;
  T result = 0;
  for (size_t i = 0; i < sizeof(T); ++i) {
    result |= static_cast<T>(static_cast<T>(static_cast<uint8_t>((*in)[i])) << (8 * i));
  }
  in->remove_prefix(sizeof(T));
  *value = result;
  return true;
}

bool TakeBytes(std::string_view* in, size_t size, std::string_view* bytes) {
  if (in->size() < size) return false;
  *bytes = in->substr(0, size);
  in->remove_prefix(size);
  return true;
}

bool TakeText(std::string_view* in, std::string_view* text) {
  uint32_t size = 0;
  return Take(in, &size) && TakeBytes(in, size, text);
}

}  // namespace

std::string StateTableInfo::Describe() const {
  if (kind == StateTableKind::kBytes) return "a table of values of any size";
  std::string text = Concat("a table of values of ", value_width, " bytes");
  if (!layout.empty()) text += Concat(" (", layout, ")");
  return text;
}

uint64_t HashOfEncodedKey(std::string_view key) { return XXH3_64bits(key.data(), key.size()); }

StateChunkWriter::StateChunkWriter(int key_group, int max_parallelism, const StateTableInfo& table,
                                   StateKeyForm keys, uint64_t table_entries, size_t bytes_expected)
    : fixed_(table.kind == StateTableKind::kFixed) {
  out_.reserve(bytes_expected);
  out_.append(kMagic);
  Put<uint32_t>(&out_, static_cast<uint32_t>(key_group));
  Put<uint32_t>(&out_, static_cast<uint32_t>(max_parallelism));
  Put<uint8_t>(&out_, static_cast<uint8_t>(table.kind));
  Put<uint8_t>(&out_, static_cast<uint8_t>(keys));
  Put<uint32_t>(&out_, table.value_width);
  PutText(&out_, table.name);
  PutText(&out_, table.layout);
  Put<uint64_t>(&out_, table_entries);
  count_at_ = out_.size();
  Put<uint64_t>(&out_, 0);
}

void StateChunkWriter::Add(std::string_view key, std::string_view value) {
  PutText(&out_, key);
  if (fixed_) {
    out_.append(value);
  } else {
    PutText(&out_, value);
  }
  ++entries_;
}

char* StateChunkWriter::Extend(size_t bytes) {
  const size_t begin = out_.size();
  out_.resize(begin + bytes);
  return out_.data() + begin;
}

void StateChunkWriter::Filled(const char* end, uint64_t entries) {
  out_.resize(static_cast<size_t>(end - out_.data()));
  entries_ += entries;
}

std::string StateChunkWriter::Finish() {
  WEIR_CHECK(entries_ > 0);
  for (size_t i = 0; i < sizeof(entries_); ++i) {
    out_[count_at_ + i] = static_cast<char>(entries_ >> (8 * i));
  }
  Put<uint64_t>(&out_, XXH3_64bits(out_.data(), out_.size()));
  return std::move(out_);
}

StatusOr<StateChunkReader> StateChunkReader::Open(int key_group, int max_parallelism,
                                                  std::string_view bytes) {
  auto damaged = [&](std::string_view what) {
    return DataLossError(Concat("the state of key group ", key_group, " (", bytes.size(),
                                " bytes) is damaged: ", what));
  };
  if (bytes.size() < kMagic.size() + kChecksumBytes) return damaged("it is cut");
  std::string_view body = bytes.substr(0, bytes.size() - kChecksumBytes);
  std::string_view trailer = bytes.substr(body.size());
  uint64_t checksum = 0;
  Take(&trailer, &checksum);
  if (checksum != XXH3_64bits(body.data(), body.size())) {
    return damaged("its checksum does not hold");
  }
  if (body.starts_with(kOldMagic)) {
    return InvalidArgumentError(Concat("the state of key group ", key_group, " has the format ",
                                       kOldMagic, " of an earlier version of Weir; this one reads ",
                                       kMagic));
  }
  if (!body.starts_with(kMagic)) return damaged("it does not begin as such");
  body.remove_prefix(kMagic.size());
  uint32_t stored_key_group = 0;
  uint32_t stored_max_parallelism = 0;
  if (!Take(&body, &stored_key_group) || !Take(&body, &stored_max_parallelism)) {
    return damaged("its head is cut");
  }
  if (stored_max_parallelism != static_cast<uint32_t>(max_parallelism)) {
    return InvalidArgumentError(Concat("the state of key group ", key_group,
                                       " was written with max_parallelism ", stored_max_parallelism,
                                       " and cannot be read with ", max_parallelism,
                                       ": it is fixed for the life of the state"));
  }
  if (stored_key_group != static_cast<uint32_t>(key_group)) {
    return damaged(Concat("it is that of key group ", stored_key_group));
  }
  StateChunkReader chunk;
  if (!chunk.TakeHead(body)) return damaged("the head of its table is wrong");
  StateChunkReader walk = chunk;
  if (const std::string_view problem = walk.Problem(key_group, max_parallelism); !problem.empty()) {
    return damaged(problem);
  }
  return chunk;
}

// What is wrong with the entries, walking them to the end; empty: nothing.
std::string_view StateChunkReader::Problem(int key_group, int max_parallelism) {
  if (entries_ == 0 || table_entries_ < entries_) return "it cannot have so many entries";
  std::string_view key;
  std::string_view value;
  for (uint64_t i = 0; i < entries_; ++i) {
    if (!TakeEntry(&key, &value)) return "it ends within its entries";
    if (KeyGroupOf(HashOfEncodedKey(key), max_parallelism) != key_group) {
      return "a key is of another key group";
    }
  }
  return rest_.empty() ? "" : "bytes follow its entries";
}

bool StateChunkReader::TakeHead(std::string_view body) {
  rest_ = body;
  uint8_t kind = 0;
  uint8_t keys = 0;
  std::string_view name;
  std::string_view layout;
  if (!Take(&rest_, &kind) || !Take(&rest_, &keys) || !Take(&rest_, &table_.value_width) ||
      !TakeText(&rest_, &name) || !TakeText(&rest_, &layout) || !Take(&rest_, &table_entries_) ||
      !Take(&rest_, &entries_)) {
    return false;
  }
  table_.kind = static_cast<StateTableKind>(kind);
  table_.name = name;
  table_.layout = layout;
  keys_ = static_cast<StateKeyForm>(keys);
  entries_left_ = entries_;
  if (keys_ != StateKeyForm::kAny && keys_ != StateKeyForm::kNumber) return false;
  switch (table_.kind) {
    case StateTableKind::kBytes:
      return table_.value_width == 0;
    case StateTableKind::kFixed:
      return table_.value_width > 0 && table_.value_width <= kStateValueWidthMax;
  }
  return false;
}

bool StateChunkReader::TakeEntry(std::string_view* key, std::string_view* value) {
  if (keys_ == StateKeyForm::kNumber) {
    std::string_view number;
    if (!TakeBytes(&rest_, sizeof(uint64_t), &number)) return false;
    std::memcpy(number_.data() + 1, number.data(), sizeof(uint64_t));
    *key = {number_.data(), number_.size()};
  } else if (!TakeText(&rest_, key)) {
    return false;
  }
  return table_.kind == StateTableKind::kFixed ? TakeBytes(&rest_, table_.value_width, value)
                                               : TakeText(&rest_, value);
}

bool StateChunkReader::NextEntry(std::string_view* key, std::string_view* value) {
  if (entries_left_ == 0) return false;
  --entries_left_;
  return TakeEntry(key, value);
}

}  // namespace weir
