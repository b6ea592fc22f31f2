// Tensors side by side, elements repeated and combined, and products over any dimensions.
#include <weft/ops/combine.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/reduce.hpp>

#include "message_of.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

constexpr int64_t huge = int64_t{1} << 62;

Tensor counted(const Dims& shape) { return arange(shape.product()).to(f64).view(shape); }
Tensor integers(std::initializer_list<int64_t> values) { return tensor(values); }

TEST(Stacks, JoinAlongTheirDimension) {
  const Tensor v = counted({2});
  EXPECT_EQ(hstack({v, v}).shape(), Dims(4));
  EXPECT_EQ(hstack({tensor(1.), tensor(2.)}).shape(), Dims(2));
  EXPECT_EQ(hstack({counted({2, 1}), counted({2, 2})}).shape(), Dims({2, 3}));
  EXPECT_EQ(vstack({v, counted({3, 2})}).shape(), Dims({4, 2}));
  EXPECT_EQ(row_stack({v, v}).shape(), Dims({2, 2}));
  EXPECT_EQ(dstack({v, v}).shape(), Dims({1, 2, 2}));
  EXPECT_EQ(column_stack({v, counted({2, 3})}).shape(), Dims({2, 4}));
  EXPECT_EQ(hstack({arange(2), v}).dtype(), f64);
  EXPECT_THROW(hstack({v, counted({2, 2})}), ShapeError);
  EXPECT_THROW(vstack(std::span<const Tensor>()), ValueError);
  EXPECT_THROW(column_stack({v, Tensor()}), ValueError);
}

TEST(BlockDiag, IsZeroElsewhere) {
  expect_values(block_diag({counted({1, 2}), full({2}, nan, f64), tensor(5.)}),
                {0, 1, 0, 0, 0, 0, 0, nan, nan, 0, 0, 0, 0, 0, 5});
  EXPECT_EQ(block_diag(std::span<const Tensor>()).shape(), Dims({1, 0}));
  EXPECT_EQ(block_diag({ones({1, 1}, boolean), arange(1)}).dtype(), i64);
  EXPECT_EQ(block_diag({zeros({2, 0}), zeros({0, 3})}).shape(), Dims({2, 3}));
  EXPECT_EQ(block_diag({ones({1, 1}), doubles({2}, {})}).dtype(), f32);
  EXPECT_THROW(block_diag({counted({1, 1, 1})}), ShapeError);
  EXPECT_THROW(block_diag({zeros({0, 1}).expand({0, huge}), zeros({0, 1}).expand({0, huge})}), ShapeError);
}

TEST(RepeatInterleave, RepeatsEachSlice) {
  const Tensor x = counted({2, 2});
  expect_values(repeat_interleave(x, 2), {0, 0, 1, 1, 2, 2, 3, 3});
  expect_values(repeat_interleave(x, 2, 0), {0, 1, 0, 1, 2, 3, 2, 3});
  expect_values(repeat_interleave(x, integers({0, 3}), 1), {1, 1, 1, 3, 3, 3});
  expect_values(repeat_interleave(x, integers({2}), -1), {0, 0, 1, 1, 2, 2, 3, 3});
  EXPECT_FALSE(repeat_interleave(x, 1, 0).shares_storage(x));
  EXPECT_EQ(repeat_interleave(ones({1, 1, 1, 1, 1, 1, 1, 2}), 3, 0).shape(), Dims({3, 1, 1, 1, 1, 1, 1, 2}));
  EXPECT_EQ(repeat_interleave(zeros({0, 2}), 4, 1).shape(), Dims({0, 8}));
  for (const DType t : {u8, i16, u32, u64}) {
    expect_values(repeat_interleave(x, integers({1, 2}).to(t), 0), {0, 1, 2, 3, 2, 3});
  }
  expect_values(repeat_interleave(integers({2, 0, 1})), {0, 0, 2});
  EXPECT_EQ(repeat_interleave(integers({2}).to(i32)).dtype(), i32);
}

TEST(RepeatInterleave, Errors) {
  const Tensor x = counted({2, 2});
  EXPECT_THROW(repeat_interleave(x, -1), ValueError);
  EXPECT_THROW(repeat_interleave(x, huge), ShapeError);
  EXPECT_THROW(repeat_interleave(x, 1, 2), IndexError);
  EXPECT_THROW(repeat_interleave(tensor(1.), 1, 0), IndexError);
  EXPECT_THROW(repeat_interleave(x, integers({1, -1}), 0), ValueError);
  EXPECT_THROW(repeat_interleave(x, integers({1, 2, 3}), 0), ShapeError);
  EXPECT_THROW(repeat_interleave(x, integers({huge, huge}), 0), ShapeError);
  EXPECT_THROW(repeat_interleave(x, integers({1}).unsqueeze(0), 0), ShapeError);
  EXPECT_THROW(repeat_interleave(x, doubles({1, 2}), 0), DTypeError);
  EXPECT_THROW(repeat_interleave(x, tensor(std::numeric_limits<uint64_t>::max()), 0), ShapeError);
  EXPECT_THROW(repeat_interleave(doubles({1})), DTypeError);
  EXPECT_THROW(repeat_interleave(tensor(1)), DTypeError);
  EXPECT_NE(message_of<ValueError>([&] {
              repeat_interleave(x, integers({1, 2}), 0, 4);
            }).find("output_size: expected 3, the sum of repeats, got 4"),
            std::string::npos);
  EXPECT_THROW(repeat_interleave(x, integers({1, 2}), 0, -1), ValueError);
}

