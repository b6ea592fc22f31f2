// Replicas, and optimizers in parts, beside one process.
#include <algorithm>

#include <gtest/gtest.h>

#include "ranks.hpp"

#include <weft/distributed/data_parallel.hpp>
#include <weft/distributed/sharded_optimizer.hpp>
#include <weft/optim/gradient_merge.hpp>

namespace weft::distributed {
namespace {

struct Net : nn::Layer<Net> {
  nn::Linear first{5, 7}, second{7, 3}, spare{2, 2}, frozen{3, 3};
  Net() {
    WEFT_REGISTER(first, second, spare, frozen);
    frozen.requires_grad_(false);
  }
  Tensor forward(const Tensor& x) const { return frozen(second(tanh(first(x)))); }
};

Net seeded_net(uint64_t seed, DType dtype = f32) {
  manual_seed(seed);
  Net net;
  net.to(dtype);
  return net;
}

/// The mean over ranks of a rank's loss in one step.
Tensor loss_of(const Net& net, int step, int rank, DType dtype = f32) {
  const Tensor x = input_of(10 * step + rank, {4, 5}).to(dtype), y = input_of(500 + 10 * step + rank, {4, 3}).to(dtype);
  return mse_loss(net(x), y);
}

/// One process's gradients of the mean of the ranks' losses, added in the order of ranks.
std::vector<Tensor> expected_gradients(const Net& net, int step, int ranks) {
  std::vector<Tensor> sums;
  for (int r = 0; r < ranks; ++r) {
    for (const Tensor& p : net.parameters()) p.set_grad({});
    loss_of(net, step, r).backward();
    size_t i = 0;
    for (const Tensor& p : net.parameters()) {
      if (r == 0) sums.push_back(p.grad().defined() ? p.grad().clone() : Tensor());
      else if (p.grad().defined()) sums[i] = sums[i] + p.grad();
      ++i;
    }
  }
  for (Tensor& s : sums) s = s.defined() ? s / ranks : s;
  for (const Tensor& p : net.parameters()) p.set_grad({});
  return sums;
}

void expect_near(const std::vector<Tensor>& a, const std::vector<Tensor>& b, double tolerance = 1e-6) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].defined(), b[i].defined()) << i;
    if (a[i].defined()) {
      EXPECT_TRUE(allclose(a[i].detach(), b[i].detach(), tolerance, tolerance)) << i;
    }
  }
}

std::vector<Tensor> gradients_of(const Net& net) {
  std::vector<Tensor> out;
  for (const Tensor& p : net.parameters()) out.push_back(p.grad());
  return out;
}

TEST(DataParallel, GradientsAreTheMeansOfAllRanks) {
  on_all_ranks([](const Group& group) {
    for (const int64_t bytes : {int64_t{1}, int64_t{64}, int64_t{1} << 20}) {
      const Net net = seeded_net(3), alone = seeded_net(3);
      const DataParallel replicas(net.parameters(), {.bucket_bytes = bytes, .group = group});
      for (int step = 0; step < 3; ++step) {
        for (const Tensor& p : net.parameters()) p.set_grad({});
        loss_of(net, step, group.rank()).backward();
        replicas.finish();
        expect_near(gradients_of(net), expected_gradients(alone, step, group.size()));
      }
    }
  });
}

TEST(DataParallel, BeginsWithTheFirstRanksValues) {
  on_all_ranks([](const Group& group) {
    const Net net = seeded_net(100 + static_cast<uint64_t>(group.rank())), first = seeded_net(100);
    const Tensor buffer = full({2}, static_cast<float>(group.rank()));
    const DataParallel replicas(net.parameters(), {.buffers = {buffer}, .group = group});
    expect_near(net.parameters(), first.parameters(), 0);
    EXPECT_TRUE(equal(buffer, zeros({2})));
  });
}

