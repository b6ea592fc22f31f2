// weft::map on devices: a function that is one row of backends/functors/ runs that row's kernel and agrees with the
// CPU's loop; other functions raise with the remedy.
#define WEFT_MAP_ONE_TARGET
#include <algorithm>

#include <weft/autograd/engine.hpp>
#include <weft/backends/watch/observe.hpp>
#include <weft/map/map.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>

#include "../backends/device_checks.hpp"

namespace weft {
namespace {

using namespace test;
using ::testing::AllOf;
using ::testing::HasSubstr;

// ---- which row a function is ----------------------------------------------------------------------------------------

template <class F>
math::Row row_of(const F& f) {
  return detail::map_program<F, 3>.row(&f);
}
void expect_row(const math::Row& row, math::Row::Family family, int op, const std::vector<int>& arguments) {
  EXPECT_EQ(row.family, family);
  EXPECT_EQ(row.op, op);
  for (size_t k = 0; k < arguments.size(); ++k) EXPECT_EQ(row.operands[k].argument, arguments[k]);
}

TEST(MapRow, EveryRowIsFoundByItsName) {
  const math::Term x = math::Term::argument(0), y = math::Term::argument(1), z = math::Term::argument(2);
#define WEFT_EXPECT(name, ...) expect_row(name(x).row(), math::Row::unary, static_cast<int>(UnaryOp::name), {0});
  WEFT_UNARY_OPS(WEFT_EXPECT)
#undef WEFT_EXPECT
#define WEFT_EXPECT(name, ...) \
  expect_row(name(y, x).row(), math::Row::binary, static_cast<int>(BinaryOp::name), {1, 0});
  WEFT_BINARY_OPS(WEFT_EXPECT)
#undef WEFT_EXPECT
#define WEFT_EXPECT(name, ...) \
  expect_row(name(z, x, 2).row(), math::Row::ternary, static_cast<int>(TernaryOp::name), {2, 0, -1});
  WEFT_TERNARY_OPS(WEFT_EXPECT)
#undef WEFT_EXPECT
}

TEST(MapRow, OperatorsAreRows) {
  const auto binary = [](BinaryOp op) { return static_cast<int>(op); };
  const auto compare = [](CompareOp op) { return static_cast<int>(op); };
  using math::Row;
  expect_row(row_of([](auto x, auto y, auto) { return x + y; }), Row::binary, binary(BinaryOp::add), {0, 1});
  expect_row(row_of([](auto x, auto, auto z) { return z - x; }), Row::binary, binary(BinaryOp::sub), {2, 0});
  expect_row(row_of([](auto x, auto, auto) { return x *= x; }), Row::binary, binary(BinaryOp::mul), {0, 0});
  expect_row(row_of([](auto x, auto, auto) { return 1 / x; }), Row::binary, binary(BinaryOp::div), {-1, 0});
  expect_row(row_of([](auto, auto y, auto) { return -y; }), Row::unary, static_cast<int>(UnaryOp::neg), {1});
  expect_row(row_of([](auto x, auto y, auto) { return x == y; }), Row::compare, compare(CompareOp::eq), {0, 1});
  expect_row(row_of([](auto x, auto y, auto) { return x != y; }), Row::compare, compare(CompareOp::ne), {0, 1});
  expect_row(row_of([](auto x, auto y, auto) { return x < y; }), Row::compare, compare(CompareOp::lt), {0, 1});
  expect_row(row_of([](auto x, auto y, auto) { return x <= y; }), Row::compare, compare(CompareOp::le), {0, 1});
  expect_row(row_of([](auto x, auto y, auto) { return x > y; }), Row::compare, compare(CompareOp::gt), {0, 1});
  expect_row(row_of([](auto x, auto y, auto) { return x >= y; }), Row::compare, compare(CompareOp::ge), {0, 1});
}

TEST(MapRow, NumbersAreExact) {
  const int64_t large = (int64_t{1} << 62) + 1;
  EXPECT_EQ(row_of([large](auto x, auto, auto) { return x + large; }).operands[1].number.to<int64_t>(), large);
  EXPECT_EQ(row_of([](auto x, auto, auto) { return pow(0.1, x); }).operands[0].number.to<double>(), 0.1);
}

TEST(MapRow, NothingElseIsOne) {
  EXPECT_THROW(row_of([](auto x, auto y, auto) { return x * exp(-y); }), math::NotARow);
  EXPECT_THROW(row_of([](auto x, auto y, auto) { return x > 0 ? x : y; }), math::NotARow);
  EXPECT_THROW(row_of([](auto x, auto y, auto) { return x > 0 || y > 0; }), math::NotARow);
  EXPECT_THROW(row_of([](auto x, auto y, auto) { return select(x > 0, x, y); }), math::NotARow);
  EXPECT_THROW(row_of([](auto x, auto y, auto) { return (x > 0) * y; }), math::NotARow);
  EXPECT_THROW(row_of([](auto x, auto, auto) {
                 while (x > 1) x = x - 1;
                 return x;
               }),
               math::NotARow);
  EXPECT_EQ(row_of([](auto x, auto, auto) { return x; }).family, math::Row::none);
  EXPECT_EQ(row_of([](auto, auto, auto) { return 2.5; }).family, math::Row::none);
}

// ---- on devices -----------------------------------------------------------------------------------------------------

constexpr DType computed[] = {boolean, u8, i8, u16, i16, u32, i32, i64, f16, bf16, f32, f64};

/// The result of f for the operands there, and the gradients of floating ones.
template <class F, class... Operands>
std::vector<Tensor> mapped_on(Device d, const F& f, const Operands&... operands) {
  const auto leaf = [&](const Tensor& t) {
    return is_floating(t.dtype()) ? t.to(d).clone().requires_grad_() : t.to(d);
  };
  const std::vector<Tensor> x = {leaf(operands)...};
  const Tensor out = [&]<size_t... k>(std::index_sequence<k...>) { return map(f, x[k]...); }
  (std::index_sequence_for<Operands...>());
  EXPECT_TRUE(out.is_contiguous());
  EXPECT_EQ(out.device(), d);
  std::vector<Tensor> results = {out};
  if (!out.requires_grad()) return results;
  sum(out.to(f64) * 3.0).backward();
  for (const Tensor& t : x) {
    if (t.requires_grad()) results.push_back(t.grad().defined() ? t.grad() : zeros_like(t));
  }
  return results;
}
template <class F, class... Operands>
void expect_the_cpus(Device on, const F& f, const Tensor& first, const Operands&... others) {
  const std::vector<Tensor> actual = mapped_on(on, f, first, others...), expected = mapped_on({}, f, first, others...);
  ASSERT_EQ(actual.size(), expected.size());
  const double error = tolerance_of(first.dtype());
  for (size_t i = 0; i < actual.size(); ++i) expect_near(actual[i], expected[i], error, error);
}
#define WEFT_EXPECT_UNARY(...) \
  expect_the_cpus(             \
      on, []([[maybe_unused]] auto x) { return __VA_ARGS__; }, x)
#define WEFT_EXPECT_BINARY(...) \
  expect_the_cpus(              \
      on, []([[maybe_unused]] auto x, auto y) { return __VA_ARGS__; }, x, y)

DEVICE_TEST(MapsByTheKernelOfARow) {
  for (const DType t : computed) {
    SCOPED_TRACE(name(t));
    const Tensor x = (rand({3, 40}) * 3.0 + 0.5).to(t), y = (rand({3, 40}) * 3.0 + 1.0).to(t);
    WEFT_EXPECT_UNARY(exp(x));
    WEFT_EXPECT_UNARY(-x);
    WEFT_EXPECT_UNARY(gelu_tanh(x));
    WEFT_EXPECT_UNARY(square(x));
    WEFT_EXPECT_UNARY(2 * x);
    WEFT_EXPECT_UNARY(x * 0.5);
    WEFT_EXPECT_UNARY(x + 300);
    WEFT_EXPECT_UNARY(clamp(x, 1, 2));
    WEFT_EXPECT_UNARY(x > 1.5);
    WEFT_EXPECT_BINARY(x + y);
    WEFT_EXPECT_BINARY(x - y);
    WEFT_EXPECT_BINARY(y / x);
    WEFT_EXPECT_BINARY(maximum(x, y));
    WEFT_EXPECT_BINARY(swiglu(y, x));
    WEFT_EXPECT_BINARY(addcmul(x, y, y));
    WEFT_EXPECT_BINARY(x <= y);
    WEFT_EXPECT_BINARY(sqrt(y));  // an operand that is not read
  }
}

DEVICE_TEST(MapsBroadcastAndPromotedOperands) {
  const Tensor column = rand({3, 1}), row = randint(1, 9, {4}), x = rand({4, 3}).t(), y = rand({1}).to(f16);
  const auto product = [](auto a, auto b) { return a * b; };
  expect_the_cpus(on, product, column, row);
  expect_the_cpus(on, product, row, column);
  expect_the_cpus(on, product, x, y);
  expect_the_cpus(
      on, [](auto, auto b) { return exp(b); }, x, y);
  expect_the_cpus(on, product, zeros({0, 3}), column.select(0, 0).expand({3}));
  EXPECT_EQ(map(product, column.to(on), 2).shape(), column.shape());
}

struct KernelNames : KernelObserver {
  std::vector<std::string> names;
  void before(const KernelCall& call) override { names.push_back(call.kernel); }
};

DEVICE_TEST(MapsByOneKernelForwardAndOneBack) {
  const Tensor x = rand({50}).to(on).requires_grad_();
  KernelNames seen;
  const ObserverGuard guard(seen);
  const Tensor y = map([](auto v) { return tanh(v); }, x);
  EXPECT_THAT(seen.names, ::testing::ElementsAre("unary"));
  seen.names.clear();
  y.backward(ones_like(x));
  EXPECT_THAT(seen.names, ::testing::Contains("unary_gradient"));
}

DEVICE_TEST(UnsupportedFunctionsRaiseWithARemedy) {
  const Tensor x = rand({2, 3}).to(on);
  std::string words;
  try {
    map([](auto a, auto b) { return a * exp(-b); }, x, x);
  } catch (const NotImplementedError& e) {
    words = e.what();
  }
  EXPECT_THAT(words, AllOf(HasSubstr("[map] on " + on.name()), HasSubstr("float32 [2, 3]"), HasSubstr("register an op"),
                           HasSubstr("move the operands to cpu"), HasSubstr("map_device_test.cpp")));
  EXPECT_LE(std::count(words.begin(), words.end(), '\n'), 2);
  EXPECT_THROW(map([](auto a) { return a > 0 ? a : 0.0; }, x), NotImplementedError);
  EXPECT_THROW(map([](auto a) { return a; }, x), NotImplementedError);
  EXPECT_THROW(map([](auto a) { return -a; }, x.to(u64)), DTypeError);
}

}  // namespace
}  // namespace weft
