// Indexing, masks and sorting on every kind of device against the CPU: equal element by element. Sums are of numbers
// that f32 adds exactly.
#include "device_checks.hpp"

#include <functional>
#include <limits>

#include <weft/autograd/engine.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/embedding_bag.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/subscript.hpp>
#include <weft/ops/loss.hpp>
#include <weft/ops/masked.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/scan.hpp>
#include <weft/ops/scatter.hpp>
#include <weft/ops/search.hpp>
#include <weft/ops/sort.hpp>
#include <weft/tensor/index_checks.hpp>

namespace weft {
namespace {

using namespace test;

constexpr DType computed[] = {boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64};
constexpr DType stored[] = {boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2};

/// `compute` has the same result on the device and on the CPU.
void expect_same(Device on, const std::function<Tensor(Device)>& compute) {
  const Tensor actual = compute(on).to(Device()), expected = compute(Device());
  ASSERT_EQ(actual.dtype(), expected.dtype());
  expect_equal(actual.to(f64), expected.to(f64));
}

/// Whole numbers, zeros among them, that every dtype holds.
Tensor some(const Dims& shape, DType t, int64_t most = 6) { return randint(0, most, shape).to(t); }
Tensor fractions(const Dims& shape, DType t) { return (randint(-512, 512, shape).to(f64) / 256.0).to(t); }

// ---- by indices -----------------------------------------------------------------------------------------------------

DEVICE_TEST(IndexesAndAddsByIndex) {
  const Tensor x = fractions({5, 4, 3}, f64) * 50.0, index = tensor(std::vector<int64_t>{4, 0, 4, 0, 2});
  const Tensor at = randint(0, 4, {5, 6, 3});
  for (const DType t : computed) {
    SCOPED_TRACE(name(t));
    const Tensor a = x.to(t);
    for (const DType i : {i32, i64}) {
      expect_same(on, [&](Device d) { return index_select(a.to(d), 0, index.to(i).to(d)); });
      expect_same(on, [&](Device d) { return index_add(a.to(d), 0, index.to(i).to(d), a.to(d)); });
      expect_same(on, [&](Device d) {
        const Tensor turned = a.to(d).permute({1, 2, 0});
        return index_add(turned, 2, index.to(i).to(d), turned);
      });
      expect_same(on, [&](Device d) { return index_copy(a.to(d), 0, index.to(i).to(d), a.to(d) * a.to(d)); });
      expect_same(on, [&](Device d) { return gather(a.to(d), 1, at.to(i).to(d)); });
    }
  }
}

DEVICE_TEST(ReadsByAnyMixOfIndices) {
  const Tensor rows = randint(-7, 7, {40}), columns = randint(-5, 5, {40}), tall = randint(0, 7, {6, 1}),
               mask = rand({7, 3}) > 0.5;
  for (const DType t : stored) {
    SCOPED_TRACE(name(t));
    const Tensor x = some({7, 3, 5}, t);
    expect_same(on, [&](Device d) { return weft::index(x.to(d), {rows.to(d)}); });
    expect_same(on, [&](Device d) { return weft::index(x.to(d), {Slice(), {2, 0, 2}}); });
    expect_same(on, [&](Device d) { return weft::index(x.to(d), {rows.to(d), Slice(), columns.to(d)}); });
    expect_same(on, [&](Device d) { return weft::index(x.to(d), {tall.to(i32).to(d), 1, columns.to(d)}); });
    expect_same(on, [&](Device d) { return weft::index(x.to(d), {mask.to(d), columns.to(d).narrow(0, 0, 1)}); });
    expect_same(on, [&](Device d) {
      return weft::index(x.to(d).transpose(0, 2), {columns.to(d), Ellipsis, rows.to(d)});
    });
    expect_same(on, [&](Device d) { return weft::index(x.to(d), {Slice(0, 0), Slice(), columns.to(d)}); });
    expect_same(on, [&](Device d) { return weft::index(x.to(d), {rows.to(d).narrow(0, 0, 0)}); });
  }
}

DEVICE_TEST(WritesTheLastOfDuplicates) {
  const Tensor rows = randint(-7, 7, {40}), columns = randint(-5, 5, {40});
  for (const DType t : stored) {
    SCOPED_TRACE(name(t));
    const Tensor x = some({7, 3, 5}, t), y = some({40, 3, 5}, t), z = some({40, 3}, t);
    expect_same(on, [&](Device d) { return index_put(x.to(d), {rows.to(d)}, y.to(d)); });
    expect_same(on, [&](Device d) { return index_put(x.to(d), {rows.to(d), Slice(), columns.to(d)}, z.to(d)); });
    expect_same(on, [&](Device d) { return index_put(x.to(d), {rows.to(d), Slice(0, 0)}, y.to(d).narrow(1, 0, 0)); });
    expect_same(on, [&](Device d) {
      const Tensor out = zeros({5, 3, 7}, {t, d}), part = out.permute({2, 1, 0});
      index_put_(part.slice(2, {}, {}, -1), {rows.to(d)}, y.to(d));
      return out;
    });
  }
}

DEVICE_TEST(AddsDuplicatesInTheirOrderAndRoundsOnce) {
  const Tensor rows = randint(-7, 7, {500}), columns = randint(-5, 5, {500});
  for (const DType t : computed) {
    SCOPED_TRACE(name(t));
    const Tensor x = fractions({7, 3, 5}, t), y = fractions({500, 3, 5}, t), z = fractions({500, 3}, t);
    expect_same(on, [&](Device d) { return index_put(x.to(d), {rows.to(d)}, y.to(d), true); });
    expect_same(on, [&](Device d) { return index_put(x.to(d), {rows.to(d), Slice(), columns.to(d)}, z.to(d), true); });
  }
  const Tensor once = ones({1}, {bf16, on});  // one by one, 256 + 1 is 256
  EXPECT_EQ(values_of(index_put(once * 0.0, {zeros({300}, {i64, on})}, once, true))[0], 300);
}

DEVICE_TEST(ManyIndicesAndOneDestination) {
  const Tensor index = randint(-2000, 2000, {20000}), values = fractions({20000}, f32);
  for (const bool add : {false, true}) {
    expect_same(on, [&](Device d) { return index_put(zeros({2000}, {f32, d}), {index.to(d)}, values.to(d), add); });
    expect_same(on, [&](Device d) { return index_put(zeros({1}, {f32, d}), {(index * 0).to(d)}, values.to(d), add); });
  }
}

DEVICE_TEST(ScattersInEveryWay) {
  const Tensor index = randint(0, 4, {5, 6, 2}), line = randint(0, 3, {70});
  for (const DType t : computed) {
    const Tensor x = fractions({5, 4, 3}, t), y = fractions({5, 6, 3}, t), z = fractions({70}, t);
    for (const Scatter mode : {Scatter::replace, Scatter::sum, Scatter::prod, Scatter::max, Scatter::min}) {
      SCOPED_TRACE(std::string(name(t)) + " " + std::to_string(static_cast<int>(mode)));
      const auto scattered = [&](const Tensor& out, int dim, const Tensor& at, const Tensor& source) {
        kernels(out.raw_view()).scatter(mode, out.raw_view(), dim, at.raw_view(), source.raw_view());
        return out;
      };
      expect_same(on,
                  [&](Device d) { return scattered(x.to(d).clone(), 1, index.to(i32).to(d), y.to(d).slice(2, 0, 2)); });
      expect_same(on, [&](Device d) {
        return scattered(x.to(d).clone().transpose(1, 2), 2, index.to(d).transpose(1, 2),
                         y.to(d).transpose(1, 2).slice(1, 0, 2));
      });
      expect_same(on, [&](Device d) { return scattered(x.to(d).clone().view({60}), 0, line.to(d), z.to(d)); });
      expect_same(on, [&](Device d) {
        return scattered(x.to(d).clone(), 0, index.to(d).slice(0, 0, 0).slice(1, 0, 4), y.to(d).slice(0, 0, 0));
      });
    }
  }
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor with_nan = tensor(std::vector<float>{1, nan, 3, 2}), places = tensor(std::vector<int64_t>{0, 0, 0, 1});
  for (const ScatterReduction how : {ScatterReduction::amax, ScatterReduction::amin}) {
    expect_same(on, [&](Device d) {
      return scatter_reduce(zeros({3}, {f32, d}), 0, places.to(d), with_nan.to(d), how);
    });
  }
}

DEVICE_TEST(BadIndicesSurfaceAtTheNextWait) {
  const Tensor x = rand({4, 3}, {f32, on}), y = rand({2, 3}, {f32, on});
  const Tensor bad = tensor(std::vector<int64_t>{0, 7}).to(on), good = tensor(std::vector<int64_t>{1, 2}).to(on);
  const Tensor rows = index_select(x, 0, bad);
  const unsigned line = __LINE__ - 1;
  try {
    synchronize(on);
    FAIL() << "index 7 of 4 went unnoticed";
  } catch (const IndexError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("[index_select] index 7 is out of range for axis 0 of size 4"));
    EXPECT_THAT(e.what(), ::testing::HasSubstr("device_index_test.cpp:" + std::to_string(line)));
  }
  synchronize(on);  // told once
  const std::function<void()> calls[] = {
      [&] { index_add(x, 0, bad, y); },
      [&] {
        weft::index(x, {good, bad});
      },
      [&] { index_put(x, {bad}, y); },
      [&] { index_put(x, {bad}, y, true); },
      [&] { index_copy(x, 0, bad, y); },
      [&] {
        scatter(x, 0, bad.view({2, 1}), y);
      },
      [&] {
        cross_entropy(x, tensor(std::vector<int64_t>{0, 1, 2, 3}).to(on));
      },
  };
  for (size_t i = 0; i < std::size(calls); ++i) {
    SCOPED_TRACE(i);
    EXPECT_THROW((calls[i](), synchronize(on)), IndexError);
  }
  try {
    cross_entropy(ones({2, 3}, {f32, on}), tensor(std::vector<int64_t>{0, -1}).to(on));
    synchronize(on);
    FAIL() << "a target of -1 went unnoticed";
  } catch (const IndexError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("[cross_entropy] target -1: classes are 0 to 2"));
  }
  expect_equal(ones({2}, {f32, on}), ones({2}));
}

