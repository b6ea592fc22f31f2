// A small character-level GPT, trained on several ranks with a plan. "dp2-tp2" means two replicas of two
// tensor-parallel ranks each. One program supports all plans: dimensions of size 1 need no communication.
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
  int dp = 1, pp = 1, ep = 1, tp = 1;
  /// ZeRO stage of ShardedOptimizer; 0 means that each rank has the whole state.
  int zero = 0;
  /// Sequence parallelism: sequences are sharded over tensor-parallel ranks between the layers.
  bool cuts_sequences = false;
  /// Mixture of eight experts, two per token.
  bool has_experts = false;
  int ranks() const { return dp * pp * ep * tp; }
};
/// Parses "dp2-tp2", "pp2", "dp2-zero1", "sp2", "ep2". Raises ValueError for any other text.
inline Plan plan_of(const std::string& text) {
  Plan plan;
  const std::map<std::string, int*> sizes = {{"dp", &plan.dp}, {"pp", &plan.pp}, {"ep", &plan.ep},
                                             {"tp", &plan.tp}, {"sp", &plan.tp}, {"zero", &plan.zero}};
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find('-', begin), text.size()), digits = text.find_first_of("0123456789", begin);
    const std::string name = text.substr(begin, std::min(digits, end) - begin);
    const auto found = sizes.find(name);
    if (found == sizes.end() || digits >= end || text.find_first_not_of("0123456789", digits) < end)
      throw ValueError("plan: expected a text like dp2-tp2 or dp2-zero1, got '" + text + "'");
    *found->second = std::stoi(text.substr(digits, end - digits));
    plan.cuts_sequences |= name == "sp";
    plan.has_experts |= name == "ep";
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

/// nn::TransformerBlock with a mixture of experts as its hidden layer.
struct ExpertBlock : nn::Layer<ExpertBlock> {
  nn::LayerNorm norm1, norm2;
  nn::SelfAttention attention;
  nn::MoE moe;
  explicit ExpertBlock(const TransformerSizes& sizes)
      : norm1(sizes.width),
        norm2(sizes.width),
        attention(sizes.width, sizes.heads),
        moe(sizes.width, sizes.hidden > 0 ? sizes.hidden : 4 * sizes.width, sizes.experts,
            {.top_k = sizes.experts_per_token}) {
    WEFT_REGISTER(norm1, attention, norm2, moe);
  }
  Tensor forward(const Tensor& x) const {
    const Tensor y = x + attention(norm1(x));
    return y + moe(norm2(y));
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

/// The model for a single process.
inline nn::Sequential gpt(const TransformerSizes& sizes) {
  nn::Sequential model{Embed(sizes)};
  for (int64_t i = 0; i < sizes.layers; ++i) {
    if (sizes.experts > 0) model.append(ExpertBlock(sizes));
    else model.append(nn::TransformerBlock(sizes.width, sizes.heads, {.hidden = sizes.hidden}));
  }
  return model.append(Head(sizes));
}

/// The sizes of this example's model.
inline TransformerSizes sizes_of(int64_t vocabulary, bool has_experts = false) {
  return {.layers = layers,
          .width = width,
          .heads = heads,
          .hidden = has_experts ? 2 * width : 0,
          .vocabulary = vocabulary,
          .sequence = context,
          .dtype = f32,
          .experts = has_experts ? 8 : 0};
}

/// How modules are sharded along "tp" and "ep".
inline std::vector<ModuleSplit> splits(bool has_experts = false) {
  std::vector<ModuleSplit> all{{"token$", VocabParallelOptions{}},        {"qkv$", ColumnParallelOptions{.blocks = 3}},
                               {"logits$", ColumnParallelOptions{}},      {"proj$", RowParallelOptions{}},
                               {"norm\\d?$|dropout$", OnSequenceParts{}}, {"position$", ToSequenceParts{}}};
  if (has_experts) {
    all.push_back({"moe$", ExpertParallelOptions{}});
    all.push_back({"moe$", OnSequenceParts{}});
  } else {
    all.push_back({"up$", ColumnParallelOptions{}});
    all.push_back({"down$", RowParallelOptions{}});
  }
  return all;
}

/// A text as character indices.
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
  /// Random windows [count, context + 1] of the text: sequences `first`, `first` + 1, … of the step's batch, the same
  /// on all ranks.
  Tensor windows(int step, int64_t first, int64_t count) const {
    Generator generator(1000 + static_cast<uint64_t>(step));
    const Tensor begins = randint(0, tokens.size(0) - context - 1, {batch}, i64, &generator).narrow(0, first, count);
    return tokens[begins.unsqueeze(1) + arange(context + 1)];
  }
};

/// Output of a run in the folder `out`, written by rank 0: losses, their curve, and a page with the gradients of all
/// ranks.
struct Log {
  std::optional<io::RunLog> losses;
  std::optional<GradientRecorder> recorder;

  Log(const std::string& out, const ParallelModel& model, const Group& group, int steps) {
    if (out.empty()) return;
    if (group.rank() == 0) losses.emplace(out, 0, steps);
    recorder.emplace(model);
  }
  void step(int number, double loss, const ParallelTraining& training) {
    if (losses) losses->record(number, {{"train_loss", loss}});
    if (!recorder) return;
    const auto whole = training.whole_parameters();
    recorder->step(loss);
  }
  void finish(const std::string& title, const Group& group) {
    if (!recorder) return;
    const History all = gather_history(recorder->history(), group);
    if (!losses) return;
    losses->finish({.title = title, .x_label = "step"});
    io::write_file(losses->folder() / "gradients.html", report_html(all, title), "parallel_gpt");
    for (const Suspect& s : find_suspects(all)) std::printf("%s: %s\n", name_of(s.trouble), s.text.c_str());
  }
};

/// Trains for `steps` steps. Returns the losses, the same on every rank. The group must have the plan's number of
/// ranks.
inline std::vector<double> train(const Plan& plan, const Group& group, const Text& text, int steps,
                                 const std::string& out = {}) {
  const Mesh mesh({plan.dp, plan.pp, plan.ep, plan.tp}, {"dp", "pp", "ep", "tp"}, group);
  const int64_t own = batch / (plan.dp * plan.ep);
  manual_seed(1);
  // Rounds the vocabulary up, so that the ranks divide it.
  const ParallelModel model = parallelize(gpt(sizes_of((text.characters + 7) / 8 * 8, plan.has_experts)),
                                          {.mesh = mesh,
                                           .splits = splits(plan.has_experts),
                                           .sequence_parallel = plan.cuts_sequences,
                                           .micro_batches = plan.pp > 1 ? static_cast<int>(own) : 1,
                                           .shard_stage = plan.zero});
  Log log(out, model, group, steps);  // created before the training, which takes gradients away
  ParallelTraining training(model, optim::AdamW(model.parameters(), {.lr = 3e-3}));
  // Each rank along "tp" has a shard of the logits.
  const auto loss = [&](const Tensor& logits, const Tensor& targets) {
    return parallel_cross_entropy(logits, targets, {.group = model.tensor_parallel()});
  };
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const Tensor windows = text.windows(step, own * model.data_parallel().rank(), own);
    training.zero_grad();
    losses.push_back(training.backward(windows.narrow(1, 0, context), windows.narrow(1, 1, context), loss));
    training.clip_grad_norm(1.0);
    training.step();
    log.step(step + 1, losses.back(), training);
  }
  log.finish("GPT on " + std::to_string(group.size()) + " ranks", group);
  return losses;
}

}  // namespace parallel_gpt
