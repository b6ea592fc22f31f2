#include <cmath>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <weft/nn/open_module.hpp>
#include <weft/nn/registry.hpp>
#include <weft/weft.hpp>

#include <collected_warnings.hpp>
#include <message_of.hpp>

namespace weft {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::HasSubstr;

struct Symmetric : nn::Layer<Symmetric> {
  Tensor forward(const Tensor& x) const { return triu(x) + triu(x, 1).t(); }
};
// Twice its original, and back.
struct Doubled : nn::Layer<Doubled> {
  Tensor forward(const Tensor& x) const {
    ++*calls;
    return x * 2;
  }
  Tensor right_inverse(const Tensor& x) const { return x / 2; }
  std::shared_ptr<int> calls = std::make_shared<int>(0);
};
// A sum of three, the last of another shape.
struct Sum : nn::Layer<Sum> {
  Tensor forward(const Tensor& a, const Tensor& b, const Tensor& c) const { return a + b + c; }
  std::vector<Tensor> right_inverse(const Tensor& x) const { return {x / 2, x / 2 - 1, ones({}, x.dtype())}; }
};
struct Failing : nn::Layer<Failing> {
  Tensor forward(const Tensor& x) const {
    if (*fails) throw std::runtime_error("not now");
    return x * 1;
  }
  std::shared_ptr<bool> fails = std::make_shared<bool>(false);
};
struct Transposed : nn::Layer<Transposed> {
  Tensor forward(const Tensor& x) const { return x.t(); }
  Tensor right_inverse(const Tensor& x) const { return x.t(); }
};

std::vector<double> values(const Tensor& t) { return t.detach().to(f64).contiguous().flatten().to_vector<double>(); }

void expect_near(const Tensor& t, const std::vector<double>& wanted, const std::string& what,
                 double tolerance = 1e-10) {
  const std::vector<double> own = values(t);
  ASSERT_EQ(own.size(), wanted.size()) << what;
  for (size_t i = 0; i < own.size(); ++i) ASSERT_NEAR(own[i], wanted[i], tolerance) << what << " " << i;
}

std::vector<std::string> names(const nn::StateDict& state) {
  std::vector<std::string> out;
  for (const auto& [name, tensor] : state) out.push_back(name);
  return out;
}

// ---- as PyTorch ----

std::vector<json> recorded_cases() {
  std::ifstream in(WEFT_SOURCE_DIR "/tests/nn/cases/parametrizations.jsonl");
  std::vector<json> out;
  for (std::string line; std::getline(in, line);) out.push_back(json::parse(line));
  return out;
}

Tensor tensor_from(const json& t, DType dtype = f64) {
  const auto all = t["values"].get<std::vector<double>>();
  return tensor(std::span<const double>(all), Dims(std::span<const int64_t>(t["shape"].get<std::vector<int64_t>>())),
                f64)
      .to(dtype);
}

template <class F>
void with_layer(const std::string& kind, const std::vector<int64_t>& a, F f) {
  if (kind == "Linear") f(nn::Linear(a[0], a[1]));
  else if (kind == "Conv1d") f(nn::Conv1d(a[0], a[1], a[2]));
  else if (kind == "Conv2d") f(nn::Conv2d(a[0], a[1], a[2]));
  else if (kind == "Conv3d") f(nn::Conv3d(a[0], a[1], a[2]));
  else if (kind == "ConvTranspose1d") f(nn::ConvTranspose1d(a[0], a[1], a[2]));
  else if (kind == "ConvTranspose2d") f(nn::ConvTranspose2d(a[0], a[1], a[2]));
  else if (kind == "ConvTranspose3d") f(nn::ConvTranspose3d(a[0], a[1], a[2]));
  else if (kind == "Embedding") f(nn::Embedding(a[0], a[1]));
  else if (kind == "EmbeddingBag") f(nn::EmbeddingBag(a[0], a[1]));
  else if (kind == "Bilinear") f(nn::Bilinear(a[0], a[1], a[2]));
  else if (kind == "LSTM") f(nn::LSTM(a[0], a[1]));
  else if (kind == "GRU") f(nn::GRU(a[0], a[1]));
  else if (kind == "RNN") f(nn::RNN(a[0], a[1]));
  else if (kind == "LSTMCell") f(nn::LSTMCell(a[0], a[1]));
  else if (kind == "GRUCell") f(nn::GRUCell(a[0], a[1]));
  else if (kind == "RNNCell") f(nn::RNNCell(a[0], a[1]));
  else FAIL() << "no layer " << kind;
}

Tensor first_of(const Tensor& t) { return t; }
Tensor first_of(const nn::LSTMResult& r) { return r.output; }
Tensor first_of(const nn::RNNResult& r) { return r.output; }
Tensor first_of(const LstmState& s) { return s.hidden; }

template <class L>
Tensor output_of(const L& layer, const json& inputs) {
  if constexpr (std::same_as<L, nn::Bilinear>) return layer(tensor_from(inputs[0]), tensor_from(inputs[1]));
  else if constexpr (std::same_as<L, nn::Embedding> || std::same_as<L, nn::EmbeddingBag>) {
    return layer(tensor_from(inputs[0], i64));
  } else {
    return first_of(layer(tensor_from(inputs[0])));
  }
}

void parametrize(const nn::Module& layer, const json& c) {
  const std::string name = c["name"];
  const json& keywords = c["keywords"];
  if (c["function"] == "weight_norm") {
    const json& dim = keywords["dim"];
    nn::weight_norm(layer, name, dim.is_null() ? std::optional<int>() : std::optional<int>(dim.get<int>()));
  } else if (c["function"] == "spectral_norm") {
    nn::spectral_norm(
        layer, name,
        {.n_power_iterations = keywords.value("n_power_iterations", 1),
         .eps = keywords.value("eps", 1e-12),
         .dim = keywords.contains("dim") ? std::optional<int>(keywords["dim"].get<int>()) : std::nullopt});
  } else {
    const std::string map = keywords["orthogonal_map"];
    nn::orthogonal(layer, name,
                   {.map = map == "cayley"       ? nn::OrthogonalMap::cayley
                           : map == "matrix_exp" ? nn::OrthogonalMap::matrix_exp
                                                 : nn::OrthogonalMap::householder,
                    .use_trivialization = keywords["use_trivialization"]});
  }
}

nn::StateDict state_in(const json& states) {
  nn::StateDict out;
  for (const auto& [name, t] : states.items()) out.emplace(name, tensor_from(t));
  return out;
}

TEST(Parametrizations, ValuesGradientsAndNamesArePyTorchs) {
  int count = 0;
  for (const json& c : recorded_cases()) {
    const std::string what = c["layer"].dump() + c["function"].dump() + c["keywords"].dump();
    with_layer(c["layer"], c["arguments"].get<std::vector<int64_t>>(), [&](auto layer) {
      layer.to(f64);
      parametrize(layer, c);
      layer.train(c["training"].get<bool>());
      ++count;
      layer.load_state_dict(state_in(c["before"]));
      const Tensor y = output_of(layer, c["input"]);
      expect_near(y, c["output"].get<std::vector<double>>(), what);
      (y * sin(arange(0, y.numel(), 1, {.dtype = f64})).reshape(y.shape())).sum().backward();
      size_t gradients = 0;
      for (const nn::NamedTensor& p : layer.named_parameters()) {
        if (!p.tensor.grad().defined()) continue;
        ASSERT_TRUE(c["gradients"].contains(p.name)) << what << p.name;
        expect_near(p.tensor.grad(), c["gradients"][p.name].template get<std::vector<double>>(), what + p.name);
        ++gradients;
      }
      EXPECT_EQ(gradients, c["gradients"].size()) << what;
      for (const auto& [name, t] : layer.state_dict()) {
        expect_near(t, c["after"][name]["values"].template get<std::vector<double>>(), what + name);
      }
      layer.eval();
      expect_near(nn::parametrized_tensor(layer, c["name"].get<std::string>()), c["value"].get<std::vector<double>>(),
                  what);
    });
  }
  EXPECT_EQ(count, 117);
}

// The diagonal of householder's original has signs.
void expect_finite_differences(const nn::Linear& layer, const Tensor& x, bool has_signs) {
  const auto loss = [&] { return square(layer(x)).sum(); };
  loss().backward();
  for (const Tensor& p : layer.parameters()) {
    const Tensor flat = p.detach().view(-1);
    for (int64_t i = 0; i < p.numel(); ++i) {
      if (has_signs && p.dim() == 2 && i / p.size(1) == i % p.size(1)) continue;
      const double before = flat[i].item<double>();
      flat[i] = before + 1e-6;
      const double above = loss().item<double>();
      flat[i] = before - 1e-6;
      const double below = loss().item<double>();
      flat[i] = before;
      EXPECT_NEAR(p.grad().view(-1)[i].item<double>(), (above - below) / 2e-6, 1e-5);
    }
  }
}

TEST(Parametrizations, GradientsAreFiniteDifferences) {
  manual_seed(3);
  const Tensor x = randn({4, 3}, f64);
  const auto check = [&](int64_t out, bool has_signs, const auto& parametrize) {
    nn::Linear layer(3, out);
    layer.to(f64);
    parametrize(layer);
    {
      const NoGradGuard unrecorded;
      for (const Tensor& p : layer.parameters()) {
        if (p.dim() == 2) p.add_(tril(randn(p.shape(), f64), -1));  // the signs on a diagonal stay
      }
    }
    expect_finite_differences(layer, x, has_signs);
  };
  check(2, false, [](const nn::Module& layer) {
    nn::weight_norm(layer);
    nn::register_parametrization(layer, "weight", Doubled());
  });
  for (const int64_t out : {2, 3, 4}) {
    for (const bool base : {true, false}) {
      for (const auto map :
           {nn::OrthogonalMap::matrix_exp, nn::OrthogonalMap::cayley, nn::OrthogonalMap::householder}) {
        check(out, map == nn::OrthogonalMap::householder, [&](const nn::Module& layer) {
          nn::orthogonal(layer, "weight", {map, base});
        });
      }
    }
  }
}

// ---- orthogonal ----

void expect_orthogonal(const Tensor& w, double tolerance) {
  const Tensor wide = w.detach().to(f64), tall = wide.size(-2) < wide.size(-1) ? wide.transpose(-2, -1) : wide;
  const int64_t n = tall.size(-1);
  EXPECT_LE(abs(matmul(tall.transpose(-2, -1), tall) - eye(n, n, f64)).max().item<double>(), tolerance);
}

TEST(Orthogonal, StaysOrthogonalForAnyOriginals) {
  manual_seed(8);
  for (const auto map : {nn::OrthogonalMap::matrix_exp, nn::OrthogonalMap::cayley, nn::OrthogonalMap::householder}) {
    for (const auto& [in, out] :
         {std::pair(5, 5), std::pair(3, 6), std::pair(6, 3), std::pair(1, 1), std::pair(4, 1)}) {
      for (const DType dtype : {f64, f32}) {
        nn::Linear layer(in, out, false);
        layer.to(dtype);
        nn::orthogonal(layer, "weight", {.map = map});
        expect_orthogonal(nn::parametrized_tensor(layer, "weight"), dtype == f64 ? 1e-13 : 1e-5);
        const NoGradGuard unrecorded;
        layer.parameters()[0].add_(tril(randn(layer.parameters()[0].shape(), dtype) * 20, -1));
        expect_orthogonal(nn::parametrized_tensor(layer, "weight"), dtype == f64 ? 1e-10 : 1e-3);
      }
    }
  }
}

TEST(Orthogonal, KeepsAndTakesOrthogonalValues) {
  manual_seed(9);
  for (const auto map : {nn::OrthogonalMap::matrix_exp, nn::OrthogonalMap::cayley, nn::OrthogonalMap::householder}) {
    for (const bool base : {true, false}) {
      if (!base && map != nn::OrthogonalMap::householder) continue;
      for (const auto& [in, out] : {std::pair(4, 4), std::pair(2, 5), std::pair(5, 2)}) {
        nn::Linear layer(in, out, false);
        layer.to(f64);
        const auto fresh = [&] { return nn::init::orthogonal_(empty({out, in}, f64)); };
        const Tensor first = fresh(), second = fresh();
        {
          const NoGradGuard unrecorded;
          layer.weight.copy_(first);
        }
        nn::orthogonal(layer, "weight", {map, base});
        EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), first, 1e-10, 1e-10));
        nn::set_parametrized_tensor(layer, "weight", second);
        EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), second, 1e-10, 1e-10));
        EXPECT_ANY_THROW(nn::set_parametrized_tensor(layer, "weight", ones({out, in + 1}, f64)));
        nn::set_parametrized_tensor(layer, "weight", zeros({out, in}, f64));  // some orthogonal matrix, and no NaN
        expect_orthogonal(nn::parametrized_tensor(layer, "weight"), 1e-12);
      }
    }
  }
}