DEVICE_TEST(NegativeIndicesCountFromTheEndWhereTheyMay) {
  const Tensor x = rand({4, 3}), y = rand({2, 3}), last = tensor(std::vector<int64_t>{-1, -4}),
               both = last.view({2, 1});
  expect_same(on, [&](Device d) { return weft::index(x.to(d), {last.to(d)}); });
  expect_same(on, [&](Device d) { return index_put(x.to(d), {last.to(d)}, y.to(d)); });
  expect_same(on, [&](Device d) { return index_put(x.to(d), {last.to(d)}, y.to(d), true); });
  expect_same(on, [&](Device d) { return put(x.to(d), last.to(d), y.to(d).select(1, 0).slice(0, 0, 2)); });
  expect_same(on, [&](Device d) { return take(x.to(d), last.to(d), 0); });
  expect_same(on, [&](Device d) { return take_along_dim(x.to(d), both.to(d), 0); });
  expect_same(on, [&](Device d) { return index_fill(x.to(d), 0, last.to(d), 7); });
  const Tensor a = x.to(on), b = y.to(on), at = last.to(on), column = at.view({2, 1});
  const std::function<void()> refused[] = {
      [&] { index_select(a, 0, at); },
      [&] { gather(a, 0, column); },
      [&] { index_add(a, 0, at, b); },
      [&] { index_copy(a, 0, at, b); },
      [&] { scatter(a, 0, column, b); },
      [&] { scatter(a, 0, column, 1); },
      [&] { scatter_add(a, 0, column, b); },
      [&] { scatter_reduce(a, 0, column, b, ScatterReduction::amax); },
      [&] { embedding(a, at); },
      [&] {
        embedding_bag(at.view({1, 2}), a);
      },
  };
  for (size_t i = 0; i < std::size(refused); ++i) {
    SCOPED_TRACE(i);
    try {
      refused[i]();
      synchronize(on);
      FAIL() << "index -1 went unnoticed";
    } catch (const IndexError& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("use indices from 0 to 3"));
    }
  }
}

