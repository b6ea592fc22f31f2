#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "../../autograd/engine.hpp"
#include "../../autograd/mode.hpp"
#include "../../nn/auxiliary_loss.hpp"
#include "../../ops/create.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/reduce.hpp"
#include "../../optim/gradients-inl.hpp"
#include "../../tensor/error.hpp"
#include "../collectives.hpp"
#include "../detail/clip.hpp"
#include "../detail/member.hpp"
#include "../detail/micro_batch_shares.hpp"
#include "../pipeline.hpp"
#include "split_backward-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed {

namespace {

using Kind = PipelineAction::Kind;
using Tensors = std::vector<Tensor>;

/// Tensors that one part sends to another.
struct Parcel {
  Tensors tensors;
  /// In backward: the factor of the micro-batch's loss, which only the last stage computes.
  double loss_factor = 1;
};

/// Sends parcels between parts: first a message with the factor and the sort of each entry, then the defined tensors.
/// Receivers need not be ready.
class Mail {
 public:
  Mail(const Group& group, Device device) : group_(group), device_(device) {}

  /// Sends to chunk `chunk` of a stage, forward or backward.
  void send(const Parcel& parcel, int stage, int chunk, bool backwards) {
    Tensors message{tensor(header_of(parcel), f64)};
    for (const Tensor& t : parcel.tensors) {
      if (t.defined()) message.push_back(t.detach());
    }
    const int tag = tag_of(chunk, backwards);
    std::erase_if(sent_, [](const Work& work) { return work.is_done(); });
    for (Tensor& t : message) {
      if (stage == group_.rank()) own_[tag].push_back(std::move(t));
      else sent_.push_back(send_async(t, stage, group_, tag));
    }
  }

  Parcel receive(int stage, int chunk, bool backwards) {
    const int tag = tag_of(chunk, backwards);
    const std::vector<double> header = next(stage, tag).to_vector<double>();
    Parcel parcel{{}, header[0]};
    for (size_t i = 1; i < header.size(); ++i) {
      const auto sort = static_cast<Sort>(header[i]);
      parcel.tensors.push_back(sort == undefined ? Tensor() : next(stage, tag).to(device_));
      if (sort == differentiable) parcel.tensors.back().requires_grad_();
    }
    return parcel;
  }

  void wait() {
    for (const Work& work : sent_) work.wait();
  }

 private:
  enum Sort : uint8_t { undefined, constant, differentiable };

  static std::vector<double> header_of(const Parcel& parcel) {
    std::vector<double> header{parcel.loss_factor};
    for (const Tensor& t : parcel.tensors) {
      header.push_back(!t.defined() ? undefined : t.requires_grad() ? differentiable : constant);
    }
    return header;
  }
  static int tag_of(int chunk, bool backwards) { return 2 * chunk + (backwards ? 1 : 0); }

  Tensor next(int stage, int tag) {
    if (stage != group_.rank()) return distributed::receive(stage, group_, tag);
    Tensor t = std::move(own_[tag].front());
    own_[tag].pop_front();
    return t;
  }

  const Group& group_;
  const Device device_;
  std::vector<Work> sent_;
  /// Messages between chunks of this stage, by tag.
  std::map<int, std::deque<Tensor>> own_;
};

std::vector<double> weights_of(const PipelineStep& step, int micro_batches) {
  std::vector<double> weights(static_cast<size_t>(micro_batches), 1);
  if (!step.weight) return weights;
  const OutsideCalls user;
  for (int m = 0; m < micro_batches; ++m) weights[static_cast<size_t>(m)] = step.weight(m);
  return weights;
}

class Run {
 public:
  Run(const std::vector<PipelineChunk>& chunks, const PipelineOptions& options, const PipelineStep& step)
      : chunks_(chunks), options_(options), step_(step), mail_(options.group, options.device) {}

  /// Returns the sum of the losses that this stage has computed.
  double all(const std::vector<PipelineAction>& actions) {
    const int rank = options_.group.rank();
    if ((rank == 0 && !step_.input) || (rank + 1 == stages() && !step_.loss)) {
      raise<ValueError>({.problem = fmt::format("stage {} of {} has no function of its {}", rank, stages(),
                                                rank == 0 && !step_.input ? "input" : "loss")});
    }
    if (rank + 1 == stages()) {
      shares_ = detail::micro_batch_shares(weights_of(step_, options_.micro_batches), step_.mean_weight);
    }
    for (const PipelineAction& a : actions) {
      if (a.kind == Kind::forward) forward(a);
      else backward(a);
    }
    mail_.wait();
    return losses_;
  }

 private:
  /// State of a micro-batch between forward and backward; `inputs` are those that another part produced.
  struct Kept {
    Tensors inputs, outputs, seeds;
    /// The micro-batch's weight divided by the sum of all weights, from take_seeds on.
    double loss_factor = 0;
    std::optional<detail::SplitBackward> rest = {};
  };