TEST(DataParallel, ParametersThatNoRankUsesHaveNoGradientAndAreNamed) {
  on_all_ranks([](const Group& group) {
    const Net net = seeded_net(3);
    const DataParallel replicas(net.parameters(), {.group = group});
    // The last rank alone uses the spare layer.
    Tensor loss = loss_of(net, 0, group.rank());
    if (group.rank() + 1 == group.size()) loss = loss + net.spare(ones({1, 2})).sum();
    loss.backward();
    replicas.finish();
    EXPECT_TRUE(replicas.unused().empty());
    EXPECT_TRUE(allclose(net.spare.bias.grad(), full({2}, 1.0f / static_cast<float>(group.size()))));
    for (const Tensor& p : net.parameters()) p.set_grad({});
    loss_of(net, 1, group.rank()).backward();
    replicas.finish();
    EXPECT_EQ(replicas.unused(), (std::vector<size_t>{4, 5}));
    EXPECT_FALSE(net.spare.weight.grad().defined());
  });
}

TEST(DataParallel, SumsOfSeveralBackwardsLeaveAtOnce) {
  on_all_ranks([](const Group& group) {
    const Net net = seeded_net(3), alone = seeded_net(3);
    const DataParallel replicas(net.parameters(), {.group = group});
    {
      const auto guard = replicas.no_sync();
      loss_of(net, 0, group.rank()).backward();
    }
    loss_of(net, 1, group.rank()).backward();
    replicas.finish();
    std::vector<Tensor> expected = expected_gradients(alone, 0, group.size());
    const std::vector<Tensor> more = expected_gradients(alone, 1, group.size());
    for (size_t i = 0; i < more.size(); ++i) expected[i] = more[i].defined() ? expected[i] + more[i] : more[i];
    expect_near(gradients_of(net), expected);
  });
}

TEST(DataParallel, ASecondBackwardWithoutFinishIsRefused) {
  LocalWorld(2, {.timeout_seconds = 30}).run([](const Group& group) {
    const Net net = seeded_net(3);
    const DataParallel replicas(net.parameters(), {.group = group});
    loss_of(net, 0, group.rank()).backward();
    EXPECT_THROW(loss_of(net, 1, group.rank()).backward(), AutogradError);
    replicas.finish();
    loss_of(net, 1, group.rank()).backward();
    replicas.finish();
  });
}

TEST(DataParallel, RejectsModulesThatCannotBeReplicated) {
  LocalWorld(2, {.timeout_seconds = 30}).run([](const Group& group) {
    const Tensor w = ones({2}).requires_grad_();
    EXPECT_THROW(DataParallel({w, w}), ValueError);
    EXPECT_THROW(DataParallel({w * 2}), ValueError);
    EXPECT_THROW(DataParallel({Tensor()}), ValueError);
    EXPECT_THROW(DataParallel({w}, {.bucket_bytes = 0}), ValueError);
    EXPECT_THROW(DataParallel({ones({2 + group.rank()}).requires_grad_()}), ValueError);
  });
}

nn::Linear seeded_linear() {
  manual_seed(5);
  return nn::Linear(2, 2);
}

TEST(DataParallel, ReplicasOfUnequalSizeCountByTheirSamples) {
  const Tensor x = input_of(1, {6, 2}), y = input_of(2, {6, 2});
  const nn::Linear whole = seeded_linear();
  mse_loss(whole(x), y).backward();
  LocalWorld(2, {.timeout_seconds = 30}).run([&](const Group& group) {
    const nn::Linear net = seeded_linear();
    const DataParallel replicas(net.parameters(), {.group = group});
    const int64_t first = group.rank() == 0 ? 0 : 1, count = group.rank() == 0 ? 1 : 5;
    const Tensor loss = mse_loss(net(x.narrow(0, first, count)), y.narrow(0, first, count));
    const auto own = static_cast<double>(count);
    EXPECT_EQ(mean_weight(own, group), 3);
    (loss * (own / mean_weight(own, group))).backward();
    replicas.finish();
    EXPECT_TRUE(allclose(net.weight.grad(), whole.weight.grad(), 1e-5, 1e-7));
    EXPECT_EQ(7 / mean_weight(7, group), 1);
    EXPECT_THROW(mean_weight(-1, group), ValueError);
  });
}

