// A user's own names beside `using namespace weft`.
#include <vector>

#include <gtest/gtest.h>

#include <weft/weft.hpp>

using namespace weft;

namespace {

Tensor cross_entropy(const Tensor& logits, const Tensor&) { return logits * 0.0 + 1.0; }
Tensor nll_loss(const Tensor& x, const Tensor&) { return x * 0.0 + 2.0; }
Tensor mse_loss(const Tensor& x, const Tensor&) { return x * 0.0 + 3.0; }
Tensor l1_loss(const Tensor& x, const Tensor&) { return x * 0.0 + 4.0; }
Tensor huber_loss(Tensor x, Tensor) { return x * 0.0 + 5.0; }
Tensor smooth_l1_loss(const Tensor& x, const Tensor&) { return x * 0.0 + 6.0; }
Tensor binary_cross_entropy_with_logits(const Tensor& x, const Tensor&) { return x * 0.0 + 7.0; }
Tensor gelu(const Tensor& x) { return x * 0.0 + 8.0; }

TEST(BesideTheUsersNames, AnOwnLossIsTheOneThatIsCalled) {
  const Tensor x = tensor(0.5), y = tensor(0.0);
  const std::vector<Tensor> own{cross_entropy(x, y),
                                nll_loss(x, y),
                                mse_loss(x, y),
                                l1_loss(x, y),
                                huber_loss(x, y),
                                smooth_l1_loss(x, y),
                                binary_cross_entropy_with_logits(x, y),
                                gelu(x)};
  for (size_t i = 0; i < own.size(); ++i) EXPECT_EQ(own[i].item<double>(), static_cast<double>(i + 1));
  EXPECT_EQ(weft::mse_loss(x, y).item<double>(), 0.25);
}

TEST(BesideTheUsersNames, TheStandardLibraryKeepsItsName) {
  const std::vector<double> numbers{1, 3};
  EXPECT_DOUBLE_EQ(weft::std(tensor(numbers), {}, 0).item<double>(), 1);
  EXPECT_TRUE(any(tensor(numbers)).item<bool>());
}

TEST(Losses, TakeOptionsAlike) {
  const Tensor x = tensor({1.0, 2.0}), y = tensor({0.0, 0.0});
  using enum LossReduction;
  EXPECT_EQ(weft::mse_loss(x, y, {.reduction = sum}).item<double>(), 5);
  EXPECT_EQ(weft::l1_loss(x, y, {.reduction = sum}).item<double>(), 3);
  EXPECT_EQ(weft::huber_loss(x, y, {.reduction = sum}).item<double>(), 2);
  EXPECT_EQ(weft::smooth_l1_loss(x, y, {.reduction = sum}).item<double>(), 2);
  EXPECT_EQ(weft::binary_cross_entropy_with_logits(x, y, {.reduction = none}).shape(), Dims(2));
  EXPECT_EQ(weft::cross_entropy(x, tensor(1), {.reduction = none}).dim(), 0);
  EXPECT_EQ(weft::nll_loss(x, tensor(1), {.reduction = sum}).item<double>(), -2);
  EXPECT_EQ(weft::mse_loss(x, 0.0, {.reduction = sum}).item<double>(), 5);
}

}  // namespace
