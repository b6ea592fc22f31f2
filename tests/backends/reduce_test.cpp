#include <algorithm>
#include <cmath>

#include "kernel_checks.hpp"

namespace weft {
namespace {

using namespace test;

std::vector<int64_t> reduced_sizes(const std::vector<int64_t>& sizes, unsigned dims) {
  std::vector<int64_t> result = sizes;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (dims >> d & 1) result[d] = 1;
  }
  return result;
}

/// The position in the output of the element at `position`.
int64_t output_position(int64_t position, const std::vector<int64_t>& sizes, unsigned dims) {
  int64_t result = 0, scale = 1;
  for (int d = static_cast<int>(sizes.size()) - 1; d >= 0; --d) {
    const int64_t i = position % sizes[static_cast<size_t>(d)];
    position /= sizes[static_cast<size_t>(d)];
    if (dims >> d & 1) continue;
    result += i * scale;
    scale *= sizes[static_cast<size_t>(d)];
  }
  return result;
}

/// The elements that go into each output.
std::vector<std::vector<double>> groups(const HostArray& in, const std::vector<int64_t>& sizes, unsigned dims) {
  int64_t count = 1;
  for (int64_t size : reduced_sizes(sizes, dims)) count *= size;
  std::vector<std::vector<double>> result(static_cast<size_t>(count));
  for (int64_t i = 0; i < in.numel(); ++i) {
    result[static_cast<size_t>(output_position(i, sizes, dims))].push_back(in.get(i));
  }
  return result;
}

double reduce_reference(Reduction reduction, const std::vector<double>& x) {
  const double size = static_cast<double>(x.size());
  double result = reduction == Reduction::prod || reduction == Reduction::all ? 1 : 0;
  if (reduction == Reduction::max) result = -infinity;
  if (reduction == Reduction::min) result = infinity;
  for (double v : x) {
    switch (reduction) {
      case Reduction::sum:
      case Reduction::mean:
        result += v;
        break;
      case Reduction::prod:
        result *= v;
        break;
      case Reduction::max:
        result = std::isnan(v) || v > result ? v : result;
        break;
      case Reduction::min:
        result = std::isnan(v) || v < result ? v : result;
        break;
      case Reduction::any:
        result = v != 0 ? 1 : result;
        break;
      case Reduction::all:
        result = v == 0 ? 0 : result;
        break;
    }
  }
  return reduction == Reduction::mean ? result / size : result;
}

DType output_type(Reduction reduction, DType in) {
  if (reduction == Reduction::any || reduction == Reduction::all) return boolean;
  if (reduction == Reduction::max || reduction == Reduction::min) return in;
  return is_floating(in) ? in : i64;
}

void check_reduction(Reduction reduction, DType dtype, const ArrayShape& shape, unsigned dims, DType out_type) {
  const HostArray in(dtype, shape, 7);
  HostArray out(out_type, {.sizes = reduced_sizes(shape.sizes, dims)});
  cpu::reduce(reduction, out.view, in.view);
  const auto terms = groups(in, shape.sizes, dims);
  const std::string what = std::string(name(dtype)) + " reduction " + std::to_string(static_cast<int>(reduction)) +
                           " dims " + std::to_string(dims);
  for (int64_t i = 0; i < out.numel(); ++i) {
    const auto& x = terms[static_cast<size_t>(i)];
    const double expected = reduce_reference(reduction, x);
    double magnitude = 1;
    for (double v : x) magnitude += std::abs(v);
    const double working = std::max(epsilon(out_type), epsilon(dtype) == 0 ? 0 : 0x1p-53);
    const double allowed = magnitude * (2 * working + (dtype == f64         ? 64 * 0x1p-53
                                                       : is_floating(dtype) ? 20 * 0x1p-24
                                                                            : 0));
    expect_close(out.get(i), expected, allowed, what);
  }
}

TEST(Reduce, EveryTypeDimensionAndLayout) {
  const std::vector<int64_t> sizes = {3, 5, 37};
  for (const DType dtype : real_types) {
    for (const ArrayShape& shape : layouts_of(sizes)) {
      for (unsigned dims = 0; dims < 8; ++dims) {
        for (int r = 0; r < 7; ++r) {
          const auto reduction = static_cast<Reduction>(r);
          if (reduction == Reduction::mean && !is_floating(dtype)) continue;
          if (reduction == Reduction::prod && dims != 1) continue;
          check_reduction(reduction, dtype, shape, dims, output_type(reduction, dtype));
        }
      }
    }
  }
}

TEST(Reduce, LongLinesColumnsAndNarrowMatrices) {
  for (const DType dtype : {u8, bf16, f32}) {
    for (const auto& [sizes, dims] : std::vector<std::pair<std::vector<int64_t>, unsigned>>{{{70001}, 1u},
                                                                                            {{2, 66001}, 2u},
                                                                                            {{1501, 65}, 1u},
                                                                                            {{9000, 7}, 1u},
                                                                                            {{9000, 7}, 2u},
                                                                                            {{5, 900}, 1u},
                                                                                            {{17000, 4}, 3u},
                                                                                            {{6, 100, 33}, 5u},
                                                                                            {{20, 3, 1200}, 5u},
                                                                                            {{9000, 3}, 2u},
                                                                                            {{1, 9}, 1u}}) {
      for (const ArrayShape& shape : layouts_of(sizes)) {
        check_reduction(Reduction::sum, dtype, shape, dims, output_type(Reduction::sum, dtype));
        check_reduction(Reduction::max, dtype, shape, dims, dtype);
        check_reduction(Reduction::any, dtype, shape, dims, boolean);
      }
    }
  }
}

TEST(Reduce, WiderAndNarrowerOutputs) {
  check_reduction(Reduction::sum, bf16, {.sizes = {9, 300}}, 2, f32);
  check_reduction(Reduction::sum, f16, {.sizes = {300, 9}}, 1, f32);
  check_reduction(Reduction::mean, f32, {.sizes = {300, 9}}, 1, f64);
  check_reduction(Reduction::mean, i32, {.sizes = {30, 9}}, 1, f32);
  check_reduction(Reduction::sum, i32, {.sizes = {30, 9}}, 1, i32);
}

TEST(Reduce, NothingGivesTheIdentity) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{0}, {0, 3}, {3, 0, 2}}) {
    const HostArray in(f32, {.sizes = sizes});
    const auto whole = reduced_sizes(sizes, 7);
    const std::pair<Reduction, double> expected[] = {
        {Reduction::sum, 0},        {Reduction::mean, nan}, {Reduction::prod, 1}, {Reduction::max, -infinity},
        {Reduction::min, infinity}, {Reduction::any, 0},    {Reduction::all, 1}};
    for (const auto& [reduction, value] : expected) {
      HostArray out(output_type(reduction, f32), {.sizes = whole});
      cpu::reduce(reduction, out.view, in.view);
      expect_close(out.get(0), value, 0, "over nothing");
    }
  }
  const HostArray in(f32, {.sizes = {4, 0}});
  HostArray out(f32, {.sizes = {1, 0}});
  cpu::reduce(Reduction::sum, out.view, in.view);
}

