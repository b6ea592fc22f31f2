#include "run_log.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>

#include <unistd.h>

#include <fmt/chrono.h>
#include <fmt/format.h>

#include "../hooks/detail/text.hpp"
#include "file.hpp"
#include "files/folder-inl.hpp"
#include "json/json_tree-inl.hpp"
#include "../tensor/callback.hpp"

namespace weft::io {

namespace {

// Creates the folder at once, so that two runs that start in the same second have different folders.
Path folder_of_this_run(Location where) {
  make_folder("runs", "RunLog", where);
  const std::tm now = fmt::localtime(std::time(nullptr));
  const std::string name = fmt::format("runs/{:%Y%m%d-%H%M%S}", now);
  std::string mine = name;
  for (int i = 2; !make_new_folder(mine, "RunLog", where); ++i) mine = fmt::format("{}-{}", name, i);
  return mine;
}

double steady_seconds() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

std::string duration(double seconds) {
  const auto s = static_cast<int64_t>(seconds + 0.5);
  return s < 3600 ? fmt::format("{}:{:02}", s / 60, s % 60)
                  : fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::optional<LoggedStep> logged_step(std::string_view line) {
  try {
    const JsonTree tree = parse_json(line, "RunLog", Location::none());
    const JsonNode place(tree, "RunLog", Location::none());
    LoggedStep out{.step = place.at("step").integer()};
    for (const auto& [name, value] : tree.items) {
      if (name != "step") out.figures.emplace_back(name, place.at(name).number());
    }
    return out;
  } catch (const FormatError&) {
    return {};
  }
}

template <class F>
void each_logged(const Path& file, Location where, F&& f) {
  if (size_of_file(file) < 0) return;
  const std::string text = read_file(file, "RunLog", where);
  for (size_t from = 0, end; (end = text.find('\n', from)) != text.npos; from = end + 1) {
    const std::string_view line = std::string_view(text).substr(from, end - from);
    if (std::optional<LoggedStep> step = logged_step(line)) f(line, *step);
  }
}

constexpr std::string_view speed_suffix = "_per_s";

// "train_loss" becomes "loss", "val_loss" "validation", "tokens_per_s" "tokens/s".
std::string shown_name(const std::string& name) {
  if (name == "train_loss") return "loss";
  if (name == "val_loss") return "validation";
  if (name.ends_with(speed_suffix)) return name.substr(0, name.size() - speed_suffix.size()) + "/s";
  std::string out = name;
  std::ranges::replace(out, '_', ' ');
  return out;
}

}  // namespace

std::vector<LoggedStep> read_metrics(const Path& file, Location where) {
  std::vector<LoggedStep> out;
  each_logged(file, where, [&](std::string_view, LoggedStep& step) { out.push_back(std::move(step)); });
  return out;
}

struct RunLog::State {
  Path folder;
  int64_t first, last;
  std::optional<GrowingFile> lines = {};
  bool told_of_failure = false;
  bool terminal = ::isatty(STDOUT_FILENO) == 1;
  /// In seconds of the steady clock.
  double start = steady_seconds();
  /// In the order of their first occurrence.
  std::vector<Series> curves = {};
  std::map<std::string, double> speeds = {};

