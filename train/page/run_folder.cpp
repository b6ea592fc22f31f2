#include "../run_folder.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <deque>
#include <optional>

#include <fmt/format.h>

#include "../../data/files/csv_rows-inl.hpp"
#include "../../hooks/detail/text.hpp"
#include "../../io/event_file.hpp"
#include "../../io/file.hpp"
#include "../../io/files/folder-inl.hpp"
#include "../../io/files/last_words-inl.hpp"
#include "../../io/json/json_tree-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::train {

using weft::detail::json_number;
using weft::detail::json_text;

namespace {

constexpr const char* op = "RunFolder";
/// Longer curves are reduced to the minimum and maximum of each interval.
constexpr size_t shown_points = 1200;
constexpr size_t shown_samples = 24;
constexpr size_t compared_runs = 8;

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

struct Curve {
  std::string name;
  std::vector<std::pair<int64_t, double>> points;
};

// The minimum and maximum of each interval, in order, so that no peak is lost.
std::vector<std::pair<int64_t, double>> thinned(const std::vector<std::pair<int64_t, double>>& points) {
  if (points.size() <= shown_points) return points;
  const size_t stride = (2 * points.size() + shown_points - 1) / shown_points;
  std::vector<std::pair<int64_t, double>> out;
  for (size_t from = 0; from < points.size(); from += stride) {
    const auto begin = points.begin() + static_cast<std::ptrdiff_t>(from);
    const auto end = points.begin() + static_cast<std::ptrdiff_t>(std::min(points.size(), from + stride));
    // NaN and infinity count as peaks.
    const auto bad = std::find_if(begin, end, [](const auto& p) { return !std::isfinite(p.second); });
    auto [least, greatest] =
        std::minmax_element(begin, end, [](const auto& a, const auto& b) { return a.second < b.second; });
    if (bad != end) least = greatest = bad;
    if (least > greatest) std::swap(least, greatest);
    out.push_back(*least);
    if (least != greatest) out.push_back(*greatest);
  }
  if (out.back() != points.back()) out.push_back(points.back());
  return out;
}

template <class Items, class F>
std::string list(const Items& items, F text) {
  std::string out = "[";
  for (const auto& item : items) out += (out.size() > 1 ? "," : "") + text(item);
  return out + "]";
}

std::string point_text(const std::pair<int64_t, double>& p) {
  return fmt::format("[{},{}]", p.first, weft::detail::json_number(p.second, 6));
}

std::string curve_text(const Curve& curve) {
  std::optional<std::pair<int64_t, double>> least, greatest;
  for (const auto& p : curve.points) {
    if (!std::isfinite(p.second)) continue;
    if (!least || p.second < least->second) least = p;
    if (!greatest || p.second > greatest->second) greatest = p;
  }
  return fmt::format(R"({{"name":{},"least":{},"greatest":{},"points":{}}})", json_text(curve.name),
                     least ? point_text(*least) : "null", greatest ? point_text(*greatest) : "null",
                     list(thinned(curve.points), point_text));
}

struct Sample {
  int64_t step;
  std::string name, kind, content;
  bool of_earlier_process = false;
  std::string text() const {
    return fmt::format(R"({{"step":{},"name":{},"kind":"{}","content":{}}})", step, json_text(name), kind,
                       json_text(content));
  }
};

struct Saved {
  std::string path;
  int64_t step;
  bool best;
};

std::string last_part(const std::string& path) {
  const size_t slash = path.find_last_of('/');
  return slash == path.npos ? path : path.substr(slash + 1);
}

std::string without_end_slashes(std::string path) {
  while (path.size() > 1 && path.ends_with('/')) path.pop_back();
  return path;
}

std::string name_of(const io::Path& folder) { return last_part(without_end_slashes(folder.string())); }

// run.json of the runs in neighbouring folders, newest first.
std::vector<std::string> runs_beside(const io::Path& folder) {
  const std::string own = without_end_slashes(folder.string()), above = io::folder_of(own), name = last_part(own);
  std::vector<std::pair<time_t, std::string>> found;
  for (const std::string& other : io::names_in(above)) {
    const std::string file = above + "/" + other + "/run.json";
    struct stat facts {};
    if (other == name || ::stat(file.c_str(), &facts) != 0 || !S_ISREG(facts.st_mode)) continue;
    constexpr off_t byte_limit = 4 << 20;
    if (facts.st_size <= byte_limit) found.emplace_back(facts.st_mtime, file);
  }
  std::ranges::sort(found, std::greater());
  std::vector<std::string> out;
  for (size_t i = 0; i < std::min(compared_runs, found.size()); ++i) {
    try {
      out.push_back(io::read_file(found[i].second, op, Location::none()));
    } catch (const IoError&) {  // removed meanwhile
    }
  }
  return out;
}

}  // namespace

