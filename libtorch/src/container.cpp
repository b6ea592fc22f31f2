#include <torch/nn/modules/container.h>

#include <ostream>

namespace torch::nn {

namespace detail {
void check_index(size_t i, size_t size) { TORCH_CHECK_INDEX(i < size, "Index out of range"); }
}  // namespace detail

std::shared_ptr<Module> SequentialImpl::clone(const optional<Device>& device) const {
  auto copy = std::make_shared<SequentialImpl>();
  for (size_t i = 0; i < modules_.size(); ++i) copy->push_back(children_[i].key(), modules_[i].clone(device));
  return copy;
}

std::shared_ptr<Module> ModuleListImpl::clone(const optional<Device>& device) const {
  auto copy = std::make_shared<ModuleListImpl>();
  for (const auto& module : modules_) copy->push_back(module->clone(device));
  return copy;
}
void ModuleListImpl::insert(size_t i, std::shared_ptr<Module> module) {
  TORCH_CHECK_INDEX(i <= size(), "Index out of range");
  modules_.insert(modules_.begin() + static_cast<std::ptrdiff_t>(i), std::move(module));
  children_.clear();
  for (size_t k = 0; k < modules_.size(); ++k) register_module(std::to_string(k), modules_[k]);
}

std::shared_ptr<Module> ModuleDictImpl::clone(const optional<Device>& device) const {
  auto copy = std::make_shared<ModuleDictImpl>();
  for (const auto& [name, module] : children_.pairs()) copy->register_module(name, module->clone(device));
  return copy;
}
std::shared_ptr<Module> ModuleDictImpl::pop(const std::string& key) {
  std::shared_ptr<Module> module = children_[key];
  unregister_module(key);
  return module;
}
void ModuleDictImpl::update(const Pairs& modules) {
  for (const auto& [name, module] : modules) {
    if (contains(name)) replace_module(name, module);
    else register_module(name, module);
  }
}

namespace {
void print_parameter(std::ostream& out, const std::string& name, const Tensor& parameter) {
  out << "(" << name << "): Parameter containing: [" << parameter.scalar_type() << " of size " << parameter.sizes()
      << "]\n";
}
}  // namespace

void ParameterListImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::ParameterList(\n";
  for (const auto& entry : parameters_) print_parameter(stream, entry.key(), entry.value());
  stream << ")";
}
void ParameterDictImpl::pretty_print(std::ostream& stream) const {
  stream << "torch::nn::ParameterDict(\n";
  for (const auto& entry : parameters_) print_parameter(stream, entry.key(), entry.value());
  stream << ")";
}
Tensor ParameterDictImpl::pop(const std::string& key) {
  Tensor parameter = parameters_[key];
  parameters_.erase(key);
  return parameter;
}
void ParameterDictImpl::set(const std::string& key, const Tensor& parameter) {
  if (contains(key)) parameters_[key] = parameter;
  else insert(key, parameter);
}

}  // namespace torch::nn
