// Writes to x[…]: stored values, their order, and no change after an error.
#include <algorithm>

#include <weft/autograd/mode.hpp>
#include <weft/ops/subscript.hpp>
#include <weft/tensor/threads.hpp>

#include "ops/samples.hpp"

namespace weft::testing {
namespace {

using Numbers = std::vector<double>;
Numbers v(const Tensor& t) { return t.to_vector<double>(); }
Tensor counted(const Dims& shape) { return arange(shape.product()).view(shape); }
Tensor mask(std::initializer_list<int> bits, const Dims& shape) {
  return tensor(std::span(bits.begin(), bits.size()), shape, boolean);
}
const Slice colon;

/// The error's text; x and its version must be as before.
template <class E>
std::string refused(const Tensor& x, const std::function<void()>& write) {
  const Numbers before = v(x);
  const uint32_t version = x.version();
  std::string text = "no such error";
  try {
    write();
  } catch (const E& e) {
    text = e.what();
  }
  EXPECT_EQ(v(x), before);
  EXPECT_EQ(x.version(), version);
  EXPECT_LE(std::count(text.begin(), text.end(), '\n'), 2) << text;
  return text;
}
#define EXPECT_REFUSED(E, x, write, words)                                          \
  do {                                                                              \
    const std::string text_ = refused<E>(x, [&] { write; });                        \
    EXPECT_NE(text_.find(words), std::string::npos) << #write << ": " << text_;     \
    EXPECT_NE(text_.find("subscript_write_test.cpp:"), std::string::npos) << text_; \
  } while (false)

// ---- values ---------------------------------------------------------------------------------------------------------

TEST(SetItem, WritesIntoViews) {
  const Tensor x = zeros({2, 3}, i64);
  x[0] = 7;
  x[{1, Slice(none, none, -1)}] = tensor({1, 2, 3});
  EXPECT_EQ(v(x), (Numbers{7, 7, 7, 3, 2, 1}));
  x[{colon, 1}] = tensor({4, 5}).view({1, 1, 2});  // leading sizes of 1 beyond the rank
  EXPECT_EQ(v(x), (Numbers{7, 4, 7, 3, 5, 1}));
  x[Ellipsis] = 0;
  x[{1, 2}] = x[{0, 0}] + 9;
  EXPECT_EQ(v(x), (Numbers{0, 0, 0, 0, 0, 9}));
  EXPECT_EQ((x[0] = 1).impl(), x.impl());
}

TEST(SetItem, BroadcastsAndCasts) {
  const Tensor x = zeros({2, 3}, i64);
  x[colon] = tensor({{1.9}, {-1.9}});
  EXPECT_EQ(v(x), (Numbers{1, 1, 1, -1, -1, -1}));
  x[{{0, 1}, {2, 2}}] = tensor(2.9);
  EXPECT_EQ(v(x), (Numbers{1, 1, 2, -1, -1, 2}));
  x[{colon, {0}}] = 5.7;
  x[x < 0] = -3.9;
  EXPECT_EQ(v(x), (Numbers{5, 1, 2, 5, -3, 2}));
  const Tensor b = zeros({3}, boolean);
  b[{1}] = 2;
  b[{{2}}] = 0.5;
  EXPECT_EQ(v(b), (Numbers{0, 1, 1}));
}

TEST(SetItem, ScalarsAreExact) {
  const Tensor x = zeros({2, 2}, i64), y = zeros({3}, i32);
  x[{0, 0}] = int64_t{9007199254740993};
  x[{{0}, {1}}] = int64_t{9007199254740993};
  x[mask({0, 0, 1, 0}, {2, 2})] = int64_t{9007199254740993};
  x[{true, 1, 1}] = int64_t{9007199254740993};
  EXPECT_EQ(x.to_vector<int64_t>(), std::vector<int64_t>(4, 9007199254740993));
  y[0] = 16777217;
  y[{{1}}] = 16777217;
  y[mask({0, 0, 1}, {3})] = 16777217;
  EXPECT_EQ(y.to_vector<int32_t>(), std::vector<int32_t>(3, 16777217));
}

TEST(SetItem, MasksTakeScalarsRowsAndOneValueEach) {
  const Tensor x = zeros({2, 3}), m = mask({1, 0, 1, 0, 1, 0}, {2, 3});
  x[m] = tensor({1., 2., 3.});
  EXPECT_EQ(v(x), (Numbers{1, 0, 2, 0, 3, 0}));
  x[m] = tensor({9.});
  EXPECT_EQ(v(x), (Numbers{9, 0, 9, 0, 9, 0}));
  x[mask({0, 1}, {2})] = tensor({1., 2., 3.});
  EXPECT_EQ(v(x), (Numbers{9, 0, 9, 1, 2, 3}));
  x[mask({1, 1}, {2})] = tensor({{4.}, {5.}});
  EXPECT_EQ(v(x), (Numbers{4, 4, 4, 5, 5, 5}));
  x[{colon, mask({1, 0, 1}, {3})}] = tensor({{1., 2.}, {3., 4.}});
  EXPECT_EQ(v(x), (Numbers{1, 4, 2, 3, 5, 4}));
  x.t()[m.t()] = tensor({1., 2., 3.});  // in the order of the transposed elements
  EXPECT_EQ(v(x), (Numbers{1, 4, 3, 3, 2, 4}));
  EXPECT_REFUSED(ShapeError, x, x[m] = tensor({1., 2.}),
                 "[setitem] a value of shape [2] does not broadcast to the selected shape [3]");
  EXPECT_REFUSED(ShapeError, x, (x[mask({1, 1}, {2})] = tensor({1., 2.})), "does not broadcast");
}

TEST(SetItem, BoolsWriteAllOrNothing) {
  const Tensor x = zeros({2});
  x[true] = 3;
  EXPECT_EQ(v(x), (Numbers{3, 3}));
  x[false] = 4;
  x[tensor(false)] = zeros({0, 2});
  EXPECT_EQ(v(x), (Numbers{3, 3}));
  x[true] = tensor({{1., 2.}});
  EXPECT_EQ(v(x), (Numbers{1, 2}));
  EXPECT_REFUSED(ShapeError, x, x[false] = zeros({3, 2}), "[3, 2] does not broadcast to the selected shape [0, 2]");
}

TEST(SetItem, TheLastDuplicateWins) {
  const Tensor x = zeros({2, 3});
  x[{colon, {0, 0}}] = tensor({{1., 2.}, {3., 4.}});
  EXPECT_EQ(v(x), (Numbers{2, 0, 0, 4, 0, 0}));
  const Tensor big = zeros({3});
  const Tensor at = zeros({50000}, i64);
  big[at] = arange(50000).to(f32);
  EXPECT_EQ(v(big), (Numbers{49999, 0, 0}));
}

TEST(SetItem, EmptySelectionsAcceptBroadcastValues) {
  const Tensor x = counted({2, 3});
  x[Slice(0, 0)] = 1;
  x[Slice(0, 0)] = zeros({0, 3});
  x[Slice(0, 0)] = zeros({1, 3});
  x[{zeros({0}, i64)}] = zeros({0, 3});
  x[zeros({2, 3}, boolean)] = zeros({0});
  x[zeros({2, 3}, boolean)] = zeros({1});
  x[zeros({2}, boolean)] = zeros({3});
  EXPECT_EQ(v(x), (Numbers{0, 1, 2, 3, 4, 5}));
  EXPECT_REFUSED(ShapeError, x, x[Slice(0, 0)] = zeros({2, 3}),
                 "[2, 3] does not broadcast to the selected shape [0, 3]");
  EXPECT_REFUSED(ShapeError, x, x[zeros({0}, i64)] = zeros({2, 3}), "[0, 3]");
  EXPECT_REFUSED(ShapeError, x, x[zeros({2, 3}, boolean)] = zeros({2}), "[0]");
  EXPECT_REFUSED(ShapeError, x, x[0] = zeros({0}), "[0] does not broadcast to the selected shape [3]");
  EXPECT_REFUSED(ShapeError, x, (x[{{0, 1}}] = zeros({0, 3})), "[2, 3]");
  EXPECT_REFUSED(IndexError, x, (x[{Slice(0, 0), {3}}] = 1), "[setitem] index 3 is out of range for axis 1 of size 3");
}

TEST(SetItem, ColumnsTakeValuesOfAnyRank) {
  const Tensor a = zeros({3, 2});
  a[{colon, 1}] = tensor({{1., 2., 3.}});
  EXPECT_EQ(v(a), (Numbers{0, 1, 0, 2, 0, 3}));
  a[{colon, Slice(0, 1)}] = tensor({{4.}, {5.}, {6.}});
  a[{Slice(1, none), colon}] = tensor(7.);
  EXPECT_EQ(v(a), (Numbers{4, 1, 7, 7, 7, 7}));
  EXPECT_REFUSED(ShapeError, a, (a[{colon, 1}] = tensor({1., 2.})), "[2] does not broadcast to the selected shape [3]");
  EXPECT_REFUSED(ShapeError, a, (a[{colon, 1}] = zeros({2, 3})), "[2, 3] does not broadcast");
}

// ---- memory ---------------------------------------------------------------------------------------------------------

TEST(SetItem, ReadsAValueThatSharesItsMemoryFirst) {
  Tensor x = counted({4});
  x[Slice(1, none)] = x[Slice(none, -1)];
  EXPECT_EQ(v(x), (Numbers{0, 0, 1, 2}));
  x = counted({4});
  x[colon] = x[Slice(none, none, -1)];
  EXPECT_EQ(v(x), (Numbers{3, 2, 1, 0}));
  x = counted({4});
  x[{{1, 2, 3}}] = x[Slice(none, -1)];
  EXPECT_EQ(v(x), (Numbers{0, 0, 1, 2}));
  x[x] = 5;  // the indices are elements of x, too
  EXPECT_EQ(v(x), (Numbers{5, 5, 5, 2}));
  const Tensor b = mask({1, 0, 1}, {3});
  b[b] = mask({0, 1}, {2});
  EXPECT_EQ(v(b), (Numbers{0, 0, 1}));
}

TEST(SetItem, StridedTargets) {
  const Tensor x = zeros({3, 4});
  x.t()[{{1, 3}, 0}] = tensor({1., 2.});
  x[Slice(none, none, -1)][{{0}, Slice(none, none, 2)}] = 3;
  EXPECT_EQ(v(x), (Numbers{0, 1, 0, 2, 0, 0, 0, 0, 3, 0, 3, 0}));
}

TEST(SetItem, RaisesTheVersionOnceAndNamesTheWriter) {
  const Tensor x = zeros({3});
  const uint32_t before = x.version();
  x[0] = 1;
  x[{{1}}] = 1;
  x[x > 0] = 2;
  x[x > 5] = zeros({0});
  EXPECT_EQ(x.version(), before + 4);
  const Tensor y = tensor({1., 2.}).requires_grad_();
  const Tensor kept = y * 1, z = exp(kept) * kept;
  kept[0] = 4;
  try {
    z.sum().backward();
    FAIL();
  } catch (const AutogradError& e) {
    EXPECT_NE(std::string(e.what()).find("written by setitem at "), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("subscript_write_test.cpp:"), std::string::npos) << e.what();
  }
}

TEST(SetItem, RefusesBeforeItWrites) {
  const Tensor x = counted({2, 3}), wide = zeros({3}).expand({2, 3}), leaf = ones({2, 3}).requires_grad_();
  EXPECT_REFUSED(IndexError, x, (x[{{0, 2}}] = 1), "[setitem] index 2 is out of range for axis 0 of size 2");
  EXPECT_REFUSED(IndexError, x, (x[{0, 3}] = 1), "[setitem] index 3 is out of range for axis 1 of size 3");
  EXPECT_REFUSED(IndexError, x, (x[{{0, 1}, {0, 1, 2}}] = 1), "shape mismatch");
  EXPECT_REFUSED(IndexError, x, x[zeros({3}, boolean)] = 1, "a mask of shape [3] does not fit axis 0 of size 2");
  EXPECT_REFUSED(DTypeError, x, x[tensor({0.})] = 1, "float32");
  EXPECT_REFUSED(ValueError, x, x[Slice(none, none, 0)] = 1, "the step of a slice cannot be 0");
  EXPECT_REFUSED(ShapeError, x, (x[{{0, 1}}] = zeros({2, 2})),
                 "[2, 2] does not broadcast to the selected shape [2, 3]");
  EXPECT_REFUSED(ValueError, wide, wide[0] = 1, "[setitem] cannot write to an expanded tensor");
  EXPECT_REFUSED(ValueError, wide, (wide[{{0}}] = 1), "expanded");
  EXPECT_REFUSED(AutogradError, leaf, leaf[0] = 1, "[setitem] in-place write to a leaf");
  EXPECT_REFUSED(AutogradError, leaf, leaf[leaf > 0] = 1, "leaf");
  EXPECT_REFUSED(AutogradError, leaf, leaf[{{0}}] += 1, "leaf");
  EXPECT_REFUSED(AutogradError, leaf, leaf[0] += 1, "leaf");
  {
    const NoGradGuard unrecorded;
    leaf[0] = 2;
  }
  EXPECT_EQ(v(leaf), (Numbers{2, 2, 2, 1, 1, 1}));
  EXPECT_THROW(x[0] = Tensor(), ValueError);
}

// ---- += and its kin -------------------------------------------------------------------------------------------------

TEST(Update, ChangesViewsInPlace) {
  const Tensor x = counted({2, 3});
  x[0] += 10;
  x[{colon, 1}] *= tensor({2, 3});
  x[{1, 2}] -= x[{0, 0}];
  EXPECT_EQ(v(x), (Numbers{10, 22, 12, 3, 12, -5}));
  EXPECT_EQ((x[0] += 1).impl(), x.impl());
}

TEST(Update, ReadsAndWritesSelectedElementsOnce) {
  const Tensor x = zeros({4});
  x[{{1, 1, 3}}] += tensor({1., 10., 100.});
  EXPECT_EQ(v(x), (Numbers{0, 10, 0, 100}));  // as NumPy: the last duplicate stays
  x[x > 0] /= 2;
  EXPECT_EQ(v(x), (Numbers{0, 5, 0, 50}));
  x[mask({0, 1, 0, 1}, {4})] -= tensor({1., 2.});
  EXPECT_EQ(v(x), (Numbers{0, 4, 0, 48}));
  const uint32_t before = x.version();
  x[{{0}}] += 1;
  EXPECT_EQ(x.version(), before + 1);
  EXPECT_THROW((counted({2})[{{0}}] += 0.5), DTypeError);
}

TEST(Update, MethodsThatWrite) {
  const Tensor x = zeros({4});
  x[Slice(0, 2)].fill_(3);
  x[{{3}}].copy_(tensor({4.}));
  x[x == 3].zero_();
  EXPECT_EQ(v(x), (Numbers{0, 0, 0, 4}));
}

// ---- index_put ------------------------------------------------------------------------------------------------------

TEST(IndexPut, AddsEveryDuplicate) {
  const Tensor x = zeros({4}), at = tensor({1, 1, -1}), g = tensor({1., 2., 4.});
  EXPECT_EQ(v(index_put(x, {at}, g, true)), (Numbers{0, 3, 0, 4}));
  EXPECT_EQ(v(index_put(x, {at}, g)), (Numbers{0, 2, 0, 4}));
  EXPECT_EQ(v(x), Numbers(4, 0));
  EXPECT_EQ(&index_put_(x, {at}, g, true), &x);
  EXPECT_EQ(v(x.index_put_({at}, 1, true)), (Numbers{0, 5, 0, 5}));
  EXPECT_EQ(v(index_put(x, {Slice(0, 2)}, 1, true)), (Numbers{1, 6, 0, 5}));
  EXPECT_EQ(v(index_put(x, {x > 0}, tensor({1., 2.}), true)), (Numbers{0, 6, 0, 7}));
  EXPECT_EQ(v(index_put(x, {true}, 1, true)), (Numbers{1, 6, 1, 6}));
}

TEST(IndexPut, TakesNullsRanksAndStridedValues) {
  const Tensor x = zeros({2, 3}, i64), at = tensor({{0, 2}, {2, 0}});
  const std::vector<std::optional<Tensor>> columns = {std::nullopt, at};
  EXPECT_EQ(v(index_put(x, columns, 1, true)), (Numbers{2, 0, 2, 2, 0, 2}));
  const Tensor values = counted({2, 2, 2}).permute({2, 1, 0});
  EXPECT_EQ(v(index_put(x, columns, values)), (Numbers{6, 0, 2, 7, 0, 3}));
  EXPECT_EQ(&index_put_(x, columns, 1), &x);
  EXPECT_EQ(v(x), (Numbers{1, 0, 1, 1, 0, 1}));
  EXPECT_EQ(v(index_put(x.t(), {{0, 0}, {0, 1}}, tensor({5, 6}))), (Numbers{5, 6, 0, 0, 1, 1}));
}

TEST(IndexPut, HalfPrecisionIsRoundedOnceAndBoolsAreJoined) {
  for (const DType t : {f16, bf16}) {
    const Tensor x = index_put(zeros({1}, t), {zeros({512}, i64)}, ones({512}, t), true);
    EXPECT_EQ(v(x), Numbers{512}) << name(t);
  }
  EXPECT_EQ(v(index_put(ones({1}, f16), {zeros({2052}, i64)}, ones({2052}, f16), true)), (Numbers{2052}));
  EXPECT_EQ(v(index_put(zeros({2}, boolean), {{1, 1}}, ones({2}, boolean), true)), (Numbers{0, 1}));
}

TEST(IndexPut, DoesNotDependOnThreads) {
  const Tensor x = SampleMaker(f32, {}).tensor({100}), at = SampleMaker(f32, {}, 2).indices({40000}, 100);
  const Tensor g = SampleMaker(f32, {}, 3).tensor({40000});
  const int before = num_threads();
  set_num_threads(1);
  const Tensor one = index_put(x, {at}, g, true), last = index_put(x, {at}, g);
  set_num_threads(3);
  EXPECT_TRUE(same(index_put(x, {at}, g, true), one));
  EXPECT_TRUE(same(index_put(x, {at}, g), last));
  set_num_threads(before);
}

// Defect: positions that an expanded index repeats were taken for places of their own, so that threads lost updates.
TEST(IndexPut, AnExpandedIndexRepeatsItsPlace) {
  const int before = num_threads();
  for (const int threads : {1, 2, 5}) {
    set_num_threads(threads);
    for (const DType dtype : {f32, f64, f16, bf16, i64, u8}) {
      for (const int64_t n : {1, 6, 70, 200000}) {
        SCOPED_TRACE(::testing::Message() << name(dtype) << " " << n << " on " << threads);
        const Tensor at = tensor({1}).expand({n}), values = zeros({n}, dtype);
        for (const int64_t i : {n - 1, n / 2, n / 3}) values[i] = 3;
        const double sum = values.sum().to(f64).item<double>();
        EXPECT_EQ(v(index_put(zeros({3}, dtype), {at}, values, true)), (Numbers{0, sum, 0}));
        EXPECT_EQ(v(index_put(zeros({3}, dtype), {at}, values)), (Numbers{0, 3, 0}));
        const Tensor rows = values.unsqueeze(1).expand({n, 2});
        EXPECT_EQ(v(index_put(zeros({2, 2}, dtype), {at}, rows, true)), (Numbers{0, 0, sum, sum}));
        EXPECT_EQ(v(index_put(zeros({2, 2}, dtype), {at, at}, values, true)), (Numbers{0, 0, 0, sum}));
      }
    }
  }
  set_num_threads(before);
}

TEST(IndexPut, RefusesBeforeItWrites) {
  const Tensor x = counted({2, 3});
  EXPECT_REFUSED(IndexError, x, index_put_(x, {{0, 2}}, 1),
                 "[index_put_] index 2 is out of range for axis 0 of size 2");
  EXPECT_REFUSED(ShapeError, x, index_put_(x, {{0}}, zeros({2}), true), "[index_put_] a value of shape [2]");
  EXPECT_REFUSED(IndexError, x, index_put(x, {{0, 2}}, 1), "[index_put] index 2");
}

// ---- set_value ------------------------------------------------------------------------------------------------------

TEST(SetValue, WritesSlicesOfSomeAxes) {
  EXPECT_EQ(v(set_value(arange(6), tensor({7, 8}), {4}, {0}, {-2}, {0})), (Numbers{0, 1, 8, 3, 7, 5}));
  const Tensor x = counted({3, 4});
  EXPECT_EQ(&set_value_(x, tensor({{100}, {200}}), {1, 0}, {4, 3}, {2, 2}, {1, 0}), &x);
  EXPECT_EQ(v(x), (Numbers{0, 100, 2, 100, 4, 5, 6, 7, 8, 200, 10, 200}));
  EXPECT_EQ(v(set_value(x, 1, {5}, {9}, {}, {0})), v(x));
  EXPECT_REFUSED(ShapeError, x, set_value_(x, zeros({2, 4}), {5}, {9}, {}, {0}),
                 "[set_value_] a value of shape [2, 4]");
  EXPECT_REFUSED(ValueError, x, set_value_(x, 1, {0, 0}, {1, 1}, {}, {0, -2}), "axis 0 is named twice");
  EXPECT_REFUSED(ValueError, x, set_value_(x, 1, {0, 0}, {1}, {}, {0}), "do not go together");
  EXPECT_REFUSED(ValueError, x, set_value_(x, 1, {0}, {1}, {0}, {0}), "the step of a slice cannot be 0");
  EXPECT_REFUSED(IndexError, x, set_value_(x, 1, {0}, {1}, {}, {2}), "dimension 2 is out of range");
}

TEST(IndexPut, ASelectionOfTooManyElementsIsAnError) {
  const Device meta("meta");
  const Tensor ghost = empty({2, int64_t{1} << 32}, {boolean, meta});
  const Tensor places = empty({int64_t{1} << 31}, {i64, meta});
  EXPECT_THROW(index_put(ghost, {places}, empty({}, {boolean, meta})), ShapeError);
}

}  // namespace
}  // namespace weft::testing