DEVICE_TEST(OfRepeatedIndicesTheLastHasTheGradient) {
  const Tensor rows = randint(-4, 4, {30}), columns = randint(0, 3, {30}), line = randint(0, 4, {30, 3});
  const Tensor x = rand({4, 3}), y = rand({30, 3}), g = rand({4, 3});
  const auto gradient = [&](Device d, auto&& write) {
    const Tensor v = y.to(d).requires_grad_();
    return grad({write(x.to(d), v)}, {v}, {g.to(d)})[0];
  };
  expect_same(on, [&](Device d) {
    return gradient(d, [&](const Tensor& a, const Tensor& v) { return index_put(a, {rows.to(d)}, v); });
  });
  expect_same(on, [&](Device d) {
    return gradient(d, [&](const Tensor& a, const Tensor& v) {
      return index_put(a, {rows.to(d), columns.to(d)}, v.select(1, 1));
    });
  });
  expect_same(on, [&](Device d) {
    return gradient(d, [&](const Tensor& a, const Tensor& v) { return scatter(a, 0, line.to(d), v); });
  });
  expect_same(on, [&](Device d) {
    return gradient(d, [&](const Tensor& a, const Tensor& v) { return index_copy(a, 0, columns.to(d), v); });
  });
}

DEVICE_TEST(SumsOfManyKeepTheirPrecision) {
  const int64_t n = 40000;
  const Tensor values = rand({n}), at = zeros({n}, {i64}), twice = at.view({n / 2, 2});
  const double expected = sum(values.to(f64)).item<double>();
  const auto expect = [&](const Tensor& total) {
    EXPECT_NEAR(sum(total.to(Device()).to(f64)).item<double>(), expected, 2e-7 * expected);
  };
  const Tensor v = values.to(on), zero = at.to(on);
  expect(index_add(zeros({1}, {f32, on}), 0, zero, v));
  expect(scatter_add(zeros({1}, {f32, on}), 0, zero, v));
  expect(scatter_add(zeros({1, 2}, {f32, on}), 0, twice.to(on), v.view({n / 2, 2})));
  expect(index_put(zeros({1}, {f32, on}), {zero}, v, true));
  expect(embedding_bag(arange(n).view({1, n}).to(on), v.view({n, 1}), {.mode = BagMode::sum}));
  const Tensor w = zeros({3, 1}, {f32, on}).requires_grad_();
  expect(grad({embedding(w, zero)}, {w}, {v.view({n, 1})})[0]);
}

