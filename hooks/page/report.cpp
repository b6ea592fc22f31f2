// The data of the report page: a history as JSON, reduced to the size that a page can show.
#include "../report.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../detail/columns.hpp"
#include "../detail/report_page.hpp"
#include "../detail/text.hpp"
#include "../detail/ticks.hpp"
#include "../suspects.hpp"

namespace weft {

namespace {

using detail::Cell;
using detail::Columns;

template <class F>
std::string list(size_t n, F text) {
  std::string out = "[";
  for (size_t i = 0; i < n; ++i) {
    if (i > 0) out += ',';
    out += text(i);
  }
  return out + "]";
}

std::string short_number(double v) { return std::isfinite(v) ? detail::json_number(v, 4) : "null"; }

std::string loss_text(double loss) {
  if (std::isfinite(loss)) return short_number(loss);
  return std::isnan(loss) ? "\"NaN\"" : loss > 0 ? "\"∞\"" : "\"−∞\"";
}

std::string ticks_json(const std::vector<double>& ticks) {
  return list(ticks.size(), [&](size_t i) { return detail::json_number(ticks[i], 15); });
}

/// Lists of ticks for any axis width, from dense to sparse; the last has a single tick.
std::string step_ticks(const Columns& columns) {
  if (columns.size() == 0) return "[]";
  const auto first = static_cast<double>(columns.step(0)), last = static_cast<double>(columns.step(columns.size() - 1));
  std::vector<std::string> lists;
  for (int limit = 12; limit > 0; --limit) {
    std::string text = ticks_json(detail::round_ticks(first, last, limit, 1));
    if (text != "[]" && (lists.empty() || lists.back() != text)) lists.push_back(std::move(text));
  }
  lists.push_back(ticks_json({last}));
  return list(lists.size(), [&](size_t i) { return lists[i]; });
}

std::string loss_json(const Columns& columns) {
  double low = INFINITY, high = -INFINITY;
  for (size_t c = 0; c < columns.size(); ++c) {
    low = std::min(low, columns.loss(c).low), high = std::max(high, columns.loss(c).high);
  }
  const auto of = [&](auto take) { return list(columns.size(), [&](size_t c) { return take(columns.loss(c)); }); };
  std::string out = fmt::format(R"("loss":{},"lossTicks":{})",
                                of([](const detail::LossColumn& l) { return l.last ? loss_text(*l.last) : "null"; }),
                                ticks_json(detail::round_ticks(low, high, 3)));
  if (columns.merged()) {
    out += fmt::format(R"(,"lossLow":{},"lossHigh":{})", of([](const auto& l) { return short_number(l.low); }),
                       of([](const auto& l) { return short_number(l.high); }));
  }
  return out;
}

using Figure = double Cell::*;

/// The values of a figure over the columns.
std::string course(std::span<const Cell> cells, Figure figure) {
  return list(cells.size(), [&](size_t c) { return short_number(cells[c].*figure); });
}

std::string statistics_json(std::span<const Cell> cells, bool merged) {
  std::string out = fmt::format(R"({{"rms":{},"mean":{},"deviation":{},"low":{},"high":{},"zeros":{})",
                                course(cells, &Cell::rms), course(cells, &Cell::mean), course(cells, &Cell::deviation),
                                course(cells, &Cell::low), course(cells, &Cell::high), course(cells, &Cell::zeros));
  if (merged) out += fmt::format(R"(,"least":{})", course(cells, &Cell::least));
  if (std::ranges::any_of(cells, [](const Cell& c) { return c.bad > 0; })) {
    out += fmt::format(R"(,"bad":{})", list(cells.size(), [&](size_t c) { return std::to_string(cells[c].bad); }));
  }
  return out + '}';
}

using Bins = Shared<const Histogram> Observation::*;

/// Histograms of magnitude, both signs together, for about 24 steps, or 6 if there are many tensors.
std::string histograms_json(const History& history, size_t index, Bins bins) {
  const size_t limit = history.watched.size() > 200 ? 6 : 24;
  std::vector<const HistoryStep*> with;
  for (const HistoryStep& step : history.steps) {
    if (index < step.observations.size() && step.observations[index].*bins) with.push_back(&step);
  }
  const size_t stride = std::max<size_t>(1, (with.size() + limit - 1) / limit), all = with.size();
  std::vector<const HistoryStep*> shown;
  for (size_t i = 0; i < all; ++i) {
    if ((all - 1 - i) % stride == 0) shown.push_back(with[i]);
  }
  return list(shown.size(), [&](size_t i) {
    const Histogram& h = *(shown[i]->observations[index].*bins);
    const double count = std::max<double>(1, static_cast<double>(h.count()));
    int first = Histogram::bins, last = -1;
    const auto at = [&](int b) {
      return static_cast<double>(h.negative[static_cast<size_t>(b)]) + h.positive[static_cast<size_t>(b)];
    };
    for (int b = 0; b < Histogram::bins; ++b) {
      if (at(b) > 0) first = std::min(first, b), last = b;
    }
    const auto shares = list(static_cast<size_t>(std::max(0, last + 1 - first)),
                             [&](size_t b) { return detail::json_number(at(first + static_cast<int>(b)) / count, 3); });
    return fmt::format(R"({{"step":{},"zeros":{},"first":{},"shares":{}}})", shown[i]->step,
                       short_number(h.zeros / count), last < 0 ? 0 : first, shares);
  });
}

std::string watched_json(const History& history, const Columns& columns, size_t i) {
  const Watched& w = history.watched[i];
  std::string out = fmt::format(
      R"({{"name":{},"kind":"{}","count":{},"gradient":{},"value":{},"ratio":{},"gradientBins":{},"valueBins":{})",
      detail::json_text(w.name), w.kind == WatchedKind::parameter ? "parameter" : "activation", columns.count(i),
      statistics_json(columns.gradients(i), columns.merged()), statistics_json(columns.values(i), columns.merged()),
      course(columns.values(i), &Cell::ratio), histograms_json(history, i, &Observation::gradient_histogram),
      histograms_json(history, i, &Observation::value_histogram));
  if (!w.op.empty()) out += fmt::format(R"(,"op":{},"place":{})", detail::json_text(w.op), detail::json_text(w.place));
  return out + '}';
}

std::string numbers(const std::vector<size_t>& indices) {
  return list(indices.size(), [&](size_t i) { return std::to_string(indices[i]); });
}

/// The last backward trace, for a tensor's line and neighbours.
std::string trace_json(const History& history) {
  if (history.traces.empty()) return "null";
  const Trace& trace = history.traces.back();
  constexpr size_t limit = 8192;
  const size_t shown = std::min(trace.passages.size(), limit);
  return fmt::format(
      R"({{"step":{},"sites":{},"passages":{},"arrivals":{}}})", trace.step,
      list(history.sites.size(),
           [&](size_t i) {
             const OpSite& s = history.sites[i];
             return fmt::format(R"({{"op":{},"place":{},"parameters":{}}})", detail::json_text(s.op),
                                detail::json_text(s.place), numbers(s.parameters));
           }),
      list(shown,
           [&](size_t i) {
             const Passage& p = trace.passages[i];
             return fmt::format("[{},{},{},{}]", p.site, p.from, short_number(p.arrived), short_number(p.left));
           }),
      list(trace.arrivals.size(), [&](size_t i) {
        const Arrival& a = trace.arrivals[i];
        return fmt::format("[{},{}]", a.index, a.from < static_cast<int64_t>(shown) ? a.from : Passage::loss);
      }));
}

/// Memory of each device, by kind over one step, and over all steps.
std::string memory_json(const History& history) {
  return list(history.memory.size(), [&](size_t i) {
    const DeviceMemory& m = history.memory[i];
    const auto texts = [](const std::vector<std::string>& lines) {
      return list(lines.size(), [&](size_t k) { return detail::json_text(lines[k]); });
    };
    return fmt::format(R"({{"device":{},"step":{},"curve":{},"atPeak":{},"growth":{},"totals":{}}})",
                       detail::json_text(m.device), m.step,
                       list(m.curve.size(),
                            [&](size_t k) {
                              return fmt::format("[{},{}]", short_number(m.curve[k].at),
                                                 fmt::join(m.curve[k].bytes, ","));
                            }),
                       texts(m.at_peak), texts(m.growth), list(m.totals.size(), [&](size_t k) {
                         return fmt::format("[{},{},{}]", m.totals[k].step, m.totals[k].peak, m.totals[k].kept);
                       }));
  });
}

std::string suspects_json(const std::vector<Suspect>& suspects) {
  return list(suspects.size(), [&](size_t i) {
    const Suspect& s = suspects[i];
    return fmt::format(R"({{"trouble":"{}","which":{},"text":{},"followers":{}}})", name_of(s.trouble), s.index,
                       detail::json_text(s.text), numbers(s.followers));
  });
}

std::string report_json(const History& history, const std::string& title, const std::string& note) {
  const Columns columns(history);
  const auto steps = [&](auto number) {
    return list(columns.size(), [&](size_t c) { return std::to_string(number(c)); });
  };
  return fmt::format(
      R"({{"title":{},"note":{},"lowest":{},"bins":{},"recorded":{},"steps":{},"from":{},"stepTicks":{},{},"watched":{},"suspects":{},"trace":{},"memory":{}}})",
      detail::json_text(title), detail::json_text(note), Histogram::lowest, Histogram::bins, history.steps.size(),
      steps([&](size_t c) { return columns.step(c); }), steps([&](size_t c) { return columns.first_step(c); }),
      step_ticks(columns), loss_json(columns),
      list(history.watched.size(), [&](size_t i) { return watched_json(history, columns, i); }),
      suspects_json(find_suspects(history)), trace_json(history), memory_json(history));
}

}  // namespace

std::string report_html(const History& history, const std::string& title, const std::string& note) {
  return detail::report_page(title, report_json(history, title, note));
}

std::string comparison_html(const TitledHistory& left, const TitledHistory& right) {
  const std::string title = left.title + " and " + right.title;
  return detail::comparison_page(
      title, fmt::format(R"({{"title":{},"runs":[{},{}]}})", detail::json_text(title),
                         report_json(left.history, left.title, ""), report_json(right.history, right.title, "")));
}

}  // namespace weft
