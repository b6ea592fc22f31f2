// Transforms of functions of tensors: derivatives of whole functions, and functions over batches.
//
//   const auto f = [](const Tensor& x) { return (x * x).sum(); };
//   func::grad(f)(x);                       // 2 x
//   func::jacobian([](const Tensor& x) { return sin(x); }, {x})[0][0];
//   func::vmap(func::grad(f))({batch});     // a gradient for each row of the batch
//
// A function takes tensors, one or several, or a span of them, and returns a tensor, several, or Outputs, whose `aux`
// passes through undifferentiated. It is called with tensors that stand for the inputs; what it captures is constant.
// Transforms may be nested, and errors of a function that one made name the place where it was made. Results have a
// graph where an input requires a gradient or `create_graph` is set; else they are detached. DTypeError where an input
// that is differentiated is not floating.
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

/// What a function returns: outputs, which are differentiated, and others, which are not.
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
/// How many tensors F takes, from 1 to 6; 0 where it takes a span of them.
template <class F, size_t n = 1>
constexpr size_t tensor_count() {
  if constexpr (n > 6) return 0;
  else if constexpr (takes_tensors<F>(std::make_index_sequence<n>())) return n;
  else return tensor_count<F, n + 1>();
}
WEFT_API void check_count(size_t given, size_t wanted, Location where);
}  // namespace detail

/// A function of tensors, from anything that can be called with them. ValueError where it is called with another number
/// of tensors than it takes.
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
  /// The first output.
  Tensor operator()(std::initializer_list<Tensor> inputs, Location where = {}) const;
  Tensor operator()(const Tensor& input, Location where = {}) const { return (*this)({input}, where); }

 private:
  Callback<Outputs(std::span<const Tensor>)> call_;
};

struct Options {
  /// Gives results a graph of their own.
  bool create_graph = false;
  /// AutogradError where an output does not depend on an input; else its derivative is 0.
  bool strict = false;
};

/// The outputs at the inputs, and what takes gradients of the outputs to those of the inputs, as often as it is called.
struct WEFT_API Vjp {
  std::vector<Tensor> outputs, aux;
  /// Of one cotangent for each output, with its shape (ShapeError); in the order of the inputs.
  std::vector<Tensor> operator()(const std::vector<Tensor>& cotangents, Location where = {}) const;

  std::vector<Tensor> traced_inputs, traced_outputs;
  Options options;
};
WEFT_API Vjp vjp(const Function& f, const std::vector<Tensor>& inputs, Options options = {}, Location where = {});

/// The outputs, and how they change where the inputs change by the tangents, each of its input's shape (ShapeError).
/// Exact; by differentiating the gradient, which is linear in the cotangent. AutogradError for an op whose gradient has
/// none.
struct Jvp {
  std::vector<Tensor> outputs, tangents, aux;
};
WEFT_API Jvp jvp(const Function& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& tangents,
                 Options options = {}, Location where = {});

/// By which side a jacobian is built: a pass for each element of the outputs, or for each of the inputs.
enum class JacobianMode : uint8_t {
  automatic,  ///< the one of fewer passes
  reverse,
  forward
};
struct JacobianOptions {
  JacobianMode mode = JacobianMode::automatic;
  bool create_graph = false;
  bool strict = false;
};
/// [output][input]: all derivatives, of the output's shape followed by the input's.
WEFT_API std::vector<std::vector<Tensor>> jacobian(const Function& f, const std::vector<Tensor>& inputs,
                                                   JacobianOptions options = {}, Location where = {});

/// [input][input]: second derivatives of a function's only output, which has one element (ShapeError).
WEFT_API std::vector<std::vector<Tensor>> hessian(const Function& f, const std::vector<Tensor>& inputs,
                                                  Options options = {}, Location where = {});

/// The output of one element, and the hessian's product with a direction, without the hessian.
struct Hvp {
  Tensor output;
  std::vector<Tensor> products;
};
WEFT_API Hvp hvp(const Function& f, const std::vector<Tensor>& inputs, const std::vector<Tensor>& direction,
                 Options options = {}, Location where = {});

/// The function that gives the gradients of f's only output, which has one element, by the inputs at `argnums`; its aux
/// is f's.
WEFT_API Function grad(const Function& f, std::vector<int> argnums = {0}, Location where = {});
/// The same with f's output before the gradients.
WEFT_API Function grad_and_value(const Function& f, std::vector<int> argnums = {0}, Location where = {});

/// What random ops of the default generators do in a vmap.
enum class Randomness : uint8_t {
  error,      ///< ValueError
  different,  ///< each example has its own draws
  same        ///< all examples have those of the first
};
struct VmapOptions {
  /// Along which dimension each input has its examples; nothing for an input that all examples share. One stands for
  /// all.
  std::vector<std::optional<int>> in_dims = {0};
  /// Where the outputs, and aux, get theirs. One stands for all.
  std::vector<int> out_dims = {0};
  Randomness randomness = Randomness::error;
};
/// The function that does to batches what f does to examples. f runs on the first one, and its kernels on all: in one
/// call where they have room for a dimension more, else example by example. Where that does not go, f is called for
/// each example in order: on a device, where a gradient is to flow through, where f reads values (item), writes to what
/// it shares with others, or draws `different` numbers; it is called once more where it writes to its inputs.
/// Without examples f is called once with a stand-in, from which the outputs have their shapes and dtypes. ValueError
/// where no input has an example dimension and where their numbers differ; IndexError for a dimension that a tensor
/// lacks.
WEFT_API Function vmap(const Function& f, VmapOptions options = {}, Location where = {});

}  // namespace weft::func
