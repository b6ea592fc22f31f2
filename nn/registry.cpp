#include "registry.hpp"

#include <map>
#include <unordered_map>

#include <fmt/format.h>

#include "../tensor/generator.hpp"
#include "../tensor/shortened.hpp"
#include "attribute_value-inl.hpp"
#include "description-inl.hpp"
#include "least_elements-inl.hpp"
#include "lora/low_rank-inl.hpp"
#include "module_state-inl.hpp"
#include "path-inl.hpp"
#include "registry-inl.hpp"

namespace weft::nn {

using detail::joined;

namespace {

constexpr int most_levels = 200, most_migrations = 1000;
constexpr const char *building = "nn::ModuleRegistry::build", *migrating = "nn::ModuleRegistry::migrated";

using Maker = Callback<AnyModule(const Config&, const ModuleRegistry::Children&)>;

struct Entry {
  Maker make;
  std::optional<TypeId> made;  ///< absent for a container
  int64_t version;
};

std::string shown(const std::string& path) { return path.empty() ? "the model" : shortened(path, 100); }

}  // namespace

struct ModuleRegistry::Impl {
  std::map<std::string, Entry, std::less<>> entries;
  std::map<std::pair<std::string, int64_t>, std::vector<Callback<void(ModuleDescription&)>>> migrations;

  const Entry* find(std::string_view type) const {
    const auto found = entries.find(type);
    return found == entries.end() ? nullptr : &found->second;
  }
};

ModuleRegistry::ModuleRegistry() : impl_(Shared<Impl>::make()) {}

const ModuleRegistry& ModuleRegistry::standard() {
  static const ModuleRegistry registry = [] {
    ModuleRegistry all;
    for (const LayerInfo& layer : detail::described_layers().all()) {
      const auto make = [build = layer.make](const Config& config, const Children&) {
        return build(config, Location::none());
      };
      all.add_maker(layer.name, make, layer.type, 1, Location::none());
    }
    detail::add_layers(all);
    return all;
  }();
  return registry;
}

ModuleRegistry& ModuleRegistry::add_maker(std::string type, Maker make, std::optional<TypeId> made, int64_t version,
                                          Location where) {
  const char* problem = type.empty()     ? "a type without a name"
                        : contains(type) ? "the type \"{}\" is there already"
                        : version < 0    ? "the version of \"{}\" is negative"
                                         : nullptr;
  if (problem != nullptr) {
    raise<ValueError>({.op = "nn::ModuleRegistry::add", .problem = fmt::format(fmt::runtime(problem), type)}, where);
  }
  auto changed = Shared<Impl>::make(*impl_);
  changed->entries.emplace(std::move(type), Entry{std::move(make), made, version});
  impl_ = changed;
  return *this;
}

ModuleRegistry& ModuleRegistry::add_migration(std::string type, int64_t from,
                                              Callback<void(ModuleDescription&)> migration, Location where) {
  if (from < 1 || !migration) {
    raise<ValueError>({.op = "nn::ModuleRegistry::add_migration",
                       .problem = fmt::format("\"{}\" has no version {} to migrate from", type, from)},
                      where);
  }
  auto changed = Shared<Impl>::make(*impl_);
  changed->migrations[{std::move(type), from}].push_back(std::move(migration));
  impl_ = changed;
  return *this;
}

std::vector<std::string> ModuleRegistry::types() const {
  std::vector<std::string> out;
  for (const auto& [type, entry] : impl_->entries) out.push_back(type);
  return out;
}

bool ModuleRegistry::contains(std::string_view type) const { return impl_->find(type) != nullptr; }

int64_t ModuleRegistry::version(std::string_view type) const {
  const Entry* entry = impl_->find(type);
  return entry == nullptr ? 1 : entry->version;
}

// ---- describing -----------------------------------------------------------------------------------------------------

namespace {

/// Path of the first occurrence of each tensor and module.
struct Met {
  std::unordered_map<const void*, std::string> tensors, modules;

