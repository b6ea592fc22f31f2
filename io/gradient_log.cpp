#include "gradient_log.hpp"

#include <cstdio>
#include <optional>

#include <fmt/format.h>

#include "event_file.hpp"
#include "file.hpp"
#include "files/folder-inl.hpp"

namespace weft::io {

struct GradientLog::Files {
  Path folder;
  GradientLogOptions options;
  std::optional<GrowingFile> lines;
  std::optional<EventFile> events;
  bool page_is_old = true;

  void add(const History& history, const RecordedStep& step);
  void add_events(const History& history, const RecordedStep& step);
};

void GradientLog::Files::add(const History& history, const RecordedStep& step) {
  page_is_old = true;
  try {
    if (lines) {
      lines->add(json_line(history, step) + '\n');
      lines->flush(Location::none());
    }
    if (events) add_events(history, step);
  } catch (const IoError& error) {
    std::fputs(fmt::format("\n{}\n  the run goes on without a log of its gradients\n", error.what()).c_str(), stderr);
    lines.reset();
    events.reset();
  }
}

void GradientLog::Files::add_events(const History& history, const RecordedStep& step) {
  const Location where = Location::none();
  if (step.loss) events->scalar("loss", step.step, *step.loss, where);
  for (size_t i = 0; i < step.of.size(); ++i) {
    const Observation& o = step.of[i];
    const std::string& name = history.watched[i].name;
    const auto scalar = [&](const char* group, double v) { events->scalar(group + name, step.step, v, where); };
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
  make_folder(folder, "GradientLog", where);
  files_->folder = std::move(folder);
  files_->options = std::move(options);
  if (files_->options.json_lines) {
    files_->lines.emplace(files_->folder / "gradients.jsonl", "GradientLog", where);
  }
  if (files_->options.tensorboard) files_->events.emplace(files_->folder, where);
  recorder_.on_step([weak = Weak(files_)](const History& history, const RecordedStep& step) {
    if (const auto files = weak.lock()) files->add(history, step);
  });
}

GradientLog::~GradientLog() {
  if (!files_->options.page || !files_->page_is_old) return;
  try {
    save_page(Location::none());
  } catch (const Error&) {
    // A destructor has nobody to tell.
  }
}

Path GradientLog::save_page(Location where) {
  const Path path = files_->folder / "gradients.html";
  write_file(path, report_html(recorder_.history(), files_->options.title), "GradientLog", where);
  files_->page_is_old = false;
  return path;
}

}  // namespace weft::io