DEVICE_TEST(CheckedIndicesAreRaisedByTheirCallBeforeAnythingIsWritten) {
  const Tensor x = rand({4, 3}, {f32, on}), before = x.clone(), y = rand({2, 3}, {f32, on});
  const Tensor bad = tensor(std::vector<int64_t>{0, 7}).to(on), good = tensor(std::vector<int64_t>{1, 2}).to(on);
  const std::function<void()> calls[] = {
      [&] { index_select(x, 0, bad); },
      [&] {
        gather(x, 0, bad.view({2, 1}));
      },
      [&] {
        weft::index(x, {good, bad});
      },
      [&] { index_put_(x, {bad}, y); },
      [&] { index_put_(x, {bad}, y, true); },
      [&] {
        scatter_(x, 0, bad.view({2, 1}), y);
      },
      [&] {
        cross_entropy(x, tensor(std::vector<int64_t>{0, 1, 2, 3}).to(on));
      },
  };
  const IndexCheckGuard checked;
  const bool by_call = on.type < DeviceType::first_plugin;  // a plug-in's own queue tells at the next wait
  for (size_t i = 0; i < std::size(calls); ++i) {
    SCOPED_TRACE(i);
    EXPECT_THROW((calls[i](), by_call ? void() : synchronize(on)), IndexError);
    synchronize(on);  // told once
    expect_equal(x, before.to(Device()));
  }
  expect_equal(index_select(x, 0, good), index_select(before.to(Device()), 0, good.to(Device())));
  const IndexCheckGuard unchecked(false);
  const Tensor later = index_select(x, 0, bad);
  EXPECT_THROW(synchronize(on), IndexError);
}

DEVICE_TEST(ABadIndexNamesItsLineHoweverManyGoodOnesFollow) {
  const Tensor x = rand({4, 3}, {f32, on});
  const Tensor bad = tensor(std::vector<int64_t>{0, 7}).to(on), good = tensor(std::vector<int64_t>{1, 2}).to(on);
  for (const int following : {0, 1023, 1024, 1500, 3000}) {
    index_select(x, 0, bad);
    const unsigned line = __LINE__ - 1;
    for (int i = 0; i < following; ++i) index_select(x, 0, good);
    try {
      synchronize(on);
      FAIL() << "index 7 of 4 went unnoticed before " << following << " others";
    } catch (const IndexError& e) {
      EXPECT_THAT(e.what(), ::testing::HasSubstr("device_index_test.cpp:" + std::to_string(line))) << following;
    }
    synchronize(on);
  }
}