  /// The path of the first occurrence of `object`. Empty at the first occurrence, which is stored with `path`.
  static std::string before(std::unordered_map<const void*, std::string>& met, const void* object,
                            const std::string& path) {
    const auto [place, is_first] = met.emplace(object, path);
    return is_first ? std::string() : place->second;
  }
};

template <class Entries>
std::vector<TensorDescription> described(const Entries& entries, const std::string& path, Met& met) {
  std::vector<TensorDescription> out;
  for (const auto& [name, tensor, saved] : entries) {
    const std::string full = joined(path, name);
    const std::string first = Met::before(met.tensors, tensor.impl(), full);
    out.push_back({.name = name,
                   .dtype = tensor.dtype(),
                   .shape = tensor.shape(),
                   .requires_grad = tensor.requires_grad(),
                   .saved = saved,
                   .tied_to = first,
                   .stored_as = saved ? (first.empty() ? full : first) : std::string()});
  }
  return out;
}

}  // namespace

/// Builds modules; a class of the registry, to access the states of modules.
class ModuleRegistry::Builder {
 public:
  Builder(const Impl& registry, Location where) : registry_(registry), where_(where) {}

  ModuleDescription describe(const Module& module, const std::string& name, const std::string& path, int level) {
    if (level > most_levels) {
      raise<ValueError>({.op = "nn::ModuleRegistry::describe",
                         .problem = fmt::format("more than {} modules inside each other", most_levels)},
                        where_);
    }
    const Module::State& state = *module.state_;
    ModuleDescription out{.name = name, .type = module.class_name()};
    out.shared_with = path.empty() ? "" : Met::before(met_.modules, &state, path);
    if (!out.shared_with.empty()) return out;
    const Entry* entry = registry_.find(out.type);
    out.version = entry == nullptr ? 1 : entry->version;
    out.config = state.config;
    out.training = state.training;
    out.unknown = state.unknown;
    out.parameters = described(state.parameters, path, met_);
    out.buffers = described(state.buffers, path, met_);
    for (const auto& [child_name, child] : state.children) {
      out.children.push_back(describe(child, child_name, joined(path, child_name), level + 1));
    }
    return out;
  }

  AnyModule build(const ModuleDescription& d, const std::string& path, int level) {
    check_level(path, level);
    if (!d.shared_with.empty()) {
      const auto found = built_.find(d.shared_with);
      if (found == built_.end()) fail(path, fmt::format("there is no module \"{}\" to share", shown(d.shared_with)));
      return found->second;
    }
    const Entry* entry = registry_.find(d.type);
    if (entry == nullptr) {
      raise<KeyError>({.op = building,
                       .problem = fmt::format("{}: the registry has no type \"{}\"", shown(path), shown(d.type)),
                       .remedy = "registry.add<Class>(\"Class\", ...)"},
                      where_);
    }
    Children children;
    if (!entry->made) {
      for (const ModuleDescription& child : d.children) {
        children.emplace_back(child.name, build(child, joined(path, child.name), level + 1));
      }
    }
    AnyModule module = make(*entry, d, children, path);
    if (!path.empty()) built_.emplace(path, module);
    return module;
  }

  void parametrize(const ModuleDescription& d, const Module& model) {
    try {
      detail::parametrize_described(
          d, model, [&](const ModuleDescription& step, const std::string& path) { return build(step, path, 1); },
          where_);
    } catch (const ValueError& error) {
      refuse_made(d, "", error);
    }
  }

  /// Ties tensors that the description ties and the constructor does not, such as `head.weight = token.weight`, and
  /// gives tensors of their own to those that are described as not tied.
  void tie(const ModuleDescription& wanted, const ModuleDescription& built, const Module& module,
           const std::map<std::string, Tensor>& tensors) const {
    if (!wanted.shared_with.empty() || !built.shared_with.empty()) return;
    tie(wanted.parameters, built.parameters, module, tensors);
    tie(wanted.buffers, built.buffers, module, tensors);
    const auto& children = module.state_->children;
    const size_t count = std::min({wanted.children.size(), built.children.size(), children.size()});
    for (size_t i = 0; i < count; ++i) {
      if (wanted.children[i].name != built.children[i].name) return;  // compare() raises
      tie(wanted.children[i], built.children[i], children[i].second, tensors);
    }
  }

