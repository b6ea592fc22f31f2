// Writes a recorded step as a line of JSON; io/gradient_history.cpp reads it.
//
// The detection of suspects reads only this history, so it gives the same results for a log from another machine.
// Each new field of the recorder is also written here.
#include "../report.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <span>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../detail/program_fields.hpp"
#include "../detail/text.hpp"

namespace weft {

namespace {

std::string number(double v) { return detail::json_number(v, 6); }

template <class Items, class F>
std::string list(const Items& items, F text) {
  std::string out = "[";
  for (const auto& item : items) out += (out.size() > 1 ? "," : "") + text(item);
  return out + "]";
}

std::string json(const Statistics& s) {
  const double bad = s.count > 0 ? static_cast<double>(s.non_finite) / static_cast<double>(s.count) : 0;
  return fmt::format(
      R"({{"count":{},"norm":{},"mean":{},"deviation":{},"low":{},"high":{},"zeros":{},"non_finite":{}}})", s.count,
      number(s.norm), number(s.mean), number(s.deviation), number(s.low), number(s.high), number(s.zero_share()),
      number(bad));
}

// Bins from the first to the last non-empty one; "from" is the power of two of the first.
std::string json(const Histogram& h) {
  int first = Histogram::bins, last = -1;
  for (int i = 0; i < Histogram::bins; ++i) {
    const auto at = static_cast<size_t>(i);
    if (h.negative[at] + h.positive[at] == 0) continue;
    first = std::min(first, i), last = i;
  }
  if (last < 0) first = 0;
  const auto counts = [&](const auto& bins) {
    return list(std::span(bins).subspan(static_cast<size_t>(first), static_cast<size_t>(last + 1 - first)),
                [](uint32_t n) { return std::to_string(n); });
  };
  return fmt::format(R"({{"zeros":{},"non_finite":{},"from":{},"negative":{},"positive":{}}})", h.zeros, h.non_finite,
                     first + Histogram::lowest, counts(h.negative), counts(h.positive));
}

std::string json(const Watched& w, const Observation& o) {
  std::string parts;
  const auto add = [&](const char* key, const std::string& value) {
    parts += fmt::format("{}\"{}\":{}", parts.empty() ? "" : ",", key, value);
  };
  if (o.gradient) add("gradient", json(*o.gradient));
  if (o.value) add("value", json(*o.value));
  if (o.update_ratio) add("update_ratio", number(*o.update_ratio));
  if (w.kind == WatchedKind::activation) add("kind", "\"activation\"");
  if (w.epsilon != Watched{}.epsilon) add("epsilon", number(w.epsilon));
  if (!w.trained) add("trained", "false");
  if (!w.op.empty()) add("op", detail::json_text(w.op)), add("place", detail::json_text(w.place));
  if (o.gradient_histogram) add("gradient_bins", json(*o.gradient_histogram));
  if (o.value_histogram) add("value_bins", json(*o.value_histogram));
  return '{' + parts + '}';
}

/// A trace with the sites that it passes, so that each line is self-contained.
std::string json(const History& history, const Trace& trace) {
  std::map<size_t, size_t> numbers;
  std::vector<const OpSite*> sites;
  const auto number_of = [&](size_t site) {
    const auto [entry, fresh] = numbers.try_emplace(site, sites.size());
    if (fresh) sites.push_back(&history.sites[site]);
    return entry->second;
  };
  const std::string passages = list(trace.passages, [&](const Passage& p) {
    std::string out =
        fmt::format("[{},{},{},{},{}", number_of(p.site), p.from, number(p.arrived), number(p.left), p.count);
    if (p.slopes > 0) {
      out += fmt::format(",{},{},{},{},{}", p.slopes, number(p.closed), number(p.flat), number(p.low), number(p.high));
    }
    return out + ']';
  });
  const auto name = [&](size_t index) { return detail::json_text(history.watched[index].name); };
  const std::string arrivals = list(trace.arrivals, [&](const Arrival& a) {
    return fmt::format("[{},{},{}]", name(a.index), a.from, number(a.norm));
  });
  const std::string passed = list(sites, [&](const OpSite* s) {
    return fmt::format(R"({{"op":{},"place":{},"parameters":{}}})", detail::json_text(s->op),
                       detail::json_text(s->place), list(s->parameters, name));
  });
  return fmt::format(R"({{"sites":{},"passages":{},"arrivals":{}}})", passed, passages, arrivals);
}

std::string json(const MutualBroadcast& m) {
  using detail::json_text;
  return fmt::format(R"({{"op":{},"place":{},"left":{},"right":{},"result":{},"steps":{}}})", json_text(m.op),
                     json_text(m.place), json_text(m.left), json_text(m.right), json_text(m.result), m.steps);
}

// ---- memory ---------------------------------------------------------------------------------------------------------

/// Memory of this step, with the curve if it belongs to this step. In a thinned history the last line has the curve.
std::string memory_json(const History& history, const HistoryStep& step) {
  using detail::json_text;
  const auto kept = [&](int64_t number) {
    return std::ranges::find(history.steps, number, &HistoryStep::step) != history.steps.end();
  };
  const bool is_last = !history.steps.empty() && &step == &history.steps.back();
  std::vector<std::string> devices;
  for (const DeviceMemory& m : history.memory) {
    const auto total = std::ranges::find(m.totals, step.step, &DeviceMemory::Total::step);
    const bool has_course = m.step == step.step || (is_last && !kept(m.step));
    if (total == m.totals.end() && !has_course) continue;
    std::string out = "{\"device\":" + json_text(m.device);
    if (total != m.totals.end()) out += fmt::format(",\"peak\":{},\"kept\":{}", total->peak, total->kept);
    if (has_course) {
      out += fmt::format(",\"course_of\":{},\"course\":", m.step);
      out += list(m.curve, [](const MemoryMoment& moment) {
        return fmt::format("[{},{}]", number(moment.at), fmt::join(moment.bytes, ","));
      });
      out += ",\"at_peak\":" + list(m.at_peak, detail::json_text);
    }
    if (!m.growth.empty()) out += ",\"growth\":" + list(m.growth, detail::json_text);
    devices.push_back(out + '}');
  }
  return devices.empty() ? "" : list(devices, [](const std::string& device) { return device; });
}

// ---- facts about the program ----------------------------------------------------------------------------------------

class FieldWriter {
 public:
  explicit FieldWriter(const History& history) : history_(history) {}

