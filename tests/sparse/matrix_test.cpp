// Sparse tensors against dense ones, element by element, and their gradients against differences.
#include <functional>

#include <gmock/gmock.h>

#include <weft/autograd/engine.hpp>
#include <weft/ops/gradcheck.hpp>
#include <weft/ops/complex.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/masked.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/sparse.hpp>

#include "message_of.hpp"
#include "sparse/values.hpp"

namespace weft {
namespace {

using namespace test;
using testing::HasSubstr;

/// A matrix with repeated and unsorted indices, and the same one added up in doubles, one element at a time.
struct Case {
  sparse::Coo coo;
  Tensor dense;
};
Case random_case(std::mt19937& random, DType dtype = f64) {
  const auto some = [&](int64_t most) { return std::uniform_int_distribution<int64_t>(0, most)(random); };
  const int64_t rows = some(6), columns = some(6), n = rows * columns == 0 ? 0 : some(12);
  const Tensor r = random_indices(random, {n}, 0, std::max<int64_t>(rows, 1));
  const Tensor c = random_indices(random, {n}, 0, std::max<int64_t>(columns, 1));
  const Tensor values = random_values(random, {n}, dtype);
  std::vector<double> sums(static_cast<size_t>(rows * columns));
  const auto at = r.to_vector<int64_t>(), in = c.to_vector<int64_t>();
  const auto v = values.to(f64).to_vector<double>();
  for (size_t i = 0; i < v.size(); ++i) sums[static_cast<size_t>(at[i] * columns + in[i])] += v[i];
  std::vector<int64_t> both(at);
  both.insert(both.end(), in.begin(), in.end());
  return {sparse::coo(tensor(std::span<const int64_t>(both), {2, n}, i64), values, {rows, columns}),
          tensor(std::span<const double>(sums), {rows, columns}, f64)};
}

TEST(SparseMatrix, EveryFormIsTheSameMatrix) {
  std::mt19937 random(1);
  for (int i = 0; i < 500; ++i) {
    const auto [coo, dense] = random_case(random);
    expect_near(sparse::to_dense(coo), dense, 1e-14);
    const sparse::Coo sorted = sparse::coalesce(coo);
    expect_near(sparse::to_dense(sorted), dense, 1e-14);
    EXPECT_TRUE(sorted.is_coalesced);
    const sparse::Csr csr = sparse::to_csr(coo);
    expect_near(sparse::to_dense(csr), dense, 1e-14);
    expect_near(sparse::to_dense(sparse::to_coo(csr)), dense, 1e-14);
    expect_near(sparse::to_dense(sparse::transpose(coo)), dense.t(), 1e-14);
    expect_near(sparse::to_dense(sparse::transpose(csr)), dense.t(), 1e-14);
    expect_near(sparse::to_dense(sparse::to_coo(dense)), dense, 0);
    expect_near(sparse::to_dense(sparse::to_csr(dense)), dense, 0);
    EXPECT_EQ(sparse::to_coo(dense).nnz(), count_nonzero(dense).item<int64_t>());
    const Tensor x = random_values(random, {dense.size(1), 3}), v = random_values(random, {dense.size(1)});
    expect_near(sparse::matmul(coo, x), matmul(dense, x), 1e-13);
    expect_near(sparse::matmul(csr, x), matmul(dense, x), 1e-13);
    expect_near(sparse::matmul(csr, v), matmul(dense, v), 1e-13);
  }
}

TEST(SparseMatrix, CoalescingSortsAndAddsRepeats) {
  const Tensor at = tensor({{1, 0, 1, 1}, {2, 1, 2, 0}});
  const sparse::Coo a = sparse::coalesce(sparse::coo(at, tensor({1.0, 2.0, 4.0, 8.0}), {2, 3}));
  EXPECT_EQ(a.indices.to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 1, 1, 0, 2}));
  EXPECT_EQ(a.values.to_vector<float>(), (std::vector<float>{2, 8, 5}));
  EXPECT_EQ(sparse::coalesce(a).values.impl(), a.values.impl());
}

