// `finish` ends a backward explicitly: a rank cannot tell whether a parameter without a gradient will still receive
// one.
#include "../data_parallel.hpp"

#include <utility>

#include "../../autograd/mode.hpp"
#include "../collectives.hpp"
#include "../detail/buckets.hpp"
#include "../detail/flat.hpp"

namespace weft::distributed {

struct DataParallel::State {
  Group group;
  detail::GradientBuckets buckets;
  /// Of buckets that were sent.
  std::vector<Work> sent = {};
  std::vector<Tensor> values = {};
  std::vector<size_t> unused = {};

  State(const Group& group_, const std::vector<Tensor>& parameters, int64_t bytes, Location where)
      : group(group_),
        buckets(
            parameters, detail::buckets_of(parameters, bytes), [this](size_t bucket) { send(bucket); }, where) {}

  void send(size_t bucket) {
    if (group.size() == 1) return;
    const NoGradGuard unrecorded;
    values.push_back(buckets.gradients(bucket));
    sent.push_back(all_reduce_async_(values.back(), group, ReduceOp::avg));
  }

  void finish() {
    const NoGradGuard unrecorded;
    buckets.send_rest();
    const std::vector<bool> is_reached = detail::any_of_ranks(detail::have_gradients(buckets.parameters()), group);
    unused.clear();
    for (size_t i = 0; i < is_reached.size(); ++i) {
      if (!is_reached[i]) unused.push_back(i);
    }
    for (size_t b = 0; b < sent.size(); ++b) {
      sent[b].wait();
      const std::vector<Tensor> members = buckets.members(b), means = detail::split_like(values[b], members);
      for (size_t k = 0; k < means.size(); ++k) {
        if (is_reached[buckets.numbers(b)[k]]) members[k].set_grad(means[k]);
      }
    }
  }

  void begin_anew() {
    buckets.begin_anew();
    sent.clear();
    values.clear();
  }
};

DataParallel::DataParallel(std::vector<Tensor> parameters, DataParallelOptions options, Location where) {
  const CallScope call("DataParallel", where);
  detail::check_parameters(parameters, options.bucket_bytes);
  std::vector<Tensor> all = parameters;
  all.insert(all.end(), options.buffers.begin(), options.buffers.end());
  detail::check_alike(all, options.group);
  detail::make_alike(all, options.group);
  std::erase_if(parameters, [](const Tensor& p) { return !p.requires_grad(); });
  state_ = Shared<State>::make(options.group, parameters, options.bucket_bytes, where);
}

void DataParallel::finish(Location where) const {
  const CallScope call("DataParallel::finish", where);
  struct Anew {
    State& state;
    ~Anew() { state.begin_anew(); }
  } anew{*state_};
  state_->finish();
}

std::vector<size_t> DataParallel::unused() const { return state_->unused; }

DataParallel::NoSync DataParallel::no_sync() const { return NoSync(state_); }
DataParallel::NoSync::NoSync(Shared<State> state)
    : state_(std::move(state)), outer_(state_->buckets.set_sending(false)) {}
DataParallel::NoSync::~NoSync() {
  if (state_ != nullptr) state_->buckets.set_sending(outer_);
}

}  // namespace weft::distributed
