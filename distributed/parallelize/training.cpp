#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../nn/auxiliary_loss.hpp"
#include "../../ops/create.hpp"
#include "../../ops/pieces.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/reduce.hpp"
#include "../collectives.hpp"
#include "../detail/clip.hpp"
#include "../detail/micro_batch_shares.hpp"
#include "../detail/optimizer_state.hpp"
#include "../detail/run_state.hpp"
#include "../detail/tensor_set.hpp"
#include "model-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed {

struct ParallelTraining::State {
  Shared<ParallelModel::State> model;
  std::unique_ptr<optim::Optimizer> whole;
  /// For replicated parameters, and for experts.
  std::optional<DataParallel> replicas, expert_replicas;
  std::optional<ShardedOptimizer> sharded;
  std::optional<Pipeline> pipeline;
  /// has_gradients: gradients exist that no step has used. is_finished: replicas have averaged them.
  bool has_gradients = false, is_finished = false;
  ClipScope scope;

  State(Shared<ParallelModel::State> model_, std::unique_ptr<optim::Optimizer> optimizer, Location where)
      : model(std::move(model_)) {
    const ParallelPlan& plan = model->plan;
    // Must precede sharding: shared weights are still whole here.
    if (model->pp().size() > 1) make_pipeline(where);
    if (plan.shard_stage > 0) {
      shard(std::move(optimizer), where);
    } else {
      const detail::TensorSet experts(model->experts);
      std::vector<Tensor> parameters;
      for (const auto& [name, p] : model->parameters) {
        if (!experts.contains(p)) parameters.push_back(p);
      }
      const auto options = [&](const Group& group) {
        return DataParallelOptions{.bucket_bytes = plan.bucket_bytes, .group = group};
      };
      replicas.emplace(parameters, options(model->replicas()), where);
      if (!model->experts.empty()) expert_replicas.emplace(model->experts, options(model->dp()), where);
      whole = std::move(optimizer);
    }
    scope = clip_scope();
  }

  void shard(std::unique_ptr<optim::Optimizer> optimizer, Location where) {
    const ParallelPlan& plan = model->plan;
    auto* const elementwise = dynamic_cast<optim::ElementwiseOptimizer*>(optimizer.get());
    if (elementwise == nullptr) {
      raise<ValueError>(
          {.problem = fmt::format("{} does not work element by element, as sharding needs", optimizer->name())});
    }
    (void)optimizer.release();
    std::optional<ExpertParameters> experts;
    if (!model->experts.empty()) experts = {model->experts, model->dp()};
    sharded.emplace(
        std::unique_ptr<optim::ElementwiseOptimizer>(elementwise),
        ShardedOptimizerOptions{.stage = plan.shard_stage,
                                .bucket_bytes = plan.bucket_bytes,
                                .group = model->replicas(),
                                .modules = plan.shard_stage == 3 ? model->units() : std::vector<nn::Module>(),
                                .experts = experts},
        where);
  }

  void make_pipeline(Location where) {
    std::vector<PipelineChunk> chunks;
    for (int c = 0; c < model->plan.chunks; ++c) {
      const auto [first, last] = model->chunk(c);
      const auto all = model->layers.layers.begin();
      chunks.push_back({[layers = std::vector(all + static_cast<ptrdiff_t>(first), all + static_cast<ptrdiff_t>(last))](
                            std::span<const Tensor> x) {
        Tensor y = x[0];
        for (const ParallelLayers::Layer& layer : layers) y = layer.call(y);
        return std::vector{y};
      }});
    }
    pipeline.emplace(std::move(chunks),
                     PipelineOptions{.schedule = model->plan.schedule,
                                     .micro_batches = model->plan.micro_batches,
                                     .shared = model->shared,
                                     .group = model->pp()},
                     where);
  }

  /// Calls f while gradients are not sent.
  template <class F>
  auto alone(F f) const {
    if (sharded) {
      const auto guard = sharded->no_sync();
      return f();
    }
    const auto guard = replicas->no_sync();
    std::optional<DataParallel::NoSync> expert_guard;
    if (expert_replicas) expert_guard.emplace(expert_replicas->no_sync());
    return f();
  }

