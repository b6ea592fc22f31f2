// Placements and the notation engine: pure functions, with cases worked out by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <message_of.hpp>

#include <weft/distributed/notation.hpp>
#include <weft/distributed/placement.hpp>
#include <weft/weft.hpp>

namespace weft::distributed {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Placement, ShardsAreChunksAndMayBeEmpty) {
  const auto sizes = [](int64_t n, int64_t k) {
    std::vector<int64_t> all;
    for (int64_t r = 0; r < k; ++r) all.push_back(local_shape({n, 3}, {k}, std::vector{Shard(0)}, {r})[0]);
    return all;
  };
  EXPECT_THAT(sizes(10, 4), ElementsAre(3, 3, 3, 1));
  EXPECT_THAT(sizes(2, 4), ElementsAre(1, 1, 0, 0));
  EXPECT_THAT(sizes(9, 4), ElementsAre(3, 3, 3, 0));
  EXPECT_EQ(local_offset({9}, {4}, std::vector{Shard(-1)}, {3}), (Dims{9}));
}

TEST(Placement, SeveralDimensionsOfTheMeshCutTheFirstOneFirst) {
  const Placements both = {Shard(0), Shard(0)};
  // 10 over 2 is 5 and 5; 5 over 3 is 2, 2, 1.
  EXPECT_EQ(local_shape({10, 4}, {2, 3}, both, {1, 2}), (Dims{1, 4}));
  EXPECT_EQ(local_offset({10, 4}, {2, 3}, both, {1, 2}), (Dims{9, 0}));
  EXPECT_EQ(local_shape({10, 4}, {2, 3}, Placements{Partial(), Shard(1)}, {1, 1}), (Dims{10, 2}));
}

TEST(Placement, PartsCoverTheWholeOnce) {
  for (const Dims& mesh : {Dims{2}, Dims{4}, Dims{2, 2}, Dims{2, 3}}) {
    for (int64_t n = 0; n < 14; ++n) {
      for (const int second : {0, 1}) {
        Placements placements = {Shard(0)};
        if (mesh.size() == 2) placements.push_back(Shard(second));
        std::vector<int> seen(static_cast<size_t>(n * 5));
        for (int64_t i = 0; i < mesh.product(); ++i) {
          const Dims at = mesh.size() == 1 ? Dims{i} : Dims{i / mesh[1], i % mesh[1]};
          const Dims shape = local_shape({n, 5}, mesh, placements, at),
                     first = local_offset({n, 5}, mesh, placements, at);
          for (int64_t a = 0; a < shape[0]; ++a) {
            for (int64_t b = 0; b < shape[1]; ++b) ++seen[static_cast<size_t>((first[0] + a) * 5 + first[1] + b)];
          }
        }
        for (const int times : seen) EXPECT_EQ(times, 1) << mesh << n;
      }
    }
  }
}

TEST(Placement, SaysWhatItIs) {
  EXPECT_EQ(Shard(1).text(), "Shard(1)");
  EXPECT_EQ(Partial(ReduceOp::max).text(), "Partial(max)");
  EXPECT_EQ(Replicate().text(), "Replicate");
  EXPECT_THROW(axis_mapping(std::vector{Shard(2)}, 2), ValueError);
  EXPECT_THROW(local_shape({2}, {2, 2}, std::vector{Shard(0)}, {0, 0}), ValueError);
}

/// A tensor by its dims_mapping: for each axis the dimension of the mesh that shards it, or -1.
TensorMeta meta(const Dims& shape, const std::vector<int>& mapping, int mesh_dims = 2) {
  TensorMeta made{shape, Placements(static_cast<size_t>(mesh_dims)), 4};
  for (size_t axis = 0; axis < mapping.size(); ++axis) {
    if (mapping[axis] >= 0) made.placements[static_cast<size_t>(mapping[axis])] = Shard(static_cast<int>(axis));
  }
  return made;
}
TensorMeta partial(const Dims& shape, ReduceOp op = ReduceOp::sum) { return {shape, {Partial(op), Replicate()}, 4}; }