TEST(Orthogonal, OfStacksOfMatricesAndHalfPrecision) {
  manual_seed(10);
  struct Stack : nn::Layer<Stack> {
    nn::Parameter weight{randn({3, 4, 2}, f64)};
    Stack() { WEFT_REGISTER(weight); }
    Tensor forward(const Tensor& x) const { return matmul(value_of(weight), x); }
  } stack;
  nn::orthogonal(stack);
  expect_orthogonal(nn::parametrized_tensor(stack, "weight")[1], 1e-12);
  stack(randn({2, 1}, f64)).sum().backward();
  stack.to(f16);
  expect_orthogonal(nn::parametrized_tensor(stack, "weight")[2], 5e-3);
  nn::Linear layer(2, 2);
  EXPECT_THROW(nn::orthogonal(layer, "bias"), ValueError);
  nn::orthogonal(layer, "weight", {.map = nn::OrthogonalMap::cayley, .use_trivialization = false});
  EXPECT_THAT(message_of<ValueError>([&] { nn::set_parametrized_tensor(layer, "weight", eye(2)); }),
              HasSubstr("right_inverse"));
}

// ---- registering and removing ----

TEST(Parametrize, OfOnesOwnComputesAtEachUse) {
  nn::Linear layer(3, 3);
  const Tensor raw = layer.weight.clone();
  nn::register_parametrization(layer, "weight", Symmetric());
  EXPECT_TRUE(nn::is_parametrized(layer) && nn::is_parametrized(layer, "weight"));
  EXPECT_FALSE(nn::is_parametrized(layer, "bias"));
  EXPECT_THAT(names(layer.state_dict()), ElementsAre("bias", "parametrizations.weight.original"));
  const Tensor w = nn::parametrized_tensor(layer, "weight"), x = randn({2, 3});
  EXPECT_TRUE(equal(w, w.t()) && equal(triu(w), triu(raw)));
  EXPECT_TRUE(equal(layer(x), linear(x, w, layer.bias)));
  EXPECT_TRUE(equal(layer.value_of(layer.weight), w) && equal(layer.value_of(layer.bias), layer.bias));
  {
    const NoGradGuard unrecorded;
    layer.parameters()[1].mul_(3);
  }
  EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), w * 3));
  layer(x).sum().backward();
  EXPECT_EQ(layer.parameters()[1].grad()[2][0].item<float>(), 0);
}

