#include "common/record/csv_format.h"

#include <bit>
#include <cstring>
#include <utility>
#include <vector>

#include "common/base/names.h"
#include "common/record/plain_rows.h"
#include "common/record/row_writer.h"
#include "common/record/text_scan.h"
#include "common/record/text_values.h"

namespace weir {
namespace {

static_assert(std::endian::native == std::endian::little);

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
constexpr char kQuote = '"';
static_assert(kTextRowBytesMax == 67108864);
constexpr std::string_view kRowTooLong = "a row is longer than 67108864 bytes";

// ---- rows of fields ----------------------------------------------------------------------------

// Finds commas, line ends and quotes, eight bytes at a time. May read 8 bytes behind the end.
class SpecialFinder {
 public:
  SpecialFinder(const char* begin, const char* end) : at_(begin), end_(end), mask_(Mask(begin)) {}

  // The next one; the end when there is none.
  const char* Next() {
    while (mask_ == 0) {
      at_ += sizeof(mask_);
      if (at_ >= end_) return end_;
      mask_ = Mask(at_);
    }
    const char* special = at_ + (std::countr_zero(mask_) >> 3);
    mask_ &= mask_ - 1;
    return special < end_ ? special : end_;
  }

 private:
  // The high bit of each byte of `word` that is `c`; exact, no carry from byte to byte.
  static uint64_t Matches(uint64_t word, uint8_t c) {
    constexpr uint64_t kOnes = 0x0101010101010101;
    constexpr uint64_t kLowBits = 0x7f7f7f7f7f7f7f7f;
    const uint64_t difference = word ^ (kOnes * c);
    return ~(((difference & kLowBits) + kLowBits) | difference | kLowBits);
  }
  static uint64_t Mask(const char* at) {
    uint64_t word;
    std::memcpy(&word, at, sizeof(word));
    return Matches(word, ',') | Matches(word, '\n') | Matches(word, kQuote);
  }

  const char* at_;
  const char* end_;
  uint64_t mask_;
};

struct CsvField {
  std::string_view text;  // without the quotes around it, doubled quotes still doubled
  bool quoted = false;
  bool doubled_quotes = false;
};

// Splits one row into fields.
class RowScanner {
 public:
  enum class Outcome { kRow, kBad, kIncomplete };

  // Keeps the first `fields_max` fields and counts the rest. REQUIRES: begin < end, and
  // kTextPadding readable bytes behind the end.
  Outcome Scan(const char* begin, const char* end, bool last, size_t fields_max) {
    fields_.clear();
    field_count_ = 0;
    lines_ = 0;
    problem_ = {};
    end_ = end;
    last_ = last;
    SpecialFinder finder(begin, end);
    const char* start = begin;
    while (true) {
      CsvField field;
      const char* stop =
          start < end && *start == kQuote ? QuotedField(start, &finder, &field) : finder.Next();
      if (!problem_.empty()) return EndBadRow(begin);
      if (stop == nullptr || (stop == end && !last)) return Outcome::kIncomplete;
      if (!field.quoted) {
        if (stop < end && *stop == kQuote) {
          problem_ = "a quote stands in a field that does not begin with one";
          return EndBadRow(begin);
        }
        field.text = {start, static_cast<size_t>(stop - start)};
      }
      const bool row_ends = stop == end || *stop == '\n';
      if (row_ends && !field.quoted && field.text.ends_with('\r')) field.text.remove_suffix(1);
      if (field_count_ < fields_max) fields_.push_back(field);
      ++field_count_;
      if (row_ends) {
        next_ = stop;
        TakeLineEnd();
        return Outcome::kRow;
      }
      start = stop + 1;
    }
  }

  const std::vector<CsvField>& fields() const { return fields_; }
  size_t field_count() const { return field_count_; }
  // Behind the row and its line end, good or bad.
  const char* next() const { return next_; }
  int64_t lines() const { return lines_; }
  // Why the row is bad.
  std::string_view problem() const { return problem_; }

  // The row at `begin` is too long: its first line is a bad row. False: that line has no end here.
  bool EndLongRow(const char* begin, const char* end) {
    end_ = end;
    last_ = false;
    problem_ = kRowTooLong;
    return EndBadRow(begin) == Outcome::kBad;
  }

 private:
  // Reads a field whose opening quote is at `start`. The comma or line end behind it, or the end;
  // nullptr: incomplete, or problem_ is set.
  const char* QuotedField(const char* start, SpecialFinder* finder, CsvField* field) {
    finder->Next();  // the opening quote
    field->quoted = true;
    while (true) {
      const char* special = finder->Next();
      if (special == end_) {
        if (last_) problem_ = "a quote is not closed";
        return nullptr;
      }
      if (*special == '\n') ++lines_;
      if (*special != kQuote) continue;
      const char* behind = special + 1;
      if (behind < end_ && *behind == kQuote) {
        field->doubled_quotes = true;
        finder->Next();
        continue;
      }
      field->text = {start + 1, static_cast<size_t>(special - start - 1)};
      if (behind < end_ && *behind == '\r') {
        ++behind;
        if (behind < end_ && *behind != '\n') --behind;
      }
      if (behind < end_ && *behind != ',' && *behind != '\n') {
        problem_ = "text stands behind a closing quote";
        return nullptr;
      }
      if (behind < end_) finder->Next();
      return behind;
    }
  }