TEST(Notation, BroadcastsABinaryOp) {
  const Dims shapes[] = {{8, 1}, {4, 8, 6}};
  EXPECT_EQ(broadcast_notation(shapes), "b1,abc->abc");
  const std::vector<TensorMeta> inputs = {meta(shapes[0], {0, -1}), meta(shapes[1], {-1, -1, 1})};
  const Spmd spmd = infer_notation("b1,abc->abc", inputs, 2);
  EXPECT_THAT(spmd.output, ElementsAre(Shard(1), Shard(2)));        // [-1, 0, 1]
  EXPECT_THAT(spmd.inputs[0], ElementsAre(Shard(0), Replicate()));  // as it is
  EXPECT_THAT(spmd.inputs[1], ElementsAre(Shard(1), Shard(2)));     // b is cut, too
}

TEST(Notation, AnAxisOfSizeOneIsNeverSharded) {
  const std::vector<TensorMeta> inputs = {meta({1, 6}, {0, -1}), meta({4, 6}, {-1, 0})};
  const Spmd spmd = infer_notation("1b,ab->ab", inputs, 2);
  EXPECT_THAT(spmd.inputs[0], ElementsAre(Shard(1), Replicate()));
  EXPECT_THAT(spmd.output, ElementsAre(Shard(1), Replicate()));
  const Dims ones[] = {{1, 6}, {1, 6}};
  EXPECT_EQ(broadcast_notation(ones), "ab,ab->ab");
}

TEST(Notation, MatmulShardedAlongKIsPartial) {
  const std::vector<TensorMeta> inputs = {meta({8, 6}, {0, 1}), meta({6, 4}, {1, -1})};
  const Spmd spmd = infer_notation(matmul_notation({8, 6}, {6, 4}), inputs, 2);
  EXPECT_THAT(spmd.inputs[0], ElementsAre(Shard(0), Shard(1)));
  EXPECT_THAT(spmd.inputs[1], ElementsAre(Replicate(), Shard(0)));
  EXPECT_THAT(spmd.output, ElementsAre(Shard(0), Partial()));
}

TEST(Notation, ADimensionThatTwoLettersClaimStaysWithTheEarlier) {
  const std::vector<TensorMeta> inputs = {meta({8, 6}, {0, -1}), meta({6, 4}, {-1, 0})};
  const Spmd spmd = infer_notation("mk,kn->mn", inputs, 2);
  EXPECT_THAT(spmd.output, ElementsAre(Shard(0), Replicate()));
  EXPECT_THAT(spmd.inputs[1], ElementsAre(Replicate(), Replicate()));
}

TEST(Notation, WhereOperandsDisagreeTheFewerBytesMove) {
  // The same axis on two dimensions of the mesh: the smaller operand goes where the larger one is.
  const std::vector<TensorMeta> larger_second = {meta({8, 1}, {0, -1}), meta({8, 6}, {1, -1})};
  EXPECT_THAT(infer_notation("a1,ab->ab", larger_second, 2).output, ElementsAre(Replicate(), Shard(0)));
  const std::vector<TensorMeta> larger_first = {meta({8, 6}, {0, -1}), meta({8, 1}, {1, -1})};
  EXPECT_THAT(infer_notation("ab,a1->ab", larger_first, 2).output, ElementsAre(Shard(0), Replicate()));
  // Equal: the lower dimension, whoever comes first.
  const std::vector<TensorMeta> equal = {meta({8, 6}, {1, -1}), meta({8, 6}, {0, -1})};
  EXPECT_THAT(infer_notation("ab,ab->ab", equal, 2).output, ElementsAre(Shard(0), Replicate()));
}

TEST(Notation, AReductionGivesItsOwnPartial) {
  const std::vector<TensorMeta> x = {meta({8, 6}, {0, 1})};
  EXPECT_THAT(infer_notation("ab->b", x, 2, {.reduction = ReduceOp::max}).output,
              ElementsAre(Partial(ReduceOp::max), Shard(0)));
  EXPECT_THAT(infer_notation("ab->", x, 2).output, ElementsAre(Partial(), Partial()));
  EXPECT_THAT(infer_notation("ab->1b", x, 2).output, ElementsAre(Partial(), Shard(1)));
  EXPECT_THAT(infer_notation("a1->a1", x, 2).inputs[0], ElementsAre(Shard(0), Replicate()));  // softmax's axis
}

