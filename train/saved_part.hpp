// Parts of a run that are saved with it, with type erasure. Not for users.
//
// A part has a state of text, numbers or tensors, so the trainer needs no case for loaders or schedulers.
#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../data/fields.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/config.hpp"

namespace weft::train {

/// The saved form of a part: a JSON text, and named tensors that share no memory.
struct PartState {
  std::string text = "{}";
  std::map<std::string, Tensor> tensors = {};
};

namespace detail {

using Numbers = std::map<std::string, double>;
using Tensors = std::map<std::string, Tensor>;

/// A part of the run, of any type.
struct SavedPart {
  std::string name;
  Callback<PartState()> state;
  Callback<void(const PartState&)> restore;
};

/// Restores all parts. If one raises, it and those before it get their previous states back; the error names the part
/// and `found_in`.
WEFT_API void restore_parts(std::span<const std::pair<SavedPart, PartState>> parts, const std::string& found_in);

WEFT_API std::string numbers_text(const Numbers& numbers);
WEFT_API Numbers numbers_in(const std::string& text);

/// Numbers by position, under "0", "1", …; missing ones are absent.
inline void add_number(Numbers& into, size_t i, std::optional<double> value) {
  if (value) into.emplace(std::to_string(i), *value);
}
inline std::optional<double> number_at(const Numbers& numbers, size_t i) {
  const auto found = numbers.find(std::to_string(i));
  return found == numbers.end() ? std::nullopt : std::optional(found->second);
}

template <class Part>
concept StateOfPart = requires(Part& part) {
  { part.state() } -> std::same_as<PartState>;
  part.restore(part.state());
};
template <class Part>
concept StateOfText = requires(Part& part) {
  part.restore(std::string(part.state()));
};
template <class Part>
concept StateOfNumbers = requires(Part& part) {
  part.restore(Numbers(part.state()));
};
template <class Part>
concept StateOfList = requires(Part& part) {
  part.restore(std::vector<double>(part.state()));
};
/// A struct of numbers, which may be optional.
template <class Part>
concept StateOfFields = requires(Part& part) {
  requires weft::data::detail::PlainStruct<std::remove_cvref_t<decltype(part.state())>>;
  part.restore(part.state());
};
template <class Part>
concept StateOfTensors = requires(Part& part) {
  part.load_state_dict(Tensors(part.state_dict()));
};

template <class State>
Numbers numbers_of_fields(const State& state) {
  Numbers out;
  [&]<size_t... i>(std::index_sequence<i...>) { (add_number(out, i, weft::data::detail::field<i>(state)), ...); }
  (std::make_index_sequence<weft::data::detail::field_count<State>>());
  return out;
}
template <class State>
State fields_of_numbers(const Numbers& numbers) {
  State out{};
  const auto set = [&]<class T>(T& field, std::optional<double> value) {
    if constexpr (std::is_arithmetic_v<T>) field = static_cast<T>(value.value_or(0));
    else field = value;
  };
  [&]<size_t... i>(std::index_sequence<i...>) { (set(weft::data::detail::field<i>(out), number_at(numbers, i)), ...); }
  (std::make_index_sequence<weft::data::detail::field_count<State>>());
  return out;
}

template <class...>
inline constexpr bool no_state = false;

/// Wraps anything with state() and restore(), with a PartState, a text, or numbers by name, in a vector or in a struct.
/// Also anything with state_dict() and load_state_dict() of tensors by name.
template <class Part>
SavedPart saved_part(const std::string& name, Part& part) {
  const auto of_numbers = [&](Callback<Numbers()> state, Callback<void(const Numbers&)> restore) {
    return SavedPart{name, [state] { return PartState{numbers_text(state())}; },
                     [restore](const PartState& s) { restore(numbers_in(s.text)); }};
  };
  if constexpr (StateOfPart<Part>) {
    return {name, [&part] { return PartState(part.state()); }, [&part](const PartState& s) { part.restore(s); }};
  } else if constexpr (StateOfText<Part>) {
    return {name, [&part] { return PartState{std::string(part.state())}; },
            [&part](const PartState& s) { part.restore(s.text); }};
  } else if constexpr (StateOfNumbers<Part>) {
    return of_numbers([&part] { return Numbers(part.state()); }, [&part](const Numbers& n) { part.restore(n); });
  } else if constexpr (StateOfList<Part>) {
    return of_numbers(
        [&part] {
          Numbers out;
          const std::vector<double> all = part.state();
          for (size_t i = 0; i < all.size(); ++i) add_number(out, i, all[i]);
          return out;
        },
        [&part](const Numbers& n) {
          std::vector<double> all(n.size());
          for (size_t i = 0; i < all.size(); ++i) all[i] = number_at(n, i).value_or(0);
          part.restore(all);
        });
  } else if constexpr (StateOfFields<Part>) {
    using State = std::remove_cvref_t<decltype(part.state())>;
    return of_numbers([&part] { return numbers_of_fields<State>(part.state()); },
                      [&part](const Numbers& n) { part.restore(fields_of_numbers<State>(n)); });
  } else if constexpr (StateOfTensors<Part>) {
    return {name, [&part] { return PartState{.tensors = Tensors(part.state_dict())}; },
            [&part](const PartState& s) { part.load_state_dict(s.tensors); }};
  } else {
    static_assert(
        no_state<Part>,
        "an object that a Trainer keeps has state() and restore(), of a train::PartState, of a text or of numbers, or "
        "state_dict() and load_state_dict(), of tensors by name");
    return {};
  }
}

/// Number of samples in a batch: the first size of a tensor, of the first element of a tuple, or of a member `x`,
/// `inputs` or `values`; or the length of a list of other items. `by_fields`: uses the first member of any struct.
template <bool by_fields = false, class Batch>
int64_t samples_in(const Batch& batch) {
  if constexpr (requires {
                  batch.dim();
                  batch.size(0);
                })
    return batch.dim() > 0 ? batch.size(0) : 1;
  else if constexpr (requires { std::tuple_size<Batch>::value; }) return samples_in<by_fields>(std::get<0>(batch));
  else if constexpr (weft::data::detail::is_vector<Batch>) {
    if constexpr (!std::is_same_v<typename Batch::value_type, Tensor>) return std::ssize(batch);
    else return batch.empty() ? 1 : samples_in(batch[0]);
  } else if constexpr (requires { batch.x; }) return samples_in<by_fields>(batch.x);
  else if constexpr (requires { batch.inputs; }) return samples_in<by_fields>(batch.inputs);
  else if constexpr (requires { batch.values; }) return samples_in<by_fields>(batch.values);
  else if constexpr (by_fields && weft::data::detail::PlainStruct<Batch>)
    return samples_in<by_fields>(weft::data::detail::field<0>(batch));
  else return 1;
}

}  // namespace detail

}  // namespace weft::train
