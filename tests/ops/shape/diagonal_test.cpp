// Diagonals, triangles and parts of matrices.
#include <weft/ops/diagonal.hpp>
#include <weft/ops/reduce.hpp>

#include "message_of.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

constexpr int64_t huge = int64_t{1} << 62, least = std::numeric_limits<int64_t>::min();

Tensor counted(const Dims& shape) { return arange(shape.product()).to(f64).view(shape); }

TEST(Diag, MakesAMatrixOrTakesItsDiagonal) {
  expect_values(diag(doubles({1, 2}), 1), {0, 1, 0, 0, 0, 2, 0, 0, 0});
  const Tensor x = counted({2, 3});
  expect_values(diag(x, 1), {1, 5});
  EXPECT_FALSE(diag(x).shares_storage(x));
  EXPECT_EQ(diag(x, huge).numel(), 0);
  EXPECT_EQ(diag(x, least).numel(), 0);
  EXPECT_EQ(diag(zeros({0}), -2).shape(), Dims({2, 2}));
  EXPECT_THROW(diag(tensor(1.)), ShapeError);
  EXPECT_THROW(diag(counted({1, 1, 1})), ShapeError);
  EXPECT_THROW(diag(counted({2}), huge), ShapeError);
  EXPECT_THROW(diag(counted({2}), least), ShapeError);
}

TEST(DiagEmbed, TakesAnyTwoDimensions) {
  expect_values(diag_embed(doubles({1, 2, 3, 4}, {2, 2}), 0, 0, 2), {1, 0, 3, 0, 0, 2, 0, 4});
  expect_values(diag_embed(doubles({1}), -1), {0, 0, 1, 0});
  EXPECT_THROW(diag_embed(counted({2}), 0, 1, -1), ValueError);
  EXPECT_THROW(diag_embed(counted({2}), 0, 0, 2), IndexError);
  EXPECT_THROW(diag_embed(tensor(1.)), IndexError);
  EXPECT_THROW(diag_embed(ones({1, 1, 1, 1, 1, 1, 1, 1})), ShapeError);
}

TEST(Trace, SumsIntegersIn64Bits) {
  EXPECT_EQ(trace(full({3, 3}, 100, {.dtype = i8})).item<int64_t>(), 300);
  EXPECT_EQ(trace(ones({2, 3}, boolean)).dtype(), i64);
  EXPECT_THROW(trace(counted({2})), ShapeError);
  EXPECT_THROW(trace(counted({1, 2, 2})), ShapeError);
}

TEST(Triangle, NaNOutsideIsZero) {
  const Tensor x = full({2, 2}, nan);
  expect_values(tril(x), {nan, 0, nan, nan});
  expect_values(triu(x), {nan, nan, 0, nan});
  for (const int64_t far : {huge, least, int64_t{9}, int64_t{-9}}) {
    expect_values(tril(x, far), far > 0 ? values(x) : Doubles{0, 0, 0, 0});
    expect_values(triu(x, far), far < 0 ? values(x) : Doubles{0, 0, 0, 0});
  }
  EXPECT_EQ(tril(ones({2, 2}, boolean)).dtype(), boolean);
  EXPECT_FALSE(tril(x, 5).shares_storage(x));
  EXPECT_THROW(tril(counted({3})), ShapeError);
  EXPECT_THROW(triu(tensor(1.)), ShapeError);
}

TEST(Triangle, InPlace) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(tril_(x).impl(), x.impl());
  expect_values(x, {0, 0, 0, 3, 4, 0});
  const Tensor a = leaf({2, 2}), y = a * 2;
  triu_(y, 1);
  sum(y).backward();
  expect_values(a.grad(), {0, 2, 0, 0});
  EXPECT_THROW(tril_(counted({1, 2}).expand({2, 2})), ValueError);
  EXPECT_THROW(tril_(leaf({2, 2})), AutogradError);
}

