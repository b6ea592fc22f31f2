// The CPU's kernels: one function for each pointer of KernelTable, which documents it (backends/dispatch.hpp).
#pragma once

#include <type_traits>

#include "../dispatch.hpp"

namespace weft::cpu {

#define WEFT_KERNEL_ROW(result, name, ...) std::remove_pointer_t<decltype(KernelTable::name)> name;
#include "../kernel_rows.hpp"

}  // namespace weft::cpu
