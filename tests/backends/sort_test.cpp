// Sorting against std::stable_sort, searching against counting.
#include <algorithm>
#include <cmath>

#include "kernel_checks.hpp"

#include <weft/tensor/error.hpp>

namespace weft {
namespace {

using namespace test;

const std::vector<DType> ordered_types = {boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64};

/// NaN is the greatest.
bool below(double a, double b) { return std::isnan(b) ? !std::isnan(a) : a < b; }

HostArray numbers(DType dtype, const ArrayShape& shape, unsigned seed) {
  HostArray x(dtype, shape, seed);
  std::mt19937 random(seed);
  for (int64_t i = 0; dtype == u64 && i < x.numel(); ++i) x.set(i, random() % 11);  // exact as doubles
  for (int64_t i = 0; is_floating(dtype) && i < x.numel(); ++i) {
    if (random() % 16 == 0) x.set(i, random() % 2 == 0 ? nan : -nan);
    else if (random() % 16 == 0) x.set(i, random() % 2 == 0 ? 0.0 : -0.0);
    else if (random() % 32 == 0) x.set(i, random() % 2 == 0 ? infinity : -infinity);
  }
  return x;
}

void expect_sorted(const HostArray& x, int dim, bool descending) {
  const auto& l = x.view.layout;
  const std::vector<int64_t> sizes(l.sizes, l.sizes + l.rank);
  HostArray out(l.dtype, {.sizes = sizes, .gap = 2}), order(i64, {.sizes = sizes});
  cpu::sort(out.view, order.view, x.view, dim, descending);
  const HostArray alone(l.dtype, {.sizes = sizes, .gap = 2}), none;
  cpu::sort(alone.view, none.view, x.view, dim, descending);
  EXPECT_TRUE(bits_of(alone) == bits_of(out)) << name(l.dtype);
  int64_t inner = 1;
  for (int d = dim + 1; d < l.rank; ++d) inner *= l.sizes[d];
  const int64_t n = l.sizes[dim];
  for (int64_t line = 0; n > 0 && line < x.numel() / n; ++line) {
    const int64_t first = line / inner * n * inner + line % inner;
    std::vector<int64_t> expected(static_cast<size_t>(n));
    std::iota(expected.begin(), expected.end(), 0);
    std::stable_sort(expected.begin(), expected.end(), [&](int64_t a, int64_t b) {
      const double left = x.get(first + a * inner), right = x.get(first + b * inner);
      return descending ? below(right, left) : below(left, right);
    });
    for (int64_t i = 0; i < n; ++i) {
      ASSERT_EQ(order.get(first + i * inner), static_cast<double>(expected[static_cast<size_t>(i)])) << name(l.dtype);
      const size_t item = static_cast<size_t>(itemsize(l.dtype));
      ASSERT_EQ(memcmp(out.at(first + i * inner), x.at(first + expected[static_cast<size_t>(i)] * inner), item), 0);
    }
  }
}

TEST(Sort, EveryTypeDimensionAndLayout) {
  for (const DType dtype : ordered_types) {
    for (const std::vector<int64_t>& sizes :
         {std::vector<int64_t>{3, 50, 4}, {300}, {1}, {2, 0}, {0}, {41}, {1000, 2}}) {
      for (const ArrayShape& shape : layouts_of(sizes)) {
        const HostArray x = numbers(dtype, shape, 3);
        for (int dim = 0; dim < static_cast<int>(sizes.size()); ++dim) {
          expect_sorted(x, dim, false);
          expect_sorted(x, dim, true);
        }
      }
    }
  }
}

TEST(Sort, LongLinesAreMerged) {
  const int threads = num_threads();
  for (const int count : {1, 2, 3, 5}) {
    set_num_threads(count);
    for (const DType dtype : {f32, f64, i8, i64}) {
      for (const int64_t n : {65536, 70001, 200003}) expect_sorted(numbers(dtype, {.sizes = {n}}, 5), 0, count == 3);
    }
  }
  set_num_threads(threads);
}

TEST(Sort, FarApartWholeNumbers) {
  HostArray x(i64, {.sizes = {2000}}), u(u64, {.sizes = {2000}});
  std::mt19937_64 random(1);
  for (int64_t i = 0; i < 2000; ++i) {
    const uint64_t a = random() << 11, b = random() >> 1 << 11;  // exact as doubles
    memcpy(x.at(i), &a, 8);
    memcpy(u.at(i), &b, 8);
  }
  expect_sorted(x, 0, false);
  expect_sorted(x, 0, true);
  expect_sorted(u, 0, false);
  HostArray near(i32, {.sizes = {70000}});  // keys of two bytes and of three, fewer and more than elements
  for (const unsigned range : {60000u, 69000u, 9000000u}) {
    for (int64_t i = 0; i < near.numel(); ++i) near.set(i, static_cast<double>(random() % range) - 1000.0);
    expect_sorted(near, 0, false);
    expect_sorted(near, 0, true);
  }
}

TEST(Sort, ShorterResultsGetTheFirstOfEachLine) {
  for (const DType dtype : ordered_types) {
    for (const int64_t n : {7, 70, 300, 5000}) {
      for (const ArrayShape& shape : layouts_of({2, n})) {
        const HostArray x = numbers(dtype, shape, 8);
        HostArray all(dtype, {.sizes = {2, n}}), order(i64, {.sizes = {2, n}});
        for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{5}, n / 4, n - 1}) {
          const bool descending = count % 2 == 0;
          cpu::sort(all.view, order.view, x.view, 1, descending);
          HostArray some(dtype, {.sizes = {2, count}}), some_order(i64, {.sizes = {2, count}}),
              alone(i64, {.sizes = {2, count}});
          cpu::sort(some.view, some_order.view, x.view, 1, descending);
          cpu::sort(HostArray().view, alone.view, x.view, 1, descending);
          for (int64_t i = 0; i < 2 * count; ++i) {
            const int64_t at = i / count * n + i % count;
            ASSERT_EQ(some_order.get(i), order.get(at)) << name(dtype) << " " << n << " " << count;
            ASSERT_EQ(alone.get(i), order.get(at));
            ASSERT_EQ(memcmp(some.at(i), all.at(at), static_cast<size_t>(itemsize(dtype))), 0);
          }
        }
      }
    }
  }
}