  Path file() const { return folder / "metrics.jsonl"; }
  void keep_earlier(const Callback<bool(const LoggedStep&)>& stays, Location where);
  void replace_at_first(const Figures& figures);
  void write(int64_t step, const Figures& figures);
  void remember(int64_t step, const Figures& figures);
  double smoothed_speed(const std::string& name, double value);
  void show(int64_t step, const Figures& figures);
  Series drawn(const Series& curve) const;
};

RunLog::RunLog(Path folder, int64_t first, int64_t last, Location where) {
  if (folder.empty()) folder = folder_of_this_run(where);
  else make_folder(folder, "RunLog", where);
  state_ = weft::detail::Pimpl(new State{std::move(folder), first, last});
  state_->keep_earlier([first](const LoggedStep& step) { return first > 0 && step.step <= first; }, where);
}

void RunLog::State::keep_earlier(const Callback<bool(const LoggedStep&)>& stays, Location where) {
  std::string before;
  std::vector<LoggedStep> steps;
  each_logged(file(), where, [&](std::string_view line, LoggedStep& step) {
    if (!stays(step)) return;
    before.append(line) += '\n';
    steps.push_back(std::move(step));
  });
  lines.emplace(file(), "RunLog", where);
  lines->add(before);
  curves.clear();
  for (const LoggedStep& step : steps) remember(step.step, step.figures);
  lines->flush(where);
}

// An evaluation after the state was saved is repeated and logged again.
void RunLog::State::replace_at_first(const Figures& figures) {
  const auto comes_again = [&](const LoggedStep& step) {
    return step.step == first && std::ranges::any_of(step.figures, [&](const auto& old) {
             return std::ranges::find(figures, old.first, &Figures::value_type::first) != figures.end();
           });
  };
  try {
    if (lines->waiting() > 0) lines->flush(Location::none());
    bool found = false;
    each_logged(file(), Location::none(),
                [&](std::string_view, const LoggedStep& step) { found |= comes_again(step); });
    if (found) keep_earlier([&](const LoggedStep& step) { return !comes_again(step); }, Location::none());
  } catch (const IoError&) {  // the line is added anyway
  }
}

RunLog::~RunLog() = default;
RunLog::RunLog(RunLog&&) noexcept = default;

const Path& RunLog::folder() const { return state_->folder; }

void RunLog::record(int64_t step, const Figures& figures, const Figures& untold) {
  Figures all = figures;
  all.insert(all.end(), untold.begin(), untold.end());
  if (state_->first > 0 && step == state_->first) state_->replace_at_first(all);
  state_->write(step, all);
  state_->remember(step, all);
  state_->show(step, figures);
}

void RunLog::record(const StepMetrics& m) {
  Figures figures = {{"train_loss", m.train_loss}, {"tokens_per_s", m.tokens_per_s}};
  if (m.val_loss) figures.emplace_back("val_loss", *m.val_loss);
  record(m.step, figures);
}

void RunLog::State::write(int64_t step, const Figures& figures) {
  std::string line = fmt::format("{{\"step\": {}", step);
  for (const auto& [name, value] : figures) {
    const bool speed = name.ends_with(speed_suffix) && std::isfinite(value);
    line += fmt::format(", {}: {}", detail::json_text(name),
                        speed && std::isfinite(value) ? fmt::format("{:.1f}", value) : detail::json_number(value));
  }
  lines->add(line + "}\n");
  try {
    lines->flush(Location::none());
  } catch (const IoError& error) {
    if (!std::exchange(told_of_failure, true)) {
      std::fputs(
          fmt::format("\n{}\n  the run continues; its metrics are kept until they can be written\n", error.what())
              .c_str(),
          stderr);
    }
  }
}

void RunLog::State::remember(int64_t step, const Figures& figures) {
  for (const auto& [name, value] : figures) {
    auto curve = std::ranges::find(curves, name, &Series::name);
    if (curve == curves.end()) curve = curves.insert(curves.end(), Series{name});
    curve->points.emplace_back(step, value);
  }
}

// Exponential mean: a step's weight is halved after seven steps.
double RunLog::State::smoothed_speed(const std::string& name, double value) {
  const auto [found, fresh] = speeds.try_emplace(name, value);
  if (!std::isfinite(found->second)) found->second = value;
  else if (!fresh) found->second += 0.1 * (value - found->second);
  return found->second;
}

void RunLog::State::show(int64_t step, const Figures& figures) {
  const int64_t done = step - first, every = last > 0 ? std::max<int64_t>(1, (last - first) / 20) : 100;
  std::string shown;
  bool rare = false;  // some figure is missing in some steps
  for (const auto& [name, value] : figures) {
    const bool speed = name.ends_with(speed_suffix);
    shown += speed ? fmt::format("  {:.0f} {}", smoothed_speed(name, value), shown_name(name))
                   : fmt::format("  {} {:.6f}", shown_name(name), value);
    rare = rare || 2 * std::ranges::find(curves, name, &Series::name)->points.size() <= static_cast<size_t>(done);
  }
  if (!terminal && done % every != 0 && step != last && !rare && done != 1) return;
  const double spent = steady_seconds() - start;
  const double left = done > 0 ? spent / static_cast<double>(done) * static_cast<double>(last - step) : 0;
  const std::string line = last > 0 ? fmt::format("step {:>5}/{}{}  {} left", step, last, shown, duration(left))
                                    : fmt::format("step {:>5}{}  after {}", step, shown, duration(spent));
  const bool stays = !terminal || rare;
  std::fputs(fmt::format("{}{}{}", terminal ? "\r\x1b[K" : "", line, stays ? "\n" : "").c_str(), stdout);
  std::fflush(stdout);
}

// Smooths a figure of every step; shows the points of a rare one.
Series RunLog::State::drawn(const Series& curve) const {
  size_t max_points = 0;
  for (const Series& other : curves) max_points = std::max(max_points, other.points.size());
  const bool rare = 2 * curve.points.size() <= max_points;
  const std::string name = curve.name == "train_loss" ? "training" : shown_name(curve.name);
  return {name, curve.points, rare && curve.points.size() <= 100, !rare};
}

void RunLog::finish(const CurveOptions& options, const std::vector<std::string>& names, Location where) {
  if (state_->terminal) std::fputs("\r\x1b[K", stdout);
  const auto wanted = [&](const Series& s) {
    return names.empty() ? s.name.ends_with("loss") : std::ranges::count(names, s.name) > 0;
  };
  std::vector<Series> drawn;
  for (const Series& curve : state_->curves) {
    if (wanted(curve)) drawn.push_back(state_->drawn(curve));
  }
  if (drawn.empty() && names.empty() && !state_->curves.empty()) drawn.push_back(state_->drawn(state_->curves[0]));
  save_curve(state_->folder / "curve.svg", drawn, options, where);
  state_->lines->flush(where);
}

}  // namespace weft::io
