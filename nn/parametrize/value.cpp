#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../module_state-inl.hpp"

namespace weft::nn {

struct Parametrization::HeldFunctions final : HeldBase {
  HeldFunctions(Forward forward_, RightInverse inverse_)
      : forward(std::move(forward_)), right_inverse(std::move(inverse_)) {}
  Tensor call(std::span<const Tensor> originals, Location where) override { return forward(originals, where); }
  bool has_inverse() const override { return static_cast<bool>(right_inverse); }
  Originals inverse(const Tensor& value) override { return right_inverse ? right_inverse(value) : Originals(value); }
  Shared<HeldBase> copy() const override { return Shared<HeldFunctions>::make(*this); }
  Forward forward;
  RightInverse right_inverse;
};

Parametrization::Parametrization(const Module& module, Forward forward, RightInverse right_inverse)
    : Module(module), held_(Shared<HeldFunctions>::make(std::move(forward), std::move(right_inverse))) {}

Parametrization::Parametrization(const Parametrization& other)
    : Module(other), held_(detail::cloning_now() ? other.held_->copy() : other.held_) {}

/// Cached values by the states of the lists, which the entries keep alive.
struct CachedParametrizationsGuard::Cache {
  struct Entry {
    Module list;
    // Versions of the originals, then the number of steps.
    std::vector<std::pair<const TensorImpl*, size_t>> versions;
    Tensor value;
  };
  std::map<std::pair<const void*, bool>, Entry> entries;
};

namespace {
constinit thread_local CachedParametrizationsGuard::Cache* cache = nullptr;
constinit thread_local int guards = 0;
}  // namespace

CachedParametrizationsGuard::CachedParametrizationsGuard() {
  if (guards == 0) {
    cache_ = weft::detail::Pimpl<Cache>(new Cache);
    cache = cache_.get();
  }
  ++guards;
}

CachedParametrizationsGuard::~CachedParametrizationsGuard() {
  if (--guards == 0) cache = nullptr;
}

bool is_parametrized(const Module& module, std::string_view name) {
  const auto& all = detail::parametrized_of(module);
  return name.empty() ? !all.empty() : detail::find_parametrized(module, name) != nullptr;
}

std::vector<std::string> parametrized_names(const Module& module) {
  std::vector<std::string> names;
  for (const auto& p : detail::parametrized_of(module)) names.push_back(p.name);
  return names;
}

namespace detail {

void raise_wrong_originals(const Module& step, size_t given, Location where) {
  const std::string op = step.class_name();
  raise<ValueError>({.op = op.c_str(),
                     .problem = fmt::format("its forward does not compute a tensor from {}", given),
                     .remedy = "a forward takes as many tensors as the right_inverse gives"},
                    where);
}

std::vector<Tensor> ParametrizedTensor::originals() const {
  const StateAccess::State& state = StateAccess::state(list);
  std::vector<Tensor> out;
  for (const auto* entries : {&state.parameters, &state.buffers}) {
    for (const auto& entry : *entries) out.push_back(entry.tensor);
  }
  return out;
}

bool ParametrizedTensor::numbered() const { return !StateAccess::state(list).has("original"); }

namespace {

Tensor computed(const ParametrizedTensor& p, std::span<const Tensor> originals, Location where) {
  Tensor value;
  for (const Parametrization& step : p.steps) {
    value = value.defined() ? step({&value, 1}, where) : step(originals, where);
    if (value.defined()) continue;
    const std::string op = step.class_name();
    raise<ValueError>({.op = op.c_str(), .problem = "the parametrization of \"" + p.name + "\" gives no tensor"},
                      where);
  }
  return value;
}

}  // namespace

Tensor ParametrizedTensor::value(Location where) const {
  const std::vector<Tensor> from = originals();
  if (cache == nullptr) return computed(*this, from, where);
  std::vector<std::pair<const TensorImpl*, size_t>> versions;
  for (const Tensor& t : from) versions.emplace_back(t.impl(), t.version());
  versions.emplace_back(nullptr, steps.size());
  const std::pair<const void*, bool> key(&StateAccess::state(list), recording());
  const auto found = cache->entries.find(key);
  if (found != cache->entries.end() && found->second.versions == versions) return found->second.value;
  Tensor fresh = computed(*this, from, where);
  cache->entries.insert_or_assign(key, CachedParametrizationsGuard::Cache::Entry{list, std::move(versions), fresh});
  return fresh;
}

ParametrizedTensor* find_parametrized(const Module& module, std::string_view name) {
  WeightForms* const forms = forms_of(module);
  if (forms == nullptr) return nullptr;
  const auto found = std::ranges::find(forms->parametrized, name, &ParametrizedTensor::name);
  return found == forms->parametrized.end() ? nullptr : &*found;
}

Tensor parametrized_value(const Module& module, const ModuleTensor& member, Location where) {
  if (!member.defined()) return {};
  for (const ParametrizedTensor& p : parametrized_of(module)) {
    if (p.member.impl() == member.impl()) return parametrized_shard(module, p, where);
  }
  return {};
}

}  // namespace detail

MemberTensor Module::borrowed(const ModuleTensor& member, Location where) const {
  if (WEFT_LIKELY(state_->forms.get() == nullptr)) return MemberTensor(member);
  return MemberTensor(member, detail::parametrized_value(*this, member, where));
}

}  // namespace weft::nn
