// Helpers of the layer classes.
#pragma once

#include <torch/nn/cloneable.h>

namespace torch::nn::detail {

/// A layer without parameters: it is its options and a function. Options may have a check().
template <class Derived, class Options_>
class PlainLayer : public Cloneable<Derived> {
 public:
  PlainLayer() requires std::is_default_constructible_v<Options_>
  = default;
  PlainLayer(const Options_& options_) : options(options_) { check(); }
  template <class... A>
    requires(std::is_constructible_v<Options_, A...> && sizeof...(A) > 0 &&
             !(std::is_base_of_v<Module, std::remove_cvref_t<A>> || ...) &&
             !(std::is_same_v<Options_, std::remove_cvref_t<A>> || ...))
  explicit PlainLayer(A&&... arguments) : options(std::forward<A>(arguments)...) { check(); }
  void reset() override { check(); }

  Options_ options;

 private:
  void check() const {
    if constexpr (requires { options.check(); }) options.check();
  }
};
struct NoOptions {};

}  // namespace torch::nn::detail

#define TORCH_PLAIN_CLASS(Name, Options, Result, ...)                 \
  class Name##Impl : public detail::PlainLayer<Name##Impl, Options> { \
   public:                                                            \
    using PlainLayer::PlainLayer;                                     \
    Result forward(__VA_ARGS__);                                      \
    void pretty_print(std::ostream& stream) const override;           \
  };                                                                  \
  TORCH_MODULE(Name);
