// Which token comes next, beside the definitions.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include <weft/generate/sampling.hpp>
#include <weft/tensor/error.hpp>

namespace weft::generate {
namespace {

using Floats = std::vector<float>;
using Tokens = std::vector<int64_t>;
constexpr float infinity = std::numeric_limits<float>::infinity();

/// As the options say it, one after the other, over all tokens.
std::vector<Candidate> by_definition(const Floats& logits, const Tokens& sequence, const SamplingOptions& o) {
  std::vector<Candidate> all;
  for (size_t i = 0; i < logits.size(); ++i) {
    double x = logits[i];
    const bool is_own = std::ranges::count(sequence, static_cast<int64_t>(i)) > 0;
    if (is_own) x = x > 0 ? x / o.repetition_penalty : x * o.repetition_penalty;
    all.push_back({static_cast<int64_t>(i), x});
  }
  std::ranges::stable_sort(all, std::greater<>(), &Candidate::probability);
  if (o.temperature == 0) return {{all[0].token, 1}};
  const double largest = all[0].probability;
  const auto normalise = [&] {
    double sum = 0;
    for (const Candidate& c : all) sum += c.probability;
    for (Candidate& c : all) c.probability /= sum;
  };
  for (Candidate& c : all) c.probability = std::exp((c.probability - largest) / o.temperature);
  std::erase_if(all, [](const Candidate& c) { return c.probability == 0; });
  if (o.top_k > 0 && o.top_k < std::ssize(all)) all.resize(static_cast<size_t>(o.top_k));
  normalise();
  if (o.top_p < 1) {
    double have = 0;
    size_t n = 0;
    while (n < all.size() && have < o.top_p) have += all[n++].probability;
    all.resize(n);
    normalise();
  }
  const double least = o.min_p * all[0].probability;
  std::erase_if(all, [&](const Candidate& c) { return c.probability < least; });
  normalise();
  return all;
}

TEST(Sampling, FollowsTheDefinitions) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  for (int trial = 0; trial < 3000; ++trial) {
    Floats logits(static_cast<size_t>(1 + below(trial % 10 == 0 ? 3000 : 40)));
    std::normal_distribution<float> normal(0, 3);
    for (float& x : logits) x = below(12) == 0 ? -infinity : below(6) == 0 ? 1.5f : normal(random);
    if (std::ranges::none_of(logits, [](float x) { return std::isfinite(x); })) logits[0] = 0;
    Tokens sequence;
    for (int i = below(5); i > 0; --i) sequence.push_back(below(static_cast<int>(logits.size())));
    SamplingOptions o;
    if (below(2)) o.repetition_penalty = 0.5 + below(20) / 10.0;
    if (below(2)) o.temperature = below(5) / 2.0;
    if (below(2)) o.top_k = below(30);
    if (below(2)) o.top_p = (1 + below(99)) / 99.5;
    if (below(3) == 0) o.min_p = below(10) / 9.0;
    const std::vector<Candidate> expected = by_definition(logits, sequence, o), got = candidates(logits, sequence, o);
    ASSERT_EQ(got.size(), expected.size()) << trial;
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].token, expected[i].token) << trial;
      ASSERT_NEAR(got[i].probability, expected[i].probability, 1e-12) << trial;
    }
  }
}

TEST(Sampling, HasTheFiguresOfTheDefinitions) {
  const Floats logits{1, 2, 3, 0};
  const auto tokens_of = [&](const SamplingOptions& o, const Tokens& sequence = {}) {
    Tokens out;
    for (const Candidate& c : candidates(logits, sequence, o)) out.push_back(c.token);
    return out;
  };
  EXPECT_EQ(tokens_of({}), (Tokens{2, 1, 0, 3}));
  EXPECT_EQ(tokens_of({.temperature = 0}), (Tokens{2}));
  EXPECT_EQ(tokens_of({.top_k = 2}), (Tokens{2, 1}));
  EXPECT_EQ(tokens_of({.top_p = 0.6}), (Tokens{2}));  // 0.644
  EXPECT_EQ(tokens_of({.top_p = 0.65}), (Tokens{2, 1}));
  EXPECT_EQ(tokens_of({.min_p = 0.1}), (Tokens{2, 1, 0}));  // e⁻² = 0.135
  EXPECT_EQ(tokens_of({.repetition_penalty = 2}, {2, 2}), (Tokens{1, 2, 0, 3}));
  EXPECT_NEAR(candidates(logits, {}, {})[0].probability, 0.643914, 1e-6);
  EXPECT_EQ(candidates(Floats{5, 5, 5}, {}, {.top_k = 2})[1].token, 1) << "of equal ones the lowest";
}

