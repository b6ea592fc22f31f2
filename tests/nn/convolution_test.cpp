// Convolutions and the norms of channels as layers.
#include <cmath>
#include <sstream>

#include <gtest/gtest.h>

#include <weft/weft.hpp>

#include "../message_of.hpp"

namespace weft {
namespace {

std::string printed(const nn::Module& module) {
  std::ostringstream out;
  out << module;
  return out.str();
}

TEST(ConvolutionLayer, HasPyTorchsShapesFirstValuesAndText) {
  nn::Conv2d conv(4, 6, 3, {.stride = 2, .padding = 1, .groups = 2});
  EXPECT_EQ(conv.weight.shape(), Dims({6, 2, 3, 3}));
  EXPECT_EQ(conv.bias.shape(), Dims(6));
  EXPECT_LE(conv.weight.abs().max().item<double>(), 1 / std::sqrt(18.0));
  EXPECT_EQ(printed(conv), "Conv2d(4, 6, kernel_size=(3, 3), stride=(2, 2), padding=(1, 1), groups=2)");
  EXPECT_EQ(conv(ones({2, 4, 9, 9})).shape(), Dims({2, 6, 5, 5}));
  EXPECT_EQ(printed(nn::Conv1d(1, 2, 5, {.padding = "same", .bias = false})),
            "Conv1d(1, 2, kernel_size=(5,), stride=(1,), padding=same, bias=False)");
  nn::ConvTranspose2d up(4, 3, {2, 2}, {.stride = 2});
  EXPECT_EQ(up.weight.shape(), Dims({4, 3, 2, 2}));
  EXPECT_EQ(up(ones({1, 4, 5, 5})).shape(), Dims({1, 3, 10, 10}));
  EXPECT_EQ(printed(up), "ConvTranspose2d(4, 3, kernel_size=(2, 2), stride=(2, 2))");
  EXPECT_THROW(nn::Conv2d(3, 4, 3, {.groups = 2}), ValueError);
  EXPECT_THROW(nn::Conv2d(-1, 4, 3), ValueError);
  EXPECT_THROW(nn::Conv2d(1, 4, {3, 3, 3}), ValueError);
}

TEST(ConvolutionLayer, PaddingModePrintsAsInPyTorch) {
  EXPECT_EQ(printed(nn::Conv2d(1, 2, 3, {.padding = 1, .padding_mode = Padding::reflect})),
            "Conv2d(1, 2, kernel_size=(3, 3), stride=(1, 1), padding=(1, 1), padding_mode=reflect)");
  EXPECT_EQ(printed(nn::Conv1d(2, 2, 3, {.padding = "same", .bias = false, .padding_mode = Padding::circular})),
            "Conv1d(2, 2, kernel_size=(3,), stride=(1,), padding=same, bias=False, padding_mode=circular)");
  EXPECT_EQ(printed(nn::Conv3d(1, 1, 3, {.padding = 1, .dilation = 2, .padding_mode = Padding::replicate})),
            "Conv3d(1, 1, kernel_size=(3, 3, 3), stride=(1, 1, 1), padding=(1, 1, 1), dilation=(2, 2, 2), "
            "padding_mode=replicate)");
}

TEST(ConvolutionLayer, PaddingModeEqualsPad) {
  const Tensor image = randn({2, 2, 4, 5}), line = randn({2, 6}), volume = randn({1, 2, 3, 3, 3});
  for (const Padding mode : {Padding::reflect, Padding::replicate, Padding::circular}) {
    const nn::Conv2d strided(2, 4, 3, {.stride = 2, .padding = {2, 1}, .groups = 2, .padding_mode = mode});
    EXPECT_TRUE(equal(strided(image), conv2d(pad(image, {1, 1, 2, 2}, mode), strided.weight, strided.bias,
                                             {.stride = 2, .groups = 2})));
    const nn::Conv1d same(2, 3, 4, {.padding = "same", .padding_mode = mode});
    EXPECT_TRUE(equal(same(line), conv1d(pad(line, {1, 2}, mode), same.weight, same.bias)));
    const nn::Conv3d valid(2, 1, 2, {.padding = "valid", .padding_mode = mode});
    EXPECT_TRUE(equal(valid(volume), conv3d(volume, valid.weight, valid.bias)));
    const nn::Conv3d around(2, 1, 2, {.padding = 1, .padding_mode = mode});
    EXPECT_TRUE(equal(around(volume), conv3d(pad(volume, {1, 1, 1, 1, 1, 1}, mode), around.weight, around.bias)));
  }
}

TEST(ConvolutionLayer, OptionsThatDoNotGoTogetherAreRefusedAtOnce) {
  EXPECT_THROW(nn::Conv2d(1, 1, 3, {.stride = 2, .padding = "same"}), ValueError);
  EXPECT_THROW(nn::Conv2d(1, 1, 3, {.padding = -1, .padding_mode = Padding::reflect}), ValueError);
  EXPECT_THROW(nn::Conv2d(1, 1, 3, {.padding = {1, 1, 1}, .padding_mode = Padding::reflect}), ValueError);
  EXPECT_THROW(nn::Conv1d(1, 1, 3, {.padding = "same", .dilation = INT64_MAX, .padding_mode = Padding::circular}),
               ValueError);
}

TEST(ConvolutionLayer, ErrorsNameTheClassThatWasWritten) {
  const auto named = [](auto make, const char* name) {
    const std::string message = message_of<ValueError>(make);
    EXPECT_NE(message.find(name), std::string::npos) << message;
  };
  named([] { nn::Conv1d(-1, 1, 3); }, "nn::Conv1d");
  named([] { nn::ConvTranspose3d(3, 4, 3, {.groups = 2}); }, "nn::ConvTranspose3d");
  named([] { nn::InstanceNorm2d(-1); }, "nn::InstanceNorm2d");
  named([] { nn::BatchNorm1d(-1); }, "nn::BatchNorm1d");
  const std::string message = message_of<ShapeError>([] { nn::InstanceNorm3d(3)(ones({3, 3})); });
  EXPECT_NE(message.find("nn::InstanceNorm3d"), std::string::npos) << message;
}

TEST(ConvolutionLayer, AnErrorNamesTheLineOfTheCall) {
  nn::Conv2d conv(4, 6, 3);
  try {
    conv(ones({2, 3, 9, 9}));
    FAIL();
  } catch (const ShapeError& e) {
    EXPECT_NE(std::string(e.what()).find("convolution_test.cpp"), std::string::npos) << e.what();
  }
}

TEST(BatchNormLayer, TrainsByTheBatchAndEvaluatesByRunningStatistics) {
  nn::BatchNorm2d norm(3);
  const Tensor x = randn({4, 3, 5, 5}) * 3 + 2;
  const Tensor y = norm(x);
  EXPECT_NEAR(y.mean().item<double>(), 0, 1e-5);
  EXPECT_EQ(norm.num_batches_tracked.item<int64_t>(), 1);
  EXPECT_TRUE(allclose(norm.running_mean, x.mean({0, 2, 3}) * 0.1));
  norm.eval();
  const Tensor before = norm.running_var.clone();
  const Tensor z = norm(x);
  EXPECT_TRUE(equal(before, norm.running_var));
  EXPECT_TRUE(
      allclose(z, (x - norm.running_mean.view({3, 1, 1})) / sqrt(norm.running_var.view({3, 1, 1}) + 1e-5), 1e-4, 1e-5));
  EXPECT_EQ(printed(norm), "BatchNorm2d(3, eps=1e-05, momentum=0.1, affine=True, track_running_stats=True)");
  EXPECT_THROW(norm(ones({3, 3})), ShapeError);
}

TEST(BatchNormLayer, WithoutMomentumKeepsTheMeanOverAllBatches) {
  nn::BatchNorm1d norm(2, {.momentum = std::nullopt});
  const Tensor a = randn({5, 2}), b = randn({5, 2});
  norm(a);
  norm(b);
  EXPECT_TRUE(allclose(norm.running_mean, (a.mean(0) + b.mean(0)) / 2, 1e-5, 1e-6));
}

template <class Norm>
void expect_uncounted(Norm norm, const Tensor& x) {
  EXPECT_ANY_THROW(norm(x));
  EXPECT_EQ(norm.num_batches_tracked.template item<int64_t>(), 0);
  EXPECT_TRUE(equal(norm.running_mean, zeros(3)) && equal(norm.running_var, ones(3)));
}

TEST(BatchNormLayer, CountsNoBatchThatIsRefused) {
  for (const std::optional<double> momentum : {std::optional(0.1), std::optional<double>()}) {
    const nn::BatchNormSettings batch{.momentum = momentum};
    const nn::BatchNormSettings instance{.momentum = momentum, .track_running_stats = true};
    for (const Tensor& x : {ones({1, 3, 1}), ones({2, 4, 2}), ones({2, 3, 2}, i64)}) {
      expect_uncounted(nn::BatchNorm1d(3, batch), x);
      expect_uncounted(nn::BatchNorm2d(3, batch), x.unsqueeze(-1));
      expect_uncounted(nn::BatchNorm3d(3, batch), x.unsqueeze(-1).unsqueeze(-1));
      expect_uncounted(nn::InstanceNorm1d(3, instance), x);
      expect_uncounted(nn::InstanceNorm2d(3, instance), x.unsqueeze(-1));
      expect_uncounted(nn::InstanceNorm3d(3, instance), x.unsqueeze(-1).unsqueeze(-1));
    }
  }
}

TEST(BatchNormLayer, ItsStatisticsAreSavedAndCloned) {
  nn::BatchNorm2d norm(2);
  norm(randn({2, 2, 3, 3}));
  const nn::StateDict state = norm.state_dict();
  EXPECT_EQ(state.size(), 5u);
  nn::BatchNorm2d other(2);
  other.load_state_dict(state);
  EXPECT_TRUE(equal(other.running_var, norm.running_var));
  const nn::BatchNorm2d copy = nn::clone(norm);
  norm(randn({2, 2, 3, 3}));
  EXPECT_FALSE(equal(copy.running_mean, norm.running_mean));
}

TEST(GroupNormLayer, NormalisesGroupsOfChannels) {
  nn::GroupNorm norm(2, 4);
  const Tensor y = norm(randn({3, 4, 6}) + 5);
  EXPECT_LT(y.view({3, 2, 12}).mean(2).abs().max().item<double>(), 1e-5);
  EXPECT_EQ(printed(norm), "GroupNorm(2, 4, eps=1e-05, affine=True)");
  EXPECT_THROW(nn::GroupNorm(3, 4), ValueError);
  nn::InstanceNorm2d instance(4);
  EXPECT_TRUE(instance.parameters().empty());
  EXPECT_EQ(instance(randn({4, 5, 5})).shape(), Dims({4, 5, 5}));
}

TEST(LocalResponseNormLayer, PrintsAndNormalisesAsPyTorchs) {
  const Tensor x = tensor<double>({-4, 3, -1, 6, 2, -2, 5, 1}, f64).view({1, 2, 2, 2});
  EXPECT_EQ(printed(nn::LocalResponseNorm(2)), "LocalResponseNorm(2, alpha=0.0001, beta=0.75, k=1.0)");
  EXPECT_TRUE(equal(nn::LocalResponseNorm(2)(x), local_response_norm(x, 2)));
  EXPECT_NEAR(nn::LocalResponseNorm(2)(x).flatten()[4].item<double>(), 1.998501311298, 1e-11);
}

}  // namespace
}  // namespace weft
