// A module's weights and an optimizer's state in one safetensors file.
#pragma once

#include "path.hpp"
#include "safetensors.hpp"
#include "../nn/module.hpp"
#include "../optim/optim.hpp"

namespace weft::io {

/// Writes the module's `state_dict` under "model.", the optimizer's state under "optimizer." with the parameters' names
/// ("optimizer.blocks.0.norm1.weight.exp_avg"), and the state of every device's default generator under "rng.". A run
/// that is loaded from it continues bit for bit, on any device. The metadata gets "weft.optimizer", the optimizer's
/// name. The file is replaced atomically. ValueError where the optimizer has a parameter that is not the module's; the
/// errors of save_file.
WEFT_API void save_checkpoint(const Path& path, const nn::Module& module, const optim::Optimizer* optimizer = nullptr,
                              const Metadata& metadata = {}, Location where = {});

/// Loads into a module and an optimizer made in the same way, and sets the default generators; returns the metadata.
/// Errors as SafeFile::open; ValueError, ShapeError or FormatError, with the file and the key, where it holds plain
/// weights, those of another module, or another optimizer's state or none. Nothing is changed then.
WEFT_API Metadata load_checkpoint(const Path& path, nn::Module& module, optim::Optimizer* optimizer = nullptr,
                                  Location where = {});

/// The metadata alone, for example to build the module from. Errors as SafeFile::open.
WEFT_API Metadata checkpoint_metadata(const Path& path, Location where = {});

}  // namespace weft::io
