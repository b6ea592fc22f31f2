#include <cmath>
#include <limits>

#include <weft/autograd/engine.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/pool.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/rearrange.hpp>
#include <weft/tensor/threads.hpp>

#include "message_of.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

// The windows by a loop: the elements of each of [C, H, W], row by row.
template <class Visit>
void each_window(const Tensor& x, const Dims& size, const MaxPoolOptions& o, const Tensor& out, Visit&& visit) {
  const Doubles all = values(x.to(f64));
  for (int64_t c = 0; c < x.size(0); ++c) {
    for (int64_t i = 0; i < out.size(1); ++i) {
      for (int64_t j = 0; j < out.size(2); ++j) {
        std::vector<std::pair<int64_t, double>> elements;
        for (int64_t u = 0; u < size[0]; ++u) {
          for (int64_t v = 0; v < size[1]; ++v) {
            const int64_t row = i * o.stride[0] - o.padding[0] + u * o.dilation[0];
            const int64_t column = j * o.stride[1] - o.padding[1] + v * o.dilation[1];
            if (row < 0 || column < 0 || row >= x.size(1) || column >= x.size(2)) continue;
            const int64_t place = row * x.size(2) + column;
            elements.emplace_back(place, all[static_cast<size_t>(c * x.size(1) * x.size(2) + place)]);
          }
        }
        visit(elements);
      }
    }
  }
}

TEST(MaxPool, ValuesAndPlacesAreThoseOfALoop) {
  const Tensor plain = spread({2, 9, 21}, 3), equal = (plain * 2).round() / 2;
  const MaxPoolOptions options[] = {{Dims{2, 2}, Dims{0, 0}, Dims{1, 1}},
                                    {Dims{1, 1}, Dims{1, 1}, Dims{1, 1}},
                                    {Dims{2, 2}, Dims{1, 1}, Dims{1, 2}, true},
                                    {Dims{3, 3}, Dims{1, 0}, Dims{2, 1}},
                                    {Dims{1, 5}, Dims{0, 1}, Dims{1, 3}, true}};
  for (const DType dtype : {f32, f64, f16, i32}) {
    for (const Tensor& given : {plain, equal, equal.flip({2})}) {
      const Tensor x = (given * 4).to(dtype);
      for (const Dims& size : {Dims{2, 2}, Dims{3, 3}, Dims{2, 5}}) {
        for (const MaxPoolOptions& o : options) {
          const auto [found, places] = max_pool2d_with_indices(x, size, o);
          Doubles best, where;
          each_window(x, size, o, found, [&](const auto& elements) {
            auto largest = elements.front();
            for (const auto& e : elements) {
              if (e.second > largest.second) largest = e;
            }
            where.push_back(static_cast<double>(largest.first));
            best.push_back(largest.second);
          });
          expect_values(found.to(f64), best);
          expect_values(places.to(f64), where);
          expect_values(max_pool2d(x, size, o).to(f64), best);
        }
      }
    }
  }
}

TEST(MaxPool, TheFirstNaNWins) {
  for (const DType dtype : {f32, f64, bf16}) {
    const Tensor x = tensor({{{1., nan, 2.}, {nan, infinity, -infinity}}}).to(dtype);
    const auto [found, places] = max_pool2d_with_indices(x, 2, {.stride = 1});
    EXPECT_TRUE(std::isnan(found.to(f64).to_vector<double>()[0]));
    expect_values(places.to(f64), {1, 1});
    const auto low = max_pool2d_with_indices(full({1, 3, 3}, -infinity, dtype), 2, {.stride = 2, .padding = 1});
    expect_values(low.indices.to(f64), {0, 1, 3, 4});
  }
}

