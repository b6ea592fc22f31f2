// Overhead of hooks and the tools that use them. Each case alternates between the same work without and with them, and
// prints both medians and the difference in percent.
#include "pair.hpp"

namespace weft::bench {

namespace {

void add_small_cases() {
  const auto leaf = [] { return rand({1}).requires_grad_(); };
  const auto step = [](const Tensor& x) {
    return [=] {
      x.set_grad({});
      (x + 1.0).backward();
    };
  };
  const Tensor plain = leaf(), hooked = leaf(), accumulated = leaf();
  hooked.register_hook([](const Tensor&) {});
  accumulated.register_post_accumulate_grad_hook([](const Tensor&) {});
  add_pair("hooks.tensor_hook", 1000, step(plain), step(hooked));
  add_pair("hooks.post_accumulate_hook", 1000, step(plain), step(accumulated));
  add_pair("hooks.register_and_run", 1000, step(plain), [plain] {
    plain.set_grad({});
    const Tensor y = plain + 1.0;
    y.register_hook([](const Tensor&) {});
    y.backward();
  });

  const nn::Linear bare(4, 4);
  nn::Linear forward(4, 4), backward(4, 4);
  forward.register_forward_hook([](const nn::ForwardEvent&) {});
  backward.register_backward_hook([](const GradEvent&) {});
  const Tensor x = rand({4, 4}).requires_grad_();
  const auto call = [x](const nn::Linear& m) { return [=] { m(x).sum().backward(); }; };
  add_pair("hooks.module_forward_hook", 300, call(bare), call(forward));
  add_pair("hooks.module_backward_hook", 300, call(bare), call(backward));
}

struct Mlp : nn::Layer<Mlp> {
  nn::Linear a{256, 512}, b{512, 512}, c{512, 10};
  Mlp() { register_module("a", a), register_module("b", b), register_module("c", c); }
  Tensor forward(const Tensor& x) const { return c(gelu(b(gelu(a(x))))); }
};

void add_training_cases_of_tools() {
  const Mlp m;
  const Tensor x = rand({64, 256}), target = randint(0, 10, {64});
  const auto step = [=] {
    const_cast<Mlp&>(m).zero_grad();
    cross_entropy(m(x), target).backward();
  };
  add_pair("hooks.anomaly_backward.mlp", 1, step, [=] {
    const AnomalyGuard guard({.forward = false});
    step();
  });
  add_pair("hooks.anomaly_forward_backward.mlp", 1, step, [=] {
    const AnomalyGuard guard({.forward = true});
    step();
  });
  add_pair("hooks.compress_saved.mlp", 1, step, [=] {
    const_cast<Mlp&>(m).zero_grad();
    Tensor loss;
    {
      const CompressSavedTensors compress;
      loss = cross_entropy(m(x), target);
    }
    loss.backward();
  });
  add_pair("hooks.checkpoint.mlp", 1, step, [=] {
    const_cast<Mlp&>(m).zero_grad();
    cross_entropy(checkpoint([&](const Tensor& t) { return m(t); }, x), target).backward();
  });
}

}  // namespace

void add_hook_cases() {
  add_small_cases();
  add_training_cases_of_tools();
}

}  // namespace weft::bench