  int stages() const { return options_.group.size(); }
  int part(const PipelineAction& a) const { return a.chunk * stages() + options_.group.rank(); }
  bool is_last(const PipelineAction& a) const { return part(a) + 1 == stages() * static_cast<int>(chunks_.size()); }
  double share(const PipelineAction& a) const { return shares_[static_cast<size_t>(a.micro_batch)]; }
  int stage_of(int part) const { return part % stages(); }
  int chunk_of(int part) const { return part / stages(); }

  void forward(const PipelineAction& a) {
    Kept kept;
    Tensors inputs;
    if (part(a) > 0) inputs = kept.inputs = mail_.receive(stage_of(part(a) - 1), a.chunk, false).tensors;
    Tensor loss;
    {
      const OutsideCalls user;
      if (part(a) == 0) inputs = step_.input(a.micro_batch);
      kept.outputs = chunks_[static_cast<size_t>(a.chunk)].forward(inputs);
      if (is_last(a) && share(a) > 0) loss = step_.loss(a.micro_batch, kept.outputs);
    }
    if (is_last(a) && share(a) == 0) loss = sum(kept.outputs.at(0)) * 0;
    if (is_last(a)) {
      if (!loss.defined() || loss.numel() != 1) {
        raise<ShapeError>({.problem = "the loss of a micro-batch has one element",
                           .details = loss.defined() ? loss.shape().text() : "undefined"});
      }
      losses_ += share(a) == 0 ? 0 : loss.item<double>() * share(a);
      kept.outputs = {(share(a) == 0 || share(a) == 1 ? loss : loss * share(a)) / options_.micro_batches};
    } else {
      mail_.send({kept.outputs}, stage_of(part(a) + 1), chunk_of(part(a) + 1), false);
    }
    kept_[{a.chunk, a.micro_batch}] = std::move(kept);
  }

  void backward(const PipelineAction& a) {
    const auto found = kept_.find({a.chunk, a.micro_batch});
    Kept& kept = found->second;
    if (a.kind != Kind::weight_gradient) take_seeds(a, kept);
    const nn::AuxiliaryLossScale scale(kept.loss_factor);
    if (a.kind != Kind::weight_gradient) {
      const Parcel to_previous{a.kind == Kind::backward ? all_gradients(kept) : gradients_alone(kept),
                               kept.loss_factor};
      if (part(a) > 0) mail_.send(to_previous, stage_of(part(a) - 1), chunk_of(part(a) - 1), true);
    } else if (kept.rest) {
      kept.rest->finish();
    }
    if (a.kind != Kind::input_gradient) kept_.erase(found);
  }

  /// Receives the gradients of the outputs and the factor of the loss, and drops outputs without a gradient.
  void take_seeds(const PipelineAction& a, Kept& kept) {
    if (is_last(a)) {
      kept.loss_factor = share(a) / options_.micro_batches;
      kept.seeds = {ones_like(kept.outputs[0])};
      if (!kept.outputs[0].requires_grad()) kept.outputs.clear();
    } else {
      const auto [received, loss_factor] = mail_.receive(stage_of(part(a) + 1), a.chunk, true);
      kept.loss_factor = loss_factor;
      Tensors outputs;
      for (size_t i = 0; i < received.size(); ++i) {
        if (!received[i].defined()) continue;
        outputs.push_back(kept.outputs[i]);
        kept.seeds.push_back(received[i]);
      }
      kept.outputs = std::move(outputs);
    }
    if (kept.outputs.empty()) kept.seeds.clear();
  }

  static bool wants_gradient(const Tensor& input) { return input.defined() && input.requires_grad(); }

  /// Gradients of the inputs; accumulates those of weights.
  static Tensors all_gradients(const Kept& kept) {
    if (!kept.outputs.empty()) weft::backward(kept.outputs, kept.seeds);
    Tensors gradients;
    for (const Tensor& input : kept.inputs) gradients.push_back(wants_gradient(input) ? input.grad() : Tensor());
    return gradients;
  }
  /// Gradients of the inputs only; weights follow later.
  static Tensors gradients_alone(Kept& kept) {
    Tensors gradients(kept.inputs.size()), wanted;
    if (kept.outputs.empty()) return gradients;
    for (const Tensor& input : kept.inputs) {
      if (wants_gradient(input)) wanted.push_back(input);
    }
    kept.rest.emplace(kept.outputs, kept.seeds, wanted);
    auto next = kept.rest->gradients().begin();
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (wants_gradient(kept.inputs[i])) gradients[i] = *next++;
    }
    return gradients;
  }

  const std::vector<PipelineChunk>& chunks_;
  const PipelineOptions& options_;
  const PipelineStep& step_;
  Mail mail_;
  /// By chunk and micro-batch.
  std::map<std::pair<int, int>, Kept> kept_;
  double losses_ = 0;
  /// On the last stage: weights of the micro-batches, divided by their mean over all replicas.
  std::vector<double> shares_;
};

void check_shared(const PipelineSharedWeight& shared, int rank) {
  const bool is_here = std::ranges::find(shared.ranks, rank) != shared.ranks.end();
  if (!shared.ranks.empty() && is_here == shared.weight.defined()) return;
  raise<ValueError>({.problem = shared.ranks.empty() ? "a shared weight is on no rank"
                                : is_here            ? "a shared weight of this rank is undefined"
                                                     : "a shared weight is given that is not on this rank"});
}

