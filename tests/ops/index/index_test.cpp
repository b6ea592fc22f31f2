// Reading and adding by index: values, gradients, errors before any write.
#include <weft/ops/gradcheck.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/scatter.hpp>
#include <weft/ops/search.hpp>
#include <weft/ops/subscript.hpp>
#include <weft/tensor/threads.hpp>

#include "ops/samples.hpp"

namespace weft::testing {
namespace {

using Numbers = std::vector<double>;
Numbers v(const Tensor& t) { return t.to_vector<double>(); }

Tensor counted(const Dims& shape) { return arange(shape.product()).to(f32).view(shape); }

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const IndexError& e) {
    return e.what();
  }
  return "no IndexError";
}

TEST(IndexSelect, TakesSlices) {
  const Tensor x = counted({2, 3});
  EXPECT_EQ(v(index_select(x, 0, tensor({1, 0, 1}))), (Numbers{3, 4, 5, 0, 1, 2, 3, 4, 5}));
  EXPECT_EQ(v(index_select(x, 1, tensor({2, 0}))), (Numbers{2, 0, 5, 3}));
  EXPECT_EQ(v(index_select(x, -1, tensor(1))), (Numbers{1, 4}));
  EXPECT_EQ(index_select(x, 1, zeros({0}, i64)).shape(), (Dims{2, 0}));
  EXPECT_EQ(index_select(zeros({0, 3}), 1, tensor({0, 2})).shape(), (Dims{0, 2}));
  EXPECT_EQ(index_select(tensor(5.), 0, tensor({0})).shape(), Dims());
}

TEST(IndexSelect, TakesAnyIntegerType) {
  const Tensor x = counted({4});
  for (DType t : {u8, i8, u16, i16, u32, i32, u64, i64}) {
    EXPECT_EQ(v(index_select(x, 0, tensor({3, 0}).to(t))), (Numbers{3, 0}));
    EXPECT_EQ(v(x[tensor({3, 0}).to(t)]), (Numbers{3, 0}));
  }
  const Tensor huge = full({1}, uint64_t{18446744073709551615u}, u64);  // -1, if the sign were looked at
  EXPECT_THROW(index_select(x, 0, huge), IndexError);
  EXPECT_THROW((void)x[huge].sum(), IndexError);
  EXPECT_THROW((void)x[huge[0]].sum(), IndexError);
  EXPECT_EQ(v(index_select(x.to(boolean), 0, tensor({3, 0}))), (Numbers{1, 0}));
}

TEST(IndexSelect, DuplicatesAddInTheGradient) {
  const Tensor x = counted({4}).requires_grad_();
  index_select(x, 0, tensor({1, 1, 3})).backward(tensor({1., 10., 100.}));
  EXPECT_EQ(v(x.grad()), (Numbers{0, 11, 0, 100}));
}

TEST(IndexSelect, NamesTheBadIndexAndThePlace) {
  const Tensor x = counted({2, 3});
  const std::string text = error_of([&] { index_select(x, 1, tensor({0, 3})); });
  EXPECT_NE(text.find("[index_select] index 3 is out of range for axis 1 of size 3"), std::string::npos) << text;
  EXPECT_NE(text.find("index_test.cpp:"), std::string::npos) << text;
  EXPECT_THROW(index_select(x, 1, tensor({-4})), IndexError);
  EXPECT_THROW(index_select(zeros({0, 3}), 1, tensor({3})), IndexError);
  EXPECT_THROW(index_select(zeros({0}), 0, tensor({0})), IndexError);
}

