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
#define WEFT_KERNEL_ROW(result, name, devices, ...) WEFT_##devices(name)
#include "../../kernel_rows.hpp"
#undef WEFT_cpu_only
#undef WEFT_everywhere

KernelTable whole_row() {
  return {
#define WEFT_KERNEL_ROW(result, name, ...) .name = name,
#include "../../kernel_rows.hpp"
  };
}
}  // namespace here

void fill_kernels(KernelTable& table) { table = here::whole_row(); }

}  // namespace weft::portable::host