  Outcome EndBadRow(const char* begin) {
    const void* line_end = std::memchr(begin, '\n', static_cast<size_t>(end_ - begin));
    if (line_end == nullptr && !last_) return Outcome::kIncomplete;
    lines_ = 0;
    next_ = line_end != nullptr ? static_cast<const char*>(line_end) : end_;
    TakeLineEnd();
    return Outcome::kBad;
  }

  void TakeLineEnd() {
    if (next_ == end_) return;
    ++next_;
    ++lines_;
  }

  std::vector<CsvField> fields_;
  size_t field_count_ = 0;
  int64_t lines_ = 0;
  std::string_view problem_;
  const char* next_ = nullptr;
  const char* end_ = nullptr;
  bool last_ = false;
};

// The text of a field that has doubled quotes, into `scratch`.
std::string_view Unquote(std::string_view text, std::string* scratch) {
  scratch->clear();
  for (size_t i = 0; i < text.size(); ++i) {
    scratch->push_back(text[i]);
    if (text[i] == kQuote) ++i;  // the second of two
  }
  return *scratch;
}

// ---- the header --------------------------------------------------------------------------------

struct Header {
  std::vector<std::string> names;
  TextProgress done;
};

Status RowTooLong() { return InvalidArgumentError(std::string(kRowTooLong)); }

// nullopt: needs more bytes. Of an empty file: no names. `bytes` need no padding.
StatusOr<std::optional<Header>> ReadHeader(std::string_view bytes, bool last, bool names_fields) {
  Header header;
  const std::string_view mark = bytes.substr(0, kByteOrderMark.size());
  if (mark == kByteOrderMark) {
    header.done.bytes = mark.size();
  } else if (!last && mark.size() < kByteOrderMark.size() && kByteOrderMark.starts_with(mark)) {
    return std::optional<Header>();
  }
  if (!names_fields) return std::optional<Header>(std::move(header));
  const std::string_view rest = bytes.substr(header.done.bytes);
  if (rest.empty()) return last ? std::optional<Header>(std::move(header)) : std::nullopt;
  std::string padded(rest.substr(0, kTextRowBytesMax + 1));
  padded.append(kTextPadding, '\0');
  const char* begin = padded.data();
  const char* end = begin + (padded.size() - kTextPadding);
  RowScanner scanner;
  const bool whole = last && static_cast<size_t>(end - begin) == rest.size();
  switch (scanner.Scan(begin, end, whole, kTextRowBytesMax)) {
    case RowScanner::Outcome::kIncomplete:
      if (static_cast<size_t>(end - begin) > kTextRowBytesMax) {
        return RowTooLong().WithContext("cannot read the header");
      }
      return std::optional<Header>();
    case RowScanner::Outcome::kBad:
      return InvalidArgumentError("cannot read the header: " + std::string(scanner.problem()));
    case RowScanner::Outcome::kRow:
      break;
  }
  const size_t row_bytes = static_cast<size_t>(scanner.next() - begin);
  if (!IsValidUtf8({begin, row_bytes})) {
    return InvalidArgumentError("cannot read the header: it is not valid UTF-8");
  }
  for (const CsvField& field : scanner.fields()) {
    std::string scratch;
    header.names.emplace_back(field.doubled_quotes ? Unquote(field.text, &scratch) : field.text);
  }
  header.done.bytes += row_bytes;
  header.done.lines = scanner.lines();
  return std::optional<Header>(std::move(header));
}

std::string List(const std::vector<std::string>& names) {
  std::string out;
  for (const std::string& name : names) {
    if (!out.empty()) out += ", ";
    out += name;
  }
  return out;
}

// ---- the decoder -------------------------------------------------------------------------------

class CsvDecoder : public TextDecoder {
 public:
  CsvDecoder(SchemaPtr schema, const CsvOptions& options)
      : schema_(std::move(schema)), options_(options) {}

