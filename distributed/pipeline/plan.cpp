// Order of a stage's actions.
//
// A plan is data that the simulator and the executor both read. Freedom from deadlock is a property of the plan,
// because sends never wait and messages carry the chunk they belong to.
#include <algorithm>

#include <fmt/format.h>

#include "../../tensor/error.hpp"
#include "../pipeline.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed {

namespace {

using Kind = PipelineAction::Kind;
using Actions = std::vector<PipelineAction>;

/// `warm_up` forwards, then one backward after each forward, then the remaining backwards.
template <class Forward, class Backward>
Actions in_turn(int count, int warm_up, Forward forward, Backward backward) {
  Actions out;
  for (int i = 0; i < count + warm_up; ++i) {
    if (i < count) out.push_back(forward(i));
    if (i >= warm_up) out.push_back(backward(i - warm_up));
  }
  return out;
}

Actions one_chunk(int micro_batches, int warm_up) {
  return in_turn(
      micro_batches, warm_up,
      [](int m) {
        return PipelineAction{Kind::forward, m};
      },
      [](int m) {
        return PipelineAction{Kind::backward, m};
      });
}

/// Groups of as many micro-batches as stages pass one chunk, then the next.
Actions interleaved(int stage, int stages, int micro_batches, int chunks) {
  const int group = stages * chunks, count = micro_batches * chunks;
  const auto action = [=](Kind kind, int i) {
    const int chunk = i % group / stages;
    return PipelineAction{kind, i / group * stages + i % stages, kind == Kind::forward ? chunk : chunks - 1 - chunk};
  };
  const int warm_up = chunks == 1 ? stages - 1 - stage : 2 * (stages - 1 - stage) + (chunks - 1) * stages;
  return in_turn(
      count, std::min(warm_up, count), [&](int i) { return action(Kind::forward, i); },
      [&](int i) { return action(Kind::backward, i); });
}

/// As one_f_one_b; after each input gradient, the weight gradient of the micro-batch `stage` positions before (ZB-H1).
/// Later stages, which wait less for forwards, have more weight gradients left for the end.
Actions zero_bubble(int stage, int stages, int micro_batches) {
  Actions out;
  for (const PipelineAction& a : one_chunk(micro_batches, std::min(stages - 1 - stage, micro_batches))) {
    out.push_back(a);
    if (a.kind == Kind::forward) continue;
    out.back().kind = Kind::input_gradient;
    if (a.micro_batch >= stage) out.push_back({Kind::weight_gradient, a.micro_batch - stage});
  }
  for (int m = std::max(0, micro_batches - stage); m < micro_batches; ++m) out.push_back({Kind::weight_gradient, m});
  return out;
}

Actions actions_of(PipelineSchedule schedule, int stage, int stages, int micro_batches, int chunks) {
  switch (schedule) {
    case PipelineSchedule::f_then_b:
      return one_chunk(micro_batches, micro_batches);
    case PipelineSchedule::one_f_one_b:
      return one_chunk(micro_batches, std::min(stages - 1 - stage, micro_batches));
    case PipelineSchedule::interleaved:
      return interleaved(stage, stages, micro_batches, chunks);
    case PipelineSchedule::zero_bubble:
      return zero_bubble(stage, stages, micro_batches);
  }
  return {};
}

void check(PipelineSchedule schedule, int stages, int micro_batches, int chunks) {
  for (const auto& [what, n] : {std::pair("stages", stages), {"micro-batches", micro_batches}, {"chunks", chunks}}) {
    expect_at_least(what, n, 1);
  }
  if (schedule != PipelineSchedule::interleaved) {
    if (chunks == 1) return;
    raise_value("chunks", fmt::format("1 with schedule {}", name(schedule)), chunks, "use the interleaved schedule");
  }
  if (micro_batches % stages == 0) return;
  raise<ValueError>(
      {.problem = fmt::format("{} stages do not divide {} micro-batches, which they must to be interleaved", stages,
                              micro_batches)});
}

}  // namespace

const char* name(PipelineSchedule schedule) {
  constexpr const char* names[] = {"f_then_b", "one_f_one_b", "interleaved", "zero_bubble"};
  return names[static_cast<size_t>(schedule)];
}

std::string text(std::span<const PipelineAction> actions) {
  constexpr char letters[] = {'F', 'B', 'B', 'W'};
  std::string out;
  for (const PipelineAction& a : actions) {
    if (!out.empty()) out += ' ';
    out += fmt::format("{}{}", letters[static_cast<size_t>(a.kind)], a.micro_batch);
    if (a.chunk != 0) out += fmt::format(".{}", a.chunk);
  }
  return out;
}

PipelinePlan plan_pipeline(PipelineSchedule schedule, int stages, int micro_batches, int chunks, Location where) {
  const CallScope call("plan_pipeline", where);
  check(schedule, stages, micro_batches, chunks);
  PipelinePlan plan{{}, micro_batches, chunks};
  for (int p = 0; p < stages; ++p) plan.stages.push_back(actions_of(schedule, p, stages, micro_batches, chunks));
  return plan;
}

}  // namespace weft::distributed