TEST(SparseMatrix, DenseDimensionsAreBlocks) {
  std::mt19937 random(2);
  for (int i = 0; i < 200; ++i) {
    const Tensor at = random_indices(random, {2, 7}, 0, 3), values = random_values(random, {7, 2, 3});
    const sparse::Coo a = sparse::coo(at, values, {3, 3, 2, 3});
    const Tensor flat = at.select(0, 0) * 3 + at.select(0, 1);
    const Tensor dense = index_add(zeros({9, 6}, f64), 0, flat, values.reshape({7, 6})).reshape({3, 3, 2, 3});
    expect_near(sparse::to_dense(a), dense, 0);
    expect_near(sparse::to_dense(sparse::coalesce(a)), dense, 1e-14);
    const sparse::Coo back = sparse::to_coo(dense, 2);
    EXPECT_EQ(back.dense_dims(), 2);
    EXPECT_EQ(back.nnz(), sparse::coalesce(a).nnz());
    expect_near(sparse::to_dense(back), dense, 0);
    expect_near(sparse::to_dense(sparse::transpose(a)), dense.transpose(0, 1), 1e-14);
  }
}

TEST(SparseMatrix, ManyRowsAndColumnsAreSorted) {
  std::mt19937 random(3);
  const int64_t n = 50000, size = 1000003;
  const Tensor at = random_indices(random, {2, n}, 0, size), values = random_values(random, {n});
  const sparse::Coo a = sparse::coalesce(sparse::coo(at, values, {size, size}));
  const auto rows = a.indices.select(0, 0).to_vector<int64_t>(), columns = a.indices.select(0, 1).to_vector<int64_t>();
  for (size_t i = 1; i < rows.size(); ++i) {
    ASSERT_LT(std::pair(rows[i - 1], columns[i - 1]), std::pair(rows[i], columns[i]));
  }
  const Tensor x = random_values(random, {size, 1});
  const double whole = sum(values * index_select(x, 0, at.select(0, 1)).squeeze(1)).item<double>();
  EXPECT_NEAR(sum(sparse::matmul(a, x)).item<double>(), whole, 1e-8);
}

TEST(SparseMatrix, GradientsEqualDifferencesToSecondOrder) {
  std::mt19937 random(4);
  const Tensor at = random_indices(random, {2, 6}, 0, 3), x = random_values(random, {3, 2});
  const Tensor values = random_values(random, {6});
  const auto made = [&](const Tensor& v) { return sparse::coo(at, v, {3, 3}); };
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&, const Tensor&)>>> functions = {
      {"coo", [&](const Tensor& v, const Tensor& d) { return sparse::matmul(made(v), d); }},
      {"csr", [&](const Tensor& v, const Tensor& d) { return sparse::matmul(sparse::to_csr(made(v)), d); }},
      {"transposed",
       [&](const Tensor& v, const Tensor& d) { return sparse::matmul(sparse::transpose(sparse::to_csr(made(v))), d); }},
      {"coalesce",
       [&](const Tensor& v, const Tensor& d) {
         const Tensor sums = sparse::coalesce(made(v)).values;
         return sums * sums * sum(d);
       }},
      {"to_dense", [&](const Tensor& v, const Tensor& d) { return matmul(sparse::to_dense(made(v)), d); }},
      {"vector", [&](const Tensor& v, const Tensor& d) { return sparse::matmul(made(v), d.select(1, 0)); }},
      {"from dense", [&](const Tensor& v, const Tensor& d) {
         return sparse::matmul(sparse::to_csr(matmul(d, d.t()) + 3), d) * sum(v);
       }}};
  for (const auto& [name, f] : functions) {
    SCOPED_TRACE(name);
    const Tensor v = values.clone().requires_grad_(), d = x.clone().requires_grad_();
    const auto call = [&](std::span<const Tensor> in) { return std::vector<Tensor>{f(in[0], in[1])}; };
    EXPECT_TRUE(gradcheck(call, {v, d}).passed);
    EXPECT_TRUE(gradgradcheck(call, {v, d}).passed);
  }
}

