#include <cmath>

#include <weft/ops/loss.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/softmax.hpp>

#include "collected_warnings.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

using enum LossReduction;

// Losses of single rows by a loop.
Doubles row_losses(const Tensor& logits, const std::vector<int64_t>& targets, int64_t ignore, double smoothing) {
  const Doubles v = values(logits);
  const auto classes = static_cast<size_t>(logits.size(-1));
  Doubles out;
  for (size_t r = 0; r < targets.size(); ++r) {
    if (targets[r] == ignore) {
      out.push_back(0);
      continue;
    }
    double sum = 0, uniform = 0;
    for (size_t c = 0; c < classes; ++c) sum += std::exp(v[r * classes + c]);
    for (size_t c = 0; c < classes; ++c) uniform += (std::log(sum) - v[r * classes + c]) / static_cast<double>(classes);
    const double hit = std::log(sum) - v[r * classes + static_cast<size_t>(targets[r])];
    out.push_back((1 - smoothing) * hit + smoothing * uniform);
  }
  return out;
}
double total(const Doubles& x) {
  double sum = 0;
  for (const double v : x) sum += v;
  return sum;
}

TEST(CrossEntropy, ValuesAreThoseOfALoop) {
  const Tensor x = spread({5, 7}, 1);
  const std::vector<int64_t> t = {0, 6, 3, -100, 2};
  for (const double smoothing : {0.0, 0.1, 1.0}) {
    const Doubles expected = row_losses(x, t, -100, smoothing);
    expect_values(cross_entropy(x, tensor(t), {.reduction = none, .ignore_index = -100, .label_smoothing = smoothing}),
                  expected);
    expect_values(cross_entropy(x, tensor(t), {.reduction = sum, .ignore_index = -100, .label_smoothing = smoothing}),
                  {total(expected)});
    expect_values(cross_entropy(x, tensor(t), {.reduction = mean, .ignore_index = -100, .label_smoothing = smoothing}),
                  {total(expected) / 4});
  }
  const Doubles other = row_losses(x, {0, 3, 3, 1, 2}, 3, 0);
  expect_values(cross_entropy(x, tensor({0, 3, 3, 1, 2}), {.reduction = none, .ignore_index = 3}), other);
  expect_values(cross_entropy(x, tensor({0, 3, 3, 1, 2}).to(i32), {.reduction = mean, .ignore_index = 3}),
                {total(other) / 3});
}

TEST(CrossEntropy, OneRowAndManyDimensions) {
  const Tensor x = spread({4}, 2);
  expect_values(cross_entropy(x, tensor(2)), row_losses(x, {2}, -100, 0));
  EXPECT_EQ(cross_entropy(x, tensor(2), {.reduction = none}).dim(), 0);
  const Tensor y = spread({2, 3, 4, 5}, 3);
  const Tensor targets = SampleMaker(f64, {}, 4).indices({2, 4, 5}, 3);
  const Tensor rows = y.permute({0, 2, 3, 1}).reshape({40, 3});
  const Doubles expected = row_losses(rows, targets.to_vector<int64_t>(), -100, 0);
  const Tensor each_loss = cross_entropy(y, targets, {.reduction = none});
  EXPECT_EQ(each_loss.shape(), targets.shape());
  expect_values(each_loss, expected);
  expect_values(cross_entropy(y, targets), {total(expected) / 40});
}

TEST(CrossEntropy, DistributionsAsTargets) {
  const Tensor x = spread({3, 4}, 1), p = softmax(spread({3, 4}, 2), 1);
  const Tensor expected = -(p * log_softmax(x, 1)).sum(1);
  expect_values(cross_entropy(x, p, {.reduction = none}), values(expected));
  expect_values(cross_entropy(x, p), values(expected.mean()));
  expect_gradients(
      [&](Inputs in) {
        return cross_entropy(in[0], in[1], {.reduction = mean, .ignore_index = -100, .label_smoothing = 0.2});
      },
      {leaf({3, 4}, 1), p.detach().requires_grad_()});
}

TEST(CrossEntropy, NothingToCount) {
  const Tensor x = spread({2, 3}).requires_grad_();
  const Tensor ignored = tensor({-100, -100});
  expect_values(cross_entropy(x, ignored), {nan});
  expect_values(cross_entropy(x, ignored, {.reduction = sum}), {0});
  cross_entropy(x, ignored, {.reduction = sum}).backward();
  expect_values(x.grad(), Doubles(6, 0));
  expect_values(cross_entropy(zeros({0, 3}), zeros({0}, i64)), {nan});
  expect_values(cross_entropy(zeros({0, 3}), zeros({0}, i64), {.reduction = sum}), {0});
}

