#include "kernel_checks.hpp"

#include <cfloat>
#include <climits>
#include <cmath>

#include <weft/backends/cpu/pointwise/loops.hpp>
#include <weft/tensor/error.hpp>
#include <weft/tensor/layout.hpp>

namespace weft::test {
namespace {

constexpr const char* targets[] = {"scalar", "avx2", "avx512"};

/// The float that 8 and 16 bits are rounded from.
template <class From>
float before_rounding(From x) {
  if constexpr (std::is_same_v<From, float> || std::is_same_v<From, bool>) return x;
  else if constexpr (sizeof(From) < 8) return odd_float(static_cast<double>(x));
  else return odd_float(x);
}

/// The definition of a cast, one element at a time.
template <class To, class From>
To cast(From x) {
  if constexpr (std::is_same_v<To, From>) return x;
  else if constexpr (ComplexNumber<From>) {
    if constexpr (ComplexNumber<To>)
      return To(cast<typename To::value_type>(x.re), cast<typename To::value_type>(x.im));
    else return cast<To>(x.re != 0 || x.im != 0);
  } else if constexpr (ComplexNumber<To>) return To(cast<typename To::value_type>(x));
  else if constexpr (!std::is_arithmetic_v<From>) return cast<To>(to_float(x));
  else if constexpr (std::is_same_v<To, float16>) return to_float16(before_rounding(x));
  else if constexpr (std::is_same_v<To, bfloat16>) return to_bfloat16(before_rounding(x));
  else if constexpr (std::is_same_v<To, float8_e4m3fn>) return to_float8_e4m3fn(before_rounding(x));
  else if constexpr (std::is_same_v<To, float8_e5m2>) return to_float8_e5m2(before_rounding(x));
  else if constexpr (std::is_same_v<To, float8_e4m3fnuz>) return to_float8_e4m3fnuz(before_rounding(x));
  else if constexpr (std::is_same_v<To, float8_e5m2fnuz>) return to_float8_e5m2fnuz(before_rounding(x));
  else if constexpr (std::is_same_v<To, float8_e8m0fnu>) return to_float8_e8m0fnu(before_rounding(x));
  else if constexpr (std::is_same_v<To, bool>) return x != From(0);
  else return static_cast<To>(x);
}

/// Values that every type holds, and a few that only larger ones do; no float beyond the integers.
template <class T>
T sample(int64_t i) {
  const double value = static_cast<double>((i * 37) % 100) + (i % 3 == 0 ? 0.25 : 0);
  if constexpr (std::is_same_v<T, bool>) return i % 3 != 0;
  else if constexpr (ComplexNumber<T>)
    return T(cast<typename T::value_type>(value), cast<typename T::value_type>(-value));
  else return cast<T>(value);
}

template <class T>
void fill_samples(const HostArray& a) {
  for (int64_t i = 0; i < a.numel(); ++i) {
    const T x = sample<T>(i);
    std::memcpy(a.at(i), &x, sizeof(T));
  }
}

template <class To, class From>
void expect_cast(const HostArray& out, const HostArray& in) {
  for (int64_t i = 0; i < out.numel(); ++i) {
    From x;
    std::memcpy(&x, in.at(i), sizeof(From));
    const To expected = cast<To>(x);
    ASSERT_EQ(std::memcmp(out.at(i), &expected, sizeof(To)), 0)
        << static_cast<int>(in.view.layout.dtype) << " to " << static_cast<int>(out.view.layout.dtype) << " at " << i;
  }
}

bool loses_imaginary_parts(DType from, DType to) { return is_complex(from) && !is_complex(to) && to != boolean; }

TEST(Copy, RefusesToLoseImaginaryParts) {
  const HostArray in(c64, {.sizes = {3}}, 1), one(c128, {.sizes = {}}, 1);
  for (int to = 0; to < dtype_count; ++to) {
    if (!loses_imaginary_parts(c64, static_cast<DType>(to))) continue;
    HostArray out(static_cast<DType>(to), {.sizes = {3}});
    EXPECT_THROW(cpu::copy(out.view, in.view), DTypeError);
    EXPECT_THROW(cpu::copy(out.view, broadcast_view(one.view, Dims{3})), DTypeError);
  }
}

TEST(Copy, EveryPairOfTypesAndLayouts) {
  std::vector<ArrayShape> layouts = layouts_of({9, 41});
  layouts.push_back({.sizes = {9, 41}, .repeated = {0}});
  layouts.push_back({.sizes = {9, 41}, .repeated = {1}});
  layouts.push_back({.sizes = {9, 41}, .repeated = {0, 1}});
  for (int to = 0; to < dtype_count; ++to) {
    for (int from = 0; from < dtype_count; ++from) {
      if (loses_imaginary_parts(static_cast<DType>(from), static_cast<DType>(to))) continue;
      for (size_t k = 0; k < layouts.size(); ++k) {
        for (size_t o = 0; o < 5; ++o) {
          const HostArray in(static_cast<DType>(from), layouts[k]);
          HostArray out(static_cast<DType>(to), layouts[o]);
          visit_dtype(static_cast<DType>(from), [&]<class From>() { fill_samples<From>(in); });
          cpu::copy(out.view, in.view);
          visit_dtype(static_cast<DType>(to), [&]<class To>() {
            visit_dtype(static_cast<DType>(from), [&]<class From>() { expect_cast<To, From>(out, in); });
          });
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Copy, RanksAndEmptyShapes) {
  for (const auto& sizes : std::vector<std::vector<int64_t>>{
           {}, {0}, {1}, {4, 0, 3}, {2, 3, 4, 5}, {1, 9, 1, 33}, {2, 2, 2, 2, 2, 2, 2, 2}, {3, 70, 129}, {65, 2, 66}}) {
    std::vector<int> order;
    for (int d = 0; d < static_cast<int>(sizes.size()); ++d) order.push_back(d);
    for (DType type : {u8, bf16, f32, f64, c128}) {
      do {
        HostArray in(type, {.sizes = sizes, .order = order}, 3), out(type, {.sizes = sizes});
        cpu::copy(out.view, in.view);
        ASSERT_EQ(bits_of(out), bits_of(in));
        HostArray back(type, {.sizes = sizes, .order = order});
        cpu::copy(back.view, out.view);
        ASSERT_EQ(bits_of(back), bits_of(in));
      } while (sizes.size() < 5 && std::next_permutation(order.begin(), order.end()));
    }
  }
}

TEST(Copy, LargeTransposesOnEveryTargetAndThreadCount) {
  const int threads = num_threads();
  for (const char* target : targets) {
    ASSERT_TRUE(cpu::use_simd_target(target));
    for (DType type : {u8, bf16, f32, f64, c128}) {
      const HostArray in(type, {.sizes = {301, 517}, .order = {1, 0}}, 4);
      for (int count : {1, 3}) {
        set_num_threads(count);
        HostArray out(type, {.sizes = {301, 517}});
        cpu::copy(out.view, in.view);
        ASSERT_EQ(bits_of(out), bits_of(in)) << target;
      }
    }
  }
  set_num_threads(threads);
  cpu::use_simd_target("avx512");
}

TEST(Copy, FloatsToIntegers) {
  const std::vector<double> x = {1.9, -1.9, 0.5, -0.5, 255.9, 127.5, -128.9, 3e4, -3e4, 2147483520.0, -2147483648.0};
  const HostArray in = filled(f64, {.sizes = {static_cast<int64_t>(x.size())}}, x);
  for (const char* target : targets) {
    ASSERT_TRUE(cpu::use_simd_target(target));
    HostArray whole(i32, {.sizes = {static_cast<int64_t>(x.size())}}),
        large(i64, {.sizes = {static_cast<int64_t>(x.size())}});
    cpu::copy(whole.view, in.view);
    cpu::copy(large.view, in.view);
    for (int64_t i = 0; i < in.numel(); ++i) {
      EXPECT_EQ(whole.get(i), std::trunc(in.get(i))) << target;
      EXPECT_EQ(large.get(i), std::trunc(in.get(i))) << target;
    }
    for (DType from : {f32, f64}) {  // beyond the range there is a value, the same everywhere, and no trap
      const HostArray odd =
          filled(from, {.sizes = {6}}, {nan, infinity, -infinity, 1e30, -1e30, 9223372036854775808.0});
      HostArray i32s(i32, {.sizes = {6}}), i64s(i64, {.sizes = {6}}), u64s(u64, {.sizes = {6}}),
          bytes(u8, {.sizes = {6}}), bools(boolean, {.sizes = {6}});
      for (HostArray* out : {&i32s, &i64s, &u64s, &bytes, &bools}) cpu::copy(out->view, odd.view);
      for (int64_t i = 0; i < 6; ++i) {
        EXPECT_EQ(*reinterpret_cast<int32_t*>(i32s.at(i)), INT32_MIN) << target << i;
        EXPECT_EQ(*reinterpret_cast<int64_t*>(i64s.at(i)), INT64_MIN) << target << i;
        EXPECT_EQ(*reinterpret_cast<uint64_t*>(u64s.at(i)), uint64_t{1} << 63) << target << i;
        EXPECT_EQ(bytes.get(i), 0);
        EXPECT_EQ(bools.get(i), 1);
      }
    }
  }
  cpu::use_simd_target("avx512");
}

/// Every pattern of the 16-bit types, and floats around their rounding points, as number.hpp rounds them.
TEST(Copy, SmallFloatsOnEveryTarget) {
  constexpr int64_t n = 65536;
  std::vector<float> floats;
  for (uint32_t i = 0; i < 200000; ++i) floats.push_back(float_from_bits(i * 21474u + i % 7u));
  for (uint32_t i = 0; i < 65536; ++i) {
    for (uint32_t low : {0x7fffu, 0x8000u, 0x8001u, 0x1000u, 0x0fffu}) floats.push_back(float_from_bits(i << 16 | low));
  }
  const auto count = static_cast<int64_t>(floats.size());
  const auto same = [](float a, float b) { return std::memcmp(&a, &b, 4) == 0 || (std::isnan(a) && std::isnan(b)); };
  for (const char* target : targets) {
    ASSERT_TRUE(cpu::use_simd_target(target));
    HostArray halves(f16, {.sizes = {n}}), brains(bf16, {.sizes = {n}}), wide(f32, {.sizes = {n}});
    for (int64_t i = 0; i < n; ++i) {
      *reinterpret_cast<uint16_t*>(halves.at(i)) = *reinterpret_cast<uint16_t*>(brains.at(i)) =
          static_cast<uint16_t>(i);
    }
    cpu::copy(wide.view, halves.view);
    const auto* p = static_cast<const float*>(wide.view.data);
    for (int64_t i = 0; i < n; ++i) ASSERT_TRUE(same(p[i], to_float(float16{static_cast<uint16_t>(i)}))) << target << i;
    cpu::copy(wide.view, brains.view);
    for (int64_t i = 0; i < n; ++i)
      ASSERT_TRUE(same(p[i], to_float(bfloat16{static_cast<uint16_t>(i)}))) << target << i;
    HostArray in(f32, {.sizes = {count}});
    std::memcpy(in.view.data, floats.data(), floats.size() * 4);
    for (DType type : {f16, bf16, f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu}) {
      HostArray out(type, {.sizes = {count}});
      cpu::copy(out.view, in.view);
      visit_dtype(type, [&]<class T>() {
        for (int64_t i = 0; i < count; ++i) {
          const T expected = cast<T>(floats[static_cast<size_t>(i)]);
          T actual;
          std::memcpy(&actual, out.at(i), sizeof(T));
          if constexpr (!std::is_arithmetic_v<T> && !ComplexNumber<T>) {
            ASSERT_TRUE(std::memcmp(&actual, &expected, sizeof(T)) == 0 ||
                        (std::isnan(to_float(actual)) && std::isnan(to_float(expected))))
                << target << " " << floats[static_cast<size_t>(i)];
          }
        }
      });
    }
  }
  cpu::use_simd_target("avx512");
}

TEST(Copy, LargeOutputsPastTheCaches) {
  const int64_t n = (int64_t{17} << 20) + 5;
  HostArray in(u8, {.sizes = {n}}), out(u8, {.sizes = {n + 64}});
  for (int64_t i = 0; i < n; ++i) static_cast<uint8_t*>(in.view.data)[i] = static_cast<uint8_t>(i * 31 >> 3);
  const auto start = reinterpret_cast<uintptr_t>(out.view.data);
  View target = in.view;
  target.data = reinterpret_cast<void*>((start + 63) / 64 * 64);
  cpu::copy(target, in.view);
  EXPECT_EQ(std::memcmp(target.data, in.view.data, static_cast<size_t>(n)), 0);
}

// The writes of a join of wide tensors: rows with gaps, not aligned to cache lines.
TEST(Copy, LargeRowsPastTheCaches) {
  const int threads = num_threads();
  for (const int64_t columns : {1024, 8000, 8003}) {
    const int64_t rows = (int64_t{15} << 20) / columns, pitch = columns + 77, first = 13;
    HostArray in(u8, {.sizes = {rows, columns}}), wide(u8, {.sizes = {rows, pitch}});
    for (int64_t i = 0; i < in.numel(); ++i) static_cast<uint8_t*>(in.view.data)[i] = static_cast<uint8_t>(i * 31 >> 3);
    View target = wide.view;
    target.data = wide.at(first);
    target.layout.sizes[1] = columns;
    target.layout.numel = rows * columns;
    target.layout.contiguous = 0;
    for (const int count : {1, 3}) {
      set_num_threads(count);
      std::memset(wide.view.data, 0, static_cast<size_t>(rows * pitch));
      cpu::copy(target, in.view);
      for (int64_t r = 0; r < rows; ++r) {
        ASSERT_EQ(std::memcmp(wide.at(r * pitch + first), in.at(r * columns), static_cast<size_t>(columns)), 0) << r;
        ASSERT_EQ(wide.get(r * pitch + first - 1), 0) << r;
        ASSERT_EQ(wide.get(r * pitch + first + columns), 0) << r;
      }
    }
  }
  set_num_threads(threads);
}

TEST(Copy, OntoItself) {
  HostArray a(f32, {.sizes = {30, 40}, .order = {1, 0}}, 6);
  const std::string before = bits_of(a);
  cpu::copy(a.view, a.view);
  EXPECT_EQ(bits_of(a), before);
}

TEST(Fill, EveryTypeAndLayout) {
  for (const char* target : targets) {
    ASSERT_TRUE(cpu::use_simd_target(target));
    for (int type = 0; type < dtype_count; ++type) {
      for (const auto& sizes : std::vector<std::vector<int64_t>>{{}, {0}, {1}, {77}, {9, 23}, {3, 4, 5}}) {
        for (const ArrayShape& shape : layouts_of(sizes)) {
          HostArray a(static_cast<DType>(type), shape);
          cpu::fill(a.view, 3.5);
          const double exact = type == 0 ? 1 : is_inexact(static_cast<DType>(type)) ? 3.5 : 3;
          const double expected = a.view.layout.dtype == f8_e8m0fnu ? 4 : exact;
          for (int64_t i = 0; i < a.numel(); ++i) ASSERT_EQ(a.get(i), expected);
          cpu::fill(a.view, 2);
          for (int64_t i = 0; i < a.numel(); ++i) ASSERT_EQ(a.get(i), type == 0 ? 1 : 2);
        }
      }
    }
  }
  cpu::use_simd_target("avx512");
}

TEST(Fill, LeavesGapsAlone) {
  HostArray a(i16, {.sizes = {40}, .gap = 2});
  cpu::fill(a.view, 7);
  const auto* p = static_cast<const int16_t*>(a.view.data);
  for (int64_t i = 0; i < 79; ++i) EXPECT_EQ(p[i], i % 2 == 0 ? 7 : 0);
}

TEST(Fill, ExactIntegers) {
  HostArray a(i64, {.sizes = {5}}), b(u64, {.sizes = {5}}), c(f64, {.sizes = {5}});
  cpu::fill(a.view, int64_t{9007199254740993});
  EXPECT_EQ(*reinterpret_cast<int64_t*>(a.at(4)), 9007199254740993);
  cpu::fill(a.view, INT64_MIN);
  EXPECT_EQ(*reinterpret_cast<int64_t*>(a.at(0)), INT64_MIN);
  cpu::fill(b.view, UINT64_MAX);
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(b.at(3)), UINT64_MAX);
  cpu::fill(b.view, 18446744073709549568.0);
  EXPECT_EQ(*reinterpret_cast<uint64_t*>(b.at(3)), 18446744073709549568u);
  cpu::fill(c.view, -0.1);
  EXPECT_EQ(c.get(2), -0.1);
  cpu::fill(a.view, true);
  EXPECT_EQ(*reinterpret_cast<int64_t*>(a.at(1)), 1);
}

}  // namespace
}  // namespace weft::test
