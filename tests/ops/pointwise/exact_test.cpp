// Comparisons of two dtypes, and numbers out of the range of an integer dtype.
#include <algorithm>
#include <cmath>
#include <complex>

#include <functional>

#include <weft/backends/backend.hpp>
#include <weft/ops/foreach.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/masked.hpp>
#include <weft/ops/pad.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/scatter.hpp>
#include <weft/ops/search.hpp>
#include <weft/ops/subscript.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

using Bools = std::vector<bool>;
__extension__ using Wide = __int128;

constexpr uint64_t largest = std::numeric_limits<uint64_t>::max();
constexpr int64_t lowest = std::numeric_limits<int64_t>::min();
constexpr DType whole_types[] = {boolean, u8, i8, u16, i16, u32, i32, u64, i64};

struct Op {
  const char* name;
  Tensor (*function)(const Operand&, const Operand&);
  bool (*wanted)(int order);  // -1, 0 or 1, or 2 where one is NaN
};
constexpr Op ops[] = {
    {"eq", eq, [](int order) { return order == 0; }},  {"ne", ne, [](int order) { return order != 0; }},
    {"lt", lt, [](int order) { return order == -1; }}, {"le", le, [](int order) { return order == -1 || order == 0; }},
    {"gt", gt, [](int order) { return order == 1; }},  {"ge", ge, [](int order) { return order == 1 || order == 0; }},
};

// Of numbers that long double holds exactly, as it does all of 64 bits and of f64.
int order_of(long double a, long double b) {
  return std::isnan(a + b) && !(std::isinf(a) && std::isinf(b)) ? 2 : a < b ? -1 : a > b;
}

std::vector<Scalar> whole_numbers() {
  std::vector<Scalar> numbers = {0, 1, 2, 3, 7, -1, -2, lowest, lowest + 1, largest, largest - 1};
  for (const int bit : {7, 8, 15, 16, 24, 31, 32, 53, 63}) {
    const uint64_t power = uint64_t{1} << bit;
    for (const uint64_t n : {power - 1, power, power + 1}) {
      numbers.emplace_back(n);
      if (n <= uint64_t{1} << 62) numbers.emplace_back(-static_cast<int64_t>(n));
    }
  }
  return numbers;
}
std::vector<double> real_numbers() {
  std::vector<double> numbers = {0, -0.0, 0.5, 1, 2.5, -0.5, -1.5, 3.5, infinity, -infinity, nan, 1e300, -1e300};
  for (const int bit : {7, 8, 15, 16, 24, 31, 32, 53, 63, 64}) {
    const double power = std::ldexp(1.0, bit);
    for (const double x : {power, power + 0.5, power - 1, std::nextafter(power, 0)}) {
      numbers.push_back(x);
      numbers.push_back(-x);
    }
  }
  return numbers;
}
long double exact(Scalar x) {
  if (x.is_floating()) return x.to<double>();
  return x.held_as() == u64 ? static_cast<long double>(x.to<uint64_t>()) : static_cast<long double>(x.to<int64_t>());
}
bool holds(DType t, Scalar x) {
  const long double v = exact(x), end = std::ldexp(1.0L, static_cast<int>(8 * itemsize(t)) - (is_signed(t) ? 1 : 0));
  if (t == boolean) return v == 0 || v == 1;
  return v < end && v >= (is_signed(t) ? -end : 0);
}

// Elements of the dtype, and their values.
struct Elements {
  Tensor tensor;
  std::vector<long double> values;
};
Elements whole_elements(DType t) {
  Elements e;
  std::vector<Tensor> parts;
  for (const Scalar x : whole_numbers()) {
    if (!holds(t, x)) continue;
    parts.push_back(full({1}, x, t));
    e.values.push_back(exact(x));
  }
  e.tensor = empty({static_cast<int64_t>(parts.size())}, t);
  for (size_t i = 0; i < parts.size(); ++i) e.tensor.narrow(0, static_cast<int64_t>(i), 1).copy_(parts[i]);
  return e;
}
Elements real_elements(DType t) {
  Elements e;
  const std::vector<double> all = real_numbers();
  e.tensor = doubles(all).to(t);
  for (const double x : values(e.tensor)) e.values.push_back(x);
  return e;
}

