#include "tests/sim/probes.h"

namespace weir::sim {

std::string_view ToString(Probe probe) {
  static constexpr std::array<std::string_view, kProbes> kTexts = {
#define WEIR_SIM_PROBE(name, text) text,
      WEIR_SIM_PROBES(WEIR_SIM_PROBE)
#undef WEIR_SIM_PROBE
  };
  return kTexts[static_cast<size_t>(probe)];
}

}  // namespace weir::sim