  /// Returns the mean of the losses weighted by `weights`, and accumulates its gradients.
  double run(const std::vector<Tensor>& inputs, const std::vector<Tensor>& targets, const std::vector<double>& weights,
             const ParallelLoss& loss) const {
    const auto mean_over_replicas = [&](double own) { return mean_weight(own, model->replicas()); };
    if (!pipeline) {
      return run_whole(inputs, targets, detail::micro_batch_shares(weights, mean_over_replicas), loss);
    }
    const auto at = [](int m) { return static_cast<size_t>(m); };
    const PipelineStep step{.input = [&](int m) { return std::vector{inputs[at(m)]}; },
                            .loss = [&](int m, std::span<const Tensor> y) { return loss(y[0], targets[at(m)]); },
                            .weight = [&](int m) { return weights[at(m)]; },
                            .mean_weight = mean_over_replicas};
    return alone([&] { return pipeline->run(step); });
  }

  /// `run` without stages.
  double run_whole(const std::vector<Tensor>& inputs, const std::vector<Tensor>& targets,
                   const std::vector<double>& shares, const ParallelLoss& loss) const {
    double sum = 0;
    const auto count = static_cast<double>(inputs.size());
    const auto one = [&](size_t m) {
      const Tensor y = model->layers.model.call(inputs[m]);
      Tensor own = shares[m] == 0 ? weft::sum(y) * 0 : loss(y, targets[m]);
      if (shares[m] != 0 && shares[m] != 1) own = own * shares[m];
      sum += own.detach().to(f64).item<double>();
      const nn::AuxiliaryLossScale scale(shares[m] / count);
      (inputs.size() == 1 ? own : own / count).backward();
    };
    for (size_t m = 0; m + 1 < inputs.size(); ++m) alone([&] { one(m); });
    one(inputs.size() - 1);  // sends gradients while backward runs
    return sum / count;
  }

  /// Positions of this rank's parameters and buffers in the whole model.
  io::ShardedState places() const { return distributed::sharded_state(model->layers.model.module); }
  std::vector<nn::NamedTensor> names() const {
    std::vector<nn::NamedTensor> out = model->parameters;
    out.insert(out.end(), model->buffers.begin(), model->buffers.end());
    return out;
  }

  /// Parameters that another rank counts: those replicated along "tp" or "ep", and weights shared by several stages.
  ClipScope clip_scope() const {
    ClipScope out{{model->tp(), model->pp()}, {}};
    const detail::TensorSet whole_on_all(model->whole_on_all), experts(model->experts);
    // Shards over replicas are already summed over "ep".
    if (!sharded) out.groups.push_back(model->ep());
    for (const auto& [name, p] : model->parameters) {
      const bool tp_counts = model->tp().rank() > 0 && whole_on_all.contains(p);
      const bool ep_counts = !sharded && model->ep().rank() > 0 && !experts.contains(p);
      if (tp_counts || ep_counts) out.counted_elsewhere.push_back(p);
    }
    for (const PipelineSharedWeight& w : model->shared) {
      if (w.weight.defined() && w.ranks[0] != model->pp().rank()) out.counted_elsewhere.push_back(w.weight);
    }
    return out;
  }
};

namespace {

/// Raises ValueError, on every rank of a replica, for a weight that is negative or not finite.
std::vector<double> weights_of(const std::vector<Tensor>& targets, const ParallelWeight& weight) {
  std::vector<double> weights;
  {
    const OutsideCalls user;
    for (const Tensor& t : targets) weights.push_back(weight ? weight(t) : static_cast<double>(t.size(0)));
  }
  detail::check_micro_batch_weights(weights);
  return weights;
}

}  // namespace

ParallelTraining::ParallelTraining(const ParallelModel& model, std::unique_ptr<optim::Optimizer> optimizer,
                                   Location where) {
  const CallScope call("ParallelTraining", where);
  state_ = Shared<State>::make(model.state_, std::move(optimizer), where);
}

