// Models as files: a module's tree as JSON, or a folder with tree and weights that is loaded without naming the class.
//
//   io::save_model("models/a", net);
//   const nn::AnyModule model = io::load_model("models/a");
//   const Tensor y = model(x);
//
// models/a/ then holds model.json (types, options, names, shapes) and model.safetensors, or several such files with an
// index, in the format that other programs read.
#pragma once

#include "sharded.hpp"
#include "../nn/registry.hpp"

namespace weft::io {

/// Returns a module's tree as JSON text, without its weights:
///
///   {"format_version": "1.0", "required_features": [],
///    "model": {"type": "Linear", "version": 1, "config": {"in_features": 2, ...},
///              "parameters": [{"name": "weight", "dtype": "float32", "shape": [3, 2], "requires_grad": true}, ...],
///              "buffers": [...], "children": [{"name": "0", "type": ..., ...}, ...]}}
///
/// Some keys are present only if they differ from the default: "version" if it is not 1, "training" if false, "saved"
/// of a buffer if false, "tied_to" and "shared_with" if they are a path. An option is null, a bool, a number, a text,
/// or a typed list such as {"i64": [3, 3]}, of bool, i32, i64, f64 or text. Numbers that are not finite are "NaN",
/// "Infinity" and "-Infinity".
WEFT_API std::string to_json(const nn::Module& module,
                             const nn::ModuleRegistry& registry = nn::ModuleRegistry::standard(), Location where = {});
WEFT_API std::string to_json(const nn::ModuleDescription& model, Location where = {});

/// Parses such a text. Unknown fields of a newer minor version are kept, and to_json writes them again. Raises
/// FormatError, with the byte or the path, for malformed text; VersionError for a newer major version or an unknown
/// required feature.
WEFT_API nn::ModuleDescription read_model(std::string_view text, Location where = {});

/// Returns a newly initialised module: `registry.build(registry.migrated(read_model(text)))`, with the errors of these
/// functions.
WEFT_API nn::AnyModule from_json(std::string_view text,
                                 const nn::ModuleRegistry& registry = nn::ModuleRegistry::standard(),
                                 Location where = {});

struct SaveModelOptions {
  const nn::ModuleRegistry& registry = nn::ModuleRegistry::standard();
  /// As in ShardOptions.
  ByteCount max_shard_size = "5GB";
  /// Further JSON texts by name, such as "generation_config".
  std::map<std::string, std::string> documents = {};
};

/// Writes a module's tree and its state_dict. An existing model in the folder is replaced once the new one is complete
/// on disk. Raises ValueError for a type that is not in the registry, such as a function in a Sequential. Raises
/// ValueError also for a folder that has other files but no model.json, and for a document that is not JSON or has no
/// plain name. Otherwise raises the errors of save_sharded.
WEFT_API void save_model(const Path& folder, const nn::Module& module, const SaveModelOptions& options = {},
                         Location where = {});

/// Writes an assembled tree and the tensors that it names. Errors as above, except those about types.
WEFT_API void save_model(const Path& folder, const nn::ModuleDescription& tree, const TensorMap& weights,
                         const SaveModelOptions& options = {}, Location where = {});

struct LoadModelOptions {
  const nn::ModuleRegistry& registry = nn::ModuleRegistry::standard();
  Device device = {};
  /// Target dtype of the floating-point parameters and buffers.
  std::optional<DType> dtype = {};
  /// Accepts files of a registry under development, as its newest version.
  bool allow_unreleased = false;
};

/// Loads the model, with the values of its parameters and buffers, from a folder of save_model or save_training_state.
/// Names that a migration changed are resolved. `as` returns the concrete class. Errors as from_json and load_sharded;
/// ValueError and ShapeError if the weights do not fit the tree, DTypeError for a `dtype` that parameters cannot have.
WEFT_API nn::AnyModule load_model(const Path& folder, const LoadModelOptions& options = {}, Location where = {});

}  // namespace weft::io
