#include "master_weights.hpp"

#include <unordered_set>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/detail/common.hpp"

namespace weft::optim {

MasterWeights::MasterWeights(std::vector<Tensor> parameters, Location where) : parameters_(std::move(parameters)) {
  const CallScope call("MasterWeights", where);
  const NoGradGuard unrecorded;
  std::unordered_set<const TensorImpl*> met;
  for (const Tensor& p : parameters_) {
    if (!checked(p).requires_grad() || !p.is_leaf()) {
      raise<ValueError>({.problem = "a parameter is no leaf that requires a gradient", .details = describe(p)});
    }
    if (!met.insert(p.impl()).second) {
      raise<ValueError>({.problem = "a parameter is given twice", .details = describe(p)});
    }
    check_writable(p);
    const bool narrow = p.dtype() == DType::f16 || p.dtype() == DType::bf16;
    masters_.push_back(narrow ? p.detach().to(DType::f32).requires_grad_(true) : p);
  }
}

void MasterWeights::take_gradients(Location where) {
  const CallScope call("MasterWeights::take_gradients", where);
  const NoGradGuard unrecorded;
  std::vector<Tensor> gradients(parameters_.size());
  for (size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor gradient = parameters_[i].grad();
    if (gradient.defined()) gradients[i] = gradient.detach().to(DType::f32);
  }
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (masters_[i].impl() == parameters_[i].impl() || !gradients[i].defined()) continue;
    masters_[i].set_grad(gradients[i]);
    parameters_[i].set_grad({});
  }
}

void MasterWeights::write_back(Location where) {
  const CallScope call("MasterWeights::write_back", where);
  const NoGradGuard unrecorded;
  for (size_t i = 0; i < parameters_.size(); ++i) {
    if (masters_[i].impl() != parameters_[i].impl()) parameters_[i].copy_(masters_[i]);
  }
}

void MasterWeights::step(Optimizer& optimizer, Location where) {
  take_gradients(where);
  optimizer.step(where);
  write_back(where);
}

void MasterWeights::zero_grad() {
  for (const auto* list : {&parameters_, &masters_}) {
    for (const Tensor& t : *list) t.set_grad({}, Location::none());
  }
}

std::map<std::string, Tensor> MasterWeights::state_dict() const {
  std::map<std::string, Tensor> out;
  for (size_t i = 0; i < masters_.size(); ++i) {
    if (masters_[i].impl() != parameters_[i].impl()) out.emplace(std::to_string(i), masters_[i].detach());
  }
  return out;
}

void MasterWeights::load_state_dict(const std::map<std::string, Tensor>& values, Location where) {
  const CallScope call("MasterWeights::load_state_dict", where);
  const auto own = state_dict();
  std::vector<std::pair<Tensor, Tensor>> copies;
  for (const auto& [name, master] : own) {
    const auto found = values.find(name);
    if (found == values.end()) raise<ValueError>({.problem = fmt::format("there is no \"{}\"", name)});
    const Tensor& value = checked(found->second);
    if (!(value.shape() == master.shape())) {
      raise<ShapeError>({.problem = fmt::format("\"{}\" has another shape than its parameter", name),
                         .details = value.shape().text() + " for " + master.shape().text()});
    }
    copies.emplace_back(master, value.detach().to(master.device()));
  }
  if (values.size() != own.size()) raise<ValueError>({.problem = "there are values of other parameters than these"});
  const NoGradGuard unrecorded;
  for (const auto& [master, value] : copies) master.copy_(value);
  write_back(where);
}

}  // namespace weft::optim