  template <class T>
  void operator()(const char* name, const T& value) {
    add(name, text(value));
  }
  void operator()(const char* name, const std::optional<double>& value) {
    if (value) add(name, text(*value));
  }
  void tensor(const char* name, std::optional<size_t> index) {
    if (index) add(name, text(history_.watched[*index].name));
  }
  std::string take() { return '{' + out_ + '}'; }

 private:
  void add(const char* name, const std::string& value) {
    out_ += fmt::format("{}\"{}\":{}", out_.empty() ? "" : ",", name, value);
  }
  std::string text(double v) const { return detail::json_number(v); }
  std::string text(int64_t v) const { return std::to_string(v); }
  std::string text(bool v) const { return v ? "true" : "false"; }
  std::string text(Cut::Kind v) const { return std::to_string(static_cast<int>(v)); }
  std::string text(const std::string& v) const { return detail::json_text(v); }
  template <class T>
  std::string text(const std::vector<T>& v) const {
    return list(v, [&](const T& item) { return text(item); });
  }
  template <class T>
  std::string text(const T& v) const {
    FieldWriter inner(history_);
    detail::fields_of(inner, v);
    return inner.take();
  }

  const History& history_;
  std::string out_;
};

template <class T>
std::vector<T> of_step(const std::vector<T>& all, int64_t step) {
  std::vector<T> out;
  std::ranges::copy_if(all, std::back_inserter(out), [&](const T& one) { return one.step == step; });
  return out;
}

/// Facts of this step; in a traced step also all cumulative facts.
std::string json(const History& history, int64_t step, bool traced) {
  const ProgramFacts& p = history.program;
  FieldWriter out(history);
  const auto add = [&](const char* name, const auto& all) {
    if (!all.empty()) out(name, all);
  };
  if (p.model.inputs > 0 || p.model.trained > 0 || p.model.unrecorded > 0) out("model", p.model);
  add("single_batches", p.single_batches);
  add("clippings", of_step(p.clippings, step)), add("optimizer_steps", of_step(p.optimizer_steps, step));
  if (traced) {
    add("cuts", p.cuts), add("hook_changes", p.hook_changes), add("half_casts", p.half_casts);
    add("losses", p.losses), add("shared", p.shared), add("calls", p.calls);
  }
  return out.take();
}

}  // namespace

std::string json_line(const History& history, const HistoryStep& step) {
  std::string out = fmt::format("{{\"step\":{},", step.step);
  if (step.loss) out += fmt::format("\"loss\":{},", detail::json_number(*step.loss));
  out += "\"tensors\":{";
  for (size_t i = 0; i < step.observations.size(); ++i) {
    out += fmt::format("{}{}:{}", i == 0 ? "" : ",", detail::json_text(history.watched[i].name),
                       json(history.watched[i], step.observations[i]));
  }
  out += '}';
  const auto trace = std::ranges::find(history.traces, step.step, &Trace::step);
  if (trace != history.traces.end()) {
    out += ",\"trace\":" + json(history, *trace);
    if (!history.broadcasts.empty()) {
      out += ",\"broadcasts\":" + list(history.broadcasts, [](const MutualBroadcast& m) { return json(m); });
    }
  }
  const std::string program = json(history, step.step, trace != history.traces.end());
  if (program != "{}") out += ",\"program\":" + program;
  const std::string memory = memory_json(history, step);
  if (!memory.empty()) out += ",\"memory\":" + memory;
  return out + '}';
}

}  // namespace weft
