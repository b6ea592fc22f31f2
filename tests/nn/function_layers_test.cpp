// Layers that are one function each: they print as PyTorch 2.15 does and give its values.
#include <gtest/gtest.h>

#include <cmath>

#include <weft/weft.hpp>

#include "../message_of.hpp"

namespace weft {
namespace {

// Four by four numbers in f64 for which PyTorch's results are written down below.
Tensor image() {
  return tensor<double>({-4, 3, -1, 6, 2, -2, 5, 1, -3, 4, 0, -4, 3, -1, 6, 2}, f64).view({1, 1, 4, 4});
}
const std::initializer_list<double> points = {-2.5, -0.5, 0, 0.3, 7};

void expect_values(const Tensor& got, const Dims& shape, std::initializer_list<double> wanted) {
  ASSERT_EQ(got.shape(), shape);
  EXPECT_TRUE(allclose(got.flatten(), tensor<double>(wanted, f64), 1e-9, 1e-11)) << got;
}

TEST(PoolingLayers, PrintAsPyTorchs) {
  EXPECT_EQ(nn::MaxPool2d(2).text(), "MaxPool2d(kernel_size=2, stride=2, padding=0, dilation=1, ceil_mode=False)");
  EXPECT_EQ(nn::MaxPool1d(3, {.stride = 2, .padding = 1, .dilation = 2, .ceil_mode = true}).text(),
            "MaxPool1d(kernel_size=3, stride=2, padding=1, dilation=2, ceil_mode=True)");
  EXPECT_EQ(nn::MaxPool3d({1, 2, 3}).text(),
            "MaxPool3d(kernel_size=(1, 2, 3), stride=(1, 2, 3), padding=0, dilation=1, ceil_mode=False)");
  EXPECT_EQ(nn::AvgPool1d(2).text(), "AvgPool1d(kernel_size=(2,), stride=(2,), padding=(0,))");
  EXPECT_EQ(nn::AvgPool2d({2, 3}, {.stride = 1, .padding = {1, 1}, .ceil_mode = true}).text(),
            "AvgPool2d(kernel_size=(2, 3), stride=1, padding=(1, 1))");
  EXPECT_EQ(nn::AvgPool3d(2, {.stride = 2}).text(), "AvgPool3d(kernel_size=2, stride=2, padding=0)");
  EXPECT_EQ(nn::LPPool1d(2, 3).text(), "LPPool1d(norm_type=2.0, kernel_size=3, stride=None, ceil_mode=False)");
  EXPECT_EQ(nn::LPPool2d(1.5, {2, 3}, 2, true).text(),
            "LPPool2d(norm_type=1.5, kernel_size=(2, 3), stride=2, ceil_mode=True)");
  EXPECT_EQ(nn::AdaptiveAvgPool1d(5).text(), "AdaptiveAvgPool1d(output_size=5)");
  EXPECT_EQ(nn::AdaptiveAvgPool2d({3, 4}).text(), "AdaptiveAvgPool2d(output_size=(3, 4))");
  EXPECT_EQ(nn::AdaptiveMaxPool3d(2).text(), "AdaptiveMaxPool3d(output_size=2)");
}

TEST(PoolingLayers, GivePyTorchsValues) {
  const Tensor x = image();
  expect_values(nn::MaxPool2d(2)(x), {1, 1, 2, 2}, {3, 6, 4, 6});
  expect_values(nn::MaxPool2d(3, {.stride = 2, .padding = 1})(x), {1, 1, 2, 2}, {3, 6, 4, 6});
  expect_values(nn::AvgPool2d(3, {.stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false})(x),
                {1, 1, 3, 3}, {-0.25, 2, 3.5, 0.5, 11 / 9., -1 / 3., 1, 7 / 3., 2});
  expect_values(nn::LPPool2d(2, 2)(x), {1, 1, 2, 2}, {5.744562646538, 7.937253933194, 5.9160797831, 7.483314773548});
  expect_values(nn::AdaptiveAvgPool2d({2, 3})(x), {1, 1, 2, 3}, {-0.25, 1.25, 2.75, 0.75, 2.25, 1});
  expect_values(nn::AdaptiveMaxPool2d(3)(x), {1, 1, 3, 3}, {3, 5, 6, 4, 5, 5, 4, 6, 6});
}

TEST(PoolingLayers, OfOneAndThreeDimensionsAreTheirOps) {
  const Tensor line = randn({2, 3, 8}), volume = randn({2, 3, 4, 4, 4});
  EXPECT_TRUE(equal(nn::MaxPool1d(3, {.stride = 2})(line), max_pool1d(line, 3, {.stride = 2})));
  EXPECT_TRUE(equal(nn::MaxPool3d(2)(volume), max_pool3d(volume, 2)));
  EXPECT_TRUE(equal(nn::AvgPool1d(3)(line), avg_pool1d(line, 3)));
  EXPECT_TRUE(equal(nn::AvgPool3d(2)(volume), avg_pool3d(volume, 2)));
  EXPECT_TRUE(equal(nn::LPPool1d(2, 3)(line), lp_pool1d(line, 2, 3)));
  EXPECT_TRUE(equal(nn::LPPool3d(2, 2)(volume), lp_pool3d(volume, 2, 2)));
  EXPECT_TRUE(equal(nn::AdaptiveAvgPool1d(5)(line), adaptive_avg_pool1d(line, 5)));
  EXPECT_TRUE(equal(nn::AdaptiveAvgPool3d(3)(volume), adaptive_avg_pool3d(volume, 3)));
  EXPECT_TRUE(equal(nn::AdaptiveMaxPool1d(5)(line), adaptive_max_pool1d(line, 5)));
  EXPECT_TRUE(equal(nn::AdaptiveMaxPool3d(3)(volume), adaptive_max_pool3d(volume, 3)));
}

TEST(FunctionLayers, AnErrorNamesTheOpAndTheLineOfTheCall) {
  const std::string message = message_of<ShapeError>([] { nn::MaxPool2d(2)(ones({3, 3})); });
  EXPECT_NE(message.find("max_pool2d"), std::string::npos) << message;
  EXPECT_NE(message.find("function_layers_test.cpp"), std::string::npos) << message;
}

TEST(FunctionLayers, AreFoundInASequentialByType) {
  nn::Sequential net(nn::Conv2d(1, 2, 3, {.padding = 1}), nn::ReLU6(), nn::MaxPool2d(2), nn::Flatten(),
                     nn::Linear(2 * 2 * 2, 3), nn::LogSoftmax(1));
  EXPECT_EQ(net(randn({5, 1, 4, 4})).shape(), Dims({5, 3}));
  EXPECT_EQ(net[2].as<nn::MaxPool2d>().text(), nn::MaxPool2d(2).text());
  EXPECT_THROW(net[2].as<nn::MaxPool1d>(), ValueError);
  const nn::MaxPool2d copy = net[2].as<nn::MaxPool2d>().clone();
  EXPECT_FALSE(copy.same_as(net[2]));
  EXPECT_EQ(copy.text(), net[2].text());
  expect_values(copy(image()), {1, 1, 2, 2}, {3, 6, 4, 6});
}

TEST(PaddingLayers, PrintAsPyTorchs) {
  EXPECT_EQ(nn::ZeroPad1d(2).text(), "ZeroPad1d((2, 2))");
  EXPECT_EQ(nn::ZeroPad2d({1, 2, 3, 4}).text(), "ZeroPad2d((1, 2, 3, 4))");
  EXPECT_EQ(nn::ReflectionPad1d({1, 2}).text(), "ReflectionPad1d((1, 2))");
  EXPECT_EQ(nn::ReplicationPad3d(1).text(), "ReplicationPad3d((1, 1, 1, 1, 1, 1))");
  EXPECT_EQ(nn::CircularPad2d(1).text(), "CircularPad2d((1, 1, 1, 1))");
  EXPECT_EQ(nn::ConstantPad1d(2, 3.5).text(), "ConstantPad1d(padding=(2, 2), value=3.5)");
  EXPECT_EQ(nn::ConstantPad2d({1, 2, 0, 0}, 1).text(), "ConstantPad2d(padding=(1, 2, 0, 0), value=1)");
}

TEST(PaddingLayers, GivePyTorchsValues) {
  const Tensor x = image();
  expect_values(nn::ReflectionPad2d({1, 0, 2, 1})(x), {1, 1, 7, 5},
                {4, -3, 4, 0,  -4, -2, 2,  -2, 5, 1,  3, -4, 3, -1, 6, -2, 2, -2,
                 5, 1,  4, -3, 4,  0,  -4, -1, 3, -1, 6, 2,  4, -3, 4, 0,  -4});
  expect_values(nn::CircularPad2d({1, 2, 0, 1})(x), {1, 1, 5, 7},
                {6,  -4, 3, -1, 6, -4, 3, 1, 2, -2, 5, 1,  2, -2, -4, -3, 4, 0,
                 -4, -3, 4, 2,  3, -1, 6, 2, 3, -1, 6, -4, 3, -1, 6,  -4, 3});
  expect_values(nn::ConstantPad2d({0, 1, 1, 0}, 2.5)(x), {1, 1, 5, 5},
                {2.5, 2.5, 2.5, 2.5, 2.5, -4, 3, -1, 6, 2.5, 2, -2, 5, 1, 2.5, -3, 4, 0, -4, 2.5, 3, -1, 6, 2, 2.5});
  expect_values(nn::ReplicationPad2d(1)(x).narrow(2, 0, 2), {1, 1, 2, 6}, {-4, -4, 3, -1, 6, 6, -4, -4, 3, -1, 6, 6});
  expect_values(nn::ZeroPad2d(1)(x).narrow(2, 0, 2), {1, 1, 2, 6}, {0, 0, 0, 0, 0, 0, 0, -4, 3, -1, 6, 0});
}

TEST(PaddingLayers, OfOneAndThreeDimensionsPadThese) {
  const Tensor line = randn({1, 2, 4}), volume = randn({1, 1, 3, 3, 3});
  EXPECT_TRUE(equal(nn::CircularPad1d({1, 2})(line), pad(line, {1, 2}, Padding::circular)));
  EXPECT_TRUE(equal(nn::ReplicationPad1d(1)(line), pad(line, {1, 1}, Padding::replicate)));
  EXPECT_TRUE(equal(nn::ReflectionPad3d(1)(volume), pad(volume, {1, 1, 1, 1, 1, 1}, Padding::reflect)));
  EXPECT_TRUE(equal(nn::CircularPad3d(1)(volume), pad(volume, {1, 1, 1, 1, 1, 1}, Padding::circular)));
  EXPECT_TRUE(equal(nn::ZeroPad3d(2)(volume), pad(volume, {2, 2, 2, 2, 2, 2})));
  EXPECT_TRUE(equal(nn::ConstantPad3d(1, 7)(volume), pad(volume, {1, 1, 1, 1, 1, 1}, Padding::constant, 7)));
}

TEST(PaddingLayers, TakeOneNumberOrTwoForEachDimension) {
  EXPECT_NE(message_of<ValueError>([] { nn::ReflectionPad2d({1, 2}); }).find("nn::ReflectionPad2d"), std::string::npos);
  EXPECT_NE(message_of<ValueError>([] {
              nn::ConstantPad1d({1, 2, 3}, 0);
            }).find("nn::ConstantPad1d"),
            std::string::npos);
  EXPECT_THROW(nn::ZeroPad3d(Dims{}), ValueError);
}

TEST(RearrangingLayers, PrintAsPyTorchs) {
  EXPECT_EQ(nn::Identity().text(), "Identity()");
  EXPECT_EQ(nn::Flatten().text(), "Flatten(start_dim=1, end_dim=-1)");
  EXPECT_EQ(nn::Flatten(0, 2).text(), "Flatten(start_dim=0, end_dim=2)");
  EXPECT_EQ(nn::Unflatten(1, {2, 5}).text(), "Unflatten(dim=1, unflattened_size=(2, 5))");
  EXPECT_EQ(nn::Upsample({.scale_factor = {2}}).text(), "Upsample(scale_factor=2.0, mode='nearest')");
  EXPECT_EQ(nn::Upsample({.scale_factor = {2, 3.5}, .mode = Interpolation::bilinear, .align_corners = true}).text(),
            "Upsample(scale_factor=(2.0, 3.5), mode='bilinear')");
  EXPECT_EQ(nn::Upsample({.size = {4, 5}, .mode = Interpolation::nearest_exact}).text(),
            "Upsample(size=(4, 5), mode='nearest-exact')");
  EXPECT_EQ(nn::Upsample({.size = 4}).text(), "Upsample(size=4, mode='nearest')");
  EXPECT_EQ(nn::PixelShuffle(3).text(), "PixelShuffle(upscale_factor=3)");
  EXPECT_EQ(nn::PixelUnshuffle(2).text(), "PixelUnshuffle(downscale_factor=2)");
  EXPECT_EQ(nn::ChannelShuffle(2).text(), "ChannelShuffle(groups=2)");
  EXPECT_EQ(nn::Unfold({2, 3}, {.dilation = 2}).text(), "Unfold(kernel_size=(2, 3), dilation=2, padding=0, stride=1)");
  EXPECT_EQ(nn::Fold({4, 5}, {2, 2}).text(),
            "Fold(output_size=(4, 5), kernel_size=(2, 2), dilation=1, padding=0, stride=1)");
}

TEST(RearrangingLayers, GivePyTorchsValues) {
  const Tensor x = image();
  expect_values(nn::Upsample({.size = {2, 6}})(x), {1, 1, 2, 6}, {-4, -4, 3, -1, -1, 6, -3, -3, 4, 0, 0, -4});
  expect_values(nn::Upsample({.scale_factor = {1.5}, .mode = Interpolation::bilinear})(x).narrow(2, 0, 1), {1, 1, 1, 6},
                {-4, -0.5, 7 / 3., -1 / 3., 2.5, 6});
  const Tensor parts = nn::PixelUnshuffle(2)(x);
  expect_values(parts, {1, 4, 2, 2}, {-4, -1, -3, 0, 3, 6, 4, -4, 2, 5, 3, 6, -2, 1, -1, 2});
  EXPECT_TRUE(equal(nn::PixelShuffle(2)(parts), x));
  EXPECT_EQ(nn::Flatten()(x).shape(), Dims({1, 16}));
  EXPECT_EQ(nn::Unflatten(2, {2, 2})(x).shape(), Dims({1, 1, 2, 2, 4}));
  EXPECT_TRUE(equal(nn::ChannelShuffle(2)(parts), channel_shuffle(parts, 2)));
  EXPECT_TRUE(equal(nn::Identity()(x), x));
  const Tensor columns = nn::Unfold(2, {.stride = 2})(x);
  EXPECT_EQ(columns.shape(), Dims({1, 4, 4}));
  EXPECT_TRUE(equal(nn::Fold(4, 2, {.stride = 2})(columns), x));
}

TEST(DropoutLayers, PrintAsPyTorchsAndObeyTheMode) {
  EXPECT_EQ(nn::Dropout2d(0.25).text(), "Dropout2d(p=0.25, inplace=False)");
  EXPECT_EQ(nn::AlphaDropout(0.1).text(), "AlphaDropout(p=0.1, inplace=False)");
  EXPECT_EQ(nn::FeatureAlphaDropout().text(), "FeatureAlphaDropout(p=0.5, inplace=False)");
  manual_seed(1);
  const Tensor x = ones({4, 8, 3, 3});
  nn::Sequential net(nn::Dropout2d{}, nn::AlphaDropout{}, nn::FeatureAlphaDropout{}, nn::RReLU{});
  EXPECT_FALSE(equal(net(x), x));
  net.eval();
  EXPECT_TRUE(equal(net(x), x));
}

TEST(DropoutLayers, OfChannelsTakeWholeOnes) {
  manual_seed(2);
  const auto whole = [](const Tensor& y, int64_t elements) {
    const Tensor sums = y.view({4, 8, -1}).sum(2);
    return equal(logical_or(sums == 0, sums == 2 * elements), ones({4, 8}, boolean)) && (sums == 0).any().item<bool>();
  };
  EXPECT_TRUE(whole(nn::Dropout1d()(ones({4, 8, 5})), 5));
  EXPECT_TRUE(whole(nn::Dropout2d()(ones({4, 8, 3, 3})), 9));
  EXPECT_TRUE(whole(nn::Dropout3d()(ones({4, 8, 2, 2, 2})), 8));
}

TEST(DropoutLayers, RejectInvalidProbabilities) {
  EXPECT_NE(message_of<ValueError>([] { nn::Dropout(1.5); }).find("nn::Dropout"), std::string::npos);
  EXPECT_NE(message_of<ValueError>([] { nn::Dropout3d(-0.1); }).find("nn::Dropout3d"), std::string::npos);
  EXPECT_THROW(nn::AlphaDropout(2), ValueError);
  EXPECT_THROW(nn::FeatureAlphaDropout(2), ValueError);
}

TEST(ActivationLayers, PrintAsPyTorchs) {
  EXPECT_EQ(nn::ReLU6().text(), "ReLU6()");
  EXPECT_EQ(nn::GELU(Approximate::tanh).text(), "GELU(approximate='tanh')");
  EXPECT_EQ(nn::ELU().text(), "ELU(alpha=1.0)");
  EXPECT_EQ(nn::CELU(0.5).text(), "CELU(alpha=0.5)");
  EXPECT_EQ(nn::LeakyReLU().text(), "LeakyReLU(negative_slope=0.01)");
  EXPECT_EQ(nn::Softplus().text(), "Softplus(beta=1.0, threshold=20.0)");
  EXPECT_EQ(nn::Softshrink().text(), "Softshrink(0.5)");
  EXPECT_EQ(nn::Hardshrink(0.25).text(), "Hardshrink(0.25)");
  EXPECT_EQ(nn::Hardtanh().text(), "Hardtanh(min_val=-1.0, max_val=1.0)");
  EXPECT_EQ(nn::Threshold(0.1, 20).text(), "Threshold(threshold=0.1, value=20)");
  EXPECT_EQ(nn::RReLU().text(), "RReLU(lower=0.125, upper=0.3333333333333333)");
  EXPECT_EQ(nn::GLU().text(), "GLU(dim=-1)");
  EXPECT_EQ(nn::Softmax(1).text(), "Softmax(dim=1)");
  EXPECT_EQ(nn::LogSoftmax(-1).text(), "LogSoftmax(dim=-1)");
  EXPECT_EQ(nn::PReLU(3, 0.1).text(), "PReLU(num_parameters=3)");
}

TEST(ActivationLayers, GivePyTorchsValues) {
  const Tensor x = tensor<double>(points, f64);
  const auto expect = [&](const nn::AnyModule& layer, std::initializer_list<double> wanted) {
    expect_values(layer(x), {5}, wanted);
  };
  expect(nn::ReLU6(), {0, 0, 0, 0.3, 6});
  expect(nn::SELU(), {-1.613785758873, -0.691758187803, 0, 0.315210296207, 7.354906911488});
  expect(nn::Mish(), {-0.196816203907, -0.220743774652, 0, 0.208001372348, 6.99998837981});
  expect(nn::LogSigmoid(), {-2.578889734293, -0.97407698418, -0.69314718056, -0.554355244469, -0.000911466454});
  expect(nn::Hardsigmoid(), {1 / 12., 5 / 12., 0.5, 0.55, 1});
  expect(nn::Hardswish(), {-2.5 / 12, -2.5 / 12, 0, 0.165, 7});
  expect(nn::Softsign(), {-2.5 / 3.5, -1 / 3., 0, 0.3 / 1.3, 0.875});
  expect(nn::Tanhshrink(), {-1.513385701849, -0.03788284274, 0, 0.008687387548, 6.000001663056});
  expect(nn::ELU(0.5), {-0.458957500688, -0.196734670144, 0, 0.3, 7});
  expect(nn::CELU(2), {-1.42699040628, -0.442398433857, 0, 0.3, 7});
  expect(nn::LeakyReLU(0.2), {-0.5, -0.1, 0, 0.3, 7});
  expect(nn::Softplus(2, 10), {0.003357674245, 0.156630843759, 0.34657359028, 0.518743975243, 7});
  expect(nn::Softshrink(0.4), {-2.1, -0.1, 0, 0, 6.6});
  expect(nn::Hardshrink(0.4), {-2.5, -0.5, 0, 0, 7});
  expect(nn::Hardtanh(-2, 2), {-2, -0.5, 0, 0.3, 2});
  expect(nn::Threshold(0.1, 20), {20, 20, 20, 0.3, 7});
  expect(nn::Softmax(0), {7.4645009e-05, 0.000551556157, 0.000909362368, 0.001227510802, 0.997236925665});
  expect(nn::LogSoftmax(0), {-9.502766898671, -7.502766898671, -7.002766898671, -6.702766898671, -0.002766898671});
  expect_values(nn::GLU(0)(tensor<double>({1, -2, 3, 0.5}, f64)), {2}, {0.952574126822, -1.244918662404});
  nn::RReLU evaluated;
  evaluated.eval();
  expect(evaluated, {-2.5 * 11 / 48, -0.5 * 11 / 48, 0, 0.3, 7});
}

TEST(ActivationLayers, PReLULearnsItsSlopes) {
  nn::PReLU one(1, 0.1), each(3);
  EXPECT_EQ(each.parameters().size(), 1u);
  EXPECT_TRUE(equal(each.weight.detach(), full(3, 0.25)));
  EXPECT_TRUE(allclose(one(tensor({-2.5, 4.0})), tensor({-0.25, 4.0})));
  each(-ones({2, 3})).sum().backward();
  EXPECT_EQ(each.weight.grad().to_vector<float>(), (std::vector<float>{-2, -2, -2}));
  EXPECT_THROW(nn::PReLU(-1), ValueError);
}

TEST(DistanceLayers, PrintAsPyTorchsAndGiveItsValues) {
  const Tensor a = tensor<double>({{1, 2, -1}, {0, 3, 4}}, f64), b = tensor<double>({{2, 0, 1}, {1, 1, -2}}, f64);
  expect_values(nn::CosineSimilarity()(a, b), {2}, {0.182574185835, -0.408248290464});
  expect_values(nn::CosineSimilarity(0, 1e-6)(a, b), {3}, {0.894427191, 0.832050294338, -0.976187060184});
  expect_values(nn::PairwiseDistance(1, 1e-6, true)(a, b), {2, 1}, {4.999999, 9.000001});
  EXPECT_EQ(nn::CosineSimilarity().text(), "CosineSimilarity()");
  EXPECT_EQ(nn::PairwiseDistance().text(), "PairwiseDistance()");
}

TEST(PoolingLayers, GiveIndicesThatUnpoolTakes) {
  const Tensor x = image();
  const auto [values, indices] = nn::MaxPool2d(2).forward_with_indices(x);
  EXPECT_TRUE(equal(values, nn::MaxPool2d(2)(x)));
  const nn::MaxUnpool2d unpool(2);
  expect_values(unpool(values, indices), {1, 1, 4, 4}, {0, 3, 0, 6, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 6, 0});
  EXPECT_EQ(unpool(values, indices, Dims{5, 4}).shape(), Dims({1, 1, 5, 4}));
  EXPECT_EQ(nn::MaxUnpool2d(2, {.output_size = {5, 5}})(values, indices).shape(), Dims({1, 1, 5, 5}));
  EXPECT_EQ(unpool.text(), "MaxUnpool2d(kernel_size=(2, 2), stride=(2, 2), padding=(0, 0))");
  EXPECT_EQ(nn::MaxUnpool1d(3, {.stride = 2, .padding = 1}).text(),
            "MaxUnpool1d(kernel_size=(3,), stride=(2,), padding=(1,))");
  const Tensor line = randn({2, 3, 8});
  EXPECT_TRUE(equal(nn::AdaptiveMaxPool1d(5).forward_with_indices(line).indices,
                    adaptive_max_pool1d_with_indices(line, 5).indices));
}

TEST(PoolingLayers, OfRandomWindowsDrawThemForEachCall) {
  const Tensor x = randn({2, 3, 9, 9});
  const nn::FractionalMaxPool2d drawn(2, {.output_size = 5});
  EXPECT_EQ(drawn(x).shape(), Dims({2, 3, 5, 5}));
  EXPECT_EQ(drawn.text(), "FractionalMaxPool2d()");
  const nn::FractionalMaxPool2d fixed(2, {.output_ratio = {0.5}, .random_samples = full({2, 3, 2}, 0.3)});
  EXPECT_TRUE(equal(fixed(x), fixed.forward_with_indices(x).values));
  EXPECT_EQ(nn::FractionalMaxPool3d(2, {.output_size = 2})(randn({1, 4, 4, 4})).shape(), Dims({1, 2, 2, 2}));
  EXPECT_THROW(nn::FractionalMaxPool2d(2, {})(x), ValueError);
}

#define WEFT_EXPECT_REFUSED(...) EXPECT_THROW({ [[maybe_unused]] const auto layer = __VA_ARGS__; }, Error)

TEST(Layers, OptionsThatNoInputSuitsAreRefusedWhereTheyAreGiven) {
  using namespace nn;
  const double nan = std::nan("");
  WEFT_EXPECT_REFUSED(Hardtanh(3, 1));
  WEFT_EXPECT_REFUSED(Softshrink(-1));
  WEFT_EXPECT_REFUSED(Softshrink(nan));
  WEFT_EXPECT_REFUSED(CELU(0));
  WEFT_EXPECT_REFUSED(RReLU(0.5, 0.1));
  WEFT_EXPECT_REFUSED(Dropout(2));
  WEFT_EXPECT_REFUSED(Dropout2d(-0.5));
  WEFT_EXPECT_REFUSED(AlphaDropout(nan));
  WEFT_EXPECT_REFUSED(MaxPool1d(0));
  WEFT_EXPECT_REFUSED(MaxPool2d(2, {.stride = -1}));
  WEFT_EXPECT_REFUSED(MaxPool3d(2, {.padding = 2}));
  WEFT_EXPECT_REFUSED(MaxPool1d(2, {.dilation = 0}));
  WEFT_EXPECT_REFUSED(MaxPool2d({2, 2, 2}));
  WEFT_EXPECT_REFUSED(MaxUnpool2d(2, {.stride = -1}));
  WEFT_EXPECT_REFUSED(AvgPool2d(2, {.divisor_override = 0}));
  WEFT_EXPECT_REFUSED(AvgPool3d(0));
  WEFT_EXPECT_REFUSED(LPPool1d(0, 2));
  WEFT_EXPECT_REFUSED(LPPool2d(2, 0));
  WEFT_EXPECT_REFUSED(AdaptiveAvgPool1d(-1));
  WEFT_EXPECT_REFUSED(AdaptiveMaxPool2d(-1));
  WEFT_EXPECT_REFUSED(FractionalMaxPool2d(2, {}));
  WEFT_EXPECT_REFUSED(FractionalMaxPool3d(2, {.output_ratio = {2}}));
  WEFT_EXPECT_REFUSED(LocalResponseNorm(0));
  WEFT_EXPECT_REFUSED(Upsample({}));
  WEFT_EXPECT_REFUSED(Upsample({.size = 0}));
  WEFT_EXPECT_REFUSED(Upsample({.scale_factor = {-1}}));
  WEFT_EXPECT_REFUSED(PixelShuffle(0));
  WEFT_EXPECT_REFUSED(PixelUnshuffle(-1));
  WEFT_EXPECT_REFUSED(ChannelShuffle(0));
  WEFT_EXPECT_REFUSED(Unfold(0));
  WEFT_EXPECT_REFUSED(Fold(4, 2, {.dilation = 0}));
  WEFT_EXPECT_REFUSED(Conv1d(2, 2, 0));
  WEFT_EXPECT_REFUSED(Conv2d(2, 2, 3, {.stride = 0}));
  WEFT_EXPECT_REFUSED(Conv2d(2, 2, 3, {.padding = -1}));
  WEFT_EXPECT_REFUSED(Conv3d(2, 2, 3, {.dilation = 0}));
  WEFT_EXPECT_REFUSED(ConvTranspose2d(2, 2, 3, {.output_padding = 1}));
  WEFT_EXPECT_REFUSED(LayerNorm(Dims()));
  WEFT_EXPECT_REFUSED(RMSNorm(Dims()));
  WEFT_EXPECT_REFUSED(EmbeddingBag(3, 2, {.max_norm = -1}));
  WEFT_EXPECT_REFUSED(MultiheadAttention(8, 2, {.dropout = 2}));
  WEFT_EXPECT_REFUSED(MultiheadAttention(8, 2, {.kdim = -1}));
  WEFT_EXPECT_REFUSED(TransformerBlock(8, 2, {.hidden = -4}));
  WEFT_EXPECT_REFUSED(PairwiseDistance(nan));
  WEFT_EXPECT_REFUSED(CrossEntropyLoss({.label_smoothing = 2}));
  WEFT_EXPECT_REFUSED(HuberLoss({.delta = 0}));
  WEFT_EXPECT_REFUSED(SmoothL1Loss({.beta = -1}));
  WEFT_EXPECT_REFUSED(MultiMarginLoss({.p = 3}));
  WEFT_EXPECT_REFUSED(TripletMarginLoss({.margin = 0}));
  WEFT_EXPECT_REFUSED(CTCLoss({.blank = -1}));
  WEFT_EXPECT_REFUSED(TripletMarginWithDistanceLoss({}, {.margin = -1}));
  const std::string message = message_of<ValueError>([] { nn::Hardtanh(3, 1); });
  EXPECT_NE(message.find("function_layers_test.cpp:" + std::to_string(__LINE__ - 1)), std::string::npos) << message;
}

TEST(Layers, AreMadeWithoutDrawingFromTheGenerator) {
  manual_seed(3);
  const Tensor wanted = rand({4});
  manual_seed(3);
  nn::RReLU();
  nn::Dropout2d(0.5);
  nn::FractionalMaxPool2d(2, {.output_size = 3});
  EXPECT_TRUE(equal(rand({4}), wanted));
}

}  // namespace
}  // namespace weft
