// Parts of a run that are saved with it, whatever their types. Not for users.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <tuple>

#include "../tensor/callback.hpp"
#include "../tensor/config.hpp"

namespace weft::train {

namespace detail {

/// A part of the run that is saved as a JSON text.
struct SavedPart {
  std::string name;
  Callback<std::string()> state;
  Callback<void(const std::string&)> restore;
};

WEFT_API std::string numbers_text(const std::map<std::string, double>& numbers);
WEFT_API std::map<std::string, double> numbers_in(const std::string& text);

/// Anything with state() and restore(), whose state is a text or numbers by name.
template <class Part>
SavedPart saved_part(const std::string& name, Part& part) {
  if constexpr (requires { part.restore(std::string(part.state())); }) {
    return {name, [&part] { return std::string(part.state()); }, [&part](const std::string& s) { part.restore(s); }};
  } else {
    return {name, [&part] { return numbers_text(part.state()); },
            [&part](const std::string& s) { part.restore(numbers_in(s)); }};
  }
}

/// How many samples a batch has: the first size of a tensor, of the first part of a tuple, or of a member `x`.
template <class Batch>
int64_t samples_in(const Batch& batch) {
  if constexpr (requires {
                  batch.dim();
                  batch.size(0);
                })
    return batch.dim() > 0 ? batch.size(0) : 1;
  else if constexpr (requires { std::tuple_size<Batch>::value; }) return samples_in(std::get<0>(batch));
  else if constexpr (requires { batch.x; }) return samples_in(batch.x);
  else return 1;
}

}  // namespace detail

}  // namespace weft::train
