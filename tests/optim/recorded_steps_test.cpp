// Every optimizer against 20 steps of PyTorch's, in every form of a parameter.
#include <cmath>
#include <memory>

#include <gtest/gtest.h>

#include <weft/autograd/mode.hpp>
#include <weft/ops/complex.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>

#include "recorded.hpp"

namespace weft {
namespace {

using namespace test;

const Dims shapes[] = {{3, 4}, {5}, {}, {0, 3}, {2, 3}};

double gradient(int number, int64_t i, int step) {
  const auto x = static_cast<double>(i);
  return std::sin(3.0 * x + step + number) * (1 + 0.25 * std::cos(2.0 * step + x));
}

template <class F>
Tensor filled(int number, DType dtype, bool transposed, F at) {
  const Dims shape = shapes[number];
  int64_t count = 1;
  for (int d = 0; d < static_cast<int>(shape.size()); ++d) count *= shape[d];
  std::vector<double> values;
  for (int64_t i = 0; i < count; ++i) values.push_back(at(i));
  const Tensor t = tensor(std::span<const double>(values), shape, f64).to(dtype);
  return transposed && t.dim() == 2 ? t.t().contiguous().t() : t;
}

struct Replay {
  const json& c;
  DType dtype;
  bool all_transposed;
  std::vector<Tensor> parameters;
  std::unique_ptr<optim::Optimizer> optimizer;

