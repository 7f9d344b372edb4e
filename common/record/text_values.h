#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "common/record/schema.h"

// Single values as text, the same in every text format (surface.md, "Formats").
namespace weir {

// Parse the whole of `text`; false when it is not exactly one value of the type in range.
bool ParseBool(std::string_view text, bool* value);      // true, false
bool ParseInt32(std::string_view text, int32_t* value);  // decimal digits, '-' in front or not
bool ParseInt64(std::string_view text, int64_t* value);
// A decimal number, "NaN", "Infinity", "-Infinity". A number too large is refused, one too small 0.
bool ParseFloat64(std::string_view text, double* value);
// `2013-01-01T10:00:00Z`, up to 6 fractional digits, `+hh:mm` or `-hh:mm` in place of Z, into
// microseconds since the Unix epoch, UTC. Proleptic Gregorian calendar; years outside 0000 to 9999
// have a sign and six digits.
bool ParseTimestamp(std::string_view text, int64_t* timestamp_us);
// Base64 of RFC 4648, padded, nothing else between; replaces `value`.
bool ParseBase64(std::string_view text, std::string* value);

// Most bytes that the writers below put down.
inline constexpr size_t kIntegerTextBytesMax = 20;
inline constexpr size_t kFloat64TextBytesMax = 32;
inline constexpr size_t kTimestampTextBytesMax = 32;
inline constexpr size_t Base64TextBytes(size_t bytes) { return (bytes + 2) / 3 * 4; }

// Write the value at `out`, which has room for the most bytes, and return the end.
char* WriteInteger(int64_t value, char* out);
// Shortest text that reads back the same; "NaN", "Infinity", "-Infinity".
char* WriteFloat64(double value, char* out);
// UTC with Z; a fraction only when there is one, without zeros at its end.
char* WriteTimestamp(int64_t timestamp_us, char* out);
char* WriteBase64(std::string_view value, char* out);

// What a text of `type` has to look like, for messages: "an integer from … to …".
std::string_view ExpectedText(Type type);
// `text` in quotes for a message: long ones cut, control characters, a byte order mark at the
// begin, and bytes beyond ASCII unless all of it is valid UTF-8 as \xNN.
std::string QuoteForMessage(std::string_view text);

// Whether every byte is ASCII or part of a valid UTF-8 sequence. Fast for ASCII.
bool IsValidUtf8(std::string_view text);

}  // namespace weir
