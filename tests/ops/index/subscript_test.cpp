// Reading x[…]: shapes and values as NumPy and PyTorch give them, views where they can be, errors that name the index.
#include <algorithm>

#include <weft/ops/subscript.hpp>

#include "ops/samples.hpp"

namespace weft::testing {
namespace {

using Numbers = std::vector<double>;
Numbers v(const Tensor& t) { return t.to_vector<double>(); }
Tensor counted(const Dims& shape) { return arange(shape.product()).view(shape); }
Tensor mask(std::initializer_list<int> bits, const Dims& shape) {
  return tensor(std::span(bits.begin(), bits.size()), shape, boolean);
}

template <class E>
std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const E& e) {
    return e.what();
  }
  return "no such error";
}
#define EXPECT_SAYS(E, expression, words)                                            \
  do {                                                                               \
    const std::string text_ = error_of<E>([&] { Tensor unused = expression; });      \
    EXPECT_NE(text_.find(words), std::string::npos) << #expression << ": " << text_; \
    EXPECT_NE(text_.find("subscript_test.cpp:"), std::string::npos) << text_;        \
    EXPECT_LE(std::count(text_.begin(), text_.end(), '\n'), 2) << text_;             \
  } while (false)

const Slice colon;
void use(const Tensor&) {}

struct GetItem : ::testing::Test {
  const Tensor x = counted({2, 3, 4});
  const Tensor m = mask({0, 1, 0, 0, 0, 1}, {2, 3});
};

void expect(const Tensor& t, const Dims& shape, const Numbers& values) {
  EXPECT_EQ(t.shape(), shape) << t.shape().text();
  EXPECT_EQ(v(t), values);
}
void expect_shape(const Tensor& t, const Dims& shape) { EXPECT_EQ(t.shape(), shape) << t.shape().text(); }

// ---- basic ----------------------------------------------------------------------------------------------------------

TEST_F(GetItem, ReadsIntegersAndSlices) {
  expect(x[{Ellipsis, 0}], {2, 3}, {0, 4, 8, 12, 16, 20});
  expect(x[{-1, -1}], {4}, {20, 21, 22, 23});
  expect(x[{1, 2, 3}], {}, {23});
  expect_shape(x[Slice(5, none)], {0, 3, 4});
  expect_shape(x[Slice(1, 0)], {0, 3, 4});
  expect(x[{0, 0, Slice(-100, 2)}], {2}, {0, 1});
  expect(x[{0, 0, Slice(none, none, 3)}], {2}, {0, 3});
  expect_shape(x[Ellipsis], {2, 3, 4});
  expect_shape(x[colon], {2, 3, 4});
  expect_shape(x[std::vector<Index>{}], {2, 3, 4});
}

TEST_F(GetItem, NegativeStepsAreViews) {
  expect(x[{0, 0, Slice(3, 0, -1)}], {3}, {3, 2, 1});
  expect(x[{0, 0, Slice(3, -5, -1)}], {4}, {3, 2, 1, 0});
  expect(x[{0, 0, Slice(-1, -3, -1)}], {2}, {3, 2});
  expect(x[{0, 0, Slice(100, 0, -2)}], {2}, {3, 1});
  const Tensor y = x[{colon, Slice(none, none, -1), Slice(none, none, -2)}];
  expect(y, {2, 3, 2}, {11, 9, 7, 5, 3, 1, 23, 21, 19, 17, 15, 13});
  EXPECT_TRUE(y.shares_storage(x));
  EXPECT_EQ(y.strides(), (Dims{12, -4, -2}));
  expect(counted({1})[Slice(none, none, INT64_MIN)], {1}, {0});
  expect(x[{0, 0, Slice(0, none, INT64_MAX)}], {1}, {0});
}

