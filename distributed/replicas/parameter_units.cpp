// In stage 3 the memory of a parameter is exchanged and its tensor stays. Saved tensors refer to the parameter, so
// nothing is kept between forward and backward, and the version check rejects a parameter that is not gathered.
#include "../detail/parameter_units.hpp"

#include <algorithm>
#include <limits>

#include "../../autograd/mode.hpp"
#include "../../nn/module_state-inl.hpp"
#include "../../ops/create.hpp"
#include "../collectives.hpp"
#include "../detail/flat.hpp"

namespace weft::distributed::detail {

namespace {

/// No tensor is saved with this version, so that backward refuses a parameter that is not gathered.
constexpr uint32_t dropped_version = uint32_t{1} << 31;

int64_t count_of(const std::vector<Tensor>& tensors) {
  int64_t count = 0;
  for (const Tensor& t : tensors) count += t.numel();
  return count;
}

Tensor nothing_like(const Tensor& member) {
  const Tensor nan = full({}, std::numeric_limits<double>::quiet_NaN(), {member.dtype(), member.device()});
  Storage& storage = *nan.impl()->storage;
  storage.version = dropped_version;
  storage.last_writer = "the end of its module's call, behind which ShardedOptimizer keeps parts alone,";
  return nan.expand(member.shape()).detach();
}

}  // namespace

FlatParameters flat_parameters(std::vector<Tensor> members, const Group& group) {
  const NoGradGuard unrecorded;
  const int64_t count = count_of(members), each = shard_size(count, group.size(), 0);
  const Tensor own = zeros({each}, {members[0].dtype(), members[0].device()});
  const int64_t size = shard_size(count, group.size(), group.rank());
  const int64_t begin = shard_begin(count, group.size(), group.rank());
  own.narrow(0, 0, size).copy_(flattened(members).narrow(0, begin, size));
  return {std::move(members), own, group};
}

std::pair<int64_t, int64_t> ParameterUnits::Flat::own_range() const {
  const Group& group = parameters.group;
  const int64_t begin = shard_begin(count, group.size(), group.rank());
  return {begin, begin + shard_size(count, group.size(), group.rank())};
}

void ParameterUnits::add(const nn::Module& module, std::vector<FlatParameters> flats, Location where) {
  const NoGradGuard unrecorded;
  const size_t number = units_.size();
  Unit& unit = units_.emplace_back();
  for (FlatParameters& flat : flats) {
    const int64_t count = count_of(flat.members);
    const Flat& made = unit.flats.emplace_back(Flat{std::move(flat), count, Tensor(), std::vector<Tensor>()});
    for (const Tensor& member : made.members()) {
      nn::detail::exchange_memory(member, nothing_like(member));
      if (!member.requires_grad()) continue;
      ++unit.trained;
      hooks_.emplace_back(
          member.register_post_accumulate_grad_hook([this, number](const Tensor&) { arrive(units_[number]); }, where));
    }
  }
  nn::Module m = module;
  hooks_.emplace_back(m.register_forward_pre_hook(
      [this, number](const nn::ForwardEvent&) { make_whole(number, Phase::forward); }, where));
  hooks_.emplace_back(
      m.register_forward_hook([this, number](const nn::ForwardEvent&) { drop(units_[number]); }, where));
  hooks_.emplace_back(
      m.register_backward_pre_hook([this, number](const GradEvent&) { make_whole(number, Phase::backward); }, where));
  if (unit.trained == 0) {
    hooks_.emplace_back(m.register_backward_hook([this, number](const GradEvent&) { drop(units_[number]); }, where));
  }
}

std::vector<ParameterUnits::Part> ParameterUnits::parts() const {
  std::vector<Part> out;
  for (const Unit& unit : units_) {
    for (const Flat& flat : unit.flats) {
      const auto [own_begin, own_end] = flat.own_range();
      int64_t begin = 0;
      for (const Tensor& member : flat.members()) {
        const int64_t low = std::max(begin, own_begin), high = std::min(begin + member.numel(), own_end);
        if (low < high)
          out.push_back({member, flat.parameters.own.narrow(0, low - own_begin, high - low), low - begin});
        begin += member.numel();
      }
    }
  }
  return out;
}

std::vector<Tensor> ParameterUnits::members() const {
  std::vector<Tensor> out;
  for (const Unit& unit : units_) {
    for (const Flat& flat : unit.flats) out.insert(out.end(), flat.members().begin(), flat.members().end());
  }
  return out;
}

void ParameterUnits::make_whole(size_t number, Phase phase) {
  const NoGradGuard unrecorded;
  Unit& unit = units_[number];
  if (!unit.is_whole) {
    fetch(unit);
    take(unit);
  }
  foresee(number, phase);
}

void ParameterUnits::fetch(Unit& unit) {
  if (!unit.coming.empty()) return;
  for (const Flat& flat : unit.flats) {
    unit.coming.push_back(all_gather_async(flat.parameters.own, flat.parameters.group));
  }
}

void ParameterUnits::take(Unit& unit) {
  for (size_t f = 0; f < unit.flats.size(); ++f) {
    Flat& flat = unit.flats[f];
    flat.whole = unit.coming[f].wait();
    flat.whole.impl()->storage->version = version_;
    flat.others.clear();
    for (const Tensor& part : split_like(flat.whole.narrow(0, 0, flat.count), flat.members())) {
      flat.others.push_back(part.detach());
      nn::detail::exchange_memory(flat.members()[flat.others.size() - 1], flat.others.back());
    }
  }
  unit.coming.clear();
  unit.is_whole = true;
  unit.arrived = 0;
}

void ParameterUnits::drop(Unit& unit) {
  if (!unit.is_whole || pins_ > 0) return;
  for (Flat& flat : unit.flats) {
    for (size_t i = 0; i < flat.members().size(); ++i) nn::detail::exchange_memory(flat.members()[i], flat.others[i]);
    flat.others.clear();
    flat.whole = Tensor();
  }
  unit.is_whole = false;
}

void ParameterUnits::arrive(Unit& unit) {
  if (++unit.arrived == unit.trained) drop(unit);
}

void ParameterUnits::foresee(size_t number, Phase phase) {
  const std::pair here(phase, number);
  if (last_ && last_->first == phase && last_->second != number) follower_[*last_] = number;
  last_ = here;
  const auto next = follower_.find(here);
  if (next != follower_.end() && !units_[next->second].is_whole) fetch(units_[next->second]);
}

void ParameterUnits::renew() {
  const int pins = std::exchange(pins_, 0);
  for (Unit& unit : units_) {
    for (const Work& work : unit.coming) work.wait();
    unit.coming.clear();
    drop(unit);
  }
  ++version_;
  last_.reset();
  pins_ = pins;
  if (pins_ > 0) gather_all();
}

void ParameterUnits::pin() {
  if (pins_++ == 0) gather_all();
}

void ParameterUnits::gather_all() {
  const NoGradGuard unrecorded;
  for (Unit& unit : units_) {
    if (!unit.is_whole) fetch(unit);
  }
  for (Unit& unit : units_) {
    if (!unit.is_whole) take(unit);
  }
}

std::vector<Tensor> ParameterUnits::unpin() {
  if (--pins_ > 0) return {};
  const NoGradGuard unrecorded;
  std::vector<Tensor> written;
  for (Unit& unit : units_) {
    for (const Flat& flat : unit.flats) {
      if (flat.whole.version() == version_) continue;
      const auto [begin, end] = flat.own_range();
      flat.parameters.own.narrow(0, 0, end - begin).copy_(flat.whole.narrow(0, begin, end - begin));
      written.push_back(flat.parameters.own);
    }
    drop(unit);
  }
  return written;
}

}  // namespace weft::distributed::detail