void expect_compared(const Op& op, const Tensor& actual, const std::vector<long double>& a,
                     const std::vector<long double>& b, const std::string& what) {
  const std::vector<double> found = values(actual);
  for (size_t i = 0, k = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b.size(); ++j, ++k) {
      ASSERT_EQ(found[k] != 0, op.wanted(order_of(a[i], b[j])))
          << op.name << " of " << what << ": " << static_cast<double>(a[i]) << " and " << static_cast<double>(b[j]);
    }
  }
}

TEST(Exact, IntegersAreComparedWithEveryNumber) {
  for (const DType t : whole_types) {
    const Elements e = whole_elements(t);
    std::vector<Scalar> numbers = whole_numbers();
    for (const double x : real_numbers()) numbers.emplace_back(x);
    for (const Scalar number : numbers) {
      for (const Op& op : ops) {
        expect_compared(op, op.function(e.tensor, number), e.values, {exact(number)}, name(t));
        expect_compared(op, op.function(number, e.tensor), {exact(number)}, e.values, name(t));
      }
    }
  }
}

TEST(Exact, FloatsAreComparedWithEveryInteger) {
  for (const DType t : {f16, bf16, f32, f64}) {
    const Elements e = real_elements(t);
    for (const Scalar number : whole_numbers()) {
      for (const Op& op : ops) {
        expect_compared(op, op.function(e.tensor, number), e.values, {exact(number)}, name(t));
        expect_compared(op, op.function(number, e.tensor), {exact(number)}, e.values, name(t));
      }
    }
    const double huge = t == f64 ? infinity : 1e300;  // beyond the dtype it is no infinity
    for (const Op& op : ops) expect_compared(op, op.function(e.tensor, huge), e.values, {huge}, name(t));
    EXPECT_TRUE(eq(full({1}, 0.1, t), 0.1).item<bool>()) << "a fraction is rounded to " << name(t);
  }
}

TEST(Exact, TensorsOfTwoDtypesAreCompared) {
  std::vector<Elements> all;
  for (const DType t : whole_types) all.push_back(whole_elements(t));
  for (const DType t : {f16, bf16, f32, f64}) all.push_back(real_elements(t));
  for (const Elements& a : all) {
    for (const Elements& b : all) {
      const std::string what = std::string(name(a.tensor.dtype())) + " and " + name(b.tensor.dtype());
      for (const Op& op : ops) {
        expect_compared(op, op.function(a.tensor.unsqueeze(1), b.tensor), a.values, b.values, what);
      }
    }
  }
}

TEST(Exact, LongRowsOfIntegersAndFloatsAreCompared) {
  for (const DType whole : {i32, u32, i64, u64}) {
    const Elements some = whole_elements(whole);
    std::vector<long double> chosen;
    constexpr int64_t n = 1500;  // more than a block
    for (int64_t i = 0; i < n; ++i) chosen.push_back(some.values[static_cast<size_t>(i * i) % some.values.size()]);
    const Tensor places = remainder(square(arange(0, n, 1, {i64})), some.tensor.numel());
    const Tensor a = index_select(some.tensor, 0, places);
    for (const DType real : {f16, bf16, f32, f64}) {
      const Tensor b = a.to(real), shifted = b.roll({1}, {0});
      for (const Op& op : ops) {
        const Bools near = op.function(a, b).to_vector<bool>(), far = op.function(shifted, a).to_vector<bool>();
        const Bools strided = op.function(a.slice(0, 0, n, 3), b.slice(0, 0, n, 3)).to_vector<bool>();
        const Doubles wide = b.to_vector<double>();
        for (size_t i = 0; i < static_cast<size_t>(n); ++i) {
          const long double x = chosen[i];
          const size_t before = (i + static_cast<size_t>(n) - 1) % static_cast<size_t>(n);
          ASSERT_EQ(near[i], op.wanted(order_of(x, wide[i]))) << name(whole) << op.name << name(real) << i;
          ASSERT_EQ(far[i], op.wanted(order_of(wide[before], x))) << name(whole) << op.name << name(real) << i;
          ASSERT_EQ(strided[i / 3], near[i / 3 * 3]);
        }
      }
    }
  }
}