TEST(Parametrize, TheOriginalStaysTheTensorThatOptimizersHold) {
  nn::Linear layer(2, 2);
  optim::SGD optimizer(layer.parameters(), {.lr = 0.1});
  const TensorImpl* weight = layer.weight.impl();
  nn::register_parametrization(layer, "weight", Doubled());
  const auto named = layer.named_parameters();
  EXPECT_EQ(named[1].name, "parametrizations.weight.original");
  EXPECT_EQ(named[1].tensor.impl(), weight);
  const Tensor before = layer.weight.clone();
  layer(ones({1, 2})).sum().backward();
  optimizer.step();
  EXPECT_TRUE(allclose(layer.weight, before - 0.2));
  nn::remove_parametrizations(layer, "weight");
  EXPECT_EQ(layer.named_parameters()[1].tensor.impl(), weight);
  EXPECT_TRUE(allclose(layer.weight, (before - 0.2) * 2));
}

TEST(Parametrize, SeveralAreAppliedInOrderAndSetFromTheLast) {
  nn::Linear layer(2, 2);
  const Tensor first = layer.weight.clone();
  nn::register_parametrization(layer, "weight", Doubled());
  EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), first));
  nn::register_parametrization(layer, "weight", Transposed());
  EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), first.t()));
  const Tensor wanted = tensor({{1., 2.}, {3., 4.}}, f32);
  nn::set_parametrized_tensor(layer, "weight", wanted);
  EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), wanted));
  EXPECT_TRUE(allclose(layer.weight, wanted.t() / 2));
  EXPECT_EQ(layer.text(),
            "ParametrizedLinear(\n  in_features=2, out_features=2, bias=True\n  (parametrizations): ModuleDict(\n"
            "    (weight): ParametrizationList(\n      (0): Doubled()\n      (1): Transposed()\n    )\n  )\n)");
  nn::remove_parametrizations(layer, "weight");
  EXPECT_TRUE(allclose(layer.weight, wanted));
  EXPECT_EQ(layer.text(), "Linear(in_features=2, out_features=2, bias=True)");
}

