// Experts on several ranks beside all of them on one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include <message_of.hpp>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Kind = TokenDispatcherOptions::Kind;

constexpr int64_t width = 5;

/// A rank's tokens, their experts and probabilities.
struct Batch {
  Tensor x, routing, probabilities;
};
using BatchOf = std::function<Batch(int rank)>;

Batch batch(int rank, int64_t tokens, int64_t k, int64_t experts,
            const std::function<int64_t(int64_t, int64_t)>& expert) {
  std::vector<int64_t> routing;
  for (int64_t t = 0; t < tokens; ++t) {
    for (int64_t j = 0; j < k; ++j) routing.push_back(expert(t, j) % experts);
  }
  return {input_of(rank, {tokens, width}), tensor(routing).reshape({tokens, k}),
          abs(input_of(700 + rank, {tokens, k}))};
}

/// Different tokens on each rank, to any experts, the same one twice at times, and none now and then.
Batch mixed_batch(int rank, int64_t tokens, int64_t k, int64_t experts) {
  Generator generator(40 + static_cast<uint64_t>(rank));
  const GeneratorGuard guard(generator);
  const std::vector<int64_t> numbers =
      (rand({tokens * k}) * static_cast<double>(experts + 1)).to(i64).to_vector<int64_t>();
  Batch b = batch(rank, tokens, k, experts, [](int64_t, int64_t) { return 0; });
  b.routing = tensor(numbers).reshape({tokens, k}) - 1;
  return b;
}

std::vector<Tensor> experts_of(int64_t count) {
  std::vector<Tensor> out;
  for (int64_t e = 0; e < count; ++e) {
    out.push_back(input_of(300 + static_cast<int>(e), {width, width}).requires_grad_());
  }
  return out;
}
Tensor expert(const Tensor& weight, const Tensor& rows) { return tanh(matmul(rows, weight)); }

/// By definition, one token and expert after the other.
Tensor mixture(const Batch& b, const std::vector<Tensor>& weights) {
  std::vector<Tensor> rows;
  for (int64_t t = 0; t < b.x.size(0); ++t) {
    Tensor y = b.x[t] * 0;
    for (int64_t j = 0; j < b.routing.size(1); ++j) {
      const int64_t e = b.routing[t][j].item<int64_t>();
      if (e >= 0) y = y + b.probabilities[t][j] * expert(weights[static_cast<size_t>(e)], b.x[t].unsqueeze(0))[0];
    }
    rows.push_back(y);
  }
  return rows.empty() ? b.x * 0 : stack(rows);
}

/// Zeros where nothing was computed of it.
Tensor gradient_of(const Tensor& t) { return t.grad().defined() ? t.grad() : zeros_like(t); }

/// The outputs of this rank's experts for the received rows.
Tensor outputs(const DispatchedTokens& to, std::span<const Tensor> weights) {
  std::vector<Tensor> parts;
  int64_t begin = 0;
  for (size_t e = 0; e < to.counts.size(); ++e) {
    parts.push_back(expert(weights[e], to.tokens.narrow(0, begin, to.counts[e])));
    begin += to.counts[e];
  }
  EXPECT_EQ(begin, to.tokens.size(0));
  return cat(parts);
}

