// The host side of the portable kernels: one function for each pointer of KernelTable that they serve. Families lie in
// host_*.cpp.
#pragma once

#include <type_traits>

#include "../../dispatch.hpp"

namespace weft::portable::host {

#define WEFT_DECLARE_devices(name) std::remove_pointer_t<decltype(KernelTable::name)> name;
#define WEFT_DECLARE_cpu_only(name) constexpr decltype(nullptr) name = nullptr;
#define WEFT_DECLARE(name, written, where) WEFT_DECLARE_##where(name)
WEFT_KERNELS(WEFT_DECLARE)
#undef WEFT_DECLARE
#undef WEFT_DECLARE_cpu_only
#undef WEFT_DECLARE_devices

void fill_kernels(KernelTable& table);

}  // namespace weft::portable::host