TEST(DataParallel, HooksEndWithTheReplicas) {
  LocalWorld(2, {.timeout_seconds = 30}).run([](const Group& group) {
    const Net net = seeded_net(3);
    { const DataParallel replicas(net.parameters(), {.group = group}); }
    loss_of(net, 0, group.rank()).backward();
    loss_of(net, 0, group.rank()).backward();
    EXPECT_TRUE(net.first.weight.grad().defined());
  });
}

struct Kind {
  int stage;
  DType dtype;
  int64_t bytes;
};

/// The first layer is of no module that comes and goes.
std::vector<nn::Module> modules_of(const Net& net, int stage) {
  return stage == 3 ? std::vector<nn::Module>{net.second, net.spare, net.frozen} : std::vector<nn::Module>();
}

class Sharded : public ::testing::TestWithParam<Kind> {};

void expect_updates_of_one(const Group& group, const Kind& kind, bool clips) {
  const Net net = seeded_net(3, kind.dtype), same = seeded_net(3, kind.dtype);
  ShardedOptimizer sharded(
      optim::AdamW(net.parameters(), {.lr = 0.05, .weight_decay = 0.1}),
      {.stage = kind.stage, .bucket_bytes = kind.bytes, .group = group, .modules = modules_of(net, kind.stage)});
  // The same with all state on each rank.
  const DataParallel replicas(same.parameters(), {.bucket_bytes = kind.bytes, .group = group});
  optim::MasterWeights masters([&] {
    std::vector<Tensor> trained = same.parameters();
    std::erase_if(trained, [](const Tensor& p) { return !p.requires_grad(); });
    return trained;
  }());
  optim::AdamW whole(masters.parameters(), {.lr = 0.05, .weight_decay = 0.1});
  for (int step = 0; step < 4; ++step) {
    sharded.zero_grad();
    masters.zero_grad();
    loss_of(net, step, group.rank(), kind.dtype).backward();
    loss_of(same, step, group.rank(), kind.dtype).backward();
    replicas.finish();
    masters.take_gradients();
    if (clips && step == 2) {
      const double expected = optim::clip_grad_norm_(masters.parameters(), 0.05).item<double>();
      EXPECT_NEAR(sharded.clip_grad_norm(0.05), expected, 1e-5 * expected);
    }
    whole.step();
    masters.write_back();
    sharded.step();
    const auto whole_parameters = sharded.whole_parameters();
    const double tolerance = clips && step >= 2 ? 1e-5 : 0;
    for (size_t i = 0; i < net.parameters().size(); ++i) {
      const Tensor a = net.parameters()[i].detach(), b = same.parameters()[i].detach();
      if (kind.dtype == f32) EXPECT_TRUE(allclose(a, b, tolerance, tolerance)) << "parameter " << i << " step " << step;
      else EXPECT_TRUE(allclose(a, b, 0.01, 0.01)) << "parameter " << i << " step " << step;
    }
  }
}

TEST_P(Sharded, UpdatesEqualOneOptimizerBitForBit) {
  on_all_ranks([](const Group& group) { expect_updates_of_one(group, GetParam(), false); });
}
TEST_P(Sharded, UpdatesWithClippedGradientsEqualOneOptimizer) {
  on_all_ranks([](const Group& group) { expect_updates_of_one(group, GetParam(), true); });
}

TEST_P(Sharded, EachRankKeepsItsPartOfStateAndGradients) {
  on_all_ranks([](const Group& group) {
    const Kind kind = GetParam();
    const Net net = seeded_net(3, kind.dtype);
    ShardedOptimizer sharded(
        optim::Adam(net.parameters(), {.lr = 0.01}),
        {.stage = kind.stage, .bucket_bytes = kind.bytes, .group = group, .modules = modules_of(net, kind.stage)});
    (loss_of(net, 0, group.rank(), kind.dtype) + net.spare(ones({1, 2}, kind.dtype)).sum()).backward();
    sharded.reduce_gradients();
    int64_t all = 0, own = 0, kept = 0;
    for (const Tensor& p : net.parameters()) all += p.requires_grad() ? p.numel() : 0;
    for (const Tensor& p : net.parameters()) kept += p.grad().defined() ? p.numel() : 0;
    for (const Tensor& p : sharded.optimizer().parameters()) own += p.numel();
    EXPECT_EQ(kept, kind.stage == 1 ? all : 0);
    EXPECT_EQ(all_reduce(tensor(own), group).item<int64_t>(), all);
    if (kind.bytes > 1000 && kind.stage < 3) {
      EXPECT_EQ(own, shard_size(all, group.size(), group.rank()));
    }
    sharded.step();
    int64_t state = 0;
    for (const auto& [name, t] : sharded.optimizer().state_dict()) state += name.ends_with("exp_avg") ? t.numel() : 0;
    EXPECT_EQ(state, own);
  });
}

