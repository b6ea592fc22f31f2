// RunStates as tuples of Python's; weft/_training_state.py gives them names.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <tuple>

#include <nanobind/stl/tuple.h>

#include "../io/training_state.hpp"

#include "caster.hpp"
#include "generator.hpp"

namespace weft::python {

using RunFields = std::tuple<int64_t, int64_t, int64_t, std::optional<double>, int64_t,
                             std::map<std::string, std::string>, std::map<std::string, Tensor>>;

inline io::RunState state_of(const RunFields& given) {
  return std::apply([](const auto&... fields) { return io::RunState{fields...}; }, given);
}
inline RunFields fields_of(const io::RunState& s) {
  return {s.step, s.epoch, s.samples, s.best_metric, s.accumulated, s.documents, s.tensors};
}

/// By name. Raises TypeError for values other than weft.Generator.
inline std::map<std::string, Generator*> generators_of(const nb::dict& given) {
  std::map<std::string, Generator*> out;
  for (const auto& [name, object] : given) {
    Generator* const generator = to_generator(object.ptr());
    if (generator == nullptr) throw_type_error("argument 'generators' has an element that is no weft.Generator");
    out.emplace(nb::cast<std::string>(name), generator);
  }
  return out;
}

}  // namespace weft::python
