#include "nan_check.hpp"

#include <algorithm>
#include <cstring>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "../backend.hpp"
#include "../dispatch.hpp"
#include "non_finite_cause.hpp"
#include "../../tensor/dims.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/layout.hpp"

namespace weft::detail {

namespace {

// A view of the same elements in host memory.
class HostView {
 public:
  explicit HostView(const View& view) : view_(view) {
    if (view.layout.host_scalar || view.layout.device_type == DeviceType::cpu) return;
    const ByteSpan span = byte_span(view.layout);
    bytes_.resize(static_cast<size_t>(span.high - span.low));
    Backend* backend = find_backend(view.layout.device_type);
    if (backend != nullptr && !bytes_.empty()) {
      backend->download(view.layout.device_index, bytes_.data(), static_cast<char*>(view.data) + span.low,
                        bytes_.size());
    }
    view_.data = bytes_.data() - span.low;
    view_.layout.device_type = DeviceType::cpu;
    view_.layout.device_index = 0;
  }
  const View& operator*() const { return view_; }

 private:
  View view_;
  std::vector<char> bytes_;
};

bool may_be_non_finite(const View& view) {
  return view.data != nullptr && is_inexact(view.layout.dtype) && view.layout.device_type != DeviceType::meta;
}

}  // namespace

cpu::NonFinite find_non_finite(const View& view) {
  if (!may_be_non_finite(view)) return {};
  return cpu::find_non_finite(*HostView(view));
}

const char* text_of(cpu::NonFinite found) { return found.nan ? (found.inf ? "NaN and Inf" : "NaN") : "Inf"; }

std::string shape_text(const View& view) {
  if (view.layout.host_scalar) return fmt::format("{} number", name(view.layout.dtype));
  return fmt::format("{} {} on {}", name(view.layout.dtype), Dims(sizes_of(view.layout)).text(),
                     Device(view.layout.device_type, view.layout.device_index).name());
}

cpu::ElementStatistics statistics_of(const View& view) {
  const HostView host(view);
  if ((*host).layout.contiguous && !(*host).layout.host_scalar) return cpu::element_statistics(*host);
  const auto sizes = (*host).layout.host_scalar ? std::span<const int64_t>() : sizes_of((*host).layout);
  View plain{nullptr, contiguous_layout(sizes, view.layout.dtype)};
  std::vector<double> elements(static_cast<size_t>(plain.layout.numel));  // of any dtype: at most 8 bytes each
  plain.data = elements.data();
  if ((*host).layout.host_scalar)
    std::memcpy(plain.data, (*host).data, static_cast<size_t>(itemsize(view.layout.dtype)));
  else host_kernels().copy(plain, *host);
  return cpu::element_statistics(plain);
}

std::string values_text(const View& view) {
  std::string text = shape_text(view);
  if (view.layout.numel == 0 || view.layout.device_type == DeviceType::meta) return text;
  const cpu::ElementStatistics s = statistics_of(view);
  const char* separator = ": ";
  const auto say = [&](const std::string& part) { text += std::exchange(separator, ", ") + part; };
  if (s.finite() == 1 && s.count == 1) say(fmt::format("{:.4g}", s.mean));
  else if (s.finite() > 0) say(fmt::format("{:.4g} to {:.4g}, mean {:.4g}", s.low, s.high, s.mean));
  if (s.zeros > 0 && s.count > 1) say(fmt::format("{} zero", s.zeros));
  if (s.non_finite > 0) say(fmt::format("{} of {} not finite", s.non_finite, s.count));
  return text;
}

std::string with_figures(const std::string& error, const std::vector<std::string>& figures) {
  constexpr size_t most = 100;
  std::string out = error;
  for (const std::string& figure : figures) {
    size_t column = most;
    out += "\n   ";
    for (size_t from = 0; from < figure.size();) {
      const size_t end = std::min(figure.find(' ', from), figure.size());
      if (from > 0 && column + 1 + end - from > most) out += "\n     ", column = 5;
      else if (from == 0) column = 3;
      out += ' ' + figure.substr(from, end - from);
      column += 1 + end - from;
      from = end + 1;
    }
  }
  return out;
}

bool is_input_too(const View& output, std::span<const View* const> inputs) {
  return std::ranges::any_of(inputs, [&](const View* in) { return in->data == output.data; });
}

namespace {

// Memory that the running kernel overwrites.
constinit thread_local cpu::NonFinite overwritten = {};

// This loss has logarithms of 0, which it cuts off at -100.
bool is_cut_off(const KernelCall& call, cpu::NonFinite found) {
  return !found.nan && call.entry != nullptr && call.op != nullptr &&
         std::string_view(call.entry) == "binary_cross_entropy" && std::string_view(call.op).starts_with("log");
}

}  // namespace

void note_overwritten(const KernelCall& call) {
  overwritten = {};
  for (const View* out : call.outputs) {
    if (!is_input_too(*out, call.inputs)) continue;
    const cpu::NonFinite found = find_non_finite(*out);
    overwritten.nan |= found.nan, overwritten.inf |= found.inf;
  }
}

std::optional<MadeNonFinite> made_non_finite(const KernelCall& call) {
  if (std::string_view(call.kernel) == "fill") return {};
  for (const View* out : call.outputs) {
    const cpu::NonFinite found = find_non_finite(*out);
    if (WEFT_LIKELY(!found.any()) || is_cut_off(call, found)) continue;
    cpu::NonFinite read = overwritten;
    for (const View* in : call.inputs) {
      if (is_input_too(*in, call.outputs)) continue;
      const cpu::NonFinite there = find_non_finite(*in);
      read.nan |= there.nan, read.inf |= there.inf;
    }
    if (!read.nan && !(read.inf && !found.nan)) return MadeNonFinite{out, found};
  }
  return {};
}

void raise_non_finite(const KernelCall& call, const MadeNonFinite& made, const std::string& more) {
  const View& out = *made.output;
  const cpu::NonFinite found = made.found;
  std::vector<const View*> read;
  std::vector<std::string> figures = {fmt::format("output {}, of kernel {}", values_text(out), call.kernel)};
  for (const View* in : call.inputs) {
    const bool gone = is_input_too(*in, call.outputs);
    if (!gone) read.push_back(in);
    figures.push_back("input " + (gone ? shape_text(*in) + " (overwritten)" : values_text(*in)));
  }
  if (!more.empty()) figures.push_back(more);
  const char* const op = call.op != nullptr ? call.op : call.kernel;
  const NonFiniteCause cause = cause_of_value(op, out, read, found);
  throw NonFiniteError(with_figures(format_error({.op = op,
                                                  .problem = fmt::format("the first {}", text_of(found)),
                                                  .details = cause.what,
                                                  .remedy = cause.remedy},
                                                 call.where),
                                    figures));
}

void KernelCheck::before(const KernelCall& call) { note_overwritten(call); }

void KernelCheck::after(const KernelCall& call) {
  const auto made = made_non_finite(call);
  if (WEFT_UNLIKELY(made.has_value())) raise_non_finite(call, *made);
}

}  // namespace weft::detail