INSTANTIATE_TEST_SUITE_P(Stages, Sharded,
                         ::testing::Values(Kind{1, f32, 1}, Kind{1, f32, 1 << 20}, Kind{2, f32, 100},
                                           Kind{2, f32, 1 << 20}, Kind{1, bf16, 1 << 20}, Kind{2, bf16, 64},
                                           Kind{3, f32, 1}, Kind{3, f32, 1 << 20}, Kind{3, bf16, 1 << 20}),
                         [](const auto& info) {
                           return "Stage" + std::to_string(info.param.stage) + name(info.param.dtype) + "Bytes" +
                                  std::to_string(info.param.bytes);
                         });

TEST(ShardedOptimizer, GroupsKeepTheirOptionsAndUnusedParametersStay) {
  on_all_ranks([](const Group& group) {
    const Net net = seeded_net(3);
    const Tensor spare = net.spare.weight.detach().clone(), before = net.first.weight.detach().clone();
    optim::SGD sgd({{net.first.parameters(), {.lr = 0}},
                    {net.second.parameters(), {.lr = 0.5}},
                    {net.spare.parameters(), {.lr = 1, .weight_decay = 1}}});
    ShardedOptimizer sharded(std::move(sgd), {.stage = 2, .group = group});
    loss_of(net, 0, group.rank()).backward();
    const Tensor second = net.second.weight.detach().clone();
    sharded.step();
    EXPECT_TRUE(equal(net.spare.weight.detach(), spare));
    EXPECT_TRUE(equal(net.first.weight.detach(), before));
    EXPECT_FALSE(equal(net.second.weight.detach(), second));
    EXPECT_EQ(sharded.optimizer().groups().size(), 3u);
    sharded.optimizer().set_lr(0.25);
    EXPECT_EQ(sharded.optimizer().lr(2), 0.25);
  });
}

struct Deep : nn::Layer<Deep> {
  nn::ModuleList<nn::Linear> blocks;
  explicit Deep(int64_t width, int layers = 6) {
    for (int i = 0; i < layers; ++i) blocks.append(nn::Linear(width, width));
    WEFT_REGISTER(blocks);
  }
  Tensor forward(const Tensor& x) const {
    Tensor y = x;
    for (size_t i = 0; i < blocks.size(); ++i) y = tanh(blocks[i](y));
    return y;
  }
  std::vector<nn::Module> units() const { return blocks.children(); }
};