TEST(NegativeIndex, IsOutOfRange) {
  const Tensor x = counted({3, 2}), row = counted({1, 2}), at = tensor({-1}), both = tensor({{-1, -1}});
  const Tensor leaf = x.clone().requires_grad_(), y = x.clone();
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"index_select", [&] { index_select(x, 0, at); }},
      {"index_select of a list", [&] { index_select(counted({3}), 0, at); }},
      {"gather", [&] { gather(x, 0, both); }},
      {"gather along 1", [&] { gather(x, 1, both); }},
      {"gather from a list", [&] { gather(counted({3}), 0, at); }},
      {"index_add", [&] { index_add(x, 0, at, row); }},
      {"index_add_", [&] { index_add_(y, 0, at, row); }},
      {"index_copy", [&] { index_copy(x, 0, at, row); }},
      {"index_copy_", [&] { index_copy_(y, 0, at, row); }},
      {"scatter", [&] { scatter(x, 0, both, row); }},
      {"scatter of a number", [&] { scatter(x, 0, both, 1); }},
      {"scatter_", [&] { scatter_(y, 0, both, row); }},
      {"scatter_add", [&] { scatter_add(x, 1, both, row); }},
      {"scatter_add_", [&] { scatter_add_(y, 0, both, row); }},
      {"embedding", [&] { embedding(leaf, at); }},
      {"embedding as rows", [&] { embedding(leaf, at, EmbeddingOptions{.sparse = true}); }},
      {"embedding of -100",
       [&] {
         embedding(counted({200, 2}), tensor({-100}));
       }},
      {"embedding, i32", [&] { embedding(x, at.to(i32)); }},
      {"embedding, i8", [&] { embedding(x, at.to(i8)); }},
      {"embedding of many", [&] { embedding(x, full({100000}, -1, i64)); }},
      {"many elements", [&] { index_select(counted({100000}), 0, full({100000}, -1, i64)); }},
  };
  for (const auto& [name, call] : calls) {
    const std::string text = error_of(call);
    EXPECT_NE(text.find("index -"), std::string::npos) << name << ": " << text;
    EXPECT_EQ(text.find("from -"), std::string::npos) << name << ": " << text;
  }
  for (const ScatterReduction how : {ScatterReduction::sum, ScatterReduction::prod, ScatterReduction::mean,
                                     ScatterReduction::amax, ScatterReduction::amin}) {
    EXPECT_THROW(scatter_reduce(x, 0, both, row, how), IndexError);
    EXPECT_THROW(scatter_reduce_(y, 0, both, row, how, false), IndexError);
  }
  EXPECT_EQ(v(y), v(x));
  EXPECT_EQ(y.version(), 0u);
}

TEST(NegativeIndex, CountsFromTheEndWhereItDoesInPyTorch) {
  const Tensor x = counted({3, 2}), at = tensor({-1}), number = tensor(9.);
  EXPECT_EQ(v(x[at]), (Numbers{4, 5}));
  EXPECT_EQ(v(take(x, at)), (Numbers{5}));
  EXPECT_EQ(v(take(x, tensor({{-1, 0}}), 1)), (Numbers{1, 0, 3, 2, 5, 4}));
  EXPECT_EQ(v(take_along_dim(x, tensor({{-1, -3}}), 0)), (Numbers{4, 1}));
  EXPECT_EQ(v(put(x, at, number)), (Numbers{0, 1, 2, 3, 4, 9}));
  EXPECT_EQ(v(put(x, at, number, true)), (Numbers{0, 1, 2, 3, 4, 14}));
  EXPECT_EQ(v(index_fill(x, 0, at, 7)), (Numbers{0, 1, 2, 3, 7, 7}));
  EXPECT_EQ(v(index_put(x, {at}, number)), (Numbers{0, 1, 2, 3, 9, 9}));
  const Tensor w = x.clone().requires_grad_();
  take_along_dim(w, tensor({{-1, -3}}), 0).sum().backward();
  EXPECT_EQ(v(w.grad()), (Numbers{0, 1, 0, 0, 1, 0}));
  EXPECT_NE(error_of([&] { take_along_dim(x, tensor({{-4, 0}}), 0); }).find("index -"), std::string::npos);
  EXPECT_NE(error_of([&] { take(x, tensor({-7})); }).find("use indices from -6 to 5"), std::string::npos);
}

TEST(IndexSelect, ReportsWrongOperands) {
  const Tensor x = counted({2, 3});
  EXPECT_THROW(index_select(x, 2, tensor({0})), IndexError);
  EXPECT_THROW(index_select(x, 0, tensor({0.})), DTypeError);
  EXPECT_THROW(index_select(x, 0, tensor({0}).to(boolean)), DTypeError);
  EXPECT_THROW(index_select(x, 0, tensor({{0}})), ShapeError);
  EXPECT_THROW(index_select(tensor(1.), 0, tensor({0, 0})), ShapeError);
  EXPECT_THROW(index_select(Tensor(), 0, tensor({0})), ValueError);
  EXPECT_THROW(index_select(x, 0, empty({1}, {i64, Device("meta")})), DeviceError);
}