/// Raises ValueError, on every rank, unless all have the same options.
void check_agreement(const PipelineOptions& options, size_t chunks) {
  const Group& group = options.group;
  const Tensor own = tensor({static_cast<int64_t>(options.schedule), static_cast<int64_t>(options.micro_batches),
                             static_cast<int64_t>(chunks), static_cast<int64_t>(options.shared.size())});
  const std::vector<int64_t> all = all_gather(own, group).to_vector<int64_t>();
  for (size_t i = 4; i < all.size(); ++i) {
    if (all[i] == all[i % 4]) continue;
    constexpr const char* what[] = {"schedule", "number of micro-batches", "number of chunks",
                                    "number of shared weights"};
    raise<ValueError>({.problem = fmt::format("stages 0 and {} differ in their {}", i / 4, what[i % 4])});
  }
}

/// While one exists, the gradients of shared weights are those of this step only.
class SharedGradients {
 public:
  SharedGradients(const std::vector<PipelineSharedWeight>& shared, const std::vector<Group>& holders)
      : shared_(shared), holders_(holders) {
    for (const PipelineSharedWeight& s : shared_) {
      before_.push_back(is_trained(s) ? s.weight.grad() : Tensor());
      if (is_trained(s)) s.weight.set_grad({});
    }
  }
  /// Sums them over their ranks, and adds the previous gradients.
  void finish() {
    const NoGradGuard unrecorded;
    for (size_t i = 0; i < shared_.size(); ++i) {
      const Tensor& weight = shared_[i].weight;
      if (!is_trained(shared_[i])) continue;
      Tensor sum = weight.grad().defined() ? weight.grad() : zeros_like(weight);
      if (holders_[i].size() > 1) sum = all_reduce(sum, holders_[i]);
      weight.set_grad(before_[i].defined() ? before_[i] + sum : sum);
    }
  }

 private:
  static bool is_trained(const PipelineSharedWeight& s) { return s.weight.defined() && s.weight.requires_grad(); }

  const std::vector<PipelineSharedWeight>& shared_;
  const std::vector<Group>& holders_;
  Tensors before_;
};

}  // namespace

Pipeline::Pipeline(std::vector<PipelineChunk> chunks, PipelineOptions options, Location where)
    : chunks_(std::move(chunks)), options_(std::move(options)) {
  const CallScope call("Pipeline", where);
  Group& group = options_.group;
  group.member().check_member();
  plan_ =
      plan_pipeline(options_.schedule, group.size(), options_.micro_batches, static_cast<int>(chunks_.size()), where);
  for (const PipelineChunk& chunk : chunks_) {
    if (!chunk.forward) raise<ValueError>({.problem = "a chunk without a function"});
  }
  for (const PipelineSharedWeight& shared : options_.shared) check_shared(shared, group.rank());
  // A separate group, whose messages are not mixed up with others of the caller's group.
  std::vector<int> all(static_cast<size_t>(group.size()));
  std::iota(all.begin(), all.end(), 0);
  group = group.subgroup(all);
  check_agreement(options_, chunks_.size());
  const NoGradGuard unrecorded;
  for (const PipelineSharedWeight& shared : options_.shared) {
    holders_.push_back(group.subgroup(shared.ranks));
    if (shared.weight.defined() && shared.ranks.size() > 1) broadcast_(shared.weight.detach(), 0, holders_.back());
  }
}

double Pipeline::run(const PipelineStep& step, Location where) const {
  const CallScope call("Pipeline::run", where);
  const Group& group = options_.group;
  // Destroyed after the catch block: other ranks must learn of an error before messages are withdrawn.
  Run steps(chunks_, options_, step);
  try {
    SharedGradients shared(options_.shared, holders_);
    const double losses = steps.all(plan_.stages[static_cast<size_t>(group.rank())]);
    shared.finish();
    const Tensor mean = tensor(losses / options_.micro_batches, f64);
    return (group.size() == 1 ? mean : broadcast(mean, group.size() - 1, group)).item<double>();
  } catch (const std::exception& error) {
    group.member().wire().fail(detail::one_line(error.what()));
    throw;
  } catch (...) {
    group.member().wire().fail("it threw something that is no std::exception");
    throw;
  }
}

double Pipeline::gradient_norm(std::span<const Tensor> parameters, Location where) const {
  const CallScope call("Pipeline::gradient_norm", where);
  Tensors owned;
  for (const Tensor& p : parameters) {
    bool is_owned = true;
    for (size_t i = 0; i < options_.shared.size(); ++i) {
      if (options_.shared[i].weight.impl() == p.impl()) is_owned = holders_[i].rank() == 0;
    }
    if (is_owned) owned.push_back(p);
  }
  const NoGradGuard unrecorded;
  return detail::norm_over(std::array{options_.group}, optim::detail::gradient_length(owned));
}

}  // namespace weft::distributed
