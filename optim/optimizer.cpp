#include "optimizer.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include <fmt/format.h>

#include "../autograd/accumulation.hpp"
#include "../autograd/mode.hpp"
#include "../autograd/program_watch.hpp"
#include "../ops/complex.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "rule-inl.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::optim {

// ---- options --------------------------------------------------------------------------------------------------------

namespace {

bool is_allowed(const OptionInfo& option, double value) {
  if (std::isnan(value)) return option.may_be_none;
  if (option.kind != OptionInfo::Kind::real && value != std::floor(value)) return false;
  return (option.least_open ? value > option.least : value >= option.least) &&
         (option.most_open ? value < option.most : value <= option.most);
}

std::string range_text(const OptionInfo& option) {
  if (option.kind == OptionInfo::Kind::flag) return "true or false";
  const char* number = option.kind == OptionInfo::Kind::whole ? "a whole number" : "a finite number";
  const bool has_end = option.kind == OptionInfo::Kind::choice || option.most < 0x1p53;
  if (!has_end && option.least <= -0x1p53) return number;
  if (!has_end) return fmt::format("{} {} {}", number, option.least_open ? "above" : "of at least", option.least);
  const std::string least =
      option.least <= -0x1p53 ? "(-inf" : fmt::format("{}{}", option.least_open ? '(' : '[', option.least);
  return fmt::format("a number in {}, {}{}", least, option.most, option.most_open ? ')' : ']');
}

void check_value(const char* op, const OptionInfo& option, double value, Location where) {
  if (is_allowed(option, value)) return;
  raise<ValueError>({.op = op, .problem = mismatch_text(option.name, range_text(option), value)}, where);
}

}  // namespace

void check_values(const Rule& rule, std::span<const double> values, Location where) {
  for (size_t i = 0; i < values.size(); ++i) check_value(rule.name, rule.options[i], values[i], where);
  const char* conflict = rule.conflict(values);
  if (conflict == nullptr) return;
  std::string given;
  for (size_t i = 0; i < values.size(); ++i) {
    given += fmt::format("{}{} {}", i == 0 ? "" : ", ", rule.options[i].name, values[i]);
  }
  raise<ValueError>({.op = rule.name, .problem = conflict, .details = given}, where);
}

size_t find_option(const Rule& rule, std::string_view name, Location where) {
  std::string names;
  for (size_t i = 0; i < rule.options.size(); ++i) {
    if (name == rule.options[i].name) return i;
    names += fmt::format("{}{}", i == 0 ? "" : ", ", rule.options[i].name);
  }
  raise<ValueError>(
      {.op = rule.name, .problem = fmt::format("there is no option \"{}\"", name), .details = "it has " + names},
      where);
}

Optimizer::~Optimizer() = default;

Optimizer::Optimizer(const Rule& rule, std::vector<std::string> state_names)
    : rule_(&rule), name_(rule.name), state_names_(std::move(state_names)) {}

std::span<const OptionInfo> Optimizer::option_info() const { return rule_->options; }

bool Optimizer::has_option(std::string_view name) const {
  for (const OptionInfo& option : rule_->options) {
    if (name == option.name) return true;
  }
  return false;
}

namespace {

void check_number(const char* op, size_t group, size_t count, Location where) {
  if (group < count) return;
  raise<IndexError>({.op = op, .problem = fmt::format("there is no group {} of {}", group, count)}, where);
}

}  // namespace

double Optimizer::option(std::string_view name, size_t group, Location where) const {
  check_number(name_, group, groups_.size(), where);
  return groups_[group].values[find_option(*rule_, name, where)];
}

void Optimizer::set_option(std::string_view name, double value, size_t group, Location where) {
  set_options({{std::string(name), value}}, group, where);
}

void Optimizer::set_options(const NamedOptions& options, size_t group, Location where) {
  check_number(name_, group, groups_.size(), where);
  std::vector<double>& values = groups_[group].values;
  std::vector<double> changed = values;
  for (const auto& [name, value] : options) changed[find_option(*rule_, name, where)] = value;
  check_values(*rule_, changed, where);
  detail::refuse_recording("an optimizer's option is set");
  const bool keeps_as_before = kept_states(values) == kept_states(changed);
  values = std::move(changed);
  if (!keeps_as_before) forget();
}

void Optimizer::set_lr(double lr, Location where) {
  for (size_t i = 0; i < groups_.size(); ++i) set_lr(lr, i, where);
}

void Optimizer::set_lr(double lr, size_t group, Location where) {
  check_value(name_, rule_->options[0], lr, where);
  detail::refuse_recording("set_lr sets a learning rate");
  check_number(name_, group, groups_.size(), where);
  groups_[group].values[0] = lr;
  if (WEFT_UNLIKELY(detail::program_watch != nullptr)) detail::program_watch->rate_set(lr, where);
}