TEST(SparseMatrix, NarrowAndComplexNumbersAreComputedWide) {
  std::mt19937 random(5);
  for (const DType dtype : {f16, bf16, f32}) {
    const auto [coo, dense] = random_case(random, dtype);
    const Tensor x = random_values(random, {dense.size(1), 4}, dtype);
    const double step = dtype == f32 ? 1e-6 : dtype == f16 ? 1e-3 : 8e-3;
    expect_near(sparse::matmul(coo, x), matmul(dense, x.to(f64)).to(dtype), step);
    const Tensor v = coo.values.clone().requires_grad_();
    sum(sparse::matmul(sparse::coo(coo.indices, v, coo.shape), x)).backward();
    EXPECT_EQ(v.grad().dtype(), dtype);
  }
  const Tensor at = tensor({{0, 1, 1}, {1, 0, 1}});
  const Tensor z = complex(tensor({1.0, -2.0, 0.5}, f64), tensor({0.5, 1.0, -1.0}, f64)).requires_grad_();
  const Tensor x = complex(random_values(random, {2, 2}), random_values(random, {2, 2})).requires_grad_();
  const auto f = [&](std::span<const Tensor> in) {
    return std::vector<Tensor>{sparse::matmul(sparse::coo(at, in[0], {2, 2}), in[1])};
  };
  EXPECT_TRUE(allclose(f(std::vector<Tensor>{z, x})[0], matmul(sparse::to_dense(sparse::coo(at, z, {2, 2})), x)));
  EXPECT_TRUE(gradcheck(f, {z, x}).passed);
}

TEST(SparseMatrix, NansAreNoZeros) {
  const double nan = std::nan("");
  const sparse::Csr a = sparse::to_csr(tensor({{0.0, nan}, {-0.0, 1.0}}, f64));
  EXPECT_EQ(a.nnz(), 2);
  const auto y = sparse::matmul(a, tensor({{nan}, {1.0}}, f64)).to_vector<double>();
  EXPECT_TRUE(std::isnan(y[0]));
  EXPECT_EQ(y[1], 1);  // 0 times NaN is no element
}

TEST(SparseMatrix, StridedAndExpandedOperandsAreRead) {
  std::mt19937 random(6);
  const Tensor at = random_indices(random, {4, 2}, 0, 3).t(),
               values = random_values(random, {8})[{Slice(none, none, 2)}];
  const sparse::Coo a = sparse::coo(at, values, {3, 3});
  const Tensor dense = sparse::to_dense(a), x = random_values(random, {2, 3}).t();
  expect_near(sparse::matmul(a, x), matmul(dense, x), 1e-13);
  const Tensor one = ones({1, 1}, f64).expand({3, 5});
  expect_near(sparse::matmul(a, one), matmul(dense, one), 1e-13);
  const Tensor v = values.clone().requires_grad_();
  sparse::matmul(sparse::coo(at, v, {3, 3}), x).sum().backward();  // the seed's gradient is expanded
  expect_near(v.grad(), index_select(sum(x, {1}), 0, at.select(0, 1)), 1e-13);
}

TEST(SparseMatrix, EmptyOnesHaveProductsAndGradients) {
  for (const Dims& shape : {Dims{0, 3}, Dims{3, 0}, Dims{0, 0}, Dims{2, 3}}) {
    const Tensor v = zeros({0}, f64).requires_grad_();
    const sparse::Coo a = sparse::coo(zeros({2, 0}, i64), v, shape);
    const Tensor x = ones({shape[1], 2}, f64).requires_grad_();
    const Tensor y = sparse::matmul(sparse::to_csr(a), x);
    EXPECT_EQ(y.shape(), Dims({shape[0], 2}));
    EXPECT_EQ(sparse::matmul(a, ones({shape[1], 0}, f64)).shape(), Dims({shape[0], 0}));
    sum(y).backward();
    EXPECT_EQ(v.grad().shape(), Dims({0}));
    EXPECT_EQ(sum(abs(x.grad())).item<double>(), 0);
    EXPECT_EQ(sparse::to_dense(sparse::coalesce(a)).shape(), shape);
  }
}

