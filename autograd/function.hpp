// Differentiable functions that users write: a forward and a backward in C++.
//
//   struct Cube : weft::autograd::Function<Cube> {
//     static Tensor forward(Context& context, const Tensor& x) {
//       context.save({x});
//       return x * x * x;
//     }
//     static Tensor backward(Context& context, const Tensor& g) {
//       const Tensor& x = context.saved(0);
//       return 3.0 * g * x * x;
//     }
//   };
//   Tensor y = Cube::apply(x);
//
// `forward` runs unrecorded. `backward` gets one gradient per output (zeros where nothing arrived, unless
// set_materialize_grads is off) and returns one per tensor argument of `apply`, in order, with each tensor of a list
// counted by itself; an undefined one means that no gradient flows. It is written with ordinary ops, so `create_graph`
// can differentiate it in turn. AutogradError for another number of gradients, ShapeError for one that does not fit its
// argument.
#pragma once

#include <any>
#include <concepts>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "node.hpp"
#include "../tensor/pimpl.hpp"

namespace weft {
class KernelScope;
}

namespace weft::detail {

/// A call's first tensor with the place of the call.
struct FirstTensor {
  template <std::convertible_to<Tensor> T>
  FirstTensor(T&& t, Location w = {}) : tensor(std::forward<T>(t)), where(w) {}  // NOLINT: converts implicitly

  Tensor tensor;
  Location where;
};

/// The name of a type without its namespaces: "Cube".
template <class T>
constexpr std::string_view short_type_name() {
  constexpr std::string_view text = __PRETTY_FUNCTION__, before = "T = ";
  constexpr size_t start = text.find(before) + before.size(), end = text.find_first_of(";]", start);
  std::string_view name = text.substr(start, end - start);
  const size_t qualified = name.substr(0, name.find('<')).rfind("::");
  if (qualified != name.npos) name.remove_prefix(qualified + 2);
  return name;
}

}  // namespace weft::detail

namespace weft::autograd {

/// Carries data from the forward of one call to its backward.
class WEFT_API Context {
 public:
  /// Keeps inputs, outputs or other tensors, with the version that they have when the forward returns.
  void save(std::vector<Tensor> tensors);
  /// The i-th saved tensor. IndexError where there is none, AutogradError if it was written since or the graph was
  /// freed.
  Tensor saved(size_t i) const;
  /// The outputs named here get no gradient, as integer outputs never do.
  void mark_non_differentiable(std::vector<Tensor> outputs);
  /// The inputs named here were written in place and are outputs too: the caller's tensor gets the new value's history.
  /// AutogradError for a leaf that requires a gradient, ValueError for a tensor that is not both.
  void mark_dirty(std::vector<Tensor> inputs);
  /// Whether backward gets zeros for an output that no gradient arrived for, as by default, or an undefined tensor.
  void set_materialize_grads(bool on);
  /// True when the gradient for the i-th tensor argument is wanted.
  bool needs_gradient(size_t i) const;
  /// Anything else that the backward needs.
  std::any data;

 private:
  friend class Call;
  struct State;
  Shared<State> state_;
};

/// One call of a user's function, without its types.
class WEFT_API Call {
 public:
  using Backward = std::vector<Tensor> (*)(Context&, std::span<const Tensor> gradients);

  Call(std::string name, std::vector<Tensor> inputs, Location where);
  ~Call();
  Context& context() { return context_; }
  /// Ties the outputs to the inputs; outputs that are inputs become aliases of them, unless they are marked dirty.
  std::vector<Tensor> finish(std::vector<Tensor> outputs, Backward backward);

 private:
  Context context_;
  /// Lives during the forward.
  weft::detail::Pimpl<KernelScope> scope_;
};

template <class Self>
class Function {
 public:
  using Context = autograd::Context;

  /// Calls `Self::forward(context, arguments...)` and returns its result, a Tensor or a vector of them. Errors name the
  /// function, by `Self::name` where it has one, and the place of the call where the first argument is a tensor.
  /// ValueError where forward returns an undefined tensor.
  template <class... A>
  static auto apply(const weft::detail::FirstTensor& first, const A&... rest) {
    return apply_at(first.where, first.tensor, rest...);
  }
  template <class First, class... A>
    requires(!std::convertible_to<First, Tensor>)
  static auto apply(const First& first, const A&... rest) { return apply_at(Location::none(), first, rest...); }
  /// The same with the place that errors name: `Scaled::apply_at(Location(), 2.0, x)`.
  template <class... A>
  static auto apply_at(Location where, const A&... arguments) {
    std::vector<Tensor> inputs;
    (collect(inputs, arguments), ...);
    Call call(std::string(shown_name()), std::move(inputs), where);
    using Result = decltype(Self::forward(call.context(), arguments...));
    std::vector<Tensor> outputs;
    {
      NoGradGuard unrecorded;
      if constexpr (std::is_same_v<Result, Tensor>) outputs.push_back(Self::forward(call.context(), arguments...));
      else outputs = Self::forward(call.context(), arguments...);
    }
    outputs = call.finish(std::move(outputs), run_backward);
    if constexpr (std::is_same_v<Result, Tensor>) return Tensor(std::move(outputs[0]));
    else return outputs;
  }

 private:
  template <class T>
  static void collect(std::vector<Tensor>& inputs, const T& argument) {
    constexpr bool is_tensor = std::derived_from<T, Tensor>;
    static_assert(is_tensor || !std::convertible_to<T, Tensor>, "write Tensor t = x[...] and pass t");
    if constexpr (is_tensor) {
      inputs.push_back(argument);
    } else if constexpr (requires {
                           { *std::begin(argument) } -> std::convertible_to<const Tensor&>;
                         }) {
      for (const Tensor& element : argument) inputs.push_back(element);
    } else if constexpr (std::same_as<T, std::optional<Tensor>>) {
      inputs.push_back(argument.value_or(Tensor()));
    }
  }

  static std::string_view shown_name() {
    if constexpr (requires { Self::name; }) return Self::name;
    else return weft::detail::short_type_name<Self>();
  }
  static std::vector<Tensor> run_backward(Context& context, std::span<const Tensor> gradients) {
    if constexpr (requires {
                    { Self::backward(context, gradients) } -> std::same_as<std::vector<Tensor>>;
                  }) {
      return Self::backward(context, gradients);
    } else if constexpr (requires {
                           { Self::backward(context, gradients) } -> std::same_as<Tensor>;
                         }) {
      return {Self::backward(context, gradients)};
    } else if constexpr (requires {
                           { Self::backward(context, gradients[0]) } -> std::same_as<Tensor>;
                         }) {
      return {Self::backward(context, gradients[0])};
    } else {
      return Self::backward(context, gradients[0]);
    }
  }
};

}  // namespace weft::autograd
