#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

#include <weft/weft.hpp>

#include <message_of.hpp>
#include <tensor_bytes.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::vector<std::string> gradients_of(const nn::Module& model) {
  std::vector<std::string> out;
  for (const Tensor& p : model.parameters()) out.push_back(p.grad().defined() ? bytes_of(p.grad()) : "none");
  return out;
}

// Gradients and loss of one step from the same random state.
template <class M>
std::pair<std::string, std::vector<std::string>> step(M& model, const Tensor& x, bool mixed = false) {
  manual_seed(7);
  nn::Module(model).zero_grad();
  const Tensor loss = [&] {
    const AutocastGuard precision(AutocastOptions{.dtype = bf16, .enabled = mixed});
    return square(model(x)).mean();
  }();
  loss.backward();
  return {bytes_of(loss), gradients_of(model)};
}

nn::Sequential blocks(int64_t count, int64_t width, double dropout) {
  nn::Sequential out;
  for (int64_t i = 0; i < count; ++i) out.append(nn::TransformerBlock(width, 2, {.dropout = dropout}));
  return out;
}

TEST(Checkpointing, GradientsHaveTheSameBits) {
  for (const bool mixed : {false, true}) {
    nn::Sequential model = blocks(3, 16, 0.2);
    const Tensor x = randn({2, 8, 16});
    const auto plain = step(model, x, mixed);
    EXPECT_THAT(nn::set_checkpointing(model, "^[0-9]+$"), ElementsAre("0", "1", "2"));
    EXPECT_EQ(step(model, x, mixed), plain);
    nn::set_checkpointing(model, "attention$");
    EXPECT_EQ(step(model, x, mixed), plain) << "one inside the other";
    nn::set_checkpointing(model, "", false);
    EXPECT_EQ(step(model, x, mixed), plain);
  }
}

TEST(Checkpointing, MemoryFalls) {
  nn::Sequential model = blocks(6, 64, 0);
  const Tensor x = randn({4, 64, 64});
  const auto peak = [&] {
    nn::Module(model).zero_grad();
    reset_peak();
    const size_t before = memory_stats().allocated;
    model(x).sum().backward();
    return memory_stats().peak_allocated - before;
  };
  peak();
  const size_t plain = peak();
  nn::set_checkpointing(model, "^[0-9]+$");
  EXPECT_LT(peak(), plain / 2) << "of " << plain;
}

struct Normed : nn::Layer<Normed> {
  nn::BatchNorm1d norm{4};
  nn::Linear out{4, 4};
  Normed() { WEFT_REGISTER(norm, out); }
  Tensor forward(const Tensor& x) { return relu(out(norm(x))); }
};

TEST(Checkpointing, RunningStatisticsMoveOnce) {
  nn::Sequential plain;
  plain.append(Normed());
  nn::Sequential checkpointed = plain.clone();
  nn::checkpoint_module(checkpointed[0]);
  const Tensor x = randn({6, 4});
  EXPECT_EQ(step(checkpointed, x), step(plain, x));
  const nn::StateDict a = plain.state_dict(), b = checkpointed.state_dict();
  EXPECT_EQ(a.at("0.norm.num_batches_tracked").item<int64_t>(), 1);
  for (const auto& [name, value] : a) EXPECT_EQ(bytes_of(value), bytes_of(b.at(name))) << name;
}

TEST(Checkpointing, AModulesOwnHooksRunOnce) {
  nn::Linear layer(3, 3);
  nn::checkpoint_module(layer);
  int before = 0, after = 0, back = 0;
  layer.register_forward_pre_hook([&](const nn::ForwardEvent&) { ++before; });
  layer.register_forward_hook([&](const nn::ForwardEvent& e) { return ++after, e.output() * 2; });
  layer.register_backward_hook([&](const GradEvent&) { ++back; });
  const Tensor x = ones({1, 3}).requires_grad_();
  layer(x).sum().backward();
  EXPECT_THAT((std::vector{before, after, back}), ElementsAre(1, 1, 1));
  EXPECT_TRUE(allclose(x.grad(), 2 * layer.weight.sum({0}, true)));
}

