#include "host.hpp"

#include "launch.hpp"

namespace weft::portable::host {

void require(Accelerator& device, Compute compute, const char* kernel, const View& view) {
  if (compute == Compute::f64 && !device.has_double()) unsupported(kernel, view);
}

void fill_kernels(KernelTable& table) {
#define WEFT_FILL(name, ...) .name = name,
  table = {WEFT_KERNELS(WEFT_FILL)};
#undef WEFT_FILL
}

}  // namespace weft::portable::host