/// Values and gradients of x, probabilities and experts, of both kinds.
void expect_mixture(const Group& group, int64_t experts, const BatchOf& batch_of) {
  const std::vector<Tensor> whole = experts_of(experts);
  const auto loss = [](int rank, const Tensor& y) { return sum(y * input_of(500 + rank, y.shape())); };
  Batch expected;
  Tensor expected_y;
  for (int r = 0; r < group.size(); ++r) {
    Batch b = batch_of(r);
    b.x.requires_grad_();
    b.probabilities.requires_grad_();
    const Tensor y = mixture(b, whole);
    loss(r, y).backward();
    if (r != group.rank()) continue;
    expected = b;
    expected_y = y;
  }
  const int64_t local = experts / group.size();
  for (const Kind kind : {Kind::all_to_all, Kind::all_gather}) {
    const std::vector<Tensor> all = experts_of(experts);
    const auto mine = std::span(all).subspan(static_cast<size_t>(local * group.rank()), static_cast<size_t>(local));
    Batch b = batch_of(group.rank());
    b.x.requires_grad_();
    b.probabilities.requires_grad_();
    const TokenDispatcher dispatcher(experts, group, {.kind = kind});
    const DispatchedTokens to = dispatcher.dispatch(b.x, b.routing, b.probabilities);
    const Tensor y = dispatcher.combine(outputs(to, mine), to);
    EXPECT_TRUE(allclose(y, expected_y, 1e-6, 1e-6));
    loss(group.rank(), y).backward();
    EXPECT_TRUE(allclose(b.x.grad(), expected.x.grad(), 1e-5, 1e-6));
    EXPECT_TRUE(allclose(b.probabilities.grad(), gradient_of(expected.probabilities), 1e-5, 1e-6));
    for (int64_t e = 0; e < local; ++e) {
      const Tensor& reference = whole[static_cast<size_t>(local * group.rank() + e)];
      EXPECT_TRUE(allclose(gradient_of(mine[static_cast<size_t>(e)]), gradient_of(reference), 1e-4, 1e-5));
    }
  }
}

TEST(TokenDispatcher, BothKindsAreTheMixtureOnOneRank) {
  on_all_ranks([](const Group& group) {
    for (const int64_t k : {1, 2, 8}) {
      expect_mixture(group, 24, [&](int r) { return mixed_batch(r, 5, k, 24); });
    }
  });
}
TEST(TokenDispatcher, AnyNumberOfExpertsThatRanksDivide) {
  on_all_ranks([](const Group& group) {
    for (const int64_t experts : {64, 128, 256}) {
      if (experts % group.size() != 0) continue;
      expect_mixture(group, experts, [&](int r) { return mixed_batch(r, 3, 2, experts); });
    }
  });
}
TEST(TokenDispatcher, AllTokensToOneExpert) {
  on_all_ranks([](const Group& group) {
    expect_mixture(group, 24, [](int r) { return batch(r, 4, 2, 24, [](int64_t, int64_t) { return 23; }); });
  });
}
TEST(TokenDispatcher, NoTokensToARank) {
  on_all_ranks([](const Group& group) {
    const int64_t others = group.size() == 1 ? 24 : 24 - 24 / group.size();
    expect_mixture(group, 24,
                   [&](int r) { return batch(r, 4, 2, others, [](int64_t t, int64_t j) { return 7 * t + 3 * j; }); });
  });
}
TEST(TokenDispatcher, RanksWithoutTokensAndOthersWithDifferentNumbers) {
  on_all_ranks([](const Group& group) {
    expect_mixture(group, 24, [](int r) { return mixed_batch(r, (r + 1) % 3, 2, 24); });
    expect_mixture(group, 24, [](int r) { return mixed_batch(r, 0, 2, 24); });
  });
}

