// Mixtures of experts on several ranks beside the whole layer on one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <weft/nn/moe.hpp>

#include <temporary_folder.hpp>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

using Kind = TokenDispatcherOptions::Kind;

constexpr int64_t width = 6, hidden = 5, experts = 24;

bool near(const Tensor& a, const Tensor& b, double tolerance = 1e-5) { return allclose(a, b, tolerance, tolerance); }

template <class Make>
auto seeded(Make make) {
  manual_seed(7);
  return make();
}

std::vector<ExpertParallelOptions> every_kind(const Group& group) {
  std::vector<ExpertParallelOptions> out;
  for (const auto kind : {Kind::all_to_all, Kind::all_gather}) {
    out.push_back({.moe = {.top_k = 3}, .kind = kind, .group = group});
    out.push_back(
        {.moe = {.top_k = 1, .kind = nn::ExpertKind::gelu, .shared_experts = 1}, .kind = kind, .group = group});
    out.push_back(
        {.moe = {.top_k = 8, .scores = nn::RouterScores::sigmoid, .expert_bias = true}, .kind = kind, .group = group});
  }
  return out;
}

/// All ranks' parts along dimension 0.
Tensor whole_of(const Tensor& part, const Group& group) { return all_gather(part.detach(), group); }

/// Tokens of rank r in a step, and all ranks' tokens.
Tensor tokens_of(int r, int step = 0, int64_t count = 7) { return input_of(1000 * step + r, {count, width}); }
Tensor all_tokens(const Group& group, int step = 0) {
  std::vector<Tensor> all;
  for (int r = 0; r < group.size(); ++r) all.push_back(tokens_of(r, step));
  return cat(all);
}

TEST(ExpertParallel, InitialValuesEqualOneRankAndGeneratorsAdvanceEqually) {
  on_all_ranks([](const Group& group) {
    for (const ExpertParallelOptions& options : every_kind(group)) {
      const nn::MoE whole = seeded([&] { return nn::MoE(width, hidden, experts, options.moe); });
      const Tensor after = randn({3});
      const auto parts = seeded([&] { return ExpertParallelMoE(width, hidden, experts, options); });
      EXPECT_TRUE(same_bits(randn({3}), after));
      EXPECT_TRUE(same_bits(whole_of(parts.up, group), whole.up));
      EXPECT_TRUE(same_bits(whole_of(parts.down, group), whole.down));
      EXPECT_TRUE(same_bits(parts.router, whole.router));
      EXPECT_EQ(parts.shared_up.defined(), whole.shared_up.defined());
      EXPECT_EQ(parts.up.size(0), experts / group.size());
    }
  });
}

TEST(ExpertParallel, OutputsEqualOneRanks) {
  on_all_ranks([](const Group& group) {
    for (const ExpertParallelOptions& options : every_kind(group)) {
      const nn::MoE whole = seeded([&] { return nn::MoE(width, hidden, experts, options.moe); });
      const auto parts = seeded([&] { return ExpertParallelMoE(width, hidden, experts, options); });
      const Tensor x = tokens_of(group.rank()), all = all_tokens(group);
      EXPECT_TRUE(near(parts(x), whole(x), 1e-6));
      const nn::MoEOutput out = parts.forward_with_losses(x), expected = whole.forward_with_losses(all);
      EXPECT_TRUE(near(out.output, whole(x), 1e-6));
      EXPECT_TRUE(near(out.balance_loss, expected.balance_loss));
      EXPECT_TRUE(near(out.z_loss, expected.z_loss));
      EXPECT_TRUE(equal(out.counts, expected.counts));
    }
  });
}

TEST(ExpertParallel, WorksWith64And256ExpertsOnEveryNumberOfRanksThatDividesThem) {
  on_all_ranks([](const Group& group) {
    for (const int64_t count : {64, 128, 256}) {
      if (count % group.size() != 0) continue;
      const nn::MoE whole = seeded([&] { return nn::MoE(width, hidden, count, {.top_k = 8}); });
      const auto parts =
          seeded([&] { return ExpertParallelMoE(width, hidden, count, {.moe = {.top_k = 8}, .group = group}); });
      const Tensor x = tokens_of(group.rank());
      EXPECT_TRUE(near(parts(x), whole(x), 1e-6)) << count << " experts";
    }
  });
}

/// The mean of all tokens' errors, and of the router's losses.
Tensor loss_of(const nn::MoEOutput& out, const Tensor& x) {
  return mean(square(out.output - flip(x, {1}))) + 0.1 * out.balance_loss + 0.01 * out.z_loss;
}

