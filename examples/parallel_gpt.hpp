// A small GPT on the characters of a text, trained by ranks as a plan says: "dp2-tp2" are two replicas of two tensor-
// parallel ranks each. One program for all plans: what is in one part sends nothing.
#pragma once

#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <weft/distributed.hpp>
#include <weft/weft.hpp>

namespace parallel_gpt {

using namespace weft;
using namespace weft::distributed;

struct Plan {
  int dp = 1, pp = 1, tp = 1;
  /// Of ShardedOptimizer; 0 where each rank has the whole state.
  int zero = 0;
  /// Tensor-parallel ranks have sequences in parts between the layers.
  bool cuts_sequences = false;
  int ranks() const { return dp * pp * tp; }
};
/// "dp2-tp2", "pp2", "dp2-zero1", "sp2"; ValueError for any other text.
inline Plan plan_of(const std::string& text) {
  Plan plan;
  const std::map<std::string, int*> sizes = {
      {"dp", &plan.dp}, {"pp", &plan.pp}, {"tp", &plan.tp}, {"sp", &plan.tp}, {"zero", &plan.zero}};
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('-', begin), text.size()), digits = text.find_first_of("0123456789", begin);
    const std::string name = text.substr(begin, std::min(digits, end) - begin);
    const auto found = sizes.find(name);
    if (found == sizes.end() || digits >= end || text.find_first_not_of("0123456789", digits) < end)
      throw ValueError("a plan is like dp2-tp2 or dp2-zero1, not " + text);
    *found->second = std::stoi(text.substr(digits, end - digits));
    plan.cuts_sequences |= name == "sp";
    begin = end + 1;
  }
  return plan;
}

constexpr int64_t width = 32, heads = 4, layers = 4, context = 32, batch = 8;

/// Tokens [batch, length] -> [batch, length, width].
struct Embed : nn::Layer<Embed> {
  nn::Embedding token, position;
  explicit Embed(const TransformerSizes& sizes)
      : token(sizes.vocabulary, sizes.width), position(sizes.sequence, sizes.width) {
    WEFT_REGISTER(token, position);
  }
  Tensor forward(const Tensor& tokens) const {
    const Tensor places = arange(tokens.size(1), {.dtype = i64, .device = tokens.device()});
    return token(tokens) + position(places);
  }
};

struct Head : nn::Layer<Head> {
  nn::LayerNorm norm;
  nn::Linear logits;
  explicit Head(const TransformerSizes& sizes) : norm(sizes.width), logits(sizes.width, sizes.vocabulary, false) {
    WEFT_REGISTER(norm, logits);
  }
  Tensor forward(const Tensor& x) const { return logits(norm(x)); }
};

/// A model for one process.
inline nn::Sequential gpt(const TransformerSizes& sizes) {
  nn::Sequential model{Embed(sizes)};
  for (int64_t i = 0; i < sizes.layers; ++i) {
    model.append(nn::TransformerBlock(sizes.width, sizes.heads, {.hidden = sizes.hidden}));
  }
  return model.append(Head(sizes));
}

/// The sizes that are trained here.
inline TransformerSizes sizes_of(int64_t vocabulary) {
  return {
      .layers = layers, .width = width, .heads = heads, .vocabulary = vocabulary, .sequence = context, .dtype = f32};
}

/// How its modules are shared out along "tp".
inline std::vector<ModuleSplit> splits() {
  return {{"token$", VocabParallelOptions{}},        {"qkv$", ColumnParallelOptions{.blocks = 3}},
          {"up$|logits$", ColumnParallelOptions{}},  {"proj$|down$", RowParallelOptions{}},
          {"norm\\d?$|dropout$", OnSequenceParts{}}, {"position$", ToSequenceParts{}}};
}

/// The characters of a text as numbers.
struct Text {
  Tensor tokens;
  int64_t characters = 0;
  explicit Text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    std::map<char, int64_t> numbers;
    for (const char c : text) numbers.emplace(c, 0);
    for (auto& [c, number] : numbers) number = characters++;
    std::vector<int64_t> all;
    for (const char c : text) all.push_back(numbers[c]);
    tokens = tensor(std::span<const int64_t>(all));
  }
  /// [count, context + 1] from places at random: those of sequences first, … of a step's batch, alike on every rank.
  Tensor windows(int step, int64_t first, int64_t count) const {
    Generator generator(1000 + static_cast<uint64_t>(step));
    const Tensor begins = randint(0, tokens.size(0) - context - 1, {batch}, i64, &generator).narrow(0, first, count);
    return tokens[begins.unsqueeze(1) + arange(context + 1)];
  }
};

/// Trains for some steps and returns their losses, the same on every rank of the group, which are as many as the
/// plan's.
inline std::vector<double> train(const Plan& plan, const Group& group, const Text& text, int steps) {
  const Mesh mesh({plan.dp, plan.pp, plan.tp}, {"dp", "pp", "tp"}, group);
  const int64_t own = batch / plan.dp, first = own * mesh.group("dp").rank();
  manual_seed(1);
  // A number of rows that ranks divide.
  const ParallelModel model = parallelize(gpt(sizes_of((text.characters + 7) / 8 * 8)),
                                          {.mesh = mesh,
                                           .splits = splits(),
                                           .sequence_parallel = plan.cuts_sequences,
                                           .micro_batches = plan.pp > 1 ? static_cast<int>(own) : 1,
                                           .shard_stage = plan.zero});
  ParallelTraining training(model, optim::AdamW(model.parameters(), {.lr = 3e-3}));
  // Each rank along "tp" has some of the logits.
  const auto loss = [&](const Tensor& logits, const Tensor& targets) {
    return parallel_cross_entropy(logits, targets, {.group = model.tensor_parallel()});
  };
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const Tensor windows = text.windows(step, first, own);
    training.zero_grad();
    losses.push_back(training.backward(windows.narrow(1, 0, context), windows.narrow(1, 1, context), loss));
    training.clip_grad_norm(1.0);
    training.step();
  }
  return losses;
}

}  // namespace parallel_gpt
