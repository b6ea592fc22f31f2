#include <fmt/format.h>

#include "../module_state-inl.hpp"
#include "../path-inl.hpp"
#include "norms-inl.hpp"
#include "orthogonal-inl.hpp"

namespace weft::nn::detail {

namespace {

/// The parametrizations of weight_norm, spectral_norm and orthogonal; nothing for another type.
std::optional<Parametrization> ready_made(const ModuleDescription& d, const Tensor& weight, Location where) {
  const Config& c = d.config;
  if (d.type == "_WeightNorm") return WeightNorm(c.get_or<std::optional<int>>("dim", 0));
  if (d.type == "_SpectralNorm") {
    return SpectralNorm(weight,
                        {.n_power_iterations = c.get_or<int64_t>("n_power_iterations", 1),
                         .eps = c.get_or("eps", 1e-12),
                         .dim = c.get_or("dim", 0)},
                        where);
  }
  if (d.type != "_Orthogonal") return {};
  const bool names_map = c.contains("orthogonal_map");
  const auto map = static_cast<OrthogonalMap>(names_map ? c.choice("orthogonal_map", orthogonal_maps, where) : 0);
  const bool has_base = c.get_or("use_trivialization", true);
  if (has_right_inverse(map, has_base)) return Orthogonal(weight, map, has_base);
  return MappedOrthogonal(weight, map, has_base);
}

}  // namespace

void parametrize_described(const ModuleDescription& description, const Module& model, const StepMaker& make,
                           Location where) {
  const auto modules = model.named_modules();
  const auto walk = [&](const auto& self, const ModuleDescription& d, const std::string& path) -> void {
    const auto found = std::ranges::find(modules, path, [](const auto& m) { return m.first; });
    for (const ModuleDescription& child : d.children) {
      const std::string below = joined(path, child.name);
      const bool are_lists = child.name == parametrizations && child.type == "ModuleDict";
      if (!are_lists || found == modules.end() || StateAccess::state(found->second).has(parametrizations)) {
        self(self, child, below);
        continue;
      }
      for (const ModuleDescription& list : child.children) {
        for (const ModuleDescription& step : list.children) {
          const Tensor weight = present_tensor("nn::ModuleRegistry::build", found->second, list.name, where);
          const auto own = ready_made(step, weight, where);
          const std::string name = joined(joined(below, list.name), step.name);
          register_parametrization(found->second, list.name, own ? *own : Parametrization(make(step, name)), true,
                                   where);
        }
      }
    }
  };
  walk(walk, description, "");
}

}  // namespace weft::nn::detail
