// ska::flat_hash_map, by which libtorch 1 names the type of the states of an optimizer.
#pragma once

#include <memory>
#include <string>
#include <unordered_map>

namespace torch::optim {
class OptimizerParamState;
}

namespace ska {

namespace detail {
template <class Key, class Value>
struct Map {
  using type = std::unordered_map<Key, Value>;
};
/// The key of a state is a text in libtorch 1, and an address in libtorch 2 and here.
template <>
struct Map<std::string, std::unique_ptr<torch::optim::OptimizerParamState>> {
  using type = std::unordered_map<void*, std::unique_ptr<torch::optim::OptimizerParamState>>;
};
}  // namespace detail

template <class Key, class Value>
using flat_hash_map = typename detail::Map<Key, Value>::type;

}  // namespace ska