DEVICE_TEST(BadIndicesLeaveTheRestAsTheyShould) {
  const Tensor x = zeros({4}, {f32, on}), values = tensor(std::vector<float>{1, 2, 3}).to(on);
  index_put_(x, {tensor(std::vector<int64_t>{1, std::numeric_limits<int64_t>::max(), -4}).to(on)}, values);
  try {
    synchronize(on);
    FAIL() << "an index of 2^63 - 1 went unnoticed";
  } catch (const IndexError& e) {
    EXPECT_THAT(e.what(), ::testing::HasSubstr("[index_put_] index 9223372036854775807 is out of range for axis 0"));
  }
  // The stub's kernels are the CPU's, which check every index before they write.
  const bool checked_first = on.type >= DeviceType::first_plugin;
  expect_equal(x, checked_first ? zeros({4}) : tensor(std::vector<float>{3, 1, 0, 0}));
}

// ---- by masks -------------------------------------------------------------------------------------------------------

DEVICE_TEST(CountsAndListsNonZeroElements) {
  for (const DType t : stored) {
    SCOPED_TRACE(name(t));
    for (const Dims& shape : {Dims{}, Dims{0, 3}, Dims{1}, Dims{7, 3, 5}, Dims{10001}}) {
      const Tensor x = some(shape, t, 2);
      expect_same(on, [&](Device d) { return nonzero(x.to(d)); });
      const Tensor there = x.to(on);
      EXPECT_EQ(kernels(there.raw_view()).count_nonzero(there.raw_view()), nonzero(x).sizes()[0]);
      if (x.dim() == 3) expect_same(on, [&](Device d) { return nonzero(x.to(d).permute({2, 0, 1})); });
    }
  }
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor special = tensor(std::vector<double>{0.0, -0.0, nan, infinity, -1e-300, 1});
  for (const DType t : {f64, f32, f16, bf16}) expect_same(on, [&](Device d) { return nonzero(special.to(t).to(d)); });
}

DEVICE_TEST(SelectsAndScattersByMask) {
  const Tensor mask = rand({7, 3, 5}) > 0.6, long_mask = rand({20000}) > 0.3, none = zeros({7, 3, 5}, {boolean});
  for (const DType t : stored) {
    SCOPED_TRACE(name(t));
    const Tensor x = some({7, 3, 5}, t), source = some({105}, t), line = some({20000}, t);
    expect_same(on, [&](Device d) { return masked_select(x.to(d), mask.to(d)); });
    expect_same(on, [&](Device d) { return masked_select(x.to(d), none.to(d)); });
    expect_same(on, [&](Device d) {
      return masked_select(x.to(d).permute({2, 0, 1}), mask.to(d).slice(0, {}, {}, -1).permute({2, 0, 1}));
    });
    expect_same(on, [&](Device d) { return masked_select(line.to(d), long_mask.to(d)); });
    expect_same(on, [&](Device d) { return masked_scatter(x.to(d), mask.to(d), source.to(d)); });
    expect_same(on, [&](Device d) { return masked_scatter(line.to(d), long_mask.to(d), line.to(d)); });
    expect_same(on, [&](Device d) {
      const Tensor out = zeros({7, 5, 3}, {t, d}), turned = out.transpose(1, 2);
      kernels(out.raw_view()).masked_scatter(turned.raw_view(), mask.to(d).raw_view(), source.to(d).raw_view());
      return out;
    });
  }
}

// ---- order ----------------------------------------------------------------------------------------------------------

