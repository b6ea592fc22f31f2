#include <cmath>

#include "kernel_checks.hpp"

#include <weft/tensor/error.hpp>

namespace weft {
namespace {

using namespace test;

HostArray indices(DType dtype, const ArrayShape& shape, int64_t size, unsigned seed) {
  HostArray index(dtype, shape);
  std::mt19937 random(seed);
  for (int64_t i = 0; i < index.numel(); ++i) {
    index.set(i, static_cast<double>(random() % static_cast<unsigned>(size)));
  }
  return index;
}

std::vector<int64_t> with_size(std::vector<int64_t> sizes, int dim, int64_t size) {
  sizes[static_cast<size_t>(dim)] = size;
  return sizes;
}

/// The row-major position after coordinate `dim` of `position` became `value` and that dimension got another size.
int64_t moved(int64_t position, const std::vector<int64_t>& from, int dim, int64_t value, int64_t size) {
  int64_t inner = 1;
  for (size_t d = static_cast<size_t>(dim) + 1; d < from.size(); ++d) inner *= from[d];
  const int64_t outer = position / inner / from[static_cast<size_t>(dim)];
  return (outer * size + value) * inner + position % inner;
}
int64_t coordinate(int64_t position, const std::vector<int64_t>& sizes, int dim) {
  for (int d = static_cast<int>(sizes.size()) - 1; d > dim; --d) position /= sizes[static_cast<size_t>(d)];
  return position % sizes[static_cast<size_t>(dim)];
}

TEST(IndexSelect, EveryTypeDimensionAndLayout) {
  const std::vector<int64_t> sizes = {4, 6, 9};
  for (const DType dtype : real_types) {
    for (const ArrayShape& shape : layouts_of(sizes)) {
      const HostArray x(dtype, shape, 3);
      for (int dim = 0; dim < 3; ++dim) {
        for (const DType index_type : {i32, i64}) {
          const int64_t size = sizes[static_cast<size_t>(dim)];
          const HostArray index = indices(index_type, {.sizes = {11}, .gap = dim + 1}, size, 4);
          const auto out_sizes = with_size(sizes, dim, 11);
          HostArray out(dtype, index_type == i32 ? ArrayShape{.sizes = out_sizes}
                                                 : ArrayShape{.sizes = out_sizes, .order = {2, 0, 1}});
          cpu::index_select(out.view, x.view, dim, index.view);
          for (int64_t i = 0; i < out.numel(); ++i) {
            int64_t row = static_cast<int64_t>(index.get(coordinate(i, out_sizes, dim)));
            ASSERT_EQ(out.get(i), x.get(moved(i, out_sizes, dim, row, size)));
          }
        }
      }
    }
  }
}

TEST(IndexSelect, StorageTypesAndEmpty) {
  HostArray x(u16, {.sizes = {3, 4}}, 1), out(u16, {.sizes = {2, 4}});
  const HostArray index = filled(i64, {.sizes = {2}}, {2, 0});
  cpu::index_select(out.view, x.view, 0, index.view);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(out.get(i), x.get(8 + i));
  HostArray nothing(f32, {.sizes = {0, 4}}), wide(f32, {.sizes = {3, 4}}), none(f32, {.sizes = {3, 0}}),
      none_out(f32, {.sizes = {2, 0}});
  const HostArray empty(i64, {.sizes = {0}});
  cpu::index_select(nothing.view, wide.view, 0, empty.view);
  cpu::index_select(none_out.view, none.view, 0, index.view);
  EXPECT_THROW(cpu::index_select(none_out.view, none.view, 0, filled(i64, {.sizes = {2}}, {3, 0}).view), IndexError);
  EXPECT_THROW(cpu::index_select(out.view, x.view, 0, filled(f32, {.sizes = {2}}, {0, 0}).view), DTypeError);
}

TEST(Index, OutOfRangeRaisesBeforeAnyWrite) {
  const HostArray x(f32, {.sizes = {3, 4}}, 1);
  for (const double bad : {3.0, -1.0, -4.0}) {
    HostArray out(f32, {.sizes = {3, 4}});
    const HostArray index = filled(i64, {.sizes = {3}}, {0, 1, bad});
    EXPECT_THROW(cpu::index_select(out.view, x.view, 0, index.view), IndexError);
    EXPECT_THROW(cpu::index_add(out.view, 0, index.view, x.view), IndexError);
    HostArray square(i64, {.sizes = {3, 4}});
    square.set(11, bad);
    EXPECT_THROW(cpu::scatter(Scatter::sum, out.view, 0, square.view, x.view), IndexError);
    EXPECT_EQ(out.values(), std::vector<double>(12, 0));
    EXPECT_THROW(cpu::gather(out.view, x.view, 0, square.view), IndexError);
  }
}

TEST(Gather, LongLinesByMoreAndFewerIndices) {
  for (const DType dtype : {i8, bf16, f32, f64}) {
    const HostArray x(dtype, {.sizes = {5, 1000}}, 3);
    for (const int64_t count : {1, 40, 256, 700, 3000}) {
      const HostArray index = indices(i64, {.sizes = {5, count}}, 1000, 4), out(dtype, {.sizes = {5, count}});
      cpu::gather(out.view, x.view, 1, index.view);
      for (int64_t i = 0; i < out.numel(); ++i) {
        const int64_t column = static_cast<int64_t>(index.get(i));
        ASSERT_EQ(out.get(i), x.get(i / count * 1000 + column));
      }
    }
  }
}

TEST(Gather, EveryTypeDimensionAndLayout) {
  const std::vector<int64_t> sizes = {4, 6, 9};
  for (const DType dtype : real_types) {
    for (const ArrayShape& shape : layouts_of(sizes)) {
      const HostArray x(dtype, shape, 3);
      for (int dim = 0; dim < 3; ++dim) {
        const int64_t size = sizes[static_cast<size_t>(dim)];
        const auto out_sizes = with_size(sizes, dim, 7);
        for (const DType index_type : {i32, i64}) {
          const HostArray index = indices(index_type, {.sizes = out_sizes, .order = {1, 2, 0}}, size, 4);
          HostArray out(dtype, {.sizes = out_sizes});
          cpu::gather(out.view, x.view, dim, index.view);
          for (int64_t i = 0; i < out.numel(); ++i) {
            const int64_t row = static_cast<int64_t>(index.get(i));
            ASSERT_EQ(out.get(i), x.get(moved(i, out_sizes, dim, row, size)));
          }
        }
      }
    }
  }
}

double stored(DType dtype, double value) {
  HostArray one(dtype, {.sizes = {1}});
  if (dtype == boolean) value = value != 0;
  one.set(0, value);
  return one.get(0);
}

TEST(ScatterAdd, EveryTypeDimensionAndLayout) {
  const std::vector<int64_t> sizes = {4, 6, 70};
  for (const DType dtype : real_types) {
    for (const ArrayShape& shape : layouts_of(sizes)) {
      for (int dim = 0; dim < 3; ++dim) {
        const int64_t size = sizes[static_cast<size_t>(dim)];
        const auto source_sizes = with_size(sizes, dim, 23);
        HostArray out(dtype, shape, 1);
        const HostArray source(dtype, {.sizes = source_sizes, .order = {2, 1, 0}}, 2),
            index = indices(i64, {.sizes = source_sizes}, size, 3);
        std::vector<double> expected = out.values();
        for (int64_t i = 0; i < source.numel(); ++i) {
          const int64_t row = static_cast<int64_t>(index.get(i));
          expected[static_cast<size_t>(moved(i, source_sizes, dim, row, size))] += source.get(i);
        }
        cpu::scatter(Scatter::sum, out.view, dim, index.view, source.view);
        for (int64_t i = 0; i < out.numel(); ++i) {
          const double e = stored(dtype, expected[static_cast<size_t>(i)]);
          ASSERT_NEAR(out.get(i), e, 2 * epsilon(dtype) * std::abs(e) + (is_floating(dtype) ? 1e-5 : 0)) << name(dtype);
        }
      }
    }
  }
}

TEST(IndexAdd, EveryTypeDimensionAndLayout) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{4, 6, 9}, {5, 2000}, {3000, 3}}) {
    for (const DType dtype : real_types) {
      for (const ArrayShape& shape : layouts_of(sizes)) {
        for (int dim = 0; dim < static_cast<int>(sizes.size()); ++dim) {
          const int64_t size = sizes[static_cast<size_t>(dim)];
          const auto source_sizes = with_size(sizes, dim, 13);
          HostArray out(dtype, shape, 1);
          const HostArray source(dtype, {.sizes = source_sizes}, 2), index = indices(i32, {.sizes = {13}}, size, 3);
          std::vector<double> expected = out.values();
          for (int64_t i = 0; i < source.numel(); ++i) {
            const int64_t row = static_cast<int64_t>(index.get(coordinate(i, source_sizes, dim)));
            expected[static_cast<size_t>(moved(i, source_sizes, dim, row, size))] += source.get(i);
          }
          cpu::index_add(out.view, dim, index.view, source.view);
          for (int64_t i = 0; i < out.numel(); ++i) {
            const double e = stored(dtype, expected[static_cast<size_t>(i)]);
            ASSERT_NEAR(out.get(i), e, 2 * epsilon(dtype) * std::abs(e) + (is_floating(dtype) ? 1e-5 : 0))
                << name(dtype);
          }
        }
      }
    }
  }
}

