#include "worker/connectors/kafka/source/kafka_row_decoder.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/record/csv_format.h"
#include "common/record/json_format.h"
#include "common/record/text_values.h"

namespace weir {
namespace {

// Decoded together; they fit into the nearest cache, and one bad row costs so many again.
constexpr size_t kTogether = 128;

std::string_view WithoutLineEnd(std::string_view value) {
  if (value.ends_with('\n')) value.remove_suffix(1);
  return value;
}

bool MayBeBad(KafkaMetadata what) {
  return what == KafkaMetadata::kKey || what == KafkaMetadata::kHeader ||
         what == KafkaMetadata::kHeaders || what == KafkaMetadata::kTimestamp;
}

// Line ends between the tokens of a JSON value mean nothing, so that it can stand on one line;
// within a text they are an error, and stay one.
void JoinJsonLines(std::string* value) {
  bool in_text = false;
  for (size_t i = 0; i < value->size(); ++i) {
    char& c = (*value)[i];
    if (c == '"') {
      in_text = !in_text;
    } else if (c == '\\') {
      ++i;
    } else if (c == '\n') {
      c = in_text ? '\x01' : ' ';
    }
  }
  // Behind a backslash it is not looked at above.
  std::replace(value->begin(), value->end(), '\n', '\x01');
}

void AppendJsonText(std::string_view text, std::string* out) {
  *out += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      *out += '\\';
      *out += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      *out += "\\u00";
      *out += "0123456789abcdef"[c >> 4];
      *out += "0123456789abcdef"[c & 0xf];
    } else {
      *out += c;
    }
  }
  *out += '"';
}

void AppendBase64(std::string_view bytes, std::string* out) {
  const size_t before = out->size();
  out->resize(before + Base64TextBytes(bytes.size()));
  WriteBase64(bytes, out->data() + before);
}

}  // namespace

KafkaRowDecoder::KafkaRowDecoder(const KafkaSourceConfig& config, SchemaPtr output, Headers headers,
                                 PartitionOf partition_of, BadRow bad_row)
    : format_(config.format),
      metadata_(config.metadata),
      output_(std::move(output)),
      headers_of_(std::move(headers)),
      partition_of_(std::move(partition_of)),
      bad_row_(std::move(bad_row)),
      values_(metadata_.empty() ? output_ : std::make_shared<const Schema>(config.values)) {
  if (format_ == KafkaFormat::kJson) decoder_ = MakeJsonDecoder(values_.schema());
  if (format_ == KafkaFormat::kCsv) decoder_ = MakeCsvDecoder(values_.schema(), {.header = false});
  if (decoder_ != nullptr) {
    const std::string none(kTextPadding, '\0');
    WEIR_CHECK(decoder_->Start({none.data(), 0}, true).ok());
  }
  for (const KafkaMetadataColumn& column : metadata_) {
    metadata_columns_.emplace_back(TypeOf(column.what));
    metadata_may_be_bad_ = metadata_may_be_bad_ || MayBeBad(column.what);
  }
}

RecordBatch KafkaRowDecoder::Finish() {
  RecordBatch values = values_.Finish();
  if (metadata_columns_.empty()) return values;
  std::vector<Column> columns;
  columns.reserve(static_cast<size_t>(output_->size()));
  for (int i = 0; i < values.columns(); ++i) columns.push_back(values.column(i));
  for (ColumnBuilder& column : metadata_columns_) columns.push_back(column.Finish());
  return RecordBatch(output_, values.rows(), std::move(columns));
}

Status KafkaRowDecoder::Decode(std::span<const KafkaMessage* const> messages) {
  size_t begin = 0;
  while (begin < messages.size()) {
    // Up to one that goes another way.
    size_t end = begin;
    Status bad;
    while (end < messages.size()) {
      if (metadata_may_be_bad_) {
        bad = CheckMetadata(*messages[end]);
        if (!bad.ok()) break;
      }
      if (format_ != KafkaFormat::kRaw && !messages[end]->has_value()) break;
      ++end;
    }
    const auto run = messages.subspan(begin, end - begin);
    WEIR_RETURN_IF_ERROR(format_ == KafkaFormat::kRaw ? DecodeRaw(run) : DecodeTexts(run));
    begin = end;
    if (begin == messages.size()) break;
    if (!bad.ok()) {
      WEIR_RETURN_IF_ERROR(bad_row_(*messages[begin], bad));
    } else {
      AppendNulls();
      AppendMetadata(messages.subspan(begin, 1));
    }
    ++begin;
  }
  return {};
}

