#include "worker/operators/described_schema.h"

#include <optional>
#include <utility>

#include "common/base/check.h"
#include "common/base/concat.h"
#include "common/graph/type_descriptor.h"

namespace weir {

StatusOr<Schema> DescribedSchema(std::string_view type, const Config& config,
                                 const std::vector<Schema>& inputs) {
  const auto found = BuiltinTypes().find(type);
  WEIR_CHECK_MESSAGE(found != BuiltinTypes().end(), type);
  const TypeDescriptor& descriptor = found->second;
  const int count = static_cast<int>(inputs.size());
  if (count < descriptor.inputs_min || count > descriptor.inputs_max) {
    return InvalidArgumentError(Concat(type, " has ", count, " inputs: expected ",
                                       descriptor.inputs_min, " to ", descriptor.inputs_max));
  }
  WEIR_ASSIGN_OR_RETURN(std::optional<Schema> schema, descriptor.check(config, inputs));
  WEIR_CHECK_MESSAGE(schema.has_value(), type);
  return std::move(*schema);
}

}  // namespace weir