TEST(IndexAdd, HalfTypesAccumulateInSinglePrecision) {
  for (const DType dtype : {bf16, f16}) {
    for (const int64_t slab : {1, 16}) {
      const int64_t count = dtype == bf16 ? 512 : 4096;
      HostArray out(dtype, {.sizes = {3, slab}});
      const HostArray source =
          filled(dtype, {.sizes = {count, slab}}, std::vector<double>(static_cast<size_t>(count * slab), 1));
      const HostArray index = filled(i64, {.sizes = {count}}, std::vector<double>(static_cast<size_t>(count), 1));
      cpu::index_add(out.view, 0, index.view, source.view);
      EXPECT_EQ(out.get(slab), static_cast<double>(count));
      EXPECT_EQ(out.get(0), 0);
    }
  }
}

TEST(IndexAdd, ZeroDimensionalAndEmpty) {
  HostArray out = filled(f32, {.sizes = {4}}, {0, 0, 0, 0});
  cpu::index_add(out.view, 0, filled(i64, {.sizes = {3}}, {1, 1, 3}).view, filled(f32, {.sizes = {3}}, {1, 2, 4}).view);
  EXPECT_EQ(out.values(), (std::vector<double>{0, 3, 0, 4}));
  HostArray scalar = filled(f32, {.sizes = {}}, {2});
  cpu::scatter(Scatter::sum, scalar.view, 0, filled(i64, {.sizes = {}}, {0}).view,
               filled(f32, {.sizes = {}}, {3}).view);
  EXPECT_EQ(scalar.get(0), 5);
  const HostArray none(f32, {.sizes = {0, 4}}), no_index(i64, {.sizes = {0}});
  HostArray wide(f32, {.sizes = {3, 4}}, 1);
  cpu::index_add(wide.view, 0, no_index.view, none.view);
}

TEST(Index, SameBits) {
  const HostArray source(f32, {.sizes = {4000, 33}}, 1), half(bf16, {.sizes = {4000, 33}}, 2);
  const HostArray rows = indices(i64, {.sizes = {4000}}, 50, 3), each = indices(i64, {.sizes = {4000, 33}}, 50, 4);
  expect_same_bits([&] {
    std::string bits;
    for (const HostArray* s : {&source, &half}) {
      HostArray out(s->view.layout.dtype, {.sizes = {50, 33}});
      cpu::index_add(out.view, 0, rows.view, s->view);
      cpu::scatter(Scatter::sum, out.view, 0, each.view, s->view);
      bits += bits_of(out);
    }
    return bits;
  });
}

}  // namespace
}  // namespace weft
