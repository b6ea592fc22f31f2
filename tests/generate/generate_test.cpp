// Text of models with tabulated logits, against loops over the definition.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <vector>

#include <gtest/gtest.h>

#include <weft/generate/generate.hpp>
#include <weft/weft.hpp>

namespace weft::generate {
namespace {

using Tokens = std::vector<int64_t>;
constexpr int64_t vocabulary = 11;

/// Logits of the next token by the two before it.
Tensor table_of(uint64_t seed, double noise = 0) {
  Generator generator(seed);
  const GeneratorGuard guard(generator);
  const Tensor table = randn({vocabulary, vocabulary, vocabulary}) * 2;
  return noise > 0 ? table + randn(table.shape()) * noise : table;
}

struct Counted {
  LanguageModel model;
  std::shared_ptr<int> calls = std::make_shared<int>(0);
};
Counted model_of(const Tensor& table, int64_t window = 0) {
  Counted out;
  const auto logits = [table, calls = out.calls](const Tensor& tokens) {
    ++*calls;
    const Tensor before = cat({zeros({tokens.size(0), 1}, i64), tokens.narrow(1, 0, tokens.size(1) - 1)}, 1);
    return table.reshape({-1, vocabulary})[{before * vocabulary + tokens}];
  };
  out.model = without_cache(logits, vocabulary, window);
  return out;
}

std::vector<float> logits_behind(const Tensor& table, const Tokens& text) {
  const int64_t before = text.size() > 1 ? text[text.size() - 2] : 0;
  return Tensor(table[{before, text.back()}]).to_vector<float>();
}

Generation by_loop(const Tensor& table, const Tokens& prompt, const GenerateOptions& o, uint64_t number = 0) {
  Tokens text = prompt;
  Sampler draw(o.sampling, o.seed, number);
  Generation out;
  for (int64_t i = 0; i < o.max_new_tokens; ++i) {
    const auto [token, log_probability] = draw(logits_behind(table, text), text);
    text.push_back(token);
    out.tokens.push_back(token);
    out.log_probability += log_probability;
  }
  return out;
}

TEST(Generate, IsALoopOverTheModel) {
  const Tensor table = table_of(1);
  const Counted counted = model_of(table);
  for (const SamplingOptions& s : {SamplingOptions{.temperature = 0}, SamplingOptions{.temperature = 0.8, .top_k = 4},
                                   SamplingOptions{.repetition_penalty = 1.5, .top_p = 0.9}}) {
    const GenerateOptions o{.max_new_tokens = 20, .sampling = s, .seed = 5};
    const Generation got = generate(counted.model, {{1, 2, 3}}, o)[0], expected = by_loop(table, {1, 2, 3}, o);
    EXPECT_EQ(got.tokens, expected.tokens);
    EXPECT_NEAR(got.log_probability, expected.log_probability, 1e-9);
    EXPECT_EQ(got.finish, Finish::length);
  }
}

TEST(Generate, BatchedPromptsEqualEachAlone) {
  const Tensor table = table_of(2);
  const std::vector<Tokens> prompts{{1}, {2, 3, 4, 5, 6, 7}, {8, 9}, {1}};
  const GenerateOptions o{.max_new_tokens = 15, .seed = 9};
  const std::vector<Generation> got = generate(model_of(table).model, prompts, o);
  ASSERT_EQ(got.size(), 4u);
  for (size_t i = 0; i < prompts.size(); ++i) EXPECT_EQ(got[i].tokens, by_loop(table, prompts[i], o, i).tokens) << i;
  EXPECT_NE(got[0].tokens, got[3].tokens);
  EXPECT_TRUE(generate(model_of(table).model, {}, o).empty());
  EXPECT_TRUE(generate(model_of(table).model, prompts, {.max_new_tokens = 0})[2].tokens.empty());
}

TEST(Generate, EndsAtTokensAndSequencesThatStopIt) {
  const Tensor table = table_of(3);
  const LanguageModel model = model_of(table).model;
  const GenerateOptions free{.max_new_tokens = 40, .seed = 2};
  const std::vector<Tokens> prompts{{1}, {2}, {3}};
  const std::vector<Generation> all = generate(model, prompts, free);
  GenerateOptions o = free;
  o.end_tokens = {all[0].tokens[5]};
  o.stop_sequences = {{all[1].tokens[2], all[1].tokens[3]}};
  const std::vector<Generation> got = generate(model, prompts, o);
  for (size_t i = 0; i < prompts.size(); ++i) {
    const Tokens& whole = all[i].tokens;
    const auto end = std::ranges::find(whole, o.end_tokens[0]) - whole.begin() + 1;
    const auto stop = std::ranges::search(whole, o.stop_sequences[0]).begin() - whole.begin() + 2;
    const auto length = std::min<int64_t>({end, stop, 40});
    EXPECT_EQ(got[i].tokens, Tokens(whole.begin(), whole.begin() + length)) << i;
    EXPECT_EQ(got[i].finish, end == length && end <= 40     ? Finish::end_token
                             : stop == length && stop <= 40 ? Finish::stop_sequence
                                                            : Finish::length);
  }
}

TEST(Generate, AStopSequenceIsNotSoughtInThePrompt) {
  const Tensor table = table_of(3);
  const GenerateOptions free{.max_new_tokens = 3, .sampling = {.temperature = 0}};
  const LanguageModel model = model_of(table).model;
  const Tokens made = generate(model, {{4, 5}}, free)[0].tokens;
  GenerateOptions o = free;
  o.stop_sequences = {{5, made[0]}};
  EXPECT_EQ(generate(model, {{4, 5}}, o)[0].tokens, made);
}

TEST(Generate, StreamsTokensAsTheyCome) {
  const Tensor table = table_of(4);
  const LanguageModel model = model_of(table).model;
  std::vector<Tokens> seen(2);
  std::vector<int64_t> order;
  std::vector<std::optional<Finish>> ends(2);
  GenerateOptions o{.max_new_tokens = 6, .seed = 1};
  o.on_token = [&](const TokenEvent& e) {
    EXPECT_LT(e.log_probability, 0);
    seen[static_cast<size_t>(e.sequence)].push_back(e.token);
    order.push_back(e.sequence);
    ends[static_cast<size_t>(e.sequence)] = e.finish;
    return e.sequence == 1 || seen[0].size() < 3;
  };
  const std::vector<Generation> got = generate(model, {{1, 2}, {3}}, o);
  EXPECT_EQ(seen[0], got[0].tokens);
  EXPECT_EQ(seen[1], got[1].tokens);
  EXPECT_EQ(got[0].tokens.size(), 3u);
  EXPECT_EQ(got[0].finish, Finish::stopped);
  EXPECT_EQ(got[1].finish, Finish::length);
  EXPECT_EQ(order, (Tokens{0, 1, 0, 1, 0, 1, 1, 1, 1}));
  EXPECT_EQ(ends[1], Finish::length);
}

TEST(Generate, ADraftMakesTheSameTextInFewerCalls) {
  const Tensor table = table_of(5);
  for (const double noise : {0.0, 0.3, 3.0}) {
    for (const SamplingOptions& s : {SamplingOptions{.temperature = 0}, SamplingOptions{},
                                     SamplingOptions{.repetition_penalty = 1.3, .top_p = 0.9}}) {
      const Counted alone = model_of(table), model = model_of(table), draft = model_of(table_of(5, noise));
      GenerateOptions o{.max_new_tokens = 30, .sampling = s, .seed = 3};
      const std::vector<Tokens> prompts{{1, 2, 3}, {4}};
      const std::vector<Generation> expected = generate(alone.model, prompts, o);
      o.draft = draft.model;
      o.draft_tokens = 3;
      const std::vector<Generation> got = generate(model.model, prompts, o);
      for (size_t i = 0; i < 2; ++i) {
        EXPECT_EQ(got[i].tokens, expected[i].tokens) << noise;
        EXPECT_NEAR(got[i].log_probability, expected[i].log_probability, 1e-9);
      }
      const int most = noise == 0 ? *alone.calls / 3 : noise < 1 ? *alone.calls * 4 / 5 : *alone.calls;
      EXPECT_LE(*model.calls, most) << noise;
    }
  }
}

TEST(Generate, ADraftKeepsToEndsAndContexts) {
  const Tensor table = table_of(6);
  LanguageModel model = model_of(table).model, draft = model_of(table_of(6, 0.2)).model;
  GenerateOptions o{.max_new_tokens = 50, .seed = 4};
  const std::vector<Tokens> prompts{{1}, {2, 3, 4}, {5, 6}};
  o.end_tokens = {generate(model, prompts, o)[1].tokens[7]};
  for (const int64_t context : {0, 5, 9, 30}) {
    model.context = context;
    GenerateOptions with = o;
    for (const int64_t own : {0, 4, 12}) {
      draft.context = own;
      with.draft = draft;
      const std::vector<Generation> expected = generate(model, prompts, o), got = generate(model, prompts, with);
      for (size_t i = 0; i < prompts.size(); ++i) {
        EXPECT_EQ(got[i].tokens, expected[i].tokens) << context << ' ' << own;
        EXPECT_EQ(got[i].finish, expected[i].finish);
        if (context > 0) {
          EXPECT_LE(prompts[i].size() + got[i].tokens.size(), static_cast<size_t>(context));
        }
      }
    }
  }
}

TEST(Generate, AWindowSeesTheLastTokensAlone) {
  // The sum over the window, which the table does not contain.
  const auto sums = [](const Tensor& tokens) {
    const Tensor sum = cumsum(tokens, 1).remainder(vocabulary);
    return one_hot(sum, vocabulary).to(f32) * 9;
  };
  const LanguageModel model = without_cache(sums, vocabulary, 3);
  const GenerateOptions o{.max_new_tokens = 12, .sampling = {.temperature = 0}};
  Tokens text{1, 2, 3, 4}, made;
  for (int i = 0; i < 12; ++i) {
    text.push_back(std::accumulate(text.end() - 3, text.end(), int64_t{0}) % vocabulary);
    made.push_back(text.back());
  }
  EXPECT_EQ(generate(model, {{1, 2, 3, 4}}, o)[0].tokens, made);
  GenerateOptions drafted = o;
  drafted.draft = model;
  EXPECT_EQ(generate(model, {{1, 2, 3, 4}}, drafted)[0].tokens, made);
}

// ---- beams ----------------------------------------------------------------------------------------------------------

/// The best of all continuations.
Generation exhaustive(const Tensor& table, const Tokens& prompt, const GenerateOptions& o) {
  Generation best;
  double best_value = -std::numeric_limits<double>::infinity();
  const auto follow = [&](const auto& self, const Tokens& made, double score) -> void {
    const bool ends = !made.empty() && std::ranges::count(o.end_tokens, made.back()) > 0;
    if (ends || std::ssize(made) == o.max_new_tokens) {
      const double value = score / std::pow(static_cast<double>(made.size()), o.length_penalty);
      if (value > best_value) best_value = value, best = {made, score, ends ? Finish::end_token : Finish::length};
      return;
    }
    Tokens text = prompt;
    text.insert(text.end(), made.begin(), made.end());
    for (const Candidate& c : candidates(logits_behind(table, text), text, o.sampling)) {
      Tokens next = made;
      next.push_back(c.token);
      self(self, next, score + std::log(c.probability));
    }
  };
  follow(follow, {}, 0);
  return best;
}

TEST(Generate, EnoughBeamsFindTheBestText) {
  for (uint64_t seed = 10; seed < 22; ++seed) {
    const Tensor table = table_of(seed);
    for (const double penalty : {0.0, 1.0, 2.0}) {
      GenerateOptions o{.max_new_tokens = 3, .end_tokens = {2, 7}, .beams = 121, .length_penalty = penalty};
      if (seed % 2 == 0) o.sampling.repetition_penalty = 1.4;
      const Generation got = generate(model_of(table).model, {{1, 5}}, o)[0], expected = exhaustive(table, {1, 5}, o);
      EXPECT_EQ(got.tokens, expected.tokens) << seed << ' ' << penalty;
      EXPECT_NEAR(got.log_probability, expected.log_probability, 1e-9);
      EXPECT_EQ(got.finish, expected.finish);
    }
  }
}

TEST(Generate, MoreBeamsAreNoWorseThanTheLikeliestTokens) {
  int better = 0;
  for (uint64_t seed = 30; seed < 45; ++seed) {
    const LanguageModel model = model_of(table_of(seed)).model;
    const Generation greedy = generate(model, {{3}}, {.max_new_tokens = 12, .sampling = {.temperature = 0}})[0];
    const Generation beams = generate(model, {{3}}, {.max_new_tokens = 12, .beams = 5})[0];
    EXPECT_EQ(beams.tokens.size(), 12u);
    EXPECT_GE(beams.log_probability, greedy.log_probability - 1e-9);
    better += beams.log_probability > greedy.log_probability + 1e-6;
  }
  EXPECT_GT(better, 5);
}

TEST(Generate, RejectsEmptyPrompts) {
  LanguageModel model = model_of(table_of(1)).model;
  model.context = 4;
  const auto refuses = [&](const std::vector<Tokens>& prompts, const GenerateOptions& o) {
    EXPECT_THROW(generate(model, prompts, o), ValueError);
  };
  refuses({{}}, {});
  refuses({{1}, {vocabulary}}, {});
  refuses({{-1}}, {});
  refuses({{1, 2, 3, 4}}, {});
  refuses({{1}}, {.max_new_tokens = -1});
  refuses({{1}}, {.sampling = {.top_p = 0}});
  refuses({{1}}, {.stop_sequences = {{}}});
  refuses({{1}}, {.beams = 0});
  refuses({{1}}, {.sampling = {.temperature = 0}, .beams = 2});
  GenerateOptions o{.draft = model};
  o.draft_tokens = 0;
  refuses({{1}}, o);
  o.draft_tokens = 2;
  o.draft->vocabulary = 5;
  refuses({{1}}, o);
  const LanguageModel broken = without_cache([](const Tensor& t) { return full({1, t.size(1), 3}, std::nan("")); }, 3);
  EXPECT_THROW(generate(broken, {{1}}), ValueError);
}

}  // namespace
}  // namespace weft::generate
