// A layer that is a function of one tensor.
#pragma once

#include <string>
#include <utility>

#include "config.hpp"
#include "module.hpp"

namespace weft::nn {

/// A layer without parameters that calls one function, which stores the layer's options. Calls raise the function's
/// errors.
template <class Self>
class FunctionLayer : public Layer<Self> {  // NOLINT(bugprone-crtp-constructor-accessibility): as Layer
 public:
  Tensor forward(const Tensor& x, Location where) const { return function_(x, this->is_training(), where); }

 protected:
  /// For constructors: sets the function of a call and the layer's options. The layer prints as `name(options)`; the
  /// default name is the class name.
  void set_function(Callback<Tensor(const Tensor& x, bool training, Location where)> function,
                    const Config& config = {}, std::string name = {}) {
    function_ = std::move(function);
    this->set_config(config);
    if (!name.empty()) this->set_class_name(std::move(name));
  }

 private:
  Callback<Tensor(const Tensor&, bool, Location)> function_;
};

}  // namespace weft::nn