TEST(Sampler, DrawsByTheProbabilities) {
  const Floats logits{0.5f, -1, 2, 0, 1};
  for (const SamplingOptions& o :
       {SamplingOptions{}, SamplingOptions{.temperature = 0.7, .top_k = 3}, SamplingOptions{.top_p = 0.8}}) {
    Sampler draw(o, 3);
    std::map<int64_t, int> counts;
    constexpr int draws = 40000;
    for (int i = 0; i < draws; ++i) ++counts[draw(logits, {}).token];
    const std::vector<Candidate> expected = candidates(logits, {}, o);
    EXPECT_EQ(counts.size(), expected.size());
    for (const Candidate& c : expected) {
      const double deviation = std::sqrt(c.probability * (1 - c.probability) / draws);
      EXPECT_NEAR(counts[c.token] / static_cast<double>(draws), c.probability, 4 * deviation + 1e-12) << c.token;
    }
  }
}

TEST(Sampler, ReturnsTheModelsLogProbabilityForAnyOptions) {
  const Floats logits{1, 2, 3, 0};
  Sampler draw({.temperature = 0}, 1);
  const Sampler::Drawn drawn = draw(logits, {});
  EXPECT_EQ(drawn.token, 2);
  EXPECT_NEAR(drawn.log_probability, std::log(0.643914), 1e-6);
}

TEST(Sampler, ASeedGivesTheSameTokensAndEverySequenceItsOwn) {
  const Floats logits(50, 0.0f);
  const auto tokens = [&](uint64_t seed, uint64_t sequence) {
    Sampler draw({}, seed, sequence);
    Tokens out;
    for (int i = 0; i < 8; ++i) out.push_back(draw(logits, {}).token);
    return out;
  };
  EXPECT_EQ(tokens(0, 0)[0], 44) << "0xE169C58D6627E8D5 / 2⁶⁴ · 50, of Philox's known answer";
  EXPECT_EQ(tokens(7, 2), tokens(7, 2));
  EXPECT_NE(tokens(7, 2), tokens(7, 1));
  EXPECT_NE(tokens(7, 2), tokens(8, 2));
}

TEST(Sampling, RejectsInvalidOptions) {
  const Floats logits{1, 2};
  for (const SamplingOptions& o :
       {SamplingOptions{.repetition_penalty = 0}, SamplingOptions{.temperature = -1},
        SamplingOptions{.temperature = std::nan("")}, SamplingOptions{.top_k = -1}, SamplingOptions{.top_p = 0},
        SamplingOptions{.top_p = 1.1}, SamplingOptions{.top_p = std::nan("")}, SamplingOptions{.min_p = 2},
        SamplingOptions{.min_p = -0.1}}) {
    EXPECT_THROW(candidates(logits, {}, o), ValueError);
    EXPECT_THROW(Sampler{o}, ValueError);
  }
  EXPECT_THROW(candidates(Floats{1, std::nanf("")}, {}, {}), ValueError);
  EXPECT_THROW(candidates(Floats{1, infinity}, {}, {}), ValueError);
  EXPECT_THROW(candidates(Floats{-infinity, -infinity}, {}, {}), ValueError);
  EXPECT_THROW(candidates(Floats{}, {}, {}), ValueError);
  EXPECT_THROW(candidates(logits, Tokens{2}, {.repetition_penalty = 2}), ValueError);
  EXPECT_THROW(candidates(logits, Tokens{-1}, {.repetition_penalty = 2}), ValueError);
}

}  // namespace
}  // namespace weft::generate
