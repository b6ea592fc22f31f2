// Models as files: a module's tree as JSON, and a folder that holds tree and weights, loaded without naming its class.
//
//   io::save_model("models/a", net);
//   const nn::AnyModule model = io::load_model("models/a");
//   const Tensor y = model(x);
//
// models/a/ then holds model.json (types, options, names, shapes) and model.safetensors, or several such files with an
// index, as other programs read them.
#pragma once

#include "sharded.hpp"
#include "../nn/registry.hpp"

namespace weft::io {

/// A module's tree as JSON text, without its weights:
///
///   {"format_version": "1.0", "required_features": [],
///    "model": {"type": "Linear", "version": 1, "config": {"in_features": 2, ...},
///              "parameters": [{"name": "weight", "dtype": "float32", "shape": [3, 2], "requires_grad": true}, ...],
///              "buffers": [...], "children": [{"name": "0", "type": ..., ...}, ...]}}
///
/// "version" stands where it is not 1, "training" where it is false, "saved" of a buffer where it is false, "tied_to"
/// and "shared_with" where they are a path. An option is null, a bool, a number, a text, or a list with its type:
/// {"i64": [3, 3]}, of bool, i32, i64, f64 and text. Numbers that are not finite are "NaN", "Infinity" and "-Infinity".
WEFT_API std::string to_json(const nn::Module& module,
                             const nn::ModuleRegistry& registry = nn::ModuleRegistry::standard(), Location where = {});
WEFT_API std::string to_json(const nn::ModuleDescription& model, Location where = {});

/// The tree as it was written. Of a newer minor version it keeps what it does not know, and to_json writes that again.
/// FormatError, with the byte or the path, for malformed text; VersionError for a newer major version and for a
/// required feature that is not known.
WEFT_API nn::ModuleDescription read_model(std::string_view text, Location where = {});

/// A module with first values: `registry.build(registry.migrated(read_model(text)))`, and the errors of those.
WEFT_API nn::AnyModule from_json(std::string_view text,
                                 const nn::ModuleRegistry& registry = nn::ModuleRegistry::standard(),
                                 Location where = {});

struct SaveModelOptions {
  const nn::ModuleRegistry& registry = nn::ModuleRegistry::standard();
  /// As ShardOptions.
  ByteCount max_shard_size = "5GB";
  /// More JSON texts by name, such as "generation_config".
  std::map<std::string, std::string> documents = {};
};

/// Writes a module's tree and its state_dict. An older model of this name is replaced whole, when all of the new one is
/// on the disk. ValueError for a type that the registry has not, such as a function in a
/// Sequential, where the folder has other files and no model.json, and for a document that is no JSON or has
/// no plain name; errors as save_sharded.
WEFT_API void save_model(const Path& folder, const nn::Module& module, const SaveModelOptions& options = {},
                         Location where = {});

/// The same for a tree that was put together, and the tensors that it names.
WEFT_API void save_model(const Path& folder, const nn::ModuleDescription& tree, const TensorMap& weights,
                         const SaveModelOptions& options = {}, Location where = {});

struct LoadModelOptions {
  const nn::ModuleRegistry& registry = nn::ModuleRegistry::standard();
  Device device = {};
  /// Floating parameters and buffers are converted to it.
  std::optional<DType> dtype = {};
  /// Reads what a registry under development wrote, as of its newest version.
  bool allow_unreleased = false;
};

/// The model of a folder that save_model or save_training_state wrote, with the values of its parameters and buffers;
/// names that a migration changed are found. `as` gives the class itself. Errors as from_json and load_sharded;
/// ValueError and ShapeError where the weights are not the tree's, DTypeError for a `dtype` that parameters cannot
/// have.
WEFT_API nn::AnyModule load_model(const Path& folder, const LoadModelOptions& options = {}, Location where = {});

}  // namespace weft::io
