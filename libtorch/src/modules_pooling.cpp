#include <torch/nn/functional.h>
#include <torch/nn/modules/pooling.h>

#include "print_options.h"

namespace torch::nn {

namespace F = functional;
using detail::text;

#define POOLS(n)                                                                                                     \
  Tensor AvgPool##n##dImpl::forward(const Tensor& input) { return F::avg_pool##n##d(input, options); }               \
  void AvgPool##n##dImpl::pretty_print(std::ostream& stream) const {                                                 \
    stream << "torch::nn::AvgPool" #n "d(kernel_size=" << options.kernel_size() << ", stride=" << options.stride()   \
           << ", padding=" << options.padding() << ")";                                                              \
  }                                                                                                                  \
  Tensor MaxPool##n##dImpl::forward(const Tensor& input) { return F::max_pool##n##d(input, options); }               \
  std::tuple<Tensor, Tensor> MaxPool##n##dImpl::forward_with_indices(const Tensor& input) {                          \
    return F::max_pool##n##d_with_indices(input, options);                                                           \
  }                                                                                                                  \
  void MaxPool##n##dImpl::pretty_print(std::ostream& stream) const {                                                 \
    stream << "torch::nn::MaxPool" #n "d(kernel_size=" << options.kernel_size() << ", stride=" << options.stride()   \
           << ", padding=" << options.padding() << ", dilation=" << options.dilation()                               \
           << ", ceil_mode=" << text(options.ceil_mode()) << ")";                                                    \
  }                                                                                                                  \
  Tensor AdaptiveMaxPool##n##dImpl::forward(const Tensor& input) {                                                   \
    return F::adaptive_max_pool##n##d(input, options);                                                               \
  }                                                                                                                  \
  std::tuple<Tensor, Tensor> AdaptiveMaxPool##n##dImpl::forward_with_indices(const Tensor& input) {                  \
    return F::adaptive_max_pool##n##d_with_indices(input, options);                                                  \
  }                                                                                                                  \
  void AdaptiveMaxPool##n##dImpl::pretty_print(std::ostream& stream) const {                                         \
    stream << "torch::nn::AdaptiveMaxPool" #n "d(output_size=" << options.output_size() << ")";                      \
  }                                                                                                                  \
  Tensor AdaptiveAvgPool##n##dImpl::forward(const Tensor& input) {                                                   \
    return F::adaptive_avg_pool##n##d(input, options);                                                               \
  }                                                                                                                  \
  void AdaptiveAvgPool##n##dImpl::pretty_print(std::ostream& stream) const {                                         \
    stream << "torch::nn::AdaptiveAvgPool" #n "d(output_size=" << options.output_size() << ")";                      \
  }                                                                                                                  \
  Tensor MaxUnpool##n##dImpl::forward(const Tensor& input, const Tensor& indices,                                    \
                                      const optional<std::vector<int64_t>>& output_size) {                           \
    return F::max_unpool##n##d(input, indices,                                                                       \
                               F::MaxUnpool##n##dFuncOptions(options.kernel_size())                                  \
                                   .stride(options.stride())                                                         \
                                   .padding(options.padding())                                                       \
                                   .output_size(output_size));                                                       \
  }                                                                                                                  \
  void MaxUnpool##n##dImpl::pretty_print(std::ostream& stream) const {                                               \
    stream << "torch::nn::MaxUnpool" #n "d(kernel_size=" << options.kernel_size() << ", stride=" << options.stride() \
           << ", padding=" << options.padding() << ")";                                                              \
  }                                                                                                                  \
  Tensor LPPool##n##dImpl::forward(const Tensor& input) { return F::lp_pool##n##d(input, options); }                 \
  void LPPool##n##dImpl::pretty_print(std::ostream& stream) const {                                                  \
    stream << "torch::nn::LPPool" #n "d(norm_type=" << options.norm_type()                                           \
           << ", kernel_size=" << options.kernel_size() << ", stride=" << options.stride()                           \
           << ", ceil_mode=" << text(options.ceil_mode()) << ")";                                                    \
  }                                                                                                                  \
  Tensor ConstantPad##n##dImpl::forward(const Tensor& input) {                                                       \
    return F::pad(input, F::PadFuncOptions(IntArrayRef(options.padding()).vec()).value(options.value()));            \
  }                                                                                                                  \
  void ConstantPad##n##dImpl::pretty_print(std::ostream& stream) const {                                             \
    stream << "torch::nn::ConstantPad" #n "d(padding=" << options.padding() << ", value=" << options.value() << ")"; \
  }
POOLS(1)
POOLS(2)
POOLS(3)
#undef POOLS

#define PAD(Name, ...)                                                                               \
  Tensor Name##Impl::forward(const Tensor& input) {                                                  \
    return F::pad(input, F::PadFuncOptions(IntArrayRef(options.padding()).vec()).mode(__VA_ARGS__)); \
  }                                                                                                  \
  void Name##Impl::pretty_print(std::ostream& stream) const {                                        \
    stream << "torch::nn::" #Name "(padding=" << options.padding() << ")";                           \
  }
#define PADS(n) PAD(ReflectionPad##n##d, kReflect) PAD(ReplicationPad##n##d, kReplicate) PAD(ZeroPad##n##d, kConstant)
PADS(1)
PADS(2)
PADS(3)
#undef PAD
#undef PADS

#define FRACTIONAL(n)                                                                                      \
  void FractionalMaxPool##n##dImpl::reset() {                                                              \
    _random_samples = register_buffer("_random_samples", options._random_samples());                       \
    TORCH_CHECK(options.output_size() || options.output_ratio(),                                           \
                "FractionalMaxPool" #n "d requires specifying either an output size, or a pooling ratio"); \
    TORCH_CHECK(!options.output_size() || !options.output_ratio(),                                         \
                "only one of output_size and output_ratio may be specified");                              \
    if (options.output_ratio()) {                                                                          \
      for (double ratio : **options.output_ratio()) {                                                      \
        TORCH_CHECK(ratio > 0 && ratio < 1, "output_ratio must be between 0 and 1 (got ", ratio, ")");     \
      }                                                                                                    \
    }                                                                                                      \
  }                                                                                                        \
  std::tuple<Tensor, Tensor> FractionalMaxPool##n##dImpl::forward_with_indices(const Tensor& input) {      \
    FractionalMaxPool##n##dOptions call = options;                                                         \
    return F::fractional_max_pool##n##d_with_indices(input, call._random_samples(_random_samples));        \
  }                                                                                                        \
  Tensor FractionalMaxPool##n##dImpl::forward(const Tensor& input) {                                       \
    return std::get<0>(forward_with_indices(input));                                                       \
  }                                                                                                        \
  void FractionalMaxPool##n##dImpl::pretty_print(std::ostream& stream) const {                             \
    stream << "torch::nn::FractionalMaxPool" #n "d()";                                                     \
  }
FRACTIONAL(2)
FRACTIONAL(3)
#undef FRACTIONAL

}  // namespace torch::nn