Status KafkaRowDecoder::DecodeRaw(std::span<const KafkaMessage* const> messages) {
  ColumnBuilder& column = values_.column(0);
  for (const KafkaMessage* message : messages) {
    if (message->has_value()) {
      column.AppendText(message->value);
    } else {
      column.AppendNull();
    }
  }
  AppendMetadata(messages);
  return {};
}

Status KafkaRowDecoder::DecodeTexts(std::span<const KafkaMessage* const> messages) {
  while (!messages.empty()) {
    const auto run = messages.first(std::min(messages.size(), kTogether));
    messages = messages.subspan(run.size());
    if (DecodeTogether(run)) {
      AppendMetadata(run);
      continue;
    }
    for (const KafkaMessage* message : run) WEIR_RETURN_IF_ERROR(DecodeAlone(*message));
  }
  return {};
}

bool KafkaRowDecoder::DecodeTogether(std::span<const KafkaMessage* const> messages) {
  size_t bytes = 0;
  for (const KafkaMessage* message : messages) bytes += message->value.size() + 1;
  if (bytes > kTextRowBytesMax) return false;
  if (text_.size() < bytes + kTextPadding) text_.resize(bytes + kTextPadding);
  char* at = text_.data();
  for (const KafkaMessage* message : messages) {
    const std::string_view value = WithoutLineEnd(message->value);
    std::memcpy(at, value.data(), value.size());
    at += value.size();
    *at++ = '\n';
  }
  const std::string_view text(text_.data(), static_cast<size_t>(at - text_.data()));
  const int64_t rows_before = values_.rows();
  const DecodeResult result = decoder_->Decode(text, true, {}, &values_);
  // Each row takes a line end at least. So with as many rows and as many line ends as values, there
  // is none within a value, and each value is one row.
  const int64_t count = static_cast<int64_t>(messages.size());
  if (result.bad_row.ok() && result.error.ok() && result.rows == count &&
      result.done.lines == count && result.done.bytes == text.size()) {
    return true;
  }
  values_.Truncate(rows_before);
  return false;
}

Status KafkaRowDecoder::DecodeAlone(const KafkaMessage& message) {
  const Status why = AppendAlone(message);
  if (!why.ok()) return bad_row_(message, why);
  const KafkaMessage* const one[] = {&message};
  AppendMetadata(one);
  return {};
}

Status KafkaRowDecoder::AppendAlone(const KafkaMessage& message) {
  text_ = WithoutLineEnd(message.value);
  if (format_ == KafkaFormat::kJson) JoinJsonLines(&text_);
  text_ += '\n';
  const size_t bytes = text_.size();
  text_.append(kTextPadding, '\0');
  const int64_t rows_before = values_.rows();
  const DecodeResult result = decoder_->Decode({text_.data(), bytes}, true, {}, &values_);
  Status why = result.bad_row.ok() ? result.error : result.bad_row;
  if (why.ok() && result.rows == 0) {
    why = InvalidArgumentError("the value is blank, which is no row");
  }
  if (why.ok() && result.rows > 1) {
    why = InvalidArgumentError(Concat("the value holds ", result.rows, " rows, not one"));
  }
  if (!why.ok()) values_.Truncate(rows_before);
  return why;
}

void KafkaRowDecoder::AppendNulls() {
  for (int i = 0; i < values_.schema()->size(); ++i) values_.column(i).AppendNull();
}

