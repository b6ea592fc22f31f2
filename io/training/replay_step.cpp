#include <algorithm>
#include <cstdio>
#include <cstring>
#include <optional>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../files/background-inl.hpp"
#include "../files/folder-inl.hpp"
#include "../json/json_tree-inl.hpp"
#include "state_folder-inl.hpp"
#include "step_record-inl.hpp"
#include "../../autograd/mode.hpp"
#include "../../backends/backend.hpp"
#include "../../backends/watch/nan_check.hpp"

namespace weft::io {

namespace {

constexpr const char *replaying = "replay_step", *kinds[] = {"good", "bad", "end"};

// ---- a folder of steps ----------------------------------------------------------------------------------------------

/// One state of the folder; `path` is empty if it does not exist.
struct RecordedState {
  Path path;
  StepRecord record;
  int64_t step = 0;
};
struct RecordedSteps {
  std::optional<RecordedState> good, bad, end;

  RecordedSteps(const Path& folder, Location where) {
    for (const Path& path : training_states(folder)) {
      const RunState state = read_run_state(path, where);
      const auto document = state.documents.find(record_name);
      if (document == state.documents.end()) continue;
      RecordedState found{path, StepRecord::in(document->second, path, where), state.step};
      (found.record.kind == StepRecord::Kind::good  ? good
       : found.record.kind == StepRecord::Kind::bad ? bad
                                                    : end) = std::move(found);
    }
    if (bad && end) return;
    raise<IoError>({.op = replaying, .problem = fmt::format("{} holds no step of a StepRecorder", folder.string())},
                   where);
  }
};

TensorMap batch_in(const TensorMap& tensors) {
  TensorMap batch;
  for (const auto& [name, tensor] : tensors) {
    if (name.starts_with(batch_prefix)) batch.emplace(name.substr(batch_prefix.size()), tensor);
  }
  return batch;
}

// ---- comparing ------------------------------------------------------------------------------------------------------

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  const Tensor x = host_copy(a).contiguous(), y = b.contiguous();
  return x.numel() == 0 || std::memcmp(x.data_ptr(), y.data_ptr(), static_cast<size_t>(x.nbytes())) == 0;
}

void compare(const char* part, const TensorMap& now, const TensorMap& then, std::vector<std::string>& differs) {
  for (const auto& [name, tensor] : now) {
    const auto found = then.find(name);
    if (found == then.end() || !same_bits(tensor, found->second)) differs.push_back(name_of_part(part, name));
  }
  for (const auto& [name, tensor] : then) {
    if (!now.contains(name)) differs.push_back(name_of_part(part, name));
  }
}

/// `generators`: their states at the end of the recorded step.
std::vector<std::string> differences(const TrainingRun& run, const TrainingSnapshot& then,
                                     const std::string& generators, Location where) {
  const RunState numbers{.accumulated = then.has_gradients ? 1 : 0};
  const TrainingSnapshot now = moment_of(run, numbers, where);
  std::vector<std::string> differs;
  compare("weights", now.weights, then.weights, differs);
  compare("gradients", now.gradients, then.gradients, differs);
  compare("optimizer", now.optimizer, then.optimizer, differs);
  compare("masters", now.masters, then.masters, differs);
  if (generators != now.texts.at(generators_file(0))) differs.emplace_back("generators");
  return differs;
}

std::string shown(const std::vector<std::string>& names) {
  constexpr size_t limit = 6;
  const auto end = names.begin() + static_cast<std::ptrdiff_t>(std::min(limit, names.size()));
  const std::string text = fmt::format("{}", fmt::join(names.begin(), end, ", "));
  return names.size() > limit ? fmt::format("{} and {} more", text, names.size() - limit) : text;
}

JsonTree json_of(const std::map<std::string, Dims>& strides) {
  JsonTree json = JsonTree::object();
  for (const auto& [name, of] : strides) {
    JsonTree& numbers = json[name] = JsonTree::list();
    for (int d = 0; d < of.size(); ++d) numbers.add(JsonTree::of(of[d]));
  }
  return json;
}

std::map<std::string, Dims> strides_in(const JsonNode& place) {
  std::map<std::string, Dims> out;
  place.each_field([&](const std::string& name, const JsonNode& numbers) {
    std::vector<int64_t> strides;
    numbers.each([&](const JsonNode& stride) { strides.push_back(stride.integer()); });
    if (strides.size() > static_cast<size_t>(max_rank)) numbers.fail("there are too many of them");
    out.emplace(name, Dims(strides));
  });
  return out;
}

std::string first_line(std::string_view text) { return std::string(text.substr(0, text.find('\n'))); }

}  // namespace

