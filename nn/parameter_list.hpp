// Parameters by position.
#pragma once

#include <string>
#include <vector>

#include "containers.hpp"

namespace weft::nn {

/// Parameters, each registered under its position. It is not called itself.
class ParameterList : public Module {
 public:
  ParameterList() : Module(typeid(ParameterList)) {}
  ParameterList(std::initializer_list<Parameter> parameters) : ParameterList() {
    for (const Parameter& p : parameters) append(p);
  }
  // No moves, as of a Sequential.
  ParameterList(const ParameterList&) = default;
  ParameterList& operator=(const ParameterList&) = default;

  ParameterList& append(Parameter parameter, Location where = {}) {
    register_parameter(std::to_string(parameters_.size()), parameter, where);
    parameters_.push_back(std::move(parameter));
    return *this;
  }

  size_t size() const { return parameters_.size(); }
  bool empty() const { return parameters_.empty(); }
  /// One parameter; negative counts from the end. IndexError where there is none.
  const Parameter& operator[](detail::Place i) const {
    return parameters_[detail::checked_place("nn::ParameterList", i.number, parameters_.size(), i.where)];
  }
  auto begin() const { return parameters_.begin(); }
  auto end() const { return parameters_.end(); }

 private:
  std::vector<Parameter> parameters_;
};

}  // namespace weft::nn
