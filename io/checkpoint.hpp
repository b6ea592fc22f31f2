// A module's weights and an optimizer's state in one safetensors file.
#pragma once

#include "path.hpp"
#include "safetensors.hpp"
#include "../nn/module.hpp"
#include "../optim/optim.hpp"

namespace weft::io {

/// Writes the module's `state_dict` under "model.", the optimizer's state under "optimizer." by parameter name
/// ("optimizer.blocks.0.norm1.weight.exp_avg"), and the state of every device's default generator under "rng.". A run
/// loaded from the file continues bit for bit, on any device. The metadata gets "weft.optimizer", the optimizer's name.
/// The file is replaced atomically. Raises ValueError if the optimizer has a parameter that the module lacks; otherwise
/// the errors of save_file.
WEFT_API void save_checkpoint(const Path& path, const nn::Module& module, const optim::Optimizer* optimizer = nullptr,
                              const Metadata& metadata = {}, Location where = {});

/// Loads the state into a module and an optimizer that were constructed in the same way, sets the default generators,
/// and returns the metadata. Raises the errors of SafeFile::open. Raises ValueError, ShapeError or FormatError, with
/// the file and the key, if the file holds plain weights, another module, another optimizer or no optimizer state.
/// Nothing is changed on an error.
WEFT_API Metadata load_checkpoint(const Path& path, nn::Module& module, optim::Optimizer* optimizer = nullptr,
                                  Location where = {});

/// Returns only the metadata, for example to build the module from it. Errors as SafeFile::open.
WEFT_API Metadata checkpoint_metadata(const Path& path, Location where = {});

}  // namespace weft::io