TEST_F(GetItem, NoneInsertsAxes) {
  expect_shape(x[None], {1, 2, 3, 4});
  expect_shape(x[{0, None, Ellipsis, None}], {1, 3, 4, 1});
  expect_shape(x[{Ellipsis, None, 1, None}], {2, 3, 1, 1});
  expect(x[{1, None, colon, 2}], {1, 3}, {14, 18, 22});
  EXPECT_TRUE(Tensor(x[{None, Slice(0, 1), None}]).is_contiguous());
}

TEST_F(GetItem, BasicIndicesShareMemoryAndVersion) {
  const Tensor y = x[{1, Slice(0, none, 2), None}];
  EXPECT_TRUE(y.shares_storage(x));
  const uint32_t before = y.version();
  x.zero_();
  EXPECT_EQ(y.version(), before + 1);
  EXPECT_EQ(v(y.sum()), Numbers{0});
  EXPECT_TRUE(Tensor(x[Ellipsis]).shares_storage(x));
  EXPECT_FALSE(Tensor(x[true]).shares_storage(x));
}

TEST_F(GetItem, AZeroDimensionalIntegerTensorIsAnInteger) {
  for (const DType t : {u8, i8, i16, i32, i64}) {
    const Tensor y = x[{tensor(1).to(t), colon, tensor(2).to(t)}];
    expect(y, {3}, {14, 18, 22});
    EXPECT_TRUE(y.shares_storage(x));
  }
  EXPECT_SAYS(IndexError, x[tensor(2)], "[getitem] index 2 is out of range for axis 0 of size 2");
}

TEST_F(GetItem, BasicErrorsNameTheIndexTheAxisAndTheSize) {
  EXPECT_SAYS(IndexError, x[5], "[getitem] index 5 is out of range for axis 0 of size 2");
  EXPECT_SAYS(IndexError, (x[{0, Ellipsis, -5}]), "index -5 is out of range for axis 2 of size 4");
  EXPECT_SAYS(IndexError, x[-3], "index -3 is out of range for axis 0 of size 2");
  EXPECT_SAYS(IndexError, (x[{0, 0, 0, 0}]), "too many indices (4) for tensor of dimension 3");
  EXPECT_SAYS(IndexError, (x[{Ellipsis, 0, 0, 0, 0}]), "too many indices (4) for tensor of dimension 3");
  EXPECT_SAYS(IndexError, (x[{m, 0, 0}]), "too many indices (4) for tensor of dimension 3");
  EXPECT_SAYS(IndexError, (x[{Ellipsis, 0, Ellipsis}]), "more than one Ellipsis");
  EXPECT_SAYS(ValueError, x[Slice(none, none, 0)], "the step of a slice cannot be 0");
  EXPECT_SAYS(ShapeError, (x[{None, None, None, None, None, None}]), "at most 8 dimensions");
  EXPECT_THROW(use(Tensor()[0]), ValueError);
  EXPECT_THROW(use(x[Tensor()]), ValueError);
}

// ---- advanced -------------------------------------------------------------------------------------------------------

