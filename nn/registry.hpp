// Modules from descriptions: what a tree of modules is made of, as values, and the classes that build it anew.
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
//   const nn::AnyModule copy = registry.build(registry.describe(net));  // the same tree, with values of its own
#pragma once

#include "config.hpp"
#include "containers.hpp"

namespace weft::nn {

/// A parameter or a buffer of one module.
struct TensorDescription {
  std::string name = {};
  DType dtype = DType::f32;
  Dims shape = {};
  /// Of parameters.
  bool requires_grad = true;
  /// Of buffers: whether `state_dict` has them.
  bool saved = true;
  /// The path of the tensor that stands here too, where it was met before; else empty.
  std::string tied_to = {};
  /// Under which name the file of the weights has it; empty where it has none, and the first value stays.
  std::string stored_as = {};
};

/// A module and all below. What lists no tensors and no children stands for any.
struct ModuleDescription {
  /// In its parent; empty at the root.
  std::string name = {};
  std::string type;
  /// Of the type's options, members and meaning; 0 while they are still changing.
  int64_t version = 1;
  Config config = {};
  bool training = true;
  std::vector<TensorDescription> parameters = {}, buffers = {};
  std::vector<ModuleDescription> children = {};
  /// The path of the module that stands here too, where it was met before, and then nothing else; else empty.
  std::string shared_with = {};
  /// A JSON object with what a newer program wrote and this one does not know; else empty.
  std::string unknown = {};
};

/// Knows module types by name. Copies are independent. Reading one from many threads is safe.
class WEFT_API ModuleRegistry {
 public:
  using Children = std::vector<std::pair<std::string, AnyModule>>;

  ModuleRegistry();
  /// Every layer and container of Weft.
  static const ModuleRegistry& standard();

  /// `type` is what class_name() says. `make` builds a module from its options, and what it raises becomes a
  /// FormatError. `version` counts what changes how older descriptions are read; 0 says that it is still changing.
  /// ValueError for a type that is there, or a negative version.
  template <std::derived_from<Module> M, class Make>
  ModuleRegistry& add(std::string type, Make make, int64_t version = 1, Location where = {}) {
    const auto any = [make = std::move(make)](const Config& config, const Children&) -> AnyModule {
      return AnyModule::of(M(make(config)));
    };
    return add_maker(std::move(type), any, &typeid(M), version, where);
  }
  template <std::derived_from<Module> M>
  ModuleRegistry& add(std::string type, int64_t version = 1, Location where = {}) {
    return add<M>(
        std::move(type), [](const Config&) { return M(); }, version, where);
  }
  /// Of modules that are made of those below them, which are built first.
  ModuleRegistry& add_container(std::string type, Callback<AnyModule(const Config&, const Children&)> make,
                                int64_t version = 1, Location where = {}) {
    return add_maker(std::move(type), std::move(make), nullptr, version, where);
  }

  /// Called with every description of this type and version before its module is built, to make it one of the next
  /// version: options are set, renamed and removed, tensors and children too, or the type itself. Those of one version
  /// run in order of registration. What they leave is of version `from` + 1, unless they set another; where they change
  /// the type, the version is one of the new type's. ValueError for a version below 1.
  ModuleRegistry& add_migration(std::string type, int64_t from, Callback<void(ModuleDescription&)> migration,
                                Location where = {});

  /// In alphabetical order.
  std::vector<std::string> types() const;
  bool contains(std::string_view type) const;
  /// 1 for a type that is not there.
  int64_t version(std::string_view type) const;

  /// What a module is made of, with versions from here. ValueError for a tree deeper than 200 modules.
  ModuleDescription describe(const Module& module, Location where = {}) const;
  /// ValueError, with the path and the remedy, for a class that no type makes: that of the model or of a module in a
  /// container.
  void check_types(const Module& module, Location where = {}) const;
  /// The description in the present versions. VersionError for a version that is
  /// newer than the type's here, that no migration leads on from, or that is 0 unless it is 0 here or
  /// `allow_unreleased`.
  ModuleDescription migrated(ModuleDescription description, bool allow_unreleased = false, Location where = {}) const;
  /// A module with first values, of the description's dtypes, requires_grad and training. The description is of the
  /// present versions; options that are none or false need not be known. KeyError for a type that is not here;
  /// FormatError where its class cannot be built so, or what it holds differs from what is described. Both give the
  /// path.
  AnyModule build(const ModuleDescription& description, Location where = {}) const;

 private:
  /// A container where there is no class.
  ModuleRegistry& add_maker(std::string type, Callback<AnyModule(const Config&, const Children&)> make,
                            const std::type_info* made, int64_t version, Location where);
  class Builder;
  struct Impl;
  Shared<const Impl> impl_;
};

}  // namespace weft::nn
