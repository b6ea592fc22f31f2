#include "../replay.hpp"

#include <cstring>

#include <fmt/format.h>

#include "call_file-inl.hpp"
#include "../../autograd/mode.hpp"
#include "../../backends/backend.hpp"
#include "../../backends/watch/nan_check.hpp"
#include "../../ops/create.hpp"

namespace weft::io {

namespace {

class LiveCall {
 public:
  LiveCall(const KeptCall& kept, Device device) : kept_(kept), device_(device) {
    for (const KeptView& view : kept.views) add(view);
    for (const KeptAttribute& a : kept.attributes) add(a);
  }

  void run() {
    WeftKernelCall call = {};
    call.size = sizeof call;
    call.kernel = kept_.kernel.c_str();
    call.variant_name = kept_.variant_name.c_str();
    call.variant = kept_.variant;
    call.view_count = static_cast<int32_t>(views_.size());
    call.output_count = kept_.outputs;
    call.attribute_count = static_cast<int32_t>(attributes_.size());
    call.views = views_.data();
    call.attributes = attributes_.data();
    plugin::run_in(kernels(device_.type), call);
  }
  const Tensor& memory(size_t i) const { return memory_[i]; }

 private:
  void add(const KeptView& view) {
    View live{nullptr, view.layout};
    Tensor memory;
    if (view.same_as >= 0) {
      memory = memory_[static_cast<size_t>(view.same_as)];
    } else if (!view.absent) {
      const bool number = view.layout.host_scalar != 0;
      memory = view.elements.defined() ? view.elements.clone() : zeros(sizes_once(view.layout), view.layout.dtype);
      if (!number) memory = memory.to(device_);
    }
    if (memory.defined()) live.data = memory.data_ptr();
    live.layout.device_type = device_.type;
    live.layout.device_index = static_cast<uint8_t>(device_.index);
    memory_.push_back(memory);
    std::memcpy(static_cast<void*>(&views_.emplace_back()), &live, sizeof live);
  }
  void add(const KeptAttribute& a) {
    WeftAttribute& live = attributes_.emplace_back();
    live = {a.name.c_str(), a.kind, 1, {}};
    if (a.kind == WEFT_ATTRIBUTE_F64) {
      live.value.f64 = a.real[0];
    } else if (a.kind == WEFT_ATTRIBUTE_F64_LIST) {
      live.count = static_cast<int32_t>(a.real.size());
      live.value.f64s = a.real.data();
    } else if (a.kind == WEFT_ATTRIBUTE_I64_LIST) {
      live.count = static_cast<int32_t>(a.whole.size());
      live.value.i64s = a.whole.data();
    } else {
      live.value.i64 = a.whole[0];
    }
  }

  const KeptCall& kept_;
  const Device device_;
  std::vector<Tensor> memory_;
  std::vector<WeftView> views_;
  std::vector<WeftAttribute> attributes_;
};

std::string head_of(const KeptCall& call, Device device) {
  const std::string variant = call.variant_name.empty() ? "" : ' ' + call.variant_name;
  return fmt::format("{}{}, called at {}:{}: {} on {}", call.op, call.backward ? " in backward" : "",
                     call.file.empty() ? "an unknown place" : call.file, call.line,
                     call.call ? short_text(*call.call) : fmt::format("kernel {}{}", call.kernel, variant),
                     device.name());
}

void tell_whether(const KeptCall& call, Replayed& out) {
  const char* const what = weft::detail::text_of({.nan = call.nan, .inf = call.inf});
  out.text += out.happens ? fmt::format("\n{} again: it still happens", what)
                          : fmt::format("\nno {}: it does not happen here", what);
}

void replay_op(const KeptCall& call, Device device, Replayed& out) {
  out.text = head_of(call, device);
  for (const auto& [name, t] : call.call->tensors()) {
    out.inputs.push_back(t);
    out.text += fmt::format("\n  read {}: {}", name, weft::detail::values_text(t.raw_view()));
  }
  for (const Tensor& g : call.arrived) out.text += "\n  arrived " + weft::detail::values_text(g.raw_view());
  OpResult result;
  try {
    result = run(*call.call, device, call.backward ? call.arrived.at(0) : Tensor());
  } catch (const std::bad_variant_access&) {
    raise<FormatError>({.op = "replay", .problem = fmt::format("{} does not take these arguments", call.call->op)},
                       Location::none());
  }
  for (const Tensor& made : call.backward ? result.gradients : result.results) {
    if (!made.defined()) continue;
    out.outputs.push_back(made.detach().to(Device()));
    out.text += fmt::format("\n  made {}{}", call.backward ? "the gradient " : "",
                            weft::detail::values_text(out.outputs.back().raw_view()));
  }
  out.happens = has_fault(out.outputs, call.nan, call.inf);
  tell_whether(call, out);
}

}  // namespace

Replayed replay(const Path& folder, std::optional<Device> device, Location where) {
  const KeptCall call = read_call(folder, where);
  const Device target = device ? *device : Device(std::string_view(call.device));
  check_device(target, "replay", where);
  const CallScope scope("replay", where);
  const NoGradGuard unrecorded;
  Replayed out;
  out.arrived = call.arrived;
  if (call.call) {
    replay_op(call, target, out);
    return out;
  }
  LiveCall live(call, target);
  for (size_t i = 0; i < call.views.size(); ++i) {
    if (call.views[i].elements.defined()) out.inputs.push_back(call.views[i].elements);
  }
  live.run();
  out.text = head_of(call, target);
  for (const Tensor& in : out.inputs) out.text += "\n  read " + detail::values_text(in.raw_view());
  for (int i = 0; i < call.outputs; ++i) {
    if (call.views[static_cast<size_t>(i)].absent) continue;
    const Tensor result = live.memory(static_cast<size_t>(i)).to(Device());
    out.outputs.push_back(result);
    out.text += "\n  made " + detail::values_text(result.raw_view());
    const cpu::NonFinite found = detail::find_non_finite(result.raw_view());
    if (i == call.bad) out.happens = (found.nan && call.nan) || (found.inf && call.inf);
  }
  tell_whether(call, out);
  return out;
}

}  // namespace weft::io
