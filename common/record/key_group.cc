#include "common/record/key_group.h"

#include <array>
#include <bit>
#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "common/base/check.h"
#include "common/record/key_kernels.h"
#include "common/record/xxh3_word.h"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr uint8_t kNullMark = 0x00;
constexpr uint8_t kValueMark = 0x01;

// Non-null value `row` of a column of 8 bytes in the encoding.
uint64_t FixedBits(const Column& column, int64_t row) {
  switch (column.type()) {
    case Type::kInt32:
      return static_cast<uint64_t>(int64_t{column.Int32(row)});
    case Type::kFloat64:
      return CanonicalBits(column.Float64(row));
    default:
      return static_cast<uint64_t>(column.Int64(row));
  }
}

// XXH3 of 1 to 8 bytes that are in registers already, as the library computes it with seed 0.
// The words of its default secret, read as uint64 LE at offsets 0, 8, 16.
constexpr std::array<uint64_t, 3> kSecret = {0xbe4ba423396cfeb8, 0x1cad21f72c81017c,
                                             0xdb979083e96dd4de};

// `first`: the first 4 bytes; `last`: the last 4.
uint64_t Hash4To8(uint32_t first, uint32_t last, uint64_t length) {
  constexpr uint64_t kMultiplier = 0x9fb21c651e98df25;
  uint64_t hash = (uint64_t{last} + (uint64_t{first} << 32)) ^ (kSecret[1] ^ kSecret[2]);
  hash ^= std::rotl(hash, 49) ^ std::rotl(hash, 24);
  hash *= kMultiplier;
  hash ^= (hash >> 35) + length;
  hash *= kMultiplier;
  return hash ^ (hash >> 28);
}

// 1 to 3 bytes: the first, the one at length / 2 and the last.
uint64_t Hash1To3(uint32_t first, uint32_t middle, uint32_t last, uint32_t length) {
  const uint32_t combined = (first << 16) | (middle << 24) | last | (length << 8);
  const uint32_t flip = static_cast<uint32_t>(kSecret[0]) ^ static_cast<uint32_t>(kSecret[0] >> 32);
  uint64_t hash = combined ^ flip;
  hash ^= hash >> 33;
  hash *= 0xc2b2ae3d27d4eb4f;
  hash ^= hash >> 29;
  hash *= 0x165667b19e3779f9;
  return hash ^ (hash >> 32);
}

uint64_t HashNull() { return Hash1To3(kNullMark, kNullMark, kNullMark, 1); }

uint64_t HashBool(bool value) {
  const uint32_t byte = value ? 1 : 0;
  return Hash1To3(kValueMark, byte, byte, 2);
}

// Longest text whose encoding (mark, length, bytes) fits into two words.
constexpr uint32_t kRegisterTextBytes = 11;

// REQUIRES: 16 bytes at `text` are readable, length <= kRegisterTextBytes.
uint64_t HashShortText(const char* text, uint32_t length) {
  unsigned __int128 bytes;
  std::memcpy(&bytes, text, sizeof(bytes));
  bytes &= (static_cast<unsigned __int128>(1) << (8 * length)) - 1;
  const unsigned __int128 encoding = (bytes << 40) | (uint64_t{length} << 8) | kValueMark;
  const uint32_t total = length + 5;
  const uint64_t low = static_cast<uint64_t>(encoding);
  if (total > 8) {
    return xxh3::Hash9To16(low, static_cast<uint64_t>(encoding >> (8 * (total - 8))), total);
  }
  return Hash4To8(static_cast<uint32_t>(low), static_cast<uint32_t>(low >> (8 * (total - 4))),
                  total);
}

// Encodings up to this long are put together on the stack.
constexpr size_t kStackBytes = 512;

uint64_t HashText(std::string_view text) {
  if (text.size() <= kRegisterTextBytes) {
    return HashShortText(text.data(), static_cast<uint32_t>(text.size()));
  }
  const uint32_t length = static_cast<uint32_t>(text.size());
  const auto encode = [&](char* out) {
    out[0] = static_cast<char>(kValueMark);
    std::memcpy(out + 1, &length, sizeof(length));
    std::memcpy(out + 5, text.data(), text.size());
    return XXH3_64bits(out, text.size() + 5);
  };
  if (text.size() + 5 <= kStackBytes) {
    char stack[kStackBytes];
    return encode(stack);
  }
  std::string heap(text.size() + 5, '\0');
  return encode(heap.data());
}

// `hash_value(row)` for every row that is not null.
template <typename HashValue>
void HashColumn(const Column& column, HashValue hash_value, uint64_t* out) {
  const int64_t rows = column.size();
  if (!column.has_nulls()) {
    for (int64_t row = 0; row < rows; ++row) out[row] = hash_value(row);
    return;
  }
  const uint64_t null_hash = HashNull();
  for (int64_t row = 0; row < rows; ++row) {
    out[row] = column.IsNull(row) ? null_hash : hash_value(row);
  }
}

