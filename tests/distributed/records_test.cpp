// Every op on tensors in parts beside the op on whole ones: its rule on every mesh, with placements at random.
#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "ranks.hpp"

#include <weft/distributed/spmd/call.hpp>
#include <weft/ops/record.hpp>

#include <ops/samples.hpp>

namespace weft::distributed {
namespace {

using testing::Tensors;

Placements any_placements(std::mt19937& random, const Dims& mesh, const Tensor& x, bool with_gradients) {
  std::vector<Placement> choices{Replicate()};
  for (int axis = 0; axis < x.dim(); ++axis) choices.push_back(Shard(axis));
  if (is_floating(x.dtype())) choices.push_back(Partial());
  // An average of equal numbers is rounded, and comparisons see it.
  if (is_floating(x.dtype()) && with_gradients) choices.push_back(Partial(ReduceOp::avg));
  if (!with_gradients && x.dtype() != boolean) choices.push_back(Partial(ReduceOp::max));
  Placements out;
  for (int d = 0; d < mesh.size(); ++d) out.push_back(choices[random() % choices.size()]);
  return out;
}

struct Comparison {
  const OpRecord& record;
  const Values& sample;
  const Mesh& mesh;
  std::vector<Placements> placements;
  bool with_gradients;

  std::string text() const {
    std::string out = fmt_of(record.name) + " on " + mesh.shape().text();
    for (const Placements& p : placements) out += " " + weft::distributed::text(p);
    for (const Tensor& t : testing::tensors_in(sample)) out += " " + t.shape().text();
    return out;
  }
  static std::string fmt_of(const char* name) { return name; }

  std::vector<bool> written() const {
    std::vector<bool> out;
    const auto& arguments = record.signature().arguments;
    for (size_t i = 0; i < sample.size(); ++i) {
      const size_t count = testing::tensors_in({sample[i]}).size();
      out.insert(out.end(), count, i < arguments.size() && arguments[i].written);
    }
    return out;
  }
  /// A tensor that the op writes has to be where the op needs it.
  void place_written() {
    const std::vector<bool> is_written = written();
    if (std::ranges::find(is_written, true) == is_written.end()) return;
    const Tensors tensors = testing::tensors_in(sample);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (is_written[i]) placements[i] = Placements(placements[i].size());
    }
    for (int round = 0; round < 2; ++round) {
      std::vector<SpmdMeta> metas;
      for (size_t i = 0; i < tensors.size(); ++i) metas.push_back({tensors[i].shape(), placements[i], 8});
      const SpmdInfo info = notation_of(record, sample).infer(metas, mesh.shape());
      for (size_t i = 0; i < tensors.size(); ++i) {
        if (is_written[i]) placements[i] = info.inputs[i];
      }
    }
  }

  /// The sample's tensors with gradients, and the result of f for them.
  Tensors leaves() const {
    Tensors out;
    for (const Tensor& t : testing::tensors_in(sample)) {
      out.push_back(t.clone().detach());
      if (with_gradients && is_floating(t.dtype())) out.back().requires_grad_();
    }
    return out;
  }
  Tensors whole(const Tensors& inputs) const {
    size_t next = 0;
    return testing::tensors_in({record.call(testing::mapped(sample, [&](const Tensor&) { return inputs[next++]; }))});
  }
  Tensors in_parts(const Tensors& inputs) const {
    DValues arguments;
    size_t next = 0;
    const auto cut = [&](const Tensor&) {
      const size_t i = next++;
      return shard_tensor(inputs[i], mesh, placements[i]);
    };
    for (const Value& value : sample) {
      if (const auto* t = std::get_if<Tensor>(&value); t != nullptr && t->defined()) arguments.emplace_back(cut(*t));
      else if (const auto* list = std::get_if<Tensors>(&value)) {
        std::vector<DTensor> parts;
        for (const Tensor& t : *list) parts.push_back(cut(t));
        arguments.emplace_back(parts);
      } else {
        std::visit(
            [&](const auto& other) {
              using T = std::decay_t<decltype(other)>;
              if constexpr (!std::is_same_v<T, std::vector<Tensor>>) arguments.emplace_back(other);
            },
            value);
      }
    }
    Tensors out;
    for (const DTensor& y : call_all(record.name, arguments)) out.push_back(y.full_tensor());
    return out;
  }
  Tensors gradients(const Tensors& outputs, const Tensors& inputs) const {
    Tensors roots, seeds, wanted;
    for (const Tensor& t : inputs) {
      if (t.requires_grad()) wanted.push_back(t);
    }
    for (const Tensor& y : outputs) {
      if (!y.requires_grad()) continue;
      roots.push_back(y);
      seeds.push_back(testing::seed_of(record, y, 99 + roots.size()));
    }
    if (roots.empty() || wanted.empty()) return {};
    return grad(roots, wanted, seeds, {.allow_unused = true});
  }

