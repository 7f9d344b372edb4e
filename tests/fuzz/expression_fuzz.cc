// Text as an expression: an error, or one that gives a value or an error for each row of a batch,
// the same for a row alone.
#include <string>

#include "common/base/check.h"
#include "common/expression/expression.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/unit/record/sample_batch.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace weir;
  static const RecordBatch batch = RandomBatch(20, 7);
  const std::string text(reinterpret_cast<const char*>(data), size);
  StatusOr<Expression> expression = ParseExpression(text, *batch.schema());
  if (!expression.ok()) return 0;
  StatusOr<Column> all = expression->Evaluate(batch);
  bool all_rows = true;
  for (int32_t row = 0; row < batch.rows(); ++row) {
    StatusOr<Column> one = expression->Evaluate(batch.Select(std::span<const int32_t>(&row, 1)));
    all_rows = all_rows && one.ok();
    if (all.ok() && one.ok()) WEIR_CHECK(all->IsNull(row) == one->IsNull(0));
  }
  WEIR_CHECK(all.ok() == all_rows);
  return 0;
}
