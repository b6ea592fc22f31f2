// Cloneable: clone() for modules that register their members in reset().
#pragma once

#include <torch/nn/module.h>

namespace torch::nn {

template <class Derived>
class Cloneable : public Module {
 public:
  using Module::Module;

  /// Registers all parameters, buffers and submodules.
  virtual void reset() = 0;

  std::shared_ptr<Module> clone(const optional<Device>& device = nullopt) const override {
    const NoGradGuard unrecorded;
    auto copy = std::make_shared<Derived>(static_cast<const Derived&>(*this));
    copy->parameters_.clear();
    copy->buffers_.clear();
    copy->children_.clear();
    copy->reset();
    copy_tensors(parameters_, copy->parameters_, device, "parameters");
    copy_tensors(buffers_, copy->buffers_, device, "buffers");
    check_count(children_, copy->children_, "submodules");
    for (const auto& child : children_) copy->children_[child.key()]->clone_(*child.value(), device);
    return copy;
  }

 private:
  template <class Dict>
  static void check_count(const Dict& own, const Dict& copied, const char* kind) {
    TORCH_CHECK(copied.size() == own.size(), "The cloned module does not have the same number of ", kind,
                " as the original module after calling reset(). Are you sure you called register_",
                kind[0] == 'p'   ? "parameter"
                : kind[0] == 'b' ? "buffer"
                                 : "module",
                "() inside reset() and not the constructor?");
  }
  static void copy_tensors(const OrderedDict<std::string, Tensor>& own, OrderedDict<std::string, Tensor>& copied,
                           const optional<Device>& device, const char* kind) {
    check_count(own, copied, kind);
    for (const auto& entry : own) {
      const Tensor& tensor = *entry;
      if (!tensor.defined()) continue;
      copied[entry.key()].set_data(device && tensor.device() != *device ? tensor.to(*device) : tensor.clone());
    }
  }
  void clone_(Module& other, const optional<Device>& device) final {
    const auto copy = std::dynamic_pointer_cast<Derived>(other.clone(device));
    TORCH_CHECK(copy != nullptr,
                "Attempted to clone submodule, but it is of a different type than the submodule it was to be cloned "
                "into");
    static_cast<Derived&>(*this) = *copy;
  }
};

}  // namespace torch::nn