TEST(TokenDispatcher, RowsAreOrderedByExpertThenRankThenToken) {
  LocalWorld(2).run([](const Group& group) {
    const double r = group.rank();
    const Tensor x = tensor({10 * r, 10 * r + 1, 10 * r + 2}).unsqueeze(1);
    const Tensor routing = tensor({3, 0, 2, 3, -1, 0}).reshape({3, 2});
    const Tensor p = tensor({.1, .2, .3, .4, .5, .6}).reshape({3, 2}) + r;
    for (const Kind kind : {Kind::all_to_all, Kind::all_gather}) {
      const TokenDispatcher dispatcher(4, group, {.kind = kind});
      const DispatchedTokens to = dispatcher.dispatch(x, routing, p);
      if (group.rank() == 0) {
        EXPECT_THAT(to.counts, ElementsAre(4, 0));
        EXPECT_TRUE(same_bits(to.tokens, tensor({0., 2., 10., 12.}).unsqueeze(1)));
        EXPECT_TRUE(same_bits(to.probabilities, cat({p[0][1].reshape({1}), p[2][1].reshape({1}),
                                                     (p[0][1] + 1).reshape({1}), (p[2][1] + 1).reshape({1})})));
      } else {
        EXPECT_THAT(to.counts, ElementsAre(2, 4));
        EXPECT_TRUE(same_bits(to.tokens, tensor({1., 11., 0., 1., 10., 11.}).unsqueeze(1)));
      }
      // An expert that changes nothing: each token times its probabilities, but for that of no expert.
      const Tensor kept = stack({p[0].sum(), p[1].sum(), p[2][1]}).unsqueeze(1);
      EXPECT_TRUE(allclose(dispatcher.combine(to.tokens, to), x * kept, 1e-6, 1e-7));
    }
  });
}
TEST(TokenDispatcher, RowsBeyondTheCapacityOfAnExpertAreDropped) {
  on_all_ranks([](const Group& group) {
    const int64_t experts = group.size();
    for (const Kind kind : {Kind::all_to_all, Kind::all_gather}) {
      const TokenDispatcher dispatcher(experts, group, {.kind = kind, .capacity = 2});
      const Tensor x = ones({4, width}), routing = full({4, 1}, experts - 1, {.dtype = i64}), p = ones({4, 1});
      const DispatchedTokens to = dispatcher.dispatch(x, routing, p);
      EXPECT_THAT(to.counts, ElementsAre(group.rank() == experts - 1 ? 2 * group.size() : 0));
      const Tensor y = dispatcher.combine(to.tokens, to);
      EXPECT_TRUE(same_bits(y, cat({ones({2, width}), zeros({2, width})})));
    }
  });
}
TEST(TokenDispatcher, ResultsHaveTheExpertsDtypeAndWidth) {
  on_all_ranks([](const Group& group) {
    const Batch b = mixed_batch(group.rank(), 3, 2, 24);
    for (const Kind kind : {Kind::all_to_all, Kind::all_gather}) {
      const TokenDispatcher dispatcher(24, group, {.kind = kind});
      const DispatchedTokens to = dispatcher.dispatch(b.x.to(bf16), b.routing, b.probabilities);
      EXPECT_EQ(to.tokens.dtype(), bf16);
      const Tensor y = dispatcher.combine(to.tokens.narrow(1, 0, 2), to);
      EXPECT_EQ(y.dtype(), bf16);
      EXPECT_EQ(y.shape(), (Dims{3, 2}));
    }
  });
}

TEST(TokenDispatcher, RowsOfATokenOnOneRankAreOneSumBeforeTheyAreRounded) {
  on_all_ranks([](const Group& group) {
    for (const Kind kind : {Kind::all_to_all, Kind::all_gather}) {
      const int64_t next = (group.rank() + 1) % group.size();
      const Tensor routing = tensor({2 * next, 2 * next + 1, 2 * next, 2 * next + 1}).reshape({2, 2});
      const Tensor probabilities = tensor({1 + 0x1p-10, 1.0, 1.0, 1.0}).reshape({2, 2}).to(f32);
      const TokenDispatcher dispatcher(2 * group.size(), group, {.kind = kind});
      const DispatchedTokens to = dispatcher.dispatch(ones({2, 1}).to(bf16), routing, probabilities);
      ASSERT_THAT(to.counts, ElementsAre(2, 2));
      const Tensor out = tensor({1.0, 1.0, -1.0, -1.0}).reshape({4, 1}).to(bf16);  // of the first expert, of the second
      EXPECT_THAT(dispatcher.combine(out, to).to(f64).to_vector<double>(), ElementsAre(0x1p-10, 0));
    }
  });
}

