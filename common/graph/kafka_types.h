#pragma once

#include <string>
#include <vector>

#include "common/graph/type_descriptor.h"

namespace weir {

// What a kafka.sink of that config holds: its prefix, which other sinks of its job may share, and
// its ids `<prefix>-<uid>-<subtask>`, which nobody may: a prefix `a-b` with uid `c` and a prefix
// `a` with uid `b-c` make the same ones. Nothing with at_least_once.
std::vector<ExclusiveName> TransactionalNames(const Config& config, const JobId& job,
                                              const std::string& uid);

TypeDescriptor KafkaSourceType();
TypeDescriptor KafkaSinkType();

}  // namespace weir