TEST(IndexAdd, AddsSlices) {
  const Tensor x = zeros({3, 2});
  EXPECT_EQ(v(index_add(x, 0, tensor({2, 0, 2}), counted({3, 2}))), (Numbers{2, 3, 0, 0, 4, 6}));
  EXPECT_EQ(v(x), Numbers(6, 0));
  EXPECT_EQ(v(index_add(zeros({2}, boolean), 0, tensor({1, 1}), tensor({1, 1}).to(boolean))), (Numbers{0, 1}));
}

TEST(IndexAdd, HalfPrecisionIsRoundedOnce) {
  const Tensor ones_there = ones({2049}, f16), index = zeros({2049}, i64);
  EXPECT_EQ(v(index_add(zeros({1}, f16), 0, index, ones_there)), (Numbers{2048}));
  const Tensor big = index_add(zeros({1}, f16), 0, zeros({2052}, i64), ones({2052}, f16));
  EXPECT_EQ(v(big), (Numbers{2052}));
}

TEST(IndexAdd, InPlaceIsRecorded) {
  const Tensor x = counted({3}).requires_grad_(), source = tensor({1., 2.}).requires_grad_();
  EXPECT_THROW(index_add_(x, 0, tensor({0, 0}), source), AutogradError);
  const Tensor y = x * 1;
  EXPECT_EQ(&index_add_(y, 0, tensor({0, 0}), source), &y);
  EXPECT_EQ(v(y), (Numbers{3, 1, 2}));
  y.backward(tensor({1., 10., 100.}));
  EXPECT_EQ(v(x.grad()), (Numbers{1, 10, 100}));
  EXPECT_EQ(v(source.grad()), (Numbers{1, 1}));
}

TEST(IndexAdd, InPlaceReadsASourceThatSharesItsMemory) {
  const Tensor x = counted({4});
  index_add_(x.slice(0, 1), 0, tensor({0, 1, 2}), x.slice(0, 0, 3));
  EXPECT_EQ(v(x), (Numbers{0, 1, 3, 5}));
}

TEST(IndexAdd, LeavesTheTargetAloneOnErrors) {
  const Tensor x = counted({3});
  const uint32_t version = x.version();
  EXPECT_THROW(index_add_(x, 0, tensor({0, 3}), tensor({1., 1.})), IndexError);
  EXPECT_THROW(index_add_(x, 0, tensor({0}), tensor({1., 1.})), ShapeError);
  EXPECT_THROW(index_add_(x, 0, tensor({0}), tensor({1})), DTypeError);
  EXPECT_THROW(index_add_(x.expand({2, 3}), 0, tensor({0}), ones({1, 3})), ValueError);
  EXPECT_EQ(v(x), (Numbers{0, 1, 2}));
  EXPECT_EQ(x.version(), version);
}

TEST(Gather, FollowsTheIndex) {
  const Tensor x = counted({3, 2});
  EXPECT_EQ(v(gather(x, 0, tensor({{2, 0}, {0, 2}}))), (Numbers{4, 1, 0, 5}));
  EXPECT_EQ(v(gather(x, 1, tensor({{1, 1, 0}}))), (Numbers{1, 1, 0}));
  EXPECT_EQ(v(gather(x.t(), 1, tensor({{0, 2}}))), (Numbers{0, 4}));
  EXPECT_EQ(gather(x, 0, zeros({0, 2}, i64)).shape(), (Dims{0, 2}));
  EXPECT_EQ(v(gather(tensor(7.), 0, tensor(0))), (Numbers{7}));
  EXPECT_EQ(v(gather(tensor({{int64_t{9007199254740993}}}), 0, tensor({{0}}))), (Numbers{9007199254740992}));
}

TEST(Gather, GradientScatters) {
  const Tensor x = counted({3, 2}).requires_grad_();
  gather(x, 0, tensor({{2, 0}, {2, 0}})).backward(tensor({{1., 10.}, {100., 1000.}}));
  EXPECT_EQ(v(x.grad()), (Numbers{0, 1010, 0, 0, 101, 0}));
  EXPECT_EQ(x.grad().shape(), (Dims{3, 2}));
}

