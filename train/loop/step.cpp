#include "step-inl.hpp"

#include <stdexcept>
#include <typeinfo>
#include <unordered_set>

#include <fmt/format.h>

#include "../../tensor/error.hpp"

namespace weft::train {

namespace {

// Exact types only: a derived type may hold more than its text.
template <class... E>
void raise_if_exactly(const std::exception& error, const std::string& text) {
  ((typeid(error) == typeid(E) ? throw E(text) : void()), ...);
}

}  // namespace

void raise_at(const std::string& place) {
  try {
    throw;
  } catch (const std::exception& error) {
    const std::string text = fmt::format("[Trainer] {}: {}", place, error.what());
    raise_if_exactly<ShapeError, DTypeError, DeviceError, IndexError, ValueError, KeyError, ZeroDivisionError,
                     AutogradError, FormatError, VersionError, IoError, NotImplementedError, NonFiniteError, Error>(
        error, text);
    raise_if_exactly<std::runtime_error, std::logic_error, std::invalid_argument, std::domain_error, std::length_error,
                     std::out_of_range, std::range_error, std::overflow_error, std::underflow_error>(error, text);
    throw;
  }
}

std::vector<size_t> foreign_parameters(const nn::Module& model, const optim::Optimizer& optimizer,
                                       const optim::MasterWeights* masters) {
  std::unordered_set<const TensorImpl*> known;
  for (const Tensor& p : model.parameters()) known.insert(p.impl());
  if (masters != nullptr) {
    const std::vector<Tensor>&own = masters->model_parameters(), &stand_ins = masters->parameters();
    for (size_t i = 0; i < own.size(); ++i) {
      if (known.contains(own[i].impl())) known.insert(stand_ins[i].impl());
    }
  }
  std::vector<size_t> out;
  const std::vector<Tensor> parameters = optimizer.parameters();
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (!known.contains(parameters[i].impl())) out.push_back(i);
  }
  return out;
}

}  // namespace weft::train
