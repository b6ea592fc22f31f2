#include "../summary.hpp"

#include <algorithm>
#include <map>
#include <unordered_set>

#include <fmt/format.h>

namespace weft::nn {

namespace {

/// The product of the sizes from `first` on.
int64_t extent(const View& view, int first) {
  int64_t n = 1;
  for (int d = first; d < view.layout.rank; ++d) n *= view.layout.sizes[d];
  return n;
}
int64_t last_size(const View& view) { return view.layout.rank == 0 ? 1 : view.layout.sizes[view.layout.rank - 1]; }

std::string shapes_text(const std::vector<Dims>& shapes) {
  std::string text;
  for (const Dims& shape : shapes) text += (text.empty() ? "" : " ") + shape.text();
  return text.empty() ? "-" : text;
}

std::string grouped(int64_t n) {
  std::string digits = std::to_string(n);
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > 0; i -= 3) digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

std::string bytes_text(int64_t n) {
  if (n < 10'000) return fmt::format("{} B", n);
  double value = static_cast<double>(n) / 1024;
  const char* unit = "KiB";
  for (const char* next : {"MiB", "GiB", "TiB"}) {
    if (value < 1000) break;
    value /= 1024, unit = next;
  }
  return fmt::format("{:.1f} {}", value, unit);
}

std::string shortened_to(std::string text, size_t width) {
  if (text.size() <= width) return text;
  return width < 2 ? text.substr(0, width) : text.substr(0, width - 1) + "~";
}

using Row = std::vector<std::string>;

Row row_of(const std::string& label, const LayerSummary& l) {
  const std::string parameters =
      grouped(l.trainable + l.frozen) + (l.frozen > 0 ? fmt::format(" ({} frozen)", grouped(l.frozen)) : "");
  return {label,
          shapes_text(l.outputs),
          parameters,
          bytes_text(l.parameter_bytes),
          bytes_text(l.output_bytes),
          grouped(l.multiply_adds)};
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (static_cast<unsigned char>(c) < 0x20) out += fmt::format("\\u{:04x}", static_cast<int>(c));
    else out += c;
  }
  return out + "\"";
}

std::string json_of(const LayerSummary& l) {
  std::string shapes;
  for (const Dims& shape : l.outputs) {
    shapes += fmt::format("{}[{}]", shapes.empty() ? "" : ", ", fmt::join(shape, ", "));
  }
  return fmt::format(
      "{{\"name\": {}, \"class\": {}, \"depth\": {}, \"outputs\": [{}], \"trainable\": {}, \"frozen\": {}, "
      "\"parameter_bytes\": {}, \"output_bytes\": {}, \"multiply_adds\": {}}}",
      quoted(l.name), quoted(l.class_name), l.depth, shapes, l.trainable, l.frozen, l.parameter_bytes, l.output_bytes,
      l.multiply_adds);
}

}  // namespace

int64_t multiply_adds(const KernelCall& call) {
  const std::string_view kernel = call.kernel;
  const auto out = [&](size_t i) -> const View& { return *call.outputs[i]; };
  const auto in = [&](size_t i) -> const View& { return *call.inputs[i]; };
  if (kernel == "matmul" && call.inputs.size() >= 2) return out(0).layout.numel * last_size(in(0));
  if (kernel == "convolution" && call.inputs.size() >= 2) {
    // Each output element of the forward product combines all input channels and positions of one filter.
    const auto which = static_cast<Convolution>(call.variant);
    const View& results = which == Convolution::forward ? out(0) : which == Convolution::by_data ? in(0) : in(1);
    const View& weight = which == Convolution::by_weight ? out(0) : in(1);
    return results.layout.numel * extent(weight, 1);
  }
  if (kernel == "attention" && call.inputs.size() >= 3) {
    return in(0).layout.numel * in(1).layout.sizes[2] + out(0).layout.numel * in(1).layout.sizes[2];
  }
  if (kernel == "recurrent" && call.outputs.size() >= 2) return out(1).layout.numel * last_size(out(0));
  if (kernel == "recurrent_gradient" && !call.outputs.empty()) {
    return out(0).layout.numel * last_size(*call.inputs.back());
  }
  return 0;
}

SummaryRecorder::SummaryRecorder(const Module& module) : guard_(*this) {
  std::unordered_set<const void*> met;
  const auto count = [&](LayerSummary& layer, const Module& m) {
    for (const NamedTensor& p : m.named_parameters()) {
      if (p.name.find('.') != std::string::npos || !met.insert(p.tensor.impl()).second) continue;
      (p.tensor.requires_grad() ? layer.trainable : layer.frozen) += p.tensor.numel();
      layer.parameter_bytes += p.tensor.numel() * itemsize(p.tensor.dtype());
    }
  };
  for (const auto& [name, m] : module.named_modules()) {
    LayerSummary layer{name, m.class_name()};
    if (!name.empty()) layer.depth = 1 + static_cast<int>(std::ranges::count(name, '.'));
    count(layer, m);
    summary_.layers.push_back(std::move(layer));
  }
}

void SummaryRecorder::leave(size_t i, std::span<const Tensor> outputs) {
  LayerSummary& layer = summary_.layers.at(i);
  layer.outputs.clear();
  for (const Tensor& t : outputs) {
    if (!t.defined()) continue;
    layer.outputs.push_back(t.shape());
    layer.output_bytes += t.numel() * itemsize(t.dtype());
  }
  if (!running_.empty()) running_.pop_back();
}

void SummaryRecorder::after(const KernelCall& call) {
  if (summary_.layers.empty()) return;
  summary_.layers[running_.empty() ? 0 : running_.back()].multiply_adds += multiply_adds(call);
}

LayerSummary Summary::total() const {
  LayerSummary all{"total", ""};
  for (const LayerSummary& l : layers) {
    all.trainable += l.trainable, all.frozen += l.frozen;
    all.parameter_bytes += l.parameter_bytes, all.multiply_adds += l.multiply_adds;
    // The outputs of a module with submodules are counted at the submodules.
    const bool is_leaf = &l == &layers.back() || (&l + 1)->depth <= l.depth;
    if (is_leaf) all.output_bytes += l.output_bytes;
  }
  if (!layers.empty()) all.outputs = layers.front().outputs;
  return all;
}

std::string Summary::text(int width) const {
  std::vector<Row> rows = {{"layer", "output", "parameters", "memory", "outputs", "multiply-adds"}};
  for (const LayerSummary& l : layers) {
    const std::string name = l.name.substr(l.name.rfind('.') + 1);
    const std::string label = name.empty() ? l.class_name : fmt::format("{}: {}", name, l.class_name);
    rows.push_back(row_of(std::string(static_cast<size_t>(2 * l.depth), ' ') + label, l));
  }
  rows.push_back(row_of("total", total()));
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  // Shortens the first two columns if the table is too wide.
  size_t all = 2 * (widths.size() - 1);
  for (const size_t w : widths) all += w;
  const auto most = static_cast<size_t>(std::max(width, 0));
  for (const size_t column : {size_t{0}, size_t{1}}) {
    const size_t least = 8, over = all > most ? all - most : 0;
    const size_t cut = widths[column] > least ? std::min(over, widths[column] - least) : 0;
    widths[column] -= cut, all -= cut;
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    if (r == 1 || r + 1 == rows.size()) text += std::string(all, '-') + "\n";
    for (size_t i = 0; i < widths.size(); ++i) {
      const std::string cell = shortened_to(rows[r][i], widths[i]);
      if (i > 0) text += "  ";
      text += i < 2 ? fmt::format("{:<{}}", cell, widths[i]) : fmt::format("{:>{}}", cell, widths[i]);
    }
    text += "\n";
  }
  return text;
}

std::string Summary::json() const {
  std::string text = "{\"layers\": [";
  for (const LayerSummary& l : layers) text += (&l == layers.data() ? "" : ", ") + json_of(l);
  return text + "], \"total\": " + json_of(total()) + "}";
}

Summary detail::summarize(const Module& model, const Callback<void()>& run) {
  SummaryRecorder recorder(model);
  std::vector<HookHandle> hooks;
  std::vector<std::pair<std::string, Module>> modules = model.named_modules();
  for (size_t i = 0; i < modules.size(); ++i) {
    hooks.push_back(modules[i].second.register_forward_pre_hook([&, i](const ForwardEvent&) { recorder.enter(i); }));
    hooks.push_back(
        modules[i].second.register_forward_hook([&, i](const ForwardEvent& e) { recorder.leave(i, e.outputs); }));
  }
  run();
  for (HookHandle& hook : hooks) hook.remove();
  return recorder.summary();
}

}  // namespace weft::nn