TEST(ShardedOptimizer, ParametersAreWholeOnlyWhereTheyAreUsed) {
  on_all_ranks([](const Group& group) {
    manual_seed(4);
    const Deep net(6);
    const Tensor first = net.blocks[0].weight.detach().clone();
    ShardedOptimizer sharded(optim::SGD(net.parameters(), {.lr = 0.1}),
                             {.stage = 3, .group = group, .modules = net.units()});
    const auto is_nan = [](const Tensor& t) { return all(isnan(t.detach())).item<bool>(); };
    const auto whole = [&] {
      int64_t count = 0;
      for (const Tensor& p : net.parameters()) count += is_nan(p) ? 0 : 1;
      return count;
    };
    EXPECT_EQ(whole(), 0);
    std::vector<int64_t> seen;
    const auto look = [&](const nn::ForwardEvent&) { seen.push_back(whole()); };
    const ScopedHook hook = nn::Module(net.blocks[3]).register_forward_pre_hook(look);
    for (int step = 0; step < 3; ++step) {
      Tensor loss = net(input_of(step, {2, 6})).sum();
      EXPECT_EQ(whole(), 0);
      loss.backward();
      EXPECT_EQ(whole(), 0);
      sharded.step();
      sharded.zero_grad();
    }
    EXPECT_EQ(seen, (std::vector<int64_t>{2, 2, 2}));  // its own, and what comes next is on its way
    {
      const auto all_whole = sharded.whole_parameters();
      EXPECT_EQ(whole(), 12);
      EXPECT_FALSE(equal(net.blocks[0].weight.detach(), first));
      net.blocks[0].weight.detach().copy_(first);
    }
    {
      const NoGradGuard unrecorded;
      (void)net(input_of(9, {2, 6}));
      EXPECT_EQ(whole(), 0);
      const auto all_whole = sharded.whole_parameters();
      EXPECT_TRUE(equal(net.blocks[0].weight.detach(), first)) << "what is written is kept";
    }
    EXPECT_TRUE(is_nan(net.blocks[0].weight));
    const auto outside = [&] { return linear(tanh(net(input_of(1, {2, 6}))), net.blocks[1].weight).sum(); };
    EXPECT_TRUE(is_nan(outside())) << "a weight outside of its module's call";
    Tensor loss;
    {
      const auto all_whole = sharded.whole_parameters();
      loss = outside();
      EXPECT_FALSE(is_nan(loss));
    }
    EXPECT_THROW(loss.backward(), AutogradError);
  });
}

TEST(ShardedOptimizer, StageThreeTakesAccumulationCheckpointsAndRepeatedCalls) {
  on_all_ranks([](const Group& group) {
    std::vector<std::vector<Tensor>> results;
    for (const int stage : {2, 3}) {
      manual_seed(5);
      const Deep net(4, 3);
      nn::checkpoint_module(net, stage == 3);
      std::vector<nn::Module> modules;
      if (stage == 3) modules = net.units();
      ShardedOptimizer sharded(optim::Adam(net.parameters(), {.lr = 0.1}),
                               {.stage = stage, .group = group, .modules = modules});
      // The first block is called twice.
      const auto loss = [&](int i) { return net.blocks[0](net(input_of(i + group.rank(), {3, 4}))).square().mean(); };
      for (int step = 0; step < 3; ++step) {
        sharded.zero_grad();
        {
          const auto alone = sharded.no_sync();
          loss(10 * step).backward();
        }
        loss(10 * step + 5).backward();
        sharded.clip_grad_norm(0.1);
        sharded.step();
      }
      sharded.zero_grad();
      loss(1).backward();  // left out, as where a gradient is not finite
      sharded.reduce_gradients();
      sharded.zero_grad();
      loss(2).backward();
      sharded.step();
      const auto whole = sharded.whole_parameters();
      results.emplace_back();
      for (const Tensor& p : net.parameters()) results.back().push_back(p.detach().clone());
    }
    expect_near(results[0], results[1], 1e-6);
  });
}

TEST(DataParallel, MergedGradientsLeaveOnceAndAreTheMeansOfAll) {
  on_all_ranks([](const Group& group) {
    for (const int stage : {0, 2}) {
      const Net net = seeded_net(3), alone = seeded_net(3);
      std::optional<DataParallel> replicas;
      std::optional<ShardedOptimizer> sharded;
      if (stage == 0) replicas.emplace(net.parameters(), DataParallelOptions{.group = group});
      else
        sharded.emplace(optim::SGD(net.parameters(), {.lr = 1}), ShardedOptimizerOptions{.stage = 2, .group = group});
      optim::SGD one(alone.parameters(), {.lr = 1}), own(net.parameters(), {.lr = 1});
      std::vector<Tensor> trained = net.parameters();
      optim::GradientMerge merge(trained, {.k = 3});
      std::vector<Tensor> sums(alone.parameters().size());
      for (int step = 0; step < 3; ++step) {
        const std::vector<Tensor> mean = expected_gradients(alone, step, group.size());
        for (size_t i = 0; i < mean.size(); ++i) {
          if (mean[i].defined()) sums[i] = sums[i].defined() ? sums[i] + mean[i] / 3 : mean[i] / 3;
        }
        const auto backward = [&] { loss_of(net, step, group.rank()).backward(); };
        if (replicas) {
          const auto guard = replicas->no_sync();
          backward();
        } else {
          const auto guard = sharded->no_sync();
          backward();
        }
        merge.take();
      }
      for (size_t i = 0; i < sums.size(); ++i) alone.parameters()[i].set_grad(sums[i]);
      one.step();
      if (replicas) replicas->finish(), own.step();
      else sharded->step();
      for (size_t i = 0; i < sums.size(); ++i) {
        EXPECT_TRUE(allclose(net.parameters()[i].detach(), alone.parameters()[i].detach(), 1e-5, 1e-6)) << i;
      }
    }
  });
}