  void run() const {
    SCOPED_TRACE(text());
    const Tensors inputs = leaves(), same = leaves();
    const Tensors expected = whole(inputs), actual = in_parts(same);
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(actual[i].dtype(), expected[i].dtype());
      EXPECT_TRUE(testing::close(actual[i].detach(), expected[i].detach(), {1e-9, 1e-9})) << "result " << i;
    }
    const Tensors g = gradients(expected, inputs), h = gradients(actual, same);
    ASSERT_EQ(g.size(), h.size());
    for (size_t i = 0; i < g.size(); ++i) {
      const Tensor zero = g[i].defined() || h[i].defined() ? zeros_like(g[i].defined() ? g[i] : h[i]) : Tensor();
      EXPECT_TRUE(testing::close(h[i].defined() ? h[i] : zero, g[i].defined() ? g[i] : zero, {1e-8, 1e-8}))
          << "gradient " << i;
    }
  }
};

bool has_tensors(const Values& sample) { return !testing::tensors_in(sample).empty(); }

/// Calls that raise, or return no tensor, are no cases.
bool is_case(const OpRecord& record, const Values& sample) {
  try {
    return !testing::tensors_in({record.call(testing::mapped(sample, [](const Tensor& t) { return t.clone(); }))})
                .empty();
  } catch (const std::exception&) {
    return false;
  }
}

bool differs_from_run_to_run(const OpRecord& record) {
  if (!testing::sets_elements(record)) return true;
  SampleMaker make(f64, {});
  return std::ranges::any_of(record.samples(make), [&](const Values& sample) {
    return is_case(record, sample) && testing::draws(record, sample);
  });
}

void compare_on(const Mesh& mesh, const OpRecord& record, bool with_gradients, unsigned tries) {
  SampleMaker make(f64, {});
  unsigned number = 0;
  for (const Values& sample : record.samples(make)) {
    ++number;
    if (!has_tensors(sample) || !is_case(record, sample)) continue;
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string_view>()(record.name)) + 31 * number);
    for (unsigned i = 0; i < tries; ++i) {
      Comparison c{record, sample, mesh, {}, with_gradients && record.facts.differentiable};
      for (const Tensor& t : testing::tensors_in(sample))
        c.placements.push_back(any_placements(random, mesh.shape(), t, c.with_gradients));
      c.place_written();
      c.run();
    }
  }
}

/// One for each shape, of processes: groups are few.
const Mesh& mesh_of_processes(const Dims& shape) {
  static std::map<std::string, Mesh> meshes;
  return meshes.try_emplace(shape.text(), shape).first->second;
}

class OpInParts : public ::testing::TestWithParam<const OpRecord*> {};

TEST_P(OpInParts, IsTheOpOfWholeTensors) {
  const OpRecord& record = *GetParam();
  if (differs_from_run_to_run(record)) GTEST_SKIP() << "it draws numbers";
  const std::vector<Dims> meshes = {{2}, {4}, {2, 2}, {2, 3}};
  for (const Dims& shape : meshes) {
    if (under_mpirun()) {
      if (shape.product() == world().size()) compare_on(mesh_of_processes(shape), record, true, 3);
      continue;
    }
    LocalWorld(static_cast<int>(shape.product()), {.timeout_seconds = 30}).run([&](const Group&) {
      compare_on(Mesh(shape), record, true, 3);
    });
  }
}