TEST(MaxPool, WindowsOfAnySizeNeedNoMemory) {
  const Tensor x = spread({1, 3, 5}, 1);
  constexpr int64_t huge = int64_t{1} << 62;
  EXPECT_EQ(max_pool2d(x, 2, {.stride = huge}).shape(), (Dims{1, 1, 1}));
  EXPECT_EQ(max_pool2d(x, huge, {.stride = 1, .padding = huge / 2}).shape(), (Dims{1, 4, 6}));
  EXPECT_EQ(avg_pool2d(x, huge, {.stride = 1, .padding = huge / 2}).shape(), (Dims{1, 4, 6}));
  EXPECT_THROW(max_pool2d(x, huge), ShapeError);
  EXPECT_THROW(max_pool2d(x, 2, {.dilation = huge}), ShapeError);
  EXPECT_THROW(max_pool2d(x, std::numeric_limits<int64_t>::max(), {.padding = huge}), Error);
  EXPECT_THROW(adaptive_avg_pool2d(x, huge), Error);
}

TEST(MaxPool, ErrorsNameTheInvalidArgument) {
  const Tensor x = spread({1, 3, 5}, 1);
  EXPECT_NE(message_of<ShapeError>([&] { max_pool1d(spread({4}, 1), 2); }).find("max_pool1d"), std::string::npos);
  EXPECT_NE(message_of<ShapeError>([&] { max_pool2d(x, 4); }).find("does not fit 3 elements"), std::string::npos);
  EXPECT_NE(message_of<ValueError>([&] {
              max_pool2d(x, {1, 2, 3});
            }).find("expected 1 or 2 numbers, got [1, 2, 3]"),
            std::string::npos);
  EXPECT_NE(message_of<ValueError>([&] { max_pool2d(x, 2, {.padding = 2}); }).find("half"), std::string::npos);
  EXPECT_NE(message_of<ValueError>([&] { max_pool2d(x, 0); }).find("expected at least 1, got 0"), std::string::npos);
  EXPECT_NE(message_of<ValueError>([&] { max_pool2d(x, 2, {.padding = 1, .dilation = 4}); }).find("without an element"),
            std::string::npos);
  EXPECT_THROW(max_pool2d(x.to(DType::boolean), 2), DTypeError);
  EXPECT_THROW(avg_pool2d(x.to(DType::boolean), 2), DTypeError);
  EXPECT_THROW(avg_pool2d(x, 2, {.divisor_override = 0}), ValueError);
  EXPECT_THROW(lp_pool2d(x, 0, 2), ValueError);
  EXPECT_THROW(max_pool2d(zeros({2, 0, 3}), 1), ShapeError);
  EXPECT_EQ(max_pool2d(zeros({0, 2, 4, 4}), 2).shape(), (Dims{0, 2, 2, 2}));
}

TEST(MaxPool, PlacesPutElementsBack) {
  const Tensor x = spread({2, 4, 6}, 5);
  const auto [found, places] = max_pool2d_with_indices(x, 2);
  const Tensor back = max_unpool2d(found, places, 2);
  EXPECT_EQ(back.shape(), x.shape());
  expect_values(max_pool2d(back, 2, {}) - maximum(found, 0), Doubles(static_cast<size_t>(found.numel()), 0));
  EXPECT_THROW(max_unpool2d(found, places + 100, 2), IndexError);
  EXPECT_THROW(max_unpool2d(found, places.narrow(2, 0, 1), 2), ShapeError);
  EXPECT_THROW(max_unpool2d(found, places, 2, {.output_size = {9, 9}}), ValueError);
}

TEST(AvgPool, ValuesAreThoseOfALoop) {
  const MaxPoolOptions options[] = {{Dims{2, 2}, Dims{0, 0}, Dims{1, 1}},
                                    {Dims{1, 1}, Dims{1, 1}, Dims{1, 1}},
                                    {Dims{2, 2}, Dims{1, 1}, Dims{1, 1}, true},
                                    {Dims{3, 4}, Dims{1, 0}, Dims{1, 1}, true}};
  for (const DType dtype : {f32, f64}) {
    const Tensor x = spread({2, 9, 21}, 3).to(dtype);
    for (const Dims& size : {Dims{2, 2}, Dims{3, 3}, Dims{2, 5}}) {
      for (const MaxPoolOptions& o : options) {
        const AveragePoolOptions given = {o.stride, o.padding, o.ceil_mode, false};
        const Tensor found = avg_pool2d(x, size, given);
        Doubles means;
        each_window(x, size, o, found, [&](const auto& elements) {
          double sum = 0;
          for (const auto& e : elements) sum += e.second;
          means.push_back(sum / static_cast<double>(elements.size()));
        });
        EXPECT_LT(max(abs(found.to(f64) - doubles(means, found.shape()))).item<double>(), dtype == f32 ? 1e-6 : 1e-14);
      }
    }
  }
}