TEST(CrossEntropy, SixteenBitLogits) {
  const Tensor x = spread({4, 8}).to(bf16).requires_grad_();
  const Tensor targets = tensor({0, 1, 2, 3});
  const Tensor loss = cross_entropy(x, targets);
  EXPECT_EQ(loss.dtype(), bf16);
  expect_values(loss, values(cross_entropy(x.detach().to(f64), targets)), 1e-2);
  loss.backward();
  EXPECT_EQ(x.grad().dtype(), bf16);
}

TEST(CrossEntropy, Errors) {
  const Tensor x = spread({2, 3});
  EXPECT_THROW(cross_entropy(x, tensor({0, 3})), IndexError);
  EXPECT_THROW(cross_entropy(x, tensor({0, -1})), IndexError);
  for (const auto& [target, words] :
       {std::pair(-1, "target -1: classes are 0 to "), {99, "target 99: classes are 0 to "}}) {
    const std::string end = std::to_string(x.size(1) - 1) + "\n";
    for (const bool nll : {false, true}) {
      try {
        const Tensor targets = tensor({0, target});
        nll ? nll_loss(x, targets) : cross_entropy(x, targets);
        FAIL() << "no error";
      } catch (const IndexError& error) {
        EXPECT_TRUE(std::string(error.what()).starts_with((nll ? "[nll_loss] " : "[cross_entropy] ") + (words + end)))
            << error.what();
      }
    }
  }
  EXPECT_THROW(cross_entropy(x, tensor({0, 1, 2})), ShapeError);
  EXPECT_THROW(cross_entropy(x, tensor(0)), ShapeError);
  EXPECT_THROW(cross_entropy(spread({}), tensor(0)), ShapeError);
  EXPECT_THROW(cross_entropy(x, tensor({0.0, 1.0})), DTypeError);
  EXPECT_THROW(cross_entropy(tensor({{1, 2}, {3, 4}}), tensor({0, 1})), DTypeError);
  EXPECT_THROW(cross_entropy(x, tensor({0, 1}), {.reduction = mean, .ignore_index = -100, .label_smoothing = 1.5}),
               ValueError);
  EXPECT_THROW(cross_entropy(x, Tensor()), ValueError);
  try {
    (void)cross_entropy(x, tensor({0, 3}));
  } catch (const IndexError& e) {
    EXPECT_NE(std::string(e.what()).find("[cross_entropy]"), std::string::npos) << e.what();
    EXPECT_NE(std::string(e.what()).find("loss_test.cpp"), std::string::npos) << e.what();
  }
}

TEST(CrossEntropy, Gradient) {
  const Tensor targets = tensor({0, 2, -100});
  for (const LossReduction reduction : {none, mean, sum}) {
    for (const double smoothing : {0.0, 0.2}) {
      expect_gradients(
          [&](Inputs in) {
            return cross_entropy(in[0], targets,
                                 {.reduction = reduction, .ignore_index = -100, .label_smoothing = smoothing});
          },
          {leaf({3, 4})});
    }
  }
  expect_gradients([&](Inputs in) { return cross_entropy(in[0], tensor(1)); }, {leaf({3})});
  const Tensor grid = SampleMaker(f64, {}, 1).indices({2, 2}, 3);
  expect_gradients([&](Inputs in) { return cross_entropy(in[0], grid); }, {leaf({2, 3, 2})});
}

TEST(CrossEntropy, BackwardKernelAndRecordedFormulaAgree) {
  const Tensor x = leaf({9, 33}, 3);
  const Tensor targets = SampleMaker(f64, {}, 5).indices({9}, 33);
  const Tensor loss = cross_entropy(x, targets, {.reduction = mean, .ignore_index = 7, .label_smoothing = 0.1});
  const auto plain = grad({loss}, {x}, {}, {.retain_graph = true});
  const auto recorded = grad({loss}, {x}, {}, {.create_graph = true});
  expect_values(plain[0], values(recorded[0]));
}

TEST(NllLoss, IsCrossEntropyAfterLogSoftmax) {
  const Tensor x = spread({4, 3}, 1), targets = tensor({0, 2, -100, 1});
  for (const LossReduction reduction : {none, mean, sum}) {
    expect_values(nll_loss(log_softmax(x, 1), targets, {.reduction = reduction}),
                  values(cross_entropy(x, targets, {.reduction = reduction})));
    expect_gradients([&](Inputs in) { return nll_loss(in[0] * in[0], targets, {.reduction = reduction}); },
                     {leaf({4, 3})});
  }
  const Tensor grid = SampleMaker(f64, {}, 1).indices({2, 2}, 3), y = spread({2, 3, 2}, 3);
  expect_values(nll_loss(log_softmax(y, 1), grid), values(cross_entropy(y, grid)));
  expect_values(nll_loss(doubles({-1, -2}), tensor(1)), {2});
  EXPECT_THROW(nll_loss(x, tensor({0, 1, 2, 3})), IndexError);
  EXPECT_THROW(nll_loss(x, tensor({0, 1, 2, -1})), IndexError);
  EXPECT_THROW(nll_loss(x, tensor({0, 1})), ShapeError);
}