TEST(Parametrize, OfSeveralOriginals) {
  nn::Linear layer(2, 3);
  const Tensor first = layer.weight.clone();
  nn::register_parametrization(layer, "weight", Sum());
  EXPECT_THAT(names(layer.state_dict()),
              ElementsAre("bias", "parametrizations.weight.original0", "parametrizations.weight.original1",
                          "parametrizations.weight.original2"));
  EXPECT_EQ(layer.parameters()[3].shape(), Dims());
  EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), first));
  EXPECT_TRUE(isnan(layer.weight).all().item<bool>()) << "no original stands there";
  EXPECT_THAT(message_of<ValueError>([&] { nn::remove_parametrizations(layer, "weight", false); }),
              HasSubstr("several originals"));
  nn::set_parametrized_tensor(layer, "weight", first * 2);
  EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), first * 2));
  layer.to(f64);
  nn::remove_parametrizations(layer, "weight");
  EXPECT_EQ(layer.weight.dtype(), f64);
  EXPECT_TRUE(allclose(layer.weight, first.to(f64) * 2) && layer.weight.requires_grad());
  layer(ones({1, 2}, f64)).sum().backward();
  EXPECT_TRUE(layer.weight.grad().defined());
}

TEST(Parametrize, OriginalIsLeftWhereAsked) {
  nn::Linear layer(2, 2);
  const Tensor first = layer.weight.clone();
  nn::register_parametrization(layer, "weight", Symmetric());
  nn::remove_parametrizations(layer, "weight", false);
  EXPECT_TRUE(equal(layer.weight, first));
  EXPECT_THROW(nn::remove_parametrizations(layer, "weight"), ValueError);
}

TEST(Parametrize, KeepsBuffersAndUnsavedTensors) {
  struct Scaled : nn::Layer<Scaled> {
    nn::Buffer scale{ones({2, 2})}, other{ones(1)};
    Scaled() {
      register_buffer("scale", scale, {}, false);
      register_buffer("other", other);
    }
    Tensor forward(const Tensor& x) const { return x * value_of(scale); }
  } scaled;
  nn::register_parametrization(scaled, "scale", Transposed());
  EXPECT_TRUE(scaled.parameters().empty());
  EXPECT_EQ(scaled.buffers().size(), 2u);
  EXPECT_THAT(names(scaled.state_dict()), ElementsAre("other"));
  nn::remove_parametrizations(scaled, "scale");
  EXPECT_THAT(names(scaled.state_dict()), ElementsAre("other"));
  EXPECT_EQ(scaled.named_buffers()[1].name, "scale");
}

