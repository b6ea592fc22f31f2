// Search for fast plans.
#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "../../tensor/error.hpp"
#include "stage-inl.hpp"

namespace weft::distributed {

namespace {

std::vector<int> divisors(int n) {
  std::vector<int> out;
  for (int d = 1; d <= n; ++d) {
    if (n % d == 0) out.push_back(d);
  }
  return out;
}

/// Whether the plan is valid; cost_of reports why not.
bool is_possible(const TransformerSizes& model, const TrainingPlan& plan) {
  const int64_t hidden = model.hidden > 0 ? model.hidden : 4 * model.width, tp = plan.tp;
  const bool cuts = model.heads % tp == 0 && hidden % tp == 0 && model.vocabulary % tp == 0 &&
                    (!plan.sequence_parallel || model.sequence % tp == 0);
  if (!cuts || plan.batch % (plan.dp * plan.micro_batch) != 0) return false;
  if (int64_t{plan.pp} * plan.chunks > model.layers) return false;
  return plan.chunks == 1 || cost::micro_batches_of(plan) % plan.pp == 0;
}

/// All plans with these numbers of ranks.
std::vector<TrainingPlan> plans_of(TrainingPlan plan) {
  std::vector<TrainingPlan> out;
  const int most_stage = plan.dp == 1 ? 0 : plan.pp > 1 ? 1 : 3;
  for (const bool cuts_sequences : {false, true}) {
    if (cuts_sequences && plan.tp == 1) continue;
    for (const bool checkpoint : {false, true}) {
      for (const int64_t rows : {1, 2, 4, 8}) {
        for (int chunks = 1; chunks <= (plan.pp > 1 ? 2 : 1); ++chunks) {
          for (int stage = 0; stage <= most_stage; ++stage) {
            plan.sequence_parallel = cuts_sequences;
            plan.checkpoint = checkpoint;
            plan.micro_batch = rows;
            plan.chunks = chunks;
            plan.schedule = chunks > 1 ? PipelineSchedule::interleaved : PipelineSchedule::one_f_one_b;
            plan.shard_stage = stage;
            out.push_back(plan);
          }
        }
      }
    }
  }
  return out;
}

}  // namespace

std::vector<StepCost> best_plans(const TransformerSizes& model, int devices, const PlanSearch& search,
                                 const Machine& machine, Location where) {
  const CallScope call("best_plans", where);
  if (devices < 1 || search.batch < 1) {
    raise<ValueError>({.problem = fmt::format("{} devices for {} sequences", devices, search.batch)});
  }
  std::vector<StepCost> found;
  const auto consider = [&](const TrainingPlan& plan) {
    if (!is_possible(model, plan)) return;
    StepCost cost = cost_of(model, plan, machine, where);
    if (cost.fits) found.push_back(std::move(cost));
  };
  for (const int tp : divisors(devices)) {
    if (tp > search.most_tensor_parallel) continue;
    for (const int pp : divisors(devices / tp)) {
      if (pp > search.most_stages) continue;
      const int dp = devices / tp / pp;
      // The largest number of ranks with separate experts.
      const int ep = model.experts > 0 ? static_cast<int>(std::gcd(int64_t{dp}, model.experts)) : 1;
      const TrainingPlan sizes{.dp = dp, .pp = pp, .tp = tp, .ep = ep, .batch = search.batch};
      for (const TrainingPlan& plan : plans_of(sizes)) consider(plan);
    }
  }
  std::ranges::stable_sort(found, {}, &StepCost::seconds);
  if (found.size() > search.count) found.resize(search.count);
  return found;
}

}  // namespace weft::distributed
