// Detection of NaN and infinities: in views on any device, and in the outputs of kernels.
//
// WEFT_CHECK_NAN=1 in the environment checks every kernel of the process.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "host_values.hpp"
#include "observe.hpp"

namespace weft::detail {

/// Whether elements of the view, on whatever device, are NaN or infinite.
cpu::NonFinite find_non_finite(const View& view);
/// "NaN", "Inf" or both.
const char* text_of(cpu::NonFinite found);
/// "float32 [3] on cpu"
std::string shape_text(const View& view);
/// "float32 [3] on cpu: 0 to 2, mean 1, 1 zero, 1 of 3 not finite"
std::string values_text(const View& view);
/// Whether the output is also an input, which the kernel overwrites.
bool is_input_too(const View& output, std::span<const View* const> inputs);
/// Of a view on any device and of any layout, which has elements.
cpu::ElementStatistics statistics_of(const View& view);
/// The error's three lines, and below them `figures`, one a line, broken where they are long.
std::string with_figures(const std::string& error, const std::vector<std::string>& figures);

/// An output of a kernel, with its non-finite elements.
struct MadeNonFinite {
  const View* output;
  cpu::NonFinite found;
};
/// Called before a kernel: saves, for this thread, the values that it will overwrite.
void note_overwritten(const KernelCall& call);
/// After it: the output with NaN that no input had, or with infinities where every input was finite. Filling with a
/// value makes none.
std::optional<MadeNonFinite> made_non_finite(const KernelCall& call);
/// Raises NonFiniteError with `more` after its figures.
[[noreturn]] void raise_non_finite(const KernelCall& call, const MadeNonFinite& made, const std::string& more = {});

/// Raises NonFiniteError where a kernel makes a NaN without one in its inputs, or an infinity from finite inputs.
class KernelCheck final : public KernelObserver {
 public:
  void before(const KernelCall& call) override;
  void after(const KernelCall& call) override;
};

}  // namespace weft::detail