/// Sizes that ranks divide, where samples are too small to be cut.
std::vector<std::pair<const char*, Values>> larger_calls() {
  SampleMaker make(f64, {});
  const std::monostate none;
  const Tensor labels = make.indices({8, 4}, 5);
  const QuantizedWeight around_zero = quantize_weight(make.tensor({9, 8}).to(f32), {.bits = 4, .group_size = 4});
  const QuantizedWeight from_least =
      quantize_weight(make.tensor({8, 5}).to(f32), {.group_size = 0, .symmetric = false});
  return {
      {"reshape", {make.tensor({24}), Dims{6, 4}}},
      {"reshape", {make.tensor({4, 6}), Dims{6, 4}}},
      {"reshape", {make.tensor({8, 3, 4}), Dims{2, 4, 12}}},
      {"reshape", {make.tensor({2, 12, 1, 5}), Dims{1, 24, 5, 1}}},
      {"flatten", {make.tensor({4, 6, 5}), int64_t{1}}},
      {"unflatten", {make.tensor({12, 5}), int64_t{0}, Dims{4, 3}}},
      {"group_norm", {make.tensor({4, 8, 3}), int64_t{4}, make.tensor({8}), make.tensor({8})}},
      {"batch_norm", {make.tensor({6, 8, 3}), none, none, make.tensor({8}), make.tensor({8}), true}},
      {"layer_norm", {make.tensor({6, 8, 4}), Dims{4}, make.tensor({4}), make.tensor({4})}},
      {"conv1d",
       {make.tensor({4, 8, 9}), make.tensor({12, 2, 3}), make.tensor({12}), int64_t{1}, int64_t{1}, int64_t{1},
        int64_t{4}}},
      {"conv2d", {make.tensor({4, 6, 5, 5}), make.tensor({8, 6, 3, 3}), make.tensor({8})}},
      {"conv_transpose1d",
       {make.tensor({4, 8, 5}), make.tensor({8, 3, 3}), make.tensor({12}), int64_t{2}, int64_t{0}, int64_t{0},
        int64_t{4}}},
      {"scaled_dot_product_attention",
       {make.tensor({2, 8, 6, 4}), make.tensor({2, 4, 6, 4}), make.tensor({2, 4, 6, 6}), none, 0.0, true, none, true}},
      {"scaled_dot_product_attention",
       {make.tensor({4, 2, 6, 4}), make.tensor({4, 2, 8, 4}), make.tensor({4, 2, 8, 6}), make.mask({6, 8})}},
      {"embedding", {make.tensor({10, 6}), make.indices({4, 5}, 10), int64_t{3}}},
      {"cross_entropy", {make.tensor({8, 5, 4}), labels, make.tensor({5}, 0.5, 2), int64_t{2}}},
      {"cross_entropy", {make.tensor({8, 5, 4}), softmax(make.tensor({8, 5, 4}), 1)}},
      {"nll_loss", {make.tensor({8, 5}), make.indices({8}, 5), none, int64_t{1}}},
      {"mean", {make.tensor({6, 8, 5}), Dims{0, 2}}},
      {"prod", {make.tensor({6, 8}), Dims{0}}},
      {"amax", {make.tensor({6, 8})}},
      {"quantized_linear",
       {make.tensor({7, 8}), around_zero.codes, around_zero.scale.to(f64), make.tensor({9}), around_zero.zero.to(f64),
        int64_t{4}, int64_t{4}}},
      {"quantized_linear",
       {make.tensor({3, 2, 5}), from_least.codes, from_least.scale.to(f64), none, from_least.zero.to(f64), int64_t{8},
        int64_t{0}}},
      {"linear", {make.tensor({6, 4, 8}), make.tensor({12, 8}), make.tensor({12})}},
      {"addmm", {make.tensor({1, 8}), make.tensor({6, 12}), make.tensor({12, 8}), 0.5, 2.0}},
      {"bilinear", {make.tensor({6, 4}), make.tensor({6, 8}), make.tensor({12, 4, 8}), make.tensor({12})}},
      {"tril", {make.tensor({2, 8, 9}), int64_t{-1}}},
      {"lstm_cell",
       {make.tensor({6, 4}), Tensors{make.tensor({6, 3}), make.tensor({6, 3})}, make.tensor({12, 4}),
        make.tensor({12, 3})}},
      {"gather", {make.tensor({6, 8}), int64_t{0}, make.indices({4, 8}, 6)}},
      {"squeeze", {make.tensor({4, 1, 6})}},
      {"expand", {make.tensor({6, 1}), Dims{4, 6, 8}}},
      {"max_pool2d", {make.tensor({4, 6, 6, 6}), int64_t{2}}},
      {"ctc_loss",
       {make.tensor({6, 8, 4}, -3, -0.1), make.indices({8, 2}, 3) + 1, Dims{6, 6, 5, 6, 6, 4, 6, 6},
        Dims{2, 1, 2, 2, 1, 1, 2, 2}}}};
}

TEST(EveryOpInParts, IsTheOpOfLargerTensors) {
  for (const Dims& shape : {Dims{2}, Dims{4}, Dims{2, 2}, Dims{2, 3}}) {
    LocalWorld(static_cast<int>(shape.product()), {.timeout_seconds = 60}).run([&](const Group&) {
      const Mesh mesh(shape);
      std::mt19937 random(7);
      for (const auto& [name, sample] : larger_calls()) {
        for (int i = 0; i < 12; ++i) {
          Comparison c{*find_record(name), sample, mesh, {}, true};
          for (const Tensor& t : testing::tensors_in(sample)) {
            c.placements.push_back(any_placements(random, mesh.shape(), t, true));
          }
          c.run();
        }
      }
    });
  }
}