// ---- parameters -----------------------------------------------------------------------------------------------------

void Optimizer::add_named_group(std::vector<Tensor> parameters, const NamedOptions& options, Location where) {
  std::vector<double> values = defaults_;
  for (const auto& [name, value] : options) values[find_option(*rule_, name, where)] = value;
  add_values(std::move(parameters), std::move(values), where);
}

// A complex parameter is treated as two real ones, which only elementwise formulas support.
static void check_parameters(const char* op, bool elementwise, const std::vector<Tensor>& parameters,
                             std::unordered_set<const TensorImpl*>& present, Location where) {
  for (const Tensor& p : parameters) {
    const char* problem = nullptr;
    if (!checked(p, op, where).is_leaf()) problem = "a parameter is the result of an op; it must be a leaf";
    else if (is_complex(p.dtype()) && !elementwise) problem = "a parameter is complex";
    else if (!is_inexact(p.dtype()) || is_storage_only(p.dtype())) problem = "a parameter is not floating-point";
    else if (!present.insert(p.impl()).second) problem = "a parameter is given twice";
    if (problem != nullptr) raise<ValueError>({.op = op, .problem = problem, .details = describe(p)}, where);
    const CallScope call(op, where);
    check_writable(p);
  }
}

void Optimizer::add_values(std::vector<Tensor> parameters, std::vector<double> values, Location where) {
  check_values(*rule_, values, where);
  if (parameters.empty()) {
    raise<ValueError>({.op = name_,
                       .problem = "there are no parameters to optimize",
                       .remedy = "register them: WEFT_REGISTER(...) in C++, an attribute of the module in Python"},
                      where);
  }
  std::unordered_set<const TensorImpl*> present;
  for (const Tensor& p : this->parameters()) present.insert(p.impl());
  check_parameters(name_, rule_->kind != nullptr, parameters, present, where);
  Group group{std::move(parameters), std::move(values)};
  check_group(group, where);
  groups_.reserve(groups_.size() + 1);
  states_.resize(states_.size() + group.parameters.size());
  groups_.push_back(std::move(group));
  forget();
}

void Optimizer::replace_parameters(std::vector<std::vector<Tensor>> groups, Location where) {
  if (groups.size() != groups_.size()) {
    raise<ValueError>(
        {.op = name_, .problem = fmt::format("parameters of {} groups for {}", groups.size(), groups_.size())}, where);
  }
  if (std::ranges::any_of(states_, [](const State& s) { return s.steps != 0 || !s.tensors.empty(); })) {
    raise<ValueError>({.op = name_, .problem = "its parameters were updated, and have state"}, where);
  }
  std::unordered_set<const TensorImpl*> present;
  for (const std::vector<Tensor>& parameters : groups)
    check_parameters(name_, rule_->kind != nullptr, parameters, present, where);
  for (size_t g = 0; g < groups.size(); ++g) check_group({groups[g], groups_[g].values}, where);
  std::vector<State> states(present.size());
  for (size_t g = 0; g < groups.size(); ++g) groups_[g].parameters = std::move(groups[g]);
  states_ = std::move(states);
  forget();
}

void Optimizer::check_group(const Group&, Location) const {}

std::vector<Tensor> Optimizer::parameters() const {
  std::vector<Tensor> out;
  for (const Group& group : groups_) out.insert(out.end(), group.parameters.begin(), group.parameters.end());
  return out;
}

void Optimizer::zero_grad(bool set_to_none) {
  for (const Group& group : groups_) {
    for (const Tensor& p : group.parameters) {
      if (set_to_none) p.set_grad({}, Location::none());
      else if (p.grad().defined()) p.grad().fill_(0);
    }
  }
}

Tensor Optimizer::step(const Closure& closure, Location where) {
  Tensor loss;
  {
    const EnableGradGuard recorded;
    loss = closure();
  }
  step(where);
  return loss;
}

bool Optimizer::has_stepped() const {
  return stepped_ || std::ranges::any_of(states_, [](const State& s) { return s.steps > 0; });
}

bool Optimizer::is_repeated(Location where) {
  stepped_ = true;
  if (WEFT_LIKELY(detail::capture_recorder == nullptr)) return false;
  detail::capture_recorder->repeat(name_, &repeat_owner_, [this, where] { step(where); });
  return true;
}

void tell_watch_of_step(const Optimizer& optimizer, const Rule& rule, Location where) {
  detail::ProgramWatch& watch = *detail::program_watch;
  for (const Group& group : optimizer.groups()) {
    detail::SteppedGroup told{.parameters = group.parameters, .rate = group.lr()};
    if (optimizer.has_option("weight_decay")) {
      const auto option = std::ranges::find(rule.options, std::string_view("weight_decay"), &OptionInfo::name);
      told.decay = group.values[static_cast<size_t>(option - rule.options.begin())];
    }
    Progress first;
    told.decoupled = rule.settings == nullptr || rule.settings(group.values, first).l2 == 0;
    watch.stepping(optimizer.name(), told, where);
  }
}

