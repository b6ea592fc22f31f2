#include "activate-inl.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include <fmt/format.h>

#include "../detail/common.hpp"
#include "../pointwise.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {
constexpr std::array<std::string_view, 6> names = {"none", "relu", "gelu", "gelu_tanh", "silu", "selu"};
}

Tensor activated(const Tensor& x, Activation activation) {
  switch (activation) {
    case Activation::none:
      return x;
    case Activation::relu:
      return relu(x);
    case Activation::gelu:
      return gelu(x);
    case Activation::gelu_tanh:
      return gelu(x, Approximate::tanh);
    case Activation::silu:
      return silu(x);
    case Activation::selu:
      return selu(x);
  }
  return x;
}

Activation activation_named(const std::string& name) {
  const auto* const at = std::ranges::find(names, name);
  if (at != names.end()) return static_cast<Activation>(at - names.begin());
  raise_value("activation", "none, relu, gelu, gelu_tanh, silu or selu", in_quotes(name));
}

void check_activation(Activation activation) {
  if (static_cast<size_t>(activation) < names.size()) return;
  raise_value("activation", "an enumerator of Activation", static_cast<int>(activation));
}

bool product_by_kernel(const Tensor& out, const View& a, const View& b, const View& other, const View& bias,
                       Activation activation) {
  const auto kernel = kernels(out.raw_view()).activated_product;
  if (kernel == nullptr || a.layout.sizes[1] == 0) return false;
  kernel(out.raw_view(), a, b, other, bias, activation);
  return true;
}

Tensor rows_of_last(const Tensor& t) {
  const int64_t n = t.size(-1);
  return t.dim() == 2
             ? t
             : t.reshape(
                   {n == 0 ? Dims(t.sizes().first(static_cast<size_t>(t.dim() - 1))).product() : t.numel() / n, n});
}

}  // namespace weft
