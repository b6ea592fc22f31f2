// The names in a pickle: opcodes, for errors, and the globals that are known. Not public.
#pragma once

#include "pickle-inl.hpp"

namespace weft::io::pickle {

/// What pickletools calls the opcode, or "0x.." where there is none.
std::string opcode_name(unsigned char code);

struct KnownGlobal {
  Global global;
  std::optional<DType> dtype = {};
};
/// By "module.name"; nothing where it is refused.
std::optional<KnownGlobal> known_global(std::string_view name);

}  // namespace weft::io::pickle