std::string why_bad(StepChecks checks, const Tensor& loss, const nn::Module& module) {
  using weft::detail::find_non_finite, weft::detail::text_of;
  const NoGradGuard unrecorded;
  if (checks.loss && loss.defined()) {
    if (const auto bad = find_non_finite(loss.raw_view()); bad.any())
      return fmt::format("the loss is {}", text_of(bad));
  }
  const auto named = module.named_parameters();
  for (const auto& [name, p] : named) {
    if (!checks.gradients || !p.grad().defined()) continue;
    const auto bad = find_non_finite(p.grad().raw_view());
    if (bad.any()) return fmt::format("the gradient of {} has {}", name, text_of(bad));
  }
  for (const auto& [name, p] : named) {
    if (!checks.parameters) break;
    if (const auto bad = find_non_finite(p.raw_view()); bad.any()) return fmt::format("{} has {}", name, text_of(bad));
  }
  return {};
}

std::string StepRecord::text() const {
  JsonTree json;
  json["kind"] = JsonTree::of(kinds[static_cast<int>(kind)]);
  json["why"] = JsonTree::of(why);
  json["loss"] = JsonTree::of(checks.loss), json["gradients"] = JsonTree::of(checks.gradients);
  json["parameters"] = JsonTree::of(checks.parameters);
  json["generators"] = JsonTree::of(generators);
  JsonTree& others = json["changed"] = JsonTree::list();
  for (const std::string& name : changed) others.add(JsonTree::of(name));
  JsonTree& places = json["devices"] = JsonTree::object();
  for (const auto& [name, device] : devices) places[name] = JsonTree::of(device);
  JsonTree& evaluating = json["evaluating"] = JsonTree::list();
  for (const std::string& path : form.evaluating) evaluating.add(JsonTree::of(path));
  json["weight_strides"] = json_of(form.weights);
  json["gradient_strides"] = json_of(form.gradients);
  json["batch_strides"] = json_of(form.batch);
  return text_of(json);
}

StepRecord StepRecord::in(const std::string& text, const Path& state, Location where) {
  const JsonTree tree = parse_json(text, replaying, where, state.string());
  const JsonNode json(tree, replaying, where);
  StepRecord out;
  const auto kind = std::ranges::find(kinds, json.at("kind").text());
  if (kind == std::end(kinds)) json.at("kind").fail("it is good, bad or end");
  out.kind = static_cast<Kind>(kind - std::begin(kinds));
  out.why = json.at("why").text();
  out.checks = {json.at("loss").boolean(), json.at("gradients").boolean(), json.at("parameters").boolean()};
  out.generators = json.at("generators").text();
  json.at("changed").each([&](const JsonNode& name) { out.changed.push_back(name.text()); });
  // Folders written before this field existed lack it.
  if (json.has("evaluating")) {
    json.at("evaluating").each([&](const JsonNode& path) { out.form.evaluating.push_back(path.text()); });
    out.form.weights = strides_in(json.at("weight_strides"));
    out.form.gradients = strides_in(json.at("gradient_strides"));
    out.form.batch = strides_in(json.at("batch_strides"));
  }
  json.at("devices").each_field(
      [&](const std::string& name, const JsonNode& device) { out.devices[name] = device.text(); });
  return out;
}

ReplayedStep replay_step(const Path& folder, const TrainingRun& run, const StepFunction& function,
                         ReplayStepOptions options, Location where) {
  const RecordedSteps steps(folder, where);
  if (options.last_good && !steps.good) {
    raise<ValueError>({.op = replaying, .problem = fmt::format("the first step of {} is the bad one", folder.string())},
                      where);
  }
  const RecordedState& begin = options.last_good ? *steps.good : *steps.bad;
  const TrainingSnapshot after = read_snapshot((options.last_good ? *steps.bad : *steps.end).path, where);
  const RunState state = load_training_state(begin.path, run, {}, where);
  if (state.accumulated == 0) {
    for (const Tensor& p : run.module.parameters()) p.set_grad({}, where);
  }
  TensorMap batch = batch_in(state.tensors);
  for (auto& [name, tensor] : batch) {
    const auto device = begin.record.devices.find(name);
    if (device != begin.record.devices.end())
      tensor = tensor.to(Device(std::string_view(device->second), where), where);
    const auto strides = begin.record.form.batch.find(name);
    if (strides != begin.record.form.batch.end()) tensor = with_strides(tensor, strides->second);
  }
  begin.record.form.restore(run.module, where);
  if (options.restore_state) options.restore_state(state);
  ReplayedStep out;
  out.step = begin.step, out.why = begin.record.why;
  std::string why_now;
  try {
    out.loss = function(batch);
  } catch (const std::exception& error) {
    why_now = threw_text + first_line(error.what());
    if (why_now != out.why) throw;
  }
  if (why_now.empty()) why_now = why_bad(begin.record.checks, out.loss, run.module);
  const std::string& generators = options.last_good ? begin.record.generators : after.texts.at(generators_file(0));
  out.differs = differences(run, after, generators, where);
  const std::vector<std::string>& changed = begin.record.changed;
  std::erase_if(out.differs,
                [&](const std::string& name) { return std::ranges::find(changed, name) != changed.end(); });
  const auto loss = state.tensors.find(loss_name);
  if (loss != state.tensors.end() && out.loss.defined() && !same_bits(out.loss, loss->second)) {
    out.differs.insert(out.differs.begin(), "loss");
  }
  out.same_bits = out.differs.empty() && (loss != state.tensors.end()) == out.loss.defined();
  // A custom finding cannot be evaluated again, but equal bits imply an equal finding.
  out.happens = !out.why.empty() && (!why_now.empty() || out.same_bits);
  out.text = fmt::format("step {}, {}", out.step, out.why.empty() ? "the last good one" : "bad: " + out.why);
  if (!out.why.empty() && !out.happens) out.text += "\n  it does not happen here";
  else if (!out.why.empty()) {
    out.text += "\n  it still happens" + (why_now.empty() || why_now == out.why ? "" : ", now as: " + why_now);
  }
  if (!changed.empty())
    out.text += "\n  not compared, since the program changed it before the next step: " + shown(changed);
  out.text += out.same_bits ? "\n  every bit is as it was" : "\n  other bits than then: " + shown(out.differs);
  return out;
}