TEST(ExpertParallel, GradientsOfTheMeanLossEqualOneProcess) {
  on_all_ranks([](const Group& group) {
    for (const ExpertParallelOptions& options : every_kind(group)) {
      const nn::MoE whole = seeded([&] { return nn::MoE(width, hidden, experts, options.moe); });
      const auto parts = seeded([&] { return ExpertParallelMoE(width, hidden, experts, options); });
      const Tensor x = tokens_of(group.rank()).requires_grad_(), all = all_tokens(group).requires_grad_();
      loss_of(parts.forward_with_losses(x), x).backward();
      loss_of(whole.forward_with_losses(all), all).backward();
      EXPECT_TRUE(near(whole_of(parts.up.grad(), group), whole.up.grad()));
      EXPECT_TRUE(near(whole_of(parts.down.grad(), group), whole.down.grad()));
      EXPECT_TRUE(near(all_reduce(parts.router.grad(), group, ReduceOp::avg), whole.router.grad()));
      if (whole.shared_up.defined()) {
        EXPECT_TRUE(near(all_reduce(parts.shared_up.grad(), group, ReduceOp::avg), whole.shared_up.grad()));
      }
      EXPECT_TRUE(near(x.grad() / group.size(), all.grad().narrow(0, 7 * group.rank(), 7)));
    }
  });
}

TEST(ExpertParallel, GradientsOfTheSumAreAsManyTimesLarger) {
  on_all_ranks([](const Group& group) {
    const auto gradient = [&](bool mean_of_losses) {
      const auto moe = seeded([&] {
        return ExpertParallelMoE(width, hidden, experts, {.mean_of_losses = mean_of_losses, .group = group});
      });
      sum(square(moe(tokens_of(group.rank())))).backward();
      return moe.up.grad();
    };
    EXPECT_TRUE(near(gradient(false), gradient(true) * group.size()));
  });
}

TEST(ExpertParallel, OnAMeshOfReplicasExpertsAreAveragedOverReplicasAlone) {
  LocalWorld(4).run([](const Group& world_group) {
    const Mesh mesh({2, 2}, {"dp", "ep"}, world_group);
    const nn::MoE whole = seeded([&] { return nn::MoE(width, hidden, experts); });
    const auto parts = seeded([&] { return ExpertParallelMoE(width, hidden, experts, {.group = mesh.group("ep")}); });
    const DataParallel same(parts.replicated_parameters(), {.group = world_group});
    const DataParallel own(parts.expert_parameters(), {.group = mesh.group("dp")});
    const Tensor x = tokens_of(world_group.rank()), all = all_tokens(world_group);
    mean(square(parts(x) - x)).backward();
    mean(square(whole(all) - all)).backward();
    same.finish();
    own.finish();
    EXPECT_TRUE(near(parts.router.grad(), whole.router.grad()));
    EXPECT_TRUE(near(whole_of(parts.up.grad(), mesh.group("ep")), whole.up.grad()));
    EXPECT_TRUE(near(whole_of(parts.down.grad(), mesh.group("ep")), whole.down.grad()));
  });
}

TEST(ExpertParallel, OnAMeshOfReplicasLossesOfTheRouterAreOfTheTokensOfAll) {
  const auto body = [](const Group& world_group, const Dims& shape) {
    const Mesh mesh(shape, {"dp", "ep"}, world_group);
    for (ExpertParallelOptions options : every_kind(mesh.group("ep"))) {
      options.replicas = mesh.group("dp");
      const nn::MoE whole = seeded([&] { return nn::MoE(width, hidden, experts, options.moe); });
      const auto parts = seeded([&] { return ExpertParallelMoE(width, hidden, experts, options); });
      const Tensor x = tokens_of(world_group.rank()), all = all_tokens(world_group);
      const nn::MoEOutput out = parts.forward_with_losses(x), expected = whole.forward_with_losses(all);
      EXPECT_TRUE(near(out.balance_loss, expected.balance_loss));
      EXPECT_TRUE(near(out.z_loss, expected.z_loss));
      EXPECT_TRUE(equal(out.counts, expected.counts));
      loss_of(out, x).backward();
      loss_of(expected, all).backward();
      EXPECT_TRUE(near(all_reduce(parts.router.grad(), world_group, ReduceOp::avg), whole.router.grad()));
      const Tensor up = all_reduce(parts.up.grad(), mesh.group("dp"), ReduceOp::avg);
      EXPECT_TRUE(near(whole_of(up, mesh.group("ep")), whole.up.grad()));
    }
  };
  if (under_mpirun()) return body(world(), {world().size() / 2, 2});
  for (const Dims& shape : {Dims{2, 2}, Dims{1, 3}, Dims{3, 1}, Dims{3, 2}}) {
    LocalWorld(static_cast<int>(shape[0] * shape[1]), {.timeout_seconds = 60}).run([&](const Group& group) {
      body(group, shape);
    });
  }
}

