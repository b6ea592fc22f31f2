// The report's data: a history as JSON, no more of it than a page can show.
#include "../recorder.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "../detail/report_page.hpp"
#include "../detail/text.hpp"
#include "../detail/ticks.hpp"

namespace weft {

namespace {

constexpr size_t columns = 240;

/// Steps at equal distances, the last one always among them.
std::vector<const RecordedStep*> shown_steps(const History& history) {
  const size_t n = history.steps.size(), stride = (n + columns - 1) / columns;
  std::vector<const RecordedStep*> out;
  for (size_t i = 0; i < n; ++i) {
    if ((n - 1 - i) % stride == 0) out.push_back(&history.steps[i]);
  }
  return out;
}

template <class F>
std::string list(size_t n, F text) {
  std::string out = "[";
  for (size_t i = 0; i < n; ++i) {
    if (i > 0) out += ',';
    out += text(i);
  }
  return out + "]";
}

std::string short_number(const std::optional<double>& v) {
  return v && std::isfinite(*v) ? detail::json_number(*v, 4) : "null";
}

std::string loss_text(const std::optional<double>& loss) {
  if (!loss || std::isfinite(*loss)) return short_number(loss);
  return std::isnan(*loss) ? "\"NaN\"" : *loss > 0 ? "\"∞\"" : "\"−∞\"";
}

std::string ticks_json(const std::vector<double>& ticks) {
  return list(ticks.size(), [&](size_t i) { return detail::json_number(ticks[i], 15); });
}

/// For axes of any width: ticks from dense to sparse, the last a single one.
std::string step_ticks(const std::vector<const RecordedStep*>& steps) {
  if (steps.empty()) return "[]";
  const auto first = static_cast<double>(steps.front()->step), last = static_cast<double>(steps.back()->step);
  std::vector<std::string> lists;
  for (int most = 12; most > 0; --most) {
    std::string text = ticks_json(detail::round_ticks(first, last, most, 1));
    if (text != "[]" && (lists.empty() || lists.back() != text)) lists.push_back(std::move(text));
  }
  lists.push_back(ticks_json({last}));
  return list(lists.size(), [&](size_t i) { return lists[i]; });
}

std::string loss_ticks(const std::vector<const RecordedStep*>& steps) {
  double low = INFINITY, high = -INFINITY;
  for (const RecordedStep* s : steps) {
    if (s->loss && std::isfinite(*s->loss)) low = std::min(low, *s->loss), high = std::max(high, *s->loss);
  }
  return ticks_json(detail::round_ticks(low, high, 3));
}

/// One figure of a tensor over the steps.
template <class F>
std::string course(const std::vector<const RecordedStep*>& steps, size_t which, F figure) {
  return list(steps.size(), [&](size_t i) -> std::string {
    if (which >= steps[i]->of.size()) return "null";
    return short_number(figure(steps[i]->of[which]));
  });
}

using Part = std::optional<Statistics> Observation::*;

std::string statistics_json(const std::vector<const RecordedStep*>& steps, size_t which, Part part) {
  // Of a tensor without finite elements only the count of the others is known.
  const auto any = [&](auto take) {
    return course(steps, which, [&](const Observation& o) -> std::optional<double> {
      const std::optional<Statistics>& s = o.*part;
      return s ? std::optional<double>(take(*s)) : std::nullopt;
    });
  };
  const auto figure = [&](auto take) {
    return any([&](const Statistics& s) { return s.non_finite < s.count || s.count == 0 ? take(s) : NAN; });
  };
  return fmt::format(
      R"({{"rms":{},"norm":{},"mean":{},"deviation":{},"low":{},"high":{},"zeros":{},"bad":{}}})",
      figure([](const Statistics& s) { return s.rms(); }), figure([](const Statistics& s) { return s.norm; }),
      figure([](const Statistics& s) { return s.mean; }), figure([](const Statistics& s) { return s.deviation; }),
      figure([](const Statistics& s) { return s.low; }), figure([](const Statistics& s) { return s.high; }),
      figure([](const Statistics& s) { return s.zero_share(); }),
      any([](const Statistics& s) { return static_cast<double>(s.non_finite); }));
}

using Bins = Shared<const Histogram> Observation::*;

/// Shares of the elements by size, both signs together, at some twenty steps.
std::string histograms_json(const History& history, size_t which, Bins bins) {
  constexpr size_t most = 24;
  std::vector<const RecordedStep*> with;
  for (const RecordedStep& step : history.steps) {
    if (which < step.of.size() && step.of[which].*bins) with.push_back(&step);
  }
  const size_t stride = std::max<size_t>(1, (with.size() + most - 1) / most);
  std::erase_if(with, [&](const RecordedStep*& s) {
    return (with.size() - 1 - static_cast<size_t>(&s - with.data())) % stride != 0;
  });
  return list(with.size(), [&](size_t i) {
    const Histogram& h = *(with[i]->of[which].*bins);
    const double all = std::max<double>(1, static_cast<double>(h.count()));
    return fmt::format(
        R"({{"step":{},"zeros":{},"shares":{}}})", with[i]->step, short_number(h.zeros / all),
        list(Histogram::bins, [&](size_t b) { return short_number((h.negative[b] + h.positive[b]) / all); }));
  });
}

std::string watched_json(const History& history, const std::vector<const RecordedStep*>& steps, size_t i) {
  const auto ratio = course(steps, i, [](const Observation& o) { return o.update_ratio; });
  return fmt::format(
      R"({{"name":{},"kind":"{}","gradient":{},"value":{},"ratio":{},"gradientBins":{},"valueBins":{}}})",
      detail::json_text(history.watched[i].name),
      history.watched[i].kind == WatchedKind::parameter ? "parameter" : "activation",
      statistics_json(steps, i, &Observation::gradient), statistics_json(steps, i, &Observation::value), ratio,
      histograms_json(history, i, &Observation::gradient_histogram),
      histograms_json(history, i, &Observation::value_histogram));
}

}  // namespace

std::string report_html(const History& history, const std::string& title) {
  const auto steps = shown_steps(history);
  const auto suspects = find_suspects(history);
  const std::string data = fmt::format(
      R"({{"title":{},"lowest":{},"recorded":{},"steps":{},"stepTicks":{},"loss":{},"lossTicks":{},"watched":{},"suspects":{}}})",
      detail::json_text(title), Histogram::lowest, history.steps.size(),
      list(steps.size(), [&](size_t i) { return std::to_string(steps[i]->step); }), step_ticks(steps),
      list(steps.size(), [&](size_t i) { return loss_text(steps[i]->loss); }), loss_ticks(steps),
      list(history.watched.size(), [&](size_t i) { return watched_json(history, steps, i); }),
      list(suspects.size(), [&](size_t i) {
        return fmt::format(
            R"({{"trouble":"{}","which":{},"text":{},"followers":{}}})", name_of(suspects[i].trouble),
            suspects[i].which, detail::json_text(suspects[i].text),
            list(suspects[i].followers.size(), [&](size_t f) { return std::to_string(suspects[i].followers[f]); }));
      }));
  return detail::report_page(title, data);
}

}  // namespace weft