void HashOneColumn(const Column& column, uint64_t* out) {
  switch (column.type()) {
    case Type::kBool:
      return HashColumn(column, [&](int64_t row) { return HashBool(column.Bool(row)); }, out);
    case Type::kInt32: {
      const int32_t* values = column.values<int32_t>();
      return HashColumn(
          column,
          [values](int64_t row) {
            return xxh3::HashWord(static_cast<uint64_t>(int64_t{values[row]}));
          },
          out);
    }
    case Type::kInt64:
    case Type::kTimestamp: {
      const uint64_t* values = column.values<uint64_t>();
      HashWords({values, static_cast<size_t>(column.size())}, out);
      if (!column.has_nulls()) return;
      for (int64_t row = 0; row < column.size(); ++row) {
        if (column.IsNull(row)) out[row] = HashNull();
      }
      return;
    }
    case Type::kFloat64: {
      const double* values = column.values<double>();
      return HashColumn(
          column, [values](int64_t row) { return xxh3::HashWord(CanonicalBits(values[row])); },
          out);
    }
    case Type::kString:
    case Type::kBytes:
      return HashColumn(column, [&](int64_t row) { return HashText(column.Text(row)); }, out);
  }
}

// Bytes of the encoding of row `row`.
size_t EncodedBytes(const RecordBatch& batch, std::span<const int> key_columns, int64_t row) {
  size_t bytes = 0;
  for (const int index : key_columns) {
    const Column& column = batch.column(index);
    bytes += 1;
    if (column.IsNull(row)) continue;
    if (IsVariableWidth(column.type())) {
      bytes += 4 + column.Text(row).size();
    } else {
      bytes += column.type() == Type::kBool ? 1 : 8;
    }
  }
  return bytes;
}

// The encoding of row `row` at `out`, which has room for it; the end.
char* EncodeTo(const RecordBatch& batch, std::span<const int> key_columns, int64_t row, char* out) {
  for (const int index : key_columns) {
    const Column& column = batch.column(index);
    if (column.IsNull(row)) {
      *out++ = static_cast<char>(kNullMark);
      continue;
    }
    *out++ = static_cast<char>(kValueMark);
    if (IsVariableWidth(column.type())) {
      const std::string_view text = column.Text(row);
      const uint32_t length = static_cast<uint32_t>(text.size());
      std::memcpy(out, &length, sizeof(length));
      out += sizeof(length);
      std::memcpy(out, text.data(), text.size());
      out += text.size();
    } else if (column.type() == Type::kBool) {
      *out++ = column.Bool(row) ? 1 : 0;
    } else {
      const uint64_t bits = FixedBits(column, row);
      std::memcpy(out, &bits, sizeof(bits));
      out += sizeof(bits);
    }
  }
  return out;
}

}  // namespace

void EncodeKey(const RecordBatch& batch, std::span<const int> key_columns, int64_t row,
               std::string* out) {
  const size_t before = out->size();
  out->resize(before + EncodedBytes(batch, key_columns, row));
  EncodeTo(batch, key_columns, row, out->data() + before);
}

void HashKeys(const RecordBatch& batch, std::span<const int> key_columns,
              std::vector<uint64_t>* hashes) {
  hashes->resize(static_cast<size_t>(batch.rows()));
  if (key_columns.size() == 1) {
    HashOneColumn(batch.column(key_columns[0]), hashes->data());
    return;
  }
  char stack[kStackBytes];
  std::string heap;
  for (int64_t row = 0; row < batch.rows(); ++row) {
    const size_t bytes = EncodedBytes(batch, key_columns, row);
    char* encoding = stack;
    if (bytes > kStackBytes) {
      heap.resize(bytes);
      encoding = heap.data();
    }
    EncodeTo(batch, key_columns, row, encoding);
    (*hashes)[static_cast<size_t>(row)] = XXH3_64bits(encoding, bytes);
  }
}

KeyGroupRange KeyGroupsOf(int subtask, int max_parallelism, int parallelism) {
  WEIR_CHECK(parallelism >= 1 && parallelism <= max_parallelism);
  WEIR_CHECK(subtask >= 0 && subtask < parallelism);
  // The first key group g with g * parallelism / max_parallelism >= s is ceil(s * max / p).
  const auto first = [&](int64_t s) {
    return static_cast<int>((s * max_parallelism + parallelism - 1) / parallelism);
  };
  return {first(subtask), first(int64_t{subtask} + 1)};
}

}  // namespace weir