TEST(Gather, ReportsWrongOperands) {
  const Tensor x = counted({3, 2});
  EXPECT_THROW(gather(x, 0, tensor({0, 1})), ShapeError);
  EXPECT_THROW(gather(x, 0, zeros({1, 3}, i64)), ShapeError);
  EXPECT_THROW(gather(x, 0, zeros({1, 2})), DTypeError);
  EXPECT_THROW(gather(x, 2, zeros({1, 2}, i64)), IndexError);
  const std::string text = error_of([&] { gather(x, 0, tensor({{0, 3}})); });
  EXPECT_NE(text.find("[gather] index 3 is out of range for axis 0 of size 3"), std::string::npos) << text;
  EXPECT_NE(text.find("index_test.cpp:"), std::string::npos) << text;
}

TEST(ScatterAdd, AddsDuplicates) {
  const Tensor x = zeros({3, 2});
  EXPECT_EQ(v(scatter_add(x, 0, tensor({{0, 2}, {0, 0}}), tensor({{1., 2.}, {3., 4.}}))), (Numbers{4, 4, 0, 0, 0, 2}));
  EXPECT_EQ(v(scatter_add(x, 1, tensor({{1}}), counted({2, 2}) + 5)), (Numbers{0, 5, 0, 0, 0, 0}));
  EXPECT_EQ(v(scatter_add(tensor(1.), 0, tensor(0), tensor(2.))), (Numbers{3}));
}

TEST(ScatterAdd, GradientHasTheWholeSourcesShape) {
  const Tensor x = zeros({3}).requires_grad_(), source = counted({4}).requires_grad_();
  scatter_add(x, 0, tensor({2, 2}), source).backward(tensor({1., 10., 100.}));
  EXPECT_EQ(v(x.grad()), (Numbers{1, 10, 100}));
  EXPECT_EQ(v(source.grad()), (Numbers{100, 100, 0, 0}));
}

TEST(ScatterAdd, InPlaceAndErrors) {
  const Tensor x = zeros({2, 2}), view = x.t();
  scatter_add_(view, 0, tensor({{1, 1}}), tensor({{1., 2.}}));
  EXPECT_EQ(v(x), (Numbers{0, 1, 0, 2}));
  const uint32_t version = x.version();
  EXPECT_THROW(scatter_add_(x, 0, tensor({{0, 2}}), ones({1, 2})), IndexError);
  EXPECT_THROW(scatter_add_(x, 0, zeros({1, 2}, i64), ones({1, 1})), ShapeError);
  EXPECT_THROW(scatter_add_(x, 0, zeros({1, 3}, i64), ones({1, 3})), ShapeError);
  EXPECT_THROW(scatter_add_(x, 0, zeros({1, 2}, i64), ones({1, 2}, f64)), DTypeError);
  EXPECT_THROW(scatter_add_(x, 0, tensor({0}), ones({1})), ShapeError);
  EXPECT_EQ(x.version(), version);
  const std::string text = error_of([&] { scatter_add(x, 0, tensor({{0, 2}}), ones({1, 2})); });
  EXPECT_NE(text.find("[scatter_add] index 2 is out of range for axis 0 of size 2"), std::string::npos) << text;
}

TEST(ScatterAdd, InPlaceIsRecorded) {
  const Tensor x = zeros({3}).requires_grad_(), source = tensor({1., 2.}).requires_grad_();
  const Tensor y = x * 3;
  scatter_add_(y, 0, tensor({0, 2}), source);
  y.backward(tensor({1., 10., 100.}));
  EXPECT_EQ(v(x.grad()), (Numbers{3, 30, 300}));
  EXPECT_EQ(v(source.grad()), (Numbers{1, 100}));
}

TEST(TakeAlongDim, Broadcasts) {
  const Tensor x = counted({3, 1});
  EXPECT_EQ(v(take_along_dim(x, tensor({{2, 0}}), 0)), (Numbers{2, 0}));
  EXPECT_EQ(take_along_dim(counted({2, 3}), tensor({{0}}), 1).shape(), (Dims{2, 1}));
  EXPECT_THROW(take_along_dim(counted({2, 3}), zeros({3, 1}, i64), 1), ShapeError);
}

TEST(Embedding, ReturnsRows) {
  const Tensor w = counted({4, 2}).requires_grad_();
  const Tensor out = embedding(w, tensor({{0, 3}, {3, 3}}));
  EXPECT_EQ(out.shape(), (Dims{2, 2, 2}));
  EXPECT_EQ(v(out), (Numbers{0, 1, 6, 7, 6, 7, 6, 7}));
  out.backward(ones({2, 2, 2}));
  EXPECT_EQ(v(w.grad()), (Numbers{1, 1, 0, 0, 0, 0, 3, 3}));
  EXPECT_EQ(embedding(w, zeros({0, 2}, i64)).shape(), (Dims{0, 2, 2}));
  EXPECT_EQ(embedding(w, tensor(1)).shape(), Dims{2});
  EXPECT_EQ(v(embedding(w, tensor({{0, 1}, {2, 3}}).t())), (Numbers{0, 1, 4, 5, 2, 3, 6, 7}));
}

