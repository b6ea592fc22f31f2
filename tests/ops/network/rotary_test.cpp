#include <cmath>
#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/rotary.hpp>

#include "ops/values.hpp"

namespace weft::testing {
namespace {

Tensor positions(std::vector<int64_t> values) { return tensor(values); }
double at(const Tensor& t, int64_t i) { return values(t)[static_cast<size_t>(i)]; }

/// One line by a loop over pairs; cos and sin of its first n elements.
Doubles rotated(const Doubles& x, const Doubles& cos, const Doubles& sin, bool interleaved) {
  Doubles out = x;
  const size_t n = cos.size();
  for (size_t p = 0; p < n / 2; ++p) {
    const size_t i = interleaved ? 2 * p : p, j = interleaved ? i + 1 : p + n / 2;
    out[i] = x[i] * cos[i] - x[j] * sin[i];
    out[j] = x[j] * cos[j] + x[i] * sin[j];
  }
  return out;
}

TEST(RotaryEmbedding, CaseOfTheSpecification) {
  const Tensor frequencies = rope_frequencies(4);
  expect_values(frequencies, {1, 0.01}, 1e-15);
  const Tensor rope = rope_table(positions({1}), 4, {}, false, f64);
  EXPECT_EQ(rope.shape(), (Dims{2, 1, 1, 1, 4}));
  const Tensor q = doubles({1, 2, 3, 4}, {1, 1, 1, 4});
  expect_values(rotary_embedding(q, rope), {-1.984111, 1.959901, 2.462378, 4.019800}, 1e-6);
}

TEST(RotaryEmbedding, EqualsALoopForAnySizes) {
  for (const bool interleaved : {false, true}) {
    for (const int64_t d : {2, 6, 32, 34, 66, 130}) {
      for (const int64_t n : {int64_t{2}, d}) {
        const Tensor x = spread({3, d}, 1), rope = spread({2, 3, n}, 2);
        Doubles expected;
        for (int64_t row = 0; row < 3; ++row) {
          const Doubles line = rotated(values(x.select(0, row)), values(rope.select(0, 0).select(0, row)),
                                       values(rope.select(0, 1).select(0, row)), interleaved);
          expected.insert(expected.end(), line.begin(), line.end());
        }
        expect_values(rotary_embedding(x, rope, interleaved), expected);
      }
    }
  }
}

TEST(RotaryEmbedding, TakesStridedOperandsAndBroadcastsItsWaves) {
  const Tensor x = spread({2, 5, 3, 8}, 1), rope = rope_table(positions({4, 0, 7, 7, 100}), 8, {}, false, f64);
  const Tensor plain = rotary_embedding(x, rope);
  expect_values(rotary_embedding(x.transpose(1, 2).contiguous().transpose(1, 2), rope), values(plain), 0);
  expect_values(rotary_embedding(x.transpose(1, 2), rope.transpose(2, 3)), values(plain.transpose(1, 2)), 0);
  const Tensor wide = spread({2, 5, 3, 9}, 3), odd = wide.narrow(3, 1, 8);
  expect_values(rotary_embedding(odd, rope), values(rotary_embedding(odd.contiguous(), rope)), 0);
}

TEST(RotaryEmbedding, LeavesElementsBeyondTheRotatedOnesExactly) {
  const Tensor x = spread({1, 4, 2, 10}).to(bf16), rope = rope_table(positions({0, 1, 2, 3}), 6);
  const Tensor y = rotary_embedding(x, rope);
  EXPECT_EQ(y.dtype(), bf16);
  expect_values(y.narrow(3, 6, 4), values(x.narrow(3, 6, 4)), 0);
  expect_values(y.select(1, 0), values(x.select(1, 0)), 0);  // position 0 turns nothing
}

TEST(RotaryEmbedding, SixteenBitFloatsAreRoundedOnce) {
  const Tensor x = spread({2, 3, 2, 16}).to(bf16), rope = rope_table(positions({5, 6, 7}), 16);
  expect_values(rotary_embedding(x, rope), values(rotary_embedding(x.to(f32), rope).to(bf16)), 0);
}

TEST(RotaryEmbedding, ItsGradientIsTheInverseRotation) {
  for (const bool interleaved : {false, true}) {
    const Tensor rope = rope_table(positions({3, 9}), 4, {}, interleaved, f64);
    const Tensor x = leaf({1, 2, 2, 4}, 1), g = spread({1, 2, 2, 4}, 2);
    const Tensor y = rotary_embedding(x, rope, interleaved);
    const Tensor dx = grad({y}, {x}, {g})[0];
    expect_values(rotary_embedding(dx, rope, interleaved), values(g), 1e-14);
    expect_gradients([&](Inputs in) { return rotary_embedding(in[0], in[1], interleaved); },
                     {leaf({2, 3, 6}, 3), leaf({2, 3, 4}, 4)});
    expect_gradients([&](Inputs in) { return rotary_embedding(in[0], rope, interleaved); }, {leaf({1, 2, 2, 6}, 5)});
  }
}

TEST(RotaryEmbedding, EmptyTensorsAndNaN) {
  const Tensor rope = rope_table(positions({}), 4);
  EXPECT_EQ(rope.shape(), (Dims{2, 1, 0, 1, 4}));
  EXPECT_EQ(rotary_embedding(zeros({3, 0, 2, 4}), rope).shape(), (Dims{3, 0, 2, 4}));
  const Tensor y = rotary_embedding(doubles({nan, 1, 2, 3}, {1, 4}), spread({2, 1, 4}, 1));
  EXPECT_TRUE(std::isnan(at(y, 0)) && !std::isnan(at(y, 1)) && std::isnan(at(y, 2)) && !std::isnan(at(y, 3)));
}

TEST(RotaryEmbedding, HugeRepeatedOperandsAreRefusedForLackOfMemory) {
  const Tensor x = zeros({1, 1, 1, 4}).expand({int64_t{1} << 40, 1, 1, 4});
  EXPECT_THROW(rotary_embedding(x, zeros({2, 4})), OutOfMemoryError);
}

TEST(RotaryEmbedding, RejectsInvalidArguments) {
  const Tensor x = ones({2, 3, 2, 4});
  EXPECT_THROW(rotary_embedding(x, ones({2, 2, 3, 1, 6})), ShapeError);
  EXPECT_THROW(rotary_embedding(x, ones({2, 2, 3, 1, 3})), ShapeError);
  EXPECT_THROW(rotary_embedding(x, ones({1, 2, 3, 1, 4})), ShapeError);
  EXPECT_THROW(rotary_embedding(x, ones({2, 5, 3, 1, 4})), ShapeError);
  EXPECT_THROW(rotary_embedding(x, ones({2, 1, 2, 3, 1, 4})), ShapeError);
  EXPECT_THROW(rotary_embedding(x.to(i64), ones({2, 4})), DTypeError);
  EXPECT_THROW(rotary_embedding(x, ones({2, 4}, i32)), DTypeError);
  EXPECT_THROW(rope_table(ones({3}), 4), DTypeError);
  EXPECT_THROW(rope_table(positions({1}), 3), ValueError);
  EXPECT_THROW(rope_table(positions({1}), 0), ValueError);
  EXPECT_THROW(rope_table(zeros({1, 1, 1}, i64), 4), ShapeError);
  EXPECT_THROW(rope_frequencies(4, {.theta = nan}), ValueError);
  EXPECT_THROW(rope_frequencies(4, {.scaling = RopeScaling::linear, .factor = 0}), ValueError);
  EXPECT_THROW(rope_frequencies(4, {.scaling = RopeScaling::llama3, .low_frequency = 4}), ValueError);
  EXPECT_THROW(rope_frequencies(4, {.scaling = RopeScaling::yarn, .beta_fast = 1}), ValueError);
}

TEST(RopeTable, PositionsMayDifferByRowAndComeInAnyOrder) {
  const Tensor p = positions({0, 0, 1, 5, 2, 3}).reshape({2, 3});
  const Tensor rope = rope_table(p, 4, {}, false, f64);
  EXPECT_EQ(rope.shape(), (Dims{2, 2, 3, 1, 4}));
  for (int64_t i = 0; i < 6; ++i) {
    const auto n = static_cast<double>(values(p)[static_cast<size_t>(i)]);
    for (int64_t j = 0; j < 4; ++j) {
      const double angle = n * (j % 2 == 0 ? 1 : 0.01);
      EXPECT_NEAR(at(rope, i * 4 + j), std::cos(angle), 1e-15);
      EXPECT_NEAR(at(rope, 24 + i * 4 + j), std::sin(angle), 1e-15);
    }
  }
}

TEST(RopeTable, LargePositionsAreExactInDoubleBeforeTheyAreRounded) {
  const int64_t far = 1'000'003;
  const Tensor rope = rope_table(positions({far}), 64);
  EXPECT_EQ(rope.dtype(), f32);
  for (int64_t i = 0; i < 32; ++i) {
    const double angle = static_cast<double>(far) * std::pow(10000.0, -2.0 * static_cast<double>(i) / 64);
    EXPECT_EQ(at(rope, i), static_cast<double>(static_cast<float>(std::cos(angle)))) << i;
    EXPECT_EQ(at(rope, 64 + 32 + i), static_cast<double>(static_cast<float>(std::sin(angle)))) << i;
  }
}

TEST(RopeTable, InterleavedRepeatsEachAngleForNeighbours) {
  const Tensor halves = rope_table(positions({7}), 6, {}, false, f64);
  const Tensor pairs = rope_table(positions({7}), 6, {}, true, f64);
  for (int64_t wave = 0; wave < 2; ++wave) {
    for (int64_t i = 0; i < 6; ++i) EXPECT_EQ(at(pairs, wave * 6 + i), at(halves, wave * 6 + i / 2));
  }
}

// Figures of the formulas in Hugging Face's modeling_rope_utils, in double.
TEST(RopeFrequencies, ScaledAsPublishedModelsScaleThem) {
  const Tensor llama =
      rope_frequencies(128, {.theta = 500000, .scaling = RopeScaling::llama3, .factor = 8, .original_length = 8192});
  const std::pair<int64_t, double> of_llama[] = {{0, 1.0},
                                                 {20, 0.016560440080994446},
                                                 {28, 0.0032114459947525913},
                                                 {30, 0.0013718935677611381},
                                                 {33, 0.00031269375038406517},
                                                 {35, 9.556212353964683e-05},
                                                 {63, 3.068925988914511e-07}};
  for (const auto& [i, f] : of_llama) EXPECT_NEAR(at(llama, i) / f, 1, 1e-13) << i;

  const RopeOptions options{.scaling = RopeScaling::yarn, .factor = 16, .original_length = 4096};
  const Tensor yarn = rope_frequencies(128, options);
  const std::pair<int64_t, double> of_yarn[] = {{0, 1.0},
                                                {20, 0.056234132519034905},
                                                {21, 0.046940859997959404},
                                                {25, 0.02244714171356123},
                                                {40, 0.000881788962931567},
                                                {45, 0.00015177160473182487},
                                                {63, 7.217387404309114e-06}};
  for (const auto& [i, f] : of_yarn) EXPECT_NEAR(at(yarn, i) / f, 1, 1e-13) << i;
  EXPECT_NEAR(at(rope_table(positions({0}), 128, options, false, f64), 0), 1.2772588722239782, 1e-15);

  const RopeOptions dynamic{.scaling = RopeScaling::dynamic_ntk, .factor = 2, .original_length = 2048};
  expect_values(rope_frequencies(8, dynamic, 4096),
                {1.0, 0.06933612743506347, 0.004807498567691361, 0.0003333333333333334}, 1e-14);
  expect_values(rope_frequencies(8, dynamic, 2048), values(rope_frequencies(8)), 0);
  expect_values(rope_frequencies(8, {.scaling = RopeScaling::linear, .factor = 4}), values(rope_frequencies(8) / 4), 0);
  const Tensor far = rope_table(positions({0, 4095}), 8, dynamic, false, f64);
  EXPECT_NEAR(at(far, 8 + 1), std::cos(4095 * 0.06933612743506347), 1e-11);
}

TEST(RopeTable, OfRowsOfDifferentLengthsHasTheFrequenciesOfEach) {
  const RopeOptions dynamic{.scaling = RopeScaling::dynamic_ntk, .factor = 2, .original_length = 16};
  const std::vector<int64_t> texts[] = {{5, 6, 7, 8}, {40, 41, 42, 43}, {0, 99, 3, 2}};
  std::vector<int64_t> all;
  for (const auto& text : texts) all.insert(all.end(), text.begin(), text.end());
  for (const bool interleaved : {false, true}) {
    const Tensor table = rope_table(tensor(all).reshape({3, 4}), 8, dynamic, interleaved);
    for (int64_t row = 0; row < 3; ++row) {
      expect_values(table.narrow(1, row, 1), values(rope_table(tensor(texts[row]), 8, dynamic, interleaved)), 0);
    }
  }
}

}  // namespace
}  // namespace weft::testing
