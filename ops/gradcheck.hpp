// Checking gradients against finite differences.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "../tensor/callback.hpp"
#include "../tensor/index.hpp"

namespace weft {

struct GradcheckOptions {
  /// Step of the central differences.
  double step = 1e-6;
  /// |analytic - numeric| must not exceed absolute + relative * |numeric|.
  double relative = 1e-3;
  double absolute = 1e-5;
  /// Raise AutogradError on the first difference; else only the result reports it.
  bool raise_exception = true;
};

struct GradcheckResult {
  bool passed = true;
  /// Names the output, the input, the element and both values where they differ.
  std::string message;
  explicit operator bool() const { return passed; }
};

/// A function under test. It must give the same outputs for the same inputs.
using GradcheckFunction = Callback<std::vector<Tensor>(std::span<const Tensor>)>;

/// Compares gradients with central differences, for each output of `function` alone and for all together. Checks every
/// f64 input that requires a gradient, and every c128 one by components. The function receives copies of the inputs.
/// Raises ValueError if no input requires a gradient or one is undefined, DTypeError if one that requires a gradient
/// has another dtype.
WEFT_API GradcheckResult gradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
                                   GradcheckOptions options = {}, Location where = {});
/// The same for second derivatives: checks the gradient of `function`, as a function of its inputs and of the incoming
/// gradients, besides its outputs.
WEFT_API GradcheckResult gradgradcheck(const GradcheckFunction& function, const std::vector<Tensor>& inputs,
                                       GradcheckOptions options = {}, Location where = {});

/// For functions of one output: `[](std::span<const Tensor> x) { return x[0] * x[1]; }`.
template <class F>
  requires std::is_invocable_r_v<Tensor, F, std::span<const Tensor>> GradcheckResult
  gradcheck(F function, const std::vector<Tensor>& inputs, GradcheckOptions options = {}, Location where = {}) {
    return gradcheck(
        GradcheckFunction([f = std::move(function)](std::span<const Tensor> x) { return std::vector<Tensor>{f(x)}; }),
        inputs, options, where);
  }
template <class F>
  requires std::is_invocable_r_v<Tensor, F, std::span<const Tensor>> GradcheckResult
  gradgradcheck(F function, const std::vector<Tensor>& inputs, GradcheckOptions options = {}, Location where = {}) {
    return gradgradcheck(
        GradcheckFunction([f = std::move(function)](std::span<const Tensor> x) { return std::vector<Tensor>{f(x)}; }),
        inputs, options, where);
  }

}  // namespace weft
