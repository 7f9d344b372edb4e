#pragma once

// All that a job library includes: `#include <weir/weir.h>`, link to weir::weir.
#include "common/base/concat.h"
#include "common/base/status.h"
#include "common/graph/config.h"
#include "common/graph/job_builder.h"
#include "common/operator/job_library.h"
#include "common/operator/operator.h"
#include "common/operator/registry.h"
#include "common/record/batch_builder.h"
#include "common/record/record_batch.h"
#include "common/record/schema.h"
