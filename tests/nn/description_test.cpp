// The descriptions of layers: the config, the text and the builder agree with the constructors.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include <weft/nn/description-inl.hpp>
#include <weft/nn/distance.hpp>
#include <weft/nn/registry.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

using nn::AnyModule;
using nn::OptionInfo;

template <int dims>
void add_for_dims(std::vector<AnyModule>& all) {
  const std::vector<AnyModule> layers = {nn::MaxPool<dims>(2),
                                         nn::AvgPool<dims>(2),
                                         nn::LPPool<dims>(2, 3),
                                         nn::AdaptiveAvgPool<dims>(2),
                                         nn::AdaptiveMaxPool<dims>(2),
                                         nn::ChannelDropout<dims>(),
                                         nn::ConstantPad<dims>(1, 2.5),
                                         nn::detail::EdgePad<dims, Padding::constant>(1),
                                         nn::detail::EdgePad<dims, Padding::reflect>(1),
                                         nn::detail::EdgePad<dims, Padding::replicate>(1),
                                         nn::detail::EdgePad<dims, Padding::circular>(1),
                                         AnyModule::wrap(nn::MaxUnpool<dims>(2))};
  all.insert(all.end(), layers.begin(), layers.end());
}

/// One layer of each description, constructed from its required options.
std::vector<AnyModule> layers_with_defaults() {
  std::vector<AnyModule> all = {nn::ReLU(),
                                nn::ReLU6(),
                                nn::SELU(),
                                nn::SiLU(),
                                nn::Mish(),
                                nn::Tanh(),
                                nn::Sigmoid(),
                                nn::LogSigmoid(),
                                nn::Hardsigmoid(),
                                nn::Hardswish(),
                                nn::Softsign(),
                                nn::Tanhshrink(),
                                nn::GELU(),
                                nn::ELU(),
                                nn::CELU(),
                                nn::LeakyReLU(),
                                nn::Softplus(),
                                nn::Softshrink(),
                                nn::Hardshrink(),
                                nn::Hardtanh(),
                                nn::Threshold(0.5, 2),
                                nn::RReLU(),
                                nn::GLU(),
                                nn::Softmax(1),
                                nn::LogSoftmax(1),
                                nn::PReLU(),
                                nn::Dropout(),
                                nn::AlphaDropout(),
                                nn::FeatureAlphaDropout(),
                                nn::Identity(),
                                nn::Flatten(),
                                nn::Unflatten(1, {2, 3}),
                                nn::PixelShuffle(2),
                                nn::PixelUnshuffle(2),
                                nn::ChannelShuffle(2),
                                nn::Unfold(2),
                                nn::Fold(4, 2),
                                nn::LocalResponseNorm(2),
                                nn::BatchNorm1d(3),
                                nn::BatchNorm2d(3),
                                nn::BatchNorm3d(3),
                                nn::InstanceNorm1d(3),
                                nn::InstanceNorm2d(3),
                                nn::InstanceNorm3d(3),
                                nn::GroupNorm(2, 4),
                                nn::Conv1d(2, 3, 2),
                                nn::Conv2d(2, 3, 2),
                                nn::Conv3d(2, 3, 2),
                                nn::ConvTranspose1d(2, 3, 2),
                                nn::ConvTranspose2d(2, 3, 2),
                                nn::ConvTranspose3d(2, 3, 2),
                                nn::Linear(3, 2),
                                nn::Embedding(3, 2),
                                nn::EmbeddingBag(3, 2),
                                nn::LayerNorm(4),
                                nn::RMSNorm({4, 2}),
                                nn::SelfAttention(4, 2),
                                nn::TransformerBlock(4, 2),
                                AnyModule::wrap(nn::Bilinear(3, 2, 1)),
                                AnyModule::wrap(nn::LSTM(3, 2)),
                                AnyModule::wrap(nn::GRU(3, 2)),
                                AnyModule::wrap(nn::RNN(3, 2)),
                                AnyModule::wrap(nn::LSTMCell(3, 2)),
                                AnyModule::wrap(nn::GRUCell(3, 2)),
                                AnyModule::wrap(nn::RNNCell(3, 2)),
                                AnyModule::wrap(nn::MultiheadAttention(4, 2)),
                                AnyModule::wrap(nn::CosineSimilarity()),
                                AnyModule::wrap(nn::PairwiseDistance())};
  add_for_dims<1>(all), add_for_dims<2>(all), add_for_dims<3>(all);
  return all;
}

TEST(LayerDescriptions, DefaultsAreThoseOfTheConstructors) {
  std::set<std::string> described = {"Upsample", "FractionalMaxPool2d", "FractionalMaxPool3d"}, all;
  for (const nn::LayerInfo& layer : nn::detail::described_layers().all()) {
    if (!layer.name.ends_with("Loss")) all.insert(layer.name);  // those have the defaults of their options struct
  }
  for (const AnyModule& layer : layers_with_defaults()) {
    const nn::LayerInfo* info = nn::detail::described_layers().find(layer.class_name());
    ASSERT_NE(info, nullptr) << layer.class_name();
    described.insert(info->name);
    nn::Config required;
    for (const OptionInfo& option : info->options) {
      if (option.facts.is_required) required.set(option.facts.name, *layer.config().find(option.facts.name));
    }
    const AnyModule made = info->make(required, {});
    EXPECT_EQ(made.text(), layer.text());
    ASSERT_EQ(made.config().options().size(), layer.config().options().size()) << info->name;
    for (size_t i = 0; i < made.config().options().size(); ++i) {
      const auto &a = made.config().options()[i], &b = layer.config().options()[i];
      EXPECT_EQ(a.name, b.name);
      EXPECT_TRUE(a.value == b.value) << info->name << " " << a.name << " " << a.value.text() << " " << b.value.text();
    }
  }
  EXPECT_EQ(described, all);
}

TEST(LayerDescriptions, ConfigsHaveTheOptionsInOrder) {
  for (const AnyModule& layer : layers_with_defaults()) {
    std::vector<std::string> names, wanted;
    for (const auto& option : layer.config().options()) names.push_back(option.name);
    for (const OptionInfo& option : nn::detail::described_layers().find(layer.class_name())->options) {
      if (option.role != nn::OptionRole::python) wanted.emplace_back(option.facts.name);
    }
    EXPECT_EQ(names, wanted) << layer.class_name();
  }
}

TEST(LayerDescriptions, RangesAreErrorsOfTheConstructor) {
  const auto problem = [](auto make) -> std::string {
    try {
      make();
    } catch (const ValueError& error) {
      return error.what();
    }
    return "no error";
  };
  EXPECT_THAT(problem([] { nn::Dropout2d(1.5); }),
              ::testing::HasSubstr("[nn::Dropout2d] p: expected a number in [0, 1], got 1.5"));
  EXPECT_THAT(problem([] { nn::AlphaDropout(std::nan("")); }),
              ::testing::HasSubstr("p: expected a number in [0, 1], got nan"));
  EXPECT_THAT(problem([] { nn::Linear(-1, 2); }),
              ::testing::HasSubstr("[nn::Linear] in_features: expected at least 0, got -1"));
  EXPECT_THAT(problem([] { nn::EmbeddingBag(3, 2, {.max_norm = -1}); }),
              ::testing::HasSubstr("[nn::EmbeddingBag] max_norm: expected at least 0, got -1"));
  EXPECT_THAT(problem([] { nn::PReLU(0); }),
              ::testing::HasSubstr("[nn::PReLU] num_parameters: expected at least 1, got 0"));
}

}  // namespace
}  // namespace weft
