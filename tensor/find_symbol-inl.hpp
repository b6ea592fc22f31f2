// Looks up functions and variables of an opened library.
#pragma once

#include <dlfcn.h>

namespace weft::detail {

/// Stores the address of `name` in `symbol`. Returns false, and stores null, if the library does not define it.
template <class Symbol>
bool find_symbol(void* library, const char* name, Symbol& symbol) {
  symbol = reinterpret_cast<Symbol>(dlsym(library, name));
  return symbol != nullptr;
}

}  // namespace weft::detail