// ---- state ----------------------------------------------------------------------------------------------------------

namespace {

constexpr const char *product_name = "mu_product", *size_name = "params";

std::string key(size_t parameter, std::string_view name) { return fmt::format("{}.{}", parameter, name); }
std::string group_key(size_t group, std::string_view name) { return fmt::format("group.{}.{}", group, name); }

}  // namespace

/// A loaded state; every value must be requested once, or it is reported as unknown.
class Optimizer::Wanted {
 public:
  Wanted(const char* op, const StateDict& values, Location where) : op_(op), values_(values), where_(where) {}
  const Tensor* find(const std::string& name) {
    const auto found = values_.find(name);
    if (found == values_.end()) return nullptr;
    ++used_;
    return &found->second;
  }
  const Tensor& require(const std::string& name) {
    if (const Tensor* t = find(name)) return *t;
    raise<ValueError>({.op = op_, .problem = fmt::format("the state lacks \"{}\"", name)}, where_);
  }
  void check_all_used() const {
    if (used_ == values_.size()) return;
    raise<ValueError>({.op = op_, .problem = "the state holds names of other parameters than these"}, where_);
  }

 private:
  const char* op_;
  const StateDict& values_;
  Location where_;
  size_t used_ = 0;
};

std::vector<size_t> Optimizer::kept_states(std::span<const double>) const {
  std::vector<size_t> all;
  for (size_t k = 0; k < state_names_.size(); ++k) all.push_back(k);
  return all;
}

Dims Optimizer::state_shape(const Tensor& parameter, size_t) const { return parameter.shape(); }

namespace {

void check_fits(const Tensor& held, const Dims& shape, const char* op, const std::string& name, Location where) {
  if (held.shape() == shape) return;
  raise<ShapeError>({.op = op,
                     .problem = fmt::format("{}: expected shape {} as its parameter's, which may have changed, got {}",
                                            name, shape.text(), held.shape().text()),
                     .remedy = "make a new optimizer after a parameter's shape changes"},
                    where);
}

// Code may give the gradient itself another shape, or other memory.
void check_gradient_fits(const Tensor& parameter, const char* op, Location where) {
  const AccumulationNode* const node = accumulation_node(parameter.impl());
  if (node != nullptr && node->grad.defined()) check_fits(node->grad, parameter.shape(), op, "gradient", where);
}

}  // namespace

const std::vector<Tensor>& Optimizer::present_state(const Group& group, const Tensor& parameter, State& state,
                                                    Location where) const {
  const TensorOptions options{compute_type(parameter.dtype()), parameter.device()};
  check_gradient_fits(parameter, name_, where);
  std::vector<Tensor> all = state.tensors;
  all.resize(state_names_.size());
  for (const size_t k : kept_states(group.values)) {
    if (!is_kept(parameter, k)) continue;
    Tensor& t = all[k];
    if (t.defined()) {
      check_fits(t, state_shape(parameter, k), name_, "state " + state_names_[k], where);
      t = t.to(*options.dtype, where).to(options.device, where);
      continue;
    }
    const double initial = rule_->initial != nullptr ? rule_->initial(group.values, state_names_[k]) : 0;
    t = full(state_shape(parameter, k), initial, options, where);
    if (is_complex(t.dtype()) && initial != 0) view_as_real(t, where).fill_(initial, where);
  }
  state.tensors = std::move(all);
  return state.tensors;
}

Optimizer::StateDict Optimizer::state_dict() const {
  StateDict out;
  size_t i = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    out.emplace(group_key(g, size_name), tensor(std::ssize(groups_[g].parameters)));
    for (size_t k = 0; k < rule_->options.size(); ++k) {
      out.emplace(group_key(g, rule_->options[k].name), tensor(groups_[g].values[k], f64));
    }
    for (size_t end = i + groups_[g].parameters.size(); i < end; ++i) {
      if (states_[i].steps == 0) continue;
      out.emplace(key(i, "step"), tensor(states_[i].steps));
      for (size_t k = 0; k < states_[i].tensors.size(); ++k) {
        if (states_[i].tensors[k].defined()) out.emplace(key(i, state_names_[k]), states_[i].tensors[k]);
      }
      if (rule_->keeps_product) out.emplace(key(i, product_name), tensor(states_[i].product, f64));
    }
  }
  return out;
}

bool Optimizer::keeps(std::string_view name) const {
  return name == "step" || (rule_->keeps_product && name == product_name) ||
         std::find(state_names_.begin(), state_names_.end(), name) != state_names_.end();
}

