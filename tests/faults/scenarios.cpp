#include "faults/scenario.hpp"

#include <atomic>
#include <new>
#include <thread>

#include "faults/device.hpp"
#include "faults/failing_memory.hpp"
#include "faults/optimizers.hpp"
#include "faults/writes.hpp"

namespace weft::faults {

namespace {

// ---- forward --------------------------------------------------------------------------------------------------------

class Forward : public Scenario {
 public:
  void act() override { result_ = run(); }
  void check(bool failed) override {
    require(failed || result_.defined(), "no result");
    require(!result_.defined() || close(result_, right_), "a wrong result");
    require(x_.version() == 0 && w_.version() == 0, "an input was written");
    require(close(x_, numbers({8, 6}, 1)) && close(w_, numbers({6, 6}, 2)), "an input has changed");
    require(close(run(), right_), "a wrong result after a failure");
  }

 private:
  Tensor run() const {
    Tensor h = tanh(matmul(x_, w_)) + x_.select(0, 1);
    h = softmax(h, 1) * exp(h.t().contiguous().view({8, 6}) - 1.0);
    h = cat({h.slice(0, 0, 4), h.slice(0, 4, 8) * 2.0}, 0);
    h = h[{tensor({3, 1, 5}, i64)}] + h[{h > 0.1}].sum();
    return (unique(h.detach()).values.sum() + layer_norm(h, {6}) + cumsum(h, 1)).mean(Dims{0}) +
           where(h > 0.5, h, 0.0).sum() + h.to(f32).sum();
  }
  const Tensor x_ = leaf({8, 6}, 1), w_ = leaf({6, 6}, 2);
  const Tensor right_ = run().detach();
  Tensor result_;
};

// ---- backward -------------------------------------------------------------------------------------------------------

Tensor some_loss(const Tensor& x, const Tensor& w) {
  const Tensor h = tanh(matmul(x, w));
  const Tensor branch = (h * h + h).select(1, 0);
  const std::vector<Tensor> parts = h.chunk(2, 0);
  return (branch.sum() + parts[0].mean() * parts[1].sum() + square(h + x).mean() + w.sum());
}

class Backward : public Scenario {
 public:
  void act() override {
    loss_.backward({.retain_graph = true});
    loss_.backward({.retain_graph = true});
  }
  void check(bool failed) override {
    if (!failed) require(close(x_.grad(), gx_ * 2.0) && close(w_.grad(), gw_ * 2.0), "wrong gradients");
    x_.set_grad({}), w_.set_grad({});
    loss_.backward();
    require(close(x_.grad(), gx_) && close(w_.grad(), gw_), "wrong gradients after a failure");
    require(x_.version() == 0 && w_.version() == 0, "a leaf was written");
  }

 private:
  const Tensor x_ = leaf({6, 6}, 1), w_ = leaf({6, 6}, 2);
  const Tensor loss_ = some_loss(x_, w_);
  const std::vector<Tensor> right_ = grad({loss_}, {x_, w_}, {}, {.retain_graph = true});
  const Tensor &gx_ = right_[0], &gw_ = right_[1];
};

class SecondDerivatives : public Scenario {
 public:
  void act() override { second_ = second(); }
  void check(bool failed) override {
    require(failed || second_.defined(), "no result");
    require(!second_.defined() || close(second_, right_), "a wrong second derivative");
    require(close(second(), right_), "a wrong second derivative after a failure");
    require(!x_.grad().defined(), "grad() touched a leaf");
  }

 private:
  Tensor second() const {
    const auto first = grad({loss_}, {x_, w_}, {}, {.create_graph = true});
    const Tensor penalty = square(first[0]).sum() + (first[1] * loss_).sum();
    return grad({penalty, first[0].sum()}, {x_}, {}, {.retain_graph = true})[0];
  }
  const Tensor x_ = leaf({6, 6}, 1), w_ = leaf({6, 6}, 2);
  const Tensor loss_ = some_loss(x_, w_);
  const Tensor right_ = second();
  Tensor second_;
};

// ---- training -------------------------------------------------------------------------------------------------------

struct Net : nn::Layer<Net> {
  nn::Linear a{4, 8}, b{8, 2};
  Net() { register_module("a", a), register_module("b", b); }
  Tensor forward(const Tensor& x) const { return b(tanh(a(x))); }
};

std::vector<std::vector<double>> contents(const std::vector<Tensor>& tensors) {
  std::vector<std::vector<double>> all;
  for (const Tensor& t : tensors) all.push_back(values(t));
  return all;
}

class TrainingStep : public Scenario {
 public:
  TrainingStep() {
    Net other = net_.clone();
    optim::AdamW same(other.parameters(), {.lr = 0.1});
    step(other, same);
    after_ = contents(other.parameters());
  }
  void act() override { step(net_, optimizer_); }
  void check(bool failed) override {
    const std::vector<Tensor> parameters = net_.parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::vector<double> now = values(parameters[i]);
      const bool old_value = now == before_[i];
      require(old_value ? failed : close(now, after_[i]), "a parameter is half written");
      require(old_value || parameters[i].version() > versions_[i], "a parameter changed without its version");
    }
    if (!failed) return;
    for (size_t i = 0; i < parameters.size(); ++i) {
      if (values(parameters[i]) != before_[i]) return;  // the step was made
    }
    step(net_, optimizer_);
    for (size_t i = 0; i < parameters.size(); ++i) {
      require(close(values(parameters[i]), after_[i]), "a wrong step after a failure");
    }
  }

