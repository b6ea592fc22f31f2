// Sums of many floats that meet in one element keep their precision, whatever brings them together.
#include <weft/ops/columns.hpp>
#include <weft/ops/embedding_bag.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/interpolate.hpp>
#include <weft/ops/pool.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/scatter.hpp>
#include <weft/ops/search.hpp>
#include <weft/ops/sparse.hpp>
#include <weft/ops/subscript.hpp>
#include <weft/tensor/threads.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

constexpr int64_t many = 100000;

/// Tenths and larger numbers; float sums of them lose late terms.
Tensor terms(const Dims& shape, uint64_t seed = 1) { return SampleMaker(f32, {}, seed).tensor(shape, 0.1, 0.3); }

/// The total is that of f64, up to the rounding of a few f32 numbers.
void expect_total(const Tensor& actual, double expected) {
  EXPECT_NEAR(sum(actual.detach().to(f64)).item<double>(), expected, 2e-7 * expected);
}
double total(const Tensor& x) { return sum(x.to(f64)).item<double>(); }

TEST(LongSums, IntoOneElement) {
  const Tensor x = terms({many}), at = zeros({many}, i64), none = zeros({1});
  expect_total(index_add(none, 0, at, x), total(x));
  expect_total(scatter_add(none, 0, at, x), total(x));
  expect_total(index_put(none, {at}, x, true), total(x));
  expect_total(put(none, at, x, true), total(x));
  expect_total(bincount(at, x), total(x));
  expect_total(scatter_reduce(none, 0, at, x, ScatterReduction::sum), total(x));
  expect_total(scatter_reduce(none, 0, at, x, ScatterReduction::mean, false) * many, total(x));
  expect_total(index_add(zeros({1}), 0, zeros({20000000}, i64), ones({1}).expand({20000000})), 20000000);
  for (const Tensor& g :
       {grad({index_select(none.requires_grad_(), 0, at)}, {none}, {x})[0], grad({take(none, at)}, {none}, {x})[0],
        grad({none[at]}, {none}, {x})[0], grad({gather(none, 0, at)}, {none}, {x})[0]}) {
    expect_total(g, total(x));
  }
}

// Most terms of a skewed index go to a few of its destinations, which are many or few, near or far apart.
TEST(LongSums, OfSkewedIndices) {
  for (const int64_t size : {int64_t{50}, many / 3, 3 * many, 100 * many}) {
    const Tensor x = terms({many}), others = SampleMaker(f32, {}, 7).indices({many}, size);
    const Tensor at = where(terms({many}, 3) < 0.2, size - 1, others), last = at == size - 1;
    const double expected = total(where(last, x, 0));
    expect_total(index_add(zeros({size}), 0, at, x).select(0, size - 1), expected);
    expect_total(index_put(zeros({size, 3}), {at, ones({1}, i64)}, x, true).select(0, size - 1), expected);
    if (size > 3 * many) continue;
    for (const int64_t width : {2, 20}) {
      const Tensor rows = x.unsqueeze(1).expand({many, width});
      expect_total(index_add(zeros({size, width}), 0, at, rows).select(0, size - 1), expected * width);
    }
  }
}

TEST(LongSums, AlongEveryDimension) {
  const Tensor x = terms({3000, 70}), at = SampleMaker(f32, {}, 5).indices({3000, 70}, 3);
  for (const int64_t size : {3, 4000}) {
    expect_total(scatter_add(zeros({size, 70}), 0, at, x), total(x));
    expect_total(scatter_add(zeros({70, size}), 1, at.t(), x.t()), total(x));
    expect_total(scatter_add(zeros({2, size, 70}), 1, at.expand({2, 3000, 70}), x.expand({2, 3000, 70})), 2 * total(x));
    expect_total(scatter_add(zeros({70, size}).t(), 0, at.contiguous(), x), total(x));
    for (int64_t row = 0; row < 3; ++row) {
      expect_total(scatter_add(zeros({size, 70}), 0, at, x).select(0, row), total(where(at == row, x, 0)));
    }
  }
  const Tensor line = at.select(1, 0).contiguous();
  expect_total(index_add(zeros({70, 3}), 1, line, x.t()), total(x));
  expect_total(index_add(zeros({70, 4000, 2}), 1, line, x.t().unsqueeze(2).expand({70, 3000, 2})), 2 * total(x));
}

