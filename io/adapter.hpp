// LoRA adapters as files: a folder with adapter_model.safetensors and adapter_config.json, in the layout and with the
// names of PEFT (the Python package), so that either library loads the adapters of the other.
//
//   io::save_adapter("adapters/sql", model, {.base = "models/base"});
//   const io::AdapterInfo info = io::load_adapter("adapters/sql", model);
#pragma once

#include "path.hpp"
#include "../nn/lora.hpp"

namespace weft::io {

struct SaveAdapterOptions {
  /// The base model's name: "base_model_name_or_path" of the config.
  std::string base = {};
  /// The biases that are saved with the adapters.
  nn::LoraBias bias = nn::LoraBias::none;
};

/// Writes the adapters of a model, merged or not, without its base weights. An existing adapter in the folder is
/// replaced once the new one is complete on disk. Raises ValueError if the model has no adapter, or if the folder has
/// other files but no adapter_config.json; otherwise the errors of save_file.
WEFT_API void save_adapter(const Path& folder, const nn::Module& model, const SaveAdapterOptions& options = {},
                           Location where = {});

struct AdapterInfo {
  std::string base;
  /// Names of the layers with an adapter in the folder.
  std::vector<std::string> names;
};

/// Loads an adapter written by save_adapter or PEFT into a model. Layers without an adapter get one of the file's rank,
/// as with apply_lora; merged layers are merged again with the loaded adapter. A PEFT adapter applies only to the named
/// layer, even if other layers share its weight. Biases are loaded according to the config's "bias". The weight of an
/// adapted layer is loaded if the file holds it, as PEFT saves it for embeddings.
///
/// Raises ShapeError if an adapter of the model or its layer has another rank or shape. Raises ValueError if the model
/// lacks a layer, has additional adapters, or has an adapter of another scale. Both errors list the names, and the
/// model is unchanged. Raises FormatError if the folder is not an adapter, or for a config key, by name, that would
/// change the computation, such as "use_dora", "alora_invocation_tokens", or "init_lora_weights": "pissa" (it changes
/// the base weights).
WEFT_API AdapterInfo load_adapter(const Path& folder, const nn::Module& model, Location where = {});

}  // namespace weft::io