 private:
  static void step(Net& net, optim::AdamW& optimizer) {
    const Tensor x = numbers({5, 4}, 1).to(f32), y = numbers({5, 2}, 2).to(f32);
    optimizer.zero_grad();
    mse_loss(net(x), y).backward();
    optim::clip_grad_norm_(net.parameters(), 1.0);
    optimizer.step();
  }
  Net net_;
  optim::AdamW optimizer_{net_.parameters(), {.lr = 0.1}};
  const std::vector<std::vector<double>> before_ = contents(net_.parameters());
  const std::vector<uint32_t> versions_ = [this] {
    std::vector<uint32_t> all;
    for (const Tensor& p : net_.parameters()) all.push_back(p.version());
    return all;
  }();
  std::vector<std::vector<double>> after_;
};

class LoadingState : public Scenario {
 public:
  LoadingState() {
    Net other;
    for (const auto& [name, tensor] : other.state_dict()) state_[name] = tensor.to(f64);
    state_["b.bias"] = net_.state_dict().at("b.bias");  // its own memory
    for (const auto& [name, tensor] : net_.named_parameters()) after_.push_back(values(state_.at(name)));
  }
  void act() override { net_.load_state_dict(state_); }
  void check(bool failed) override {
    require(contents(net_.parameters()) == (failed ? before_ : after_), "half loaded");
    net_.load_state_dict(state_);
    require(contents(net_.parameters()) == after_, "wrongly loaded after a failure");
  }

 private:
  Net net_;
  nn::StateDict state_;
  const std::vector<std::vector<double>> before_ = contents(net_.parameters());
  std::vector<std::vector<double>> after_;
};

// ---- hooks and tools ------------------------------------------------------------------------------------------------

class Hooks : public Scenario {
 public:
  void act() override {
    const auto count = [this](int64_t& calls) {
      return [&calls, this](const auto&...) { calls += counting_ ? 1 : 0; };
    };
    const auto add = [this](HookHandle handle, int64_t& calls) {
      const Served served;
      handles_.push_back(std::move(handle));
      added_.push_back(&calls);
    };
    const Tensor y = x_ * 3.0, z = (y * y).sum();
    add(y.register_hook(count(calls_[0])), calls_[0]);
    add(register_node_pre_hook(y, count(calls_[1])), calls_[1]);
    add(register_node_post_hook(y, count(calls_[2])), calls_[2]);
    y.retain_grad();
    add(x_.register_hook(count(calls_[3])), calls_[3]);
    add(x_.register_post_accumulate_grad_hook(count(calls_[4])), calls_[4]);
    add(net_.register_forward_hook(count(calls_[5])), calls_[5]);
    add(net_.register_forward_pre_hook(count(calls_[6])), calls_[6]);
    add(net_.register_backward_hook(count(calls_[7])), calls_[7]);
    Tensor loss;
    {
      const SavedTensorHooks packing([](const Tensor& t) { return t.to(f64); },
                                     [](const Tensor& t) { return t.to(f32); });
      loss = net_(x_.view({5, 4}).to(f32)).sum();
    }
    loss = loss.to(f64) + z;
    loss.backward();
    gradient_ = x_.grad().clone();
    handles_.back().remove();
  }
  void check(bool failed) override {
    require(failed || handles_.size() == 8, "a hook is missing");
    if (failed && handles_.size() == 8 && gradient_.defined()) handles_.back().remove();
    x_.set_grad({});
    counting_ = true;
    const Tensor y = x_ * 3.0;
    ((y * y).sum() + net_(x_.view({5, 4}).to(f32)).sum().to(f64)).backward();
    for (size_t i = 3; i < added_.size() && i < 7; ++i) require(*added_[i] == 1, "a hook was lost, or runs twice");
    for (size_t i = added_.size(); i < 8; ++i) require(calls_[i] == 0, "a hook that was refused runs");
    if (gradient_.defined()) require(close(gradient_, x_.grad()), "a wrong gradient with hooks");
  }