  Replay(const json& recorded_case, DType type, bool transposed)
      : c(recorded_case), dtype(type), all_transposed(transposed) {
    for (const int number : c["numbers"]) {
      parameters.push_back(filled(number, dtype, all_transposed || number == 4, [&](int64_t i) {
                             return 1.5 * std::cos(1.0 + static_cast<double>(i) + 2.0 * number);
                           }).requires_grad_());
    }
    const json& own = c["own"];
    if (own.empty()) {
      optimizer = make_optimizer(c["optimizer"], parameters, c["keywords"]);
    } else {
      optimizer = make_optimizer(c["optimizer"], {parameters.begin(), parameters.begin() + 2}, c["keywords"]);
      optimizer->add_named_group({parameters.begin() + 2, parameters.end()}, options_in(own, optimizer->option_info()));
    }
  }
  void step(int number) {
    for (size_t k = 0; k < parameters.size(); ++k) {
      const int shape = c["numbers"][k];
      parameters[k].set_grad(
          filled(shape, dtype, all_transposed || shape == 4, [&](int64_t i) { return gradient(shape, i, number); }));
    }
    optimizer->step();
  }
  void expect_recorded(int number, double tolerance) const {
    const auto kept = c["parameters"].find(std::to_string(number));
    if (kept == c["parameters"].end()) return;
    for (size_t k = 0; k < parameters.size(); ++k) {
      const std::vector<double> now = parameters[k].to_vector<double>(), wanted = (*kept)[k];
      ASSERT_EQ(now.size(), wanted.size());
      for (size_t i = 0; i < now.size(); ++i) {
        ASSERT_NEAR(now[i], wanted[i], tolerance * (1 + std::abs(wanted[i])))
            << "step " << number << ", parameter " << k << ", element " << i;
      }
    }
  }
};

double tolerance_of(const json& c) {
  if (c["optimizer"] == "Muon") return 3e-3;                              // products in bf16, rounded in another order
  if (c["optimizer"] == "NAdam" && c["dtype"] == "float64") return 1e-8;  // PyTorch keeps the product of momenta in f32
  return c["dtype"] == "float64" ? 1e-12 : 4e-6;
}

TEST(RecordedSteps, EqualPyTorch) {
  const std::vector<json> cases = recorded("steps.jsonl");
  ASSERT_GT(cases.size(), 80u);
  for (const json& c : cases) {
    for (const bool transposed : {false, true}) {  // by the kernels, and by tensor ops
      SCOPED_TRACE(c["optimizer"].get<std::string>() + " " + c["keywords"].dump() + c["own"].dump() +
                   (transposed ? " transposed" : ""));
      Replay run(c, dtype_from_name(c["dtype"].get<std::string>().c_str()), transposed);
      for (int step = 1; step <= 20; ++step) {
        run.step(step);
        run.expect_recorded(step, tolerance_of(c));
      }
    }
  }
}

// Parameters of 16 bits with state in f32: the only loss is the rounding of the parameters.
TEST(RecordedSteps, OfSmallFloatsAreNearby) {
  for (const json& c : recorded("steps.jsonl")) {
    if (c["dtype"] != "float32") continue;
    SCOPED_TRACE(c["optimizer"].get<std::string>() + " " + c["keywords"].dump());
    Replay small(c, f16, false), transposed(c, f16, true);
    for (int step = 1; step <= 3; ++step) small.step(step), transposed.step(step);
    // Signs of sums near 0 may turn for those that step by signs.
    small.expect_recorded(3, c["optimizer"] == "Muon" ? 2e-2 : 4e-3);
    for (size_t k = 0; k < small.parameters.size(); ++k) {
      const auto a = small.parameters[k].to_vector<double>(), b = transposed.parameters[k].to_vector<double>();
      for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-3 * (1 + std::abs(a[i])));
    }
    EXPECT_EQ(small.parameters[0].dtype(), f16);
  }
}

TEST(RecordedSteps, OfComplexParametersEqualThoseOfTheirParts) {
  for (const json& c : recorded("steps.jsonl")) {
    const std::string name = c["optimizer"];
    const Tensor start = tensor({0.5, -1.0, 2.0, 0.25, -0.75, 1.5}, f64).reshape({3, 2});
    const Tensor z = view_as_complex(start.clone()).requires_grad_(), parts = start.clone().requires_grad_();
    if (name == "Adafactor" || name == "Muon") {
      EXPECT_THROW(make_optimizer(name, {z}, c["keywords"]), ValueError) << name;
      continue;
    }
    const auto of_z = make_optimizer(name, {z}, c["keywords"]), of_parts = make_optimizer(name, {parts}, c["keywords"]);
    for (int step = 0; step < 5; ++step) {
      const Tensor g = (arange(0, 6, 1, f64) * 1.7 + step).sin().reshape({3, 2});
      z.set_grad(view_as_complex(g.clone()));
      parts.set_grad(g);
      of_z->step();
      of_parts->step();
      ASSERT_TRUE(allclose(view_as_real(z.detach()), parts.detach(), 1e-13, 1e-13)) << c << ", step " << step;
    }
  }
}

TEST(RecordedSteps, ResumeBitForBitFromAState) {
  for (const json& c : recorded("steps.jsonl")) {
    SCOPED_TRACE(c["optimizer"].get<std::string>() + " " + c["keywords"].dump());
    const DType dtype = dtype_from_name(c["dtype"].get<std::string>().c_str());
    Replay run(c, dtype, false), resumed(c, dtype, false);
    for (int step = 1; step <= 4; ++step) run.step(step);
    for (size_t k = 0; k < run.parameters.size(); ++k) {
      NoGradGuard unrecorded;
      resumed.parameters[k].copy_(run.parameters[k]);
    }
    resumed.optimizer->load_state_dict(run.optimizer->state_dict());
    for (int step = 5; step <= 8; ++step) run.step(step), resumed.step(step);
    for (size_t k = 0; k < run.parameters.size(); ++k) {
      EXPECT_EQ(run.parameters[k].to_vector<double>(), resumed.parameters[k].to_vector<double>());
    }
  }
}

// Lion is not in PyTorch: the definition (Chen et al. 2023, algorithm 2) in double precision.
TEST(Lion, FollowsItsDefinition) {
  for (const bool transposed : {false, true}) {
    const auto at = [](int64_t i) { return 0.5 * static_cast<double>(i) - 1; };
    const Tensor p = filled(0, f64, transposed, at).requires_grad_();
    optim::Lion optimizer({p}, {.lr = 0.01, .beta1 = 0.8, .beta2 = 0.95, .weight_decay = 0.1});
    std::vector<double> wanted, m(12);
    for (int64_t i = 0; i < 12; ++i) wanted.push_back(at(i));
    for (int step = 1; step <= 20; ++step) {
      p.set_grad(filled(0, f64, transposed, [&](int64_t i) { return gradient(0, i, step); }));
      optimizer.step();
      for (size_t i = 0; i < 12; ++i) {
        const double g = gradient(0, static_cast<int64_t>(i), step), c = 0.8 * m[i] + (1 - 0.8) * g;
        wanted[i] -= 0.01 * ((c > 0) - (c < 0) + 0.1 * wanted[i]);
        m[i] = 0.95 * m[i] + (1 - 0.95) * g;
      }
    }
    const std::vector<double> now = p.to_vector<double>();
    for (size_t i = 0; i < 12; ++i) EXPECT_NEAR(now[i], wanted[i], 1e-13);
  }
}

Tensor rosenbrock(const Tensor& x) {
  const Tensor now = x.narrow(0, 0, x.size(0) - 1), next = x.narrow(0, 1, x.size(0) - 1);
  return sum(10 * square(next - square(now)) + square(1 - now));
}

TEST(LBFGS, FollowsPyTorch) {
  for (const json& c : recorded("lbfgs.jsonl")) {
    SCOPED_TRACE(c["keywords"].dump());
    const std::vector<double> at = {-1.2, 1.0, 0.5, -0.75};
    const Tensor a = tensor(std::span<const double>(at), {2, 2}, f64).requires_grad_();
    const Tensor b = tensor({0.25, 2.0, -0.5}).to(f64).requires_grad_();
    const double sign = c["keywords"].value("maximize", false) ? -1 : 1;
    const auto make = [&] { return make_optimizer("LBFGS", {a, b}, c["keywords"]); };
    std::unique_ptr<optim::Optimizer> optimizer = make();
    for (size_t step = 0; step < 6; ++step) {
      if (step == 3) {  // from a state it goes on as before
        const auto state = optimizer->state_dict();
        optimizer = make();
        optimizer->load_state_dict(state);
      }
      const Tensor loss = optimizer->step([&] {
        optimizer->zero_grad();
        const Tensor l = sign * rosenbrock(cat({a.reshape({-1}), b}));
        l.backward();
        return l;
      });
      // Rounding grows along the valley.
      const double tolerance = step < 2 ? 1e-9 : 1e-5;
      EXPECT_NEAR(loss.item<double>(), c["losses"][step].get<double>(),
                  tolerance * (1 + std::abs(loss.item<double>())));
      const std::vector<double> wanted = c["parameters"][step];
      std::vector<double> now = a.to_vector<double>();
      for (const double v : b.to_vector<double>()) now.push_back(v);
      for (size_t i = 0; i < now.size(); ++i) EXPECT_NEAR(now[i], wanted[i], tolerance * 10) << step << " " << i;
    }
    EXPECT_EQ(optimizer->state_dict().at("0.func_evals").item<int64_t>(), c["func_evals"].get<int64_t>());
    EXPECT_EQ(optimizer->state_dict().at("0.n_iter").item<int64_t>(), c["n_iter"].get<int64_t>());
  }
}

TEST(LBFGS, RequiresAClosure) {
  const Tensor p = ones(2).requires_grad_();
  optim::LBFGS optimizer({p});
  EXPECT_THROW(optimizer.step(), ValueError);
  EXPECT_THROW(optimizer.add_group({ones(2).requires_grad_()}), ValueError);
}

}  // namespace
}  // namespace weft
