// Kept calls, made from the signatures of KernelTable. Included by observe.cpp alone.
#include <cstring>
#include <tuple>

#include "batched_call-inl.hpp"
#include "observe.hpp"
#include "recorded_kernel.hpp"

namespace weft {
namespace {

// An argument with the lifetime of the recorded call; `show` passes it on.
template <class T>
struct Kept {
  std::remove_cvref_t<T> value;
  explicit Kept(const std::remove_cvref_t<T>& given) : value(given) {}
  T get() { return value; }
};

template <>
struct Kept<const View&> {
  View value;
  alignas(max_item) unsigned char number[max_item];
  explicit Kept(const View& given) : value(given) {
    if (given.data != nullptr && given.layout.numel == 0) value.data = number;  // nothing is there, but an address
    if (given.data == nullptr || given.layout.host_scalar == 0) return;
    std::memcpy(number, given.data, static_cast<size_t>(itemsize(given.layout.dtype)));
    value.data = number;
  }
  const View& get() { return value; }
};

template <>
struct Kept<const PoolPlan&> {
  PoolPlan value;
  std::vector<double> extents[3];
  explicit Kept(const PoolPlan& given) : value(given) {
    for (int d = 0; d < 3; ++d) {
      extents[d].assign(given.lines[d].extents.begin(), given.lines[d].extents.end());
      value.lines[d].extents = extents[d];
    }
  }
  const PoolPlan& get() { return value; }
};

template <>
struct Kept<const RecurrentSteps&> {
  RecurrentSteps value;
  std::vector<int64_t> rows;
  explicit Kept(const RecurrentSteps& given) : value(given), rows(given.rows.begin(), given.rows.end()) {
    value.rows = rows;
  }
  const RecurrentSteps& get() { return value; }
};

template <class Slot>
struct Kept<std::span<const Slot>> {
  std::vector<Slot> value;
  explicit Kept(std::span<const Slot> given) : value(given.begin(), given.end()) {}
  std::span<const Slot> get() { return value; }
};

// Passes the arguments of a recorded call in order.
struct Show {
  RecordedKernel& call;
  int written_left;
  detail::CallBytes bytes{call.attributes};
  std::vector<View*> read = {};

  void view(View& v, bool written) {
    bytes.add(v.layout);
    bytes.add(v.data != nullptr);
    if (v.data == nullptr) return;
    if (v.layout.host_scalar != 0) {
      call.attributes.append(static_cast<const char*>(v.data), static_cast<size_t>(itemsize(v.layout.dtype)));
    } else if (written) {
      call.views.push_back(&v);
    } else {
      read.push_back(&v);
    }
  }
  void operator()(Kept<const View&>& v) { view(v.value, written_left-- > 0); }
  void operator()(Kept<const IndexPlan&>& plan) {
    bytes.add(plan.value.count), bytes.add(plan.value.wraps);
    for (int i = 0; i < plan.value.count; ++i) {
      view(plan.value.indices[i], false);
      bytes.add(plan.value.sizes[i]), bytes.add(plan.value.strides[i]), bytes.add(plan.value.dims[i]);
    }
  }
  void operator()(Kept<const PoolPlan&>& plan) {
    for (const PoolPlan::Line& line : plan.value.lines) {
      bytes.add(line.size), bytes.add(line.stride), bytes.add(line.padding), bytes.add(line.dilation);
      bytes.add(line.extents.size());
      for (const double extent : line.extents) bytes.add(extent);
    }
  }
  void operator()(Kept<const RecurrentSteps&>& steps) {
    bytes.add(steps.value.count), bytes.add(steps.value.reverse), bytes.add(steps.rows.size());
    for (const int64_t n : steps.rows) bytes.add(n);
  }
  void operator()(Kept<const ConvolutionSteps&>& steps) {
    for (int d = 0; d < 3; ++d) {
      bytes.add(steps.value.stride[d]), bytes.add(steps.value.padding[d]), bytes.add(steps.value.dilation[d]);
    }
    bytes.add(steps.value.groups);
  }
  void operator()(Kept<const AttentionPlan&>& kept) {
    AttentionPlan& plan = kept.value;
    bytes.add(plan.scale), bytes.add(plan.before), bytes.add(plan.after), bytes.add(plan.at_end);
    bytes.add(plan.block_size), bytes.add(plan.most_queries), bytes.add(plan.most_keys);
    for (View* v : {&plan.slopes, &plan.sequences, &plan.blocks}) view(*v, false);
  }
  void operator()(Kept<PhiloxSeed>& seed) { call.seed = &seed.value; }
  void operator()(Kept<Scalar>& number) {
    bytes.add(number.value.held_as());
    if (number.value.is_floating()) bytes.add(number.value.to<double>());
    else bytes.add(number.value.to<int64_t>());
  }
  void operator()(Kept<std::span<const OptimizerSlot>>& slots) {
    for (OptimizerSlot& s : slots.value) {
      view(s.parameter, true);
      for (View& v : s.state) view(v, true);
      view(s.gradient, false);
    }
  }
  void operator()(Kept<const OptimizerSettings&>& kept) {
    (void)factors_in<double>(kept.value, [&](double x) { return bytes.add(x), x; });
    for (const uint8_t flag : {kept.value.nesterov, kept.value.first, kept.value.rectified}) bytes.add(flag);
  }
  template <class T>
  void operator()(Kept<T>& plain) {
    bytes.add(plain.value);
  }
};

template <auto slot>
class KeptCall;
template <class R, class... A, R (*KernelTable::*slot)(A...)>
class KeptCall<slot> final : public RecordedKernel {
 public:
  KeptCall(const char* name, DeviceType device, const A&... arguments)
      : RecordedKernel(name), device_(device), arguments_(arguments...) {  // in place: views may point into them
    attributes = name;
    Show show{*this, output_count(name)};
    std::apply([&](auto&... kept) { (show(kept), ...); }, arguments_);
    outputs = views.size();
    views.insert(views.end(), show.read.begin(), show.read.end());
  }
  void run() override {
    const CallScope scope(place);
    const auto kernel_now = kernels(device_).*slot;
    std::apply([&](auto&... kept) { kernel_now(kept.get()...); }, arguments_);
  }
  bool put_examples(int64_t count, std::span<const int64_t> steps) override {
    constexpr const ExamplesRule& rule = examples_rule<slot>;
    if constexpr (rule.place == Examples::alone) {
      return false;
    } else {
      if constexpr (is_product<slot>) {
        const bool joined =
            std::apply([&](auto&... kept) { return one_product(kept.value..., count, views, steps); }, arguments_);
        if (joined) return true;
      }
      ExamplesInViews examples(rule, (std::is_same_v<A, int> || ...), count, views, steps);
      std::apply([&](auto&... kept) { (examples(kept.value), ...); }, arguments_);
      if (!examples.apply()) return false;
      const auto count_dim = [](auto& value) {
        if constexpr (std::is_same_v<decltype(value), int&>) ++value;
      };
      if constexpr (rule.place != Examples::first_dim) {
        std::apply([&](auto&... kept) { (count_dim(kept.value), ...); }, arguments_);
      }
      return true;
    }
  }

 private:
  const DeviceType device_;
  std::tuple<Kept<A>...> arguments_;
};

}  // namespace
}  // namespace weft
