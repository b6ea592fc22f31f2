// States in parts: saved by some ranks, loaded by others.
#include <filesystem>

#include <gtest/gtest.h>

#include "ranks.hpp"

#include <weft/distributed/sharded_optimizer.hpp>
#include <weft/distributed/sharded_state.hpp>

#include <temporary_folder.hpp>

namespace weft::distributed {
namespace {

const LocalWorldOptions patient{.timeout_seconds = 60};

TEST(DistributedState, AnyMeshLoadsTheStateOfAnyMesh) {
  const TemporaryFolder folder;
  const Tensor w = input_of(0, {7, 6}), b = input_of(1, {5}, bf16);
  LocalWorld(4, patient).run([&](const Group& group) {
    const Mesh mesh({2, 2});
    const io::ShardedState state{{"w", shard_of(shard_tensor(w, mesh, {Shard(0), Shard(1)}))},
                                 {"b", shard_of(shard_tensor(b, mesh, {Replicate(), Shard(0)}))}};
    EXPECT_EQ(save_state_dict(state, folder.path(), group), 1);
    EXPECT_EQ(save_state_dict(state, folder.path(), group), 2);
    EXPECT_EQ(save_state_dict(state, folder.path(), group, {.id = 2}), 2);
  });
  for (const int ranks : {1, 3}) {
    LocalWorld(ranks, patient).run([&](const Group& group) {
      const Mesh mesh({group.size()});
      const DTensor columns = shard_tensor(zeros({7, 6}), mesh, {Shard(1)}),
                    whole = shard_tensor(zeros({5}, bf16), mesh, {Replicate()});
      io::load_state_dict({{"w", shard_of(columns)}, {"b", shard_of(whole)}}, folder.path(), {.id = 2});
      EXPECT_TRUE(same_bits(columns.full_tensor(), w));
      EXPECT_TRUE(same_bits(whole.local(), b));
    });
  }
  EXPECT_EQ(io::state_ids(folder.path()), (std::vector<int64_t>{1, 2}));
}

struct Net : nn::Layer<Net> {
  nn::Linear first{5, 7}, second{7, 3}, spare{2, 2};
  Net() { WEFT_REGISTER(first, second, spare); }
  Tensor forward(const Tensor& x) const { return second(tanh(first(x))); }
};

/// Every rank has the same data, so that their number changes nothing.
template <class Optimizer>
void train(const Net& net, Optimizer& optimizer, DType dtype, int from, int to) {
  for (int step = from; step < to; ++step) {
    optimizer.zero_grad();
    mse_loss(net(input_of(step, {4, 5}).to(dtype)), input_of(100 + step, {4, 3}).to(dtype)).backward();
    optimizer.step();
  }
}

Net net_of(DType dtype) {
  manual_seed(3);
  Net net;
  net.to(dtype);
  return net;
}

struct Saved {
  DType dtype;
  int stage;
};
class ResumedOptimizer : public ::testing::TestWithParam<Saved> {};

TEST_P(ResumedOptimizer, ResumesOnAnotherNumberOfRanks) {
  const DType dtype = GetParam().dtype;
  const TemporaryFolder folder;
  const auto sharded = [&](const Net& net, const Group& group, int stage, double lr = 0.02, int64_t bytes = 64) {
    const std::vector<nn::Module> modules{net.first, net.second};
    return ShardedOptimizer(optim::Adam(net.parameters(), {.lr = lr}),
                            {.stage = stage,
                             .bucket_bytes = bytes,
                             .group = group,
                             .modules = stage == 3 ? modules : std::vector<nn::Module>()});
  };
  std::vector<Tensor> expected;
  LocalWorld(1, patient).run([&](const Group& group) {
    const Net net = net_of(dtype);
    ShardedOptimizer optimizer = sharded(net, group, 1);
    train(net, optimizer, dtype, 0, 6);
    for (const Tensor& p : net.parameters()) expected.push_back(p.detach().clone());
  });
  LocalWorld(4, patient).run([&](const Group& group) {
    const Net net = net_of(dtype);
    ShardedOptimizer optimizer = sharded(net, group, GetParam().stage);
    train(net, optimizer, dtype, 0, 3);
    optimizer.optimizer().set_lr(0.02);
    io::ShardedState state = optimizer.sharded_state(net.named_parameters());
    state.merge(optimizer.sharded_parameters(net.named_parameters()));
    save_state_dict(state, folder.path(), group);
  });
  for (const auto& [ranks, stage] : {std::pair(1, 2), {2, 1}, {3, 2}, {1, 3}, {2, 3}, {3, 3}}) {
    LocalWorld(ranks, patient).run([&, ranks = ranks, stage = stage](const Group& group) {
      const Net net = net_of(dtype);
      ShardedOptimizer optimizer = sharded(net, group, stage, 1, 1 << 20);
      optimizer.load_sharded_parameters(folder.path(), net.named_parameters());
      optimizer.load_sharded_state(folder.path(), net.named_parameters());
      EXPECT_EQ(optimizer.optimizer().lr(), 0.02);
      train(net, optimizer, dtype, 3, 6);
      const auto whole = optimizer.whole_parameters();
      for (size_t i = 0; i < expected.size(); ++i) {
        const double tolerance = dtype == f32 ? 1e-6 : 1e-2;
        EXPECT_TRUE(allclose(net.parameters()[i].detach(), expected[i], tolerance, tolerance)) << i << " of " << ranks;
      }
    });
  }
}
INSTANTIATE_TEST_SUITE_P(Types, ResumedOptimizer,
                         ::testing::Values(Saved{f32, 2}, Saved{f32, 3}, Saved{bf16, 2}, Saved{bf16, 3}),
                         [](const auto& info) {
                           return std::string(name(info.param.dtype)) + "Stage" + std::to_string(info.param.stage);
                         });

TEST(DistributedState, ARankThatCannotWriteIsNamedToTheOthers) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder.path() / "1_1.safetensors" / "in the way");
  LocalWorld(3, patient).run([&](const Group& group) {
    const Mesh mesh({3});
    const io::ShardedState state{{"w", shard_of(shard_tensor(ones({6}), mesh, {Shard(0)}))}};
    try {
      save_state_dict(state, folder.path(), group, {.id = 1});
      ADD_FAILURE() << "nothing was raised";
    } catch (const IoError& error) {
      const std::string text = error.what();
      EXPECT_NE(text.find(group.rank() == 1 ? "1_1.safetensors" : "rank 1 could not save"), text.npos) << text;
    }
    EXPECT_EQ(save_state_dict(state, folder.path(), group, {.id = 2}), 2);
  });
  EXPECT_EQ(io::state_ids(folder.path()), (std::vector<int64_t>{2}));
}

