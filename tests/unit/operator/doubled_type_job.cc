#include <weir/weir.h>

class Nothing : public weir::Operator {
 public:
  weir::Status ProcessBatch(int, const weir::RecordBatch&, weir::Output&) override { return {}; }
};
WEIR_OPERATOR("nothing", Nothing)
WEIR_OPERATOR("nothing", Nothing)

WEIR_JOB(weir::JobBuilder&, const weir::JobArguments&) {}
