#include "worker/state/batch_keys.h"

#include <bit>
#include <cstring>
#include <limits>

#include "common/base/concat.h"
#include "common/record/key_kernels.h"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little, "words are the bytes of a key");

constexpr size_t kSizeBytes = sizeof(uint32_t);
constexpr size_t kShortSizeMax = 7;
// Memory for encoded keys that is kept from batch to batch.
constexpr size_t kKeptBytesMax = 4 << 20;

uint64_t ShortWord(std::string_view bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes.data(), bytes.size());
  return word | uint64_t{bytes.size()} << 56;
}

TableKey NullKey(uint64_t hash) {
  return {(hash & ~TableKey::kFormMask) | TableKey::kShort, ShortWord(std::string_view("\0", 1))};
}

}  // namespace

std::string_view TableKey::LongBytes() const {
  const char* sized = reinterpret_cast<const char*>(word);
  uint32_t size;
  std::memcpy(&size, sized, kSizeBytes);
  return {sized + kSizeBytes, size};
}

void TableKey::AppendBytes(std::string* out) const {
  char bytes[sizeof(word)];
  std::memcpy(bytes, &word, sizeof(word));
  switch (form()) {
    case kWord:
      out->push_back('\x01');
      out->append(bytes, sizeof(word));
      return;
    case kShort:
      out->append(bytes, word >> 56);
      return;
    case kLong:
      out->append(LongBytes());
      return;
  }
}

TableKey MakeTableKey(uint64_t hash, const char* sized) {
  TableKey key{(hash & ~TableKey::kFormMask) | TableKey::kLong, reinterpret_cast<uint64_t>(sized)};
  const std::string_view bytes = key.LongBytes();
  if (bytes.size() <= kShortSizeMax) {
    key.tag = (hash & ~TableKey::kFormMask) | TableKey::kShort;
    key.word = ShortWord(bytes);
  } else if (bytes.size() == 1 + sizeof(uint64_t) && bytes[0] == '\x01') {
    key.tag = (hash & ~TableKey::kFormMask) | TableKey::kWord;
    std::memcpy(&key.word, bytes.data() + 1, sizeof(uint64_t));
  }
  return key;
}

BatchKeys::BatchKeys(KeyGroupRange range, int max_parallelism)
    : range_(range), max_parallelism_(max_parallelism) {}

Status BatchKeys::Load(const RecordBatch& batch, std::span<const int> key_columns) {
  rows_ = batch.rows();
  if (!scratch_) scratch_.emplace();
  std::vector<uint64_t>& hashes = *scratch_->hashes;
  std::vector<uint16_t>& groups = *scratch_->groups;
  HashKeys(batch, key_columns, &hashes);
  if (groups.size() < hashes.size()) groups.resize(hashes.size());
  hashes_ = hashes.data();
  groups_ = groups.data();
  if (!FindKeyGroups(hashes, max_parallelism_, range_, groups.data())) {
    int64_t row = 0;
    while (range_.Contains(KeyGroupOf(hashes_[row], max_parallelism_))) ++row;
    return InternalError(Concat(
        "row ", row, " of a batch is of key group ", KeyGroupOf(hashes_[row], max_parallelism_),
        ", but this subtask holds the key groups ", range_.begin, " to ", range_.end - 1));
  }
  const bool one_number = key_columns.size() == 1 &&
                          !IsVariableWidth(batch.column(key_columns[0]).type()) &&
                          batch.column(key_columns[0]).type() != Type::kBool;
  if (one_number) {
    LoadWords(batch.column(key_columns[0]));
  } else {
    LoadEncoded(batch, key_columns);
  }
  return {};
}

void BatchKeys::LoadWords(const Column& column) {
  const int64_t rows = column.size();
  const auto make_words = [&](auto word_of) {
    made_words_.resize(rows);
    for (int64_t row = 0; row < rows; ++row) made_words_[row] = word_of(row);
    words_ = made_words_.data();
  };
  switch (column.type()) {
    case Type::kInt32:
      make_words([values = column.values<int32_t>()](int64_t row) {
        return static_cast<uint64_t>(int64_t{values[row]});
      });
      break;
    case Type::kFloat64:
      make_words(
          [values = column.values<double>()](int64_t row) { return CanonicalBits(values[row]); });
      break;
    default:
      words_ = column.values<uint64_t>();
      break;
  }
  if (!column.has_nulls()) return;
  keys_.resize(rows);
  for (int64_t row = 0; row < rows; ++row) {
    keys_[row] = column.IsNull(row) ? NullKey(hashes_[row]) : key(row);
  }
  words_ = nullptr;
}

void BatchKeys::LoadEncoded(const RecordBatch& batch, std::span<const int> key_columns) {
  words_ = nullptr;
  keys_.resize(batch.rows());
  encoded_.clear();
  if (encoded_.capacity() > kKeptBytesMax) encoded_.shrink_to_fit();
  starts_.resize(batch.rows());
  for (int64_t row = 0; row < batch.rows(); ++row) {
    const size_t start = encoded_.size();
    starts_[row] = start;
    encoded_.append(kSizeBytes, '\0');
    EncodeKey(batch, key_columns, row, &encoded_);
    const uint32_t size = static_cast<uint32_t>(encoded_.size() - start - kSizeBytes);
    std::memcpy(encoded_.data() + start, &size, kSizeBytes);
  }
  for (int64_t row = 0; row < batch.rows(); ++row) {
    keys_[row] = MakeTableKey(hashes_[row], encoded_.data() + starts_[row]);
  }
}

}  // namespace weir
