// Function transforms: derivatives of functions of tensors, and functions over batches.
//
//   const auto f = [](const Tensor& x) { return (x * x).sum(); };
//   func::grad(f)(x);                       // 2 x
//   func::jacobian([](const Tensor& x) { return sin(x); }, {x})[0][0];
//   func::vmap(func::grad(f))({batch});     // a gradient for each row of the batch
//
// A function takes one or several tensors, or a span of them. It returns a tensor, several tensors, or Outputs, with an
// `aux` that is not differentiated. It is called with tensors that represent the inputs; captured tensors are
// constants. Transforms may be nested. Errors inside a transformed function have the location where the transform was
// created. Results have a graph if an input requires a gradient or `create_graph` is set; otherwise they are detached.
// DTypeError is raised if a differentiated input is not floating-point.
#pragma once

#include <concepts>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "../tensor/callback.hpp"
#include "../tensor/index.hpp"

namespace weft::func {

/// The result of a function: differentiated outputs, and auxiliary ones that are not differentiated.
struct Outputs {
  Outputs() = default;
  Outputs(Tensor output) { tensors.push_back(std::move(output)); }       // NOLINT: converts implicitly
  Outputs(std::vector<Tensor> outputs) : tensors(std::move(outputs)) {}  // NOLINT
  Outputs(std::vector<Tensor> outputs, std::vector<Tensor> others)
      : tensors(std::move(outputs)), aux(std::move(others)) {}

  std::vector<Tensor> tensors, aux;
};

namespace detail {
template <size_t>
using AnyTensor = const Tensor&;
template <class F, size_t... i>
constexpr bool takes_tensors(std::index_sequence<i...>) {
  return std::is_invocable_v<F&, AnyTensor<i>...>;
}
/// The number of tensors that F takes, from 1 to 6; 0 if it takes a span of tensors.
template <class F, size_t n = 1>
constexpr size_t tensor_count() {
  if constexpr (n > 6) return 0;
  else if constexpr (takes_tensors<F>(std::make_index_sequence<n>())) return n;
  else return tensor_count<F, n + 1>();
}
WEFT_API void check_count(size_t given, size_t wanted, Location where);
}  // namespace detail

/// A function of tensors; converts from any callable. A call with another number of tensors than it takes raises
/// ValueError.
class WEFT_API Function {
 public:
  template <class F>
    requires(!std::same_as<std::remove_cvref_t<F>, Function>)
  Function(F function, Location where = {}) {  // NOLINT: converts implicitly
    constexpr size_t count = detail::tensor_count<F>();
    if constexpr (count == 0) {
      call_ = [f = std::move(function)](std::span<const Tensor> x) mutable -> Outputs { return f(x); };
    } else {
      call_ = [f = std::move(function), where](std::span<const Tensor> x) mutable -> Outputs {
        detail::check_count(x.size(), count, where);
        return [&]<size_t... i>(std::index_sequence<i...>)->Outputs { return f(x[i]...); }
        (std::make_index_sequence<count>());
      };
    }
  }
  Outputs operator()(std::span<const Tensor> inputs) const { return call_(inputs); }
  /// Returns the first output.
  Tensor operator()(std::initializer_list<Tensor> inputs, Location where = {}) const;
  Tensor operator()(const Tensor& input, Location where = {}) const { return (*this)({input}, where); }

 private:
  Callback<Outputs(std::span<const Tensor>)> call_;
};

struct Options {
  /// Record a graph of the results.
  bool create_graph = false;
  /// Raise AutogradError if an output does not depend on an input; otherwise its derivative is 0.
  bool strict = false;
};

/// The outputs, and a vector-Jacobian product that may be called repeatedly.
struct WEFT_API Vjp {
  std::vector<Tensor> outputs, aux;
  /// Returns a gradient for each input, in order, from one cotangent for each output. Raises ShapeError unless each has
  /// its output's shape.
  std::vector<Tensor> operator()(const std::vector<Tensor>& cotangents, Location where = {}) const;

  std::vector<Tensor> traced_inputs, traced_outputs;
  Options options;
};
WEFT_API Vjp vjp(const Function& f, const std::vector<Tensor>& inputs, Options options = {}, Location where = {});

/// Outputs, and their directional derivatives along the tangents (Jacobian-vector product). Exact: computed as the
/// derivative of the gradient, which is linear in the cotangent. Raises ShapeError unless each tangent has its input's
/// shape, AutogradError for an op with a gradient that is not differentiable.
struct Jvp {
  std::vector<Tensor> outputs, tangents, aux;
};
WEFT_API Jvp jvp(const Function& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents,
                 Options options = {}, Location where = {});

/// How a Jacobian is computed: one backward pass per output element, or one forward pass per input element.
enum class JacobianMode : uint8_t {
  automatic,  ///< the mode with fewer passes
  reverse,
  forward
};
struct JacobianOptions {
  JacobianMode mode = JacobianMode::automatic;
  bool create_graph = false;
  bool strict = false;
};
/// All derivatives, [output][input]: each has the output's shape followed by the input's.
WEFT_API std::vector<std::vector<Tensor>> jacobian(const Function& f, const std::vector<Tensor>& inputs,
                                                   JacobianOptions options = {}, Location where = {});

/// Second derivatives, [input][input], of a function with one output of one element; otherwise raises ShapeError.
WEFT_API std::vector<std::vector<Tensor>> hessian(const Function& f, const std::vector<Tensor>& inputs,
                                                  Options options = {}, Location where = {});

/// The output, of one element, and the product of the Hessian with a direction, without computing the Hessian.
struct Hvp {
  Tensor output;
  std::vector<Tensor> products;
};
WEFT_API Hvp hvp(const Function& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& direction,
                 Options options = {}, Location where = {});

/// Returns the function that computes the gradients of f's only output, which must have one element, with respect to
/// the inputs at `argnums`. Its aux is that of f.
WEFT_API Function grad(const Function& f, std::vector<int> argnums = {0}, Location where = {});
/// As grad, with f's output before the gradients.
WEFT_API Function grad_and_value(const Function& f, std::vector<int> argnums = {0}, Location where = {});

/// Behaviour in a vmap of random ops that use the default generators.
enum class Randomness : uint8_t {
  error,      ///< raise ValueError
  different,  ///< each example has its own draws
  same        ///< all examples have the draws of the first
};
struct VmapOptions {
  /// The example dimension of each input; none for an input that all examples share. A single entry applies to all
  /// inputs.
  std::vector<std::optional<int>> in_dims = {0};
  /// The example dimension of each output, then of each aux. A single entry applies to all.
  std::vector<int> out_dims = {0};
  Randomness randomness = Randomness::error;
};
/// Returns the function that applies f to each example of a batch. f runs on the first example, and its kernels on all:
/// in one call if they support another dimension, else example by example. If that is not possible, f is called for
/// each example in order. This happens on a device, if a gradient flows through f, and if f reads values (item), writes
/// to tensors that it shares with others, or draws `different` numbers. f is called once more if it writes to its
/// inputs. Without examples f is called once with a placeholder, to determine shapes and dtypes of the outputs. Raises
/// ValueError if no input has an example dimension or if their sizes differ, IndexError for a dimension that a tensor
/// does not have.
WEFT_API Function vmap(const Function& f, VmapOptions options = {}, Location where = {});

}  // namespace weft::func