TEST(Parametrize, AForwardThatIgnoresTheParametrizationWarns) {
  struct Plain : nn::Layer<Plain> {
    nn::Parameter scale{ones(2)};
    Plain() { WEFT_REGISTER(scale); }
    Tensor forward(const Tensor& x) const { return x * scale; }
  } plain;
  nn::register_parametrization(plain, "scale", Doubled());
  const CollectedWarnings warnings;
  plain(ones(2));
  ASSERT_EQ(warnings.texts.size(), 1u);
  EXPECT_THAT(warnings.texts[0], HasSubstr("value_of(scale)"));
  nn::Linear layer(2, 2);
  nn::weight_norm(layer);
  layer(ones({1, 2}));
  EXPECT_EQ(warnings.texts.size(), 1u);
}

// ---- errors ----

TEST(Parametrize, RefusesAndLeavesEverythingAsItWas) {
  nn::Linear layer(2, 3);
  nn::Module parent = layer;
  const Tensor first = layer.weight.clone();
  struct Row : nn::Layer<Row> {
    Tensor forward(const Tensor& x) const { return x[0]; }
  };
  struct Wider : nn::Layer<Wider> {
    Tensor forward(const Tensor& x) const { return x.to(f64); }
  };
  struct WrongInverse : nn::Layer<WrongInverse> {
    Tensor forward(const Tensor& x) const { return x * 1; }
    Tensor right_inverse(const Tensor& x) const { return x.to(f64); }
  };
  struct NoOriginals : nn::Layer<NoOriginals> {
    Tensor forward(const Tensor& x) const { return x; }
    std::vector<Tensor> right_inverse(const Tensor&) const { return {}; }
  };
  struct Nothing : nn::Layer<Nothing> {
    Tensor forward(const Tensor&) const { return {}; }
  };
  Failing failing;
  *failing.fails = true;
  EXPECT_THAT(message_of<ValueError>([&] { nn::register_parametrization(layer, "wieght", Symmetric()); }),
              HasSubstr("no parameter or buffer \"wieght\""));
  EXPECT_THAT(message_of<ValueError>([&] { nn::register_parametrization(layer, "weight", Row()); }),
              HasSubstr("unsafe = true"));
  EXPECT_THROW(nn::register_parametrization(layer, "weight", Wider()), ValueError);
  EXPECT_THROW(nn::register_parametrization(layer, "weight", WrongInverse()), ValueError);
  EXPECT_THROW(nn::register_parametrization(layer, "weight", NoOriginals()), ValueError);
  EXPECT_THROW(nn::register_parametrization(layer, "weight", Nothing()), ValueError);
  EXPECT_THAT(message_of<ValueError>([&] { nn::register_parametrization(layer, "weight", nn::Bilinear(2, 2, 2)); }),
              HasSubstr("does not compute a tensor from 1"));
  EXPECT_THROW(nn::register_parametrization(layer, "weight", failing), std::runtime_error);
  EXPECT_THROW((void)nn::parametrized_tensor(layer, "weight"), ValueError);
  EXPECT_THROW(nn::set_parametrized_tensor(layer, "weight", first), ValueError);
  EXPECT_THAT(names(layer.state_dict()), ElementsAre("bias", "weight"));
  EXPECT_EQ(layer.text(), "Linear(in_features=2, out_features=3, bias=True)");
  EXPECT_TRUE(equal(layer.weight, first));

  nn::register_parametrization(layer, "weight", Symmetric(), true);  // of a tall matrix: only a call fails
  EXPECT_THROW(layer(ones({1, 2})), ShapeError);
  nn::remove_parametrizations(layer, "weight", false);
  nn::weight_norm(layer);
  EXPECT_THROW(nn::register_parametrization(layer, "weight", Row()), ValueError);
  EXPECT_THROW(nn::weight_norm(layer, "nothing"), ValueError);
  EXPECT_THROW(nn::weight_norm(layer, "bias", 1), ValueError);
  EXPECT_THROW(nn::spectral_norm(layer, "bias", {.n_power_iterations = 0}), ValueError);
  EXPECT_THROW(nn::spectral_norm(layer, "bias", {.dim = 3}), ValueError);
  EXPECT_THROW(nn::OpenModule(layer, "Linear").set_parameter("weight", first), ValueError);
  EXPECT_FALSE(nn::OpenModule(layer, "Linear").remove("parametrizations"));
  EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), first));
}

TEST(Parametrize, ANameThatIsTakenIsRefused) {
  struct Own : nn::Layer<Own> {
    nn::Parameter weight{ones(2)}, parametrizations{ones(1)};
    Own() { WEFT_REGISTER(weight, parametrizations); }
    Tensor forward(const Tensor& x) const { return x * value_of(weight); }
  } own;
  EXPECT_THROW(nn::register_parametrization(own, "weight", Doubled()), ValueError);
  EXPECT_EQ(own.parameters().size(), 2u);
}