TEST(SparseMatrix, WrongPartsAreRefusedWithTheLineOfTheCall) {
  const Tensor at = tensor({{0, 1}, {1, 2}}), v = tensor({1.0, 2.0});
  const auto text = [](auto&& f) { return message_of<Error>(f); };
  EXPECT_THAT(text([&] { sparse::coo(at, v, {2, 2}); }), HasSubstr("index 2 of element 1 is none of 2 in dimension 1"));
  EXPECT_THAT(text([&] { sparse::coo(at, v, {2, 2}); }), HasSubstr("matrix_test.cpp"));
  EXPECT_THROW(sparse::coo(at - 1, v, {2, 3}), IndexError);
  EXPECT_THROW(sparse::coo(at.to(f32), v, {2, 3}), DTypeError);
  EXPECT_THROW(sparse::coo(at, tensor({1.0}), {2, 3}), ShapeError);
  EXPECT_THROW(sparse::coo(at, v, {2, 3, 1}), ShapeError);
  EXPECT_THROW(sparse::coo(at, v, {2, -3}), ShapeError);
  EXPECT_THROW(sparse::coo(at.select(0, 0), v, {2}), ShapeError);
  EXPECT_THROW(sparse::coo(zeros({0, 2}, i64), v, {}), ShapeError);
  EXPECT_THROW(sparse::coo(at, v, {int64_t{1} << 62, 4}), ShapeError);
  EXPECT_NO_THROW(sparse::coo(at, v, {int64_t{1} << 60, 4}));
  EXPECT_THROW(sparse::coo(Tensor(), v, {2, 3}), Error);
  EXPECT_THROW(sparse::csr(tensor({0, 2, 1}), tensor({0, 1}), v, {2, 3}), ValueError);
  EXPECT_THROW(sparse::csr(tensor({0, 3, 2}), tensor({0, 1}), v, {2, 3}), ValueError);
  EXPECT_THROW(sparse::csr(tensor({0, 1, 2}), tensor({0, 3}), v, {2, 3}), IndexError);
  EXPECT_THROW(sparse::csr(tensor({0, 1, 2}), tensor({0, -1}), v, {2, 3}), IndexError);
  EXPECT_THROW(sparse::csr(tensor({0, 2}), tensor({0, 1}), v, {2, 3}), ShapeError);
  EXPECT_THROW(sparse::csr(zeros({0}, i64), tensor({0, 1}), v, {0, 3}), ShapeError);
  EXPECT_THROW(sparse::to_coo(tensor(1.0)), ShapeError);
  EXPECT_THROW(sparse::to_coo(v, 2), ValueError);
  EXPECT_THROW(sparse::to_csr(v), ShapeError);
  const sparse::Csr a = sparse::csr(tensor({0, 1, 2}), tensor({0, 1}), v, {2, 3});
  EXPECT_THROW(sparse::matmul(a, ones({2, 2})), ShapeError);
  EXPECT_THROW(sparse::matmul(a, ones({3, 2}, f64)), DTypeError);
  EXPECT_THROW(sparse::matmul(a, tensor(1.0)), ShapeError);
  EXPECT_THROW(sparse::coalesce(sparse::coo(tensor({{1, 1}}), tensor({true, true}), {2})), DTypeError);
}

TEST(SparseMatrix, BackwardRejectsOverwrittenOperands) {
  const Tensor v = tensor({1.0, 2.0}).requires_grad_(), x = ones({3, 2});
  const Tensor y = csr_matmul(tensor({0, 1, 2}), tensor({0, 1}), v, x);
  x.add_(1);
  EXPECT_THROW(sum(y).backward(), AutogradError);
}

}  // namespace
}  // namespace weft