TEST(TokenDispatcher, ExpertsWithoutRowsNeedNotBeCalledWhereTokensNeedGradients) {
  on_all_ranks([](const Group& group) {
    for (const Kind kind : {Kind::all_to_all, Kind::all_gather}) {
      const TokenDispatcher dispatcher(group.size(), group, {.kind = kind});
      const Batch b = batch(group.rank(), 3, 1, group.size(), [](int64_t, int64_t) { return 0; });
      b.x.requires_grad_();
      const DispatchedTokens to = dispatcher.dispatch(b.x, b.routing, ones({3, 1}));
      const Tensor out = to.counts[0] == 0 ? zeros({0, width}) : to.tokens * 3;
      dispatcher.combine(out, to).sum().backward();
      EXPECT_TRUE(same_bits(b.x.grad(), full({3, width}, 3.f)));
    }
  });
}
TEST(TokenDispatcher, ExpertsLearnWhereTokensNeedNoGradient) {
  on_all_ranks([](const Group& group) {
    for (const Kind kind : {Kind::all_to_all, Kind::all_gather}) {
      const std::vector<Tensor> weights = experts_of(group.size());
      const auto mine = std::span(weights).subspan(static_cast<size_t>(group.rank()), 1);
      const TokenDispatcher dispatcher(group.size(), group, {.kind = kind});
      const Batch b = batch(group.rank(), 3, 1, group.size(), [](int64_t, int64_t) { return 0; });
      const DispatchedTokens to = dispatcher.dispatch(b.x, b.routing, b.probabilities);
      dispatcher.combine(outputs(to, mine), to).sum().backward();  // on ranks without rows, too
      EXPECT_EQ(group.rank() == 0, any(gradient_of(mine[0]) != 0).item<bool>());
    }
  });
}

// Experts with weights sharded along the second dimension of a mesh.
TEST(TokenDispatcher, ExpertsMayBeTensorParallel) {
  LocalWorld(4).run([](const Group& group) {
    const Mesh mesh({2, 2}, {"ep", "tp"}, group);
    const Group &ep = mesh.group("ep"), &tp = mesh.group("tp");
    const auto seeded = [](int64_t e) { manual_seed(60 + static_cast<uint64_t>(e)); };
    std::vector<nn::Linear> ups, downs;
    for (int64_t e = 0; e < 4; ++e) {
      seeded(e);
      ups.emplace_back(width, 8);
      downs.emplace_back(8, width);
    }
    const auto dense = [&](const Tensor& x, int64_t e) {
      return downs[static_cast<size_t>(e)](tanh(ups[static_cast<size_t>(e)](x)));
    };
    Tensor expected_y, expected_dx;
    for (int r = 0; r < 2; ++r) {
      const Batch b = mixed_batch(r, 4, 2, 4);
      b.x.requires_grad_();
      std::vector<Tensor> rows;
      for (int64_t t = 0; t < 4; ++t) {
        Tensor y = b.x[t] * 0;
        for (int64_t j = 0; j < 2; ++j) {
          const int64_t e = b.routing[t][j].item<int64_t>();
          if (e >= 0) y = y + b.probabilities[t][j] * dense(b.x[t].unsqueeze(0), e)[0];
        }
        rows.push_back(y);
      }
      const Tensor y = stack(rows);
      square(y).sum().backward();
      if (r == ep.rank()) expected_y = y, expected_dx = b.x.grad();
    }
    std::vector<ColumnParallelLinear> up;
    std::vector<RowParallelLinear> down;
    for (int64_t e = 2 * ep.rank(); e < 2 * ep.rank() + 2; ++e) {
      seeded(e);
      up.emplace_back(width, 8, ColumnParallelOptions{.group = tp});
      down.emplace_back(8, width, RowParallelOptions{.group = tp});
    }
    const Batch b = mixed_batch(ep.rank(), 4, 2, 4);
    b.x.requires_grad_();
    const TokenDispatcher dispatcher(4, ep);
    const DispatchedTokens to = dispatcher.dispatch(b.x, b.routing, b.probabilities);
    std::vector<Tensor> parts;
    for (size_t e = 0; e < 2; ++e) {
      const int64_t begin = e == 0 ? 0 : to.counts[0];
      parts.push_back(down[e](tanh(up[e](to.tokens.narrow(0, begin, to.counts[e])))));
    }
    const Tensor y = dispatcher.combine(cat(parts), to);
    EXPECT_TRUE(allclose(y, expected_y, 1e-5, 1e-6));
    square(y).sum().backward();
    EXPECT_TRUE(allclose(b.x.grad(), expected_dx, 1e-5, 1e-6));
    for (size_t e = 0; e < 2; ++e) {
      const nn::Linear& whole = ups[static_cast<size_t>(2 * ep.rank()) + e];
      EXPECT_TRUE(allclose(all_gather(up[e].weight.grad(), tp), whole.weight.grad(), 1e-4, 1e-5));
    }
  });
}

