// The text of a prompt, bit by bit, whatever is generated beside it and whether a draft proposes it.
#include <string>
#include <tuple>
#include <vector>

#include <gtest/gtest.h>

#include <weft/generate/checkpoint.hpp>
#include <weft/generate/generate.hpp>
#include <weft/nn/quantize.hpp>
#include <weft/weft.hpp>

namespace weft::generate {
namespace {

using Tokens = std::vector<int64_t>;
constexpr int64_t vocabulary = 300;

struct Weights {
  const char* name;
  DType dtype;
  int64_t bits = 0;
  bool fp8 = false;
};

nn::CausalLM model_of(const Weights& weights, uint64_t seed, const RopeOptions& rope = {}, int64_t window = 0) {
  Generator generator(seed);
  const GeneratorGuard guard(generator);
  nn::CausalLM model({.vocabulary = vocabulary,
                      .width = 128,
                      .layers = 2,
                      .heads = 4,
                      .kv_heads = 2,
                      .hidden = 384,
                      .context = 256,
                      .rope = rope,
                      .qkv_bias = true,
                      .window = window});
  const NoGradGuard unrecorded;
  for (Tensor& p : model.parameters()) p.mul_(3);
  model.to(weights.dtype);
  if (weights.bits != 0) nn::quantize(model, {.targets = {"proj"}, .bits = weights.bits, .group_size = 32});
  if (weights.fp8) nn::convert_to_fp8(model, {"proj"});
  return model;
}

Tokens prompt_of(int64_t length, int64_t first) {
  Tokens out;
  for (int64_t i = 0; i < length; ++i) out.push_back((first + 37 * i + i * i) % vocabulary);
  return out;
}

/// The first prompt's text with `beside` others.
Generation first_of(const LanguageModel& model, int64_t beside, const GenerateOptions& options) {
  std::vector<Tokens> prompts{prompt_of(11, 5)};
  for (int64_t i = 0; i < beside; ++i) prompts.push_back(prompt_of(1 + 13 * i, 100 + i));
  return generate(model, prompts, options)[0];
}

void expect_same(const Generation& actual, const Generation& expected, const std::string& what) {
  EXPECT_EQ(actual.tokens, expected.tokens) << what;
  EXPECT_EQ(actual.log_probability, expected.log_probability) << what;
}

class SameText : public ::testing::TestWithParam<Weights> {};

TEST_P(SameText, InAnyBatchAndWithDrafts) {
  const LanguageModel model = language_model(model_of(GetParam(), 1)), other = language_model(model_of(GetParam(), 2));
  const GenerateOptions alone{.max_new_tokens = 24, .seed = 3};
  const Generation expected = first_of(model, 0, alone);
  for (const int64_t beside : {2, 7, 11}) {
    expect_same(first_of(model, beside, alone), expected, std::to_string(beside + 1) + " prompts");
  }
  for (const int64_t beside : {0, 2, 7}) {
    for (const LanguageModel& draft : {model, other}) {
      GenerateOptions drafted = alone;
      drafted.draft = draft;
      drafted.draft_tokens = 5;
      const Generation made = first_of(model, beside, drafted);
      EXPECT_GT(made.proposed, 0);
      expect_same(made, expected, std::to_string(beside + 1) + " prompts with a draft");
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Weights, SameText,
                         ::testing::Values(Weights{"float32", f32}, Weights{"bfloat16", bf16}, Weights{"float16", f16},
                                           Weights{"float32_8_bit", f32, 8}, Weights{"bfloat16_8_bit", bf16, 8},
                                           Weights{"bfloat16_4_bit", bf16, 4}, Weights{"float16_4_bit", f16, 4},
                                           Weights{"bfloat16_fp8", bf16, 0, true},
                                           Weights{"float32_fp8", f32, 0, true}),
                         [](const auto& weights) { return std::string(weights.param.name); });

TEST(SameTextOf, DynamicRopeBeyondItsLength) {
  const RopeOptions rope{.scaling = RopeScaling::dynamic_ntk, .factor = 4, .original_length = 16};
  const LanguageModel model = language_model(model_of({"", f32}, 1, rope));
  const GenerateOptions alone{.max_new_tokens = 24, .seed = 3};
  const Generation expected = first_of(model, 0, alone);
  GenerateOptions drafted = alone;
  drafted.draft = model;
  for (const int64_t beside : {2, 7}) {
    expect_same(first_of(model, beside, alone), expected, std::to_string(beside + 1) + " prompts");
    expect_same(first_of(model, beside, drafted), expected, std::to_string(beside + 1) + " prompts with a draft");
  }
}

TEST(SameTextOf, SlidingWindow) {
  const LanguageModel model = language_model(model_of({"", bf16}, 1, {}, 9));
  const GenerateOptions alone{.max_new_tokens = 90, .seed = 3};
  const Generation expected = first_of(model, 0, alone);
  GenerateOptions drafted = alone;
  drafted.draft = model;
  drafted.draft_tokens = 8;
  expect_same(first_of(model, 7, alone), expected, "8 prompts");
  expect_same(first_of(model, 3, drafted), expected, "4 prompts with a draft");
}

}  // namespace
}  // namespace weft::generate
