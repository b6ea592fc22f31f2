// Optimizers, clipping and scaling on gradients that leaves keep as rows.
#include <limits>

#include <weft/hooks/capture.hpp>
#include <weft/nn/layers.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/optim/grad_scaler.hpp>
#include <weft/optim/optim.hpp>

#include "optim/recorded.hpp"
#include "sparse/values.hpp"

namespace weft {
namespace {

using namespace test;
using sparse::sparse_grad;

Tensor table(DType dtype) {
  std::vector<double> start;
  for (int i = 0; i < 21; ++i) start.push_back(1.5 * std::cos(1.0 + i));
  return tensor(std::span<const double>(start), {7, 3}, f64).to(dtype).requires_grad_();
}
Tensor ids_at(int step) {
  std::vector<int64_t> ids;
  for (int k = 0; k < 4; ++k) ids.push_back((3 * step + k * k) % 7);
  return tensor(ids);
}
Tensor loss_at(const Tensor& w, int step, bool sparse) {
  std::vector<double> g;
  for (int k = 0; k < 4; ++k) {
    for (int j = 0; j < 3; ++j) g.push_back(std::sin(3.0 * k + j + step));
  }
  return sum(embedding(w, ids_at(step), {.sparse = sparse}) *
             tensor(std::span<const double>(g), {4, 3}, f64).to(w.dtype()));
}

TEST(SparseSteps, EqualPyTorch) {
  std::ifstream in(WEFT_SOURCE_DIR "/tests/sparse/cases/steps.jsonl");
  int cases = 0;
  for (std::string line; std::getline(in, line); ++cases) {
    const json c = json::parse(line);
    SCOPED_TRACE(c["optimizer"].dump() + c["keywords"].dump() + c["dtype"].dump());
    const DType dtype = c["dtype"] == "float64" ? f64 : f32;
    const Tensor w = table(dtype);
    const auto optimizer = make_optimizer(c["optimizer"], {w}, c["keywords"]);
    for (int step = 1; step <= 20; ++step) {
      optimizer->zero_grad();
      loss_at(w, step, true).backward();
      optimizer->step();
      const auto kept = c["weight"].find(std::to_string(step));
      if (kept == c["weight"].end()) continue;
      const auto expected = kept->get<std::vector<double>>();
      expect_near(w, tensor(std::span<const double>(expected), {7, 3}, f64).to(dtype), dtype == f64 ? 1e-13 : 2e-6);
    }
  }
  EXPECT_EQ(cases, 16);
}

// Rows without a gradient stay in these, so that rows alone give the same bits.
TEST(SparseSteps, OfSgdAndAdagradAreTheDenseOnesBitForBit) {
  for (const DType dtype : {f64, f32, f16, bf16}) {
    for (const char* const options : {R"({"lr": 0.1})", R"({"lr": 0.1, "maximize": true})"}) {
      for (const char* const name : {"SGD", "Adagrad"}) {
        const Tensor a = table(dtype), b = table(dtype);
        const auto dense = make_optimizer(name, {a}, json::parse(options));
        const auto rows = make_optimizer(name, {b}, json::parse(options));
        for (int step = 1; step <= 10; ++step) {
          a.set_grad({});
          b.set_grad({});
          loss_at(b, step, true).backward();
          a.set_grad(sparse::to_dense(*sparse_grad(b)));
          dense->step();
          rows->step();
          EXPECT_TRUE(sparse_grad(b).has_value()) << "it became dense";
          EXPECT_EQ(b.to(f64).to_vector<double>(), a.to(f64).to_vector<double>()) << name << options;
        }
      }
    }
  }
}

TEST(SparseSteps, OfOthersAreTheDenseOnes) {
#define WEFT_NAME(O) #O,
  for (const std::string name : {WEFT_OPTIMIZERS_BY_NAME(WEFT_NAME)}) {
#undef WEFT_NAME
    if (name == "LBFGS" || name == "SparseAdam") continue;
    SCOPED_TRACE(name);
    const bool decays = name == "SGD" || name == "Adagrad";
    const json options = decays ? json::parse(R"({"lr": 0.1, "weight_decay": 0.1})") : json::object();
    const Tensor a = table(f64), b = table(f64);
    const auto dense = make_optimizer(name, {a}, options), rows = make_optimizer(name, {b}, options);
    for (int step = 1; step <= 5; ++step) {
      dense->zero_grad();
      rows->zero_grad();
      loss_at(a, step, false).backward();
      loss_at(b, step, true).backward();
      dense->step();
      rows->step();
      expect_near(b, a, 1e-13);
    }
  }
}

TEST(SparseAdam, StepsTheRowsOfADenseGradientThatAreNotZero) {
  const Tensor a = table(f64), b = table(f64);
  optim::SparseAdam dense({a}, {.lr = 0.1}), rows({b}, {.lr = 0.1});
  for (int step = 1; step <= 6; ++step) {
    dense.zero_grad();
    rows.zero_grad();
    loss_at(a, step, false).backward();
    loss_at(b, step, true).backward();
    const Tensor before = a.detach().clone();
    dense.step();
    rows.step();
    expect_near(b, a, 1e-14);
    const Tensor stays = index_fill(ones({7}, f64), 0, ids_at(step), 0);
    EXPECT_EQ(sum(abs(a - before).sum(1) * stays).item<double>(), 0);
  }
}

TEST(SparseAdam, UpdatesParametersOfOtherRanks) {
  const Tensor scalar = tensor(1.0, f64).requires_grad_(), vector = ones({3}, f64).requires_grad_();
  const Tensor transposed = ones({2, 3}, f64).t().detach().requires_grad_(), none = zeros({0, 3}).requires_grad_();
  optim::SparseAdam optimizer({scalar, vector, transposed, none}, {.lr = 0.5});
  (scalar * 2 + sum(vector * tensor({1.0, 0.0, -1.0}, f64)) + sum(transposed[1]) + sum(none)).backward();
  optimizer.step();
  EXPECT_NEAR(scalar.item<double>(), 0.5, 1e-6);
  expect_near(vector, tensor({0.5, 1.0, 1.5}, f64), 1e-6);
  expect_near(transposed, tensor({{1.0, 1.0}, {0.5, 0.5}, {1.0, 1.0}}, f64), 1e-6);
}

TEST(SparseAdam, ResumesFromASavedState) {
  const Tensor a = table(f64);
  optim::SparseAdam first({a}, {.lr = 0.1});
  const auto step = [](const Tensor& w, optim::Optimizer& optimizer, int number) {
    optimizer.zero_grad();
    loss_at(w, number, true).backward();
    optimizer.step();
  };
  for (int number = 1; number <= 3; ++number) step(a, first, number);
  const Tensor b = a.detach().clone().requires_grad_();
  optim::SparseAdam second({b});
  second.load_state_dict(first.state_dict());
  for (int number = 4; number <= 6; ++number) step(a, first, number), step(b, second, number);
  EXPECT_EQ(b.to_vector<double>(), a.to_vector<double>());
  EXPECT_EQ(first.state_dict().at("0.step").item<int64_t>(), 6);
}

TEST(SparseAdam, CountsAStepWithoutRows) {
  const Tensor w = table(f64), before = w.detach().clone();
  optim::SparseAdam optimizer({w});
  sum(embedding(w, zeros({0}, i64), {.sparse = true})).backward();
  ASSERT_TRUE(sparse_grad(w).has_value());
  optimizer.step();
  EXPECT_EQ(w.to_vector<double>(), before.to_vector<double>());
  EXPECT_EQ(optimizer.state_dict().at("0.step").item<int64_t>(), 1);
}

TEST(SparseAdam, OfBfloat16KeepsMomentsInFloat32) {
  const Tensor w = table(bf16), wide = table(bf16).detach().to(f32).requires_grad_();
  optim::SparseAdam narrow({w}, {.lr = 0.1}), reference({wide}, {.lr = 0.1});
  loss_at(w, 1, true).backward();
  wide.set_grad(sparse::to_dense(*sparse_grad(w)).to(f32));
  narrow.step();
  reference.step();
  EXPECT_EQ(narrow.state_dict().at("0.exp_avg").dtype(), f32);
  expect_near(w, wide.detach().to(bf16), 0);
}

TEST(SparseSteps, AreReplayedByCapturedOnes) {
  const auto run = [&](bool captured) {
    const Tensor w = table(f64);
    optim::SparseAdam optimizer({w}, {.lr = 0.1});
    const auto one = [&](const Tensor& ids) {
      optimizer.zero_grad();
      sum(square(embedding(w, ids, {.sparse = true}))).backward();
      optimizer.step();
      return sum(w.detach());
    };
    auto replay = capture([&](const Tensor& ids) { return one(ids); });
    for (int step = 0; step < 8; ++step) {
      if (captured) replay(ids_at(step));
      else one(ids_at(step));
    }
    return w.detach();
  };
  expect_near(run(true), run(false), 1e-14);
}

TEST(SparseGradientsClipped, HaveTheNormOfDenseOnesAndStayRows) {
  for (const double order : {2.0, 1.0, 3.0, std::numeric_limits<double>::infinity()}) {
    const Tensor a = table(f64), b = table(f64), other = ones({4}, f64).requires_grad_();
    (loss_at(a, 2, false) + sum(other * 3)).backward();
    const double expected = optim::clip_grad_norm_(std::vector{a, other}, 0.5, {.norm_type = order}).item<double>();
    other.set_grad({});
    (loss_at(b, 2, true) + sum(other * 3)).backward();
    EXPECT_NEAR(optim::total_grad_norm(std::vector{b, other}, order).item<double>(), expected, 1e-13);
    EXPECT_NEAR(optim::clip_grad_norm_(std::vector{b, other}, 0.5, {.norm_type = order}).item<double>(), expected,
                1e-13);
    ASSERT_TRUE(sparse_grad(b).has_value());
    expect_near(b.grad(), a.grad(), 1e-13);
  }
  const Tensor a = table(f64), b = table(f64);
  loss_at(a, 2, false).backward();
  loss_at(b, 2, true).backward();
  optim::clip_grad_value_(std::vector{a}, 0.3);
  optim::clip_grad_value_(std::vector{b}, 0.3);
  ASSERT_TRUE(sparse_grad(b).has_value());
  expect_near(b.grad(), a.grad(), 1e-13);
}

TEST(SparseGradientsScaled, AreUnscaledAsRowsAndSkippedWhereInfinite) {
  const Tensor w = table(f32), before = w.detach().clone();
  optim::SGD sgd({w}, {.lr = 0.5});
  optim::GradScaler scaler({.init_scale = 4});
  scaler.scale(sum(embedding(w, tensor({1, 1}), {.sparse = true}))).backward();
  EXPECT_TRUE(scaler.step(sgd));
  EXPECT_TRUE(sparse_grad(w).has_value());
  scaler.update();
  expect_near(w.detach(), index_add(before, 0, tensor({1}), full({1, 3}, -1.0)), 1e-6);
  sgd.zero_grad();
  const Tensor infinite = full({1, 3}, std::numeric_limits<double>::infinity(), f32);
  scaler.scale(sum(embedding(w, tensor({2}), {.sparse = true}) * infinite)).backward();
  EXPECT_FALSE(scaler.step(sgd));
  EXPECT_EQ(w[2].to_vector<float>(), before[2].to_vector<float>());
}

}  // namespace
}  // namespace weft
