// The CPU's kernels: one function for each pointer of KernelTable, which documents it (backends/dispatch.hpp).
#pragma once

#include <type_traits>

#include "../dispatch.hpp"

namespace weft::cpu {

#define WEFT_DECLARE(name, ...) std::remove_pointer_t<decltype(KernelTable::name)> name;
WEFT_KERNELS(WEFT_DECLARE)
#undef WEFT_DECLARE

}  // namespace weft::cpu