  /// Raises FormatError unless `built`, the description of the built module, contains all that `wanted` lists.
  void compare(const ModuleDescription& wanted, const ModuleDescription& built, const std::string& path) const {
    if (!wanted.shared_with.empty() || !built.shared_with.empty()) {
      if (wanted.shared_with != built.shared_with) fail(path, "another module is shared here");
      return;
    }
    if (wanted.type != built.type) {
      fail(path, fmt::format("it is described as a {}, and is a {}", shown(wanted.type), built.type));
    }
    compare_options(wanted.config, built, path);
    compare_tensors(wanted.parameters, built.parameters, path);
    compare_tensors(wanted.buffers, built.buffers, path);
    if (wanted.children.empty()) return;
    for (size_t i = 0; i < std::max(wanted.children.size(), built.children.size()); ++i) {
      if (i == wanted.children.size()) fail(path, not_described(built.children[i].name));
      if (i == built.children.size() || wanted.children[i].name != built.children[i].name) {
        fail(path, not_there(wanted.children[i].name));
      }
      compare(wanted.children[i], built.children[i], joined(path, wanted.children[i].name));
    }
  }

  /// Sets dtypes, requires_grad and training mode of the built module to those described.
  void set(const ModuleDescription& d, const Module& module) const {
    if (!d.shared_with.empty()) return;
    Module::State& state = *module.state_;
    state.training = d.training;
    state.unknown = d.unknown;
    for (size_t i = 0; i < d.parameters.size(); ++i) {
      Tensor& parameter = state.parameters[i].tensor;
      if (!d.parameters[i].tied_to.empty()) continue;
      convert(parameter, d.parameters[i].dtype);
      parameter.requires_grad_(d.parameters[i].requires_grad, where_);
    }
    for (size_t i = 0; i < d.buffers.size(); ++i) convert(state.buffers[i].tensor, d.buffers[i].dtype);
    for (size_t i = 0; i < d.children.size(); ++i) set(d.children[i], state.children[i].second);
  }

 private:
  void tie(const std::vector<TensorDescription>& wanted, const std::vector<TensorDescription>& built,
           const Module& module, const std::map<std::string, Tensor>& tensors) const {
    for (size_t i = 0; i < std::min(wanted.size(), built.size()); ++i) {
      const TensorDescription &w = wanted[i], &b = built[i];
      if (w.name != b.name || w.tied_to == b.tied_to) continue;
      const auto first = tensors.find(w.tied_to.empty() ? b.tied_to : w.tied_to);
      detail::Slot* slot = module.state_->slots.find(w.name);
      if (first == tensors.end() || slot == nullptr || !(first->second.shape() == w.shape))
        continue;  // compare() raises
      slot->set(w.tied_to.empty() ? first->second.detach().clone() : first->second);
    }
  }

  [[noreturn]] void fail(const std::string& path, const std::string& problem) const {
    raise<FormatError>({.op = building, .problem = fmt::format("{}: {}", shown(path), problem)}, where_);
  }
  static std::string not_there(const std::string& name) { return fmt::format("it has no \"{}\"", shown(name)); }
  static std::string not_described(const std::string& name) {
    return fmt::format("its \"{}\" is not described", shown(name));
  }
  void check_level(const std::string& path, int level) const {
    if (level > most_levels) fail(path, fmt::format("more than {} modules inside each other", most_levels));
  }

  AnyModule make(const Entry& entry, const ModuleDescription& d, const Children& children,
                 const std::string& path) const {
    try {
      return entry.make(d.config, children);
    } catch (const ValueError& error) {
      refuse_made(d, path, error);
    } catch (const KeyError& error) {
      refuse_made(d, path, error);
    } catch (const ShapeError& error) {
      refuse_made(d, path, error);
    }
  }
  [[noreturn]] void refuse_made(const ModuleDescription& d, const std::string& path, const Error& error) const {
    const std::string text = error.what();
    fail(path, fmt::format("no {} can be made: {}", shown(d.type), shortened(text.substr(0, text.find('\n')), 200)));
  }

