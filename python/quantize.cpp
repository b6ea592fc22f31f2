// Layers in low precision for Python; weft/nn/quantize.py gives them their shape.
#include "../nn/quantize.hpp"

#include "caster.hpp"

namespace weft::python {

void bind_quantize(nb::module_& m) {
  m.def(
      "_quantize",
      [](nb::handle model, std::vector<std::string> targets, int64_t bits, int64_t group_size, bool symmetric) {
        return nn::quantize(module_of(model), {std::move(targets), bits, group_size, symmetric}, here());
      },
      nb::arg("model"), nb::arg("targets"), nb::arg("bits"), nb::arg("group_size"), nb::arg("symmetric"));
  m.def("_convert_to_fp8", [](nb::handle model, const std::vector<std::string>& targets) {
    return nn::convert_to_fp8(module_of(model), targets, here());
  });
}

}  // namespace weft::python
