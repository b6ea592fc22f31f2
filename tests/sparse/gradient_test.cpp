// Gradients of embeddings as rows: the same values as dense ones for every reader, and rows without readers.
#include <atomic>
#include <thread>

#include <weft/autograd/accumulation.hpp>
#include <weft/autograd/autocast.hpp>
#include <weft/autograd/engine.hpp>
#include <weft/autograd/hooks.hpp>
#include <weft/hooks/capture.hpp>
#include <weft/hooks/checkpoint.hpp>
#include <weft/nn/layers.hpp>
#include <weft/ops/embedding_bag.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/masked.hpp>
#include <weft/ops/matmul.hpp>
#include <weft/ops/random.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/allocator.hpp>

#include "optim/recorded.hpp"
#include "sparse/values.hpp"

namespace weft {
namespace {

using namespace test;
using sparse::sparse_grad;

constexpr EmbeddingOptions as_rows{.sparse = true};

Tensor table(DType dtype = f64) {
  std::mt19937 random(7);
  return random_values(random, {7, 3}, dtype).requires_grad_();
}
/// sum(rows · c) with c that differ.
Tensor loss_of(const Tensor& rows) {
  return sum(rows * sin(arange(0, rows.numel(), 1, rows.dtype()).reshape(rows.shape())));
}

TEST(SparseGradient, IsTheDenseOneForAnyIndices) {
  std::mt19937 random(8);
  for (int i = 0; i < 300; ++i) {
    const DType dtype = std::array{f64, f32, bf16, f16}[static_cast<size_t>(i % 4)];
    const Dims shape = std::array{Dims{4}, Dims{2, 3}, Dims{}, Dims{0}, Dims{20}}[static_cast<size_t>(i % 5)];
    const auto padding = i % 3 == 0 ? std::optional<int64_t>(2) : std::nullopt;
    const Tensor ids = random_indices(random, shape, 0, 7).to(i % 2 == 0 ? i64 : i32);
    const Tensor a = table(dtype), b = table(dtype);
    for (int pass = 0; pass < 3; ++pass) {
      loss_of(embedding(a, ids, {padding})).backward();
      loss_of(embedding(b, ids, {padding, true})).backward();
    }
    const auto rows = sparse_grad(b);
    ASSERT_TRUE(rows.has_value());
    EXPECT_EQ(rows->values.dtype(), dtype);
    const double tolerance = dtype == f64 ? 1e-14 : dtype == f32 ? 1e-6 : dtype == f16 ? 4e-3 : 4e-2;
    expect_near(sparse::to_dense(*rows), a.grad(), tolerance);
    expect_near(b.grad(), a.grad(), tolerance);
    EXPECT_FALSE(sparse_grad(b).has_value());  // it is dense now
  }
}

TEST(SparseGradient, HasTheRowsOfPyTorch) {
  for (const json& c : [] {
         std::vector<json> out;
         std::ifstream in(WEFT_SOURCE_DIR "/tests/sparse/cases/rows.jsonl");
         for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
         return out;
       }()) {
    SCOPED_TRACE(c.dump());
    std::vector<double> start;
    for (int i = 0; i < 21; ++i) start.push_back(1.5 * std::cos(1.0 + i));
    const Tensor weight = tensor(std::span<const double>(start), {7, 3}, f64).requires_grad_();
    std::vector<int64_t> flat;
    const json& given = c["indices"];
    const bool nested = given[0].is_array();
    for (const json& item : given) {
      if (nested) flat.insert(flat.end(), item.begin(), item.end());
      else flat.push_back(item);
    }
    const auto size = static_cast<int64_t>(flat.size()), outer = static_cast<int64_t>(given.size());
    const Tensor ids = tensor(std::span<const int64_t>(flat), nested ? Dims{outer, size / outer} : Dims{size}, i64);
    Tensor out;
    if (c.contains("mode")) {
      EmbeddingBagOptions o{.mode = c["mode"] == "sum" ? BagMode::sum : BagMode::mean, .sparse = true};
      if (c.contains("offsets")) o.offsets = tensor(c["offsets"].get<std::vector<int64_t>>());
      if (c.contains("factors")) o.per_sample_weights = tensor(c["factors"].get<std::vector<double>>(), f64);
      out = embedding_bag(ids, weight, o);
    } else {
      out =
          embedding(weight, ids,
                    {c.contains("padding_idx") ? std::optional(c["padding_idx"].get<int64_t>()) : std::nullopt, true});
    }
    out.backward(sin(arange(1, 1 + out.numel(), 1, f64).reshape(out.shape())));
    const auto rows = sparse_grad(weight);
    ASSERT_TRUE(rows.has_value());
    EXPECT_EQ(rows->indices.to_vector<int64_t>(), c["ids"].get<std::vector<int64_t>>());
    const auto values = rows->values.to_vector<double>(), expected = c["values"].get<std::vector<double>>();
    ASSERT_EQ(values.size(), expected.size());
    for (size_t i = 0; i < values.size(); ++i) EXPECT_NEAR(values[i], expected[i], 1e-12);
  }
}

TEST(SparseGradient, OfBagsIsTheDenseOne) {
  std::mt19937 random(9);
  for (int i = 0; i < 200; ++i) {
    EmbeddingBagOptions o{.mode = std::array{BagMode::sum, BagMode::mean, BagMode::max}[static_cast<size_t>(i % 3)]};
    const Tensor ids = random_indices(random, {9}, 0, 7);
    o.offsets = tensor({0, 4, 4});
    if (i % 4 == 0) o.padding_idx = i % 7 - 3;
    if (i % 5 == 0) o.max_norm = 1;
    const bool with_factors = o.mode == BagMode::sum && i % 2 == 0;
    const Tensor f = random_values(random, {9}).requires_grad_(), g = f.detach().clone().requires_grad_();
    const Tensor a = table(), b = table();
    if (with_factors) o.per_sample_weights = f;
    loss_of(embedding_bag(ids, a, o)).backward();
    o.sparse = true;
    if (with_factors) o.per_sample_weights = g;
    loss_of(embedding_bag(ids, b, o)).backward();
    EXPECT_EQ(sparse_grad(b).has_value(), o.mode != BagMode::max);
    expect_near(b.grad(), a.grad(), 1e-14);
    if (with_factors) expect_near(g.grad(), f.grad(), 0);
  }
}

TEST(SparseGradient, IsDenseWhereSomebodySeesIt) {
  const Tensor ids = tensor({1, 1, 4});
  const Tensor expected = [&] {
    const Tensor w = table();
    loss_of(embedding(w, ids)).backward();
    return w.grad();
  }();
  const auto check = [&](const char* what, const Tensor& w) {
    SCOPED_TRACE(what);
    EXPECT_FALSE(sparse_grad(w).has_value());
    expect_near(w.grad().detach(), expected, 1e-14);
  };
  {
    const Tensor w = table();
    loss_of(embedding(w, ids, as_rows)).backward(BackwardOptions{.create_graph = true});
    check("create_graph", w);
  }
  {
    const Tensor w = table();
    Tensor seen;
    const HookHandle hook = w.register_hook([&](const Tensor& g) { seen = g; });
    loss_of(embedding(w, ids, as_rows)).backward();
    expect_near(seen, expected, 1e-14);
    check("a gradient hook", w);
  }
  {
    const Tensor w = table();
    expect_near(grad({loss_of(embedding(w, ids, as_rows))}, {w})[0], expected, 1e-14);
    EXPECT_FALSE(w.grad().defined());
  }
  {
    struct Watch final : BackwardWatch {
      void before(const BackwardPass&, Node&, std::span<const Tensor>) override {}
      void after(const BackwardPass&, Node& node, std::span<const Tensor>, std::span<const Tensor> out) override {
        if (std::string(node.op) == "embedding") gradient = out[0];
      }
      Tensor gradient;
    } watch;
    const BackwardWatchGuard guard(watch);
    const Tensor w = table();
    loss_of(embedding(w, ids, as_rows)).backward();
    expect_near(watch.gradient, expected, 1e-14);
    check("a watch", w);
  }
  {
    const Tensor w = table();
    loss_of(embedding(w * 1.0, ids, as_rows)).backward();
    check("a weight that is no leaf", w);
  }
}

TEST(SparseGradient, GradientsOfGradientsEqualDenseOnes) {
  const Tensor ids = tensor({1, 1, 4});
  const auto second = [&](bool sparse) {
    const Tensor w = table(), rows = embedding(w, ids, {.sparse = sparse});
    const Tensor g = grad({sum(rows * rows * rows)}, {w}, {}, {.create_graph = true})[0];
    sum(g * g).backward();
    return w.grad();
  };
  expect_near(second(true), second(false), 0);
}

TEST(SparseGradient, AddsUpWithDenseOnesInAnyOrder) {
  const Tensor ids = tensor({1, 5, 1}), x = ones({2, 3}, f64);
  const auto run = [&](bool sparse, int order) {
    const Tensor w = table();
    const auto rows = [&] { return loss_of(embedding(w, ids, {.sparse = sparse})); };
    const auto dense = [&] { return loss_of(matmul(x, w.t())); };
    if (order == 0) (rows() + dense()).backward();
    if (order == 1) (dense() + rows()).backward();
    if (order == 2) rows().backward(), dense().backward(), rows().backward();
    if (order == 3) dense().backward(), rows().backward(), dense().backward();
    if (order == 4) rows().backward(), dense().backward(BackwardOptions{.create_graph = true});
    return w.grad().detach();
  };
  for (int order = 0; order < 5; ++order) {
    SCOPED_TRACE(order);
    expect_near(run(true, order), run(false, order), 1e-14);
  }
}

TEST(SparseGradient, ADenseGradientThatSomebodyHoldsGrows) {
  const Tensor w = table();
  loss_of(embedding(w, tensor({1}), as_rows)).backward();
  const Tensor held = w.grad(), before = held.clone();
  const uint32_t version = held.version();
  loss_of(embedding(w, tensor({1}), as_rows)).backward();
  EXPECT_NE(held.version(), version);
  expect_near(held, before * 2, 1e-14);
  EXPECT_EQ(w.grad().impl(), held.impl());
}

TEST(SparseGradient, DoesNotGrowWithTheNumberOfPasses) {
  const Tensor a = table(), b = table();
  std::mt19937 random(10);
  for (int pass = 0; pass < 500; ++pass) {
    const Tensor ids = random_indices(random, {3}, 0, 7);
    loss_of(embedding(a, ids)).backward();
    loss_of(embedding(b, ids, as_rows)).backward();
    const auto& rows = accumulation_node(b.impl())->rows;
    ASSERT_LE(rows->count, 14 + 3);
    ASSERT_LE(rows->pieces.size(), 65u);
  }
  expect_near(sparse::to_dense(*sparse_grad(b)), a.grad(), 1e-12);
  const Tensor wide = zeros({100000, 2}, f64).requires_grad_();
  for (int pass = 0; pass < 1000; ++pass) {
    sum(embedding(wide, tensor({pass % 10}), as_rows)).backward();
    ASSERT_LE(accumulation_node(wide.impl())->rows->pieces.size(), 65u);
  }
  EXPECT_EQ(sparse_grad(wide)->nnz(), 10);
  EXPECT_EQ(sparse_grad(wide)->values.to_vector<double>(), std::vector<double>(20, 100.0));
}

TEST(SparseGradient, SharesNoMemoryWithItsInputs) {
  const Tensor w = table(), ids = tensor({1, 2}), seed = ones({2, 3}, f64);
  embedding(w, ids.clone(), as_rows).backward(seed);
  const Tensor reused = ids.clone(), rows = embedding(w, reused, as_rows);
  rows.backward(seed);
  reused.fill_(0);
  seed.fill_(100);
  EXPECT_EQ(sparse_grad(w)->indices.to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
  EXPECT_EQ(sparse_grad(w)->values.to_vector<double>(), std::vector<double>(6, 2.0));
}

TEST(SparseGradient, IsDroppedReplacedAndConvertedAsADenseOne) {
  const Tensor w = table();
  loss_of(embedding(w, tensor({1}), as_rows)).backward();
  w.set_grad({});
  EXPECT_FALSE(w.grad().defined());
  EXPECT_FALSE(sparse_grad(w).has_value());
  loss_of(embedding(w, tensor({1}), as_rows)).backward();
  w.set_grad(ones({7, 3}, f64));
  EXPECT_EQ(sum(w.grad()).item<double>(), 21);
  nn::Embedding layer(7, 3, {.sparse = true});
  loss_of(layer(tensor({1, 1}))).backward();
  const Tensor before = sparse::to_dense(*sparse_grad(layer.weight));
  layer.to(f64);
  expect_near(layer.weight.grad(), before.to(f64), 0);
  loss_of(layer(tensor({1}))).backward();
  layer.zero_grad();
  EXPECT_FALSE(layer.weight.grad().defined());
  layer.weight.requires_grad_(false);
  EXPECT_FALSE(layer(tensor({1})).requires_grad());
  EXPECT_THROW(sparse_grad(layer.weight), ValueError);
}

TEST(SparseGradient, OfAWeightThatWasMovedIsRefused) {
  nn::Embedding layer(7, 3, {.sparse = true});
  const Tensor loss = sum(layer(tensor({1})));
  layer.to(f64);
  EXPECT_THROW(loss.backward(), AutogradError);
  EXPECT_FALSE(layer.weight.grad().defined());
}

TEST(SparseGradient, HooksAfterTheSumRunOnceAPass) {
  const Tensor w = table();
  int runs = 0;
  Tensor seen;
  const HookHandle hook = w.register_post_accumulate_grad_hook([&](const Tensor& leaf) {
    ++runs;
    if (runs == 2) seen = leaf.grad();
  });
  for (int pass = 1; pass <= 2; ++pass) {
    (loss_of(embedding(w, tensor({1}), as_rows)) + loss_of(embedding(w, tensor({2, 3}), as_rows))).backward();
    EXPECT_EQ(runs, pass);
  }
  EXPECT_EQ(count_nonzero(seen.abs().sum(1)).item<int64_t>(), 3);
}

TEST(SparseGradient, OfAGraphThatIsKeptComesTwice) {
  const Tensor w = table(), loss = loss_of(embedding(w, tensor({1, 2}), as_rows));
  loss.backward(BackwardOptions{.retain_graph = true});
  const Tensor once = sparse_grad(w)->values.clone();
  loss.backward();
  expect_near(sparse_grad(w)->values, once * 2, 1e-14);
  EXPECT_THROW(loss.backward(), AutogradError);
}

TEST(SparseGradient, ComesThroughCheckpoints) {
  const Tensor ids = tensor({1, 2, 1}), x = ones({3, 3}, f64).requires_grad_();
  const auto run = [&](bool sparse) {
    const Tensor w = table();
    loss_of(checkpoint([&](const Tensor& t) { return embedding(w, ids, {.sparse = sparse}) * t; }, x)).backward();
    return w.grad();
  };
  expect_near(run(true), run(false), 1e-14);
}

TEST(SparseGradient, IsDenseInAStepThatIsCaptured) {
  const Tensor a = table(), b = table(), ids = tensor({1, 2, 1});
  auto step = capture([&](const Tensor& at) {
    b.set_grad({});
    loss_of(embedding(b, at, as_rows)).backward();
    return b.grad() * 1.0;
  });
  for (int i = 0; i < 6; ++i) {
    const Tensor at = (ids + i) % 7;
    a.set_grad({});
    loss_of(embedding(a, at)).backward();
    expect_near(step(at), a.grad(), 1e-14);
  }
}

TEST(SparseGradient, ThreadsAddToOneLeaf) {
  const Tensor w = zeros({1000, 4}, f64).requires_grad_();
  std::atomic<int> wrong{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 100; ++i) {
        sum(embedding(w, tensor({t, i, 999}), as_rows)).backward();
        if (t == 3 && i % 10 == 0 && sparse_grad(w).has_value()) wrong += sparse_grad(w)->nnz() > 104;
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(wrong, 0);
  const Tensor sums = w.grad().sum(1);
  EXPECT_EQ(sums.sum().item<double>(), 4 * 100 * 3 * 4);
  EXPECT_EQ(sums[999].item<double>(), 4 * 100 * 4);
}

TEST(SparseGradient, ReadersBesideABackwardSeeAllOfIt) {
  const Tensor w = zeros({50, 2}, f64).requires_grad_();
  std::atomic<bool> ends{false};
  std::atomic<int> wrong{0};
  sum(embedding(w, tensor({0}), as_rows)).backward();
  std::thread reader([&] {
    while (!ends) {
      const Tensor g = w.grad();
      if (!g.defined() || g[0][0].item<double>() < 1) ++wrong;
    }
  });
  for (int i = 0; i < 500; ++i) sum(embedding(w, tensor({i % 50}), as_rows)).backward();
  ends = true;
  reader.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(w.grad().sum().item<double>(), 501 * 2);
}

TEST(SparseGradient, TakesMemoryForItsRowsAlone) {
  const Tensor w = zeros({1000000, 16}).requires_grad_(), ids = tensor({5, 999999, 5});
  const size_t before = memory_stats().allocated;
  reset_peak();
  sum(embedding(w, ids, as_rows)).backward();
  EXPECT_EQ(sparse_grad(w)->nnz(), 2);
  EXPECT_LT(memory_stats().peak_allocated - before, size_t{1} << 20);
}

TEST(SparseGradient, OfALayerAndOfOneFromItsDescription) {
  const nn::Embedding layer(7, 3, {.padding_idx = 2, .sparse = true});
  loss_of(layer(tensor({1, 2, 1}))).backward();
  EXPECT_EQ(sparse_grad(layer.weight)->indices.to_vector<int64_t>(), (std::vector<int64_t>{1}));
  const nn::EmbeddingBag bag(7, 3, {.mode = BagMode::sum, .sparse = true});
  loss_of(bag(tensor({{1, 2}, {1, 6}}))).backward();
  EXPECT_EQ(sparse_grad(bag.weight)->indices.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 6}));
}

}  // namespace
}  // namespace weft
