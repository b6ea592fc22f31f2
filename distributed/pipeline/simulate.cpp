// Simulation of a plan.
#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "../../tensor/error.hpp"
#include "../pipeline.hpp"

namespace weft::distributed {

namespace {

using Kind = PipelineAction::Kind;

class Clock {
 public:
  Clock(const PipelinePlan& plan, PipelineCosts costs)
      : plan_(plan),
        costs_(costs),
        parts_(stages() * plan.chunks),
        done_(static_cast<size_t>(parts_) * static_cast<size_t>(plan.micro_batches)),
        next_(plan.stages.size(), 0),
        free_at_(plan.stages.size(), 0),
        busy_(plan.stages.size(), 0),
        kept_(plan.stages.size(), 0),
        most_kept_(plan.stages.size(), 0) {}

  PipelineTimes run() {
    for (bool moved = true; moved;) {
      moved = false;
      for (int p = 0; p < stages(); ++p) moved = advance(p) || moved;
    }
    check_complete();
    PipelineTimes out{*std::ranges::max_element(free_at_), 0, most_kept_};
    for (const double busy : busy_) out.bubble += (1 - busy / out.total) / stages();
    return out;
  }

 private:
  /// Times at which the forward, the input gradient and the weight gradient finished.
  struct Done {
    std::optional<double> forward, inputs, weights;
  };

  int stages() const { return static_cast<int>(plan_.stages.size()); }
  Done& done(int part, int m) {
    return done_[static_cast<size_t>(part) * static_cast<size_t>(plan_.micro_batches) + static_cast<size_t>(m)];
  }
  double cost(Kind kind) const {
    const double costs[] = {costs_.forward, costs_.backward, costs_.input_gradient, costs_.weight_gradient};
    return costs[static_cast<size_t>(kind)];
  }

  /// Runs the actions of stage p that are ready. Returns whether there were any.
  bool advance(int p) {
    const auto at = static_cast<size_t>(p);
    const size_t first = next_[at];
    while (next_[at] < plan_.stages[at].size() && act(p, plan_.stages[at][next_[at]])) ++next_[at];
    return next_[at] != first;
  }

  bool act(int p, const PipelineAction& a) {
    if (a.micro_batch < 0 || a.micro_batch >= plan_.micro_batches || a.chunk < 0 || a.chunk >= plan_.chunks) {
      refuse(p, a, "is not of this pipeline");
    }
    const auto at = static_cast<size_t>(p);
    const int part = a.chunk * stages() + p;
    Done& own = done(part, a.micro_batch);
    const bool forward = a.kind == Kind::forward;
    if (!forward && !own.forward) refuse(p, a, "has no forward before it");
    if (a.kind == Kind::weight_gradient && !own.inputs) refuse(p, a, "has no gradient of inputs before it");
    if (forward                           ? own.forward.has_value()
        : a.kind == Kind::weight_gradient ? own.weights.has_value()
                                          : own.inputs.has_value()) {
      refuse(p, a, "is done twice");
    }
    double begin = free_at_[at];
    if (a.kind != Kind::weight_gradient) {
      const int other = forward ? part - 1 : part + 1;
      if (other >= 0 && other < parts_) {
        const Done& before = done(other, a.micro_batch);
        const std::optional<double>& ready = forward ? before.forward : before.inputs;
        if (!ready) return false;
        begin = std::max(begin, *ready);
      }
    }
    const double end = begin + cost(a.kind);
    free_at_[at] = end;
    busy_[at] += cost(a.kind);
    if (forward) own.forward = end;
    if (a.kind == Kind::backward || a.kind == Kind::input_gradient) own.inputs = end;
    if (a.kind == Kind::backward || a.kind == Kind::weight_gradient) own.weights = end;
    kept_[at] += forward ? 1 : own.weights ? -1 : 0;
    most_kept_[at] = std::max(most_kept_[at], kept_[at]);
    return true;
  }

  void check_complete() const {
    for (size_t p = 0; p < next_.size(); ++p) {
      if (next_[p] < plan_.stages[p].size()) refuse(static_cast<int>(p), plan_.stages[p][next_[p]], "waits for ever");
    }
    if (std::ranges::all_of(done_, [](const Done& d) { return d.weights.has_value(); })) return;
    raise<ValueError>({.problem = "the plan leaves micro-batches without a backward"});
  }
  [[noreturn]] static void refuse(int stage, const PipelineAction& a, const char* what) {
    raise<ValueError>({.problem = fmt::format("{} of stage {} {}", text(std::span(&a, 1)), stage, what)});
  }

  const PipelinePlan& plan_;
  const PipelineCosts costs_;
  const int parts_;
  std::vector<Done> done_;
  std::vector<size_t> next_;
  std::vector<double> free_at_, busy_;
  std::vector<int> kept_, most_kept_;
};

}  // namespace

PipelineTimes simulate(const PipelinePlan& plan, PipelineCosts costs, Location where) {
  const CallScope call("simulate", where);
  if (plan.stages.empty()) raise<ValueError>({.problem = "a pipeline of 0 stages"});
  return Clock(plan, costs).run();
}

}  // namespace weft::distributed
