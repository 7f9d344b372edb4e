#pragma once

// Loops that pay for a version of their own are compiled twice: as they are, and as a function
// marked WEIR_AVX512 which is called only where HasAvx512(). Both give equal results.
namespace weir {

#if defined(__x86_64__)
#define WEIR_HAS_AVX512_CODE 1
#define WEIR_AVX512 __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,popcnt")))
inline bool HasAvx512() {
  static const bool has = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                          __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return has;
}
#else
#define WEIR_HAS_AVX512_CODE 0
#endif

}  // namespace weir