TEST(Reduce, ZeroDimensional) {
  for (const DType dtype : real_types) {
    const HostArray in = filled(dtype, {.sizes = {}}, {1});
    HostArray out(dtype, {.sizes = {}});
    cpu::reduce(Reduction::max, out.view, in.view);
    EXPECT_EQ(out.get(0), 1);
  }
}

TEST(Reduce, NaNWinsAndInfinitiesPropagate) {
  for (const int64_t where : {0, 15, 16, 40, 99}) {
    for (const DType dtype : float_types) {
      for (const int dim : {0, 1}) {
        HostArray in(dtype, {.sizes = dim == 0 ? std::vector<int64_t>{100, 5} : std::vector<int64_t>{5, 100}}, 3);
        const int64_t position = dim == 0 ? where * 5 + 2 : 200 + where;
        in.set(position, nan);
        HostArray out(dtype, {.sizes = dim == 0 ? std::vector<int64_t>{1, 5} : std::vector<int64_t>{5, 1}});
        for (const Reduction reduction : {Reduction::max, Reduction::min, Reduction::sum}) {
          cpu::reduce(reduction, out.view, in.view);
          for (int i = 0; i < 5; ++i) EXPECT_EQ(std::isnan(out.get(i)), i == 2);
        }
        HostArray truth(boolean, {.sizes = dim == 0 ? std::vector<int64_t>{1, 5} : std::vector<int64_t>{5, 1}});
        cpu::reduce(Reduction::all, truth.view, in.view);
        EXPECT_EQ(truth.get(2), 1);
      }
    }
  }
}

