// Memory, base and form of tensors for Python: storages, print options, weft.Size.
#include "../autograd/hooks.hpp"
#include "../autograd/node.hpp"
#include "../ops/ipc.hpp"
#include "../tensor/layout.hpp"
#include "../tensor/print.hpp"

#include "caster.hpp"
#include "dtypes.hpp"

namespace weft::python {

namespace {

/// All bytes of x's storage as a uint8 tensor over the same memory.
Tensor storage_of(const Tensor& x) {
  const Storage& storage = *x.impl()->storage;
  Layout layout = contiguous_layout(Dims{static_cast<int64_t>(storage.bytes)}, DType::u8);
  layout.device_type = storage.device.type;
  layout.device_index = storage.device.index;
  return Tensor::adopt(detail::new_alias(x.impl(), layout, storage.data));
}

bool is_shared(const Tensor& x) {
  if (x.numel() == 0) return false;
  try {
    (void)share(x, here());
    return true;
  } catch (const ValueError&) {
    return false;
  }
}

bool retains_gradient(const Tensor& x) {
  const TensorImpl& impl = *x.impl();
  if (x.is_leaf() || impl.node == nullptr) return false;
  const NodeHooks* const hooks = impl.node->hooks.load(MemoryOrder::acquire);
  return hooks != nullptr && hooks->retains.load(MemoryOrder::relaxed);
}

nb::dict printed_as() {
  const PrintOptions options = print_options();
  nb::dict out;
  out["precision"] = options.precision;
  out["threshold"] = options.threshold;
  out["edgeitems"] = options.edge_items;
  out["linewidth"] = options.line_width;
  out["sci_mode"] = nb::cast(options.scientific);
  return out;
}

void print_as(int precision, int64_t threshold, int64_t edge_items, int64_t line_width,
              std::optional<bool> scientific) {
  set_print_options({precision, threshold, edge_items, line_width, scientific, print_options().pytorch_names}, here());
}

}  // namespace

void bind_own_memory(nb::module_& m) {
  // By object: a copy of the handle would keep the old memory alive.
  m.def("_set_data",
        [](nb::handle x, nb::handle source) { checked_tensor(x).set_data(checked_tensor(source), here()); });
  m.def("_set", [](nb::handle x, nb::handle source) { checked_tensor(x).set_(checked_tensor(source), here()); });
  m.def("_resize",
        [](nb::handle x, const std::vector<int64_t>& sizes) { checked_tensor(x).resize_(Dims(sizes), here()); });
  m.def("_storage", storage_of);
  m.def("_is_shared", is_shared);
  m.def("_retains_grad", retains_gradient);
  m.def("_base", [](const Tensor& x) { return x.impl()->base != nullptr ? Tensor::share(x.impl()->base) : Tensor(); });
  m.def("_print_options", printed_as);
  m.def("_set_print_options", print_as, nb::arg(), nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def("_use_pytorch_forms", [](bool on) {
    pytorch_forms = on;
    PrintOptions options = print_options();
    options.pytorch_names = on;
    set_print_options(options, here());
  });
}

}  // namespace weft::python