TEST(Embedding, ThePaddedRowGetsNoGradient) {
  const Tensor w = counted({4, 2}).requires_grad_();
  const Tensor at = tensor({{3, 1}, {3, 3}});
  sum(square(embedding(w, at, 3))).backward();
  EXPECT_EQ(v(w.grad()), (Numbers{0, 0, 4, 6, 0, 0, 0, 0}));
  const auto first = grad({sum(square(embedding(w, at, 3)))}, {w}, {}, {.create_graph = true});
  EXPECT_EQ(v(first[0]), v(w.grad()));
  EXPECT_EQ(v(grad({sum(first[0])}, {w})[0]), (Numbers{0, 0, 2, 2, 0, 0, 0, 0}));
  EXPECT_THROW(embedding(w, at, 4), IndexError);
}

TEST(IndexAdd, ScalesTheSource) {
  const Tensor x = counted({3}), at = tensor({0, 0, 2});
  EXPECT_EQ(v(index_add(x, 0, at, ones({3}), -2)), (Numbers{-4, 1, 0}));
  EXPECT_EQ(v(index_add(tensor({1, 2}), 0, tensor({1}), tensor({3}), 5)), (Numbers{1, 17}));
  const Tensor y = counted({3});
  index_add_(y, 0, at, ones({3}), 0.5);
  EXPECT_EQ(v(y), (Numbers{1, 1, 2.5}));
  EXPECT_THROW(index_add(tensor({1, 2}), 0, tensor({1}), tensor({3}), 0.5), DTypeError);
}

TEST(Embedding, ReportsWrongOperands) {
  const Tensor w = counted({4, 2});
  EXPECT_THROW(embedding(tensor({1., 2.}), tensor({0})), ShapeError);
  EXPECT_THROW(embedding(w, tensor({0.5})), DTypeError);
  const std::string text = error_of([&] { embedding(w, tensor({0, 4})); });
  EXPECT_NE(text.find("[embedding] index 4 is out of range for axis 0 of size 4"), std::string::npos) << text;
}

TEST(Embedding, GradientDoesNotDependOnThreads) {
  const Tensor w = SampleMaker(f32, {}).tensor({50, 64}).requires_grad_();
  const Tensor at = SampleMaker(f32, {}).indices({40, 50}, 50), g = SampleMaker(f32, {}, 3).tensor({40, 50, 64});
  const int before = num_threads();
  set_num_threads(1);
  const Tensor one = grad({embedding(w, at)}, {w}, {g})[0];
  set_num_threads(3);
  EXPECT_TRUE(same(grad({embedding(w, at)}, {w}, {g})[0], one));
  set_num_threads(before);
}

TEST(OneHot, MarksEachIndex) {
  EXPECT_EQ(v(one_hot(tensor({1, 0, 2}), 3)), (Numbers{0, 1, 0, 1, 0, 0, 0, 0, 1}));
  EXPECT_EQ(one_hot(tensor({1}), 3).dtype(), i64);
  EXPECT_EQ(one_hot(zeros({2, 0}, i64), 3).shape(), (Dims{2, 0, 3}));
  EXPECT_THROW(one_hot(tensor({3}), 3), IndexError);
  EXPECT_THROW(one_hot(tensor({0}), -2), ValueError);
}

TEST(Index, GradientsOfGradients) {
  const Tensor index = tensor({{2, 0}, {2, 1}});
  const std::vector<Tensor> inputs = {SampleMaker(f64, {}).tensor({3, 2}).requires_grad_(),
                                      SampleMaker(f64, {}, 5).tensor({2, 2}).requires_grad_()};
  const auto f = [&](std::span<const Tensor> x) {
    return square(scatter_add(x[0], 0, index, x[1])) * gather(square(x[0]), 0, tensor({{0, 0}, {1, 1}, {0, 2}}));
  };
  EXPECT_TRUE(gradcheck(f, inputs));
  EXPECT_TRUE(gradgradcheck(f, inputs));
}

}  // namespace
}  // namespace weft::testing
