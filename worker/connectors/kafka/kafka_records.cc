#include "worker/connectors/kafka/kafka_records.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "common/base/check.h"
#include "common/base/concat.h"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kMagic = "WeirKafk";
constexpr uint32_t kVersion = 1;
constexpr size_t kChecksumOffset = 24;
constexpr size_t kVarintBytesMax = 10;

template <typename T>
T Load(const char* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}
template <typename T>
void Store(char* to, T value) {
  std::memcpy(to, &value, sizeof(value));
}

char* PutVarint(char* to, uint64_t value) {
  while (value >= 0x80) {
    *to++ = static_cast<char>(value | 0x80);
    value >>= 7;
  }
  *to++ = static_cast<char>(value);
  return to;
}

uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

char* PutBytes(char* to, std::string_view bytes) {
  std::memcpy(to, bytes.data(), bytes.size());
  return to + bytes.size();
}

uint64_t LengthCode(const std::optional<std::string_view>& bytes) {
  return bytes.has_value() ? bytes->size() + 1 : 0;
}

// Of a block whose header lies at `header`.
uint64_t Checksum(const char* header, std::string_view records) {
  return XXH3_64bits_withSeed(records.data(), records.size(), XXH3_64bits(header, kChecksumOffset));
}

}  // namespace

void AppendKafkaFileHeader(std::string* out) {
  char bytes[kKafkaFileHeaderBytes] = {};
  std::memcpy(bytes, kMagic.data(), kMagic.size());
  Store(bytes + 8, kVersion);
  out->append(bytes, sizeof(bytes));
}

Status CheckKafkaFileHeader(std::string_view bytes) {
  if (bytes.size() < kKafkaFileHeaderBytes || !bytes.starts_with(kMagic)) {
    return DataLossError("is no file of Kafka records");
  }
  uint32_t version = Load<uint32_t>(bytes.data() + 8);
  if (version != kVersion) {
    return DataLossError(Concat("has version ", version, " of Kafka records, not ", kVersion));
  }
  if (Load<uint32_t>(bytes.data() + 12) != 0) return DataLossError("has a damaged header");
  return {};
}

void KafkaBlockWriter::Begin(int32_t partition, std::string* out, size_t bytes_hint) {
  out_ = out;
  used_ = begin_ = out->size();
  partition_ = partition;
  rows_ = 0;
  out_->resize(used_ + kKafkaBlockHeaderBytes + bytes_hint);
}

void KafkaBlockWriter::Add(const KafkaRecordView& record) {
  const size_t key_bytes = record.key.has_value() ? record.key->size() : 0;
  const size_t value_bytes = record.value.has_value() ? record.value->size() : 0;
  size_t bytes_max = 4 * kVarintBytesMax + key_bytes + value_bytes;
  for (const KafkaHeaderView& header : record.headers) {
    bytes_max += 2 * kVarintBytesMax + header.name.size() +
                 (header.value.has_value() ? header.value->size() : 0);
  }
  if (rows_ == 0) {
    begin_ = used_;
    used_ += kKafkaBlockHeaderBytes;
    base_ms_ = std::max<int64_t>(record.timestamp_ms, 0);
  }
  if (out_->size() < used_ + bytes_max) {
    out_->resize(std::max(used_ + bytes_max, out_->size() + out_->size() / 2));
  }
  char* to = out_->data() + used_;
  const bool has_timestamp = record.timestamp_ms >= 0;
  to = PutVarint(to, record.headers.size() * 2 + (has_timestamp ? 1 : 0));
  if (has_timestamp) to = PutVarint(to, ZigZag(record.timestamp_ms - base_ms_));
  to = PutVarint(to, LengthCode(record.key));
  to = PutVarint(to, LengthCode(record.value));
  if (key_bytes != 0) to = PutBytes(to, *record.key);
  if (value_bytes != 0) to = PutBytes(to, *record.value);
  for (const KafkaHeaderView& header : record.headers) {
    to = PutVarint(to, header.name.size());
    to = PutBytes(to, header.name);
    to = PutVarint(to, LengthCode(header.value));
    if (header.value.has_value()) to = PutBytes(to, *header.value);
  }
  used_ = static_cast<size_t>(to - out_->data());
  ++rows_;
  if (used_ - begin_ >= kKafkaBlockBytes + kKafkaBlockHeaderBytes) EndBlock();
}

void KafkaBlockWriter::EndBlock() {
  char* header = out_->data() + begin_;
  const std::string_view records(header + kKafkaBlockHeaderBytes,
                                 used_ - begin_ - kKafkaBlockHeaderBytes);
  WEIR_CHECK(records.size() <= UINT32_MAX);
  Store(header, static_cast<uint32_t>(records.size()));
  Store(header + 4, rows_);
  Store(header + 8, partition_);
  Store(header + 12, uint32_t{0});
  Store(header + 16, base_ms_);
  Store(header + kChecksumOffset, Checksum(header, records));
  rows_ = 0;
}

void KafkaBlockWriter::End() {
  if (rows_ != 0) EndBlock();
  out_->resize(used_);
}

