#include "gradient_log.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "event_file.hpp"
#include "file.hpp"
#include "files/folder-inl.hpp"
#include "files/json_lines-inl.hpp"
#include "files/last_words-inl.hpp"

namespace weft::io {

namespace {

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

/// Writing pages takes at most 1/50 of a run's time.
constexpr double page_share = 50;

}  // namespace

struct GradientLog::Files {
  Path folder;
  GradientLogOptions options;
  std::optional<GrowingFile> lines;
  std::optional<EventFile> events;
  bool has_begun = false, page_is_old = false;
  double page_due = 0;
  History earlier;
  std::string note = {};
  std::optional<LastWords> last_words = {};

  Path lines_path() const { return folder / "gradients.jsonl"; }
  void begin(int64_t first);
  void add(const History& history, const HistoryStep& step);
  void add_events(const History& history, const HistoryStep& step);
};

// Steps before `first` of an earlier process stay. A new run begins with 0 or 1.
void GradientLog::Files::begin(int64_t first) {
  if (std::exchange(has_begun, true)) return;
  std::string kept;
  const std::string text =
      size_of_file(lines_path()) < 0 || first <= 1 ? "" : read_file(lines_path(), "GradientLog", Location::none());
  for_each_json_line(text, "GradientLog", [&](std::string_view line, const JsonTree& tree) {
    if (JsonNode(tree, "GradientLog", Location::none()).at("step").integer() >= first) return;
    kept += line;
    if (!kept.ends_with('\n')) kept += '\n';
  });
  read_history(kept, earlier);
  if (!options.json_lines) return;
  lines.emplace(lines_path(), "GradientLog", Location::none());
  lines->add(kept);
}

void GradientLog::Files::add(const History& history, const HistoryStep& step) {
  page_is_old = true;
  try {
    begin(step.step);
    if (lines) {
      lines->add(json_line(history, step) + '\n');
      lines->flush(Location::none());
    }
    if (events) add_events(history, step);
  } catch (const IoError& error) {
    std::fputs(fmt::format("\n{}\n  the run continues without a log of its gradients\n", error.what()).c_str(), stderr);
    lines.reset();
    events.reset();
  }
}

void GradientLog::Files::add_events(const History& history, const HistoryStep& step) {
  const Location where = Location::none();
  if (step.loss) events->scalar("loss", *step.loss, step.step, where);
  for (size_t i = 0; i < step.observations.size(); ++i) {
    const Observation& o = step.observations[i];
    const std::string& name = history.watched[i].name;
    const auto scalar = [&](const char* group, double v) { events->scalar(group + name, v, step.step, where); };
    const auto bins = [&](const char* group, const auto& histogram, const std::optional<Statistics>& of) {
      if (histogram && of) events->histogram(group + name, step.step, *histogram, *of, where);
    };
    if (o.gradient) scalar("gradient_rms/", o.gradient->rms()), scalar("gradient_zeros/", o.gradient->zero_share());
    if (o.value) scalar("value_rms/", o.value->rms());
    if (o.update_ratio) scalar("update_ratio/", *o.update_ratio);
    bins("gradient/", o.gradient_histogram, o.gradient);
    bins("value/", o.value_histogram, o.value);
  }
  events->flush(where);
}

GradientLog::GradientLog(GradientRecorder recorder, Path folder, GradientLogOptions options, Location where)
    : recorder_(std::move(recorder)), files_(Shared<Files>::make()) {
  if (!(options.page_every >= 0)) {
    raise<ValueError>({.op = "GradientLog", .problem = "page_every is a number of seconds"}, where);
  }
  make_folder(folder, "GradientLog", where);
  files_->folder = std::move(folder);
  files_->options = std::move(options);
  files_->page_due = now() + files_->options.page_every;
  if (files_->options.json_lines) {
    // Lines of an earlier run stay until the first step.
    if (size_of_file(files_->lines_path()) < 0) files_->lines.emplace(files_->lines_path(), "GradientLog", where);
    else check_writable(files_->lines_path(), "GradientLog", where);
  }
  if (files_->options.tensorboard) files_->events.emplace(files_->folder, where);
  recorder_.on_step([this, weak = Weak(files_)](const History& history, const HistoryStep& step) {
    const auto files = weak.lock();
    if (!files) return;  // the log is destroyed
    files->add(history, step);
    if (files->options.page && files->options.page_every > 0 && now() >= files->page_due) refresh_page();
  });
  if (!files_->options.page || !files_->options.at_any_end) return;
  files_->last_words.emplace([this](const char* why) {
    if (*why == 0 && !files_->page_is_old) return;
    if (*why != 0) files_->note = why;
    save_page(Location::none());
  });
}

// The next page is postponed, so that writing pages stays within 1 / page_share of the run's time.
void GradientLog::refresh_page() {
  const double before = now();
  try {
    save_page(Location::none());
  } catch (const IoError& error) {
    std::fputs(fmt::format("\n{}\n  the run continues without a page\n", error.what()).c_str(), stderr);
    files_->page_due = INFINITY;
    return;
  }
  files_->page_is_old = true;
  files_->page_due = now() + std::max(files_->options.page_every, page_share * (now() - before));
}

GradientLog::~GradientLog() {
  files_->last_words.reset();
  if (!files_->options.page || !files_->page_is_old) return;
  try {
    save_page(Location::none());
  } catch (const Error&) {
    // A destructor cannot report it.
  }
}

void GradientLog::set_note(std::string note) {
  files_->note = std::move(note);
  files_->page_is_old = true;
}

Path GradientLog::save_page(Location where) {
  if (!files_->earlier.steps.empty()) recorder_.remember(std::exchange(files_->earlier, {}));
  const Path path = files_->folder / "gradients.html";
  write_file(path, report_html(recorder_.history(), files_->options.title, files_->note), "GradientLog", where);
  files_->page_is_old = false;
  return path;
}

}  // namespace weft::io