TEST(Parametrize, UnsafeMayChangeTheShape) {
  struct Rows : nn::Layer<Rows> {
    Tensor forward(const Tensor& x) const { return x.narrow(0, 0, 2); }
  };
  nn::Linear layer(2, 3, false);
  nn::register_parametrization(layer, "weight", Rows(), true);
  EXPECT_EQ(layer(ones({1, 2})).shape(), Dims({1, 2}));
  nn::remove_parametrizations(layer, "weight");
  EXPECT_EQ(layer.weight.shape(), Dims({2, 2}));
  layer(ones({1, 2})).sum().backward();
  EXPECT_EQ(layer.weight.grad().shape(), Dims({2, 2}));
  nn::weight_norm(layer);
  const Tensor wider = randn({4, 2});
  nn::set_parametrized_tensor(layer, "weight", wider);
  EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), wider));
  layer(ones({1, 2})).sum().backward();
  EXPECT_EQ(layer.parameters()[0].grad().shape(), Dims({4, 1}));
  nn::Linear safe(2, 2);
  nn::register_parametrization(safe, "weight", Doubled());
  EXPECT_THROW(nn::set_parametrized_tensor(safe, "weight", wider), ValueError);
}

TEST(Parametrize, ExceptionsOfForwardPropagateAndEndTheCall) {
  nn::Linear layer(2, 2);
  const Failing failing;
  nn::register_parametrization(layer, "weight", failing);
  const Tensor x = ones({1, 2}), y = layer(x);
  *failing.fails = true;
  {
    const nn::CachedParametrizationsGuard cached;
    EXPECT_THROW(layer(x), std::runtime_error);
    EXPECT_THROW(nn::remove_parametrizations(layer, "weight"), std::runtime_error);
    EXPECT_TRUE(nn::is_parametrized(layer, "weight"));
    *failing.fails = false;
    EXPECT_TRUE(equal(layer(x), y));
  }
  EXPECT_TRUE(equal(layer(x), y));
}

TEST(Parametrize, TheBiasOfAnAdaptedLayer) {
  nn::Linear layer(3, 2);
  nn::apply_lora(layer, {.targets = {""}});
  nn::register_parametrization(layer, "bias", Doubled());
  const Tensor x = randn({4, 3});
  EXPECT_TRUE(allclose(layer(x), linear(x, layer.weight, nn::parametrized_tensor(layer, "bias"))));
}

// ---- with the rest of a module's life ----

TEST(Parametrize, CopiesShareAndClonesDoNot) {
  manual_seed(1);
  nn::Sequential net(nn::Linear(3, 3), nn::Linear(3, 3));
  const nn::Sequential copy = net;
  nn::spectral_norm(net[0]);
  nn::register_parametrization(net[1], "weight", Symmetric());
  net.eval();
  const Tensor x = randn({2, 3}), y = net(x);
  EXPECT_TRUE(equal(copy(x), y));
  nn::Sequential clone = net.clone();
  EXPECT_TRUE(equal(clone(x), y));
  EXPECT_EQ(names(clone.state_dict()), names(net.state_dict()));
  {
    const NoGradGuard unrecorded;
    for (const Tensor& p : clone.parameters()) p.mul_(2);
  }
  clone.train();
  EXPECT_FALSE(equal(clone(x), y));
  EXPECT_TRUE(equal(net(x), y));
  clone(x).sum().backward();
  for (const Tensor& p : clone.parameters()) EXPECT_TRUE(p.grad().defined());
  for (const Tensor& p : net.parameters()) EXPECT_FALSE(p.grad().defined());
  nn::remove_parametrizations(clone[1], "weight");
  EXPECT_TRUE(nn::is_parametrized(net[1]));
  EXPECT_TRUE(equal(clone[1].as<nn::Linear>().weight, clone[1].as<nn::Linear>().weight.t()));
}

TEST(Parametrize, StatesGoToAnotherModelOfTheKind) {
  const auto made = [] {
    nn::Sequential net(nn::Conv2d(2, 3, 2), nn::ReLU());
    nn::weight_norm(net[0], "weight", {});
    nn::spectral_norm(net[0], "bias");
    return net;
  };
  nn::Sequential one = made(), other = made();
  const Tensor x = randn({1, 2, 4, 4});
  EXPECT_FALSE(equal(one(x), other(x)));
  other.load_state_dict(one.state_dict());
  EXPECT_TRUE(equal(one(x), other(x)));
  nn::Sequential plain(nn::Conv2d(2, 3, 2), nn::ReLU());
  EXPECT_THAT(message_of<ValueError>([&] { plain.load_state_dict(one.state_dict()); }),
              HasSubstr("0.parametrizations.bias.original"));
}

