// Kernels of masks against plain loops over positions.
#include "kernel_checks.hpp"

namespace weft {
namespace {

using namespace test;

/// True where a generator says so, with `percent` of it.
HostArray mask_of(const ArrayShape& shape, unsigned percent, unsigned seed) {
  HostArray mask(boolean, shape);
  std::mt19937 random(seed);
  for (int64_t i = 0; i < mask.numel(); ++i) mask.set(i, random() % 100 < percent ? 1 : 0);
  return mask;
}
std::vector<int64_t> places(const HostArray& x) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < x.numel(); ++i) {
    if (x.get(i) != 0) all.push_back(i);
  }
  return all;
}
std::string item_at(const HostArray& x, int64_t i) {
  return {x.at(i), static_cast<size_t>(itemsize(x.view.layout.dtype))};
}
/// Different bytes in every element.
void number(HostArray& x, unsigned seed) {
  std::mt19937_64 random(seed);
  for (int64_t i = 0; i < x.numel(); ++i) {
    const uint64_t bits = random();
    memcpy(x.at(i), &bits, static_cast<size_t>(itemsize(x.view.layout.dtype)));
  }
}
const std::vector<DType> item_types = {u8, bf16, f32, f64};

void expect_selected(const HostArray& x, const HostArray& mask) {
  const std::vector<int64_t> where = places(mask);
  const int64_t count = static_cast<int64_t>(where.size());
  ASSERT_EQ(cpu::count_nonzero(mask.view), count);
  const DType dtype = x.view.layout.dtype;
  HostArray list(dtype, {.sizes = {count}});
  cpu::masked_select(list.view, x.view, mask.view);
  for (int64_t i = 0; i < count; ++i) ASSERT_EQ(item_at(list, i), item_at(x, where[static_cast<size_t>(i)])) << i;
}
void expect_scattered(HostArray& out, const HostArray& mask) {
  const std::vector<int64_t> where = places(mask);
  HostArray list(out.view.layout.dtype, {.sizes = {static_cast<int64_t>(where.size())}});
  number(list, 8);
  std::vector<std::string> expected;
  for (int64_t i = 0; i < out.numel(); ++i) expected.push_back(item_at(out, i));
  for (size_t i = 0; i < where.size(); ++i)
    expected[static_cast<size_t>(where[i])] = item_at(list, static_cast<int64_t>(i));
  cpu::masked_scatter(out.view, mask.view, list.view);
  for (int64_t i = 0; i < out.numel(); ++i) ASSERT_EQ(item_at(out, i), expected[static_cast<size_t>(i)]) << i;
}

TEST(Mask, EveryItemSizeAndLengthAroundRegisters) {
  for (const DType dtype : item_types) {
    for (const int64_t n :
         {0, 1, 7, 8, 15, 16, 31, 63, 64, 65, 127, 128, 130, 191, 1000, 1024, 1025, 16384, 16385, 40000}) {
      for (const unsigned percent : {0u, 1u, 20u, 50u, 97u, 100u}) {
        const HostArray mask = mask_of({.sizes = {n}}, percent, static_cast<unsigned>(n));
        HostArray x(dtype, {.sizes = {n}});
        number(x, 1);
        expect_selected(x, mask);
        expect_scattered(x, mask);
      }
    }
  }
}

TEST(Mask, EveryLayoutOfBoth) {
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{}, {3, 5}, {4, 70}, {7, 3, 90}, {2, 1, 3, 1, 2, 2, 1, 4}, {300, 200}, {0, 3}, {3, 0}}) {
    for (const DType dtype : item_types) {
      for (const ArrayShape& shape : layouts_of(sizes)) {
        HostArray x(dtype, shape);
        number(x, 1);
        for (const ArrayShape& mask_shape : layouts_of(sizes)) {
          const HostArray mask = mask_of(mask_shape, 40, 2);
          expect_selected(x, mask);
          expect_scattered(x, mask);
        }
      }
    }
  }
}

TEST(Mask, RepeatedMasksAndValues) {
  for (const int repeated : {0, 1}) {
    const HostArray mask = mask_of({.sizes = {40, 100}, .repeated = {repeated}}, 50, 3);
    HostArray x(f32, {.sizes = {40, 100}});
    number(x, 1);
    expect_selected(x, mask);
    expect_scattered(x, mask);
    HostArray one(f32, {.sizes = {40, 100}, .repeated = {1 - repeated}}, 4);
    expect_selected(one, mask);
  }
}