Status KafkaRowDecoder::CheckMetadata(const KafkaMessage& message) {
  for (const KafkaMetadataColumn& column : metadata_) {
    if (column.what == KafkaMetadata::kKey && !IsValidUtf8(message.key)) {
      return InvalidArgumentError(Concat(
          "column '", column.name,
          "': the key is no valid UTF-8 (key_bytes takes any): ", QuoteForMessage(message.key)));
    }
    if (column.what == KafkaMetadata::kTimestamp && message.timestamp_ms > kTimestampMsMax) {
      return InvalidArgumentError(Concat("column '", column.name,
                                         "': the timestamp of the message, ", message.timestamp_ms,
                                         " ms, is more than a TIMESTAMP can hold"));
    }
    if (column.what != KafkaMetadata::kHeader && column.what != KafkaMetadata::kHeaders) continue;
    headers_of_(message, &headers_);
    if (column.what == KafkaMetadata::kHeader) {
      const KafkaMessageHeader* last = LastHeader(column.header);
      if (last == nullptr || IsValidUtf8(last->value)) continue;
      return InvalidArgumentError(
          Concat("column '", column.name, "': the header '", column.header,
                 "' is no valid UTF-8 (header_bytes takes any): ", QuoteForMessage(last->value)));
    }
    for (const KafkaMessageHeader& header : headers_) {
      if (!IsValidUtf8(header.name)) {
        return InvalidArgumentError(
            Concat("column '", column.name,
                   "': the name of a header is no valid UTF-8: ", QuoteForMessage(header.name)));
      }
    }
  }
  return {};
}

void KafkaRowDecoder::AppendMetadata(std::span<const KafkaMessage* const> messages) {
  for (size_t i = 0; i < metadata_.size(); ++i) {
    const KafkaMetadataColumn& what = metadata_[i];
    ColumnBuilder& column = metadata_columns_[i];
    for (const KafkaMessage* message : messages) {
      switch (what.what) {
        case KafkaMetadata::kKey:
        case KafkaMetadata::kKeyBytes:
          if (message->has_key()) {
            column.AppendText(message->key);
          } else {
            column.AppendNull();
          }
          break;
        case KafkaMetadata::kTopic:
          column.AppendText(partition_of_(message->tag).topic);
          break;
        case KafkaMetadata::kPartition:
          column.AppendInt32(partition_of_(message->tag).partition);
          break;
        case KafkaMetadata::kOffset:
          column.AppendInt64(message->offset);
          break;
        case KafkaMetadata::kTimestamp:
          if (message->timestamp_ms >= 0) {
            column.AppendInt64(message->timestamp_ms * kMicrosOfMilli);
          } else {
            column.AppendNull();
          }
          break;
        case KafkaMetadata::kHeaders:
        case KafkaMetadata::kHeader:
        case KafkaMetadata::kHeaderBytes:
          AppendHeaders(*message, what, &column);
          break;
      }
    }
  }
}

const KafkaMessageHeader* KafkaRowDecoder::LastHeader(std::string_view name) const {
  const auto last =
      std::find_if(headers_.rbegin(), headers_.rend(),
                   [&](const KafkaMessageHeader& header) { return header.name == name; });
  return last == headers_.rend() ? nullptr : &*last;
}

void KafkaRowDecoder::AppendHeaders(const KafkaMessage& message, const KafkaMetadataColumn& what,
                                    ColumnBuilder* column) {
  headers_of_(message, &headers_);
  if (what.what != KafkaMetadata::kHeaders) {
    const KafkaMessageHeader* last = LastHeader(what.header);
    if (last == nullptr || last->value.data() == nullptr) {
      column->AppendNull();
    } else {
      column->AppendText(last->value);
    }
    return;
  }
  std::string json = "[";
  for (const KafkaMessageHeader& header : headers_) {
    json += json.size() > 1 ? ",{\"name\":" : "{\"name\":";
    AppendJsonText(header.name, &json);
    if (header.value.data() == nullptr) {
      json += ",\"value\":null}";
    } else if (IsValidUtf8(header.value)) {
      json += ",\"value\":";
      AppendJsonText(header.value, &json);
      json += '}';
    } else {
      json += ",\"bytes\":\"";
      AppendBase64(header.value, &json);
      json += "\"}";
    }
  }
  json += ']';
  column->AppendText(json);
}

}  // namespace weir
