#include "host.hpp"

#include "launch.hpp"

namespace weft::portable::host {

void require(Accelerator& device, Compute compute, const char* kernel, const View& view) {
  if (compute == Compute::f64 && !device.has_double()) unsupported(kernel, view);
}

namespace here {
// Kernels that devices lack, since they fuse other kernels: names that are found before the functions around them.
#define WEFT_everywhere(name)
#define WEFT_cpu_only(name) constexpr decltype(nullptr) name = nullptr;
#define WEFT_MISSING(name, devices, ...) WEFT_##devices(name)
WEFT_KERNELS(WEFT_MISSING)
#undef WEFT_MISSING
#undef WEFT_cpu_only
#undef WEFT_everywhere

#define WEFT_FILL(name, ...) .name = name,
KernelTable whole_row() { return {WEFT_KERNELS(WEFT_FILL)}; }
#undef WEFT_FILL
}  // namespace here

void fill_kernels(KernelTable& table) { table = here::whole_row(); }

}  // namespace weft::portable::host