TEST(Mask, AnyByteButZeroIsTrue) {
  HostArray mask(boolean, {.sizes = {200}});
  for (int64_t i = 0; i < 200; ++i) *mask.at(i) = static_cast<char>(i % 3 == 0 ? 0 : i);
  EXPECT_EQ(cpu::count_nonzero(mask.view), 133);
}

TEST(CountNonzero, EveryTypeAndNegativeZero) {
  for (const DType dtype : real_types) {
    for (const ArrayShape& shape : layouts_of({5, 33})) {
      HostArray x(dtype, shape);
      for (int64_t i = 0; i < x.numel(); i += 3) x.set(i, 1);
      EXPECT_EQ(cpu::count_nonzero(x.view), 55) << name(dtype);
    }
  }
  for (const DType dtype : float_types) {
    EXPECT_EQ(cpu::count_nonzero(filled(dtype, {.sizes = {4}}, {-0.0, nan, 0.0, infinity}).view), 2) << name(dtype);
  }
  for (const DType dtype : {u16, u32, u64}) {
    EXPECT_EQ(cpu::count_nonzero(filled(dtype, {.sizes = {4}}, {0, 5, 0, 7}).view), 2) << name(dtype);
  }
  HostArray small(f8_e4m3fn, {.sizes = {3}});
  memcpy(small.at(0), "\x80\x00\x38", 3);
  EXPECT_EQ(cpu::count_nonzero(small.view), 1);
  HostArray without_negative_zero(f8_e5m2fnuz, {.sizes = {3}}), without_zero(f8_e8m0fnu, {.sizes = {2, 3}});
  memcpy(without_negative_zero.at(0), "\x80\x00\x38", 3);
  EXPECT_EQ(cpu::count_nonzero(without_negative_zero.view), 2);
  EXPECT_EQ(cpu::count_nonzero(without_zero.view), 6);
  HostArray wide(u64, {.sizes = {1}});
  const uint64_t high = uint64_t{1} << 63;
  memcpy(wide.at(0), &high, 8);
  EXPECT_EQ(cpu::count_nonzero(wide.view), 1);
}

TEST(Nonzero, CoordinatesInRowMajorOrder) {
  for (const std::vector<int64_t>& sizes : {std::vector<int64_t>{50},
                                            {5000},
                                            {40000},
                                            {3, 5},
                                            {70, 300},
                                            {300, 70},
                                            {9000, 2},
                                            {2, 1, 3, 1, 2, 2, 1, 4},
                                            {0, 3},
                                            {3, 0, 2}}) {
    for (const unsigned percent : {1u, 50u, 100u}) {
      for (const DType dtype : {boolean, f32}) {
        HostArray x(dtype, {.sizes = sizes});
        const HostArray truth = mask_of({.sizes = sizes}, percent, 5);
        for (int64_t i = 0; i < x.numel(); ++i) x.set(i, truth.get(i));
        const std::vector<int64_t> where = places(x);
        const int64_t count = static_cast<int64_t>(where.size()), rank = static_cast<int64_t>(sizes.size());
        for (const ArrayShape& shape :
             {ArrayShape{.sizes = {count, rank}}, ArrayShape{.sizes = {count, rank}, .order = {1, 0}}}) {
          HostArray out(i64, shape);
          cpu::nonzero(out.view, x.view);
          for (int64_t i = 0; i < count; ++i) {
            int64_t position = 0;
            for (int64_t d = 0; d < rank; ++d) {
              position = position * sizes[static_cast<size_t>(d)] + static_cast<int64_t>(out.get(i * rank + d));
            }
            ASSERT_EQ(position, where[static_cast<size_t>(i)]);
          }
        }
      }
    }
  }
}

TEST(Mask, SameBits) {
  const HostArray mask = mask_of({.sizes = {100000}}, 30, 6);
  for (const DType dtype : item_types) {
    HostArray x(dtype, {.sizes = {100000}});
    number(x, 1);
    expect_same_bits([&] {
      const int64_t count = cpu::count_nonzero(mask.view);
      HostArray list(dtype, {.sizes = {count}}), at(i64, {.sizes = {count, 1}}), out(dtype, {.sizes = {100000}});
      cpu::masked_select(list.view, x.view, mask.view);
      cpu::nonzero(at.view, mask.view);
      cpu::masked_scatter(out.view, mask.view, list.view);
      return bits_of(list) + bits_of(at) + bits_of(out);
    });
  }
}

}  // namespace
}  // namespace weft
