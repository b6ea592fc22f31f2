// Effects of the program on gradients and parameters outside its ops.
#include "finding.hpp"

#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace weft::detail {

namespace {

/// Healthy nets may be clipped in every step for a while, but not by such a factor.
constexpr double much = 10;
constexpr size_t judged_clippings = 4;

std::optional<Suspect> clipped(const History& history) {
  if (history.traces.size() < judged_clippings) return {};
  double least = INFINITY, highest = 0;
  const Clipping* last = nullptr;
  for (size_t i = history.traces.size() - judged_clippings; i < history.traces.size(); ++i) {
    bool by_much = false;
    for (const Clipping& c : history.program.clippings) {
      if (c.step != history.traces[i].step || !(c.limit > 0) || c.norm < much * c.limit) continue;
      by_much = true, last = &c;
      least = std::min(least, c.norm), highest = std::max(highest, c.norm);
    }
    if (!by_much) return {};
  }
  return Suspect{Trouble::run, 0,
                 fmt::format("clip_grad_norm_ at {} shrinks the gradients in every step, and by much: their norm is {} "
                             "to {}, the limit {}; the steps are no longer those of the loss",
                             last->place, figure(least), figure(highest), figure(last->limit))};
}

std::string change_in_text(const HookChange& c) {
  if (c.factor == 0) return "makes it 0";
  if (c.cosine < -0.5) return "turns it round";
  if (c.cosine < 0.5) return "gives it another direction";
  const bool smaller = c.factor < 1;
  return fmt::format("makes it {} times {}", figure(smaller ? 1 / c.factor : c.factor), smaller ? "smaller" : "larger");
}

std::optional<Suspect> changed(const Facts& facts, const HookChange& c) {
  const bool now = !facts.history.traces.empty() && c.step == facts.history.traces.back().step;
  const bool strong = c.factor <= 1 / much || c.factor >= much || c.cosine < 0.5;
  if (!now || c.steps < 2 || !strong) return {};
  const std::string whose = c.index ? facts.watched(*c.index).name : fmt::format("the result of {} at {}", c.op, c.at);
  return Suspect{Trouble::run, 0,
                 fmt::format("a hook registered at {} changes the gradient of {}: it {}, in every step that was looked "
                             "at",
                             c.place, whose, change_in_text(c))};
}

std::optional<Suspect> halved(const Facts& facts) {
  const auto& casts = facts.history.program.half_casts;
  for (size_t i = 0; i < facts.courses.size(); ++i) {
    if (facts.is_parameter(i) && facts.watched(i).epsilon > 0x1p-23) return {};  // a net of 16 bits
  }
  const auto found = std::ranges::find_if(casts, [&](const HalfCast& c) {
    return c.steps > 1 && !facts.history.traces.empty() && c.last == facts.history.traces.back().step;
  });
  if (found == casts.end()) return {};
  return Suspect{
      Trouble::run, 0,
      fmt::format("a net of float32 falls to float16 at {}, outside of every autocast: gradients under 6e-08 "
                  "become 0 there, and numbers over 65504 infinite",
                  found->place)};
}

Suspect shared(const SharedParts& s) {
  if (s.is_module) {
    return {Trouble::run, 0,
            fmt::format("{} and {} are one {}: a copy of a module shares its parameters; clone() makes one of its own",
                        s.first, s.second, s.kind)};
  }
  return {
      Trouble::run, 0,
      fmt::format(
          "{} and {} are two parameters over the same memory, which each step writes twice: clone() the tensor that "
          "one of them was made of",
          s.first, s.second)};
}

}  // namespace

namespace {

/// Whether a parameter's grad differs from the gradient that arrived in this step; nothing if unknown.
std::optional<bool> holds_more(const History& history, const Trace& trace, size_t index) {
  const auto step = std::ranges::find(history.steps, trace.step, &HistoryStep::step);
  if (step == history.steps.end() || index >= step->observations.size() || !step->observations[index].gradient)
    return {};
  const Arrival* arrival = nullptr;
  for (const Arrival& a : trace.arrivals) {
    if (a.index != index) continue;
    if (arrival != nullptr) return {};
    arrival = &a;
  }
  if (arrival == nullptr || !(arrival->norm > 0) || !std::isfinite(arrival->norm)) return {};
  const double kept = step->observations[index].gradient->norm;
  return std::abs(kept - arrival->norm) > 1e-2 * arrival->norm;
}

// Accumulation over several batches within a step also appears in the first step, so it is excluded.
std::optional<Suspect> never_zeroed(const Facts& facts) {
  constexpr size_t judged = 4;
  const History& history = facts.history;
  if (history.traces.size() < judged || history.traces.front().step != history.steps.front().step) return {};
  const OptimizerSteps* optimizer = nullptr;
  for (const Trace& trace : history.traces) {
    const bool is_first = &trace == &history.traces.front();
    const auto stepped = std::ranges::find(history.program.optimizer_steps, trace.step, &OptimizerSteps::step);
    if (stepped == history.program.optimizer_steps.end()) return {};
    size_t more = 0, same = 0;
    for (const ParameterStep& p : stepped->parameters) {
      const auto holds = holds_more(history, trace, p.index);
      if (holds) ++(*holds ? more : same);
    }
    if (more + same == 0 || (is_first ? more > 0 : more < 3 * same)) return {};
    optimizer = &*stepped;
  }
  return Suspect{Trouble::run, 0,
                 fmt::format("gradients add up from step to step: those of earlier steps are still there when {} steps "
                             "at {}; call zero_grad() before backward",
                             optimizer->optimizer, optimizer->place)};
}

}  // namespace

std::vector<Suspect> find_program(const Facts& facts) {
  const ProgramFacts& program = facts.history.program;
  std::vector<Suspect> out;
  if (!program.shared.empty()) {
    out.push_back(shared(program.shared.front()));
    if (const size_t more = program.shared.size() - 1; more > 0) out.back().text += fmt::format("; and {} more", more);
  }
  if (auto found = never_zeroed(facts)) out.push_back(std::move(*found));
  if (auto found = clipped(facts.history)) out.push_back(std::move(*found));
  for (const HookChange& c : program.hook_changes) {
    if (auto found = changed(facts, c)) out.push_back(std::move(*found));
  }
  if (auto found = halved(facts)) out.push_back(std::move(*found));
  return out;
}

}  // namespace weft::detail