TEST(Sort, FirstOfALineOfEqualOrOrderedElements) {
  for (const int way : {0, 1, -1}) {
    HostArray x(f32, {.sizes = {3000}}), some(f32, {.sizes = {10}}), order(i64, {.sizes = {10}});
    for (int64_t i = 0; i < 3000; ++i) x.set(i, static_cast<double>(way * i));
    for (const bool descending : {false, true}) {
      cpu::sort(some.view, order.view, x.view, 0, descending);
      const bool from_end = way != 0 && (way > 0) == descending;
      for (int64_t i = 0; i < 10; ++i) EXPECT_EQ(order.get(i), static_cast<double>(from_end ? 2999 - i : i));
    }
  }
}

TEST(Sort, InPlaceAndOneOfTheResults) {
  for (const int64_t n : {10, 5000}) {
    const HostArray x = numbers(f32, {.sizes = {n}}, 4);
    HostArray out(f32, {.sizes = {n}}), order(i64, {.sizes = {n}}), alone(i64, {.sizes = {n}}), none;
    cpu::sort(out.view, order.view, x.view, 0, false);
    cpu::sort(none.view, alone.view, x.view, 0, false);
    EXPECT_EQ(bits_of(alone), bits_of(order));
    const std::string expected = bits_of(out);
    cpu::sort(x.view, none.view, x.view, 0, false);
    EXPECT_EQ(bits_of(x), expected);
  }
  HostArray scalar = filled(f32, {.sizes = {}}, {7}), out(f32, {.sizes = {}}), order(i64, {.sizes = {}});
  cpu::sort(out.view, order.view, scalar.view, 0, false);
  EXPECT_EQ(out.get(0), 7);
  EXPECT_EQ(order.get(0), 0);
}

TEST(Searchsorted, CountsSmallerElements) {
  for (const DType dtype : ordered_types) {
    for (const bool rows : {false, true}) {
      for (const int64_t n : {0, 1, 2, 100}) {
        const HostArray x = numbers(dtype, rows ? ArrayShape{.sizes = {3, n}} : ArrayShape{.sizes = {n}}, 6);
        cpu::sort(x.view, HostArray().view, x.view, rows ? 1 : 0, false);
        for (const ArrayShape& shape : layouts_of({3, 40})) {
          const HostArray values = numbers(dtype, shape, 7);
          HostArray out(i64, {.sizes = {3, 40}});
          for (const bool right : {false, true}) {
            cpu::searchsorted(out.view, x.view, values.view, right);
            for (int64_t i = 0; i < 120; ++i) {
              int64_t expected = 0;
              for (int64_t j = 0; j < n; ++j) {
                const double there = x.get(rows ? i / 40 * n + j : j), value = values.get(i);
                expected += right ? !below(value, there) : below(there, value);
              }
              ASSERT_EQ(out.get(i), static_cast<double>(expected)) << name(dtype);
            }
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace weft
