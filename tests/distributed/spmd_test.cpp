// Placements and the notation of rules: worked cases, and ops on parts beside the same op on the whole.
#include <random>

#include <gtest/gtest.h>

#include <weft/distributed/spmd/notation.hpp>
#include <weft/weft.hpp>

namespace weft::distributed {
namespace {

Placements placed(std::initializer_list<int> mapping, int mesh_rank) {
  Placements out(static_cast<size_t>(mesh_rank));
  int axis = 0;
  for (const int d : mapping) {
    if (d >= 0) out[static_cast<size_t>(d)] = Shard(axis);
    ++axis;
  }
  return out;
}

// ---- parts, by definition ----

Dims coordinate_of(int64_t rank, const Dims& mesh) {
  Dims out = mesh;
  for (int d = mesh.size() - 1; d >= 0; --d) {
    out[d] = rank % mesh[d];
    rank /= mesh[d];
  }
  return out;
}

Tensor cut(const Tensor& x, const Part& part) {
  Tensor out = x;
  for (int axis = 0; axis < x.dim(); ++axis) out = out.narrow(axis, part.begin[axis], part.sizes[axis]);
  return out.clone();
}

/// The ranks' shards; partial ones are random terms that add up to the whole.
std::vector<Tensor> parts_of(const Tensor& x, const Placements& placements, const Dims& mesh) {
  std::vector<Tensor> terms{x};  // by the coordinates of the partial dimensions
  for (int d = 0; d < mesh.size(); ++d) {
    if (!placements[static_cast<size_t>(d)].is_partial()) continue;
    std::vector<Tensor> finer;
    for (Tensor rest : terms) {
      for (int64_t k = 1; k < mesh[d]; ++k) {
        finer.push_back(randn(x.shape(), f64));
        rest = rest - finer.back();
      }
      finer.push_back(rest);
    }
    terms = finer;
  }
  std::vector<Tensor> parts;
  for (int64_t rank = 0; rank < mesh.product(); ++rank) {
    const Dims at = coordinate_of(rank, mesh);
    size_t term = 0;
    for (int d = 0; d < mesh.size(); ++d) {
      if (placements[static_cast<size_t>(d)].is_partial())
        term = term * static_cast<size_t>(mesh[d]) + static_cast<size_t>(at[d]);
    }
    parts.push_back(cut(terms[term], part_of(x.shape(), placements, mesh, at)));
  }
  return parts;
}

/// The whole tensor from all ranks' parts; parts of replicas must be equal.
Tensor whole(const std::vector<Tensor>& parts, const Dims& shape, const Placements& placements, const Dims& mesh) {
  const Tensor sum = zeros(shape, f64), count = zeros(shape, f64);
  for (int64_t rank = 0; rank < mesh.product(); ++rank) {
    const Dims at = coordinate_of(rank, mesh);
    const Part part = part_of(shape, placements, mesh, at);
    const auto add = [&](const Tensor& to, const Tensor& value) {
      Tensor view = to;
      for (int axis = 0; axis < shape.size(); ++axis) view = view.narrow(axis, part.begin[axis], part.sizes[axis]);
      view.add_(value);
    };
    bool first = true;
    for (int d = 0; d < mesh.size(); ++d)
      first = first && (!placements[static_cast<size_t>(d)].is_partial() || at[d] == 0);
    add(sum, parts[static_cast<size_t>(rank)]);
    if (first) add(count, ones(part.sizes, f64));
  }
  return sum / count;
}

TEST(Placement, TextNamesEachDimension) {
  EXPECT_EQ(text({Shard(1), Replicate(), Partial(ReduceOp::max)}), "[Shard(1), Replicate, Partial(max)]");
  EXPECT_EQ(dims_mapping({Shard(1), Replicate(), Shard(1)}, 2)[1], (Dims{0, 2}));
}

TEST(Placement, PartsAreChunksOfTheCeiling) {
  const auto sizes = [](int64_t n, int64_t k) {
    std::vector<int64_t> out;
    for (int64_t r = 0; r < k; ++r) out.push_back(part_of(Dims(n), {Shard(0)}, Dims(k), Dims(r)).sizes[0]);
    return out;
  };
  EXPECT_EQ(sizes(10, 4), (std::vector<int64_t>{3, 3, 3, 1}));
  EXPECT_EQ(sizes(2, 4), (std::vector<int64_t>{1, 1, 0, 0}));
  EXPECT_EQ(sizes(9, 4), (std::vector<int64_t>{3, 3, 3, 0}));
  // The outer dimension of the mesh cuts first.
  const Part inner = part_of({10, 2}, {Shard(0), Shard(0)}, {2, 2}, {1, 1});
  EXPECT_EQ(inner.begin, (Dims{8, 0}));
  EXPECT_EQ(inner.sizes, (Dims{2, 2}));
  EXPECT_THROW(part_of({10}, {Shard(1)}, {2}, {0}), IndexError);
  EXPECT_THROW(part_of({10}, {Shard(0)}, {2, 2}, {0, 0}), ValueError);
}

TEST(Placement, PartsOfEveryPlacementMakeTheWhole) {
  std::mt19937 random(3);
  for (int trial = 0; trial < 200; ++trial) {
    const Dims mesh = std::array{Dims{2}, Dims{4}, Dims{2, 2}, Dims{2, 3}}[random() % 4];
    const Tensor x = randn({static_cast<int64_t>(random() % 8), 1 + static_cast<int64_t>(random() % 6)}, f64);
    Placements placements;
    for (int d = 0; d < mesh.size(); ++d) {
      const auto kind = random() % 4;
      placements.push_back(kind < 2 ? Shard(static_cast<int>(kind)) : kind == 2 ? Replicate() : Partial());
    }
    EXPECT_TRUE(allclose(whole(parts_of(x, placements, mesh), x.shape(), placements, mesh), x, 1e-9, 1e-9))
        << text(placements);
  }
}

TEST(Notation, RejectsInvalidRules) {
  for (const char* bad : {"ab", "a,b", "aa->a", "a->b", "a?->a", "ab->aa", "a2->a"}) {
    EXPECT_THROW(Notation{bad}, ValueError) << bad;
  }
  const Notation rule("mk,kn->mn");
  const Placements whole_one(1);
  const auto metas = [&](const Dims& a, const Dims& b) {
    return std::vector<SpmdMeta>{{a, whole_one}, {b, whole_one}};
  };
  EXPECT_THROW(rule.infer(std::vector<SpmdMeta>{{{2, 3}, whole_one}}, {2}), ValueError);
  EXPECT_THROW(rule.infer(metas({2, 3}, {3}), {2}), ValueError);
  EXPECT_THROW(rule.infer(metas({2, 3}, {3, 4}), {2, 2}), ValueError);
  EXPECT_THROW(rule.infer(metas({2, 3}, {4, 4}), {2}), ShapeError);
  EXPECT_THROW(rule.infer(std::vector<SpmdMeta>{{{2, 3}, {Shard(2)}}, {{3, 4}, whole_one}}, {2}), ValueError);
}

TEST(Notation, BinaryOpsBroadcast) {
  // [8, 1] and [4, 8, 6]: the words are "b1" and "abc".
  const SpmdInfo info =
      Notation("b1,abc->abc")
          .infer(std::vector<SpmdMeta>{{{8, 1}, placed({0, -1}, 2)}, {{4, 8, 6}, placed({-1, -1, 1}, 2)}}, {2, 2});
  EXPECT_EQ(info.outputs[0], placed({-1, 0, 1}, 2));
  EXPECT_EQ(info.inputs[0], placed({0, -1}, 2));
  EXPECT_EQ(info.inputs[1], placed({-1, 0, 1}, 2));
}

TEST(Notation, ProductsOfMatrices) {
  const Notation rule("mk,kn->mn");
  const auto infer = [&](std::initializer_list<int> x, std::initializer_list<int> y) {
    return rule.infer(std::vector<SpmdMeta>{{{8, 8}, placed(x, 2)}, {{8, 8}, placed(y, 2)}}, {2, 2});
  };
  SpmdInfo info = infer({0, 1}, {1, -1});
  EXPECT_EQ(info.outputs[0], (Placements{Shard(0), Partial()}));
  info = infer({0, -1}, {-1, 0});
  EXPECT_EQ(info.outputs[0], (Placements{Shard(0), Replicate()}));
  EXPECT_EQ(info.inputs[1], (Placements{Replicate(), Replicate()}));
}

TEST(Notation, FewerBytesMoveAndThenLowerDimensionsWin) {
  const Notation rule("ab,a->ab");
  const std::vector<SpmdMeta> large_first{{{8, 100}, placed({1, -1}, 2)}, {{8}, placed({0}, 2)}};
  EXPECT_EQ(rule.infer(large_first, {2, 2}).outputs[0], placed({1, -1}, 2));
  const std::vector<SpmdMeta> equal_ones{{{8, 1}, placed({1, -1}, 2)}, {{8}, placed({0}, 2)}};
  EXPECT_EQ(Notation("ab,a->ab").infer(equal_ones, {2, 2}).outputs[0], placed({0, -1}, 2));
}

TEST(Notation, PartialInputsPassWhereTheOpIsLinear) {
  const Placements sum{Partial()}, none{Replicate()}, rows{Shard(0)};
  const auto outputs = [&](Linearity linearity, const Placements& a, const Placements& b) {
    const Notation rule("a,a->a", {.linearity = linearity});
    return rule.infer(std::vector<SpmdMeta>{{{4}, a}, {{4}, b}}, {2}).outputs[0];
  };
  EXPECT_EQ(outputs(Linearity::together, sum, sum), sum);
  EXPECT_EQ(outputs(Linearity::together, sum, none), none);
  EXPECT_EQ(outputs(Linearity::each, sum, none), sum);
  EXPECT_EQ(outputs(Linearity::each, none, sum), sum);
  EXPECT_EQ(outputs(Linearity::each, sum, sum), none) << "a product of two sums is no sum of products";
  EXPECT_EQ(outputs(Linearity::each, sum, rows), rows);
  EXPECT_EQ(outputs(Linearity::first, none, sum), none);
  EXPECT_EQ(outputs(Linearity::first, sum, none), sum);
  EXPECT_EQ(outputs(Linearity::none, sum, sum), none);
  EXPECT_EQ(outputs(Linearity::together, {Partial(ReduceOp::max)}, {Partial(ReduceOp::max)}), none);
}

TEST(Notation, GradientsOfReplicatedOperandsAreSums) {
  const Notation rule("ab,b->ab");
  const std::vector<SpmdMeta> metas{{{8, 6}, placed({0, -1}, 1)}, {{6}, placed({-1}, 1)}};
  const SpmdInfo info = rule.infer(metas, {2});
  EXPECT_EQ(rule.infer_gradients(metas, info)[0], placed({0, -1}, 1));
  EXPECT_EQ(rule.infer_gradients(metas, info)[1], Placements{Partial()}) << "a bias's";
}

TEST(Notation, InReverseInputsFollowTheOutputs) {
  const Notation rule("mk,kn->mn");
  const std::vector<SpmdMeta> metas{{{8, 8}, Placements(2)}, {{8, 8}, Placements(2)}};
  const std::vector<Placements> wanted{placed({1, 0}, 2)};
  const SpmdInfo info = rule.infer_reverse(metas, wanted, {2, 2});
  EXPECT_EQ(info.inputs[0], placed({1, -1}, 2));
  EXPECT_EQ(info.inputs[1], placed({-1, 0}, 2));
  EXPECT_EQ(info.outputs[0], wanted[0]);
}

TEST(Notation, OperandsThatBroadcastAreWritten) {
  const Dims shapes[] = {{8, 1}, {4, 8, 6}}, same[] = {{1, 3}, {1, 3}};
  EXPECT_EQ(broadcast_notation(shapes), "b1,abc->abc");
  EXPECT_EQ(broadcast_notation(same), "ab,ab->ab");
  EXPECT_EQ(matmul_notation({5, 1, 2, 3}, {4, 3, 6}), "a1mk,bkn->abmn");
  EXPECT_EQ(matmul_notation({3, 2}, {6, 3}, true, true), "km,nk->mn");
  EXPECT_THROW(matmul_notation({3}, {3, 2}), ShapeError);
}

TEST(Notation, AxesThatSeveralDimensionsCutKeepThemAll) {
  const std::vector<SpmdMeta> metas{{{8, 6}, {Shard(0), Shard(0)}}, {{8, 6}, {Replicate(), Replicate()}}};
  const SpmdInfo info = Notation("ab,ab->ab").infer(metas, {2, 2});
  EXPECT_EQ(info.outputs[0], (Placements{Shard(0), Shard(0)}));
  EXPECT_EQ(info.inputs[1], info.outputs[0]);
}

TEST(Notation, AReductionGivesItsOwnPartial) {
  const std::vector<SpmdMeta> x{{{8, 6}, {Shard(0), Shard(1)}}};
  EXPECT_EQ(Notation("ab->b", {.reduction = ReduceOp::max}).infer(x, {2, 2}).outputs[0],
            (Placements{Partial(ReduceOp::max), Shard(0)}));
  EXPECT_EQ(Notation("ab->").infer(x, {2, 2}).outputs[0], (Placements{Partial(), Partial()}));
  EXPECT_EQ(Notation("ab->1b").infer(x, {2, 2}).outputs[0], (Placements{Partial(), Shard(1)}));
  EXPECT_EQ(Notation("a1->a1").infer(x, {2, 2}).inputs[0], (Placements{Shard(0), Replicate()}));
}

struct Op {
  const char* notation;
  Linearity linearity;
  std::vector<Dims> shapes;
  Tensor (*function)(const std::vector<Tensor>&);
};

TEST(Notation, OpsOnPartsAreTheOpOnTheWhole) {
  const Op ops[] = {
      {"mk,kn->mn", Linearity::each, {{5, 7}, {7, 4}}, [](const std::vector<Tensor>& x) { return matmul(x[0], x[1]); }},
      {"bmk,bkn->bmn",
       Linearity::each,
       {{3, 5, 2}, {3, 2, 4}},
       [](const std::vector<Tensor>& x) { return matmul(x[0], x[1]); }},
      {"ab,ab->ab", Linearity::together, {{5, 6}, {5, 6}}, [](const std::vector<Tensor>& x) { return x[0] + x[1]; }},
      {"ab,b->ab", Linearity::each, {{5, 6}, {6}}, [](const std::vector<Tensor>& x) { return x[0] * x[1]; }},
      {"ab,ab->ab", Linearity::first, {{5, 1}, {5, 6}}, [](const std::vector<Tensor>& x) { return x[0] / x[1]; }},
      {"ab->ab", Linearity::none, {{5, 6}}, [](const std::vector<Tensor>& x) { return sin(x[0]); }},
      {"ab->ba", Linearity::together, {{5, 6}}, [](const std::vector<Tensor>& x) { return x[0].t().contiguous(); }},
      {"ab->a", Linearity::together, {{5, 6}}, [](const std::vector<Tensor>& x) { return x[0].sum(1); }},
      {"a1->a1", Linearity::none, {{5, 6}}, [](const std::vector<Tensor>& x) { return softmax(x[0], 1); }},
  };
  std::mt19937 random(5);
  for (const Op& op : ops) {
    const Notation rule(op.notation, {.linearity = op.linearity});
    for (int trial = 0; trial < 60; ++trial) {
      const Dims mesh = std::array{Dims{2}, Dims{4}, Dims{2, 2}, Dims{2, 3}}[random() % 4];
      std::vector<Tensor> whole_inputs;
      std::vector<SpmdMeta> metas;
      for (const Dims& shape : op.shapes) {
        Placements placements;
        for (int d = 0; d < mesh.size(); ++d) {
          const auto axis = random() % static_cast<size_t>(shape.size() + 2);
          placements.push_back(axis < static_cast<size_t>(shape.size())    ? Shard(static_cast<int>(axis))
                               : axis == static_cast<size_t>(shape.size()) ? Partial()
                                                                           : Replicate());
        }
        metas.push_back({shape, placements});
        whole_inputs.push_back((rand(shape, f64) + 0.5).requires_grad_());
      }
      const SpmdInfo info = rule.infer(metas, mesh);
      const Tensor expected = op.function(whole_inputs), seed = randn(expected.shape(), f64);
      const std::vector<Tensor> gradients = grad(std::vector{expected}, whole_inputs, std::vector{seed});

      Placements seed_placements = info.outputs[0];
      for (Placement& p : seed_placements) p = p.is_partial() ? Replicate() : p;
      std::vector<std::vector<Tensor>> inputs;
      for (size_t i = 0; i < metas.size(); ++i)
        inputs.push_back(parts_of(whole_inputs[i].detach(), info.inputs[i], mesh));
      const std::vector<Tensor> seeds = parts_of(seed, seed_placements, mesh);
      std::vector<Tensor> outputs;
      std::vector<std::vector<Tensor>> gradient_parts(metas.size());
      for (size_t rank = 0; rank < seeds.size(); ++rank) {
        std::vector<Tensor> own;
        for (const auto& parts : inputs) own.push_back(parts[rank].detach().requires_grad_());
        const Tensor out = op.function(own);
        outputs.push_back(out.detach());
        const std::vector<Tensor> found = grad(std::vector{out}, own, std::vector{seeds[rank]});
        for (size_t i = 0; i < found.size(); ++i) gradient_parts[i].push_back(found[i]);
      }
      const auto said = [&] {
        std::string all = std::string(op.notation) + " on " + mesh.text();
        for (const Placements& p : info.inputs) all += " " + text(p);
        return all + " -> " + text(info.outputs[0]);
      };
      EXPECT_TRUE(allclose(whole(outputs, expected.shape(), info.outputs[0], mesh), expected, 1e-9, 1e-9)) << said();
      const auto placements = rule.infer_gradients(metas, info);
      for (size_t i = 0; i < metas.size(); ++i) {
        EXPECT_TRUE(allclose(whole(gradient_parts[i], metas[i].shape, placements[i], mesh), gradients[i], 1e-9, 1e-9))
            << said() << ": gradient " << i << " as " << text(placements[i]);
      }
    }
  }
}

}  // namespace
}  // namespace weft::distributed
