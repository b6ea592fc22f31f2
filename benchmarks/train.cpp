// Complete training steps, as in user code, with the models of peers/torch/train.cpp.
#include <memory>

#include <weft/hooks/capture.hpp>

#include "models.hpp"
#include "pair.hpp"

namespace weft::bench {

namespace {

struct Mlp : nn::Layer<Mlp> {
  nn::Linear a{784, 256}, b{256, 128}, c{128, 10};
  Mlp() {
    register_module("a", a);
    register_module("b", b);
    register_module("c", c);
  }
  Tensor forward(const Tensor& x) const { return c(relu(b(relu(a(x))))); }
};

struct LeNet : nn::Layer<LeNet> {
  nn::Conv2d c1{1, 6, 5, {.padding = 2}}, c2{6, 16, 5};
  nn::Linear f1{400, 120}, f2{120, 84}, f3{84, 10};
  LeNet() { WEFT_REGISTER(c1, c2, f1, f2, f3); }
  Tensor forward(const Tensor& x) const {
    const Tensor h = max_pool2d(relu(c2(max_pool2d(relu(c1(x)), 2))), 2);
    return f3(relu(f2(relu(f1(h.flatten(1))))));
  }
};

struct XorNet : nn::Layer<XorNet> {
  nn::Linear a{2, 16}, b{16, 1};
  XorNet() {
    register_module("a", a);
    register_module("b", b);
  }
  Tensor forward(const Tensor& x) const { return b(tanh(a(x))); }
};

/// A recurrent network that classifies by the state after the last step.
template <class Recurrent>
struct Reader : nn::Layer<Reader<Recurrent>> {
  Recurrent body;
  nn::Linear head;
  Reader(int64_t inputs, int64_t hidden, int64_t layers)
      : body(inputs, hidden, {.num_layers = layers}), head(hidden, 10) {
    this->register_module("body", body);
    this->register_module("head", head);
  }
  Tensor forward(const Tensor& x) const { return head(body(x).output[-1]); }
};

// Optimizers cannot be copied, so cases share them.
template <class Optimizer, class Options>
std::shared_ptr<Optimizer> make(const std::vector<Tensor>& parameters, Options options) {
  return std::make_shared<Optimizer>(parameters, options);
}

template <class Net, class Optimizer, class Loss>
void add_step(const std::string& name, Net net, std::shared_ptr<Optimizer> optimizer, Loss loss) {
  const auto step = [=] {
    optimizer->zero_grad();
    const Tensor value = loss(net);
    value.backward();
    optimizer->step();
    return value;
  };
  const auto run = [](auto& f) { benchmark::DoNotOptimize(f().template item<float>()); };
  add_case(name, [=]() mutable { run(step); });
  const auto captured = std::make_shared<CapturedStep<std::remove_const_t<decltype(step)>>>(step, CaptureOptions());
  const auto replay = [=] {
    do run(*captured);
    while (captured->stats().replayed == 0);  // records in the first call, which is not timed
  };
  add_pair(
      "capture." + name.substr(name.find('.') + 1), 10, [=]() mutable { run(step); }, replay);
}

template <class Recurrent>
void add_recurrent_cases(const std::string& name) {
  const auto add = [&](const char* size, int64_t steps, int64_t batch, int64_t inputs, int64_t hidden, int64_t layers) {
    const Reader<Recurrent> net(inputs, hidden, layers);
    add_step(name + size, net, make<optim::SGD>(net.parameters(), optim::SGDOptions{.lr = 0.01}),
             [x = randn({steps, batch, inputs}), y = randint(0, 10, {batch})](const Reader<Recurrent>& n) {
               return cross_entropy(n(x), y);
             });
  };
  add(".35x20x200x2", 35, 20, 200, 200, 2);
  add(".100x64x512", 100, 64, 512, 512, 1);
  add(".28x64x28x128", 28, 64, 28, 128, 1);
}

template <class Optimizer, class Options>
void add_optimizer_case(const std::string& name, const std::vector<Tensor>& parameters, Options options) {
  add_case(name, [o = make<Optimizer>(parameters, options)] { o->step(); });
}

}  // namespace

void add_training_cases() {
  manual_seed(1);
  {
    Mlp net;
    add_step("train.mlp", net, make<optim::SGD>(net.parameters(), optim::SGDOptions{.lr = 0.01}),
             [x = randn({64, 784}), y = randint(0, 10, {64})](const Mlp& n) { return cross_entropy(n(x), y); });
  }
  {
    LeNet net;
    add_step("train.lenet", net, make<optim::SGD>(net.parameters(), optim::SGDOptions{.lr = 0.01}),
             [x = randn({64, 1, 28, 28}), y = randint(0, 10, {64})](const LeNet& n) { return cross_entropy(n(x), y); });
  }
  {
    Gpt net(65, 128, 128, 4, 4);
    const Tensor x = randint(0, 65, {16, 128}), y = randint(0, 65, {16, 128});
    const auto loss = [=](const Gpt& n) { return cross_entropy(n(x).view({-1, 65}), y.view({-1})); };
    add_step("train.chargpt", net, make<optim::AdamW>(net.parameters(), optim::AdamWOptions{.lr = 3e-4}), loss);
    const auto step = [=,
                       optimizer = make<optim::AdamW>(net.parameters(), optim::AdamWOptions{.lr = 3e-4})](bool mixed) {
      optimizer->zero_grad();
      Tensor value;
      {
        const AutocastGuard precision(AutocastOptions{.enabled = mixed});
        value = loss(net);
      }
      value.backward();
      optimizer->step();
      benchmark::DoNotOptimize(value.item<float>());
    };
    add_pair(
        "mixed.chargpt", 1, [=] { step(false); }, [=] { step(true); });
    add_case(
        "train.chargpt_fwd", [=] { benchmark::DoNotOptimize(loss(net).template item<float>()); }, Mode::no_grad);
  }
  {
    XorNet net;
    const Tensor x = tensor({{0.0, 0.0}, {0.0, 1.0}, {1.0, 0.0}, {1.0, 1.0}});
    const Tensor y = tensor({{0.0}, {1.0}, {1.0}, {0.0}});
    add_step("train.xor", net, make<optim::SGD>(net.parameters(), optim::SGDOptions{.lr = 0.1}),
             [=](const XorNet& n) { return mse_loss(n(x), y); });
  }
  add_recurrent_cases<nn::LSTM>("train.lstm");
  add_recurrent_cases<nn::GRU>("train.gru");
  const auto parameters = [](int64_t n) {
    std::vector<Tensor> out;
    for (int i = 0; i < 100; ++i) {
      out.push_back(randn({n}).requires_grad_());
      out.back().set_grad(randn({n}));
    }
    return out;
  };
  const auto big = parameters(10000);
  add_optimizer_case<optim::AdamW>("opt.adamw.100x1e4", big, optim::AdamWOptions{.lr = 1e-3});
  add_optimizer_case<optim::AdamW>("opt.adamw.100x4", parameters(4), optim::AdamWOptions{.lr = 1e-3});
  add_optimizer_case<optim::SGD>("opt.sgd.100x1e4", big, optim::SGDOptions{.lr = 1e-3});
  add_optimizer_case<optim::SGD>("opt.sgd_momentum.100x1e4", big, optim::SGDOptions{.lr = 1e-3, .momentum = 0.9});
  add_optimizer_case<optim::Adam>("opt.adam.100x1e4", big, optim::AdamOptions{.lr = 1e-3});
  add_optimizer_case<optim::AdamW>("opt.amsgrad.100x1e4", big, optim::AdamWOptions{.lr = 1e-3, .amsgrad = true});
  add_optimizer_case<optim::Adamax>("opt.adamax.100x1e4", big, optim::AdamaxOptions{.lr = 1e-3});
  add_optimizer_case<optim::NAdam>("opt.nadam.100x1e4", big, optim::NAdamOptions{.lr = 1e-3});
  add_optimizer_case<optim::RAdam>("opt.radam.100x1e4", big, optim::RAdamOptions{.lr = 1e-3});
  add_optimizer_case<optim::Adagrad>("opt.adagrad.100x1e4", big, optim::AdagradOptions{.lr = 1e-3});
  add_optimizer_case<optim::Adadelta>("opt.adadelta.100x1e4", big, optim::AdadeltaOptions{.lr = 1e-3});
  add_optimizer_case<optim::RMSprop>("opt.rmsprop.100x1e4", big, optim::RMSpropOptions{.lr = 1e-3});
  add_optimizer_case<optim::Rprop>("opt.rprop.100x1e4", big, optim::RpropOptions{.lr = 1e-3});
  add_optimizer_case<optim::Lion>("opt.lion.100x1e4", big, optim::LionOptions{.lr = 1e-3});
  add_case("opt.clip_norm.100x1e4", [=] { optim::clip_grad_norm_(big, 1.0); });
}

}  // namespace weft::bench
