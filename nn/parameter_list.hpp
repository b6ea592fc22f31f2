// A list of parameters.
#pragma once

#include <string>
#include <vector>

#include "containers.hpp"

namespace weft::nn {

/// A list of parameters, each registered under its position. It cannot be called.
class ParameterList : public Module {
 public:
  ParameterList() : Module(TypeId::of<ParameterList>()) {}
  ParameterList(std::initializer_list<Parameter> parameters) : ParameterList() {
    for (const Parameter& p : parameters) append(p);
  }
  // No moves, as in Sequential.
  ParameterList(const ParameterList& other) : Module(other), parameters_(other.parameters_) { become_copy(other); }
  ParameterList& operator=(const ParameterList& other) {
    assign(other);
    parameters_ = other.parameters_;
    return *this;
  }

  ParameterList& append(Parameter parameter, Location where = {}) {
    register_parameter(std::to_string(parameters_->size()), parameter, where);
    parameters_.append(std::move(parameter));
    return *this;
  }

  size_t size() const { return parameters_->size(); }
  bool empty() const { return parameters_->empty(); }
  /// A parameter; assigning to it replaces the parameter. A negative index counts from the end. Raises IndexError if it
  /// is out of range.
  Parameter& operator[](detail::Place i) { return (*parameters_)[place(i)]; }
  const Parameter& operator[](detail::Place i) const { return (*parameters_)[place(i)]; }
  auto begin() { return parameters_->begin(); }
  auto end() { return parameters_->end(); }
  auto begin() const { return std::as_const(*parameters_).begin(); }
  auto end() const { return std::as_const(*parameters_).end(); }

 private:
  size_t place(detail::Place i) const {
    return detail::checked_place("nn::ParameterList", i.number, parameters_->size(), i.where);
  }
  detail::Elements<Parameter> parameters_;
};

}  // namespace weft::nn