struct RunFolder::State {
  io::Path folder;
  RunFolderOptions options;
  std::string machine = machine_json();
  double started = now(), began = started, paged = 0;
  int64_t first = 0, last = 0, step = 0;
  std::string condition = "running", failure = {};
  std::optional<io::RunLog> log = {};
  std::optional<io::EventFile> events = {};
  std::optional<io::GrowingFile> table = {}, sample_lines = {};
  std::vector<std::string> columns = {};
  std::vector<Curve> curves = {};
  std::deque<Sample> samples = {};
  std::vector<Saved> saved = {};
  bool told_of_failure = false;
  std::optional<io::LastWords> last_words = {};

  /// Whether this is the first step of a resumed run, which an earlier process may have recorded already.
  bool comes_again(int64_t at) const { return first > 0 && at == first; }
  void remember(int64_t at, const io::Figures& figures);
  void add_row(int64_t at, const io::Figures& figures);
  std::string row_of(int64_t at, const io::Figures& figures) const;
  void rewrite_table();
  void read_samples();
  void drop_earlier(const Sample& again);
  void add_sample(Sample sample);
  std::string json() const;
  void write_page(Location where);
  void leave(const char* why);
  template <class F>
  void carefully(F&& f);
};

// Logging errors never end a run.
template <class F>
void RunFolder::State::carefully(F&& f) {
  try {
    f();
  } catch (const IoError& error) {
    if (std::exchange(told_of_failure, true)) return;
    std::fputs(fmt::format("\n{}\n  the run continues without all of its logs\n", error.what()).c_str(), stderr);
  }
}

void RunFolder::State::remember(int64_t at, const io::Figures& figures) {
  step = std::max(step, at);
  for (const auto& [name, value] : figures) {
    auto curve = std::ranges::find(curves, name, &Curve::name);
    if (curve == curves.end()) curve = curves.insert(curves.end(), Curve{name, {}});
    if (comes_again(at) && !curve->points.empty() && curve->points.back().first == at) curve->points.pop_back();
    curve->points.emplace_back(at, value);
  }
}

// ---- the table ------------------------------------------------------------------------------------------------------

// Adds a row. A new column rebuilds the table from the lines written so far.
void RunFolder::State::add_row(int64_t at, const io::Figures& figures) {
  bool is_new = !table || comes_again(at);
  for (const auto& [name, value] : figures) {
    if (std::ranges::find(columns, name) != columns.end()) continue;
    columns.push_back(name);
    is_new = true;
  }
  if (is_new) {
    rewrite_table();
    return;
  }
  table->add(row_of(at, figures));
  table->flush(Location::none());
}

std::string RunFolder::State::row_of(int64_t at, const io::Figures& figures) const {
  std::string row = std::to_string(at);
  for (const std::string& column : columns) {
    const auto found = std::ranges::find(figures, column, &io::Figures::value_type::first);
    row += ',';
    if (found == figures.end()) continue;
    row += std::isfinite(found->second) ? json_number(found->second) : fmt::format("{}", found->second);
  }
  return row + '\n';
}

void RunFolder::State::rewrite_table() {
  table.emplace(folder / "metrics.csv", op, Location::none());
  std::string head = "step";
  for (const std::string& column : columns) {
    head += ',';
    data::put_csv_field(head, column, ',', false);
  }
  table->add(head + '\n');
  for (const io::LoggedStep& row : io::read_metrics(folder / "metrics.jsonl", Location::none())) {
    table->add(row_of(row.step, row.figures));
  }
  table->flush(Location::none());
}

// ---- samples --------------------------------------------------------------------------------------------------------