TEST(Exact, TensorsOfOneElementAreNotWeak) {
  const Tensor u = tensor({3}, u8);
  EXPECT_FALSE(eq(u, tensor(259)).item<bool>());
  EXPECT_TRUE(lt(u, tensor(256)).item<bool>());
  EXPECT_TRUE(gt(u, tensor(-1)).item<bool>());
  EXPECT_FALSE(eq(tensor({16777217}), tensor(16777216.f)).item<bool>());
  EXPECT_TRUE(eq(tensor({0.1f}), tensor(0.1, f64)).item<bool>());  // fractions are
  EXPECT_TRUE(eq(u, std::complex<double>(3, 0)).item<bool>());
  EXPECT_FALSE(eq(u, std::complex<double>(3, 1)).item<bool>());
  EXPECT_FALSE(eq(tensor({16777217}), tensor({std::complex<float>(16777216, 0)})).item<bool>());
  EXPECT_THROW(lt(tensor({1}), tensor({std::complex<float>(1, 0)})), DTypeError);
}

TEST(Exact, LogicTakesEveryNumberButZeroAsTrue) {
  const Tensor u = tensor({0, 3}, u8);
  EXPECT_EQ(logical_and(u, 256).to_vector<bool>(), (Bools{false, true}));
  EXPECT_EQ(logical_xor(u, 0.5).to_vector<bool>(), (Bools{true, false}));
  const Tensor z = tensor({std::complex<float>(0, 2), std::complex<float>(0, 0)});
  EXPECT_EQ(logical_and(z, z).to_vector<bool>(), (Bools{true, false}));
  EXPECT_EQ(logical_xor(z, 1).to_vector<bool>(), (Bools{false, true}));
  EXPECT_EQ(logical_or(zeros({2}), tensor(1e-60, f64)).to_vector<bool>(), (Bools{true, true}));
}

TEST(Exact, ElementsAreFoundAmongOthersOfAnyDtype) {
  const Tensor u = tensor({3, 44}, u8);
  EXPECT_EQ(isin(u, 259).to_vector<bool>(), (Bools{false, false}));
  EXPECT_EQ(isin(u, tensor({300, 3})).to_vector<bool>(), (Bools{true, false}));
  EXPECT_EQ(isin(u, tensor(300)).to_vector<bool>(), (Bools{false, false}));
  EXPECT_EQ(isin(300, u).to_vector<bool>(), (Bools{false}));
  EXPECT_EQ(isin(u, tensor({3.5, 44.0})).to_vector<bool>(), (Bools{false, true}));
  const Tensor wide = tensor({(int64_t{1} << 53) + 1, int64_t{1} << 53, int64_t{-1}});
  EXPECT_EQ(isin(wide, doubles({0x1p53, nan, 1e300})).to_vector<bool>(), (Bools{false, true, false}));
  EXPECT_EQ(isin(doubles({0x1p53, nan, 1e300, -1}), wide, true).to_vector<bool>(), (Bools{false, true, true, false}));
  EXPECT_EQ(isin(wide, tensor({largest}, u64)).to_vector<bool>(), (Bools{false, false, false}));
  EXPECT_EQ(isin(tensor({largest, uint64_t{1} << 53}, u64), wide).to_vector<bool>(), (Bools{false, true}));
}