TEST(Reduce, LongFloatSumsStayExact) {
  HostArray in(f32, {.sizes = {1 << 20}});
  for (int64_t i = 0; i < in.numel(); ++i) static_cast<float*>(in.view.data)[i] = 0.1f;
  HostArray out(f32, {.sizes = {1}});
  cpu::reduce(Reduction::sum, out.view, in.view);
  EXPECT_NEAR(out.get(0), 0.1f * double(1 << 20), 0.5);
  HostArray tall(f32, {.sizes = {1 << 17, 8}});
  for (int64_t i = 0; i < tall.numel(); ++i) static_cast<float*>(tall.view.data)[i] = 0.1f;
  HostArray columns(f32, {.sizes = {1, 8}});
  cpu::reduce(Reduction::sum, columns.view, tall.view);
  for (int c = 0; c < 8; ++c) EXPECT_NEAR(columns.get(c), 0.1f * double(1 << 17), 0.1);
}

TEST(Reduce, IntegersAreExactAndWrap) {
  HostArray in(i64, {.sizes = {3}});
  static_cast<int64_t*>(in.view.data)[0] = 9007199254740993;
  static_cast<int64_t*>(in.view.data)[1] = std::numeric_limits<int64_t>::max();
  static_cast<int64_t*>(in.view.data)[2] = 1;
  HostArray out(i64, {.sizes = {1}});
  cpu::reduce(Reduction::sum, out.view, in.view);
  EXPECT_EQ(*static_cast<int64_t*>(out.view.data), std::numeric_limits<int64_t>::min() + 9007199254740993);
  cpu::reduce(Reduction::min, out.view, in.view);
  EXPECT_EQ(*static_cast<int64_t*>(out.view.data), 1);
}

TEST(Reduce, StridedOutput) {
  const HostArray in(f32, {.sizes = {4, 6, 5}}, 9);
  HostArray dense(f32, {.sizes = {4, 1, 5}}), strided(f32, {.sizes = {4, 1, 5}, .order = {2, 1, 0}, .gap = 3});
  cpu::reduce(Reduction::sum, dense.view, in.view);
  cpu::reduce(Reduction::sum, strided.view, in.view);
  EXPECT_EQ(dense.values(), strided.values());
}

TEST(Reduce, SameBits) {
  const HostArray flat(f32, {.sizes = {300007}}, 1), matrix(f32, {.sizes = {3000, 130}}, 2),
      half(bf16, {.sizes = {700, 97}}, 3);
  expect_same_bits([&] {
    std::string bits;
    for (const auto& [in, sizes] : std::vector<std::pair<const HostArray*, std::vector<int64_t>>>{{&flat, {1}},
                                                                                                  {&matrix, {1, 130}},
                                                                                                  {&matrix, {3000, 1}},
                                                                                                  {&matrix, {1, 1}},
                                                                                                  {&half, {1, 97}},
                                                                                                  {&half, {700, 1}}}) {
      HostArray out(in->view.layout.dtype, {.sizes = sizes});
      for (const Reduction reduction : {Reduction::sum, Reduction::mean, Reduction::max}) {
        cpu::reduce(reduction, out.view, in->view);
        bits += bits_of(out);
      }
      cpu::variance(out.view, in->view, 1);
      bits += bits_of(out);
    }
    return bits;
  });
}

TEST(Variance, EveryTypeDimensionAndLayout) {
  const std::vector<std::vector<int64_t>> shapes = {{3, 5, 37}, {4, 9000}, {300, 40}};
  for (const auto& sizes : shapes) {
    for (const DType dtype : float_types) {
      for (const ArrayShape& shape : layouts_of(sizes)) {
        for (unsigned dims = 1; dims < (1u << sizes.size()); ++dims) {
          const HostArray in(dtype, shape, 5);
          HostArray out(dtype, {.sizes = reduced_sizes(sizes, dims)});
          cpu::variance(out.view, in.view, 1);
          const auto terms = groups(in, sizes, dims);
          for (int64_t i = 0; i < out.numel(); ++i) {
            const auto& x = terms[static_cast<size_t>(i)];
            double mean = 0, squares = 0;
            for (double v : x) mean += v / static_cast<double>(x.size());
            for (double v : x) squares += (v - mean) * (v - mean);
            const double expected = squares / (static_cast<double>(x.size()) - 1);
            expect_close(out.get(i), expected, expected * (2 * epsilon(dtype) + (dtype == f64 ? 1e-14 : 2e-6)),
                         "variance");
          }
        }
      }
    }
  }
}