DEVICE_TEST(SortsStably) {
  const auto sorted = [](const Tensor& x, int dim, bool descending, bool of_order) {
    const Tensor out = empty(x.sizes(), {x.dtype(), x.device()}), order = empty(x.sizes(), {i64, x.device()});
    kernels(x.raw_view()).sort(out.raw_view(), order.raw_view(), x.raw_view(), dim, descending);
    return of_order ? order : out;
  };
  for (const DType t : {boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, bf16, f32, f64}) {
    const Tensor x = is_floating(t) ? fractions({4, 70, 3}, t) : (randint(-9, 9, {4, 70, 3})).to(t);
    for (const bool descending : {false, true}) {
      for (const bool of_order : {false, true}) {
        SCOPED_TRACE(std::string(name(t)) + (descending ? " descending" : ""));
        expect_same(on, [&](Device d) { return sorted(x.to(d), 1, descending, of_order); });
        expect_same(on, [&](Device d) { return sorted(x.to(d).transpose(0, 1), 1, descending, of_order); });
        expect_same(on, [&](Device d) { return sorted(x.to(d).select(0, 0).select(0, 0), 0, descending, of_order); });
      }
    }
    expect_same(on, [&](Device d) {
      const Tensor in_place = x.to(d).clone();
      kernels(in_place.raw_view()).sort(in_place.raw_view(), View{}, in_place.raw_view(), 1, true);
      return in_place;
    });
  }
  const float infinity = std::numeric_limits<float>::infinity(), nan = std::numeric_limits<float>::quiet_NaN();
  const Tensor special = tensor(std::vector<float>{0, nan, -infinity, -0.0f, infinity, -nan, 1e-40f, -1e-40f});
  for (const bool descending : {false, true}) {
    expect_same(on, [&](Device d) { return sorted(special.to(d), 0, descending, true); });
  }
  const Tensor many = randint(0, 1000, {5000});
  expect_same(on, [&](Device d) { return sorted(many.to(d), 0, false, true); });
}

/// Long enough for a library's sort, where the device has one.
DEVICE_TEST(SortsLongLinesStably) {
  const int64_t n = 70'000;
  const Tensor whole = randint(-40'000, 40'000, {2, n});
  Tensor fractions_of_it = whole.to(f32) * 0.01;
  fractions_of_it.select(0, 0).narrow(0, 100, 50).fill_(std::numeric_limits<double>::quiet_NaN());
  fractions_of_it.select(0, 1).narrow(0, 7, 5).fill_(-0.0);
  for (const DType t : {i16, i32, i64, u64, f16, f32, f64}) {
    const Tensor x = (is_floating(t) ? fractions_of_it : whole).to(t);
    for (const bool descending : {false, true}) {
      SCOPED_TRACE(std::string(name(t)) + (descending ? " descending" : ""));
      const auto order_of = [&](Device d) {
        const Tensor order = empty({2, n}, {i64, d}), values = x.to(d);
        kernels(order.raw_view()).sort(View{}, order.raw_view(), values.raw_view(), 1, descending);
        return order;
      };
      expect_same(on, order_of);
    }
  }
  const Tensor ids = whole.select(0, 0).remainder(1000), values = whole.select(0, 1).to(f32);
  expect_same(on, [&](Device d) { return zeros({1000}, {f32, d}).index_add_(0, ids.to(d), values.to(d)); });
  expect_same(on, [&](Device d) { return bincount(ids.to(d)); });
}

/// The positions of elements of these ranks, one list of ranks for each line of x along `dim`.
Tensor at_ranks(const Tensor& x, int dim, const Tensor& ranks) {
  const Tensor order = empty(ranks.sizes(), {i64, x.device()});
  kernels(x.raw_view()).select_rank(order.raw_view(), x.raw_view(), ranks.raw_view(), dim);
  return order;
}
/// Every rank of a line, and those of a few lines in any order.
void expect_ranks(Device on, const Tensor& line) {
  const Tensor all = arange(0, line.numel(), 1, {i64});
  expect_same(on, [&](Device d) { return at_ranks(line.to(d), 0, all.to(d)); });
  const Tensor order = at_ranks(line.to(on), 0, all.to(on)).to(Device());
  expect_equal(order, argsort(line, 0));
}

DEVICE_TEST(SelectsRanksInEveryLayout) {
  for (const DType t : computed) {
    SCOPED_TRACE(name(t));
    const Tensor x = is_floating(t) ? fractions({4, 300, 3}, t) : randint(-9, 9, {4, 300, 3}).to(t);
    for (int dim = 0; dim < 3; ++dim) {
      Dims shape = x.shape();
      shape[dim] = 2;
      const Tensor ranks = randint(0, x.size(dim), shape);
      expect_same(on, [&](Device d) { return at_ranks(x.to(d), dim, ranks.to(d)); });
      expect_same(on,
                  [&](Device d) { return at_ranks(x.to(d).transpose(0, 2), 2 - dim, ranks.to(d).transpose(0, 2)); });
      expect_same(on, [&](Device d) { return at_ranks(x.to(d).flip({dim}), dim, ranks.to(d).flip({0})); });
      expect_same(on, [&](Device d) {
        return at_ranks(x.to(d).select(0, 1).unsqueeze(0).expand({4, 300, 3}), dim, ranks.to(d));
      });
    }
    expect_ranks(on, x.select(2, 1).reshape({-1}).narrow(0, 0, 500));
  }
}

