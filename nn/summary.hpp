// Summary of a model: parameters, memory and operations of a call, layer by layer.
#pragma once

#include <string>
#include <vector>

#include "../autograd/mode.hpp"
#include "../backends/watch/observe.hpp"
#include "module.hpp"

namespace weft::nn {

/// One module of a model, without its submodules.
struct LayerSummary {
  std::string name, class_name;  ///< its path, empty at the root
  int depth = 0;
  /// Shapes of the outputs of its last call; empty if it was not called.
  std::vector<Dims> outputs = {};
  int64_t trainable = 0, frozen = 0;  ///< number of elements of parameters; a shared one counts at its first occurrence
  int64_t parameter_bytes = 0, output_bytes = 0;  ///< output_bytes: sum over all calls
  int64_t multiply_adds = 0;                      ///< in matrix products, convolutions, attention and recurrences
};

struct Summary {
  std::vector<LayerSummary> layers;

  /// The sums; outputs are those of the root.
  WEFT_API LayerSummary total() const;
  /// A table of at most `width` columns, as far as names and shapes can be shortened.
  WEFT_API std::string text(int width = 100) const;
  /// {"layers": [{"name": ..., ...}, ...], "total": {...}}
  WEFT_API std::string json() const;
};

/// Multiply-adds of a kernel call: of "matmul", "convolution", "attention", "recurrent" and their gradients; 0 for
/// others.
WEFT_API int64_t multiply_adds(const KernelCall& call);

/// Collects a summary: modules report the begin and end of their calls, kernels on this thread are observed.
class WEFT_API SummaryRecorder : public KernelObserver {
 public:
  explicit SummaryRecorder(const Module& module);
  /// `layer`: the index in named_modules().
  void enter(size_t layer) { running_.push_back(layer); }
  void leave(size_t layer, std::span<const Tensor> outputs);
  void after(const KernelCall& call) override;
  const Summary& summary() const { return summary_; }

 private:
  Summary summary_;
  std::vector<size_t> running_;
  ObserverGuard guard_;
};

namespace detail {
/// Adds hooks to all modules of a model on meta, and runs it.
WEFT_API Summary summarize(const Module& model, const Callback<void()>& run);
inline Tensor on_meta(const Tensor& x) { return x.to(Device(DeviceType::meta)); }
}  // namespace detail

/// Runs a copy of the model on the meta device, which computes nothing, with tensors of the inputs' shapes: `std::cout
/// << nn::summary(net, randn({1, 3, 32, 32})).text()`. Raises the errors of the call.
template <std::derived_from<Module> M, std::same_as<Tensor>... Inputs>
Summary summary(const M& model, const Input& input, const Inputs&... others) {
  M copy = clone(model);
  copy.to(Device(DeviceType::meta));
  return detail::summarize(copy, [&] {
    const NoGradGuard unrecorded;
    const Tensor first = detail::on_meta(input.get());
    (void)copy(detail::Argument<typename detail::CallOf<M>::First>(first, input.where), detail::on_meta(others)...);
  });
}

}  // namespace weft::nn