TEST(Variance, FewElementsAndFarMeans) {
  HostArray out(f32, {.sizes = {1}});
  cpu::variance(out.view, filled(f32, {.sizes = {1}}, {3}).view, 1);
  EXPECT_TRUE(std::isnan(out.get(0)));
  cpu::variance(out.view, filled(f32, {.sizes = {1}}, {3}).view, 0);
  EXPECT_EQ(out.get(0), 0);
  cpu::variance(out.view, filled(f32, {.sizes = {2}}, {3, 5}).view, 2);
  EXPECT_EQ(out.get(0), infinity);
  cpu::variance(out.view, HostArray(f32, {.sizes = {0}}).view, 1);
  EXPECT_TRUE(std::isnan(out.get(0)));
  HostArray far(f32, {.sizes = {10000}});
  for (int64_t i = 0; i < far.numel(); ++i) far.set(i, 1e6 + static_cast<double>(i % 2));
  cpu::variance(out.view, far.view, 0);
  EXPECT_NEAR(out.get(0), 0.25, 1e-6);
}

TEST(ArgReduce, EveryTypeDimensionAndLayout) {
  for (const auto& sizes : {std::vector<int64_t>{3, 5, 37}, {2, 9000}, {9000, 5}, {17}}) {
    for (const DType dtype : real_types) {
      for (const ArrayShape& shape : layouts_of(sizes)) {
        const HostArray in(dtype, shape, 11);
        for (size_t dim = 0; dim < sizes.size(); ++dim) {
          const unsigned dims = 1u << dim;
          const auto terms = groups(in, sizes, dims);
          HostArray out(i64, {.sizes = reduced_sizes(sizes, dims)});
          for (const bool largest : {true, false}) {
            cpu::arg_reduce(largest ? ArgReduction::max : ArgReduction::min, out.view, in.view, static_cast<int>(dim));
            for (int64_t i = 0; i < out.numel(); ++i) {
              const auto& x = terms[static_cast<size_t>(i)];
              const auto best = largest ? std::max_element(x.begin(), x.end()) : std::min_element(x.begin(), x.end());
              ASSERT_EQ(out.get(i), best - x.begin()) << name(dtype) << " dim " << dim;
            }
          }
        }
      }
    }
  }
}

TEST(ArgReduce, FirstExtremeAndNaN) {
  HostArray out(i64, {.sizes = {1}});
  cpu::arg_reduce(ArgReduction::max, out.view, filled(f32, {.sizes = {6}}, {1, 7, 2, 7, nan, nan}).view, 0);
  EXPECT_EQ(out.get(0), 4);
  cpu::arg_reduce(ArgReduction::min, out.view, filled(f32, {.sizes = {6}}, {1, -7, 2, -7, 5, 5}).view, 0);
  EXPECT_EQ(out.get(0), 1);
  cpu::arg_reduce(ArgReduction::max, out.view, filled(f32, {.sizes = {3}}, {-infinity, -infinity, -infinity}).view, 0);
  EXPECT_EQ(out.get(0), 0);
  HostArray long_line(f32, {.sizes = {20000}});
  long_line.set(9000, nan);
  long_line.set(17000, nan);
  cpu::arg_reduce(ArgReduction::max, out.view, long_line.view, 0);
  EXPECT_EQ(out.get(0), 9000);
  HostArray columns(f32, {.sizes = {9, 8}}), indices(i64, {.sizes = {1, 8}});
  columns.set(3 * 8 + 5, nan);
  columns.set(7 * 8 + 5, nan);
  cpu::arg_reduce(ArgReduction::min, indices.view, columns.view, 0);
  EXPECT_EQ(indices.get(5), 3);
  EXPECT_EQ(indices.get(4), 0);
}

}  // namespace
}  // namespace weft
