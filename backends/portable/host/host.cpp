#include "host.hpp"

#include "launch.hpp"

namespace weft::portable::host {

void require(Accelerator& device, Compute compute, const char* kernel, const View& view) {
  if (compute == Compute::f64 && !device.has_double()) unsupported(kernel, view);
}

/// Kernels that devices lack: their pointers are null, and the ops run composite bodies. They fuse other kernels of a
/// device.
// clang-format off
#define WEFT_CPU_ONLY(X) \
  X(activated_product) X(rotated_products)
// clang-format on

namespace here {
// Names that are found before the functions around them.
#define WEFT_MISSING(name) constexpr decltype(nullptr) name = nullptr;
WEFT_CPU_ONLY(WEFT_MISSING)
#undef WEFT_MISSING

#define WEFT_FILL(name, ...) .name = name,
KernelTable whole_row() { return {WEFT_KERNELS(WEFT_FILL)}; }
#undef WEFT_FILL
}  // namespace here

void fill_kernels(KernelTable& table) { table = here::whole_row(); }

}  // namespace weft::portable::host
