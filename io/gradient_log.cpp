#include "gradient_log.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "event_file.hpp"
#include "file.hpp"
#include "files/folder-inl.hpp"
#include "json/json_tree-inl.hpp"

namespace weft::io {

struct GradientLog::Files {
  Path folder;
  GradientLogOptions options;
  std::optional<GrowingFile> lines;
  std::optional<EventFile> events;
  bool has_begun = false, page_is_old = false;
  History earlier;

  Path lines_path() const { return folder / "gradients.jsonl"; }
  void begin(int64_t first);
  void add(const History& history, const RecordedStep& step);
  void add_events(const History& history, const RecordedStep& step);
};

namespace {

std::optional<Statistics> statistics_in(const JsonPlace& tensor, const char* name) {
  if (!tensor.has(name)) return {};
  const JsonPlace s = tensor.at(name);
  Statistics out{.count = s.at("count").integer()};
  const auto part = [&](const char* share) {
    return static_cast<int64_t>(std::llround(s.at(share).number() * static_cast<double>(out.count)));
  };
  out.zeros = part("zeros"), out.non_finite = part("non_finite");
  out.mean = s.at("mean").number(), out.deviation = s.at("deviation").number(), out.norm = s.at("norm").number();
  out.low = s.at("low").number(), out.high = s.at("high").number();
  return out;
}

// What json_line wrote; FormatError.
RecordedStep read_step(const JsonTree& tree, History& history) {
  const JsonPlace line(tree, "GradientLog", Location::none());
  RecordedStep out{.step = line.at("step").integer(), .loss = {}, .of = {}};
  if (line.has("loss")) out.loss = line.at("loss").number();
  std::vector<Watched>& watched = history.watched;
  line.at("tensors").each_field([&](const std::string& name, const JsonPlace& tensor) {
    auto which = static_cast<size_t>(std::ranges::find(watched, name, &Watched::name) - watched.begin());
    if (which == watched.size()) {
      watched.push_back({name, tensor.has("kind") ? WatchedKind::activation : WatchedKind::parameter});
    }
    Observation o{.value = statistics_in(tensor, "value"), .gradient = statistics_in(tensor, "gradient")};
    if (tensor.has("update_ratio")) o.update_ratio = tensor.at("update_ratio").number();
    const auto note = [&](const std::optional<Statistics>& s, std::optional<int64_t>& bad) {
      if (s && s->non_finite > 0 && !bad) bad = out.step;
    };
    note(o.value, watched[which].bad_value), note(o.gradient, watched[which].bad_gradient);
    out.of.resize(std::max(out.of.size(), which + 1));
    out.of[which] = std::move(o);
  });
  return out;
}

/// Calls f(line, its JSON) for each line that is one.
template <class F>
void for_each_line(std::string_view text, F f) {
  for (size_t from = 0, end; (end = text.find('\n', from)) != text.npos; from = end + 1) {
    const std::string_view line = text.substr(from, end + 1 - from);
    try {
      f(line, parse_json(line, "GradientLog", Location::none()));
    } catch (const FormatError&) {  // a line that a killed run left
    }
  }
}

}  // namespace

std::string history_text(const History& history) {
  std::string out;
  for (const RecordedStep& step : history.steps) out += json_line(history, step) + '\n';
  return out;
}

void read_history(std::string_view lines, History& history) {
  for_each_line(lines,
                [&](std::string_view, const JsonTree& tree) { history.steps.push_back(read_step(tree, history)); });
}

// The steps that an earlier process wrote before `first` stay; a run that begins anew begins with 0, or with 1.
void GradientLog::Files::begin(int64_t first) {
  if (std::exchange(has_begun, true)) return;
  std::string kept;
  const std::string text =
      size_of_file(lines_path()) < 0 || first <= 1 ? "" : read_file(lines_path(), "GradientLog", Location::none());
  for_each_line(text, [&](std::string_view line, const JsonTree& tree) {
    if (JsonPlace(tree, "GradientLog", Location::none()).at("step").integer() >= first) return;
    earlier.steps.push_back(read_step(tree, earlier));
    kept += line;
  });
  if (!options.json_lines) return;
  lines.emplace(lines_path(), "GradientLog", Location::none());
  lines->add(kept);
}

void GradientLog::Files::add(const History& history, const RecordedStep& step) {
  page_is_old = true;
  try {
    begin(step.step);
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
    // What an earlier run left stays until a step comes.
    if (size_of_file(files_->lines_path()) < 0) files_->lines.emplace(files_->lines_path(), "GradientLog", where);
    else check_writable(files_->lines_path(), "GradientLog", where);
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
  if (!files_->earlier.steps.empty()) recorder_.remember(std::exchange(files_->earlier, {}));
  const Path path = files_->folder / "gradients.html";
  write_file(path, report_html(recorder_.history(), files_->options.title), "GradientLog", where);
  files_->page_is_old = false;
  return path;
}

}  // namespace weft::io
