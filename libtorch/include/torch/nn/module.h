// Module: parameters, buffers and submodules by name.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <typeinfo>

#include <torch/nn/pimpl.h>
#include <torch/ordered_dict.h>
#include <torch/types.h>

namespace torch::nn {

class AnyValue;

class Module : public std::enable_shared_from_this<Module> {
 public:
  /// The default name is that of the class.
  Module() = default;
  explicit Module(std::string name) : name_(std::move(name)) {}
  Module(const Module&) = default;
  Module& operator=(const Module&) = default;
  Module(Module&&) noexcept = default;
  Module& operator=(Module&&) noexcept = default;
  virtual ~Module() = default;

  const std::string& name() const noexcept;
  /// A deep copy. Raises an error unless the class derives from Cloneable.
  virtual std::shared_ptr<Module> clone(const optional<Device>& device = nullopt) const;

  // ---- walks ----
  /// Calls f with this module and all below it, parents first. f takes Module&, const Module&, or
  /// const std::shared_ptr<Module>&, and for the second form the name before it.
  template <class F>
    requires(std::is_invocable_v<F&, Module&> || std::is_invocable_v<F&, const std::shared_ptr<Module>&>)
  void apply(F&& f) {
    walk("", [&](const std::string&, Module& module) { call(f, module); });
  }
  template <class F>
    requires(std::is_invocable_v<F&, const Module&> && !std::is_invocable_v<F&, const std::shared_ptr<Module>&>)
  void apply(F&& f) const {
    const_cast<Module*>(this)->walk("", [&](const std::string&, Module& module) { f(std::as_const(module)); });
  }
  template <class F>
    requires(std::is_invocable_v<F&, const std::string&, Module&> ||
             std::is_invocable_v<F&, const std::string&, const std::shared_ptr<Module>&>)
  void apply(F&& f, const std::string& name_prefix = {}) {
    walk(name_prefix, [&](const std::string& name, Module& module) { call(f, module, name); });
  }
  template <class F>
    requires(std::is_invocable_v<F&, const std::string&, const Module&>)
  void apply(F&& f, const std::string& name_prefix = {}) const {
    const_cast<Module*>(this)->walk(name_prefix,
                                    [&](const std::string& name, Module& module) { f(name, std::as_const(module)); });
  }

  // Undefined tensors are left out.
  std::vector<Tensor> parameters(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_parameters(bool recurse = true) const;
  std::vector<Tensor> buffers(bool recurse = true) const;
  OrderedDict<std::string, Tensor> named_buffers(bool recurse = true) const;
  std::vector<std::shared_ptr<Module>> modules(bool include_self = true) const;
  OrderedDict<std::string, std::shared_ptr<Module>> named_modules(const std::string& name_prefix = {},
                                                                  bool include_self = true) const;
  std::vector<std::shared_ptr<Module>> children() const { return children_.values(); }
  OrderedDict<std::string, std::shared_ptr<Module>> named_children() const { return children_; }

  // ---- state ----
  virtual void train(bool on = true);
  void eval() { train(false); }
  virtual bool is_training() const noexcept { return is_training_; }
  virtual void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false);
  virtual void to(torch::Dtype dtype, bool non_blocking = false);
  virtual void to(torch::Device device, bool non_blocking = false);
  virtual void zero_grad(bool set_to_none = true);

  // ---- casts ----
  template <class M, std::enable_if_t<torch::detail::is_module_holder<M>::value, int> = 0>
  typename M::ContainedType* as() noexcept {
    return dynamic_cast<typename M::ContainedType*>(this);
  }
  template <class M, std::enable_if_t<torch::detail::is_module_holder<M>::value, int> = 0>
  const typename M::ContainedType* as() const noexcept {
    return dynamic_cast<const typename M::ContainedType*>(this);
  }
  template <class M, std::enable_if_t<!torch::detail::is_module_holder<M>::value, int> = 0>
  M* as() noexcept {
    return dynamic_cast<M*>(this);
  }
  template <class M, std::enable_if_t<!torch::detail::is_module_holder<M>::value, int> = 0>
  const M* as() const noexcept {
    return dynamic_cast<const M*>(this);
  }

  // ---- files and text ----
  virtual void save(serialize::OutputArchive& archive) const;
  virtual void load(serialize::InputArchive& archive);
  virtual void pretty_print(std::ostream& stream) const;
  virtual bool is_serializable() const { return true; }

  // ---- registration ----
  Tensor& register_parameter(std::string name, Tensor tensor, bool requires_grad = true);
  Tensor& register_buffer(std::string name, Tensor tensor);
  template <class M>
  std::shared_ptr<M> register_module(std::string name, std::shared_ptr<M> module) {
    insert_module(std::move(name), module);
    return module;
  }
  template <class M>
  std::shared_ptr<M> register_module(std::string name, ModuleHolder<M> module) {
    return register_module(std::move(name), module.ptr());
  }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, std::shared_ptr<M> module) {
    exchange_module(name, module);
    return module;
  }
  template <class M>
  std::shared_ptr<M> replace_module(const std::string& name, ModuleHolder<M> module) {
    return replace_module(name, module.ptr());
  }
  void unregister_module(const std::string& name);

  // ---- AnyModule ----
  virtual unsigned int _forward_num_required_args();
  virtual bool _forward_has_default_args() { return false; }
  virtual std::vector<AnyValue> _forward_populate_default_args(std::vector<AnyValue>&& arguments);

 protected:
  OrderedDict<std::string, Tensor> parameters_{"Parameter"};
  OrderedDict<std::string, Tensor> buffers_{"Buffer"};
  OrderedDict<std::string, std::shared_ptr<Module>> children_{"Submodule"};

 private:
  template <class Derived>
  friend class Cloneable;
  friend std::ostream& operator<<(std::ostream& out, const Module& module);

  template <class F>
  static void call(F& f, Module& module) {
    if constexpr (std::is_invocable_v<F&, Module&>) f(module);
    else f(module.self());
  }
  template <class F>
  static void call(F& f, Module& module, const std::string& name) {
    if constexpr (std::is_invocable_v<F&, const std::string&, Module&>) f(name, module);
    else f(name, module.self());
  }
  void walk(const std::string& name, const std::function<void(const std::string&, Module&)>& visit);
  void insert_module(std::string name, std::shared_ptr<Module> module);
  void exchange_module(const std::string& name, std::shared_ptr<Module> module);
  template <class Change>
  void change_tensors(const Change& change);
  /// Raises an error if no shared_ptr owns the module.
  std::shared_ptr<Module> self() const;
  void print_below(std::ostream& out, const std::string& indent) const;
  virtual void clone_(Module& other, const optional<Device>& device);

  mutable std::string name_;
  bool is_training_ = true;
};

std::ostream& operator<<(std::ostream& out, const Module& module);
serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const std::shared_ptr<nn::Module>& module);
serialize::InputArchive& operator>>(serialize::InputArchive& archive, const std::shared_ptr<nn::Module>& module);

}  // namespace torch::nn