std::vector<std::string> Optimizer::needed_states(size_t parameter, const StateDict& values) const {
  size_t g = 0, end = groups_[0].parameters.size();
  while (parameter >= end) end += groups_[++g].parameters.size();
  std::vector<double> own = groups_[g].values;
  for (size_t k = 0; k < own.size(); ++k) {
    if (const auto found = values.find(group_key(g, rule_->options[k].name)); found != values.end()) {
      own[k] = found->second.item<double>();
    }
  }
  const Tensor& p = groups_[g].parameters[parameter + groups_[g].parameters.size() - end];
  std::vector<std::string> out;
  for (const size_t k : kept_states(own)) {
    if (is_kept(p, k)) out.push_back(state_names_[k]);
  }
  return out;
}

void Optimizer::check_groups(const StateDict& values, Location where) const {
  const auto refuse = [&](std::string problem) {
    raise<ValueError>(
        {.op = name_, .problem = std::move(problem), .remedy = "make the optimizer as the one that was saved"}, where);
  };
  size_t groups = 0;
  while (values.contains(group_key(groups, rule_->options[0].name))) ++groups;
  if (groups != groups_.size()) {
    refuse(fmt::format("the state has {} groups of parameters, the optimizer {}", groups, groups_.size()));
  }
  for (size_t g = 0; g < groups; ++g) {
    const auto saved = values.find(group_key(g, size_name));
    if (saved == values.end()) continue;
    const int64_t size = saved->second.item<int64_t>(where), own = std::ssize(groups_[g].parameters);
    if (size != own) refuse(fmt::format("group {} has {} parameters in the state, {} in the optimizer", g, size, own));
  }
}

std::vector<double> Optimizer::loaded_options(size_t group, Wanted& wanted, Location where) const {
  std::vector<double> own = groups_[group].values;
  for (size_t k = 0; k < own.size(); ++k) {
    if (const Tensor* value = wanted.find(group_key(group, rule_->options[k].name)))
      own[k] = value->item<double>(where);
  }
  check_values(*rule_, own, where);
  return own;
}

Optimizer::State Optimizer::loaded_state(size_t number, const Tensor& parameter, std::span<const size_t> kept,
                                         Wanted& wanted, Location where) const {
  State state;
  const Tensor* steps = wanted.find(key(number, "step"));
  if (steps == nullptr) return state;
  state.steps = steps->item<int64_t>(where);
  if (rule_->keeps_product) state.product = wanted.require(key(number, product_name)).item<double>(where);
  state.tensors.resize(state_names_.size());
  for (size_t k = 0; k < state_names_.size(); ++k) {
    const std::string name = key(number, state_names_[k]);
    const Dims shape = state_shape(parameter, k);
    const bool is_needed = std::ranges::find(kept, k) != kept.end() && is_kept(parameter, k);
    const Tensor* value = is_needed ? &wanted.require(name) : wanted.find(name);
    if (value == nullptr) continue;
    if (!(value->shape() == shape)) {
      raise<ShapeError>({.op = name_,
                         .problem = fmt::format("{} has another shape than its parameter", name),
                         .details = value->shape().text() + " for " + shape.text()},
                        where);
    }
    state.tensors[k] = zeros(shape, {compute_type(parameter.dtype()), parameter.device()}, where);
    state.tensors[k].copy_(*value, where);
  }
  return state;
}

void Optimizer::load_state_dict(const StateDict& values, Location where) {
  NoGradGuard unrecorded;
  check_groups(values, where);
  Wanted wanted(name_, values, where);
  std::vector<State> loaded;
  std::vector<std::vector<double>> options;
  for (size_t g = 0; g < groups_.size(); ++g) {
    (void)wanted.find(group_key(g, size_name));
    options.push_back(loaded_options(g, wanted, where));
    const std::vector<size_t> kept = kept_states(options[g]);
    for (const Tensor& parameter : groups_[g].parameters) {
      loaded.push_back(loaded_state(loaded.size(), parameter, kept, wanted, where));
    }
  }
  wanted.check_all_used();
  states_ = std::move(loaded);
  for (size_t g = 0; g < groups_.size(); ++g) groups_[g].values = std::move(options[g]);
  forget();
}

void Optimizer::move_state(std::optional<Device> device, Location where) {
  const std::vector<Tensor> all = parameters();
  std::vector<std::vector<Tensor>> moved;
  bool is_elsewhere = false;
  for (size_t i = 0; i < states_.size(); ++i) {
    moved.push_back(states_[i].tensors);
    for (Tensor& t : moved.back()) {
      const Device to = device.value_or(all[i].device());
      if (!t.defined() || t.device() == to) continue;
      t = t.to(to, where);
      is_elsewhere = true;
    }
  }
  if (!is_elsewhere) return;
  for (size_t i = 0; i < states_.size(); ++i) states_[i].tensors = std::move(moved[i]);
  forget();
}

}  // namespace weft::optim
