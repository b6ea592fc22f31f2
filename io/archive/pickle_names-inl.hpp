// Names in a pickle: opcodes, for errors, and the supported globals. Not public.
#pragma once

#include "pickle-inl.hpp"

namespace weft::io::pickle {

/// Returns the name of the opcode in pickletools, or "0x.." if it has none.
std::string opcode_name(unsigned char code);

struct KnownGlobal {
  Global global;
  std::optional<DType> dtype = {};
};
/// Looks up "module.name"; returns nothing if it is not supported.
std::optional<KnownGlobal> known_global(std::string_view name);
/// Also finds those of TorchScript.
std::optional<KnownGlobal> known_script_global(std::string_view name);

/// Returns the name of the class of storages for the dtype in module torch, such as "FloatStorage", or an empty text.
std::string_view storage_class(DType dtype);

}  // namespace weft::io::pickle
