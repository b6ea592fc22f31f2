#include <algorithm>
#include <map>
#include <tuple>

#include <fmt/format.h>

#include "../../autograd/gradient_rows.hpp"
#include "../detail/graph_text.hpp"
#include "../detail/text.hpp"
#include "memory_notes.hpp"

namespace weft {

std::string_view to_string(MemoryKind kind) {
  constexpr std::string_view names[memory_kind_count] = {"parameter", "gradient", "activation", "optimizer", "other"};
  return names[static_cast<int>(kind)];
}

namespace detail {

std::string made_by(const std::string& op, Location where) {
  const std::string line = where.known() ? where.text() : "an unknown line";
  return op.empty() ? line : fmt::format("{} at {}", op, line);
}

std::map<const Storage*, NamedStorage> named_storages(const NamedTensors& parameters) {
  std::map<const Storage*, NamedStorage> named;
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.defined()) continue;
    named[tensor.impl()->storage] = {name, MemoryKind::parameter, tensor};
    if (const Tensor g = gradient_values(tensor); g.defined())
      named[g.impl()->storage] = {name + ".grad", MemoryKind::gradient, g};
  }
  return named;
}

MemorySnapshot snapshot_of(Device device, std::vector<LiveMemory> tensors, Location where) {
  std::stable_sort(tensors.begin(), tensors.end(),
                   [](const LiveMemory& a, const LiveMemory& b) { return a.bytes > b.bytes; });
  return {device, memory_stats(device, where), std::move(tensors)};
}

}  // namespace detail

size_t MemorySnapshot::known() const {
  size_t sum = 0;
  for (const LiveMemory& t : tensors) sum += t.bytes;
  return sum;
}
size_t MemorySnapshot::of(MemoryKind kind) const {
  size_t sum = 0;
  for (const LiveMemory& t : tensors) sum += t.kind == kind ? t.bytes : 0;
  return sum;
}
size_t MemorySnapshot::unknown() const { return stats.allocated - std::min(stats.allocated, known()); }
size_t MemorySnapshot::cached() const { return stats.reserved - std::min(stats.reserved, stats.allocated); }

namespace {

std::string in_words(size_t bytes) { return detail::bytes_text(static_cast<int64_t>(bytes)); }

struct Together {
  size_t bytes = 0, tensors = 0;
  const LiveMemory* first = nullptr;
};

std::vector<Together> by_line(const std::vector<LiveMemory>& tensors) {
  std::map<std::tuple<MemoryKind, std::string, std::string, std::string>, Together> lines;
  for (const LiveMemory& t : tensors) {
    Together& line = lines[{t.kind, t.name.empty() ? t.op : t.name, t.where.known() ? t.where.text() : "", t.module}];
    line.bytes += t.bytes, ++line.tensors;
    if (line.first == nullptr) line.first = &t;
  }
  std::vector<Together> sorted;
  for (const auto& [key, line] : lines) sorted.push_back(line);
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](const Together& a, const Together& b) { return a.bytes > b.bytes; });
  return sorted;
}

std::string maker_of(const LiveMemory& t) {
  const std::string module = t.module.empty() ? "" : fmt::format(", in {}", t.module);
  if (t.name.empty()) return detail::made_by(t.op, t.where) + module;
  return t.where.known() ? fmt::format("{}, {}{}", t.name, detail::made_by(t.op, t.where), module) : t.name;
}

}  // namespace

std::vector<std::string> detail::lines_of(const MemorySnapshot& snapshot, size_t max_lines) {
  std::vector<std::string> out;
  for (const Together& line : by_line(snapshot.tensors)) {
    if (out.size() == max_lines) break;
    const LiveMemory& t = *line.first;
    out.push_back(fmt::format("{}: {}{}{}", in_words(line.bytes),
                              t.name.empty() ? fmt::format("{} of ", to_string(t.kind)) : "", maker_of(t),
                              line.tensors == 1 ? "" : fmt::format(", {} tensors", line.tensors)));
  }
  return out;
}

std::string MemorySnapshot::text(size_t most_lines) const {
  std::string text = fmt::format("{}: {} allocated, {} at most, {} reserved\n", device.name(),
                                 in_words(stats.allocated), in_words(stats.peak_allocated), in_words(stats.reserved));
  for (int k = 0; k < memory_kind_count; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    text += fmt::format("{:>12}  {}\n", in_words(of(kind)), to_string(kind));
  }
  text += fmt::format("{:>12}  workspaces, and tensors that were not noted\n{:>12}  cached\n", in_words(unknown()),
                      in_words(cached()));
  const std::vector<Together> lines = by_line(tensors);
  if (lines.empty()) return text;
  text += "\n       bytes tensors  kind        made by\n";
  size_t left = 0;
  for (size_t i = 0; i < lines.size(); ++i) {
    if (i >= most_lines) {
      left += lines[i].bytes;
      continue;
    }
    const LiveMemory& t = *lines[i].first;
    text += fmt::format("{:>12} {:>7}  {:<10}  {}\n", in_words(lines[i].bytes), lines[i].tensors, to_string(t.kind),
                        maker_of(t));
  }
  if (lines.size() > most_lines) {
    text += fmt::format("{:>12}          of {} other lines\n", in_words(left), lines.size() - most_lines);
  }
  return text;
}

std::string MemorySnapshot::json() const {
  using detail::json_text;
  std::string kinds, list;
  for (int k = 0; k < memory_kind_count; ++k) {
    const auto kind = static_cast<MemoryKind>(k);
    kinds += fmt::format("{}\"{}\":{}", k == 0 ? "" : ",", to_string(kind), of(kind));
  }
  for (const LiveMemory& t : tensors) {
    list += fmt::format(
        "{}\n{{\"bytes\":{},\"kind\":\"{}\",\"name\":{},\"op\":{},\"file\":{},\"line\":{},\"module\":{},\"step\":{}}}",
        list.empty() ? "" : ",", t.bytes, to_string(t.kind), json_text(t.name), json_text(t.op),
        json_text(t.where.known() ? t.where.file() : ""), t.where.known() ? t.where.line() : 0, json_text(t.module),
        t.step);
  }
  return fmt::format(
      "{{\"device\":{},\"allocated\":{},\"peak_allocated\":{},\"reserved\":{},\"kinds\":{{{}}},\"unknown\":{},"
      "\"tensors\":[{}]}}\n",
      json_text(device.name()), stats.allocated, stats.peak_allocated, stats.reserved, kinds, unknown(), list);
}

}  // namespace weft