 private:
  bool counting_ = false;
  int64_t calls_[8] = {};
  std::vector<HookHandle> handles_;
  std::vector<int64_t*> added_;
  const Tensor x_ = leaf({20}, 1);
  Net net_;
  Tensor gradient_;
};

class Drawing : public Scenario {
 public:
  void act() override {
    const Graph graph = draw_graph(loss_);
    nodes_ = graph.nodes.size();
    pictures_ = graph.svg().size() + graph.dot().size();
    Profiler profiler;
    profiler.start();
    loss_.backward({.retain_graph = true});
    profiler.stop();
  }
  void check(bool failed) override {
    require(failed || (nodes_ > 10 && pictures_ > 1000), "no picture");
    x_.set_grad({});
    loss_.backward({.retain_graph = true});
    require(close(x_.grad(), right_), "drawing changed the graph");
    require(draw_graph(loss_).nodes.size() > 10, "no picture after a failure");
  }

 private:
  const Tensor x_ = leaf({6, 6}, 1), w_ = leaf({6, 6}, 2);
  const Tensor loss_ = some_loss(x_, w_);
  const Tensor right_ = grad({loss_}, {x_}, {}, {.retain_graph = true})[0];
  size_t nodes_ = 0, pictures_ = 0;
};

// ---- threads --------------------------------------------------------------------------------------------------------

class Threads : public Scenario {
 public:
  void act() override {
    std::atomic<bool> short_of_memory{false}, wrong{false};
    const auto work = [&] {
      try {
        for (int i = 0; i < 3; ++i) {
          some_loss(x_, w_).backward();
          shared_.backward({.retain_graph = true});
        }
      } catch (const std::bad_alloc&) {
        short_of_memory = true;
      } catch (const OutOfMemoryError&) {
        short_of_memory = true;
      } catch (...) {
        wrong = true;
      }
    };
    std::vector<std::thread> threads;
    {
      const Served served;
      threads.reserve(3);
      for (int t = 0; t < 3; ++t) threads.emplace_back(work);
    }
    for (std::thread& thread : threads) thread.join();
    if (wrong) throw Wrong("a thread met something else than a lack of memory");
    if (short_of_memory) throw std::bad_alloc();
  }
  void check(bool failed) override {
    if (!failed) require(close(x_.grad(), right_ * 18.0), "wrong gradients");
    x_.set_grad({});
    shared_.backward({.retain_graph = true});
    require(close(x_.grad(), right_), "wrong gradients after a failure");
  }

 private:
  const Tensor x_ = leaf({6, 6}, 1), w_ = leaf({6, 6}, 2);
  const Tensor shared_ = some_loss(x_, w_);
  const Tensor right_ = grad({shared_}, {x_}, {}, {.retain_graph = true})[0];
};

// An epoch by workers, which request memory on their own threads.
class Loading : public Scenario {
 public:
  void act() override { (void)epoch_of(loader_); }
  void check(bool) override {
    loader_.set_epoch(0);
    require(epoch_of(loader_) == right_, "other batches after a failure");
  }

 private:
  struct Drawn {
    int64_t size() const { return 10; }
    std::pair<Tensor, int64_t> get(int64_t i) const { return {rand({20}) + static_cast<double>(i), i}; }
  };
  using Loader = data::DataLoader<Drawn>;
  static std::vector<std::vector<double>> epoch_of(Loader& loader) {
    std::vector<std::vector<double>> all;
    for (const auto& [x, i] : loader) {
      const Served served;
      all.push_back(values(x));
      all.push_back(values(i));
    }
    return all;
  }
  static Loader made_with(int workers) {
    return Loader(Drawn{}, {.batch_size = 3, .shuffle = true, .seed = 1, .workers = workers});
  }
  Loader alone_ = made_with(0), loader_ = made_with(2);
  const std::vector<std::vector<double>> right_ = epoch_of(alone_);
};

template <class T>
std::unique_ptr<Scenario> made() {
  return std::make_unique<T>();
}

}  // namespace

std::vector<Kind> scenarios() {
  std::vector<Kind> all = optimizer_steps();
  for (const Kind& kind :
       {Kind{"forward", made<Forward>}, Kind{"backward", made<Backward>}, Kind{"create_graph", made<SecondDerivatives>},
        Kind{"writes_through_views", writes_through_views}, Kind{"indexing_writes", indexing_writes},
        Kind{"training_step", made<TrainingStep>}, Kind{"load_state_dict", made<LoadingState>},
        Kind{"hooks", made<Hooks>}, Kind{"draw_graph", made<Drawing>}, Kind{"threads", made<Threads>},
        Kind{"loading", made<Loading>}}) {
    all.push_back(kind);
  }
  if (has_device()) {
    all.push_back({"device_step", device_step}), all.push_back({"device_streams", device_streams});
    all.push_back({"device_replays", device_replays});
  }
  return all;
}

}  // namespace weft::faults