TEST(Parametrize, OldNamesOfWeightNormAreLoaded) {
  const auto made = [] {
    nn::Sequential net(nn::Linear(3, 2), nn::Sequential(nn::Conv1d(2, 4, 3), nn::Linear(2, 2)));
    nn::weight_norm(net[0]);
    nn::weight_norm(net[1].children()[0], "weight", {});
    nn::weight_norm(net[1].children()[0], "bias");
    nn::register_parametrization(net[1].children()[1], "weight", Symmetric());
    return net;
  };
  const nn::Sequential one = made();
  nn::StateDict old;
  for (const auto& [name, tensor] : one.state_dict()) {
    std::string under = name;
    for (const auto& [now, then] :
         std::vector<std::pair<std::string, std::string>>{{"parametrizations.weight.original0", "weight_g"},
                                                          {"parametrizations.weight.original1", "weight_v"},
                                                          {"parametrizations.bias.original0", "bias_g"},
                                                          {"parametrizations.bias.original1", "bias_v"}}) {
      if (name.ends_with(now)) under = name.substr(0, name.size() - now.size()) + then;
    }
    old.emplace(under, tensor);
  }
  ASSERT_TRUE(old.contains("0.weight_g") && old.contains("1.0.bias_v"));
  const auto first_weight = [](const nn::Sequential& net) { return nn::parametrized_tensor(net[0], "weight"); };
  nn::Sequential other = made();
  EXPECT_FALSE(equal(first_weight(other), first_weight(one)));
  EXPECT_TRUE(other.check_state_dict(old).missing.empty());
  other.load_state_dict(old);
  for (const auto& [name, tensor] : one.state_dict()) EXPECT_TRUE(equal(other.state_dict().at(name), tensor)) << name;
  old.erase("0.weight_v");
  EXPECT_THAT(message_of<ValueError>([&] { other.load_state_dict(old); }),
              testing::AllOf(HasSubstr("unexpected: 0.weight_g"), HasSubstr("0.parametrizations.weight.original0")));
  nn::Linear plain(3, 2);
  EXPECT_THROW(plain.load_state_dict({{"weight_g", ones({2, 1})}, {"weight_v", ones({2, 3})}, {"bias", ones(2)}}),
               ValueError);
}

TEST(Parametrize, ModelsAreSavedAndLoadedWithTheirs) {
  manual_seed(12);
  nn::Sequential net(nn::Linear(4, 4), nn::Conv1d(1, 2, 2), nn::Linear(4, 4), nn::Linear(6, 6));
  nn::orthogonal(net[0]);
  nn::weight_norm(net[1], "weight", {});
  nn::spectral_norm(net[1], "weight", {.n_power_iterations = 2, .eps = 1e-6, .dim = 1});
  nn::register_parametrization(net[2], "weight", Symmetric());
  nn::ModuleRegistry registry = nn::ModuleRegistry::standard();
  const nn::ModuleDescription description = registry.describe(net);
  EXPECT_THROW(registry.build(description), KeyError) << "it has no Symmetric";
  registry.add<Symmetric>("Symmetric");
  nn::Module built = registry.build(description);
  EXPECT_EQ(built.text(), net.text());
  built.load_state_dict(net.state_dict());
  built.eval(), net.eval();
  for (const int i : {0, 1, 2}) {
    const nn::Module own = net.children()[static_cast<size_t>(i)], other = built.children()[static_cast<size_t>(i)];
    EXPECT_TRUE(equal(nn::parametrized_tensor(other, "weight"), nn::parametrized_tensor(own, "weight"))) << i;
  }
  nn::ModuleDescription wrong = description;
  wrong.children[0].children[0].children[0].name = "nothing";
  EXPECT_THROW(registry.build(wrong), FormatError);
}

TEST(Parametrize, ConvertsFreezesAppliesAndIsSummedUp) {
  nn::Sequential net(nn::Linear(4, 3), nn::Tanh());
  nn::weight_norm(net[0]);
  nn::spectral_norm(net[0], "weight");  // after the other
  net.to(f64);
  EXPECT_EQ(net(randn({2, 4}, f64)).dtype(), f64);
  int modules = 0;
  net.apply([&](nn::Module&) { ++modules; });
  EXPECT_EQ(modules, 7);
  EXPECT_THAT(nn::freeze(net, "original0$"), ElementsAre("0.parametrizations.weight.original0"));
  net(randn({2, 4}, f64)).sum().backward();
  EXPECT_FALSE(net.parameters()[1].grad().defined());
  EXPECT_TRUE(net.parameters()[2].grad().defined());
  const nn::Summary summary = nn::summary(net, randn({2, 4}, f64));
  EXPECT_EQ(summary.total().trainable, 3 + 12);
  EXPECT_EQ(summary.total().frozen, 3);
  EXPECT_FALSE(nn::parametrized_tensor(net[0], "weight").device().type == DeviceType::meta);
  nn::remove_parametrizations(net[0], "weight");
  EXPECT_TRUE(net.parameters()[1].requires_grad());
}

TEST(Parametrize, TrainingReachesTheSteps) {
  manual_seed(5);
  nn::Linear layer(6, 5);
  layer.eval();
  nn::spectral_norm(layer);
  const Tensor before = layer.state_dict().at("parametrizations.weight.0._u").clone();
  layer(ones({1, 6}));
  EXPECT_TRUE(equal(layer.state_dict().at("parametrizations.weight.0._u"), before));
  layer.train();
  for (int i = 0; i < 100; ++i) layer(ones({1, 6}));
  EXPECT_FALSE(equal(layer.state_dict().at("parametrizations.weight.0._u"), before));
  const Tensor w = nn::parametrized_tensor(layer, "weight");
  const nn::StateDict state = layer.state_dict();
  EXPECT_NEAR(vector_norm(mv(w, state.at("parametrizations.weight.0._v"))).item<double>(), 1, 1e-5);
}

