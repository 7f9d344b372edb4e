// Bytes as an encoded batch: an error, or a batch that can be read and encodes to what it is.
#include <string>

#include "common/base/check.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/unit/record/sample_batch.h"

namespace weir {
namespace {

SchemaPtr SchemaOf(uint8_t kind) {
  if (kind == 0) return SampleSchema();
  const SchemaPtr all = SampleSchema();
  std::vector<Field> fields;
  for (int i = 0; i <= kind % 3; ++i) fields.push_back(all->field((kind / 3 + i) % all->size()));
  return std::make_shared<Schema>(std::move(fields));
}

}  // namespace
}  // namespace weir

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir;
  fuzz::Input input(data, size);
  const SchemaPtr schema = SchemaOf(input.TakeByte());
  StatusOr<RecordBatch> batch = Decode(schema, input.rest());
  if (!batch.ok()) return 0;
  const std::vector<std::string> rows = ShowRows(*batch);
  StatusOr<RecordBatch> again = Decode(schema, Encode(*batch));
  WEIR_CHECK(again.ok());
  WEIR_CHECK(ShowRows(*again) == rows);
  return 0;
}