// Positions by counting.
TEST(Exact, PlacesAreFoundForNumbersOfAnyDtype) {
  const auto sorted_of = [](Elements e) {
    std::vector<size_t> order;
    for (size_t i = 0; i < e.values.size(); ++i) {
      if (!std::isnan(e.values[i])) order.push_back(i);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t i, size_t j) { return e.values[i] < e.values[j]; });
    std::vector<int64_t> index(order.begin(), order.end());
    Elements out{index_select(e.tensor, 0, tensor(index)), {}};
    for (const size_t i : order) out.values.push_back(e.values[i]);
    return out;
  };
  std::vector<Elements> all;
  for (const DType t : {u8, i8, u16, i32, u64, i64}) all.push_back(whole_elements(t));
  for (const DType t : {bf16, f32, f64}) all.push_back(real_elements(t));
  for (const Elements& given : all) {
    const Elements sorted = sorted_of(given);
    const auto wanted = [&](long double x, bool right) {
      int64_t count = 0;
      for (const long double s : sorted.values) count += std::isnan(x) || s < x || (right && s == x);
      return count;
    };
    const auto expect = [&](const Tensor& found, const std::vector<long double>& of, bool right, DType type) {
      const auto actual = found.to_vector<int64_t>();
      for (size_t i = 0; i < of.size(); ++i) {
        ASSERT_EQ(actual[i], wanted(of[i], right))
            << name(sorted.tensor.dtype()) << " " << name(type) << " " << static_cast<double>(of[i]);
      }
    };
    for (const bool right : {false, true}) {
      for (const Elements& e : all) {
        expect(searchsorted(sorted.tensor, e.tensor, {.right = right}), e.values, right, e.tensor.dtype());
        expect(bucketize(e.tensor, sorted.tensor, right), e.values, right, e.tensor.dtype());
      }
      for (const Scalar x : whole_numbers())
        expect(searchsorted(sorted.tensor, x, {.right = right}), {exact(x)}, right, i64);
      if (is_floating(sorted.tensor.dtype())) continue;  // where fractions are rounded
      for (const double x : real_numbers()) expect(searchsorted(sorted.tensor, x, {.right = right}), {x}, right, f64);
    }
  }
}

TEST(Exact, ArithmeticRefusesNumbersBeyondTheDtype) {
  const Tensor u = tensor({3}, u8), i = tensor({3}, i8), w = tensor({3}, i64);
  using Function = Tensor (*)(const Operand&, const Operand&);
  for (const Function op :
       {Function(add), Function(sub), Function(mul), Function(pow), Function(floor_divide), Function(trunc_divide),
        Function(remainder), Function(fmod), Function(heaviside), Function(bitwise_and), Function(bitwise_or),
        Function(bitwise_xor), Function(bitwise_left_shift), Function(bitwise_right_shift), Function(gcd),
        Function(lcm)}) {
    EXPECT_THROW(op(u, 300), ValueError);
    EXPECT_THROW(op(300, u), ValueError);
    EXPECT_THROW(op(i, -129), ValueError);
    EXPECT_THROW(op(w, largest), ValueError);
    EXPECT_THROW(op(u, tensor(300)), ValueError);
    EXPECT_THROW(op(u, tensor(-300)), ValueError);
    EXPECT_NO_THROW(op(u, tensor(5)));
  }
  using InPlace = const Tensor& (*)(const Tensor&, const Operand&);
  for (const InPlace op : {InPlace(add_), InPlace(mul_), InPlace(pow_), InPlace(floor_divide_), InPlace(remainder_),
                           InPlace(bitwise_and_)}) {
    EXPECT_THROW(op(u, 300), ValueError);
    EXPECT_THROW(op(u, tensor(300)), ValueError);
  }
  EXPECT_THROW(add_out(u, u, 300), ValueError);
  EXPECT_EQ(values(u), (Doubles{3}));
  // -1 is 255 where only the bits count, and nothing where the order does.
  EXPECT_EQ(values(u + -1), (Doubles{2}));
  EXPECT_EQ(values(bitwise_and(u, -2)), (Doubles{2}));
  EXPECT_THROW(remainder(u, -2), ValueError);
  EXPECT_THROW(floor_divide(u, tensor(-2)), ValueError);
  EXPECT_THROW(floor_divide(u, 256), ValueError);
  EXPECT_THROW(add(u, u, 300), ValueError);
  EXPECT_THROW(addcmul(u, u, u, 300), ValueError);
  EXPECT_THROW(foreach_add(std::vector<Tensor>{u}, 300), ValueError);
  EXPECT_THROW(foreach_mul_(std::vector<Tensor>{u}, 300), ValueError);
  EXPECT_EQ(values(tensor({3.f}) + 300), (Doubles{303}));
  EXPECT_EQ((tensor({true}) + 300).item<int>(), 301);
}