TEST(EveryOpInParts, IsComputedWithPartsUnlessItsRuleIsForWholeTensors) {
  const PartitionRule of_whole_tensors = find_record("trace")->partition;
  for (const OpRecord& record : op_records()) {
    ASSERT_NE(record.partition, nullptr) << record.name;
    SampleMaker make(f64, {});
    bool cuts = false, has_case = false;
    for (const Values& sample : record.samples(make)) {
      if (!has_tensors(sample) || !is_case(record, sample)) continue;
      has_case = true;
      const Partition rule = partition_of(WholeCall(record, sample));
      cuts |= rule.each || std::ranges::any_of(rule.letters, [](char c) { return std::isalpha(c) != 0; });
    }
    EXPECT_TRUE(!has_case || cuts == (record.partition != of_whole_tensors)) << record.name;
  }
}

TEST(EveryOpInParts, RandomNumbersDifferFromPartToPartAndAgreeOnCopies) {
  LocalWorld(4, {.timeout_seconds = 30}).run([](const Group&) {
    const Mesh mesh({2, 2});
    manual_seed(3);
    const DTensor x = shard_tensor(ones({64, 8}, f64), mesh, {Shard(0), Replicate()});
    for (const DTensor& y : {call("dropout", {x, 0.5, true}), call("bernoulli", {x, 0.5}), call("rand_like", {x})}) {
      EXPECT_EQ(text(y.placements()), "[Shard(0), Replicate]");
      const Tensor rows = all_gather(y.local().unsqueeze(0), mesh.group(1));
      EXPECT_TRUE(equal(rows[0], rows[1]));
      const Tensor whole = y.full_tensor(), halves = whole.view({2, 32, 8});
      EXPECT_FALSE(equal(halves[0], halves[1]));
    }
    const Tensor one = rand({1});
    EXPECT_TRUE(equal(all_reduce(one, mesh.group(), ReduceOp::max), one));
    const DTensor copies = shard_tensor(ones({8}), mesh, {Replicate(), Replicate()});
    manual_seed(5);
    const Tensor alone = dropout(ones({8}), 0.5, true);
    manual_seed(5);
    EXPECT_TRUE(equal(call("dropout", {copies, 0.5, true}).local(), alone));
  });
}

TEST(EveryOpInParts, RejectsImpossiblePartitions) {
  LocalWorld(2, {.timeout_seconds = 30}).run([](const Group&) {
    const Mesh mesh(Dims{2}), other(Dims{2}, {}, world(), {1, 0});
    const DTensor x = shard_tensor(ones({4, 2}), mesh, {Shard(0)}), y = shard_tensor(ones({4, 2}), other, {Shard(0)});
    EXPECT_THROW(call("no_such_op", {x}), KeyError);
    EXPECT_THROW(call("add", {1, 2}), ValueError);
    EXPECT_THROW(call("add", {x, y}), ValueError);
    EXPECT_THROW(call("add", {x}), BadArgument);
    EXPECT_THROW(call("matmul", {x, x}), ShapeError);
    EXPECT_THROW(call("topk", {x, 1}), ValueError);
    EXPECT_THROW(call("equal", {x, x}), ValueError);
    const DTensor images = shard_tensor(ones({4, 2, 3}), mesh, {Shard(1)}),
                  mean = shard_tensor(zeros({2}), mesh, {Replicate()}),
                  var = shard_tensor(ones({2}), mesh, {Replicate()});
    EXPECT_THROW(call("batch_norm", {images, mean, var, std::monostate(), std::monostate(), true}), ValueError);
    EXPECT_TRUE(equal((2 - x * 3 + x / 2).full_tensor(), full({4, 2}, -0.5)));
  });
}

TEST(EveryOpInParts, OneWithoutARuleIsComputedWhole) {
  const OpRecord* const relu = find_record("relu");
  OpRecord plain = *relu;
  plain.partition = nullptr;
  EXPECT_TRUE(partition_of(WholeCall(plain, Values{ones({2, 2})})).whole);
  EXPECT_EQ(notation_of(plain, Values{ones({2, 2})}).inputs()[0], "11");
}

std::vector<const OpRecord*> records() {
  std::vector<const OpRecord*> out;
  for (const OpRecord& record : op_records()) out.push_back(&record);
  return out;
}
INSTANTIATE_TEST_SUITE_P(Ops, OpInParts, ::testing::ValuesIn(records()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace
}  // namespace weft::distributed
