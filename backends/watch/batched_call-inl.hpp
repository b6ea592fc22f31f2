// Kept calls made calls for many examples: which kernels have room for a leading dimension. Included by
// recorded_kernel-inl.hpp alone.
#include <algorithm>
#include <span>
#include <tuple>
#include <vector>

#include "recorded_kernel.hpp"
#include "../../tensor/layout.hpp"

namespace weft {
namespace {

/// Where the examples go in a kernel's views: nowhere, to a new first dimension, or into the one that is first.
enum class Examples : uint8_t { nowhere, new_dim, first_dim };
struct ExamplesRule {
  Examples where = Examples::nowhere;
  /// Bit i: view i of the parameters has a part for each example. The others are shared.
  unsigned views = ~0u;
  /// Views that are contiguous must stay so.
  bool dense = false;
};

template <auto slot>
constexpr ExamplesRule examples_rule = {};
#define WEFT_RULE(slot, ...) \
  template <>                \
  constexpr ExamplesRule examples_rule<&KernelTable::slot> = {__VA_ARGS__};
WEFT_RULE(unary, Examples::new_dim)
WEFT_RULE(unary_gradient, Examples::new_dim)
WEFT_RULE(binary, Examples::new_dim)
WEFT_RULE(compare, Examples::new_dim)
WEFT_RULE(ternary, Examples::new_dim)
WEFT_RULE(where, Examples::new_dim)
WEFT_RULE(nan_to_num, Examples::new_dim, ~0u, true)
WEFT_RULE(nextafter, Examples::new_dim, ~0u, true)
WEFT_RULE(copy, Examples::new_dim)
WEFT_RULE(fill, Examples::new_dim)
WEFT_RULE(reduce, Examples::new_dim)
WEFT_RULE(variance, Examples::new_dim)
WEFT_RULE(matmul, Examples::new_dim)
// Indices along a dimension, shifted by one.
WEFT_RULE(arg_reduce, Examples::new_dim)
WEFT_RULE(cumsum, Examples::new_dim)
WEFT_RULE(fourier, Examples::new_dim)
WEFT_RULE(running_product, Examples::new_dim, ~0u, true)
WEFT_RULE(running_log_sum_exp, Examples::new_dim, ~0u, true)
WEFT_RULE(running_extreme, Examples::new_dim, ~0u, true)
WEFT_RULE(softmax, Examples::new_dim)
WEFT_RULE(softmax_gradient, Examples::new_dim)
WEFT_RULE(gather, Examples::new_dim)
WEFT_RULE(scatter, Examples::new_dim)
WEFT_RULE(scatter_copy, Examples::new_dim, ~0u, true)
WEFT_RULE(sort, Examples::new_dim, ~0u, true)
WEFT_RULE(index_select, Examples::new_dim, 0b011)
WEFT_RULE(index_add, Examples::new_dim, 0b101)
// Rows, images and planes: there are more of them.
WEFT_RULE(layer_norm, Examples::first_dim, 0b001111)
WEFT_RULE(layer_norm_gradient, Examples::first_dim, 0b01111001)
WEFT_RULE(rms_norm, Examples::first_dim, 0b0111)
WEFT_RULE(rms_norm_gradient, Examples::first_dim, 0b011101)
WEFT_RULE(cross_entropy, Examples::first_dim)
WEFT_RULE(cross_entropy_gradient, Examples::first_dim)
WEFT_RULE(convolution, Examples::first_dim, 0b0011)
WEFT_RULE(pool, Examples::first_dim)
WEFT_RULE(pool_gradient, Examples::first_dim)
#undef WEFT_RULE
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
    if ((rule_.views >> number & 1) == 0) {
      fits_ &= step == 0;
      return;
    }
    Layout layout = view.layout;
    if (along_ && layout.rank == 0) put_first(layout, 1, itemsize(layout.dtype));
    fits_ &= rule_.where == Examples::new_dim ? put_first(layout, count_, step) : put_along(layout, 0, count_, step);
    fits_ &= !rule_.dense || layout.contiguous >= view.layout.contiguous;
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
