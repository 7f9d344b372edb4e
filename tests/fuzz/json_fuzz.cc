// Bytes as a JSON file: however it is cut, the same rows and bad rows, to its end.
#include <string>

#include "common/base/check.h"
#include "common/record/json_format.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/unit/record/text_reader.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir;
  fuzz::Input input(data, size);
  const uint8_t kind = input.TakeByte();
  const size_t chunk = size_t{1} + input.TakeByte() % 64;
  const SchemaPtr schema =
      kind % 2 == 0
          ? SampleSchema()
          : std::make_shared<Schema>(std::vector<Field>{{"a", Type::kInt64}, {"s", Type::kString}});
  const std::string text(input.rest());
  const auto read = [&](size_t bytes, int64_t rows_max) {
    const auto decoder = MakeJsonDecoder(schema);
    return ReadAll(decoder.get(), schema, text, bytes, rows_max);
  };
  const ReadText whole = read(text.size() + 1, 1000);
  const ReadText cut = read(chunk, 3);
  WEIR_CHECK(whole.error.message() == cut.error.message());
  if (!whole.error.ok()) return 0;  // of the header
  WEIR_CHECK(whole.rows == cut.rows);
  WEIR_CHECK(whole.bad_rows == cut.bad_rows);
  WEIR_CHECK(whole.positions.empty() || whole.positions.back() == text.size());
  WEIR_CHECK(cut.positions.empty() || cut.positions.back() == text.size());
  return 0;
}