TEST(Parametrize, CheckpointsIterateOnce) {
  manual_seed(6);
  nn::Sequential plain(nn::Linear(4, 4), nn::Tanh());
  plain.to(f64);
  nn::spectral_norm(plain[0]);
  nn::Sequential checkpointed = plain.clone();
  nn::checkpoint_module(checkpointed[0]);
  const Tensor x = randn({3, 4}, f64).requires_grad_();
  const Tensor once = x.detach().requires_grad_();
  plain(x).sum().backward();
  checkpointed(once).sum().backward();
  EXPECT_TRUE(equal(x.grad(), once.grad()));
  for (const auto& [name, t] : plain.state_dict()) EXPECT_TRUE(equal(t, checkpointed.state_dict().at(name))) << name;
}

TEST(Parametrize, MultiheadAttentionTakesThose) {
  nn::MultiheadAttention attention(4, 2);
  attention.to(f64);
  const Tensor x = randn({3, 4}, f64), y = attention(x, x, x).output;
  nn::weight_norm(attention, "in_proj_weight");
  nn::register_parametrization(attention.out_proj, "weight", Doubled());
  EXPECT_TRUE(allclose(attention(x, x, x).output, y));
  attention(x, x, x).output.sum().backward();
  for (const Tensor& p : attention.parameters()) EXPECT_TRUE(p.grad().defined());
}

TEST(Parametrize, NormsAndActivationsTakeThose) {
  const auto check = [](auto layer, const Tensor& x) {
    layer.to(f64);
    const Tensor y = layer(x);
    nn::register_parametrization(layer, "weight", Doubled());
    EXPECT_TRUE(allclose(layer(x), y)) << layer;
    layer(x).sum().backward();
    EXPECT_TRUE(layer.weight.grad().defined()) << layer;
  };
  const Tensor x = randn({3, 4}, f64);
  check(nn::LayerNorm({4}), x);
  check(nn::RMSNorm({4}), x);
  check(nn::GroupNorm(2, 4), x);
  check(nn::BatchNorm1d(4), x);
  check(nn::InstanceNorm1d(4, {.affine = true}), randn({2, 4, 3}, f64));
  check(nn::PReLU(4), x);
  nn::NLLLoss loss({.weight = rand({4}, f64) + 1});
  const Tensor logits = log_softmax(x, 1), target = tensor({0, 3, 1}), before = loss(logits, target);
  nn::register_parametrization(loss, "weight", Doubled());
  EXPECT_TRUE(allclose(loss(logits, target), before));
}

// ---- cached ----

TEST(Parametrize, CachedIsComputedOnce) {
  nn::Linear layer(3, 3);
  const Doubled doubled;
  nn::register_parametrization(layer, "weight", doubled);
  const Tensor x = randn({2, 3});
  layer(layer(x)).sum().backward();
  const Tensor gradient = layer.weight.grad().clone();
  layer.zero_grad();
  *doubled.calls = 0;
  {
    const nn::CachedParametrizationsGuard outer;
    const nn::CachedParametrizationsGuard inner;
    layer(layer(x)).sum().backward();
    EXPECT_EQ(*doubled.calls, 1);
    EXPECT_TRUE(allclose(layer.weight.grad(), gradient));
    {
      const NoGradGuard unrecorded;
      EXPECT_FALSE(layer(x).requires_grad());
      EXPECT_EQ(*doubled.calls, 2);
      layer.weight.mul_(2);
    }
    EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), layer.weight * 2));
    EXPECT_EQ(*doubled.calls, 3);
    std::thread([&] { layer(x); }).join();
    EXPECT_EQ(*doubled.calls, 4) << "another thread has no guard";
    nn::register_parametrization(layer, "weight", Transposed());
    EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), (layer.weight * 2).t()));
    nn::remove_parametrizations(layer, "weight");
    nn::register_parametrization(layer, "weight", Doubled());
    EXPECT_TRUE(allclose(nn::parametrized_tensor(layer, "weight"), layer.weight * 2));
  }
  const int before = *doubled.calls;
  layer(x);
  EXPECT_EQ(*doubled.calls, before);
}

TEST(Parametrize, ManyThreadsMayCallOneLayer) {
  nn::Linear layer(8, 8);
  nn::weight_norm(layer);
  const Tensor x = randn({4, 8}), y = layer(x);
  std::vector<std::thread> threads;
  std::vector<int> same(4);
  for (size_t i = 0; i < same.size(); ++i) {
    threads.emplace_back([&, i] {
      const nn::CachedParametrizationsGuard cached;
      for (int k = 0; k < 50; ++k) same[i] += equal(layer(x), y) ? 1 : 0;
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_THAT(same, ElementsAre(50, 50, 50, 50));
}

TEST(Parametrize, EmptyAndNonFiniteWeightsAreComputedAsTheyAre) {
  nn::Linear none(0, 3);
  nn::weight_norm(none);
  EXPECT_EQ(none(zeros({2, 0})).shape(), Dims({2, 3}));
  nn::Linear layer(2, 2, false);
  nn::weight_norm(layer);
  {
    const NoGradGuard unrecorded;
    layer.weight[0] = 0.0;
    layer.weight[1] = INFINITY;
  }
  EXPECT_TRUE(isnan(nn::parametrized_tensor(layer, "weight")).all().item<bool>());
}

}  // namespace
}  // namespace weft
