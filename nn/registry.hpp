// Descriptions of module trees as values, and a registry of classes that rebuild them.
//
//   struct Net : nn::Layer<Net> {
//     explicit Net(int64_t width) : hidden(2, width), out(width, 1) {
//       WEFT_REGISTER(hidden, out);
//       set_config({{"width", width}});
//     }
//     ...
//   };
//   nn::ModuleRegistry registry = nn::ModuleRegistry::standard();
//   registry.add<Net>("Net", [](const nn::Config& c) { return Net(c.get<int64_t>("width")); });
//   const nn::AnyModule copy = registry.build(registry.describe(net));  // the same tree, with its own tensors
//
// Versions are counted per type, so user classes and Weft's classes change independently. A registry is a value, and
// nothing registers itself before `main`. Descriptions remember the names of tensors, so migrations find old
// weights.
#pragma once

#include "config.hpp"
#include "containers.hpp"

namespace weft::nn {

/// A parameter or a buffer of one module.
struct TensorDescription {
  std::string name = {};
  DType dtype = DType::f32;
  Dims shape = {};
  /// For parameters.
  bool requires_grad = true;
  /// For buffers: whether `state_dict` contains it.
  bool saved = true;
  /// For a shared tensor: the path of its first occurrence; else empty.
  std::string tied_to = {};
  /// Its name in the weights file; empty if it is not stored and keeps its initial value.
  std::string stored_as = {};
};

/// A module and its children. If it lists no tensors and no children, any are accepted.
struct ModuleDescription {
  /// Its name in the parent; empty at the root.
  std::string name = {};
  std::string type;
  /// Version of the type's options, members and semantics; 0 while they are unstable.
  int64_t version = 1;
  Config config = {};
  bool training = true;
  std::vector<TensorDescription> parameters = {}, buffers = {};
  std::vector<ModuleDescription> children = {};
  /// For a shared module: the path of its first occurrence, and all other fields are empty; else empty.
  std::string shared_with = {};
  /// A JSON object with the fields of a newer format version that this one does not support; else empty.
  std::string unknown = {};
};

class ModuleRegistry;
namespace detail {
/// Whether the registry builds the type as ModuleRegistry::standard() does.
WEFT_API bool is_wefts_own(const ModuleRegistry& registry, const std::string& type);
}  // namespace detail

/// Maps type names to module classes. Copies are independent. Concurrent reads are safe.
class WEFT_API ModuleRegistry {
 public:
  using Children = std::vector<std::pair<std::string, AnyModule>>;

  ModuleRegistry();
  /// All layers and containers of Weft.
  static const ModuleRegistry& standard();

  /// Registers a type. `type` is the result of class_name(). `make` builds a module from its options; its exceptions
  /// become FormatError. `version` counts incompatible changes of descriptions; 0 marks an unstable type. Raises
  /// ValueError for a type that is already registered, or a negative version.
  template <std::derived_from<Module> M, class Make>
  ModuleRegistry& add(std::string type, Make make, int64_t version = 1, Location where = {}) {
    const auto any = [make = std::move(make)](const Config& config, const Children&) -> AnyModule {
      return AnyModule::wrap(M(make(config)));
    };
    return add_maker(std::move(type), any, TypeId::of<M>(), version, where);
  }
  template <std::derived_from<Module> M>
  ModuleRegistry& add(std::string type, int64_t version = 1, Location where = {}) {
    return add<M>(
        std::move(type), [](const Config&) { return M(); }, version, where);
  }
  /// Registers a container, which is constructed from its children, which are built first.
  ModuleRegistry& add_container(std::string type, Callback<AnyModule(const Config&, const Children&)> make,
                                int64_t version = 1, Location where = {}) {
    return add_maker(std::move(type), std::move(make), {}, version, where);
  }

  /// Registers a migration of descriptions of this type and version to the next version. It runs before the module is
  /// built, and may change options, tensors, children and the type. Migrations of one version run in order of
  /// registration. The result has version `from` + 1, unless they set another; if they change the type, the version is
  /// one of the new type. Raises ValueError for a version below 1.
  ModuleRegistry& add_migration(std::string type, int64_t from, Callback<void(ModuleDescription&)> migration,
                                Location where = {});

  /// All type names, in alphabetical order.
  std::vector<std::string> types() const;
  bool contains(std::string_view type) const;
  /// Returns 1 for an unknown type.
  int64_t version(std::string_view type) const;

  /// Describes a module, with the versions of this registry. Raises ValueError for a tree deeper than 200 modules.
  ModuleDescription describe(const Module& module, Location where = {}) const;
  /// Raises ValueError, with the path and the remedy, if the model or a module in a container has no registered type.
  /// Also raises it for a module with members that were replaced by others or added, if the module that the registry
  /// builds from its options is a different one. Such a module is built for the comparison; one of more than 2^24
  /// elements only if members were replaced.
  void check_types(const Module& module, Location where = {}) const;
  /// Migrates the description to the current versions. Raises VersionError for a version that is newer than the
  /// registered one or has no migration, and for version 0 unless the registered version is 0 or `allow_unreleased` is
  /// true.
  ModuleDescription migrated(ModuleDescription description, bool allow_unreleased = false, Location where = {}) const;
  /// Builds a module with initial values, and with the description's dtypes, requires_grad and training mode. The
  /// description must have the current versions; unknown options are accepted if they are none or false. Raises
  /// KeyError for an unknown type; FormatError if its class cannot be built from the options, or if its members differ
  /// from the description. Both include the path.
  AnyModule build(const ModuleDescription& description, Location where = {}) const;

 private:
  /// Registers a container if `made` is absent.
  ModuleRegistry& add_maker(std::string type, Callback<AnyModule(const Config&, const Children&)> make,
                            std::optional<TypeId> made, int64_t version, Location where);
  friend bool detail::is_wefts_own(const ModuleRegistry& registry, const std::string& type);
  class Builder;
  struct Impl;
  Shared<const Impl> impl_;
};

}  // namespace weft::nn
