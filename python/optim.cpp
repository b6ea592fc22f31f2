// The C++ optimizers for Python; weft/optim.py gives them PyTorch's argument names.
#include "../optim/optim.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

using optim::Optimizer;
using Tensors = std::vector<Tensor>;

void bind_common(nb::module_& m) {
  nb::class_<Optimizer>(m, "_Optimizer")
      .def("_step",
           [](Optimizer& self) {
             const Location where = here();
             const WithoutGil others;
             self.step(where);
           })
      .def("_zero_grad", &Optimizer::zero_grad)
      .def(
          "_add_group",
          [](Optimizer& self, const Tensors& parameters, std::optional<double> lr, std::optional<double> decay) {
            self.add_group(parameters, {.lr = lr, .weight_decay = decay}, here());
          },
          nb::arg("parameters"), nb::arg("lr").none(), nb::arg("weight_decay").none())
      .def("_groups",
           [](const Optimizer& self) {
             nb::list groups;
             for (const optim::Group& g : self.groups()) {
               nb::dict group;
               group["params"] = nb::cast(g.parameters);
               group["lr"] = g.lr;
               group["weight_decay"] = g.weight_decay;
               groups.append(group);
             }
             return groups;
           })
      .def("_set_lr", [](Optimizer& self, double lr, size_t group) { self.set_lr(lr, group, here()); })
      .def("_state_dict", &Optimizer::state_dict)
      .def("_load_state_dict",
           [](Optimizer& self, const Optimizer::StateDict& values) { self.load_state_dict(values, here()); });
}

}  // namespace

void bind_optim(nb::module_& m) {
  bind_common(m);
  nb::class_<optim::SGD, Optimizer>(m, "_SGD").def("__init__", [](optim::SGD* self, const Tensors& parameters,
                                                                  double lr, double momentum, double dampening,
                                                                  double weight_decay, bool nesterov) {
    new (self) optim::SGD(
        parameters,
        {.lr = lr, .momentum = momentum, .dampening = dampening, .weight_decay = weight_decay, .nesterov = nesterov},
        here());
  });
  nb::class_<optim::Adam, Optimizer>(m, "_Adam")
      .def("__init__", [](optim::Adam* self, const Tensors& parameters, double lr, double beta1, double beta2,
                          double eps, double weight_decay) {
        new (self) optim::Adam(
            parameters, {.lr = lr, .beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = weight_decay}, here());
      });
  nb::class_<optim::AdamW, optim::Adam>(m, "_AdamW")
      .def("__init__", [](optim::AdamW* self, const Tensors& parameters, double lr, double beta1, double beta2,
                          double eps, double weight_decay) {
        new (self) optim::AdamW(
            parameters, {.lr = lr, .beta1 = beta1, .beta2 = beta2, .eps = eps, .weight_decay = weight_decay}, here());
      });
  m.def("_clip_grad_norm_", [](const Tensors& parameters, double max_norm, double norm_type, bool error_if_nonfinite) {
    return optim::clip_grad_norm_(parameters, max_norm,
                                  {.norm_type = norm_type, .error_if_nonfinite = error_if_nonfinite}, here());
  });
  m.def("_clip_grad_value_",
        [](const Tensors& parameters, double max_value) { optim::clip_grad_value_(parameters, max_value, here()); });
  m.def("_warmup_cosine", [](int64_t step, double lr, int64_t warmup, int64_t steps, double minimum) {
    return optim::warmup_cosine(step, {.lr = lr, .warmup = warmup, .steps = steps, .minimum = minimum});
  });
}

}  // namespace weft::python