TEST(DistributedState, PartsThatDoNotFitAreRefusedOnEveryRank) {
  const TemporaryFolder folder;
  LocalWorld(2, patient).run([&](const Group& group) {
    const Mesh mesh({2});
    const Tensor own = full({2}, static_cast<float>(group.rank()));
    EXPECT_THROW(save_state_dict({{"w", {own, Dims{5}, Dims{group.rank() * int64_t{2}}}}}, folder.path(), group),
                 ValueError);
    EXPECT_THROW(shard_of(shard_tensor(ones({4}), mesh, {Partial()})), ValueError);
    EXPECT_THROW(save_state_dict({{"w", {own, Dims{4}, Dims{3}}}}, folder.path(), group), Error);
  });
  EXPECT_TRUE(io::state_ids(folder.path()).empty());
}

TEST(DistributedState, UnsupportedTensorsRaiseBeforeTheOlderStateIsRemoved) {
  const TemporaryFolder folder;
  LocalWorld(2, patient).run([&](const Group& group) {
    const io::ShardedState good = io::unsharded({{"w", ones({2})}});
    save_state_dict(good, folder.path(), group, {.id = 1});
    EXPECT_THROW(save_state_dict(io::unsharded({{"__metadata__", ones({2})}}), folder.path(), group, {.id = 1}),
                 ValueError);
    EXPECT_THROW(
        save_state_dict(io::unsharded({{"w", ones({2}, {.device = "meta"})}}), folder.path(), group, {.id = 1}),
        ValueError);
  });
  EXPECT_EQ(io::state_ids(folder.path()), (std::vector<int64_t>{1}));
}

}  // namespace
}  // namespace weft::distributed
