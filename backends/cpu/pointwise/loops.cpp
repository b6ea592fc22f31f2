#include "loops.hpp"

#include <cstring>

#include "../simd/simd_targets.hpp"
#include <hwy/highway.h>

#include "../../backend.hpp"
#include "../../../tensor/settings.hpp"

namespace weft::cpu {

UnaryLoops unary_loops;
GradientLoops gradient_loops;
BinaryLoops binary_loops;
TernaryLoops ternary_loops;
CompareLoops compare_loops;
SelectLoops select_loops;
ConvertLoops convert_loops;

namespace {

constexpr int64_t wide_targets = HWY_AVX3 | HWY_AVX3_DL;
constexpr int64_t vector_targets = wide_targets | HWY_AVX2 | HWY_SSE4 | HWY_SSSE3;

void choose_loops() {
  choose_unary_loops();
  choose_gradient_loops();
  choose_binary_loops();
  choose_integer_loops();
  choose_compare_loops();
  choose_convert_loops();
  choose_complex_loops();
  choose_pair_loops();
}

bool restrict_targets(const char* name) {
  int64_t disabled = 0;
  if (std::strcmp(name, "scalar") == 0) disabled = vector_targets;
  else if (std::strcmp(name, "avx2") == 0) disabled = wide_targets;
  else if (std::strcmp(name, "avx512") != 0) return false;
  hwy::DisableTargets(disabled & ~(HWY_ENABLED_BASELINE));
  hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  return true;
}

// Before every static initialiser, which may already compute.
__attribute__((constructor(101))) void initialise() {
  const char* name = detail::setting("WEFT_CPU_TARGET");
  if (name == nullptr || !restrict_targets(name)) hwy::GetChosenTarget().Update(hwy::SupportedTargets());
  choose_loops();
}

}  // namespace

bool use_simd_target(const char* name) {
  if (!restrict_targets(name)) return false;
  choose_loops();
  return true;
}

}  // namespace weft::cpu

const char* weft::cpu_vectors() {
  const int64_t targets = hwy::SupportedTargets() & HWY_TARGETS, best = targets & -targets;
  if ((best & cpu::wide_targets) != 0) return "avx512";
  if (best == HWY_AVX2) return "avx2";
#if defined(__x86_64__)
  return "scalar";
#else
  return hwy::TargetName(best);
#endif
}