TEST(Notation, PartialValuesPassWhereTheOpIsLinear) {
  const std::vector<TensorMeta> one = {partial({8}), meta({8}, {-1})}, both = {partial({8}), partial({8})};
  const auto infer = [](const std::vector<TensorMeta>& inputs, PartialRule rule) {
    return infer_notation("a,a->a", inputs, 2, {.partial = rule});
  };
  EXPECT_THAT(infer(both, PartialRule::all).output, ElementsAre(Partial(), Replicate()));
  EXPECT_THAT(infer(one, PartialRule::all).output, ElementsAre(Replicate(), Replicate()));
  EXPECT_THAT(infer(one, PartialRule::all).inputs[0], ElementsAre(Replicate(), Replicate())) << "made whole first";
  EXPECT_THAT(infer(one, PartialRule::one).output, ElementsAre(Partial(), Replicate()));
  // A product of two partial values is not the partial value of a product.
  EXPECT_THAT(infer(both, PartialRule::one).output, ElementsAre(Replicate(), Replicate()));
  EXPECT_THAT(infer(both, PartialRule::none).output, ElementsAre(Replicate(), Replicate()));
  const std::vector<TensorMeta> extremes = {partial({8}, ReduceOp::max), partial({8}, ReduceOp::max)};
  EXPECT_THAT(infer(extremes, PartialRule::all).output, ElementsAre(Replicate(), Replicate()));
  const std::vector<TensorMeta> mixed = {partial({8}), partial({8}, ReduceOp::avg)};
  EXPECT_THAT(infer(mixed, PartialRule::all).output, ElementsAre(Replicate(), Replicate()));
  // Where the other operand is sharded on the same dimension of the mesh.
  const std::vector<TensorMeta> sharded = {partial({8}), meta({8}, {0})};
  EXPECT_THAT(infer(sharded, PartialRule::one).output, ElementsAre(Shard(0), Replicate()));
}

TEST(Notation, MatmulBroadcastsItsBatch) {
  EXPECT_EQ(matmul_notation({5, 1, 2, 3}, {4, 3, 6}), "a1mk,bkn->abmn");
  EXPECT_EQ(matmul_notation({3, 2}, {6, 3}, true, true), "km,nk->mn");
  EXPECT_THROW(matmul_notation({3}, {3, 2}), ShapeError);
  const std::vector<TensorMeta> inputs = {meta({8, 2, 3}, {0, -1, -1}), meta({3, 6}, {-1, 1})};
  EXPECT_THAT(infer_notation(matmul_notation({8, 2, 3}, {3, 6}), inputs, 2).output, ElementsAre(Shard(0), Shard(2)));
}

TEST(Notation, AxesThatSeveralDimensionsShardKeepThemAll) {
  const std::vector<TensorMeta> x = {{{8, 6}, {Shard(0), Shard(0)}, 4}, {{8, 6}, {Replicate(), Replicate()}, 4}};
  const Spmd spmd = infer_notation("ab,ab->ab", x, 2);
  EXPECT_THAT(spmd.output, ElementsAre(Shard(0), Shard(0)));
  EXPECT_THAT(spmd.inputs[1], ElementsAre(Shard(0), Shard(0)));
}

TEST(Notation, RefusesWhatDoesNotFit) {
  const std::vector<TensorMeta> x = {meta({8, 6}, {0, -1})};
  EXPECT_THAT(message_of<ValueError>([&] { infer_notation("ab", x, 2); }), HasSubstr("it has no ->"));
  EXPECT_THROW(infer_notation("aa->a", x, 2), ValueError);
  EXPECT_THROW(infer_notation("aB->a", x, 2), ValueError);
  EXPECT_THROW(infer_notation("a->a", x, 2), ValueError);
  EXPECT_THROW(infer_notation("ab,ab->ab", x, 2), ValueError);
  EXPECT_THROW(infer_notation("ab->ab", x, 3), ValueError);
}

}  // namespace
}  // namespace weft::distributed
