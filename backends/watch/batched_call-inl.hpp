// Kept calls made calls for many examples: which kernels have room for a leading dimension. Included by
// recorded_kernel-inl.hpp alone.
#include <algorithm>
#include <span>
#include <tuple>
#include <vector>

#include "recorded_kernel.hpp"
#include "../kernel_row.hpp"
#include "../../tensor/layout.hpp"

namespace weft {
namespace {

/// The place of the examples in a kernel's views, from the kernel's row.
enum class Examples : uint8_t { alone, new_dim, dense_dim, first_dim };
struct ExamplesRule {
  Examples place = Examples::alone;
  /// Bit i: the examples share view i of the parameters.
  unsigned shared = 0;
};

template <class R, class... A>
constexpr ExamplesRule rule_of(R (*KernelTable::*)(A...), Examples place, const KernelRow& row) {
  static_assert(sizeof...(A) <= std::size(KernelRow("()").parameters));
  constexpr bool is_view[] = {std::is_same_v<A, const View&>...};
  ExamplesRule rule{place};
  for (size_t i = 0, view = 0; i < sizeof...(A); ++i) {
    if (is_view[i]) rule.shared |= unsigned{row.parameters[i].shared} << view++;
  }
  return rule;
}

template <auto slot>
constexpr ExamplesRule examples_rule = {};
#define WEFT_KERNEL_ROW(result, name, devices, examples, parameters) \
  template <>                                                        \
  constexpr ExamplesRule examples_rule<&KernelTable::name> =         \
      rule_of(&KernelTable::name, Examples::examples, KernelRow(#parameters));
#include "../kernel_rows.hpp"
template <auto slot>
constexpr bool is_product = false;
template <>
constexpr bool is_product<&KernelTable::matmul> = true;

/// The views of a call while the examples are put into them: all or none.
class ExamplesInViews {
 public:
  /// `along`: the kernel takes a dimension, and single numbers for lines of 1.
  ExamplesInViews(const ExamplesRule& rule, bool along, int64_t count, std::span<View* const> views,
                  std::span<const int64_t> steps)
      : rule_(rule), along_(along), count_(count), views_(views), steps_(steps) {}

  void operator()(View& view) {
    const unsigned number = seen_++;
    if (view.data == nullptr || view.layout.host_scalar != 0) return;
    const auto found = std::ranges::find(views_, &view);
    const int64_t step = found == views_.end() ? 0 : steps_[static_cast<size_t>(found - views_.begin())];
    ++placed_;
    if ((rule_.shared >> number & 1) != 0) {
      fits_ &= step == 0;
      return;
    }
    Layout layout = view.layout;
    if (along_ && layout.rank == 0) put_first(layout, 1, itemsize(layout.dtype));
    const bool first = rule_.place == Examples::first_dim;
    fits_ &= first ? put_along(layout, 0, count_, step) : put_first(layout, count_, step);
    fits_ &= rule_.place != Examples::dense_dim || layout.contiguous >= view.layout.contiguous;
    changed_.push_back({&view, layout});
  }
  /// A gradient of shared weights is a sum over images, which the examples have each their own of.
  void operator()(Convolution& product) { fits_ &= product != Convolution::by_weight; }
  template <class T>
  void operator()(T&) {}

  /// True where every view of the call had its place.
  bool apply() {
    if (!fits_ || placed_ != views_.size()) return false;
    for (const auto& [view, layout] : changed_) view->layout = layout;
    return true;
  }

 private:
  const ExamplesRule& rule_;
  const bool along_;
  const int64_t count_;
  std::span<View* const> views_;
  std::span<const int64_t> steps_;
  unsigned seen_ = 0;
  size_t placed_ = 0;
  bool fits_ = true;
  std::vector<std::pair<View*, Layout>> changed_;
};

/// One product in place of many where an operand is shared: more rows, or more columns.
inline bool one_product(View& out, View& a, View& b, const View& bias, int64_t count, std::span<View* const> views,
                        std::span<const int64_t> steps) {
  if (bias.data != nullptr || out.layout.rank != 2 || views.size() != 3) return false;
  const auto step_of = [&](const View& view) {
    return steps[static_cast<size_t>(std::ranges::find(views, &view) - views.begin())];
  };
  const bool by_rows = step_of(b) == 0;
  if (!by_rows && step_of(a) != 0) return false;
  View& part = by_rows ? a : b;
  Layout of_out = out.layout, of_part = part.layout;
  const int dim = by_rows ? 0 : 1;
  if (!put_along(of_out, dim, count, step_of(out)) || !put_along(of_part, dim, count, step_of(part))) return false;
  out.layout = of_out;
  part.layout = of_part;
  return true;
}

}  // namespace
}  // namespace weft
