#include "../detail/program_tracer.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "../../autograd/accumulation.hpp"
#include "../../autograd/autocast.hpp"
#include "../../backends/watch/recorded_kernel.hpp"
#include "../../tensor/layout.hpp"

namespace weft::detail {

namespace {

constexpr int64_t most_classes = 65536, most_columns = 256, most_rows = 16, most_elements = 65536;

/// Scope of the tracer's own computations: unrecorded and unobserved.
struct Aside {
  const UnwatchedScope unwatched;
  const UnrecordedScope uncaptured;
  const NoGradGuard unrecorded;
};

bool has_values(const Tensor& t) { return t.defined() && t.device().type != DeviceType::meta && t.numel() > 0; }

/// Whether the rows of a matrix are equal up to rounding.
bool are_equal(const float* first, int64_t rows, int64_t columns) {
  float largest = 0;
  for (int64_t c = 0; c < columns; ++c) largest = std::max(largest, std::abs(first[c]));
  for (int64_t i = columns; i < rows * columns; ++i) {
    if (!(std::abs(first[i] - first[i % columns]) <= 1e-6f * largest)) return false;
  }
  return true;
}

Tensor some_rows(const Tensor& t) {
  const auto every = [](int64_t count, int64_t max_count) { return (count + max_count - 1) / max_count; };
  const Tensor rows = t.detach().slice(0, 0, t.size(0), every(t.size(0), most_rows));
  const Tensor flat = rows.reshape({rows.size(0), rows.numel() / rows.size(0)});
  return flat.slice(1, 0, flat.size(1), every(flat.size(1), most_columns)).to(Device()).to(f32).contiguous();
}

const float* floats(const Tensor& t) { return static_cast<const float*>(t.raw_view().data); }

std::vector<float> some_elements(const Tensor& t) {
  const Tensor some = sampled(t, 4096);
  if (!some.defined()) return {};
  return {floats(some), floats(some) + some.numel()};
}

double dot(const std::vector<float>& a, const std::vector<float>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

void count_classes(const Tensor& targets, LossSeen& seen) {
  const Tensor host = sampled(targets, most_elements);
  for (int64_t i = 0; i < host.numel(); ++i) {
    const auto value = static_cast<int64_t>(floats(host)[i]);
    if (value < 0 || value >= most_classes) continue;
    if (seen.classes.size() <= static_cast<size_t>(value)) seen.classes.resize(static_cast<size_t>(value) + 1);
    ++seen.classes[static_cast<size_t>(value)];
  }
}

void add_columns(const Tensor& targets, LossSeen& seen) {
  const int64_t rows = targets.size(0), columns = targets.numel() / rows;
  const int64_t kept_columns = std::min(columns, most_columns);
  const Tensor host =
      targets.detach().reshape({rows, columns}).slice(1, 0, kept_columns).to(Device()).to(f32).contiguous();
  if (seen.sums.size() != static_cast<size_t>(kept_columns)) {
    seen.numbers = 0;
    seen.sums.assign(static_cast<size_t>(kept_columns), 0), seen.squares = seen.sums;
  }
  for (int64_t i = 0; i < host.numel(); ++i) {
    const double value = floats(host)[i];
    seen.sums[static_cast<size_t>(i % kept_columns)] += value,
        seen.squares[static_cast<size_t>(i % kept_columns)] += value * value;
  }
  seen.numbers += rows;
}

void note_only(const Tensor& targets, LossSeen& seen) {
  const Tensor host = sampled(targets, most_elements);
  if (!seen.only_target) seen.only_target = floats(host)[0];
  for (int64_t i = 0; i < host.numel() && !seen.several_targets; ++i) {
    seen.several_targets = floats(host)[i] != *seen.only_target;
  }
}

}  // namespace

Tensor sampled(const Tensor& t, int64_t max_count) {
  if (!has_values(t)) return {};
  const int64_t stride = (t.numel() + max_count - 1) / max_count;
  return t.detach().reshape({-1}).slice(0, 0, t.numel(), stride).to(Device()).to(f32).contiguous();
}

std::optional<bool> rows_are_equal(const Tensor& t) {
  if (!has_values(t) || t.dim() < 1 || t.size(0) < 2) return {};
  const Tensor some = some_rows(t);
  return are_equal(floats(some), some.size(0), some.size(1));
}

void ProgramTracer::on_detach(const Tensor& x, const Tensor& result) {
  if (cuts_ && !in_node_ && !stepped_) cuts_->on_detach(x, result, current_call);
}

void ProgramTracer::converted(const Tensor& x, const Tensor& result) {
  if (in_node_ || autocast_mode.on || x.dtype() != f32 || result.dtype() != f16) return;
  if (x.is_leaf() || x.numel() < 2) return;
  const std::string place = short_place(current_call.where);
  if (std::ranges::find(casts_, place) == casts_.end()) casts_.push_back(place);
}

void ProgramTracer::compared(const Tensor& predictions, const Tensor& targets) {
  if (in_node_ || !has_values(predictions) || !has_values(targets)) return;
  const std::string op = current_call.entry, place = short_place(current_call.where);
  const Aside aside;
  auto seen = std::ranges::find_if(losses_, [&](const LossSeen& l) { return l.op == op && l.place == place; });
  if (seen == losses_.end()) seen = losses_.insert(losses_.end(), {.op = op, .place = place});
  seen->last = now_;
  seen->rows = predictions.dim() > 0 ? predictions.size(0) : 1;
  seen->of_model = model_output_ != nullptr && predictions.impl()->storage == model_output_;
  seen->sized_as_model = predictions.numel() == model_numel_;
  const std::optional<bool> equal = rows_are_equal(predictions);
  seen->steps_of_equal_predictions = equal.value_or(false) ? seen->steps_of_equal_predictions + 1 : 0;
  note_only(targets, *seen);
  if (targets.requires_grad()) seen->several_targets = true;
  if (!is_floating(targets.dtype())) count_classes(targets, *seen);
  else if (targets.dim() > 0 && !targets.requires_grad()) add_columns(targets, *seen);
}

void ProgramTracer::hook_begins(const Hook& hook, const Tensor& gradient) {
  if (!hook.where.known()) return;
  const Aside aside;
  before_hook_ = some_elements(gradient);
}

void ProgramTracer::hook_changed(const Hook& hook, const Node& node, const Tensor& gradient) {
  if (!hook.where.known() || before_hook_.empty()) return;
  const Aside aside;
  const std::vector<float> before = std::exchange(before_hook_, {}), after = some_elements(gradient);
  if (after.size() != before.size()) return;
  const double b = std::sqrt(dot(before, before)), a = std::sqrt(dot(after, after));
  if (!(b > 0) || !std::isfinite(b) || !std::isfinite(a)) return;
  HookChange change{.place = short_place(hook.where), .op = node.op, .at = short_place(node.where), .times = 1};
  change.factor = a / b, change.cosine = a > 0 ? dot(before, after) / (a * b) : 1;
  if (node.accumulates) {
    const auto leaf = parameters_.find(static_cast<const AccumulationNode&>(node).leaf);
    if (leaf == parameters_.end()) return;
    change.index = leaf->second;
  }
  const auto same = [&](const HookChange& c) { return c.place == change.place; };
  const auto known = std::ranges::find_if(changes_, same);
  if (known == changes_.end()) return changes_.push_back(std::move(change));
  ++known->times;
  if (std::abs(std::log(change.factor)) < std::abs(std::log(known->factor))) known->factor = change.factor;
  known->cosine = std::max(known->cosine, change.cosine);
}

void ProgramTracer::clipped(double norm, double limit, Location where) {
  if (!std::isfinite(norm)) return;
  clippings_.push_back({.place = short_place(where), .norm = norm, .limit = limit});
}

void ProgramTracer::rate_set(double rate, Location where) {
  zero_place_ = rate == 0 ? short_place(where) : std::string();
}

void ProgramTracer::stepping(const char* optimizer, const SteppedGroup& group, Location where) {
  stepped_ = true;
  OptimizerSteps told{.optimizer = optimizer, .place = short_place(where)};
  for (const Tensor& p : group.parameters) {
    const auto known = parameters_.find(p.impl());
    if (known == parameters_.end() || !p.grad().defined()) continue;
    told.parameters.push_back({known->second, group.rate, group.decay, group.decoupled});
  }
  if (!told.parameters.empty()) steps_.push_back(std::move(told));
}

void ProgramTracer::search(std::optional<CutSearch> cuts, int64_t equal_rows) {
  cuts_ = std::move(cuts);
  rows_ = equal_rows;
}

void ProgramTracer::after_kernel(const KernelCall& call) {
  if (in_node_ || stepped_) return;
  if (cuts_) cuts_->after(call, program_records_);
  if (rows_ > 0 && equal_place_.empty() && program_records_ && model_output_ == nullptr) find_equal_rows(call);
}

namespace {

/// For a contiguous f32 matrix on the CPU with several rows; nothing otherwise.
std::optional<bool> rows_are_equal(const View& view) {
  const Layout& l = view.layout;
  if (l.rank < 1 || l.sizes[0] < 2 || l.numel == 0 || l.device_type != DeviceType::cpu || !l.contiguous) return {};
  if (l.dtype != DType::f32) return {};
  return are_equal(static_cast<const float*>(view.data), l.sizes[0], l.numel / l.sizes[0]);
}

}  // namespace

void ProgramTracer::find_equal_rows(const KernelCall& call) {
  const CallPlace here{call.op == nullptr ? "" : call.op, call.where};
  for (const View* out : call.outputs) {
    const Layout& o = out->layout;
    const bool equal = rows_are_equal(*out) == true;
    for (const View* in : call.inputs) {
      if (rows_are_equal(*in) != false) continue;
      const Layout& i = in->layout;
      if (i.sizes[0] != rows_) continue;
      if (equal && o.sizes[0] == rows_) equal_op_ = here.op, equal_place_ = short_place(here.where);
      // Reductions over rows may make them equal for another reason.
      if (o.rank == 0 || o.sizes[0] != rows_) mixed_op_ = here.op, mixed_place_ = short_place(here.where);
    }
  }
}

void ProgramTracer::keep_changes(int64_t step, ProgramFacts& facts) {
  for (HookChange& c : changes_) {
    const auto known = std::ranges::find(facts.hook_changes, c.place, &HookChange::place);
    c.step = step, c.steps = 1;
    if (known == facts.hook_changes.end()) {
      facts.hook_changes.push_back(std::move(c));
      continue;
    }
    if (std::abs(std::log(known->factor)) < std::abs(std::log(c.factor))) c.factor = known->factor;
    c.cosine = std::max(known->cosine, c.cosine), c.times += known->times, c.steps += known->steps;
    *known = std::move(c);
  }
  changes_.clear();
}

void ProgramTracer::keep_found(const std::set<std::string>& passed, ProgramFacts& facts) {
  if (cuts_) {
    for (Cut& cut : cuts_->cuts(passed)) {
      std::erase_if(facts.cuts, [&](const Cut& c) { return c.index == cut.index; });
      facts.cuts.push_back(std::move(cut));
    }
  }
  if (cuts_ && cuts_->has_output()) {
    facts.model.unrecorded_was_followed = true;
    facts.model.unrecorded_feeds_loss |= cuts_->unrecorded_output_was_used(passed);
  }
  if (equal_place_.empty()) equal_op_ = mixed_op_, equal_place_ = mixed_place_;
  if (!equal_place_.empty()) facts.model.equal_op = equal_op_, facts.model.equal_place = equal_place_;
  equal_op_.clear(), equal_place_.clear(), mixed_op_.clear(), mixed_place_.clear();
  cuts_.reset();
  rows_ = 0;
}

void ProgramTracer::finish(int64_t step, const std::set<std::string>& passed, History& history) {
  if (!std::exchange(active_, false)) return;
  ProgramFacts& facts = history.program;
  for (LossSeen& l : losses_) l.steps += l.last == now_;
  facts.losses = losses_;
  keep_changes(step, facts);
  for (Clipping& c : std::exchange(clippings_, {})) c.step = step, facts.clippings.push_back(std::move(c));
  for (OptimizerSteps& s : std::exchange(steps_, {})) {
    s.step = step, s.zero_place = zero_place_;
    facts.optimizer_steps.push_back(std::move(s));
  }
  for (const std::string& place : std::exchange(casts_, {})) {
    auto known = std::ranges::find(facts.half_casts, place, &HalfCast::place);
    if (known == facts.half_casts.end()) known = facts.half_casts.insert(known, {.place = place});
    ++known->steps, known->last = step;
  }
  keep_found(passed, facts);
  forget_old(facts);
  before_hook_.clear();
  model_output_ = nullptr, model_numel_ = 0;
  stepped_ = in_node_ = false;
  ++now_;
}

// Keeps as many steps as there are traces, including the last one.
void ProgramTracer::forget_old(ProgramFacts& facts) {
  constexpr size_t max_count = 64;
  const auto halve = [](auto& all) {
    if (all.size() <= max_count) return;
    all.erase(all.begin(), all.end() - max_count / 2);
  };
  halve(facts.clippings), halve(facts.optimizer_steps);
}

}  // namespace weft::detail
