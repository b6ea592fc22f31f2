#include <gtest/gtest.h>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

using Function = std::function<Tensor(const Tensor&)>;

/// The gradient of the sum of all ranks' f(x) · weights, compared with differences, on every rank and element in turn.
void check_gradient(const Group& group, const Tensor& x, const Function& f) {
  const Tensor leaf = x.clone().requires_grad_();
  const Tensor y = f(leaf);
  const Tensor weights = input_of(50 + group.rank(), y.shape(), f64);
  const Tensor gradient = grad({y}, {leaf}, {weights})[0];
  const auto loss = [&](const Tensor& at) { return all_reduce(sum(f(at) * weights), group).item<double>(); };
  const NoGradGuard unrecorded;
  for (int r = 0; r < group.size(); ++r) {
    const int64_t count = broadcast(tensor(x.numel()), r, group).item<int64_t>();
    for (int64_t i = 0; i < count; ++i) {
      double sides[2];
      for (const int side : {0, 1}) {
        const Tensor moved = x.clone();
        if (r == group.rank()) moved.reshape({-1})[i] += side == 0 ? -1e-6 : 1e-6;
        sides[side] = loss(moved);
      }
      if (r != group.rank()) continue;
      const double expected = (sides[1] - sides[0]) / 2e-6, got = gradient.reshape({-1})[i].item<double>();
      EXPECT_NEAR(got, expected, 1e-5 * (1 + std::abs(expected))) << "rank " << r << ", element " << i;
    }
  }
}

void check_all(
    const Function& f, const std::function<Tensor(int)>& input = [](int r) {
      return input_of(r, {4, 3}, f64);
    }) {
  const auto body = [&](const Group& group) { check_gradient(group, input(group.rank()), f); };
  if (under_mpirun()) return body(world());
  for (const int ranks : {1, 2, 3}) LocalWorld(ranks, {.timeout_seconds = 60}).run(body);
}

class Reductions : public ::testing::TestWithParam<ReduceOp> {};
INSTANTIATE_TEST_SUITE_P(Gradients, Reductions,
                         ::testing::Values(ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::min, ReduceOp::prod),
                         [](const auto& info) { return name(info.param); });

TEST_P(Reductions, AllReduce) {
  check_all([](const Tensor& x) { return all_reduce(x * x, world(), GetParam()); });
}
TEST_P(Reductions, Reduce) {
  check_all([](const Tensor& x) { return reduce(x * x, world_size() - 1, world(), GetParam()); });
}
TEST_P(Reductions, ReduceScatter) {
  check_all([](const Tensor& x) { return reduce_scatter(x * x, world(), GetParam(), 1); });
}
TEST_P(Reductions, SecondOrder) {
  check_all([](const Tensor& x) {
    const Tensor at = x.requires_grad() ? x : x.detach().requires_grad_();
    const EnableGradGuard recorded;
    const Tensor y = all_reduce(at * at * at, world(), GetParam());
    return grad({sum(y * y)}, {at}, {}, {.create_graph = true})[0];
  });
}

TEST(Gradients, Broadcast) {
  check_all([](const Tensor& x) { return broadcast(x * x, world_size() / 2); });
}
TEST(Gradients, AllGather) {
  check_all([](const Tensor& x) { return all_gather(x * x, world(), 1); });
}
TEST(Gradients, AllGatherOfPartsOfDifferentSizes) {
  check_all([](const Tensor& x) { return all_gather_ragged(x * x); },
            [](int r) {
              return input_of(r, {(r + 2) % 3, 2}, f64);
            });
}
TEST(Gradients, AllToAll) {
  check_all([](const Tensor& x) { return all_to_all(x * x); }, [](int r) { return input_of(r, {12, 2}, f64); });
}
TEST(Gradients, AllToAllBetweenDimensions) {
  check_all([](const Tensor& x) { return all_to_all(x * x, world(), {.split_dim = 1, .join_dim = 0}); });
}
TEST(Gradients, AllToAllOfPartsOfAnySizes) {
  check_all(
      [](const Tensor& x) {
        std::vector<int64_t> sizes(static_cast<size_t>(world_size()), 0);
        sizes[static_cast<size_t>((rank() + 1) % world_size())] = x.size(0);
        return all_to_all_ragged(x * x, sizes).values;
      },
      [](int r) {
        return input_of(r, {r + 1, 2}, f64);
      });
}
TEST(Gradients, OfAsynchronousResults) {
  check_all([](const Tensor& x) { return all_reduce_async(x * x).wait() * all_gather_async(x, world(), 0).wait()[0]; });
}

