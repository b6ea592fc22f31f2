// Tensors in parts, on ranks: moves between all placements, and ops with their gradients beside one process.
#include <algorithm>
#include <functional>
#include <random>

#include "ranks.hpp"

#include <weft/autograd/node.hpp>
#include <weft/distributed/spmd/call.hpp>

namespace weft::distributed {
namespace {

const std::vector<Dims> meshes = {{2}, {4}, {2, 2}, {2, 3}};

void on_meshes(const std::function<void(const Mesh&)>& body) {
  for (const Dims& shape : meshes) {
    SCOPED_TRACE(shape.text());
    if (under_mpirun()) {
      if (shape.product() == world().size()) body(Mesh(shape));
      continue;
    }
    LocalWorld(static_cast<int>(shape.product()), {.timeout_seconds = 60}).run([&](const Group&) {
      body(Mesh(shape));
    });
  }
}

std::vector<Placements> all_placements(int mesh_rank, int rank) {
  std::vector<Placement> one{Replicate(), Partial(), Partial(ReduceOp::avg), Partial(ReduceOp::max)};
  for (int axis = 0; axis < rank; ++axis) one.push_back(Shard(axis));
  std::vector<Placements> out{{}};
  for (int d = 0; d < mesh_rank; ++d) {
    std::vector<Placements> longer;
    for (const Placements& p : out) {
      for (const Placement& next : one) {
        longer.push_back(p);
        longer.back().push_back(next);
      }
    }
    out = longer;
  }
  return out;
}

TEST(Reshard, RoundTripsOfAllPairsAreIdentity) {
  on_meshes([](const Mesh& mesh) {
    for (const Dims& shape : {Dims{5, 7}, Dims{1, 3}, Dims{0, 2}}) {
      const Tensor x = input_of(0, shape, f64);
      const auto all = all_placements(mesh.shape().size(), shape.size());
      for (const Placements& from : all) {
        const DTensor there = shard_tensor(x, mesh, from);
        for (const Placements& to : all) {
          EXPECT_TRUE(equal(there.reshard(to).full_tensor(), x)) << text(from) << " " << text(to) << shape.text();
        }
      }
    }
  });
}

TEST(Reshard, WholeNumbersAndBoolsMoveToo) {
  on_meshes([](const Mesh& mesh) {
    for (const DType dtype : {i64, boolean, u8, bf16}) {
      const Tensor x = input_of(0, {6, 5}, dtype);
      const Placements rows(static_cast<size_t>(mesh.shape().size()), Shard(0)), columns(rows.size(), Shard(1));
      EXPECT_TRUE(equal(shard_tensor(x, mesh, rows).reshard(columns).full_tensor(), x)) << name(dtype);
    }
  });
}

TEST(Reshard, GradientsGoTheWayBack) {
  on_meshes([](const Mesh& mesh) {
    const Dims shape{5, 3};
    const Tensor x = input_of(0, shape, f64).requires_grad_(), seed = input_of(1, shape, f64);
    for (const Placements& from : all_placements(mesh.shape().size(), 2)) {
      if (std::ranges::any_of(from, [](const Placement& p) { return p.is_partial() && p.op == ReduceOp::max; }))
        continue;
      for (const Placements& to : all_placements(mesh.shape().size(), 2)) {
        if (std::ranges::any_of(to, [](const Placement& p) { return p.is_partial() && p.op == ReduceOp::max; }))
          continue;
        const Tensor whole = shard_tensor(x, mesh, from).reshard(to).full_tensor();
        const std::vector<Tensor> g = grad(std::vector{(whole * whole).sum() * 0.5}, std::vector{x});
        EXPECT_TRUE(allclose(g[0], x, 1e-12, 1e-12)) << text(from) << " " << text(to);
      }
    }
  });
}

TEST(Reshard, RejectsInvalidArguments) {
  LocalWorld(2, {.timeout_seconds = 60}).run([](const Group&) {
    const Mesh mesh(Dims{2});
    const Tensor x = zeros({4, 4});
    EXPECT_THROW(reshard(x, {4, 4}, {Shard(0)}, {Replicate()}, mesh), ShapeError);
    EXPECT_THROW(reshard(x, {4, 4}, {Replicate(), Replicate()}, {Replicate()}, mesh), ValueError);
    EXPECT_THROW(reshard(x, {4, 4}, {Replicate()}, {Shard(2)}, mesh), IndexError);
    EXPECT_THROW(reshard(Tensor(), {4, 4}, {Replicate()}, {Shard(1)}, mesh), ShapeError);
    EXPECT_THROW(DTensor(x, {4, 4}, mesh, {Shard(1)}), ShapeError);
    const DTensor extreme(ones({4, 4}).requires_grad_(), {4, 4}, mesh, {Partial(ReduceOp::max)});
    EXPECT_THROW(extreme.full_tensor(), ValueError);
  });
}

TEST(Reshard, RanksOutsideOfTheMeshHoldNothing) {
  LocalWorld(3, {.timeout_seconds = 60}).run([](const Group& all) {
    const Mesh mesh(Dims{2}, {}, all, {0, 2});
    const DTensor x = shard_tensor(ones({4, 2}), mesh, {Shard(0)});
    EXPECT_EQ(x.local().defined(), all.rank() != 1);
    EXPECT_EQ(x.reshard({Replicate()}).local().defined(), all.rank() != 1);
    const DTensor y = apply(Notation("ab->a", {.linearity = Linearity::together}), {x},
                            [](std::span<const Tensor> t) { return t[0].sum(1); });
    EXPECT_EQ(y.shape(), Dims(4));
    if (all.rank() != 1) {
      EXPECT_TRUE(equal(y.full_tensor(), full({4}, 2)));
    }
  });
}

TEST(Reshard, BackwardKeepsTheOrderWhereRanksGraphsDiffer) {
  on_meshes([](const Mesh& mesh) {
    const Placements whole(static_cast<size_t>(mesh.shape().size())), rows(whole.size(), Shard(0));
    const Tensor x = ones({12, 2}, f64).requires_grad_(), y = ones({12, 3}, f64).requires_grad_();
    Tensor a = shard_tensor(x, mesh, rows).local(), b = shard_tensor(y, mesh, rows).local();
    for (int i = 0; i < mesh.coordinate()[0]; ++i) a = a * 1;
    const auto g =
        grad(std::vector{reshard(a, {12, 2}, rows, whole, mesh).sum() + reshard(b, {12, 3}, rows, whole, mesh).sum()},
             std::vector{x, y});
    EXPECT_TRUE(equal(g[0], ones_like(x)) && equal(g[1], ones_like(y)));
    Tensor c = x;
    for (int i = 0; i < 3 * mesh.coordinate()[0]; ++i) c = c * 1;
    const auto h =
        grad(std::vector{all_reduce(c, mesh.group(0)).sum() + all_reduce(y, mesh.group(0)).sum()}, std::vector{x, y});
    EXPECT_EQ(h[0].shape(), x.shape());
  });
}

struct Op {
  const char* notation;
  Linearity linearity;
  std::vector<Dims> shapes;
  Tensor (*function)(std::span<const Tensor>);
};

TEST(DTensor, OpsAndGradientsEqualOneProcess) {
  using Tensors = std::span<const Tensor>;
  const Op ops[] = {
      {"mk,kn->mn", Linearity::each, {{5, 7}, {7, 4}}, [](Tensors x) { return matmul(x[0], x[1]); }},
      {"bmk,bkn->bmn", Linearity::each, {{3, 5, 2}, {3, 2, 4}}, [](Tensors x) { return matmul(x[0], x[1]); }},
      {"ab,ab->ab", Linearity::together, {{5, 6}, {5, 6}}, [](Tensors x) { return x[0] + x[1]; }},
      {"ab,b->ab", Linearity::each, {{5, 6}, {6}}, [](Tensors x) { return x[0] * x[1]; }},
      {"ab,ab->ab", Linearity::first, {{5, 1}, {5, 6}}, [](Tensors x) { return x[0] / x[1]; }},
      {"ab->ab", Linearity::none, {{5, 6}}, [](Tensors x) { return sin(x[0]); }},
      {"ab->ba", Linearity::together, {{5, 6}}, [](Tensors x) { return x[0].t().contiguous(); }},
      {"ab->a", Linearity::together, {{5, 6}}, [](Tensors x) { return x[0].sum(1); }},
      {"a1->a1", Linearity::none, {{5, 6}}, [](Tensors x) { return softmax(x[0], 1); }},
      {"a1,1->a1", Linearity::none, {{4, 3}, {3}}, [](Tensors x) { return layer_norm(x[0], {3}, x[1], {}); }},
  };
  on_meshes([&](const Mesh& mesh) {
    std::mt19937 random(5);
    for (const Op& op : ops) {
      const Notation rule(op.notation, {.linearity = op.linearity});
      for (int trial = 0; trial < 12; ++trial) {
        std::vector<Tensor> wholes;
        std::vector<DTensor> inputs;
        std::string said = op.notation;
        for (const Dims& shape : op.shapes) {
          Placements placements;
          for (int d = 0; d < mesh.shape().size(); ++d) {
            const int kind = static_cast<int>(random() % static_cast<size_t>(shape.size() + 2));
            placements.push_back(kind < shape.size() ? Shard(kind) : kind == shape.size() ? Partial() : Replicate());
          }
          said += " " + text(placements);
          wholes.push_back(
              (input_of(static_cast<int>(wholes.size()), shape, f64).abs() + 0.5).detach().requires_grad_());
          inputs.push_back(shard_tensor(wholes.back(), mesh, placements));
        }
        const DTensor out = apply(rule, inputs, op.function);
        const Tensor expected = op.function(wholes), seed = input_of(9, expected.shape(), f64);
        EXPECT_TRUE(allclose(out.full_tensor(), expected, 1e-9, 1e-9)) << said << " -> " << text(out.placements());
        const auto wanted = grad(std::vector{expected}, wholes, std::vector{seed});
        const auto found = grad(std::vector{(out.full_tensor() * seed).sum()}, wholes);
        for (size_t i = 0; i < wanted.size(); ++i) {
          EXPECT_TRUE(allclose(found[i], wanted[i], 1e-9, 1e-9)) << said << ": gradient " << i;
        }
      }
    }
  });
}

TEST(DTensor, BackwardRunsTheSameCollectivesOnEveryRank) {
  // Of 3 rows on 4 ranks the last one has none, and no op; others leave an input out, or both.
  for (const int ranks : {2, 4}) {
    LocalWorld(ranks, {.timeout_seconds = 20}).run([&](const Group& group) {
      const Mesh mesh(Dims{ranks});
      const Tensor whole = input_of(1, {3, 2}, f64).requires_grad_(), w = input_of(2, {1, 2}, f64).requires_grad_();
      const Tensor v = input_of(3, {1, 2}, f64).requires_grad_();
      const std::vector<DTensor> inputs{shard_tensor(whole, mesh, {Shard(0)}), shard_tensor(w, mesh, {Replicate()}),
                                        shard_tensor(v, mesh, {Shard(1)})};
      const DTensor y = apply(Notation("ab,1b,1b->ab"), inputs, [&](std::span<const Tensor> parts) {
        if (parts[0].numel() == 0) return zeros(parts[0].shape(), {f64});
        if (group.rank() == 0) return parts[0] * parts[1];
        return group.rank() == 1 ? parts[0] * parts[2] : ones(parts[0].shape(), {f64});
      });
      EXPECT_TRUE(y.local().requires_grad());
      (y.full_tensor() * input_of(4, {3, 2}, f64)).sum().backward();
      const Tensor g = input_of(4, {3, 2}, f64), x = whole.detach();
      const int64_t rows = shard_size(3, ranks, 0), end = rows + shard_size(3, ranks, 1);
      const Slice first(0, rows), second(rows, end);
      EXPECT_TRUE(allclose(w.grad(), (g * x)[first].sum(Dims{0}, true)));
      EXPECT_TRUE(allclose(v.grad(), (g * x)[second].sum(Dims{0}, true)));
      EXPECT_TRUE(allclose(whole.grad()[first], g[first] * w.detach()));
      EXPECT_TRUE(allclose(whole.grad()[second], g[second] * v.detach()));
      EXPECT_TRUE(equal(whole.grad()[Slice(end, none)], zeros({3 - end, 2}, f64)));
    });
  }
}

TEST(DTensor, GradientsOfGradientsNeedNoOpsOnEveryRank) {
  for (const int ranks : {2, 4}) {
    LocalWorld(ranks, {.timeout_seconds = 20}).run([&](const Group&) {
      const Mesh mesh(Dims{ranks});
      const Tensor x = input_of(1, {3, 2}, f64).requires_grad_(), w = input_of(2, {1, 2}, f64).requires_grad_();
      const auto second = [&](const Tensor& loss) {
        const auto g = grad({loss}, {x, w}, {}, {.create_graph = true});
        return grad({(g[0] * g[0]).sum() + (g[1] * g[1]).sum()}, {x, w});
      };
      for (const Placement& of_w : {Placement(Replicate()), Placement(Shard(1))}) {
        const DTensor y =
            apply(Notation("ab,1b->ab"), {shard_tensor(x, mesh, {Shard(0)}), shard_tensor(w, mesh, {of_w})},
                  [](std::span<const Tensor> parts) {
                    // Nothing is recorded where there are no rows, as on the last of 4 ranks.
                    return parts[0].numel() == 0 ? zeros(parts[0].shape(), {f64}) : sigmoid(parts[0] * parts[1]);
                  });
        const auto expected = second(sigmoid(x * w).sum()), found = second(y.full_tensor().sum());
        for (size_t i = 0; i < 2; ++i) EXPECT_TRUE(allclose(found[i], expected[i], 1e-9, 1e-9)) << i;
      }
    });
  }
}

TEST(DTensor, PlacesOfCollectivesBeginAnewWithEachGraph) {
  LocalWorld(2, {.timeout_seconds = 20}).run([](const Group& group) {
    const Tensor w = ones({3}).requires_grad_();
    uint32_t first = 0;
    for (int step = 0; step < 5; ++step) {
      const Tensor y = all_reduce(all_reduce(w * 2, group) * 3, group);
      if (step == 0) first = y.impl()->node->order;
      EXPECT_EQ(y.impl()->node->order, first) << "the numbers of a node end some day";
      y.sum().backward();
    }
    const Mesh mesh(Dims{2});
    for (int step = 0; step < 5; ++step) {
      const DTensor x = shard_tensor(w, mesh, {Shard(0)}), y = (x * x + x) * shard_tensor(w, mesh, {Replicate()});
      const Tensor whole = y.full_tensor();
      if (step == 0) first = whole.impl()->node->order;
      EXPECT_EQ(whole.impl()->node->order, first) << "by ops on parts";
      whole.sum().backward();
    }
    const Tensor kept = all_reduce(w, group), later = all_reduce(w, group);
    EXPECT_GT(later.impl()->node->order, kept.impl()->node->order);
  });
}

}  // namespace
}  // namespace weft::distributed
