// The list of all environment variables that Weft reads.
#pragma once

#include <span>

#include "config.hpp"

namespace weft {

struct Setting {
  /// `*` matches any letters.
  const char* name;
  /// The default value; empty for none.
  const char* otherwise;
  const char* meaning;
};

namespace detail {

inline constexpr weft::Setting all_settings[] = {
    {"WEFT_NUM_THREADS", "the cores that the process may use", "threads of the CPU's kernels"},
    {"WEFT_CPU_TARGET", "the best of the processor", "vector instructions: scalar, avx2 or avx512"},
    {"WEFT_CHECK_NAN", "0", "1: the first kernel that makes a NaN or an infinity raises NonFiniteError"},
    {"WEFT_CHECK_INDEX", "0", "1: an index out of range on a device is raised by its call, not by the next wait"},
    {"WEFT_DETERMINISTIC", "0", "1: deterministic mode from the start; warn: the same, with warnings for errors"},
    {"WEFT_FUSED_LINEAR", "1", "0: linear with an activation is a linear and an activation"},
    {"WEFT_BATCH_INVARIANT", "1",
     "0: a cached language model rounds a sequence as its batch is fastest, not as it does alone"},
    {"WEFT_GRAD_SHARE", "1", "0: gradients never share memory"},
    {"WEFT_LOG", "", "dispatch: a line on stderr for each kernel, with its op, operands and place"},
    {"WEFT_WARNINGS", "1", "0: no warnings"},
    {"WEFT_FALLBACK", "", "cpu: registered ops without a kernel for a device run on the CPU"},
    {"WEFT_PLUGINS", "", "shared objects with devices, loaded when one is first asked for: a.so:b.so"},
    {"WEFT_CUDA_SYNC", "0", "1: each command is waited for, and tensors get memory of their own"},
    {"WEFT_CUDNN", "1", "0: convolutions and attention on GPUs by Weft's own kernels, not by cuDNN"},
    {"WEFT_HPU_SYNC", "0", "the same for Level Zero devices"},
    {"WEFT_*_SYNC", "0", "the same for the devices of a plug-in, by the name of their kind"},
    {"WEFT_HPU_WORKER", "0", "1: a thread for each stream hands commands to the driver"},
    {"WEFT_RECIPE_CACHE", "1024", "how many compiled recipes are kept for each device"},
    {"WEFT_CACHE_DIR", "~/.cache/weft", "where native code of kernels is kept between runs; empty: nowhere"},
    {"WEFT_DISTRIBUTED_TIMEOUT", "600", "seconds that a collective waits for the other ranks"},
    {"WEFT_CHECK_COLLECTIVES", "0; 1 in debug builds", "1: processes compare their calls of collectives"},
    {"WEFT_NCCL", "1", "0: between ranks, tensors on GPUs pass through the host"},
    {"WEFT_NCCL_REDUCE", "0", "1: NCCL sums and multiplies floats, in its own order"},
    {"WEFT_REPLAY_STEP", "",
     "a folder of a StepRecorder: a program's recorder replays its steps, and the program ends"},
    {"WEFT_JOBS", "the cores", "compilers that ./weft runs at once"},
    {"WEFT_ZE_*", "", "settings of the Level Zero test driver, tests/hpu_driver"},
    {"WEFT_TEST_*", "", "settings of Weft's own tests"},
};

constexpr bool matches(const char* pattern, const char* name) {
  if (*pattern == '*') return matches(pattern + 1, name) || (*name != '\0' && matches(pattern, name + 1));
  return *pattern == *name && (*pattern == '\0' || matches(pattern + 1, name + 1));
}
constexpr bool is_setting(const char* name) {
  for (const weft::Setting& s : all_settings) {
    if (matches(s.name, name)) return true;
  }
  return false;
}

/// A name in the list; any other is a compile-time error.
class SettingName {
 public:
  consteval SettingName(const char* name) : text_(is_setting(name) ? name : throw "no setting of this name") {}
  constexpr const char* text() const { return text_; }

 private:
  const char* text_;
};

/// The value of the environment variable, or nullptr if it is not set. A setting is read at its first use.
const char* setting(SettingName name);
/// Whether it is set and neither empty nor 0.
bool is_switched_on(SettingName name);
/// Whether it is 0.
bool is_switched_off(SettingName name);
/// As is_switched_on, for a name composed at run time.
bool is_variable_on(const char* name);

/// Warns of environment variables that begin with WEFT_ and are no settings.
void warn_of_unknown_settings();

}  // namespace detail

/// All environment variables that Weft reads.
constexpr std::span<const Setting> settings() { return detail::all_settings; }

}  // namespace weft