/// Bytes that a rank has for each element of a bf16 model behind a step, the largest rank's.
double bytes_of_an_element(int stage, int ranks) {
  constexpr int64_t width = 256, layers = 8;
  LocalWorld world(ranks, {.timeout_seconds = 60});
  const int64_t before = memory_stats().allocated;
  int64_t used = 0;
  world.run([&](const Group& group) {
    Deep net(width, layers);
    net.to(bf16);
    ShardedOptimizer sharded(
        optim::AdamW(net.parameters(), {.lr = 0.01}),
        {.stage = stage, .group = group, .modules = stage == 3 ? net.units() : std::vector<nn::Module>()});
    for (int step = 0; step < 2; ++step) {
      sharded.zero_grad();
      net(input_of(group.rank(), {1, width}).to(bf16)).sum().backward();
      sharded.reduce_gradients();
      if (step == 0) sharded.step();
    }
    barrier(group);
    if (group.rank() == 0) used = memory_stats().allocated - before;
    barrier(group);
  });
  return static_cast<double>(used) / ranks / static_cast<double>(layers * (width * width + width));
}

TEST(ShardedOptimizer, StagesTakeTheBytesOfTheirDescription) {
  for (const int ranks : {2, 4}) {
    const double k = ranks;
    EXPECT_NEAR(bytes_of_an_element(1, ranks), 4 + 12 / k, 0.1) << ranks;
    EXPECT_NEAR(bytes_of_an_element(2, ranks), 2 + 14 / k, 0.1) << ranks;
    EXPECT_NEAR(bytes_of_an_element(3, ranks), 16 / k, 0.1) << ranks;
  }
}

TEST(ShardedOptimizer, RejectsInvalidArguments) {
  LocalWorld(2, {.timeout_seconds = 30}).run([](const Group&) {
    const Tensor w = ones({4}).requires_grad_(), turned = ones({3, 2}).t().requires_grad_();
    EXPECT_THROW(ShardedOptimizer(optim::SGD({w}, {.lr = 1}), {.stage = 4}), ValueError);
    EXPECT_THROW(ShardedOptimizer(optim::SGD({w}, {.lr = 1}), {.stage = 3}), ValueError);
    const Net net;
    const std::vector<Tensor> all = net.parameters();
    EXPECT_THROW(ShardedOptimizer(optim::SGD(all, {.lr = 1}), {.stage = 2, .modules = {net.first}}), ValueError);
    EXPECT_THROW(ShardedOptimizer(optim::SGD(all, {.lr = 1}), {.stage = 3, .modules = {net, net.first}}), ValueError);
    EXPECT_THROW(ShardedOptimizer(optim::SGD(net.second.parameters(), {.lr = 1}), {.stage = 3, .modules = {net.first}}),
                 ValueError);
    EXPECT_THROW(ShardedOptimizer(optim::SGD({turned}, {.lr = 1})), ValueError);
    optim::Adam stepped({w}, {.lr = 1});
    w.set_grad(ones({4}));
    stepped.step();
    EXPECT_THROW(ShardedOptimizer(std::move(stepped)), ValueError);
    ShardedOptimizer sharded(optim::SGD({w}, {.lr = 1}));
    EXPECT_THROW(sharded.clip_grad_norm(-1), ValueError);
  });
}

}  // namespace
}  // namespace weft::distributed
