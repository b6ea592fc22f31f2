#include "faults/device.hpp"

#include <atomic>
#include <memory>
#include <string>

#include <weft/hooks/capture.hpp>

#include "faults/scenario.hpp"

namespace weft::faults {

namespace {

const Device hpu(DeviceType::hpu);

/// Memory that waits for streams is returned to the driver.
void settle() {
  synchronize(hpu);
  empty_cache(hpu);
  find_backend(hpu.type)->pinned_allocator().empty_cache();
}

/// Permanent allocations of queues: events of their upload slots.
void fill_slots() {
  static const bool filled = [] {
    const Stream side(hpu);
    for (int i = 0; i < 40; ++i) {
      zeros({3}).to(hpu);
      const StreamGuard guard(side);
      zeros({3}).to(hpu);
    }
    synchronize(hpu);
    return true;
  }();
  (void)filled;
}

/// A step on a stream of its own: pinned memory, copies that do not block, events, functions of the host, a backward.
class DeviceStep : public Scenario {
 public:
  DeviceStep() {
    fill_slots();
    step();  // kernels are built, caches filled
    right_ = loss_.to(Device());
    right_gradient_ = w_.grad().to(Device());
    forget();
    kept_ = memory_stats(hpu).allocated;
  }
  void act() override { step(); }
  void check(bool failed) override {
    synchronize(hpu);
    if (!failed) require_right("");
    forget();
    step();
    require_right(" after a failure");
    forget();
    settle();
    require(memory_stats(hpu).allocated == kept_, "memory of the device leaked");
  }

 private:
  void step() {
    const Stream side(hpu);
    side.wait_stream(current_stream(hpu));
    Event start({.timing = true}), end({.timing = true});
    Tensor y;
    {
      const StreamGuard guard(side);
      start.record(side);
      const Tensor there = source_.pin_memory().to(hpu, {.non_blocking = true});
      side.call([calls = calls_] { ++*calls; });
      y = matmul(there.t().contiguous(), w_) + there.t();
      back_ = y.detach().to(Device(), {.non_blocking = true});
      end.record(side);
    }
    current_stream(hpu).wait_event(end);
    loss_ = (y * y).sum() + exp(w_).mean();
    loss_.backward({.retain_graph = true});
    side.synchronize();
    (void)start.elapsed_time(end);
    synchronize(hpu);
  }
  void require_right(const char* when) const {
    require(close(loss_.to(Device()), right_), std::string("a wrong loss") + when);
    require(close(w_.grad().to(Device()), right_gradient_), std::string("a wrong gradient") + when);
    require(close((back_ * back_).sum() + exp(host_w_).mean(), right_), std::string("a wrong copy") + when);
  }
  void forget() {
    loss_ = back_ = Tensor();
    w_.set_grad({});
  }

  const Tensor source_ = numbers({8, 8}, 1).to(f32), host_w_ = numbers({8, 8}, 2).to(f32);
  const Tensor w_ = host_w_.to(hpu).requires_grad_();
  const std::shared_ptr<std::atomic<int>> calls_ = std::make_shared<std::atomic<int>>(0);
  Tensor loss_, back_, right_, right_gradient_;
  size_t kept_ = 0;
};

/// Streams that come and go.
class DeviceStreams : public Scenario {
 public:
  DeviceStreams() {
    fill_slots();
    run();
  }
  void act() override { result_ = run(); }
  void check(bool failed) override {
    synchronize(hpu);
    require(failed || close(result_.to(Device()), right_), "a wrong result");
    require(close(run().to(Device()), right_), "a wrong result after a failure");
    result_ = Tensor();
    settle();
  }

 private:
  Tensor run() const {
    std::vector<Tensor> parts;
    for (int i = 0; i < 3; ++i) {
      const Stream stream(hpu);
      stream.wait_stream(current_stream(hpu));
      const StreamGuard guard(stream);
      parts.push_back(x_ * static_cast<double>(i + 1));
      default_stream(hpu).wait_stream(stream);
    }
    return cat(parts, 0).sum(Dims{0});
  }
  const Tensor host_ = numbers({4, 5}, 1).to(f32), x_ = host_.to(hpu);
  const Tensor right_ = cat({host_, host_ * 2.0, host_ * 3.0}, 0).sum(Dims{0});
  Tensor result_;
};

/// A captured step of which the device repeats parts, made and used while requests fail.
class DeviceReplays : public Scenario {
 public:
  DeviceReplays() {
    fill_slots();
    for (int i = 0; i < 3; ++i) step_(x_);
    right_ = step().to(Device());
    step_.forget();
    for (int i = 0; i < 3; ++i) step_(x_);
  }
  void act() override {
    for (int i = 0; i < 3; ++i) result_ = step();
  }
  void check(bool failed) override {
    synchronize(hpu);
    require(failed || close(result_.to(Device()), right_), "a wrong result");
    for (int i = 0; i < 5; ++i) require(close(step().to(Device()), right_), "a wrong result after a failure");
    require(step_.stats().batched > 2, "the device repeats nothing");
    result_ = Tensor();
    step_.forget();
    settle();
  }

 private:
  Tensor step() { return step_(x_); }

  const Tensor x_ = numbers({40, 6}, 1).to(f32).to(hpu), w_ = numbers({6, 6}, 2).to(f32).to(hpu);
  const Tensor rows_ = tensor({int64_t{3}, int64_t{9}, int64_t{3}}).to(hpu);
  const Callback<Tensor(const Tensor&)> run_ = [this](const Tensor& x) {
    const Tensor sorted = sort(matmul(x, w_), 0).values;
    return cat({sorted.sum(Dims{0}), index_select(x, 0, rows_).exp().sum(Dims{0})}, 0);
  };
  CapturedStep<Callback<Tensor(const Tensor&)>> step_{run_, CaptureOptions()};
  Tensor right_, result_;
};

}  // namespace

bool has_device() { return device_count(hpu.type) > 0; }
std::unique_ptr<Scenario> device_step() { return std::make_unique<DeviceStep>(); }
std::unique_ptr<Scenario> device_replays() { return std::make_unique<DeviceReplays>(); }
std::unique_ptr<Scenario> device_streams() { return std::make_unique<DeviceStreams>(); }

}  // namespace weft::faults