StatusOr<bool> KafkaBlockReader::Next(KafkaBlock* block) {
  const std::string_view rest = bytes_.substr(used_);
  auto damaged = [&](std::string_view what) {
    return DataLossError(
        Concat(name_, ": ", what, " at offset ", offset_ + static_cast<int64_t>(used_)));
  };
  wanted_ = kKafkaBlockHeaderBytes;
  if (rest.size() < kKafkaBlockHeaderBytes) return false;
  const char* header = rest.data();
  const uint32_t bytes = Load<uint32_t>(header);
  block->rows = Load<uint32_t>(header + 4);
  block->partition = Load<int32_t>(header + 8);
  block->base_ms = Load<int64_t>(header + 16);
  block->checksum = Load<uint64_t>(header + kChecksumOffset);
  // Each record has three bytes or more. Seen before anything is read or allocated for it.
  if (block->rows == 0 || bytes / 3 < block->rows || block->partition < 0 || block->base_ms < 0 ||
      Load<uint32_t>(header + 12) != 0 || bytes > kKafkaBlockBytes + 2 * kKafkaRecordBytesMax) {
    return damaged("no block of records");
  }
  wanted_ = kKafkaBlockHeaderBytes + bytes;
  if (rest.size() < wanted_) return false;
  block->records = rest.substr(kKafkaBlockHeaderBytes, bytes);
  block->records_offset = offset_ + static_cast<int64_t>(used_ + kKafkaBlockHeaderBytes);
  if (Checksum(header, block->records) != block->checksum) {
    return damaged("a block of records with a wrong checksum");
  }
  used_ += wanted_;
  return true;
}

bool KafkaRecordReader::Damaged(std::string_view what) {
  status_ = DataLossError(Concat("records: ", what, " at offset ", offset_ + (next_ - begin_)));
  return false;
}

bool KafkaRecordReader::ReadVarint(uint64_t* value) {
  if (next_ == end_) return Damaged("a record is cut off");
  uint64_t byte = static_cast<uint8_t>(*next_++);
  *value = byte & 0x7f;
  for (int shift = 7; byte >= 0x80; shift += 7) {
    if (next_ == end_) return Damaged("a record is cut off");
    byte = static_cast<uint8_t>(*next_++);
    if (byte == 0 || shift > 63 || (shift == 63 && byte > 1)) return Damaged("no number");
    *value |= (byte & 0x7f) << shift;
  }
  return true;
}

bool KafkaRecordReader::ReadLength(int64_t* length) {
  uint64_t code = 0;
  if (!ReadVarint(&code)) return false;
  if (code > static_cast<uint64_t>(end_ - next_) + 1) return Damaged("a length too large");
  *length = static_cast<int64_t>(code) - 1;
  return true;
}

std::optional<std::string_view> KafkaRecordReader::Take(int64_t length) {
  if (length < 0) return std::nullopt;
  std::string_view bytes(next_, static_cast<size_t>(length));
  next_ += length;
  return bytes;
}

bool KafkaRecordReader::Next(KafkaRecordView* record) {
  if (!status_.ok()) return false;
  if (rows_left_ == 0) {
    if (next_ != end_) return Damaged("bytes behind the last record");
    return false;
  }
  --rows_left_;
  uint64_t head = 0;
  if (!ReadVarint(&head)) return false;
  const uint64_t headers = head / 2;
  record->timestamp_ms = -1;
  if ((head & 1) != 0) {
    uint64_t delta = 0;
    if (!ReadVarint(&delta)) return false;
    if (__builtin_add_overflow(base_ms_, UnZigZag(delta), &record->timestamp_ms) ||
        record->timestamp_ms < 0) {
      return Damaged("no timestamp");
    }
  }
  int64_t key_bytes = 0;
  int64_t value_bytes = 0;
  if (!ReadLength(&key_bytes) || !ReadLength(&value_bytes)) return false;
  if (std::max<int64_t>(key_bytes, 0) + std::max<int64_t>(value_bytes, 0) > end_ - next_) {
    return Damaged("a length too large");
  }
  record->key = Take(key_bytes);
  record->value = Take(value_bytes);
  if (headers == 0) {
    record->headers = {};
    return true;
  }
  // Each has two bytes or more.
  if (headers > static_cast<uint64_t>(end_ - next_) / 2) return Damaged("too many headers");
  headers_.clear();
  for (uint64_t i = 0; i < headers; ++i) {
    uint64_t name_bytes = 0;
    if (!ReadVarint(&name_bytes)) return false;
    if (name_bytes > static_cast<uint64_t>(end_ - next_)) return Damaged("a length too large");
    KafkaHeaderView header;
    header.name = *Take(static_cast<int64_t>(name_bytes));
    int64_t length = 0;
    if (!ReadLength(&length)) return false;
    if (length > end_ - next_) return Damaged("a length too large");
    header.value = Take(length);
    headers_.push_back(header);
  }
  record->headers = headers_;
  return true;
}

}  // namespace weir
