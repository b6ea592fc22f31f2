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

/// How activations between layers lie on tensor-parallel ranks.
struct Ranks {
  Group tp, pp;
  bool cuts_sequences;
  /// A norm of parts of sequences has the sum of the ranks' gradients.
  Tensor normalized(const nn::LayerNorm& norm, const Tensor& x) const {
    if (!cuts_sequences) return norm(x);
    return layer_norm(x, {width}, copy_to_tensor_parallel(norm.weight, tp), copy_to_tensor_parallel(norm.bias, tp));
  }
};

struct Block : nn::Layer<Block> {
  nn::LayerNorm before_attention{width}, before_mlp{width};
  ColumnParallelLinear query, key, value, up;
  RowParallelLinear projection, down;
  Ranks ranks;

  explicit Block(const Ranks& r)
      : query(width, width, {.sequence_parallel = r.cuts_sequences, .group = r.tp}),
        key(width, width, {.sequence_parallel = r.cuts_sequences, .group = r.tp}),
        value(width, width, {.sequence_parallel = r.cuts_sequences, .group = r.tp}),
        up(width, 4 * width, {.sequence_parallel = r.cuts_sequences, .group = r.tp}),
        projection(width, width, {.sequence_parallel = r.cuts_sequences, .group = r.tp}),
        down(4 * width, width, {.sequence_parallel = r.cuts_sequences, .group = r.tp}),
        ranks(r) {
    WEFT_REGISTER(before_attention, before_mlp, query, key, value, up, projection, down);
  }
  Tensor forward(const Tensor& x) const {
    const Tensor h = ranks.normalized(before_attention, x);
    // This rank's heads, [batch, heads / ranks, length, width / heads].
    const auto heads_of = [](const Tensor& t) {
      return t.view({t.size(0), t.size(1), -1, width / heads}).transpose(1, 2);
    };
    const Tensor mixed =
        scaled_dot_product_attention(heads_of(query(h)), heads_of(key(h)), heads_of(value(h)), {.causal = true});
    const Tensor y = x + projection(mixed.transpose(1, 2).flatten(2));
    return y + down(gelu(up(ranks.normalized(before_mlp, y))));
  }
};

/// The whole model, of which a stage of the pipeline uses its blocks.
struct Gpt {
  VocabParallelEmbedding token;
  nn::Embedding position{context, width};
  std::vector<Block> blocks;
  nn::LayerNorm norm{width};
  ColumnParallelLinear head;
  Ranks ranks;

  Gpt(int64_t vocabulary, const Ranks& r)
      : token(vocabulary, width, {.sequence_parallel = r.cuts_sequences, .group = r.tp}),
        head(width, vocabulary, {.bias = false, .sequence_parallel = r.cuts_sequences, .group = r.tp}),
        ranks(r) {
    for (int64_t i = 0; i < layers; ++i) blocks.emplace_back(ranks);
  }
  bool is_first() const { return ranks.pp.rank() == 0; }
  bool is_last() const { return ranks.pp.rank() + 1 == ranks.pp.size(); }
  size_t first_block() const { return static_cast<size_t>(shard_begin(layers, ranks.pp.size(), ranks.pp.rank())); }
  size_t last_block() const {
    return first_block() + static_cast<size_t>(shard_size(layers, ranks.pp.size(), ranks.pp.rank()));
  }

  /// Tokens on the first stage, elsewhere what the stage before gave.
  Tensor forward(const Tensor& input) const {
    Tensor x = is_first() ? embedded(input) : input;
    for (size_t i = first_block(); i < last_block(); ++i) x = blocks[i](x);
    return x;
  }
  Tensor embedded(const Tensor& tokens) const {
    const Tensor places = position(arange(tokens.size(1)));
    return token(tokens) + (ranks.cuts_sequences ? scatter_to_tensor_parallel(places, ranks.tp, 0) : places);
  }
  Tensor loss(const Tensor& x, const Tensor& targets) const {
    return parallel_cross_entropy(head(ranks.normalized(norm, x)), targets, {.group = ranks.tp});
  }
  std::vector<Tensor> parameters() const {
    std::vector<Tensor> out;
    const auto add = [&](const nn::Module& m) { std::ranges::copy(m.parameters(), std::back_inserter(out)); };
    if (is_first()) add(token), add(position);
    for (size_t i = first_block(); i < last_block(); ++i) add(blocks[i]);
    if (is_last()) add(norm), add(head);
    return out;
  }
};

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
  const Group &dp = mesh.group("dp"), &pp = mesh.group("pp");
  manual_seed(1);
  // A number of rows that ranks divide.
  const Gpt model((text.characters + 7) / 8 * 8, {mesh.group("tp"), pp, plan.cuts_sequences});
  optim::AdamW optimizer(model.parameters(), {.lr = 3e-3});
  std::optional<ShardedOptimizer> sharded;
  std::optional<DataParallel> replicas;
  if (plan.zero > 0) sharded.emplace(std::move(optimizer), ShardedOptimizerOptions{.stage = plan.zero, .group = dp});
  else replicas.emplace(model.parameters(), DataParallelOptions{.group = dp});

  const int64_t own = batch / dp.size(), first = own * dp.rank();
  const int micro_batches = pp.size() > 1 ? static_cast<int>(own) : 1;
  const int64_t each = own / micro_batches;
  const Pipeline pipeline({{.forward = [&](std::span<const Tensor> x) { return std::vector{model.forward(x[0])}; }}},
                          {.micro_batches = micro_batches, .group = pp});
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) {
    const auto part = [&](int m) { return text.windows(step, first + m * each, each); };
    const PipelineStep work{
        .input = [&](int m) { return std::vector{part(m).narrow(1, 0, context)}; },
        .loss = [&](int m, std::span<const Tensor> y) { return model.loss(y[0], part(m).narrow(1, 1, context)); }};
    double loss = 0;
    if (sharded) {
      sharded->zero_grad();
      {
        const auto micro = sharded->no_sync();
        loss = pipeline.run(work);
      }
      sharded->step();
    } else {
      optimizer.zero_grad();
      {
        const auto micro = replicas->no_sync();
        loss = pipeline.run(work);
      }
      replicas->finish();
      optimizer.step();
    }
    losses.push_back(all_reduce(tensor(loss, f64), dp, ReduceOp::avg).item<double>());
  }
  return losses;
}

}  // namespace parallel_gpt