void RunFolder::State::read_samples() {
  const io::Path file = folder / "samples.jsonl";
  std::string kept;
  if (first > 0 && io::size_of_file(file) >= 0) {
    const std::string text = io::read_file(file, op, Location::none());
    for (size_t from = 0, end; (end = text.find('\n', from)) != text.npos; from = end + 1) {
      try {
        const io::JsonTree tree = io::parse_json(std::string_view(text).substr(from, end - from), op, Location::none());
        const io::JsonNode place(tree, op, Location::none());
        Sample sample{place.at("step").integer(), place.at("name").text(), place.at("kind").text(),
                      place.at("content").text(), true};
        if (sample.step > first || (sample.kind != "text" && sample.kind != "svg")) continue;
        kept.append(text, from, end + 1 - from);
        samples.push_back(std::move(sample));
        if (samples.size() > shown_samples) samples.pop_front();
      } catch (const FormatError&) {  // an incomplete line of a killed run
      }
    }
  }
  if (kept.empty() && io::size_of_file(file) < 0) return;
  sample_lines.emplace(file, op, Location::none());
  sample_lines->add(kept);
  sample_lines->flush(Location::none());
}

// Drops samples of an earlier process with the same step and name, in memory and in the file.
void RunFolder::State::drop_earlier(const Sample& again) {
  std::vector<std::string> old;
  std::erase_if(samples, [&](const Sample& s) {
    const bool same = s.of_earlier_process && s.step == again.step && s.name == again.name && s.kind == again.kind;
    if (same) old.push_back(s.text() + '\n');
    return same;
  });
  if (old.empty()) return;
  carefully([&] {
    std::string lines = io::read_file(folder / "samples.jsonl", op, Location::none());
    for (const std::string& line : old) {
      if (const size_t at = lines.find(line); at != lines.npos) lines.erase(at, line.size());
    }
    sample_lines.emplace(folder / "samples.jsonl", op, Location::none());
    sample_lines->add(lines);
  });
}

void RunFolder::State::add_sample(Sample sample) {
  if (comes_again(sample.step)) drop_earlier(sample);
  carefully([&] {
    if (!sample_lines) sample_lines.emplace(folder / "samples.jsonl", op, Location::none());
    sample_lines->add(sample.text() + '\n');
    sample_lines->flush(Location::none());
  });
  samples.push_back(std::move(sample));
  if (samples.size() > shown_samples) samples.pop_front();
}

// ---- the page -------------------------------------------------------------------------------------------------------

std::string RunFolder::State::json() const {
  const double spent = now() - began;
  const int64_t done = step - first;
  const bool running = condition == "running";
  const double left =
      running && done > 0 && last > step ? spent / static_cast<double>(done) * static_cast<double>(last - step) : NAN;
  const std::string title = options.title.empty() ? name_of(folder) : options.title;
  return fmt::format(
      R"({{"title":{},"folder":{},"state":{},"started":{:.0f},"written":{:.0f},"every":{},"first":{},"step":{},"last":{},"spent":{:.1f},"left":{},"figures":{},"samples":{},"failure":{},"checkpoints":{},"gradients":{},"machine":{},"config":{}}})",
      json_text(title), json_text(name_of(folder)), json_text(condition), started, now(), options.page_every, first,
      step, last, spent, std::isnan(left) ? "null" : fmt::format("{:.1f}", left), list(curves, curve_text),
      list(samples, [](const Sample& s) { return s.text(); }), failure.empty() ? "null" : json_text(failure),
      list(saved,
           [](const Saved& s) {
             return fmt::format(R"({{"path":{},"step":{},"best":{}}})", json_text(s.path), s.step, s.best);
           }),
      io::size_of_file(folder / "gradients.html") >= 0, machine, options.config.empty() ? "{}" : options.config);
}

void RunFolder::State::write_page(Location where) {
  paged = now();
  const std::string run = json();
  io::write_file(folder / "run.json", run, op, where);
  if (options.page) io::write_file(folder / "index.html", run_page(run, runs_beside(folder), where), op, where);
}

// Called if the process ends before the run is finished.
void RunFolder::State::leave(const char* why) {
  condition = *why == 0 ? "stopped" : "failed";
  failure = why;
  if (*why != 0) io::write_file(folder / "failure.txt", failure + '\n', op, Location::none());
  write_page(Location::none());
}

// ---- the folder -----------------------------------------------------------------------------------------------------