  // Whether two values are equivalent: integers and floats of equal value, or a number and a list of it.
  static bool means(const Attribute& wanted, const Attribute& built) {
    if (wanted == built) return true;
    try {
      return wanted.as(built.type()) == built;
    } catch (const ValueError&) {
      return false;
    }
  }

  void compare_options(const Config& wanted, const ModuleDescription& built, const std::string& path) const {
    for (const auto& [name, value] : wanted.options()) {
      const Attribute* present = built.config.find(name);
      const bool is_off = value == Attribute() || value == Attribute(false);
      if (present == nullptr && is_off) continue;
      if (present == nullptr) fail(path, fmt::format("a {} has no option \"{}\"", built.type, shown(name)));
      if (!means(value, *present)) {
        fail(path,
             fmt::format("option \"{}\" is {}, and would be {}", name, shortened(value.text(), 100), present->text()));
      }
    }
  }

  void compare_tensors(const std::vector<TensorDescription>& wanted, const std::vector<TensorDescription>& built,
                       const std::string& path) const {
    if (wanted.empty()) return;
    for (size_t i = 0; i < std::max(wanted.size(), built.size()); ++i) {
      if (i == wanted.size()) fail(path, not_described(built[i].name));
      const TensorDescription& w = wanted[i];
      if (i == built.size() || w.name != built[i].name) fail(path, not_there(w.name));
      const std::string full = joined(path, w.name);
      if (!(w.shape == built[i].shape)) {
        fail(full, fmt::format("it is described as {}, and is {}", w.shape.text(), built[i].shape.text()));
      }
      if (w.tied_to != built[i].tied_to) fail(full, "it is tied to another tensor than is described");
      const bool both_floating = is_floating(w.dtype) && is_floating(built[i].dtype);
      if (w.dtype != built[i].dtype && !both_floating) {
        fail(full, fmt::format("it is described as {}, and is {}", weft::name(w.dtype), weft::name(built[i].dtype)));
      }
    }
  }

  void convert(Tensor& tensor, DType dtype) const {
    if (tensor.dtype() != dtype) detail::move_held(tensor, dtype, where_);
  }