// Arguments of all kinds, and more than one result.
struct Mixer : nn::Layer<Mixer> {
  nn::Linear a{4, 4};
  Mixer() { WEFT_REGISTER(a); }
  std::pair<Tensor, Tensor> forward(const Tensor& x, const std::vector<Tensor>& more, double factor,
                                    const std::string& word) const {
    Tensor sum = tanh(a(x)) * factor;
    for (const Tensor& t : more) sum = sum + sigmoid(a(t));
    return {exp(sum * 0.1), word == "b" ? sin(sum) : cos(sum)};
  }
};

TEST(Checkpointing, KeepsAllArguments) {
  const auto run = [](const Mixer& mixer) {
    manual_seed(2);
    const Tensor x = randn({2, 4}).requires_grad_(), y = randn({2, 4}).requires_grad_();
    mixer.a.weight.set_grad({});
    std::string word = "b";
    auto [first, second] = mixer(x, std::vector<Tensor>{y, x}, 3, word);
    word = "gone";
    (first * second).sum().backward();
    return bytes_of(x.grad()) + bytes_of(y.grad()) + bytes_of(mixer.a.weight.grad());
  };
  const Mixer mixer;
  const std::string plain = run(mixer);
  nn::checkpoint_module(mixer);
  EXPECT_EQ(run(mixer), plain);
}

TEST(Checkpointing, TheModuleMayBeGoneByThen) {
  Tensor loss;
  Tensor weight;
  {
    const Mixer mixer;
    nn::checkpoint_module(mixer);
    weight = mixer.a.weight;
    loss = mixer(randn({2, 4}), std::vector<Tensor>{}, 1, "a").first.sum();
  }
  loss.backward();
  EXPECT_TRUE(weight.grad().defined());
}

TEST(Checkpointing, SecondDerivativesAndRepeatedBackward) {
  nn::Sequential model(nn::Linear(3, 5), nn::Tanh(), nn::Linear(5, 1));
  const Tensor x = randn({2, 3}).requires_grad_();
  const auto second = [&] {
    const Tensor first = grad({model(x).sum()}, {x}, {}, {.create_graph = true})[0];
    return bytes_of(grad({square(first).sum()}, {x})[0]);
  };
  const auto twice = [&] {
    const Tensor y = square(model(x)).sum();
    nn::Module(model).zero_grad();
    y.backward({}, {.retain_graph = true});
    y.backward();
    return gradients_of(model);
  };
  const auto plain = second();
  const auto plain_twice = twice();
  nn::checkpoint_module(model);
  EXPECT_EQ(second(), plain);
  EXPECT_EQ(twice(), plain_twice);
}

struct Uncopied : nn::Layer<Uncopied> {
  std::unique_ptr<int> one = std::make_unique<int>(1);
  Tensor forward(const Tensor& x) const { return x * *one; }
};

TEST(Checkpointing, RejectsModulesThatCannotBeCopied) {
  const Uncopied module;
  const Tensor x = ones(2).requires_grad_();
  module(x);
  nn::checkpoint_module(module);
  EXPECT_THAT(message_of<ValueError>([&] { module(x); }), HasSubstr("copies of the module"));
  const NoGradGuard unrecorded;
  module(x);
}

TEST(Checkpointing, ClonesAreCheckpointedToo) {
  nn::Sequential model = blocks(1, 8, 0);
  nn::checkpoint_module(model[0]);
  nn::Sequential copy = model.clone();
  EXPECT_TRUE(nn::is_checkpointed(copy[0]));
  EXPECT_FALSE(nn::is_checkpointed(copy));
  nn::checkpoint_module(copy[0], false);
  EXPECT_TRUE(nn::is_checkpointed(model[0]));
  EXPECT_THROW(nn::set_checkpointing(model, "("), ValueError);
  EXPECT_THROW(nn::set_checkpointing(model, "nothing"), ValueError);
}

TEST(Checkpointing, EvaluationRunsOnce) {
  Normed model;
  nn::checkpoint_module(model);
  const NoGradGuard unrecorded;
  model(randn({6, 4}));
  EXPECT_EQ(model.norm.num_batches_tracked.item<int64_t>(), 1);
}

}  // namespace
}  // namespace weft
