#include <torch/nn/module.h>

#include <cxxabi.h>

#include <ostream>

#include <torch/nn/modules/any.h>
#include <torch/serialize/archive.h>

namespace torch::nn {

namespace {

void check_name(const std::string& name, const char* kind) {
  TORCH_CHECK(!name.empty(), kind, " name must not be empty");
  TORCH_CHECK(name.find('.') == name.npos, kind, " name must not contain a dot (got '", name, "')");
}
std::string joined(const std::string& prefix, const std::string& name) {
  return prefix.empty() ? name : prefix + "." + name;
}

}  // namespace

const std::string& Module::name() const noexcept {
  if (!name_.empty()) return name_;
  int status = 0;
  char* text = abi::__cxa_demangle(typeid(*this).name(), nullptr, nullptr, &status);
  name_ = status == 0 ? text : typeid(*this).name();
  std::free(text);
  return name_;
}

std::shared_ptr<Module> Module::clone(const optional<Device>&) const {
  TORCH_CHECK(false, "clone() has not been implemented for ", name(), ". Subclass torch::nn::Cloneable<", name(),
              "> instead of torch::nn::Module to inherit the ability to clone.");
}
void Module::clone_(Module&, const optional<Device>&) {}

// ---- walks ----
void Module::walk(const std::string& name, const std::function<void(const std::string&, Module&)>& visit) {
  visit(name, *this);
  for (const auto& child : children_) child.value()->walk(joined(name, child.key()), visit);
}

std::shared_ptr<Module> Module::self() const {
  const std::shared_ptr<Module> owner = const_cast<Module*>(this)->weak_from_this().lock();
  TORCH_CHECK(owner != nullptr,
              "It looks like you attempted to retrieve your top-level module as a shared_ptr, but it is not stored in "
              "a shared_ptr. Use std::make_shared<",
              name(),
              "> instead of creating your module on the stack, or alternatively do not try to access your "
              "top-level module at all by passing /*include_self=*/false to modules() or named_modules()");
  return owner;
}

OrderedDict<std::string, Tensor> Module::named_parameters(bool recurse) const {
  OrderedDict<std::string, Tensor> all;
  const auto add = [&](const std::string& prefix, const Module& module) {
    for (const auto& entry : module.parameters_) {
      if (entry->defined()) all.insert(joined(prefix, entry.key()), *entry);
    }
  };
  if (recurse) apply([&](const std::string& prefix, const Module& module) { add(prefix, module); });
  else add("", *this);
  return all;
}
std::vector<Tensor> Module::parameters(bool recurse) const { return named_parameters(recurse).values(); }

OrderedDict<std::string, Tensor> Module::named_buffers(bool recurse) const {
  OrderedDict<std::string, Tensor> all;
  const auto add = [&](const std::string& prefix, const Module& module) {
    for (const auto& entry : module.buffers_) {
      if (entry->defined()) all.insert(joined(prefix, entry.key()), *entry);
    }
  };
  if (recurse) apply([&](const std::string& prefix, const Module& module) { add(prefix, module); });
  else add("", *this);
  return all;
}
std::vector<Tensor> Module::buffers(bool recurse) const { return named_buffers(recurse).values(); }

OrderedDict<std::string, std::shared_ptr<Module>> Module::named_modules(const std::string& name_prefix,
                                                                        bool include_self) const {
  OrderedDict<std::string, std::shared_ptr<Module>> all;
  if (include_self) all.insert(name_prefix, self());
  const std::function<void(const std::string&, const Module&)> add = [&](const std::string& prefix,
                                                                         const Module& module) {
    for (const auto& child : module.children_) {
      const std::string name = joined(prefix, child.key());
      all.insert(name, child.value());
      add(name, *child.value());
    }
  };
  add(name_prefix, *this);
  return all;
}
std::vector<std::shared_ptr<Module>> Module::modules(bool include_self) const {
  return named_modules("", include_self).values();
}

// ---- state ----
void Module::train(bool on) {
  for (auto& child : children_) child.value()->train(on);
  is_training_ = on;
}

template <class Change>
void Module::change_tensors(const Change& change) {
  const NoGradGuard unrecorded;
  for (auto& child : children_) child.value()->change_tensors(change);
  const auto replace = [&](Tensor& tensor) {
    if (!tensor.defined()) return;
    const Tensor gradient = tensor.is_leaf() && tensor.requires_grad() ? tensor.grad() : Tensor();
    tensor.set_data(change(tensor));
    if (gradient.defined()) tensor.set_grad(change(gradient));
  };
  for (auto& entry : parameters_) replace(*entry);
  for (auto& entry : buffers_) replace(*entry);
}
void Module::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  change_tensors([&](const Tensor& tensor) { return tensor.to(device, dtype, non_blocking); });
}
void Module::to(torch::Dtype dtype, bool non_blocking) {
  change_tensors([&](const Tensor& tensor) { return tensor.to(dtype, non_blocking); });
}
void Module::to(torch::Device device, bool non_blocking) {
  change_tensors([&](const Tensor& tensor) { return tensor.to(device, tensor.scalar_type(), non_blocking); });
}
void Module::zero_grad(bool set_to_none) {
  for (auto& child : children_) child.value()->zero_grad(set_to_none);
  for (auto& entry : parameters_) {
    if (!entry->defined() || !entry->requires_grad()) continue;
    const Tensor gradient = entry->grad();
    if (!gradient.defined()) continue;
    if (set_to_none) entry->set_grad(Tensor());
    else gradient.detach().zero_();
  }
}

