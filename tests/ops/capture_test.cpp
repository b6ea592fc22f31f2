// Every op in a captured step, forward and backward, on every device that is here: replays have the bits of the eager
// call, or the op is one of those that read values on the host.
#include "samples.hpp"

#include <weft/autograd/mode.hpp>
#include <weft/backends/backend.hpp>
#include <weft/hooks/capture.hpp>

namespace weft::testing {
namespace {

using Doubles = std::vector<double>;

Doubles bits(const Tensor& t) {
  const Tensor host = t.detach().to(Device());
  if (is_complex(t.dtype())) return view_as_real(host).to_vector<double>();
  return host.to(is_storage_only(t.dtype()) ? f32 : t.dtype()).to_vector<double>();
}

/// One call: its results, then the gradients of its inputs.
Tensors call_with_gradients(const OpRecord& record, const Values& arguments) {
  for (const Tensor& t : tensors_in(arguments)) {
    if (t.defined() && t.requires_grad()) t.set_grad({});
  }
  Tensors results;
  const Value made = record.call(arguments);
  if (auto* one = std::get_if<Tensor>(&made)) results = {*one};
  if (auto* several = std::get_if<Tensors>(&made)) results = *several;
  Tensors all = results;
  for (const Tensor& y : results) {
    if (!y.defined() || !y.requires_grad()) continue;
    // Of vectors the phase may be any.
    (is_complex(y.dtype()) ? abs(y) : y).sum().backward({}, {.retain_graph = true});
  }
  for (const Tensor& t : tensors_in(arguments)) {
    if (t.defined() && t.requires_grad() && t.grad().defined()) all.push_back(t.grad());
  }
  return all;
}

std::vector<Doubles> bits_of(const Tensors& tensors) {
  std::vector<Doubles> out;
  for (const Tensor& t : tensors) out.push_back(t.defined() ? bits(t) : Doubles());
  return out;
}

bool equal(const std::vector<Doubles>& a, const std::vector<Doubles>& b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].size() != b[i].size()) return false;
    for (size_t k = 0; k < a[i].size(); ++k) {
      if (a[i][k] != b[i][k] && !(std::isnan(a[i][k]) && std::isnan(b[i][k]))) return false;
    }
  }
  return true;
}

Values samples_of(const OpRecord& record, size_t number, Device device, uint64_t seed, bool gradients) {
  SampleMaker make(f32, device, seed);
  Values values = record.samples(make)[number];
  return mapped(values, [&](const Tensor& t) {
    const bool wanted =
        gradients && record.facts.differentiable && is_inexact(t.dtype()) && !is_storage_only(t.dtype());
    const Tensor own = t.detach().clone();
    return wanted ? own.requires_grad_() : own;
  });
}

/// The obstacle to a replay, or empty.
std::string compare(const OpRecord& record, size_t number, Device device, bool gradients) {
  const Values own = samples_of(record, number, device, 0, gradients);
  auto step = capture([&] { return call_with_gradients(record, own); });
  for (uint64_t i = 0; i < 6; ++i) {
    const Values now = samples_of(record, number, device, i / 2, gradients);
    const Tensors targets = tensors_in(own), sources = tensors_in(now);
    for (size_t k = 0; k < targets.size(); ++k) {
      const NoGradGuard unrecorded;
      if (targets[k].defined()) targets[k].copy_(sources[k]);
    }
    manual_seed(i);
    const std::vector<Doubles> expected = bits_of(call_with_gradients(record, now));
    const GeneratorState after = default_generator(device).state();
    manual_seed(i);
    try {
      EXPECT_TRUE(equal(bits_of(step()), expected)) << record.name << ", sample " << number << ", call " << i;
    } catch (const NotImplementedError& refusal) {
      return refusal.what();
    }
    EXPECT_EQ(default_generator(device).state(), after) << record.name << ", sample " << number;
  }
  EXPECT_GE(step.stats().replayed, 2) << record.name;
  return "";
}

std::vector<Device> devices() {
  std::vector<Device> list = {Device()};
  for (const DeviceType type : {DeviceType::hpu, DeviceType::cuda}) {
    if (device_count(type) > 0) list.emplace_back(type);
  }
  return list;
}

TEST(Capture, EveryOpReplaysWithItsBitsUnlessItReadsValues) {
  std::set<std::string> refused;
  std::set<const OpRecord*> met;
  for (const Device device : devices()) {
    for (const OpRecord& record : op_records()) {
      const std::string_view name = record.name;
      if (name == "empty" || name == "empty_like") continue;  // elements are not set
      SampleMaker make(f32, device, 0);
      const size_t count = record.samples(make).size();
      for (size_t i = 0; i < count; ++i) {
        for (const bool gradients : {false, true}) {
          const std::string why = compare(record, i, device, gradients);
          if (why.empty()) continue;
          if (record.facts.reads == OpFacts::reads_values) met.insert(&record);
          else refused.insert(record.name + (" on " + device.name()) + why);
        }
      }
    }
  }
  EXPECT_EQ(refused, std::set<std::string>());
  for (const OpRecord& record : op_records()) {
    EXPECT_EQ(met.contains(&record), record.facts.reads == OpFacts::reads_values) << record.name;
  }
}

}  // namespace
}  // namespace weft::testing