  StatusOr<std::optional<TextProgress>> Start(std::string_view bytes, bool last) override {
    WEIR_ASSIGN_OR_RETURN(std::optional<Header> header, ReadHeader(bytes, last, options_.header));
    if (!header.has_value()) return std::optional<TextProgress>();
    sources_.clear();
    field_count_ = static_cast<size_t>(schema_->size());
    if (!options_.header) {
      for (size_t i = 0; i < field_count_; ++i) sources_.push_back(i);
    } else if (!header->names.empty()) {
      field_count_ = header->names.size();
      for (const Field& field : schema_->fields()) {
        WEIR_ASSIGN_OR_RETURN(const size_t source, FindField(header->names, field.name));
        sources_.push_back(source);
      }
    }
    std::vector<int> columns(field_count_, PlainCsvReader::kNoColumn);
    for (size_t i = 0; i < sources_.size(); ++i) columns[sources_[i]] = static_cast<int>(i);
    plain_.emplace(std::move(columns));
    return std::optional<TextProgress>(header->done);
  }

  DecodeResult Decode(std::string_view bytes, bool last, const DecodeLimits& limits,
                      BatchBuilder* out) override {
    DecodeResult result;
    const char* begin = bytes.data();
    const char* end = begin + bytes.size();
    const char* at = begin;
    const char* measure_at = at;
    const int64_t rows_before = out->rows();
    const char* last_line_end =
        static_cast<const char*>(::memrchr(begin, '\n', static_cast<size_t>(end - begin)));
    Utf8Check utf8(bytes);
    while (at < end && result.rows < limits.rows_max) {
      if (at >= measure_at) {
        if (out->byte_size() >= limits.bytes_max) break;
        measure_at = at + kMeasureEveryBytes;
      }
      if (last_line_end != nullptr && at <= last_line_end) {
        const char* next =
            ReadPlainRow(at, *plain_, plain_tries_, utf8, rows_before + result.rows, out);
        if (next != nullptr) {
          at = next;
          ++result.done.lines;
          ++result.rows;
          continue;
        }
      }
      // What is further away must not count, or the rows would depend on how much was read.
      const char* row_stop =
          static_cast<size_t>(end - at) > kTextRowBytesMax ? at + kTextRowBytesMax : end;
      RowScanner::Outcome outcome =
          scanner_.Scan(at, row_stop, last && row_stop == end, field_count_);
      if (outcome == RowScanner::Outcome::kIncomplete) {
        if (row_stop == end) break;
        if (!scanner_.EndLongRow(at, row_stop)) {
          result.error = RowTooLong();
          break;
        }
        outcome = RowScanner::Outcome::kBad;
      }
      const char* row_end = scanner_.next();
      const TextProgress before{static_cast<size_t>(at - begin), result.done.lines};
      result.done.lines += scanner_.lines();
      result.bad_row = outcome == RowScanner::Outcome::kBad
                           ? InvalidArgumentError(std::string(scanner_.problem()))
                           : AppendRow({at, static_cast<size_t>(row_end - at)}, out);
      at = row_end;
      if (!result.bad_row.ok()) {
        out->Truncate(rows_before + result.rows);
        result.before_bad_row = before;
        break;
      }
      ++result.rows;
    }
    result.done.bytes = static_cast<size_t>(at - begin);
    return result;
  }

 private:
  static constexpr size_t kMeasureEveryBytes = 4096;

  static StatusOr<size_t> FindField(const std::vector<std::string>& names,
                                    const std::string& name) {
    std::optional<size_t> found;
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] != name) continue;
      if (found.has_value()) {
        return InvalidArgumentError("the header names the field '" + name + "' twice");
      }
      found = i;
    }
    if (found.has_value()) return *found;
    const std::string nearest = NearestName(name, names);
    return InvalidArgumentError("the header has no field '" + name + "'" +
                                (nearest.empty() ? "" : "; did you mean '" + nearest + "'?") +
                                " It names: " + List(names));
  }

  Status AppendRow(std::string_view row, BatchBuilder* out) {
    if (scanner_.field_count() != field_count_) {
      return InvalidArgumentError("the row has " + std::to_string(scanner_.field_count()) +
                                  " fields: expected " + std::to_string(field_count_));
    }
    if (!IsValidUtf8(row)) {
      return InvalidArgumentError("the row is not valid UTF-8: " + QuoteForMessage(row));
    }
    for (size_t i = 0; i < sources_.size(); ++i) {
      const CsvField& field = scanner_.fields()[sources_[i]];
      ColumnBuilder& column = out->column(static_cast<int>(i));
      if (field.text.empty() && !field.quoted) {
        column.AppendNull();
        continue;
      }
      const std::string_view text =
          field.doubled_quotes ? Unquote(field.text, &unquoted_) : field.text;
      if (!AppendCsvValue(text, &column, &bytes_)) {
        return InvalidArgumentError("column '" + schema_->field(static_cast<int>(i)).name +
                                    "': " + QuoteForMessage(text) + " is no " +
                                    std::string(ToString(column.type())) + ": expected " +
                                    std::string(ExpectedText(column.type())));
      }
    }
    return {};
  }

  const SchemaPtr schema_;
  const CsvOptions options_;
  std::vector<size_t> sources_;          // per column: its field
  size_t field_count_ = 0;               // of each row
  std::optional<PlainCsvReader> plain_;  // tried first; set once the header was read
  PlainTries plain_tries_;
  RowScanner scanner_;
  std::string unquoted_;
  std::string bytes_;
};