TEST(TokenDispatcher, TokensMayBeOnADevice) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "there is no HPU";
  LocalWorld(2).run([](const Group& group) {
    const auto result = [&](const Device& device, Kind kind) {
      const Batch b = mixed_batch(group.rank(), 5, 2, 4);
      const Tensor x = b.x.to(device).requires_grad_();
      const TokenDispatcher dispatcher(4, group, {.kind = kind});
      const DispatchedTokens to = dispatcher.dispatch(x, b.routing.to(device), b.probabilities.to(device));
      const Tensor y = dispatcher.combine(tanh(to.tokens), to);
      y.sum().backward();
      EXPECT_EQ(y.device(), device);
      return std::pair(y.to(Device()).detach(), x.grad().to(Device()));
    };
    for (const Kind kind : {Kind::all_to_all, Kind::all_gather}) {
      const auto expected = result(Device(), kind), got = result(Device("hpu"), kind);
      EXPECT_TRUE(allclose(got.first, expected.first, 1e-5, 1e-6));
      EXPECT_TRUE(allclose(got.second, expected.second, 1e-5, 1e-6));
    }
  });
}

TEST(TokenDispatcher, WrongArgumentsAreFoundBeforeAnythingIsSent) {
  LocalWorld(2).run([](const Group& group) {
    EXPECT_THROW(TokenDispatcher(3, group), ValueError);
    EXPECT_THROW(TokenDispatcher(0, group), ValueError);
    EXPECT_THROW(TokenDispatcher(4, group, {.capacity = -1}), ValueError);
    if (group.rank() != 0) return;
    const TokenDispatcher dispatcher(4, group);
    const Tensor x = zeros({2, width}), routing = tensor({0, 1}).reshape({2, 1}), p = ones({2, 1});
    EXPECT_THAT(message_of<IndexError>([&] { (void)dispatcher.dispatch(x, routing + 3, p); }),
                HasSubstr("expert 4 of 4"));
    EXPECT_THROW((void)dispatcher.dispatch(x, routing - 2, p), IndexError);
    EXPECT_THROW((void)dispatcher.dispatch(x, routing, ones({2, 2})), ShapeError);
    EXPECT_THROW((void)dispatcher.dispatch(x[0], routing, p), ShapeError);
    EXPECT_THROW((void)dispatcher.dispatch(x, routing.to(f32), p), DTypeError);
    EXPECT_THROW((void)dispatcher.dispatch(x.to(i64), routing, p), DTypeError);
  });
  LocalWorld(1).run([](const Group& group) {
    const TokenDispatcher dispatcher(4, group);
    const DispatchedTokens to = dispatcher.dispatch(zeros({2, width}), tensor({0, 1}).reshape({2, 1}), ones({2, 1}));
    EXPECT_THROW(dispatcher.combine(zeros({3, width}), to), ShapeError);
    EXPECT_THROW(dispatcher.combine(zeros({3, width}), {}), ValueError);
  });
}

}  // namespace
}  // namespace weft::distributed
