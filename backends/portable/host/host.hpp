// The host side of the portable kernels: one function for each pointer of KernelTable, except those listed as missing
// in host.cpp. Families are in host_*.cpp.
#pragma once

#include <type_traits>

#include "../../dispatch.hpp"

namespace weft::portable::host {

#define WEFT_KERNEL_ROW(result, name, ...) std::remove_pointer_t<decltype(KernelTable::name)> name;
#include "../../kernel_rows.hpp"

void fill_kernels(KernelTable& table);

}  // namespace weft::portable::host