TEST(PointwiseLosses, Values) {
  const Tensor x = doubles({1, -2, 3, 0.5}), y = doubles({0.5, 1, 3, 0});
  expect_values(mse_loss(x, y, {.reduction = none}), {0.25, 9, 0, 0.25});
  expect_values(mse_loss(x, y), {9.5 / 4});
  expect_values(l1_loss(x, y, {.reduction = sum}), {4});
  expect_values(huber_loss(x, y, {.reduction = none}), {0.125, 2.5, 0, 0.125});
  expect_values(huber_loss(x, y, {.reduction = none, .delta = 2}), {0.125, 4, 0, 0.125});
  expect_values(smooth_l1_loss(x, y, {.reduction = none, .beta = 2}), {0.0625, 2, 0, 0.0625});
  expect_values(smooth_l1_loss(x, y, {.reduction = none, .beta = 0}), {0.5, 3, 0, 0.5});
  expect_values(mse_loss(x, doubles({1}), {.reduction = none}), {0, 9, 4, 0.25});
  expect_values(mse_loss(zeros({0}, f64), zeros({0}, f64)), {nan});
}

TEST(PointwiseLosses, BinaryCrossEntropyIsStable) {
  const Tensor x = doubles({0.3, -2, 1000, -1000}), y = doubles({1, 0.25, 1, 0});
  Doubles expected = {std::log1p(std::exp(-0.3)), std::log1p(std::exp(-2.0)) + 2 * 0.25, 0, 0};
  expect_values(binary_cross_entropy_with_logits(x, y, {.reduction = none}), expected);
  expect_values(binary_cross_entropy_with_logits(doubles({1000}), doubles({0})), {1000});
}

TEST(PointwiseLosses, Errors) {
  const Tensor x = spread({2, 3}), y = spread({4});
  EXPECT_THROW(mse_loss(x, y), ShapeError);
  EXPECT_THROW(mse_loss(tensor({1, 2}), tensor({1, 2})), DTypeError);
  EXPECT_THROW(l1_loss(Tensor(), y), ValueError);
  EXPECT_THROW(huber_loss(x, x, {.delta = 0}), ValueError);
  EXPECT_THROW(smooth_l1_loss(x, x, {.beta = -1}), ValueError);
  EXPECT_THROW(binary_cross_entropy_with_logits(x, Tensor()), ValueError);
}

TEST(PointwiseLosses, Gradient) {
  const std::vector<Tensor> in = {leaf({2, 3}, 1), leaf({3}, 2)};
  for (const LossReduction reduction : {none, mean, sum}) {
    expect_gradients([&](Inputs v) { return mse_loss(v[0], v[1], {reduction}); }, in);
    expect_gradients([&](Inputs v) { return l1_loss(v[0], v[1], {reduction}); }, in);
    expect_gradients([&](Inputs v) { return huber_loss(v[0], v[1], {reduction, 0.7}); }, in);
    expect_gradients([&](Inputs v) { return smooth_l1_loss(v[0], v[1], {reduction, 0.7}); }, in);
    expect_gradients([&](Inputs v) { return binary_cross_entropy_with_logits(v[0], v[1], {.reduction = reduction}); },
                     in);
  }
}

TEST(PointwiseLosses, WarnOnceOfShapesThatBroadcast) {
  const CollectedWarnings collected;
  const std::vector<std::string>& texts = collected.texts;
  const Tensor x = spread({4, 1}), y = spread({4});
  const auto all = [](const Tensor& a, const Tensor& b) {
    (void)mse_loss(a, b), (void)l1_loss(a, b), (void)huber_loss(a, b), (void)smooth_l1_loss(a, b);
    (void)binary_cross_entropy_with_logits(a, b);
  };
  all(x, x), all(y, 1.0 * y);
  (void)mse_loss(x, 0.5);
  EXPECT_TRUE(texts.empty());
  all(x, y), all(x, y);
  ASSERT_EQ(texts.size(), 5u);
  EXPECT_NE(texts[0].find("[mse_loss] input [4, 1] and target [4] differ in shape and broadcast to [4, 4]"),
            std::string::npos)
      << texts[0];
  EXPECT_NE(texts[0].find("loss_test.cpp:"), std::string::npos);
}

}  // namespace
}  // namespace weft::testing
