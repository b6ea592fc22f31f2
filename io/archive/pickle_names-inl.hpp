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

}  // namespace weft::io::pickle
