// The events of every kernel: op, location of the call, and written views.
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include <gtest/gtest.h>

#include <weft/backends/watch/observe.hpp>
#include <weft/ops/record.hpp>
#include <weft/tensor/layout.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

using Bytes = std::vector<unsigned char>;

// From the lowest byte that a view touches to the highest.
Bytes bytes_of(const View& view) {
  const ByteSpan span = byte_span(view.layout);
  const auto* first = static_cast<const unsigned char*>(view.data) + span.low;
  return {first, first + (span.high - span.low)};
}
bool overlap(const View& a, const View& b) {
  const ByteSpan s = byte_span(a.layout), t = byte_span(b.layout);
  const auto* p = static_cast<const unsigned char*>(a.data);
  const auto* q = static_cast<const unsigned char*>(b.data);
  return p + s.low < q + t.high && q + t.low < p + s.high;
}

// Compares the events with the bytes that change.
struct Watcher final : KernelObserver {
  std::set<std::string> seen, nameless;
  std::map<std::string, std::set<size_t>> unwritten;  // outputs that no call has changed yet
  std::map<std::string, std::string> wrong;
  std::vector<Bytes> outputs, inputs;

  void before(const KernelCall& call) override {
    outputs.clear(), inputs.clear();
    if (!call.device.is_cpu()) return;
    for (const View* v : call.outputs) outputs.push_back(bytes_of(*v));
    for (const View* v : call.inputs) inputs.push_back(bytes_of(*v));
  }
  void after(const KernelCall& call) override {
    if (!call.device.is_cpu()) return;
    if (seen.insert(call.kernel).second) {
      for (size_t i = 0; i < call.outputs.size(); ++i) unwritten[call.kernel].insert(i);
    }
    if (call.op == nullptr || !call.where.known()) nameless.insert(call.kernel);
    for (size_t i = 0; i < call.outputs.size(); ++i) {
      if (bytes_of(*call.outputs[i]) != outputs[i]) unwritten[call.kernel].erase(i);
    }
    for (size_t i = 0; i < call.inputs.size(); ++i) {
      if (bytes_of(*call.inputs[i]) == inputs[i]) continue;
      const bool shared = std::ranges::any_of(call.outputs, [&](auto* out) { return overlap(*out, *call.inputs[i]); });
      if (!shared) wrong[call.kernel] = "input " + std::to_string(i) + " was written";
    }
  }
};

void call_every_op(const OpRecord& record) {
  SampleMaker make(
      record.domain == OpRecord::Domain::any && std::string(record.name).starts_with("logical") ? boolean : f32, {});
  for (Values& values : record.samples(make)) {
    if (record.facts.differentiable) {  // some kernels run where nothing is recorded alone
      const NoGradGuard unrecorded;
      const CallScope call(record.name);
      record.call(values);
    }
    std::vector<Tensor> leaves;
    const Values given = values;  // so that no result lands on memory which has its numbers already
    for (Value& value : values) {
      auto* t = std::get_if<Tensor>(&value);
      if (t == nullptr || !t->defined() || !is_inexact(t->dtype()) || !record.facts.differentiable) continue;
      *t = t->detach().clone().requires_grad_();
      leaves.push_back(*t);
    }
    const CallScope call(record.name);
    const Value result = record.call(values);
    const auto* out = std::get_if<Tensor>(&result);
    if (out == nullptr || !out->defined() || !out->requires_grad() || leaves.empty()) continue;
    const Tensor seed = SampleMaker(out->dtype(), {}, 99).tensor(out->shape(), -1, 1);
    grad(std::span(out, 1), leaves, std::span(&seed, 1), {.allow_unused = true});
  }
}

TEST(KernelObserver, ReceivesOpLocationAndOutputsOfEveryKernel) {
  Watcher watcher;
  {
    const ObserverGuard watching(watcher);
    for (const OpRecord& record : op_records()) call_every_op(record);
    const Tensor weight = ones({4}).requires_grad_();
    optim::AdamW adam({weight}, {});
    optim::SGD sgd({weight}, {.momentum = 0.5});
    for (int step = 0; step < 2; ++step) {
      weight.sum().backward();
      adam.step();
      sgd.step();
    }
  }
  for (const auto& [kernel, what] : watcher.wrong) ADD_FAILURE() << kernel << ": " << what;
  for (const std::string& kernel : watcher.nameless) ADD_FAILURE() << kernel << " ran for no op, or at no place";
  for (const auto& [kernel, outputs] : watcher.unwritten) {
    for (const size_t i : outputs) ADD_FAILURE() << kernel << ": nothing wrote output " << i;
  }
#define WEFT_KERNEL_ROW(result, name, ...) EXPECT_TRUE(watcher.seen.contains(#name)) << #name << " was never called";
#include <weft/backends/kernel_rows.hpp>
}

}  // namespace
}  // namespace weft