RunFolder::RunFolder(io::Path folder, RunFolderOptions options, Location where) {
  if (!options.config.empty()) (void)io::parse_json(options.config, op, where, "config: ");
  if (!(options.page_every > 0)) {
    raise<ValueError>(
        {.op = op, .problem = mismatch_text("page_every", "a number of seconds above 0", options.page_every)}, where);
  }
  // The log creates a name for an empty path.
  std::optional<io::RunLog> named;
  if (folder.empty()) {
    named.emplace(folder, 0, 0, where);
    folder = named->folder();
  } else {
    io::make_folder(folder, op, where);
  }
  state_ = weft::detail::Pimpl(new State{std::move(folder), std::move(options)});
  if (!state_->options.config.empty())
    io::write_file(state_->folder / "config.json", state_->options.config, op, where);
  io::write_file(state_->folder / "machine.json", state_->machine, op, where);
}

RunFolder::~RunFolder() {
  if (!state_ || state_->condition != "running" || !state_->log) return;
  try {
    finish("stopped", Location::none());
  } catch (const std::exception&) {
    // A destructor must not throw.
  }
}
RunFolder::RunFolder(RunFolder&&) noexcept = default;

const io::Path& RunFolder::folder() const { return state_->folder; }

void RunFolder::begin(int64_t first, int64_t last, Location where) {
  State& s = *state_;
  s.first = s.step = first;
  s.last = last;
  s.began = now();
  s.condition = "running";
  s.failure.clear();
  io::remove_file(s.folder / "failure.txt", op, where);
  s.log.emplace(s.folder, first, last, where);
  s.curves.clear(), s.columns.clear(), s.samples.clear(), s.saved.clear(), s.table.reset();
  for (const io::LoggedStep& row : io::read_metrics(s.folder / "metrics.jsonl", where)) {
    s.remember(row.step, row.figures);
    for (const auto& [name, value] : row.figures) {
      if (std::ranges::find(s.columns, name) == s.columns.end()) s.columns.push_back(name);
    }
  }
  if (s.options.tensorboard && !s.events) s.events.emplace(s.folder, where);
  s.last_words.emplace([&s](const char* why) { s.leave(why); });
  s.read_samples();
  s.carefully([&] { s.write_page(where); });
}

void RunFolder::record(int64_t step, const io::Figures& figures, const io::Figures& untold) {
  State& s = *state_;
  if (!s.log) begin(0, 0, Location::none());
  io::Figures all = figures;
  all.insert(all.end(), untold.begin(), untold.end());
  s.log->record(step, figures, untold);
  s.remember(step, all);
  s.carefully([&] {
    if (s.options.csv) s.add_row(step, all);
    if (s.events) {
      for (const auto& [name, value] : all) s.events->scalar(name, value, step, Location::none());
      s.events->flush(Location::none());
    }
    if (now() - s.paged >= s.options.page_every) s.write_page(Location::none());
  });
}

void RunFolder::sample_text(int64_t step, const std::string& name, std::string_view text) {
  state_->add_sample({step, name, "text", std::string(text)});
}

void RunFolder::sample_svg(int64_t step, const std::string& name, std::string_view svg) {
  state_->add_sample({step, name, "svg", std::string(svg)});
}

void RunFolder::checkpoint(const io::Path& path, int64_t step, bool best) {
  std::vector<Saved>& saved = state_->saved;
  std::erase_if(saved, [&](const Saved& s) { return best ? s.best : s.path == path.string(); });
  saved.push_back({path.string(), step, best});
  // Drops checkpoints that were removed meanwhile.
  std::erase_if(saved, [](const Saved& s) { return !io::is_folder(s.path); });
}

void RunFolder::write_page(Location where) { state_->write_page(where); }

void RunFolder::fail(const std::string& why, Location where) {
  state_->failure = why;
  state_->carefully([&] { io::write_file(state_->folder / "failure.txt", why + '\n', op, where); });
  finish("failed", where);
}

void RunFolder::finish(const std::string& state, Location where) {
  State& s = *state_;
  s.last_words.reset();
  s.condition = state;
  if (s.log)
    s.log->finish({.title = s.options.title.empty() ? name_of(s.folder) : s.options.title, .x_label = "step"}, {},
                  where);
  s.write_page(where);
}

}  // namespace weft::train
