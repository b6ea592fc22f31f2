// Options that no input suits are refused when a layer is constructed, not when it is called.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include <weft/nn/causal_lm.hpp>
#include <weft/nn/distance.hpp>
#include <weft/nn/losses.hpp>
#include <weft/nn/registry.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>

namespace weft {
namespace {

using nn::Attribute;
using ::testing::HasSubstr;

/// Values of the option's type, and lists of other lengths.
std::vector<Attribute> others(const Attribute& value) {
  const std::vector<int64_t> one = {1, 1, 1, 1}, negative = {-1, -1}, two = {1, 2};
  switch (value.type()) {
    case Attribute::Type::i64:
      return {-1, 0, -3, 3, 12, -12, std::numeric_limits<int64_t>::min()};
    case Attribute::Type::f64:
      return {-1.0, 0.0, -0.5, 1.5, std::nan(""), std::numeric_limits<double>::infinity()};
    case Attribute::Type::i64s:
      return {-1, 0, 3, 12, one, negative, two, std::vector<int64_t>()};
    default:
      return {};
  }
}

std::vector<Tensor> inputs_of(const nn::Config& config) {
  std::vector<Tensor> out;
  for (const int rank : {0, 1, 2, 3, 4, 5, 6, 7, 8}) out.push_back(ones(Dims::filled(rank, rank < 6 ? 4 : 2)));
  for (const int64_t channels : {1, 3, 4, 9, 12, 24, 144}) {
    for (const int64_t size : {6, 12, 40}) {
      out.push_back(ones({1, channels, size}));
      out.push_back(ones({1, channels, size, size}));
      if (channels < 13) out.push_back(ones({1, channels, size, size, size}));
    }
  }
  for (const char* name : {"in_features", "width", "normalized_shape", "num_features", "num_channels", "in_channels"}) {
    if (!config.contains(name)) continue;
    const auto sizes = config.get<std::vector<int64_t>>(name);
    Dims rows{2, 3};
    for (const int64_t size : sizes) rows.push_back(size);
    out.push_back(ones(rows));
    for (int dims = 0; dims <= 3 && sizes.size() == 1; ++dims) {
      Dims image{2, sizes[0]};
      for (int i = 0; i < dims; ++i) image.push_back(32);
      out.push_back(ones(image));
    }
  }
  int64_t product = 1;
  for (const int64_t size : config.get_or<std::vector<int64_t>>("unflattened_size", {})) product *= size < 0 ? 1 : size;
  for (int rank = 1; rank < 5; ++rank) out.push_back(ones(Dims::filled(rank, product)));
  for (const int64_t blocks : {1, 4, 9, 16, 25, 35, 49, 81, 121, 169, 729}) {
    for (const int64_t rows : {1, 3, 4, 9, 144}) out.push_back(ones({1, rows, blocks}));
  }
  out.push_back(zeros({0}, i64)), out.push_back(zeros({2}, i64)), out.push_back(zeros({2, 0}, i64));
  return out;
}

/// Empty if the layer can be called with one of the inputs; else the last error.
std::string error_of(const nn::AnyModule& layer) {
  std::string problem = "no input";
  for (const Tensor& x : inputs_of(layer.config())) {
    try {
      (void)layer(x);
      return {};
    } catch (const Error& error) {
      problem = error.what();
    }
  }
  return problem;
}

void check_options(const nn::AnyModule& layer) {
  const nn::ModuleRegistry& registry = nn::ModuleRegistry::standard();
  ASSERT_EQ(error_of(layer), "") << layer;
  const std::string type = layer.class_name();
  for (const auto& [name, value] : layer.config().options()) {
    for (const Attribute& other : others(value)) {
      nn::Config config = layer.config();
      config.set(name, other);
      std::optional<nn::AnyModule> made;
      try {
        made = registry.build({.type = type, .config = config});
      } catch (const Error&) {
        continue;
      }
      EXPECT_EQ(error_of(*made), "") << type << " " << name << " " << other.text();
    }
  }
}

template <int dims>
std::vector<nn::AnyModule> layers_of_images() {
  return {nn::MaxPool<dims>(2),
          nn::AvgPool<dims>(2),
          nn::LPPool<dims>(2, 2),
          nn::AdaptiveAvgPool<dims>(2),
          nn::AdaptiveMaxPool<dims>(2),
          nn::ChannelDropout<dims>(0.5),
          nn::detail::EdgePad<dims, Padding::constant>(1),
          nn::detail::EdgePad<dims, Padding::reflect>(1),
          nn::detail::EdgePad<dims, Padding::replicate>(1),
          nn::detail::EdgePad<dims, Padding::circular>(1),
          nn::ConstantPad<dims>(1, 2.0)};
}

TEST(RefusedOptions, OfActivations) {
  for (const nn::AnyModule& layer :
       {nn::AnyModule(nn::ELU()), nn::AnyModule(nn::CELU()), nn::AnyModule(nn::LeakyReLU()),
        nn::AnyModule(nn::Softplus()), nn::AnyModule(nn::Softshrink()), nn::AnyModule(nn::Hardshrink()),
        nn::AnyModule(nn::Hardtanh()), nn::AnyModule(nn::Threshold(1.0, 2.0)), nn::AnyModule(nn::RReLU()),
        nn::AnyModule(nn::GLU()), nn::AnyModule(nn::Softmax(1)), nn::AnyModule(nn::LogSoftmax(-1)),
        nn::AnyModule(nn::PReLU(4)), nn::AnyModule(nn::GELU())}) {
    check_options(layer);
  }
}

TEST(RefusedOptions, OfLayersThatReshape) {
  for (const nn::AnyModule& layer :
       {nn::AnyModule(nn::Flatten()), nn::AnyModule(nn::Unflatten(1, {2, 3})), nn::AnyModule(nn::PixelShuffle(2)),
        nn::AnyModule(nn::PixelUnshuffle(2)), nn::AnyModule(nn::ChannelShuffle(2)), nn::AnyModule(nn::Unfold(2)),
        nn::AnyModule(nn::Fold(4, 2)), nn::AnyModule(nn::Upsample({.scale_factor = {2.0}})),
        nn::AnyModule(nn::Upsample({.size = 3}))}) {
    check_options(layer);
  }
}

TEST(RefusedOptions, OfPoolsAndPads) {
  for (const auto& layers : {layers_of_images<1>(), layers_of_images<2>(), layers_of_images<3>()}) {
    for (const nn::AnyModule& layer : layers) check_options(layer);
  }
  check_options(nn::FractionalMaxPool2d(2, {.output_size = 2}));
}

TEST(RefusedOptions, OfLayersWithWeights) {
  for (const nn::AnyModule& layer :
       {nn::AnyModule(nn::Linear(4, 3)), nn::AnyModule(nn::Embedding(5, 3)), nn::AnyModule(nn::EmbeddingBag(5, 3)),
        nn::AnyModule(nn::LayerNorm(Dims(4))), nn::AnyModule(nn::RMSNorm(Dims(4))), nn::AnyModule(nn::BatchNorm2d(4)),
        nn::AnyModule(nn::InstanceNorm1d(4)), nn::AnyModule(nn::GroupNorm(2, 4)),
        nn::AnyModule(nn::LocalResponseNorm(2)), nn::AnyModule(nn::Conv1d(4, 6, 3)),
        nn::AnyModule(nn::Conv2d(4, 6, 3, {.padding = 1, .padding_mode = Padding::reflect})),
        nn::AnyModule(nn::ConvTranspose1d(4, 6, 3)), nn::AnyModule(nn::ConvTranspose2d(4, 6, 3)),
        nn::AnyModule(nn::SelfAttention(4, 2)), nn::AnyModule(nn::TransformerBlock(4, 2)),
        nn::AnyModule(nn::Fp8Linear(16, 4)), nn::AnyModule(nn::Dropout()), nn::AnyModule(nn::AlphaDropout())}) {
    check_options(layer);
  }
}

TEST(RefusedOptions, RaiseTheErrorOfACall) {
  EXPECT_THROW(nn::Flatten(2, 1), ValueError);
  EXPECT_THROW(nn::Flatten(0, 9), IndexError);
  EXPECT_THROW(nn::Unflatten(0, {-2, 3}), ShapeError);
  EXPECT_THROW(nn::Unflatten(12, {2, 3}), IndexError);
  EXPECT_THROW(nn::PReLU(0), ValueError);
  EXPECT_THROW(nn::Softmax(12), IndexError);
  EXPECT_THROW(nn::GLU(-12), IndexError);
  EXPECT_THROW(nn::CosineSimilarity(9), IndexError);
  EXPECT_THROW(nn::Conv2d(2, 2, 3, {.stride = {1, 1, 1}}), ValueError);
  EXPECT_THROW(nn::ConvTranspose2d(2, 2, 3, {.output_padding = {0, 0, 0}}), ValueError);
  EXPECT_THROW(nn::TripletMarginLoss({.p = std::nan("")}), ValueError);
  EXPECT_THROW(nn::CausalLM({.vocabulary = 3, .width = 4, .layers = 0, .heads = 2, .rope = {.theta = -1}}), ValueError);
  EXPECT_THROW(nn::CausalLM({.vocabulary = 3, .width = 4, .layers = 0, .heads = int64_t{1} << 62, .head_dim = 4}),
               ValueError);
  EXPECT_THAT(message_of<ValueError>([] { nn::PReLU(0); }), HasSubstr("refused_options_test.cpp"));
}

// A window may be larger than the images that constructors try.
TEST(RefusedOptions, LargeWindowsAreNone) {
  EXPECT_EQ(nn::AvgPool1d(50000)(ones({1, 1, 50000})).shape(), Dims({1, 1, 1}));
  EXPECT_EQ(nn::MaxPool1d(20000, {.dilation = 2})(ones({1, 1, 40000})).shape(), Dims({1, 1, 1}));
  EXPECT_EQ(nn::LPPool1d(2, 50000)(ones({1, 1, 50000})).shape(), Dims({1, 1, 1}));
  EXPECT_EQ(nn::ReflectionPad1d(50000)(ones({1, 1, 60000})).shape(), Dims({1, 1, 160000}));
  EXPECT_EQ(nn::Upsample({.scale_factor = {1e-5}})(ones({1, 1, 100000})).shape(), Dims({1, 1, 1}));
}

}  // namespace
}  // namespace weft