TEST(CartesianProd, TheLastVariesFastest) {
  const Tensor a = counted({2}), b = doubles({5, 6});
  expect_values(cartesian_prod({a, b}), {0, 5, 0, 6, 1, 5, 1, 6});
  EXPECT_EQ(cartesian_prod({a}).impl(), a.impl());
  EXPECT_EQ(cartesian_prod(std::vector<Tensor>(12, a)).shape(), Dims({4096, 12}));
  EXPECT_EQ(cartesian_prod({a, zeros({0}, f64)}).shape(), Dims({0, 2}));
  EXPECT_THROW(cartesian_prod({a, arange(2)}), DTypeError);
  EXPECT_THROW(cartesian_prod({tensor(1.)}), ShapeError);
  EXPECT_THROW(cartesian_prod(std::vector<Tensor>(63, a)), ShapeError);
  EXPECT_THROW(cartesian_prod(std::vector<Tensor>(64, a)), ShapeError);
  EXPECT_THROW(cartesian_prod(std::span<const Tensor>()), ValueError);
}

TEST(Combinations, KeepTheOrder) {
  const Tensor x = counted({3});
  expect_values(combinations(x), {0, 1, 0, 2, 1, 2});
  expect_values(combinations(x, 2, true), {0, 0, 0, 1, 0, 2, 1, 1, 1, 2, 2, 2});
  EXPECT_EQ(combinations(x, 4).shape(), Dims({0, 4}));
  EXPECT_EQ(combinations(x, int64_t{1} << 40).shape(), Dims({0, int64_t{1} << 40}));
  EXPECT_EQ(combinations(x, 0).shape(), Dims(0));
  EXPECT_EQ(combinations(counted({12}), 10).shape(), Dims({66, 10}));
  EXPECT_EQ(combinations(zeros({0}), 3, true).shape(), Dims({0, 3}));
}

TEST(Combinations, Errors) {
  const Tensor x = counted({3});
  EXPECT_THROW(combinations(x, -1), ValueError);
  EXPECT_THROW(combinations(counted({2, 2})), ShapeError);
  EXPECT_THROW(combinations(counted({100}), 50), ShapeError);
  EXPECT_THROW(combinations(x, huge, true), ShapeError);
  EXPECT_THROW(combinations(counted({1}), huge, true), ShapeError);
  EXPECT_THROW(combinations(counted({1}).expand({huge}), huge / 2), ShapeError);
}

TEST(Vander, PowersOfZeroHaveGradients) {
  const Tensor x = doubles({0, 2}).requires_grad_();
  expect_values(vander(x, 3), {0, 0, 1, 4, 2, 1});
  sum(vander(x, 3)).backward();
  expect_values(x.grad(), {1, 5});
  expect_gradients([&](Inputs in) { return vander(in[0], 4, true); }, {doubles({0, -1.5}).requires_grad_()});
  EXPECT_EQ(vander(ones({2}, boolean)).dtype(), i64);
  EXPECT_EQ(vander(tensor({2, 3}).to(u8), 12, true).select(1, 11).to_vector<int64_t>(),
            (std::vector<int64_t>{2048, 177147}));
  EXPECT_EQ(vander(x, 0).shape(), Dims({2, 0}));
  EXPECT_THROW(vander(x, -1), ValueError);
  EXPECT_THROW(vander(x, huge), ShapeError);
  EXPECT_THROW(vander(counted({2, 2})), ShapeError);
}

TEST(Tensordot, SumsOverNamedDimensions) {
  const Tensor a = counted({2, 3}), b = counted({3, 2});
  expect_values(tensordot(a, b, 1), values(mm(a, b)));
  expect_values(tensordot(a, b, {0, 1}, {1, 0}), values(sum(a * b.t())));
  EXPECT_EQ(tensordot(a, b, 0).shape(), Dims({2, 3, 3, 2}));
  expect_values(tensordot(a.narrow(0, 0, 1), b, 0, 0), values(sum(b, {0}).unsqueeze(0) * a.narrow(0, 0, 1).t()));
  expect_gradients([](Inputs in) { return tensordot(in[0], in[1], {2, 0}, {0, 1}); }, {leaf({2, 3, 4}), leaf({4, 2})});
}

TEST(Tensordot, Errors) {
  const Tensor a = counted({2, 3}), b = counted({3, 2});
  EXPECT_THROW(tensordot(a, b, 2), ShapeError);
  EXPECT_THROW(tensordot(a, b, 3), ShapeError);
  EXPECT_THROW(tensordot(a, b, huge), ShapeError);
  EXPECT_THROW(tensordot(a, b, -1), ValueError);
  EXPECT_THROW(tensordot(a, b, {0, 1}, {0}), ValueError);
  EXPECT_THROW(tensordot(a, b, {0, 0}, {0, 1}), ValueError);
  EXPECT_THROW(tensordot(a, b, {2}, {0}), IndexError);
  EXPECT_THROW(tensordot(doubles({1}, {}), b, {0}, {0}), IndexError);
  EXPECT_THROW(tensordot(a, b.to(f32), 1), DTypeError);
  EXPECT_THROW(tensordot(ones({1, 1, 1, 1, 1}), ones({1, 1, 1, 1, 1}), 0), ShapeError);
  EXPECT_THROW(tensordot(Tensor(), b, 1), ValueError);
}

}  // namespace
}  // namespace weft::testing