// ---- the encoder -------------------------------------------------------------------------------

bool NeedsQuotes(std::string_view text) {
  if (text.empty()) return true;
  for (const char c : text) {
    if (c == ',' || c == kQuote || c == '\n' || c == '\r') return true;
  }
  return false;
}

// REQUIRES: room for 2 * text.size() + 2 bytes.
char* WriteCsvText(std::string_view text, char* out) {
  if (!NeedsQuotes(text)) {
    std::memcpy(out, text.data(), text.size());
    return out + text.size();
  }
  *out++ = kQuote;
  for (const char c : text) {
    *out++ = c;
    if (c == kQuote) *out++ = kQuote;
  }
  *out++ = kQuote;
  return out;
}

char* WriteCsvValue(const Column& column, int64_t row, char* out) {
  switch (column.type()) {
    case Type::kBool: {
      const std::string_view text = column.Bool(row) ? "true" : "false";
      std::memcpy(out, text.data(), text.size());
      return out + text.size();
    }
    case Type::kInt32:
      return WriteInteger(column.Int32(row), out);
    case Type::kInt64:
      return WriteInteger(column.Int64(row), out);
    case Type::kFloat64:
      return WriteFloat64(column.Float64(row), out);
    case Type::kString:
      return WriteCsvText(column.Text(row), out);
    case Type::kBytes: {
      const std::string_view bytes = column.Text(row);
      return bytes.empty() ? WriteCsvText(bytes, out) : WriteBase64(bytes, out);
    }
    case Type::kTimestamp:
      return WriteTimestamp(column.Int64(row), out);
  }
  return out;
}

}  // namespace

std::unique_ptr<TextDecoder> MakeCsvDecoder(SchemaPtr schema, const CsvOptions& options) {
  return std::make_unique<CsvDecoder>(std::move(schema), options);
}

StatusOr<std::optional<Schema>> ReadCsvSchema(std::string_view bytes, bool last) {
  WEIR_ASSIGN_OR_RETURN(std::optional<Header> header, ReadHeader(bytes, last, true));
  if (!header.has_value()) return std::optional<Schema>();
  if (header->names.empty()) return InvalidArgumentError("cannot read the header: no bytes");
  std::vector<Field> fields;
  for (std::string& name : header->names) fields.push_back({std::move(name), Type::kString});
  StatusOr<Schema> schema = Schema::Make(std::move(fields));
  if (!schema.ok()) return schema.status().WithContext("cannot use the header");
  return std::optional<Schema>(std::move(schema).value());
}

void AppendCsvHeader(const Schema& schema, std::string* out) {
  RowWriter writer(out, 0);
  for (int i = 0; i < schema.size(); ++i) {
    const std::string& name = schema.field(i).name;
    char* at = writer.Reserve(2 * name.size() + 3);
    if (i > 0) *at++ = ',';
    writer.Commit(WriteCsvText(name, at));
  }
  char* at = writer.Reserve(1);
  *at++ = '\n';
  writer.Commit(at);
  writer.Close();
}

void AppendCsvRows(const RecordBatch& batch, std::string* out, std::vector<size_t>* row_ends) {
  // Of each value: its comma or line end, and the longest text of fixed width.
  constexpr size_t kValueBytesMax = kTimestampTextBytesMax + 1;
  static_assert(kFloat64TextBytesMax <= kTimestampTextBytesMax);
  static_assert(kIntegerTextBytesMax <= kTimestampTextBytesMax);
  const int columns = batch.columns();
  std::vector<int> texts;
  for (int i = 0; i < columns; ++i) {
    if (IsVariableWidth(batch.column(i).type())) texts.push_back(i);
  }
  const size_t fixed_bytes = static_cast<size_t>(columns) * kValueBytesMax + 1;
  RowWriter writer(out, static_cast<size_t>(batch.ByteSize()) + fixed_bytes);
  for (int64_t row = 0; row < batch.rows(); ++row) {
    size_t bytes = fixed_bytes;
    for (const int i : texts) bytes += 2 * batch.column(i).Text(row).size();
    char* at = writer.Reserve(bytes);
    for (int i = 0; i < columns; ++i) {
      if (i > 0) *at++ = ',';
      const Column& column = batch.column(i);
      if (!column.IsNull(row)) at = WriteCsvValue(column, row, at);
    }
    *at++ = '\n';
    writer.Commit(at);
    if (row_ends != nullptr) row_ends->push_back(writer.used());
  }
  writer.Close();
}

}  // namespace weir