/// Trains both for 50 steps, each rank on tokens of its own and one process on all of them.
void train_beside_one_process(const Group& group, const ExpertParallelOptions& options) {
  nn::MoE whole = seeded([&] { return nn::MoE(width, hidden, experts, options.moe); });
  auto parts = seeded([&] { return ExpertParallelMoE(width, hidden, experts, options); });
  const DataParallel replicas(parts.replicated_parameters(), {.group = group});
  optim::AdamW of_whole(whole.parameters(), {.lr = 3e-3}), of_parts(parts.parameters(), {.lr = 3e-3});
  double first = 0, last = 0;
  for (int step = 0; step < 50; ++step) {
    const Tensor x = tokens_of(group.rank(), step), all = all_tokens(group, step);
    of_whole.zero_grad();
    of_parts.zero_grad();
    const nn::MoEOutput expected = whole.forward_with_losses(all), out = parts.forward_with_losses(x);
    const Tensor one = loss_of(expected, all), own = loss_of(out, x);
    one.backward();
    own.backward();
    replicas.finish();
    of_whole.step();
    of_parts.step();
    if (options.moe.expert_bias) {
      whole.update_expert_bias(expected.counts);
      parts.update_expert_bias(out.counts);
    }
    last = all_reduce(own.detach(), group, ReduceOp::avg).item<double>();
    if (step == 0) first = last;
    ASSERT_NEAR(last, one.item<double>(), 1e-5) << "step " << step;
  }
  EXPECT_LT(last, first);
}

TEST(ExpertParallel, FiftyStepsHaveTheLossesOfOneProcess) {
  on_all_ranks([](const Group& group) {
    for (const ExpertParallelOptions& options : every_kind(group)) train_beside_one_process(group, options);
  });
}

TEST(ExpertParallel, ARankMayHaveNoTokensAndOneExpertAll) {
  on_all_ranks([](const Group& group) {
    for (const ExpertParallelOptions& options : every_kind(group)) {
      const nn::MoE whole = seeded([&] { return nn::MoE(width, hidden, experts, options.moe); });
      const auto parts = seeded([&] { return ExpertParallelMoE(width, hidden, experts, options); });
      const bool idle = group.rank() == group.size() - 1 && group.size() > 1;
      const Tensor x = tokens_of(group.rank(), 0, idle ? 0 : 7);
      const nn::MoEOutput out = parts.forward_with_losses(x);
      EXPECT_TRUE(near(out.output, whole(x), 1e-6));
      (sum(out.output) + out.balance_loss).backward();
      EXPECT_EQ(parts.up.grad().shape(), parts.up.shape());
      const Tensor same = ones({4, width});
      EXPECT_TRUE(near(parts(same), whole(same), 1e-6));
    }
  });
}

TEST(ExpertParallel, CapacityAppliesToEachRanksTokens) {
  on_all_ranks([](const Group& group) {
    const nn::MoEOptions tight{.top_k = 3, .capacity_factor = 0.5};
    const nn::MoE whole = seeded([&] { return nn::MoE(width, hidden, experts, tight); });
    const auto parts =
        seeded([&] { return ExpertParallelMoE(width, hidden, experts, {.moe = tight, .group = group}); });
    const Tensor x = tokens_of(group.rank(), 0, 40);
    EXPECT_TRUE(near(parts(x), whole(x), 1e-6));
  });
}

TEST(ExpertParallel, ShardedStatesCoverTheWholeLayer) {
  on_all_ranks([](const Group& group) {
    const nn::MoEOptions options{.shared_experts = 1, .expert_bias = true};
    const nn::MoE whole = seeded([&] { return nn::MoE(width, hidden, experts, options); });
    const auto parts =
        seeded([&] { return ExpertParallelMoE(width, hidden, experts, {.moe = options, .group = group}); });
    const io::ShardedState state = sharded_state(parts, "moe.");
    const nn::StateDict expected = whole.state_dict(true, "moe.");
    ASSERT_EQ(state.size(), expected.size());
    for (const auto& [name, shard] : state) {
      const Tensor& value = expected.at(name);
      EXPECT_EQ(shard.global_shape, value.shape()) << name;
      const Tensor part = value.narrow(0, shard.global_offset[0], shard.local.size(0));
      EXPECT_TRUE(same_bits(shard.local, part.contiguous())) << name;
    }
    EXPECT_EQ(state.at("moe.up").global_offset[0], experts / group.size() * group.rank());
  });
}

TEST(ExpertParallel, RefusesRanksThatDoNotDivideTheExperts) {
  LocalWorld(4).run([](const Group& group) {
    EXPECT_THROW(ExpertParallelMoE(width, hidden, 6, {.group = group}), ValueError);
    EXPECT_THROW(ExpertParallelMoE(width, hidden, 8, {.moe = {.top_k = 9}, .group = group}), ValueError);
    const ExpertParallelMoE moe(width, hidden, 8, {.group = group});
    EXPECT_THROW(moe(zeros({3, width + 1})), ShapeError);
  });
}

}  // namespace
}  // namespace weft::distributed
