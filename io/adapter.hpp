// LoRA adapters as files: a folder with adapter_model.safetensors and adapter_config.json, laid out and named as PEFT
// (the Python package) has them, so that adapters load there and back.
//
//   io::save_adapter("adapters/sql", model, {.base = "models/base"});
//   const io::AdapterInfo info = io::load_adapter("adapters/sql", model);
#pragma once

#include "path.hpp"
#include "../nn/lora.hpp"

namespace weft::io {

struct SaveAdapterOptions {
  /// Which model the adapter belongs to: "base_model_name_or_path" of the config.
  std::string base = {};
  /// Which biases are saved with the adapters.
  nn::LoraBias bias = nn::LoraBias::none;
};

/// Writes the adapters of a model, which may be merged, and nothing of its weights. An older adapter of this name is
/// replaced whole, when all of the new one is on the disk. ValueError where there is no adapter, and where the folder
/// has other files and no adapter_config.json; errors as save_file.
WEFT_API void save_adapter(const Path& folder, const nn::Module& model, const SaveAdapterOptions& options = {},
                           Location where = {});

struct AdapterInfo {
  std::string base;
  /// Of the layers that the folder has adapters for.
  std::vector<std::string> names;
};

/// Loads what save_adapter or PEFT wrote into a model with such layers: those without an adapter get one of the file's
/// rank, as apply_lora does it, and merged layers are merged anew. An adapter of PEFT belongs to the named layer alone,
/// also where others hold its weight. Biases are loaded as the config's "bias" saved them, and so is the weight of an
/// adapted layer, as PEFT saves it of embeddings. ShapeError where an adapter of the model or its layer has another
/// rank or shape, ValueError where the model lacks a layer, has more adapters, or one of another scale; both list
/// names, and nothing was changed. FormatError for what is no such folder, and for a key of the config, by name, that
/// would compute something else, such as "use_dora", "alora_invocation_tokens", or "init_lora_weights": "pissa", which
/// changes weights.
WEFT_API AdapterInfo load_adapter(const Path& folder, const nn::Module& model, Location where = {});

}  // namespace weft::io