Tensor gradient(const Tensor& y, const Tensor& x, const Tensor& seed) {
  const Tensor outputs[] = {y}, inputs[] = {x}, seeds[] = {seed};
  return grad(outputs, inputs, seeds, {.create_graph = true})[0];
}

TEST(AvgPool, TheGradientIsSpreadAndDifferentiable) {
  const Tensor x = spread({1, 5, 19}, 2).to(f64).requires_grad_();
  const AveragePoolOptions o = {.stride = 2, .padding = 1};
  const Tensor y = avg_pool2d(x, 3, o);
  const Tensor seed = spread(y.shape(), 4).to(f64).requires_grad_();
  const Tensor g = gradient(y, x, seed);
  // The gradient is linear in the seed: its derivative along u is the average of u.
  const Tensor u = spread(x.shape(), 6).to(f64);
  const Tensor back = gradient(g, seed, u);
  EXPECT_LT(max(abs(back - avg_pool2d(u, 3, o))).item<double>(), 1e-14);
  EXPECT_NEAR(sum(g * u).item<double>(), sum(seed * avg_pool2d(u, 3, o)).item<double>(), 1e-12);
}

TEST(Pool, ResultsDoNotDependOnThreads) {
  const Tensor x = rand({4, 8, 37, 41});
  const int before = num_threads();
  std::vector<Tensor> all;
  for (const int threads : {1, 2, 3}) {
    set_num_threads(threads);
    all.push_back(cat({max_pool2d(x, 3, {.stride = 2, .padding = 1}).flatten(), avg_pool2d(x, 2).flatten()}));
  }
  set_num_threads(before);
  EXPECT_TRUE(equal(all[0], all[1]));
  EXPECT_TRUE(equal(all[0], all[2]));
}

TEST(AdaptivePool, WindowsCoverEvenly) {
  const Tensor x = arange(7, f64).reshape({1, 7});
  expect_values(adaptive_avg_pool1d(x, 3), {1, 3, 5});
  expect_values(adaptive_max_pool1d(x, 3), {2, 4, 6});
  expect_values(adaptive_avg_pool1d(x, 1), {3});
  expect_values(adaptive_max_pool1d_with_indices(x, 1).indices.to(f64), {6});
  EXPECT_EQ(adaptive_avg_pool1d(x, 0).shape(), (Dims{1, 0}));
  EXPECT_EQ(adaptive_avg_pool1d(x, 100).shape(), (Dims{1, 100}));
}

TEST(FractionalPool, WindowsComeFromTheGenerator) {
  const Tensor x = rand({2, 3, 9, 11});
  Generator a(7), b(7);
  const auto first = fractional_max_pool2d(x, 2, {.output_size = {4, 5}, .generator = &a});
  const auto second = fractional_max_pool2d(x, 2, {.output_ratio = {0.5, 0.46}, .generator = &b});
  EXPECT_TRUE(equal(first.values, second.values));
  EXPECT_TRUE(equal(first.indices, second.indices));
  EXPECT_THROW(fractional_max_pool2d(x, 2, {}), ValueError);
  EXPECT_THROW(fractional_max_pool2d(x, 2, {.output_ratio = {nan}}), ValueError);
  EXPECT_THROW(fractional_max_pool2d(x, 2, {.output_size = 9}), ShapeError);
  EXPECT_THROW(fractional_max_pool2d(x, 2, {.output_size = 3, .random_samples = rand({1, 3, 2})}), ShapeError);
}

}  // namespace
}  // namespace weft::testing