TEST(Gradients, EqualExtremesShareTheGradient) {
  LocalWorld(4).run([](const Group& group) {
    const Tensor x = tensor({group.rank() == 2 ? 0.0 : 5.0}).requires_grad_();
    all_reduce(x, group, ReduceOp::max).backward();
    EXPECT_FLOAT_EQ(x.grad().item<float>(), group.rank() == 2 ? 0 : 4.0f / 3);
  });
}
TEST(Gradients, OfProductsAreExactWhereElementsAreZero) {
  LocalWorld(3).run([](const Group& group) {
    const Tensor x = tensor({group.rank() == 1 ? 0.0 : 2.0 + group.rank()}).requires_grad_();
    all_reduce(x, group, ReduceOp::prod).backward();
    EXPECT_EQ(x.grad().item<float>(), group.rank() == 1 ? 3 * 2.0f * 4.0f : 0);
  });
}
TEST(Gradients, KeepTheirDtype) {
  LocalWorld(2).run([](const Group& group) {
    for (const ReduceOp op : {ReduceOp::sum, ReduceOp::avg, ReduceOp::max, ReduceOp::prod}) {
      const Tensor x = input_of(group.rank(), {3}, bf16).requires_grad_();
      all_reduce(x, group, op).sum().backward();
      EXPECT_EQ(x.grad().dtype(), bf16) << name(op);
    }
  });
}

// As in data parallelism: each gradient is reduced while backward continues.
TEST(Gradients, AreReducedWhileBackwardRuns) {
  on_all_ranks([](const Group& group) {
    const auto net_input = [&](int r) { return input_of(r, {6, 8}); };
    const Tensor a = input_of(70, {8, 16}).requires_grad_(), b = input_of(71, {16, 2}).requires_grad_();
    std::vector<Work> works;
    std::vector<HookHandle> hooks;
    for (const Tensor& leaf : {a, b}) {
      hooks.push_back(leaf.register_post_accumulate_grad_hook(
          [&](const Tensor& t) { works.push_back(all_reduce_async_(t.grad(), group)); }));
    }
    const auto loss = [&](int r, const Tensor& w, const Tensor& v) {
      return sum(tanh(net_input(r).matmul(w)).matmul(v));
    };
    loss(group.rank(), a, b).backward();
    for (const Work& work : works) work.wait();
    EXPECT_EQ(works.size(), 2u);
    Tensor expected;
    for (int r = 0; r < group.size(); ++r) {
      const Tensor w = a.detach().clone().requires_grad_();
      loss(r, w, b.detach()).backward();
      expected = expected.defined() ? expected + w.grad() : w.grad();
    }
    EXPECT_TRUE(same_bits(a.grad(), expected));
  });
}

TEST(Gradients, InPlaceFormsRefuseTensorsThatAreRecorded) {
  LocalWorld(2).run([](const Group& group) {
    const Tensor x = ones({2}).requires_grad_();
    EXPECT_THROW(all_reduce_(x, group), AutogradError);
    EXPECT_THROW(broadcast_(x * 2, 0, group), AutogradError);
    const NoGradGuard unrecorded;
    EXPECT_EQ(all_reduce_(x, group).to_vector<float>()[0], 2);
  });
}

TEST(Messages, GradientsGoTheWayBack) {
  on_all_ranks([](const Group& group) {
    // Each rank multiplies by its number + 2 and sends the result on, twice around.
    const int me = group.rank(), k = group.size();
    if (k == 1) return;
    const Tensor x = input_of(0, {3, 2}, f64).requires_grad_();
    Tensor t = x, sent = zeros({}, f64);
    const auto factor = [](int r) { return r + 2.0; };
    for (int round = 0; round < 2; ++round) {
      if (me != 0 || round != 0) t = receive_with_gradient((me + k - 1) % k, group, round);
      const bool is_last = round == 1 && me == k - 1;
      t = t * factor(me);
      if (!is_last) sent = sent + send_with_gradient(t, (me + 1) % k, group, me == k - 1 ? round + 1 : round);
    }
    const Tensor loss = me == k - 1 ? sum(t * t) + sent : sent;
    loss.backward();
    double all = 1;
    for (int r = 0; r < k; ++r) all *= factor(r) * factor(r);
    if (me == 0) {
      EXPECT_TRUE(allclose(x.grad(), 2 * all * all * x, 1e-12, 0));
    }
    if (me == k - 1) {
      EXPECT_TRUE(allclose(t, all * x, 1e-12, 0));
    }
    barrier(group);
  });
}

TEST(Messages, UnsupportedGradientCallsRaise) {
  LocalWorld(2, {.timeout_seconds = 20}).run([](const Group& group) {
    const int other = 1 - group.rank();
    EXPECT_THROW(send_with_gradient(tensor(1), other, group), DTypeError);
    if (group.rank() == 0) {
      const Tensor x = ones({2}).requires_grad_();
      const Tensor sent = send_with_gradient(x, other, group);
      EXPECT_THROW(sent.backward({.create_graph = true}), AutogradError);
      sent.backward({.retain_graph = true});
      EXPECT_TRUE(equal(x.grad(), tensor({3.0f, 3.0f})));
      const NoGradGuard unrecorded;
      EXPECT_FALSE(send_with_gradient(x, other, group).requires_grad());
    } else {
      const Tensor y = receive_with_gradient(0, group);
      sum(3 * y).backward();
      const NoGradGuard unrecorded;
      EXPECT_FALSE(receive_with_gradient(0, group).requires_grad());
    }
  });
}

}  // namespace
}  // namespace weft::distributed
