// Loss scaling for Python; weft/amp.py gives it PyTorch's argument names.
#include "../optim/grad_scaler.hpp"

#include "../optim/optim.hpp"
#include "caster.hpp"

namespace weft::python {

using optim::GradScaler;

void bind_amp(nb::module_& m) {
  nb::class_<GradScaler>(m, "_GradScaler")
      .def("__init__",
           [](GradScaler* self, double init_scale, double growth_factor, double backoff_factor, int64_t growth_interval,
              bool enabled) {
             new (self) GradScaler({init_scale, growth_factor, backoff_factor, growth_interval, enabled}, here());
           })
      .def("_scale", [](const GradScaler& self, const Tensor& loss) { return self.scale(loss, here()); })
      .def("_unscale",
           [](GradScaler& self, optim::Optimizer& optimizer) {
             const Location where = here();
             const WithoutGil others;
             self.unscale_(optimizer, where);
           })
      .def("_step",
           [](GradScaler& self, optim::Optimizer& optimizer, nb::callable update) {
             nb::object result = nb::none();
             const bool stepped = self.step(
                 optimizer, [&] { result = update(); }, here());
             return std::pair(stepped, result);
           })
      .def("_update", [](GradScaler& self) { self.update(here()); })
      .def("_set",
           [](GradScaler& self, double scale, int64_t tracker) {
             self.restore({scale, tracker}, here());
           })
      .def_prop_ro("_found_inf", &GradScaler::found_inf)
      .def_prop_ro("_scale_now", [](const GradScaler& self) { return self.state().scale; })
      .def_prop_ro("_tracker", [](const GradScaler& self) { return self.state().growth_tracker; });
}

}  // namespace weft::python