TEST(TriangleIndices, EqualTheTrianglesElements) {
  for (const int64_t rows : {0, 1, 3, 5}) {
    for (const int64_t columns : {0, 1, 2, 4}) {
      for (int64_t k = -6; k <= 6; ++k) {
        Doubles lower[2], upper[2];
        for (int64_t i = 0; i < rows; ++i) {
          for (int64_t j = 0; j < columns; ++j) {
            Doubles* to = j <= i + k ? lower : nullptr;
            if (to != nullptr) to[0].push_back(static_cast<double>(i)), to[1].push_back(static_cast<double>(j));
            if (j >= i + k) upper[0].push_back(static_cast<double>(i)), upper[1].push_back(static_cast<double>(j));
          }
        }
        for (int half = 0; half < 2; ++half) {
          expect_values(tril_indices(rows, columns, k).select(0, half), lower[half]);
          expect_values(triu_indices(rows, columns, k).select(0, half), upper[half]);
        }
      }
    }
  }
}

TEST(TriangleIndices, OfHugeMatrices) {
  expect_values(tril_indices(huge, 1, 2 - huge).select(0, 1), {0, 0});
  expect_values(triu_indices(huge, 1, 0), {0, 0});
  EXPECT_EQ(tril_indices(huge, 0).shape(), Dims({2, 0}));
  EXPECT_EQ(tril_indices(3, 3, least).numel(), 0);
  EXPECT_EQ(triu_indices(3, 3, huge).numel(), 0);
  EXPECT_THROW(tril_indices(huge, huge), ShapeError);
  EXPECT_THROW(tril_indices(huge, 1), ShapeError);
  EXPECT_THROW(triu_indices(-1, 2), ValueError);
  EXPECT_THROW(triu_indices(2, 2, 0, {.dtype = boolean}), DTypeError);
  EXPECT_EQ(triu_indices(2, 2, 0, {.dtype = i32}).dtype(), i32);
}

TEST(ReplacedParts, AreNewTensors) {
  const Tensor x = counted({2, 3});
  expect_values(diagonal_scatter(x, doubles({7, 8}), 1), {0, 7, 2, 3, 4, 8});
  expect_values(select_scatter(x, doubles({7, 8}), -1, -3), {7, 1, 2, 8, 4, 5});
  expect_values(slice_scatter(x, doubles({6, 7, 8, 9}, {2, 2}), 1, {}, {}, 2), {6, 1, 7, 8, 4, 9});
  expect_values(slice_scatter(x, zeros({0, 3}), 0, 5, huge), values(x));
  expect_values(x, {0, 1, 2, 3, 4, 5});
  EXPECT_EQ(select_scatter(arange(3), tensor(2.7), 0, 1).dtype(), i64);
  expect_values(select_scatter(x.t(), doubles({7, 8}), 0, 0), {7, 8, 1, 4, 2, 5});
}

TEST(ReplacedParts, Errors) {
  const Tensor x = counted({2, 3});
  EXPECT_NE(message_of<ShapeError>([&] {
              select_scatter(x, tensor(1.), 0, 0);
            }).find("the source has shape [], the part [3]"),
            std::string::npos);
  EXPECT_THROW(diagonal_scatter(x, counted({3})), ShapeError);
  EXPECT_THROW(slice_scatter(x, counted({1, 3}), 0), ShapeError);
  EXPECT_THROW(slice_scatter(x, x, 0, {}, {}, 0), ValueError);
  EXPECT_THROW(slice_scatter(x, x, 0, {}, {}, -1), ValueError);
  EXPECT_THROW(select_scatter(x, counted({3}), 0, 2), IndexError);
  EXPECT_THROW(select_scatter(x, counted({3}), 2, 0), IndexError);
  EXPECT_THROW(select_scatter(x, Tensor(), 0, 0), ValueError);
  EXPECT_THROW(slice_scatter(tensor(1.), tensor(1.)), IndexError);
}

}  // namespace
}  // namespace weft::testing
