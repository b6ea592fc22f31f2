// Functions and variables of a library that was opened.
#pragma once

#include <dlfcn.h>

namespace weft::detail {

/// False, and null, where the library has none of this name.
template <class Symbol>
bool find_symbol(void* library, const char* name, Symbol& symbol) {
  symbol = reinterpret_cast<Symbol>(dlsym(library, name));
  return symbol != nullptr;
}

}  // namespace weft::detail
