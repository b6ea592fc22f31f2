// A model in parts beside the whole one: first values, and gradients.
#pragma once

#include <gtest/gtest.h>

#include <weft/distributed/sharded_state.hpp>
#include <weft/distributed/tensor_parallel.hpp>

#include <temporary_folder.hpp>

#include "ranks.hpp"

namespace weft::distributed {

/// Values that are no start values, the same on every rank.
inline void shake(const nn::Module& model) {
  const NoGradGuard unrecorded;
  int seed = 0;
  for (const Tensor& p : model.parameters()) p.add_(input_of(++seed, p.shape()) * 0.02);
}

/// All gradients of a sharded model, unsharded, by name.
inline std::map<std::string, Tensor> whole_gradients(const nn::Module& model, const Group& group) {
  std::map<std::string, Tensor> out;
  // Gradients replace the values, and are assembled like a state.
  for (const Tensor& p : model.parameters()) {
    if (p.requires_grad()) p.detach().copy_(p.grad().defined() ? p.grad() : zeros_like(p));
  }
  const io::ShardedState state = sharded_state(model);
  static const TemporaryFolder all;
  const std::filesystem::path place = all.path() / std::to_string(group.size());
  const int64_t id = save_state_dict(state, place, group);
  const io::TensorStore store = io::open_state_dict(place, id);
  for (const auto& [key, info] : store.entries()) out.emplace(key, store.get(key));
  barrier(group);
  return out;
}

inline void expect_same_gradients(const nn::Module& parts, const nn::Module& dense, const Group& group) {
  const std::map<std::string, Tensor> got = whole_gradients(parts, group);
  for (const auto& [name, p] : dense.named_parameters()) {
    if (!p.requires_grad() || !p.grad().defined()) continue;
    ASSERT_TRUE(got.contains(name)) << name;
    EXPECT_EQ(got.at(name).shape(), p.shape()) << name;
    const double largest = amax(abs(p.grad())).item<double>();
    EXPECT_TRUE(allclose(got.at(name), p.grad(), 1e-4, 1e-6 * largest)) << name;
  }
}

}  // namespace weft::distributed