TEST_F(GetItem, ListsPickAlongAnAxis) {
  expect_shape(x[{colon, {0, 2}}], {2, 2, 4});
  expect(x[{1, {0, 2}, 3}], {2}, {15, 23});
  expect_shape(x[{None, {0, 1}}], {1, 2, 3, 4});
  expect(x[{0, colon, {1, 3}}], {3, 2}, {1, 3, 5, 7, 9, 11});
  expect_shape(x[{colon, 0, {1, 3}}], {2, 2});
  expect(x[{{-1}}], {1, 3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  expect(x[{0, {2, 0, 2}, 1}], {3}, {9, 1, 9});
  expect(x[{Slice(none, none, -1), {1, 1}, 0}], {2, 2}, {16, 16, 4, 4});
}

TEST_F(GetItem, IndicesBroadcastTogether) {
  expect(x[{{0, 1}, colon, {1, 3}}], {2, 3}, {1, 5, 9, 15, 19, 23});
  expect(x[{colon, {0, 2}, {1, 3}}], {2, 2}, {1, 11, 13, 23});
  expect_shape(x[{tensor({{0}, {1}}), tensor({{0, 1, 2}})}], {2, 3, 4});
  expect_shape(x[{{0}, None, {1}}], {1, 1, 4});
  expect_shape(x[tensor({{0, 1}, {1, 0}})], {2, 2, 3, 4});
  expect(x[{tensor({{0}, {1}}), 0, tensor({{1, 3}})}], {2, 2}, {1, 3, 13, 15});
  expect_shape(x[{{0, 1}, Ellipsis, {1, 2}}], {2, 3});
  EXPECT_SAYS(IndexError, (x[{{0, 1}, {0, 1, 2}}]), "shape mismatch: indices of shapes [2] and [3] do not broadcast");
}

TEST_F(GetItem, TakesEveryIntegerType) {
  for (const DType t : {u8, i8, u16, i16, u32, i32, u64, i64}) {
    expect(x[{0, tensor({2, 0}).to(t), 1}], {2}, {9, 1});
    expect_shape(x[tensor({{1, 0}}).to(t)], {1, 2, 3, 4});
  }
  expect(x[{0, 0, tensor({1, 0}).to(u8)}], {2}, {1, 0});  // integers, not a mask
  EXPECT_SAYS(DTypeError, x[tensor({0.})], "[getitem] an index of float32 selects nothing");
  EXPECT_SAYS(DTypeError, x[tensor(0.)], "float32");
  EXPECT_THROW(use(x[zeros({1}, f8_e5m2)]), DTypeError);
}

TEST_F(GetItem, IndicesMayBeStrided) {
  const Tensor every = tensor({3, 9, 1, 9, 0, 9}), wide = tensor({2}).expand({3}), back = tensor({0, 2});
  expect(x[{0, 0, every[Slice(none, none, 2)]}], {3}, {3, 1, 0});
  expect(x[{0, wide, 0}], {3}, {8, 8, 8});
  expect(x[{0, back[Slice(none, none, -1)], 0}], {2}, {8, 0});
  expect(x.transpose(0, 2)[{{1, 3}, {0, 2}, 1}], {2}, {13, 23});
  expect_shape(x[{tensor({{0, 1}, {1, 0}}).t(), colon, 0}], {2, 2, 3});
}

TEST_F(GetItem, MasksSelectWhereTheyHold) {
  expect(x[m], {2, 4}, {4, 5, 6, 7, 20, 21, 22, 23});
  expect(x[{m, 1}], {2}, {5, 21});
  expect(x[{m, {1, 3}}], {2}, {5, 23});
  expect(x[{m, Slice(none, 2)}], {2, 2}, {4, 5, 20, 21});
  expect_shape(x[zeros({2, 3}, boolean)], {0, 4});
  expect(x[{colon, mask({1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0}, {3, 4})}], {2, 3}, {0, 5, 10, 12, 17, 22});
  expect(x[x > 20], {3}, {21, 22, 23});
  expect(x[std::vector<bool>{false, true}], {1, 3, 4}, {12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23});
  expect(x[{colon, std::vector<bool>{true, false, true}, 0}], {2, 2}, {0, 8, 12, 20});
}

TEST_F(GetItem, MasksFitStridedTensors) {
  const Tensor t = x.permute({2, 0, 1});  // [4, 2, 3]
  expect(t[{colon, m}], {4, 2}, {4, 20, 5, 21, 6, 22, 7, 23});
  expect(t[t > 20], {3}, {21, 22, 23});
  expect(x[{Slice(none, none, -1)}][m], {2, 4}, {16, 17, 18, 19, 8, 9, 10, 11});
  expect(x[m.t().contiguous().t()], {2, 4}, {4, 5, 6, 7, 20, 21, 22, 23});
  expect(counted({4, 1}).t()[{mask({0, 1, 0, 1}, {1, 4})}], {2}, {1, 3});
  expect(t[mask({0, 1, 0, 0, 0, 0, 1, 0}, {4, 2})], {2, 3}, {12, 16, 20, 3, 7, 11});
}

TEST_F(GetItem, AMaskThatDoesNotFitNamesTheAxis) {
  EXPECT_SAYS(IndexError, x[zeros({3}, boolean)], "[getitem] a mask of shape [3] does not fit axis 0 of size 2");
  EXPECT_SAYS(IndexError, x[zeros({3, 2}, boolean)], "a mask of shape [3, 2] does not fit axis 0 of size 2");
  EXPECT_SAYS(IndexError, (x[{colon, zeros({3, 2}, boolean)}]), "a mask of shape [3, 2] does not fit axis 2 of size 4");
  EXPECT_SAYS(IndexError, x[zeros({2, 3, 4, 1}, boolean)], "too many indices (4) for tensor of dimension 3");
  EXPECT_SAYS(IndexError, (x[{0, m}]), "does not fit axis 1 of size 3");
}

TEST_F(GetItem, BoolsInsertAnAxis) {
  expect_shape(x[true], {1, 2, 3, 4});
  expect_shape(x[false], {0, 2, 3, 4});
  expect_shape(x[{colon, true}], {2, 1, 3, 4});
  expect_shape(x[{true, {0, 1}}], {2, 3, 4});
  expect_shape(x[{true, false}], {0, 2, 3, 4});
  expect_shape(x[{true, true}], {1, 2, 3, 4});
  expect_shape(x[{false, Slice(none, 1)}], {0, 1, 3, 4});
  expect_shape(x[tensor(true)], {1, 2, 3, 4});
  expect_shape(x[{Ellipsis, tensor(false)}], {2, 3, 4, 0});
  EXPECT_EQ(v(x[true]), v(x));
}

TEST_F(GetItem, EmptySelectionsStillCheckTheirIndices) {
  const Tensor none_at_all = zeros({0}, i64), e = zeros({0, 3});
  expect_shape(x[none_at_all], {0, 3, 4});
  expect_shape(x[zeros({2, 0}, i32)], {2, 0, 3, 4});
  expect_shape(e[colon], {0, 3});
  expect_shape(e[none_at_all], {0, 3});
  expect_shape(e[zeros({0}, boolean)], {0, 3});
  expect_shape(e[zeros({0, 3}, boolean)], {0});
  expect_shape(e[{colon, {0, 2}}], {0, 2});
  EXPECT_SAYS(IndexError, e[0], "index 0 is out of range for axis 0 of size 0");
  EXPECT_SAYS(IndexError, e[{{0}}], "[getitem] index 0 is out of range for axis 0 of size 0");
  EXPECT_SAYS(IndexError, (e[{colon, {0, 3}}]), "[getitem] index 3 is out of range for axis 1 of size 3");
  EXPECT_SAYS(IndexError, (x[{Slice(0, 0), {3}}]), "index 3 is out of range for axis 1 of size 3");
  EXPECT_SAYS(IndexError, (x[{Slice(0, 0), {-4, 0}, {1, 1}}]), "index -4 is out of range for axis 1 of size 3");
}

TEST_F(GetItem, AdvancedErrorsNameTheIndexTheAxisAndTheSize) {
  EXPECT_SAYS(IndexError, x[{{2}}], "[getitem] index 2 is out of range for axis 0 of size 2");
  EXPECT_SAYS(IndexError, (x[{0, colon, {1, 4}}]), "[getitem] index 4 is out of range for axis 2 of size 4");
  EXPECT_SAYS(IndexError, (x[{{0, 1}, {0, -4}}]), "[getitem] index -4 is out of range for axis 1 of size 3");
  EXPECT_SAYS(ShapeError, (zeros({1, 1, 1, 1, 1, 1, 1, 1})[{true, colon}]), "at most 8 dimensions");
  expect_shape(zeros({1, 1, 1, 1, 1, 1, 1, 1})[{true, {0}}], {1, 1, 1, 1, 1, 1, 1, 1});
}

TEST(GetItemScalar, ZeroDimensions) {
  const Tensor z = tensor(7);
  expect(z[Ellipsis], {}, {7});
  EXPECT_TRUE(Tensor(z[Ellipsis]).shares_storage(z));
  expect(z[None], {1}, {7});
  expect(z[true], {1}, {7});
  expect(z[false], {0}, {});
  expect(z[tensor(true)], {1}, {7});
  EXPECT_SAYS(IndexError, z[0], "too many indices (1) for tensor of dimension 0");
  EXPECT_SAYS(IndexError, z[ones({1}, boolean)], "too many indices (1) for tensor of dimension 0");
  EXPECT_SAYS(IndexError, (z[{Ellipsis, 0}]), "too many indices (1) for tensor of dimension 0");
}

TEST(GetItemTypes, KeepsEveryElementExactly) {
  const Tensor big = tensor({int64_t{9007199254740993}, int64_t{1}});
  EXPECT_EQ(big[{{0}}].item<int64_t>(), 9007199254740993);
  EXPECT_EQ(big[big > 1].item<int64_t>(), 9007199254740993);
  for (const DType t : {boolean, u8, i8, u16, i16, u32, i32, u64, f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2, f8_e4m3fnuz,
                        f8_e5m2fnuz, f8_e8m0fnu}) {
    const Tensor x = tensor({0, 1, 1, 0}).to(t), y = x[{{1, 3, 2}}];
    EXPECT_EQ(y.dtype(), t);
    EXPECT_EQ(y.to_vector<int>(), (std::vector<int>{1, 0, 1})) << name(t);
    EXPECT_EQ(x[tensor({0, 1, 0, 1}).to(boolean)].to_vector<int>(), (std::vector<int>{1, 0})) << name(t);
  }
}

// ---- indices between the brackets -----------------------------------------------------------------------------------

TEST_F(GetItem, AcceptsPythonIndexForms) {
  const int64_t i = 1;
  const std::vector<int64_t> list = {1, 0};
  const std::vector<Index> stored = {1, Slice(1, none), Ellipsis};
  expect_shape(x[0], {3, 4});
  expect_shape(x[i], {3, 4});
  expect_shape(x[uint8_t{1}], {3, 4});
  expect_shape(x[{0}], {3, 4});
  expect_shape(x[{i, 1}], {4});
  expect_shape(x[{{0, 1}, Slice()}], {2, 3, 4});
  expect_shape(x[{{0, 1}}], {2, 3, 4});
  expect_shape(x[list], {2, 3, 4});
  expect_shape(x[std::vector<int64_t>{1}], {1, 3, 4});
  expect_shape(x[{colon, list}], {2, 2, 4});
  expect_shape(x[stored], {2, 4});
  expect_shape(x[std::span<const Index>(stored).first(1)], {3, 4});
  expect_shape(x[{None, Slice{0, 1}, m[0]}], {1, 1, 1, 4});
  expect_shape(x[tensor({0})[0]], {3, 4});
  expect_shape(getitem(x, stored), {2, 4});
  expect_shape(index(x, {0, 1}), {4});
  expect_shape(x.index({0, Ellipsis}), {3, 4});
  expect_shape(index(x, std::vector<std::optional<Tensor>>{std::nullopt, tensor({0, 2})}), {2, 2, 4});
}

TEST_F(GetItem, ReadsAsATensor) {
  EXPECT_EQ((x[{0, 1, 2}].item<int>()), 6);
  EXPECT_EQ(x[0].sum().item<int>(), 66);
  EXPECT_EQ(x[1][2][3].item<int>(), 23);
  EXPECT_EQ((x[m][{1, 0}].item<int>()), 20);
  EXPECT_EQ(x[0].shape(), (Dims{3, 4}));
  EXPECT_EQ(x[0].size(-1), 4);
  EXPECT_EQ(x[0].dim(), 2);
  EXPECT_EQ(v(x[0].t()[0]), (Numbers{0, 4, 8}));
  EXPECT_EQ(v(x[0][0] + x[0][1] * 2), (Numbers{8, 11, 14, 17}));
  EXPECT_EQ(v(-x[{0, 0}]), (Numbers{0, -1, -2, -3}));
  EXPECT_EQ(v(x[{0, 0}] > 1), (Numbers{0, 0, 1, 1}));
  EXPECT_EQ(v(square(x[{0, 0}])), (Numbers{0, 1, 4, 9}));
  Tensor y = x[{1, 0}];
  y = x[{0, 0}];
  EXPECT_EQ(v(y), (Numbers{0, 1, 2, 3}));
}

TEST_F(GetItem, MethodsAreTheFunctions) {
  const Tensor at = tensor({2, 0});
  EXPECT_TRUE(same(x.index_select(1, at), x[{colon, at}]));
  EXPECT_EQ(v(x[0].view({12}).index_select(0, at)), (Numbers{2, 0}));
  EXPECT_EQ(v(Tensor(x[{0, 0}]).gather(0, at)), (Numbers{2, 0}));
}

// ---- slices by lists ------------------------------------------------------------------------------------------------

TEST_F(GetItem, SlicesByLists) {
  expect(slice(x, {1, -1}, {1, 2}, {3, 100}), {2, 2, 2}, {6, 7, 10, 11, 18, 19, 22, 23});
  expect(strided_slice(x, {2, 1}, {100, 0}, {-100, 1}, {-2, 1}), {2, 1, 2}, {3, 1, 15, 13});
  EXPECT_TRUE(slice(x, {0}, {1}, {2}).shares_storage(x));
  expect_shape(slice(x, {}, {}, {}), {2, 3, 4});
  EXPECT_SAYS(ValueError, slice(x, {1, -2}, {0, 0}, {1, 1}), "[slice] axis 1 is named twice");
  EXPECT_SAYS(IndexError, slice(x, {3}, {0}, {1}), "[slice] dimension 3 is out of range");
  EXPECT_SAYS(ValueError, slice(x, {0}, {0, 1}, {1}), "1 axes, 2 starts, 1 ends");
  EXPECT_SAYS(ValueError, strided_slice(x, {0}, {0}, {1}, {0}), "[strided_slice] the step of a slice cannot be 0");
  EXPECT_THROW(slice(tensor(1), {0}, {0}, {1}), IndexError);
  EXPECT_THROW(x.narrow(0, 1, 2), IndexError);
  EXPECT_THROW(x.narrow(0, -3, 1), IndexError);
  expect_shape(x.narrow(0, -2, 2), {2, 3, 4});
}

TEST_F(GetItem, ShapesNeedNoElements) {
  const Tensor ghost = empty({2, 3, 4}, {f32, Device("meta")});
  expect_shape(ghost[{0, None, Slice(none, none, -1)}], {1, 3, 4});
  const Tensor somewhere = empty({}, {i64, Device("meta")});
  expect_shape(ghost[{colon, somewhere}], {2, 4});
  expect_shape(ghost[{somewhere, empty({5}, {i64, Device("meta")})}], {5, 4});
  EXPECT_THROW(ghost[empty({}, {boolean, Device("meta")})].shape(), NotImplementedError);
  expect_shape(empty({0, 3}, Device("meta"))[empty({int64_t{1} << 40}, {i64, Device("meta")})], {int64_t{1} << 40, 3});
}

// An expanded index is read once, not once for each place where it repeats.
TEST_F(GetItem, AHugeExpandedIndexOfNothingIsChecked) {
  const Tensor zero = tensor({0}).expand({int64_t{1} << 40});
  EXPECT_SAYS(IndexError, (zeros({0, 0})[zero]), "index 0 is out of range for axis 0 of size 0");
  expect_shape(x[{Slice(0, 0), zero}], {0, int64_t{1} << 40, 4});
}

}  // namespace
}  // namespace weft::testing
