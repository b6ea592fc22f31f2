// Printing: the texts are PyTorch 2.15's, but for its "torch." before a dtype.
#include <gtest/gtest.h>

#include <cmath>

#include <weft/weft.hpp>

namespace weft {
namespace {

TEST(Print, FloatsShareOneFormat) {
  EXPECT_EQ(tensor({1.0, 2.0, 3.0}).text(), "tensor([1., 2., 3.])");
  EXPECT_EQ(tensor({1.5, -2.25, 3.0}).text(), "tensor([ 1.5000, -2.2500,  3.0000])");
  EXPECT_EQ(tensor({1e-5, 1.0, 2.0}).text(), "tensor([1.0000e-05, 1.0000e+00, 2.0000e+00])");
  EXPECT_EQ(tensor({1e10, 1.0}).text(), "tensor([1.0000e+10, 1.0000e+00])");
  EXPECT_EQ(tensor({std::nan(""), 1.0, HUGE_VAL}).text(), "tensor([nan, 1., inf])");
  EXPECT_EQ(tensor({{-0.0, 1234.5}, {0.001, 7.0}}).text(),
            "tensor([[-0.0000e+00, 1.2345e+03],\n        [1.0000e-03, 7.0000e+00]])");
}

TEST(Print, EmptyAndZeroDimensional) {
  EXPECT_EQ(tensor(3.25).text(), "tensor(3.2500)");
  EXPECT_EQ(tensor(7).text(), "tensor(7)");
  EXPECT_EQ(zeros({0, 3}).text(), "tensor([], size=(0, 3))");
  EXPECT_EQ(zeros({0}).text(), "tensor([])");
  EXPECT_EQ(zeros({2, 0}, i64).text(), "tensor([], size=(2, 0), dtype=int64)");
  EXPECT_EQ(Tensor().text(), "tensor(undefined)");
}

TEST(Print, IntegersAndBoolsAreAligned) {
  EXPECT_EQ(arange(12).view({3, 4}).text(),
            "tensor([[ 0,  1,  2,  3],\n        [ 4,  5,  6,  7],\n        [ 8,  9, 10, 11]])");
  EXPECT_EQ((tensor({1.0, 0.0}) > 0.5).text(), "tensor([ True, False])");
  EXPECT_EQ(tensor({1, 2}, i32).text(), "tensor([1, 2], dtype=int32)");
}

TEST(Print, LongRowsWrapAt80Columns) {
  EXPECT_EQ((arange(30) * 1000).text(),
            "tensor([    0,  1000,  2000,  3000,  4000,  5000,  6000,  7000,  8000,  9000,\n"
            "        10000, 11000, 12000, 13000, 14000, 15000, 16000, 17000, 18000, 19000,\n"
            "        20000, 21000, 22000, 23000, 24000, 25000, 26000, 27000, 28000, 29000])");
}

TEST(Print, HigherRanksAreSeparatedByEmptyLines) {
  EXPECT_EQ(arange(24).to(f32).view({2, 3, 4}).text(),
            "tensor([[[ 0.,  1.,  2.,  3.],\n         [ 4.,  5.,  6.,  7.],\n         [ 8.,  9., 10., 11.]],\n"
            "\n"
            "        [[12., 13., 14., 15.],\n         [16., 17., 18., 19.],\n         [20., 21., 22., 23.]]])");
}

TEST(Print, LargeTensorsAreSummarised) {
  EXPECT_EQ(arange(10000).view({100, 100}).text(),
            "tensor([[   0,    1,    2,  ...,   97,   98,   99],\n"
            "        [ 100,  101,  102,  ...,  197,  198,  199],\n"
            "        [ 200,  201,  202,  ...,  297,  298,  299],\n"
            "        ...,\n"
            "        [9700, 9701, 9702,  ..., 9797, 9798, 9799],\n"
            "        [9800, 9801, 9802,  ..., 9897, 9898, 9899],\n"
            "        [9900, 9901, 9902,  ..., 9997, 9998, 9999]])");
  EXPECT_EQ(arange(2000).to(f32).text(),
            "tensor([0.0000e+00, 1.0000e+00, 2.0000e+00,  ..., 1.9970e+03, 1.9980e+03,\n        1.9990e+03])");
}

TEST(Print, NotesNameUnusualProperties) {
  EXPECT_EQ(tensor({1.5, 2.5}, f64).text(), "tensor([1.5000, 2.5000], dtype=float64)");
  EXPECT_EQ(tensor({1.0, 2.0}).requires_grad_().text(), "tensor([1., 2.], requires_grad=True)");
  EXPECT_EQ(zeros({2, 2}, Device("meta")).text(), "tensor(..., size=(2, 2), device='meta')");
}

TEST(Print, StridedViewsPrintTheirOwnElements) {
  EXPECT_EQ(arange(6).view({2, 3}).t().text(), "tensor([[0, 3],\n        [1, 4],\n        [2, 5]])");
  EXPECT_EQ(arange(4).slice(0, {}, {}, -1).text(), "tensor([3, 2, 1, 0])");
}

struct Restored {
  PrintOptions before = print_options();
  ~Restored() { set_print_options(before); }
};

TEST(Print, OptionsChangeTheText) {
  const Restored restored;
  set_print_options({.precision = 2});
  EXPECT_EQ(tensor({1.23456, 2.0}).text(), "tensor([1.23, 2.00])");
  set_print_options({.precision = 2, .scientific = true});
  EXPECT_EQ(tensor({1.23456, 2.0}).text(), "tensor([1.23e+00, 2.00e+00])");
  EXPECT_EQ(tensor({1, 2}).text(), "tensor([1, 2])");
  set_print_options({.scientific = false});
  EXPECT_EQ(tensor({1e-5, 1.0}).text(), "tensor([0.0000, 1.0000])");
  set_print_options({.threshold = 4, .edge_items = 1});
  EXPECT_EQ(arange(0, 10, 1, f32).text(), "tensor([0.,  ..., 9.])");
  set_print_options({.line_width = 30});
  EXPECT_EQ(arange(0, 12, 1, f32).text(),
            "tensor([ 0.,  1.,  2.,  3.,\n         4.,  5.,  6.,  7.,\n         8.,  9., 10., 11.])");
}

TEST(Print, PyTorchsNamesOnRequest) {
  const Restored restored;
  set_print_options({.pytorch_names = true});
  EXPECT_EQ(ones({2}, f64).text(), "tensor([1., 1.], dtype=torch.float64)");
  const Tensor x = ones({2}).requires_grad_();
  EXPECT_EQ(x.text(), "tensor([1., 1.], requires_grad=True)");
  EXPECT_EQ((x * 2).text(), "tensor([2., 2.], grad_fn=<MulBackward0>)");
  EXPECT_EQ(log_softmax(zeros({1}) * x[0], 0).text(), "tensor([0.], grad_fn=<LogSoftmaxBackward0>)");
}

TEST(Print, NegativeOptionsAreRefused) {
  EXPECT_THROW(set_print_options({.precision = -1}), ValueError);
  EXPECT_THROW(set_print_options({.edge_items = -1}), ValueError);
}

}  // namespace
}  // namespace weft