DEVICE_TEST(SelectsAmongSpecialNumbersAndTies) {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const Tensor few = tensor(std::vector<double>{0, nan, -infinity, -0.0, infinity, -nan, 1, -1, 0, nan, -0.0, 3e-7});
  for (const DType t : {f16, bf16, f32, f64}) {
    SCOPED_TRACE(name(t));
    expect_ranks(on, few.to(t));
    expect_ranks(on, index_select(few.to(t), 0, randint(0, few.numel(), {700})));
    expect_ranks(on, full({500}, nan, {t}));
    expect_ranks(on, cat({zeros({150}, {t}), -zeros({150}, {t})}, 0));
  }
  for (const DType t : {u8, i16, i64, boolean}) expect_ranks(on, ones({400}, {t}));
  for (const int64_t n : {1, 2, 3, 63, 64, 65, 127, 513}) expect_ranks(on, randint(0, 4, {n}).to(f32));
}

DEVICE_TEST(SelectsAmongNumbersOfAllBits) {
  const int64_t lowest = std::numeric_limits<int64_t>::min(), highest = std::numeric_limits<int64_t>::max();
  const Tensor ends = tensor(std::vector<int64_t>{0, lowest, highest, -1, 1, lowest + 1, highest - 1, lowest, highest});
  const Tensor many = index_select(ends, 0, randint(0, ends.numel(), {600})) + randint(-1, 1, {600});
  expect_ranks(on, ends);
  expect_ranks(on, many);
  expect_same(on, [&](Device d) { return at_ranks(many.to(u64).to(d), 0, arange(0, 600, 1, {i64, d})); });
}

DEVICE_TEST(SelectsInLongAndInManyLines) {
  const Tensor line = rand({70'000}) - 0.5, lines = randint(-40, 40, {3000, 17}).to(f32);
  const Tensor few = tensor(std::vector<int64_t>{0, 1, 34'999, 35'000, 69'998, 69'999});
  expect_same(on, [&](Device d) { return at_ranks(line.to(d), 0, few.to(d)); });
  const Tensor ranks = randint(0, 17, {3000, 4});
  expect_same(on, [&](Device d) { return at_ranks(lines.to(d), 1, ranks.to(d)); });
  expect_same(on, [&](Device d) { return at_ranks(lines.to(d), 0, randint(0, 1, {2, 17}).to(d) + 1500); });
  expect_same(on, [&](Device d) { return at_ranks(lines.to(d), 1, empty({3000, 0}, {i64, d})); });
}

DEVICE_TEST(TakesMediansAndQuantilesWithoutSorting) {
  const Tensor x = rand({4, 90}) - 0.5;
  expect_same(on, [&](Device d) { return median(x.to(d), 1).indices; });
  expect_same(on, [&](Device d) { return median(x.to(d)); });
  expect_same(on, [&](Device d) { return kthvalue(x.to(d), 3, 0, true).values; });
  expect_same(on, [&](Device d) { return nanmedian(log(x.to(d)), 1).values.to(f16); });
  expect_same(on, [&](Device d) {
    return quantile(x.to(d), tensor({0.25, 0.5}, f32).to(d), 1, false, QuantileInterpolation::nearest);
  });
}

DEVICE_TEST(FindsPlacesInSortedLines) {
  for (const DType t : {u8, i32, i64, f16, f32, f64}) {
    SCOPED_TRACE(name(t));
    const Tensor line = cumsum(some({20}, i64, 3), 0).to(t), values = some({3, 4}, t, 30);
    const Tensor lines = cumsum(some({3, 9}, i64, 3), 1).to(t);
    for (const bool right : {false, true}) {
      expect_same(on, [&](Device d) { return searchsorted(line.to(d), values.to(d), {.right = right}); });
      expect_same(on, [&](Device d) { return searchsorted(lines.to(d), values.to(d), {.right = right}); });
      expect_same(on,
                  [&](Device d) { return searchsorted(line.to(d).narrow(0, 0, 0), values.to(d), {.right = right}); });
    }
  }
}

DEVICE_TEST(FindsUniqueElements) {
  const Tensor x = some({500}, f32, 50);
  expect_same(on, [&](Device d) { return unique(x.to(d)).values; });
}

}  // namespace
}  // namespace weft