// ---- files and text ----
void Module::save(serialize::OutputArchive& archive) const {
  for (const auto& entry : parameters_) {
    if (entry->defined()) archive.write(entry.key(), entry.value());
  }
  for (const auto& entry : buffers_) {
    if (entry->defined()) archive.write(entry.key(), entry.value(), /*is_buffer=*/true);
  }
  for (const auto& child : children_) {
    if (!child.value()->is_serializable()) continue;
    serialize::OutputArchive below;
    child.value()->save(below);
    archive.write(child.key(), below);
  }
}
void Module::load(serialize::InputArchive& archive) {
  for (auto& entry : parameters_) {
    if (entry->defined()) archive.read(entry.key(), entry.value());
  }
  for (auto& entry : buffers_) {
    if (entry->defined()) archive.read(entry.key(), entry.value(), /*is_buffer=*/true);
  }
  for (auto& child : children_) {
    if (!child.value()->is_serializable()) continue;
    serialize::InputArchive below;
    archive.read(child.key(), below);
    child.value()->load(below);
  }
}
void Module::pretty_print(std::ostream& stream) const { stream << name(); }

void Module::print_below(std::ostream& out, const std::string& indent) const {
  pretty_print(out);
  if (children_.is_empty()) return;
  out << "(\n";
  for (const auto& child : children_) {
    out << indent << "  (" << child.key() << "): ";
    child.value()->print_below(out, indent + "  ");
    out << '\n';
  }
  out << indent << ')';
}
std::ostream& operator<<(std::ostream& out, const Module& module) {
  module.print_below(out, "");
  return out;
}

serialize::OutputArchive& operator<<(serialize::OutputArchive& archive, const std::shared_ptr<nn::Module>& module) {
  TORCH_CHECK(module != nullptr, "Cannot serialize empty module");
  module->save(archive);
  return archive;
}
serialize::InputArchive& operator>>(serialize::InputArchive& archive, const std::shared_ptr<nn::Module>& module) {
  TORCH_CHECK(module != nullptr, "Cannot deserialize empty module");
  module->load(archive);
  return archive;
}

// ---- registration ----
Tensor& Module::register_parameter(std::string name, Tensor tensor, bool requires_grad) {
  check_name(name, "Parameter");
  if (tensor.defined()) tensor.set_requires_grad(requires_grad);
  else if (requires_grad) {
    TORCH_WARN("An undefined tensor cannot require grad. Ignoring the `requires_grad=true` function parameter.");
  }
  return parameters_.insert(std::move(name), std::move(tensor));
}
Tensor& Module::register_buffer(std::string name, Tensor tensor) {
  check_name(name, "Buffer");
  return buffers_.insert(std::move(name), std::move(tensor));
}
void Module::insert_module(std::string name, std::shared_ptr<Module> module) {
  check_name(name, "Submodule");
  children_.insert(std::move(name), std::move(module));
}
void Module::exchange_module(const std::string& name, std::shared_ptr<Module> module) {
  children_[name] = std::move(module);
}
void Module::unregister_module(const std::string& name) {
  TORCH_CHECK(children_.contains(name), "No Module with name `", name, "` is registered");
  children_.erase(name);
}

// ---- AnyModule ----
unsigned int Module::_forward_num_required_args() { TORCH_CHECK(false, name(), " has no default arguments"); }
std::vector<AnyValue> Module::_forward_populate_default_args(std::vector<AnyValue>&&) {
  TORCH_CHECK(false, name(), " has no default arguments: use FORWARD_HAS_DEFAULT_ARGS in the class");
}

}  // namespace torch::nn
