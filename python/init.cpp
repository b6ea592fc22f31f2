// weft::nn::init for Python; weft/nn/init.py gives it PyTorch's argument names.
#include "../nn/init.hpp"

#include "caster.hpp"
#include "generator.hpp"

namespace weft::python {

namespace {

namespace init = nn::init;
using Number = std::optional<int64_t>;

init::Nonlinearity nonlinearity_named(const std::string& name) {
  using enum init::Nonlinearity;
  if (name.starts_with("conv") || name == "linear") return linear;
  if (name == "sigmoid") return sigmoid;
  if (name == "tanh") return init::Nonlinearity::tanh;
  if (name == "relu") return init::Nonlinearity::relu;
  if (name == "leaky_relu") return leaky_relu;
  if (name == "selu") return selu;
  raise<ValueError>({.op = "nn.init", .problem = "no gain is known for '" + name + "'"}, here());
}

init::KaimingOptions kaiming(double a, const std::string& mode, const std::string& nonlinearity, Number generator) {
  if (mode != "fan_in" && mode != "fan_out") {
    raise<ValueError>({.op = "nn.init", .problem = "mode: expected 'fan_in' or 'fan_out', got '" + mode + "'"}, here());
  }
  return {a, mode == "fan_in" ? init::Fan::in : init::Fan::out, nonlinearity_named(nonlinearity),
          find_generator(generator)};
}

}  // namespace

void bind_init(nb::module_& m) {
  m.def("_init_eye_", [](const Tensor& t) { init::eye_(t, here()); });
  m.def("_init_dirac_", [](const Tensor& t, int64_t groups) { init::dirac_(t, groups, here()); });
  m.def("_init_gain",
        [](const std::string& name, double slope) { return init::calculate_gain(nonlinearity_named(name), slope); });
  m.def("_init_xavier_uniform_", [](const Tensor& t, double gain, Number generator) {
    init::xavier_uniform_(t, gain, find_generator(generator), here());
  });
  m.def("_init_xavier_normal_", [](const Tensor& t, double gain, Number generator) {
    init::xavier_normal_(t, gain, find_generator(generator), here());
  });
  m.def("_init_kaiming_uniform_",
        [](const Tensor& t, double a, const std::string& mode, const std::string& nonlinearity, Number generator) {
          init::kaiming_uniform_(t, kaiming(a, mode, nonlinearity, generator), here());
        });
  m.def("_init_kaiming_normal_",
        [](const Tensor& t, double a, const std::string& mode, const std::string& nonlinearity, Number generator) {
          init::kaiming_normal_(t, kaiming(a, mode, nonlinearity, generator), here());
        });
  m.def("_init_trunc_normal_",
        [](const Tensor& t, double mean, double deviation, double low, double high, Number generator) {
          init::trunc_normal_(t, {mean, deviation, low, high, find_generator(generator)}, here());
        });
  m.def("_init_orthogonal_", [](const Tensor& t, double gain, Number generator) {
    const Location where = here();
    Generator* const source = find_generator(generator);
    const WithoutGil others;
    init::orthogonal_(t, gain, source, where);
  });
  m.def("_init_sparse_", [](const Tensor& t, double sparsity, double deviation, Number generator) {
    init::sparse_(t, sparsity, deviation, find_generator(generator), here());
  });
}

}  // namespace weft::python