double ParallelTraining::backward(const Tensor& input, const Tensor& target, const ParallelLoss& loss,
                                  const ParallelWeight& weight, Location where) {
  const CallScope call("ParallelTraining::backward", where);
  if (state_->has_gradients) {
    raise<ValueError>({.problem = "the gradients of the last backward were not used",
                       .remedy = "step() or zero_grad() first; a plan's micro_batches add up gradients"});
  }
  const int64_t count = state_->model->plan.micro_batches;
  for (const Tensor* t : {&input, &target}) {
    if (t->defined() && t->dim() > 0 && t->size(0) % count == 0) continue;
    raise<ValueError>({.problem = fmt::format("{} micro-batches do not divide the rows", count),
                       .details = t->defined() ? t->shape().text() : "undefined"});
  }
  const std::vector<Tensor> targets = target.chunk(static_cast<int>(count), 0);
  const std::vector<double> weights = weights_of(targets, weight);
  state_->has_gradients = true;
  const double mean = state_->run(input.chunk(static_cast<int>(count), 0), targets, weights, loss);
  return all_reduce(tensor(mean, f64), state_->model->replicas(), ReduceOp::avg).item<double>();
}

double ParallelTraining::clip_grad_norm(double max_norm, Location where) {
  const CallScope call("ParallelTraining::clip_grad_norm", where);
  detail::check_max_norm(max_norm);
  const ClipScope& scope = state_->scope;
  if (state_->sharded) return state_->sharded->clip_grad_norm(max_norm, scope);
  finish();
  const std::vector<Tensor> all = state_->whole->parameters();
  const detail::TensorSet elsewhere(scope.counted_elsewhere);
  std::vector<Tensor> counted = all;
  std::erase_if(counted, [&](const Tensor& p) { return elsewhere.contains(p); });
  return detail::clip_over(scope.groups, counted, all, max_norm);
}

void ParallelTraining::step(Location where) {
  const CallScope call("ParallelTraining::step", where);
  state_->has_gradients = false;
  if (state_->sharded) return state_->sharded->step();
  finish();
  state_->is_finished = false;
  state_->whole->step();
}

void ParallelTraining::finish() {
  if (std::exchange(state_->is_finished, true)) return;
  state_->replicas->finish();
  if (state_->expert_replicas) state_->expert_replicas->finish();
}

void ParallelTraining::zero_grad() {
  // Completes pending communication first: other ranks may wait for it.
  const bool is_under_way = std::exchange(state_->has_gradients, false);
  if (state_->sharded) {
    if (is_under_way) state_->sharded->reduce_gradients();
    return state_->sharded->zero_grad();
  }
  if (is_under_way) finish();
  state_->is_finished = false;
  state_->whole->zero_grad();
}

ShardedRun ParallelTraining::run() const {
  const io::ShardedState places = state_->places();
  ShardedRun run{.model = {}, .parameters = state_->names()};
  if (state_->sharded) {
    run.model = state_->sharded->sharded_parameters(run.parameters, places);
    run.sharded_optimizer = &*state_->sharded;
  } else {
    for (const auto& [name, tensor] : run.parameters) run.model.emplace(name, places.at(name));
    run.optimizer = state_->whole.get();
  }
  return run;
}

io::ShardedState ParallelTraining::sharded_state(Location where) const {
  const CallScope call("ParallelTraining::sharded_state", where);
  ShardedRun run = this->run();
  io::ShardedState out = detail::optimizer_parts(run);
  out.merge(run.model);
  return out;
}

void ParallelTraining::load_sharded_state(const io::Path& folder, const io::LoadStateDictOptions& options,
                                          Location where) {
  const CallScope call("ParallelTraining::load_sharded_state", where);
  if (state_->sharded) {
    const io::ShardedState places = state_->places();
    const std::vector<nn::NamedTensor> names = state_->names();
    state_->sharded->load_sharded_parameters(folder, names, options, places);
    state_->sharded->load_sharded_state(folder, names, options, places);
    return;
  }
  const ShardedRun run = this->run();
  io::load_state_dict(run.model, folder, options);
  detail::load_optimizer_state(*run.optimizer, detail::parts_of(run), folder, options, where);
}

std::optional<ShardedOptimizer::Whole> ParallelTraining::whole_parameters() const {
  if (!state_->sharded || state_->model->plan.shard_stage < 3) return {};
  return state_->sharded->whole_parameters();
}

optim::Optimizer& ParallelTraining::optimizer() const {
  return state_->sharded ? state_->sharded->optimizer() : *state_->whole;
}
ShardedOptimizer* ParallelTraining::sharded() const { return state_->sharded ? &*state_->sharded : nullptr; }

}  // namespace weft::distributed
