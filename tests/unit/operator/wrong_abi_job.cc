// A library of another version, whose code must not run: its initialiser ends the process.
#include <weir/weir.h>

#include <cstdlib>

static const bool ended = [] {
  std::abort();
  return true;
}();

#undef WEIR_ABI_VERSION
#define WEIR_ABI_VERSION "0.0.1 abi 0"
WEIR_JOB(weir::JobBuilder&, const weir::JobArguments&) { (void)ended; }