TEST(Exact, ValuesBeyondTheDtypeAreNotWritten) {
  const Tensor u = tensor({3}, u8), mask = tensor({true}), first = tensor({0});
  for (const Tensor& value : {tensor(300), tensor(-300), Operand(300).tensor()}) {
    EXPECT_THROW(where(mask, u, value), ValueError);
    EXPECT_THROW(masked_fill(u, mask, value), ValueError);
    EXPECT_THROW(masked_fill_(u, mask, value), ValueError);
    EXPECT_THROW(index_fill(u, 0, first, value), ValueError);
    EXPECT_THROW(index_fill_(u, 0, first, value), ValueError);
  }
  EXPECT_THROW(scatter(u, 0, first, 300), ValueError);
  for (const bool adds : {false, true}) {
    EXPECT_THROW(index_put(u, {first}, 300, adds), ValueError);
    EXPECT_THROW(index_put_(u, {first}, 300, adds), ValueError);
  }
  EXPECT_THROW(u[0] = 300, ValueError);
  EXPECT_THROW(u[first] += 300, ValueError);
  EXPECT_THROW(pad(u, {1, 1}, Padding::constant, 300), ValueError);
  EXPECT_THROW(u.fill_(300), ValueError);
  EXPECT_THROW(full_like(u, 300), ValueError);
  EXPECT_EQ(values(u), (Doubles{3}));
}

TEST(Exact, BoundsBeyondTheDtypeLimitNothing) {
  const Tensor u = tensor({0, 3, 255}, u8);
  const Doubles all = {0, 3, 255};
  EXPECT_EQ(values(clip(u, -5, 300)), all);
  EXPECT_EQ(values(clamp(u, -5, 300)), all);
  EXPECT_EQ(values(clamp(u, tensor(-5), tensor(300))), all);
  EXPECT_EQ(values(u.clamp(tensor(-5), tensor(300))), all);
  EXPECT_EQ(values(u.clone().clamp_(-5, 300)), all);
  EXPECT_EQ(values(u.clone().clamp_(tensor(-5), tensor(300))), all);
  EXPECT_EQ(clamp(u, tensor(-5), tensor(300)).dtype(), u8);
  EXPECT_EQ(u.clamp(tensor({-5, -5, 4})).dtype(), i64);
  EXPECT_EQ(values(u.clone().clamp_(tensor({-5, 4, 4}))), (Doubles{0, 4, 255}));
  EXPECT_THROW(u.clone().clamp_(0.5), DTypeError);
  EXPECT_EQ(clip(u, 0.5, {}).dtype(), f32);
  EXPECT_EQ(clip(tensor({true}), 0, {}).dtype(), i64);
}