  const Impl& registry_;
  Location where_;
  Met met_;
  std::map<std::string, AnyModule> built_;
};

ModuleDescription ModuleRegistry::describe(const Module& module, Location where) const {
  return Builder(*impl_, where).describe(module, "", "", 1);
}

bool detail::is_wefts_own(const ModuleRegistry& registry, const std::string& type) {
  const Entry *entry = registry.impl_->find(type), *own = ModuleRegistry::standard().impl_->find(type);
  return entry != nullptr && own != nullptr && own->made && entry->made == own->made;
}

AnyModule ModuleRegistry::build(const ModuleDescription& description, Location where) const {
  const auto is_weft = [this](const std::string& type) { return detail::is_wefts_own(*this, type); };
  detail::check_claims(description, {}, is_weft, building, where);
  Builder builder(*impl_, where);
  AnyModule module = builder.build(description, description.name, 1);
  detail::attach_described(description, module, where);
  builder.parametrize(description, module);
  std::map<std::string, Tensor> tensors;
  for (const auto& list : {module.named_parameters(), module.named_buffers()}) {
    for (const NamedTensor& t : list) tensors.emplace(t.name, t.tensor);
  }
  builder.tie(description, describe(module, where), module, tensors);
  builder.compare(description, describe(module, where), "");
  builder.set(description, module);
  return module;
}

namespace {

/// Models with more elements are not built again because of an addition, which is usually the constructor's.
constexpr int64_t most_elements_to_build = int64_t{1} << 24;

bool may_differ(const Module& module) {
  bool extended = false;
  for (const Module& each : module.modules()) {
    if (detail::StateAccess::state(each).replaced) return true;
    extended |= detail::StateAccess::state(each).extended;
  }
  return extended && module.parameter_count() <= most_elements_to_build;
}

/// Restores the default generator, which building a module changes.
struct KeptDraws {
  GeneratorState state = default_generator().state();
  KeptDraws() = default;
  ~KeptDraws() { default_generator().set_state(state); }
  KeptDraws(const KeptDraws&) = delete;
};

/// The first line of a message, without the op.
std::string problem_of(const Error& error) {
  const std::string text = error.what();
  const size_t begin = text.starts_with('[') ? std::min(text.find("] "), text.size() - 2) + 2 : 0;
  return shortened(text.substr(begin, text.find('\n') - begin), 300);
}

void check_rebuilt(const ModuleRegistry& registry, const Module& module, const std::string& path, Location where) {
  if (!may_differ(module)) return;
  const KeptDraws kept;
  try {
    (void)registry.build(registry.describe(module, where), where);
  } catch (const Error& error) {
    raise<ValueError>(
        {.op = "nn::ModuleRegistry",
         .problem = fmt::format("{}: members were replaced or added, and loading constructs a {} from its "
                                "options without them",
                                shown(path), shown(module.class_name())),
         .details = problem_of(error),
         .remedy = "give the class an option for it (set_config), or save the weights alone: "
                   "io::save_file(module.state_dict(), path)"},
        where);
  }
}

}  // namespace

void ModuleRegistry::check_types(const Module& module, Location where) const {
  const auto walk = [&](const auto& self, const Module& m, const std::string& path) -> void {
    const TypeId own = detail::StateAccess::state(m).type;
    const auto makes = [&](const auto& entry) { return entry.second.made == own; };
    const Entry* entry = impl_->find(m.class_name());
    if (entry == nullptr && std::ranges::none_of(impl_->entries, makes)) {
      raise<ValueError>({.op = "nn::ModuleRegistry",
                         .problem = fmt::format("{}: no registry has the type \"{}\", so that nothing could build it",
                                                shown(path), shown(m.class_name())),
                         .remedy = "registry.add<Class>(\"Class\", ...), and that registry for saving and loading"},
                        where);
    }
    // Classes other than containers construct their own members.
    if (entry == nullptr || entry->made) return check_rebuilt(*this, m, path, where);
    for (const auto& [name, child] : detail::StateAccess::state(m).children) {
      if (name != detail::parametrizations) self(self, child, joined(path, name));
    }
  };
  walk(walk, module, "");
}

// ---- migrating ------------------------------------------------------------------------------------------------------

namespace {

[[noreturn]] void raise_version(const ModuleDescription& d, const std::string& path, const std::string& problem,
                                Location where) {
  raise<VersionError>(
      {.op = migrating,
       .problem = fmt::format("{}: {} of version {} {}", shown(path), shown(d.type), d.version, problem)},
      where);
}

}  // namespace

ModuleDescription ModuleRegistry::migrated(ModuleDescription description, bool allow_unreleased, Location where) const {
  const auto walk = [&](const auto& self, ModuleDescription& d, const std::string& path, int level) -> void {
    if (level > most_levels) {
      raise<FormatError>(
          {.op = migrating,
           .problem = fmt::format("{}: more than {} modules inside each other", shown(path), most_levels)},
          where);
    }
    if (!d.shared_with.empty()) return;
    for (int count = 0;; ++count) {
      const auto steps = impl_->migrations.find({d.type, d.version});
      if (steps == impl_->migrations.end()) break;
      if (count == most_migrations) raise_version(d, path, "leads to no end of migrations", where);
      const auto [type, version] = std::pair(d.type, d.version);
      for (const auto& step : steps->second) step(d);
      if (d.type == type && d.version == version) ++d.version;
    }
    if (const Entry* entry = impl_->find(d.type); entry != nullptr && d.version != entry->version) {
      if (d.version == 0 && allow_unreleased) d.version = entry->version;
      else if (d.version == 0) raise_version(d, path, "was written while it was still changing", where);
      else if (entry->version != 0 && d.version > entry->version) {
        raise_version(d, path, fmt::format("is newer than {}, which is known here", entry->version), where);
      } else if (entry->version != 0) {
        raise_version(d, path, fmt::format("has no migration to {}", entry->version), where);
      } else {
        d.version = 0;
      }
    }
    for (ModuleDescription& child : d.children) self(self, child, joined(path, child.name), level + 1);
  };
  walk(walk, description, "", 1);
  return description;
}

}  // namespace weft::nn