int replay_both(const Path& folder, const TrainingRun& run, const StepFunction& function, Location where) {
  if (RecordedSteps(folder, where).good) {
    std::printf("%s\n", replay_step(folder, run, function, {.last_good = true}, where).text.c_str());
  }
  const ReplayedStep bad = replay_step(folder, run, function, {}, where);
  std::printf("%s\n", bad.text.c_str());
  std::fflush(stdout);
  return bad.happens ? 1 : 0;
}

// ---- descriptions of a folder ---------------------------------------------------------------------------------------

bool holds_step(const Path& folder) {
  return std::ranges::any_of(training_states(folder),
                             [](const Path& state) { return exists(state / (std::string(record_name) + ".json")); });
}

namespace {

std::string bad_in(const TensorMap& tensors) {
  std::vector<std::string> bad;
  for (const auto& [name, tensor] : tensors) {
    if (weft::detail::find_non_finite(tensor.raw_view()).any()) bad.push_back(name);
  }
  return bad.empty() ? "none" : shown(bad);
}

// "AdamW: lr 0.001, …", the options of the first group.
std::string optimizer_text(const TrainingSnapshot& s) {
  const std::string prefix = "group.0.";
  std::vector<std::string> numbers;
  for (const auto& [name, tensor] : s.optimizer) {
    if (!name.starts_with(prefix) || tensor.numel() != 1) continue;
    numbers.push_back(fmt::format("{} {}", name.substr(prefix.size()), tensor.item<double>()));
  }
  return fmt::format("{}{}{}", s.optimizer_name, numbers.empty() ? "" : ": ", fmt::join(numbers, ", "));
}

std::string state_text(const RecordedState& state, Location where) {
  const TrainingSnapshot s = read_snapshot(state.path, where);
  std::string text = fmt::format("step {}, {}", state.step,
                                 state.record.why.empty() ? "the last good one" : "bad: " + state.record.why);
  if (const auto loss = s.tensors.find(loss_name); loss != s.tensors.end()) {
    text += "\n  loss " + weft::detail::values_text(loss->second.raw_view());
  }
  for (const auto& [name, tensor] : batch_in(s.tensors)) {
    text += fmt::format("\n  batch {}: {}", name, weft::detail::values_text(tensor.raw_view()));
  }
  text += fmt::format("\n  not finite before it: weights {}", bad_in(s.weights));
  if (!s.optimizer_name.empty()) text += fmt::format("\n  {}", optimizer_text(s));
  return text;
}

}  // namespace

std::string step_text(const Path& folder, Location where) {
  const NoGradGuard unrecorded;
  const RecordedSteps steps(folder, where);
  std::string text;
  if (steps.good) text += state_text(*steps.good, where) + '\n';
  text += state_text(*steps.bad, where);
  const TrainingSnapshot end = read_snapshot(steps.end->path, where);
  text += fmt::format("\n  not finite after it: weights {}; gradients {}", bad_in(end.weights), bad_in(end.gradients));
  return text + fmt::format(
                    "\nrun it again: io::replay_step(\"{0}\", {{model, &optimizer}}, step), or ./weft replay {0} -- "
                    "PROGRAM ARGUMENTS",
                    folder.string());
}

}  // namespace weft::io