TEST(Exact, BoundsBeyondTheDtypeThatWouldBeTheResultAreRefused) {
  for (const DType t : {u8, i8, u16, i16, u32, i32, u64, i64}) {
    const Tensor x = tensor({0, 3, 100}, t);
    const Doubles all = {0, 3, 100};
    std::vector<Scalar> above, below;
    if (t != u64) above.emplace_back(largest);
    if (t != i64) below.emplace_back(lowest);
    if (itemsize(t) < 8) above.emplace_back(int64_t{1} << 40), below.emplace_back(-(int64_t{1} << 40));
    const auto expect = [&](Scalar bound, bool upper, bool refused) {
      const std::function<Tensor(const Operand&)> forms[] = {
          [&](const Operand& n) { return upper ? minimum(x, n) : maximum(x, n); },
          [&](const Operand& n) { return upper ? fmin(n, x) : fmax(n, x); },
          [&](const Operand& n) { return Tensor(upper ? x.clone().minimum_(n) : x.clone().maximum_(n)); },
          [&](const Operand& n) {
            const std::vector<Tensor> list = {x};
            return upper ? foreach_minimum(list, n)[0] : foreach_maximum(list, n)[0];
          },
          [&](const Operand& n) { return upper ? clamp(x, 0, n) : clamp(x, n, 100); },
          [&](const Operand& n) { return upper ? x.clamp({}, n.tensor()) : x.clamp(n.tensor()); },
          [&](const Operand& n) {
            return Tensor(upper ? x.clone().clip_({}, n.tensor()) : x.clone().clip_(n.tensor()));
          }};
      const auto try_forms = [&](const Operand& n) {
        for (const auto& form : forms) {
          if (refused) EXPECT_THROW(form(n), ValueError) << name(t) << ", form " << &form - forms;
          else EXPECT_EQ(values(form(n)), all) << name(t) << ", form " << &form - forms;
        }
      };
      try_forms(bound);
      const Tensor held = full(Dims(), bound, bound.held_as());
      try_forms(held);
      const auto low = upper ? std::nullopt : std::optional(bound), high = upper ? std::optional(bound) : std::nullopt;
      if (refused) EXPECT_THROW(clip(x, low, high), ValueError);
      else EXPECT_EQ(values(clip(x, low, high)), all);
      if (refused) EXPECT_THROW(upper ? hardtanh(x, 0, bound) : hardtanh(x, bound, largest), ValueError) << name(t);
      else EXPECT_EQ(values(upper ? hardtanh(x, 0, bound) : hardtanh(x, bound, 100)), all) << name(t);
    };
    for (const Scalar bound : above) expect(bound, true, false), expect(bound, false, true);
    for (const Scalar bound : below) expect(bound, true, true), expect(bound, false, false);
    EXPECT_EQ(values(hardtanh(x, -infinity, infinity)), all);
    EXPECT_THROW(hardtanh(x, 1e30, 1e31), ValueError);
    EXPECT_THROW(hardtanh(x, 0, nan), ValueError);
    // A threshold is compared alone.
    for (const Scalar edge : above) EXPECT_EQ(values(threshold(x, edge, 7)), (Doubles{7, 7, 7})) << name(t);
    for (const Scalar edge : below) EXPECT_EQ(values(threshold(x, edge, 7)), all) << name(t);
    EXPECT_EQ(values(threshold(x, 1e30, 7)), (Doubles{7, 7, 7}));
    EXPECT_EQ(values(threshold(x, -infinity, 7)), all);
    for (const Scalar value : above) EXPECT_THROW(threshold(x, 1, value), ValueError) << name(t);
  }
}

TEST(Exact, NoGradientIsLostBetweenBounds) {
  struct Case {
    double x, low, high;
    Doubles gradients;
  };
  for (const Case& c : {Case{-1.25, 0, 0, {0, 1, 0}}, Case{-1.25, -1, 1, {0, 1, 0}}, Case{2, 0, 0, {0, 0, 1}},
                        Case{0.5, 0, 1, {1, 0, 0}}, Case{0, 0, 0, {1, 0, 0}}, Case{0.5, 1, -1, {0, 0, 1}},
                        Case{-2, 1, -1, {0, 0, 1}}, Case{2, 1, -1, {0, 0, 1}}, Case{2, nan, 1, {1, 0, 0}}}) {
    const Tensor x = tensor(c.x, f64).requires_grad_(), low = tensor(c.low, f64).requires_grad_(),
                 high = tensor(c.high, f64).requires_grad_();
    clamp(x, low, high).backward();
    if (!std::isnan(c.low)) {
      EXPECT_EQ((Doubles{x.grad().item<double>(), low.grad().item<double>(), high.grad().item<double>()}), c.gradients)
          << c.x << " in " << c.low << ", " << c.high;
    }
    EXPECT_EQ(std::isnan(clamp(x, low, high).item<double>()), std::isnan(c.low));
  }
}

TEST(Exact, BoundsHaveGradients) {
  for (const Dims& shape : {Dims(), Dims(3), Dims{2, 1}}) {
    expect_gradients(
        [](Inputs in) {
          const Tensor y = in[0] * 1;
          return y.clamp_(in[1], in[2]) * in[0];
        },
        {leaf({2, 3}), spread(shape, 3, -1, -0.5).requires_grad_(), spread(shape, 4, 0.2, 1).requires_grad_()});
    expect_gradients([](Inputs in) { return in[0].clamp(in[1]); },
                     {leaf({2, 3}), spread(shape, 3, -1, 1).requires_grad_()});
    expect_gradients([](Inputs in) { return in[0].clip({}, in[1]); },
                     {leaf({2, 3}), spread(shape, 3, -1, 1).requires_grad_()});
  }
  const Tensor x = tensor({1.f, 2.f}).requires_grad_(), low = tensor(1.f).requires_grad_();
  x.clamp(low).sum().backward();  // an element equal to a bound keeps its gradient
  EXPECT_EQ(values(x.grad()), (Doubles{1, 1}));
  EXPECT_EQ(low.grad().item<double>(), 0);
}