TEST(LongSums, Of16BitsAreRoundedOnce) {
  for (const DType t : {bf16, f16}) {
    const Tensor x = (terms({many}) * 0.01).to(t), at = zeros({many}, i64), one = zeros({1}, t);
    const double expected = sum(x.to(f64)).to(t).item<double>();
    EXPECT_EQ(index_add(one, 0, at, x).item<double>(), expected);
    EXPECT_EQ(scatter_add(one.view({1, 1}), 0, at.view({many, 1}), x.view({many, 1})).item<double>(), expected);
    EXPECT_EQ(index_add(zeros({1, 20}, t), 0, at, x.unsqueeze(1).expand({many, 20})).select(1, 7).item<double>(),
              expected);
    EXPECT_EQ(index_add(zeros({1, 2}, t), 0, at, x.unsqueeze(1).expand({many, 2})).select(1, 1).item<double>(),
              expected);
  }
  EXPECT_EQ(index_add(zeros({1}, bf16), 0, zeros({20000000}, i64), ones({1}, bf16).expand({20000000})).item<double>(),
            20054016);
}

TEST(LongSums, OfBagsAndSparseRows) {
  const Tensor weight = terms({many, 5}), list = arange(many), first = zeros({1}, i64);
  const auto bag = [&](BagMode mode) { return embedding_bag(list, weight, {.offsets = first, .mode = mode}); };
  expect_total(bag(BagMode::sum), total(weight));
  expect_total(bag(BagMode::mean) * many, total(weight));
  const Tensor one = terms({1, 5}).requires_grad_(), at = zeros({many}, i64), g = terms({many, 5});
  expect_total(grad({embedding(one, at)}, {one}, {g})[0], total(g));
  const Tensor all = embedding_bag(at, one, {.offsets = list, .mode = BagMode::sum});
  expect_total(grad({all}, {one}, {g})[0], total(g));
  const Tensor starts = tensor({int64_t{0}, many});
  expect_total(csr_matmul(starts, list, ones({many}), weight), total(weight));
  expect_total(csr_matmul(starts, list, ones({many}), weight.select(1, 0).contiguous().unsqueeze(1)),
               total(weight.select(1, 0)));
}

TEST(LongSums, OfImages) {
  const Tensor point = terms({1, 1, 1}).requires_grad_();
  const Tensor wide = interpolate(point, {.size = {many}, .mode = Interpolation::linear}), g = terms(wide.shape());
  expect_total(grad({wide}, {point}, {g})[0], total(g));
  const Tensor image = terms({1, 2, 3, 3}).requires_grad_(), grid = zeros({1, 300, 300, 2});
  const Tensor sampled = grid_sample(image, grid, {.align_corners = true}), h = terms(sampled.shape());
  expect_total(grad({sampled}, {image}, {h})[0], total(h));
  const Tensor plane = terms({1, 1, 400, 400}).requires_grad_();
  const Tensor mean = avg_pool2d(plane, {399, 399}, {.stride = {1, 1}}), u = terms(mean.shape());
  expect_total(mean, total(avg_pool2d(plane.to(f64), {399, 399}, {.stride = {1, 1}})));
  expect_total(grad({mean}, {plane}, {u})[0], total(u));
  const Tensor line = terms({1, 1, 3000}).requires_grad_();
  const Tensor means = avg_pool1d(line, {2000}, {.stride = {1}}), v = terms(means.shape());
  const Tensor exact = line.detach().to(f64).requires_grad_();
  const Tensor expected = grad({avg_pool1d(exact, {2000}, {.stride = {1}})}, {exact}, {v.to(f64)})[0];
  EXPECT_LT(max(abs(grad({means}, {line}, {v})[0] - expected)).item<double>(), 5e-8);
  const Tensor columns = terms({1, 40 * 40, 61 * 61});
  expect_total(col2im(columns, {100, 100}, {40, 40}, {}), total(columns));
  expect_total(col2im(columns, {100, 100}, {40, 40}, {}).select(2, 50).select(2, 50),
               total(col2im(columns.to(f64), {100, 100}, {40, 40}, {}).select(2, 50).select(2, 50)));
}

TEST(LongSums, DoNotDependOnThreads) {
  const Tensor x = terms({60000, 3}), wide = terms({9000, 90});
  const Tensor skewed = (square(square(terms({60000}, 9) * 3)) * 700).to(i64), rows = skewed.narrow(0, 0, 9000);
  const Tensor grid = skewed.narrow(0, 0, 45000).view({9000, 5});
  const int before = num_threads();
  for (const DType t : {f32, bf16}) {
    const auto all = [&] {
      const Tensor y = x.to(t), z = wide.to(t);
      const std::vector<Tensor> out = {
          index_add(zeros({600}, t), 0, skewed, y.select(1, 0)), index_add(zeros({600, 3}, t), 0, skewed, y),
          index_add(zeros({40000, 90}, t), 0, rows, z), scatter_add(zeros({600, 5}, t), 0, grid, z.narrow(1, 0, 5))};
      Doubles numbers;
      for (const Tensor& part : out) {
        for (const double number : values(part)) numbers.push_back(number);
      }
      return numbers;
    };
    set_num_threads(1);
    const Doubles one = all();
    set_num_threads(3);
    EXPECT_EQ(all(), one) << name(t);
    set_num_threads(before);
  }
}

}  // namespace
}  // namespace weft::testing