TEST(Exact, DevicesEqualTheCpu) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "no HPU";
  const auto expect = [](const std::function<Tensor(Inputs)>& f, const std::vector<Tensor>& in) {
    std::vector<Tensor> there;
    for (const Tensor& t : in) there.push_back(t.to("hpu"));
    const Tensor near = f(in), far = f(there);
    ASSERT_EQ(far.device().type, DeviceType::hpu);
    EXPECT_EQ(near.dtype(), far.dtype());
    expect_near(values(far.to("cpu")), values(near), 1e-6);
  };
  const Tensor u = tensor({0, 3, 255}, u8), w = tensor({(int64_t{1} << 24) + 1, int64_t{-1}, int64_t{255}});
  const Tensor f = tensor({0x1p24f, -1.5f, 255.f}), n = tensor({largest, uint64_t{3}, uint64_t{255}}, u64);
  for (const Op& op : ops) {
    for (const Scalar x : {Scalar(300), Scalar(-1), Scalar(2.5), Scalar(infinity)}) {
      expect([&](Inputs in) { return op.function(in[0], x); }, {u});
    }
    expect([&](Inputs in) { return op.function(in[0], in[1]); }, {w, f});
    expect([&](Inputs in) { return op.function(in[0], in[1]); }, {n, w});
    expect([&](Inputs in) { return op.function(in[0], in[1]); }, {u, tensor(300)});
  }
  expect([](Inputs in) { return isin(in[0], in[1]); }, {w, f});
  expect([](Inputs in) { return searchsorted(in[0], in[1]); }, {u, w});
  expect([](Inputs in) { return clamp(in[0], in[1], in[2]); }, {u, tensor(-5), tensor(300)});
  expect([](Inputs in) { return Tensor(in[0].clone().mul_(in[1])); }, {tensor({1, 2, 3}, i8), w});
  expect([](Inputs in) { return maximum(in[0], in[1]); }, {u, tensor(-300)});
  expect([](Inputs in) { return minimum(in[0], 300); }, {u});
  EXPECT_THROW(maximum(u.to("hpu"), tensor(300).to("hpu")), ValueError);
  EXPECT_THROW(u.to("hpu").clamp(tensor(300).to("hpu")), ValueError);
  EXPECT_THROW(u.to("hpu") + 300, ValueError);
  using Z = std::complex<double>;
  for (const DType t : {c64, c128}) {
    const Tensor z = tensor({Z(1, 2), Z(0, -1), Z(3, 0)}, t), m = tensor({true, false, true});
    expect([](Inputs in) { return addcmul(in[0], in[0], in[1], Z(0.5, 1)); }, {z, z});
    expect([](Inputs in) { return addcdiv(in[0], in[0], in[1], -1.5); }, {z, z});
    expect([](Inputs in) { return lerp(in[0], in[1], Z(0.5, 1)); }, {z, z * 2});
    expect([](Inputs in) { return masked_fill(in[0], in[1], Z(4, 5)); }, {z, m});
    expect([](Inputs in) { return Tensor(in[0].clone().fill_(Z(4, 5))); }, {z});
    expect([](Inputs in) { return nan_to_num(in[0] / 0.0, 3, 5); }, {z});
    expect([](Inputs in) { return full_like(in[0], Z(4, 5)); }, {z});
    EXPECT_EQ(count_nonzero(z.to("hpu")).item<int64_t>(), 3);
    expect([](Inputs in) { return logaddexp(in[0], in[1]); }, {z, z * 2});
    expect([](Inputs in) { return sinc(in[0]); }, {z / 4});
    expect([](Inputs in) { return softsign(in[0]); }, {z});
    expect([](Inputs in) { return eq(in[0], in[1]); }, {z, z * tensor({1., 2., 1.}, t)});
    expect([](Inputs in) { return ne(in[0], Z(3, 0)); }, {z});
    expect([](Inputs in) { return logical_and(in[0], in[1]); }, {z, z * 0});
  }
}

}  // namespace
}  // namespace weft::testing
