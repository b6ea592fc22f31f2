// nn::MoE for Python; weft/nn/moe.py gives it its shape.
#include "../nn/auxiliary_loss.hpp"
#include "../nn/moe.hpp"

#include "module_object.hpp"

namespace weft::python {

namespace {

struct LossScale {
  explicit LossScale(double scale) : guard(std::in_place, scale) {}
  void end() { guard.reset(); }
  std::optional<nn::AuxiliaryLossScale> guard;
};

nn::MoE& moe_of(nb::handle module) { return state_of(module).callee->as<nn::MoE>(here()); }

}  // namespace

void bind_moe(nb::module_& m) {
  m.def(
      "_moe",
      [](int64_t width, int64_t hidden, int64_t experts, int64_t top_k, bool sigmoid, bool normalize, bool gelu,
         int64_t shared_experts, std::optional<double> capacity_factor, bool expert_bias, double balance_weight,
         double z_weight) {
        const nn::MoE moe(width, hidden, experts,
                          {.top_k = top_k,
                           .scores = sigmoid ? nn::RouterScores::sigmoid : nn::RouterScores::softmax,
                           .normalize = normalize,
                           .kind = gelu ? nn::ExpertKind::gelu : nn::ExpertKind::swiglu,
                           .shared_experts = shared_experts,
                           .capacity_factor = capacity_factor,
                           .expert_bias = expert_bias,
                           .balance_weight = balance_weight,
                           .z_weight = z_weight},
                          here());
        return Layer{moe, moe};
      },
      nb::arg("width"), nb::arg("hidden"), nb::arg("experts"), nb::arg("top_k"), nb::arg("sigmoid"),
      nb::arg("normalize"), nb::arg("gelu"), nb::arg("shared_experts"), nb::arg("capacity_factor").none(),
      nb::arg("expert_bias"), nb::arg("balance_weight"), nb::arg("z_weight"));
  m.def("_moe_with_losses", [](nb::handle module, const Tensor& x) {
    const Location where = here();
    const nn::MoE& moe = moe_of(module);
    nn::MoEOutput out;
    {
      const WithoutGil others;
      out = moe.forward_with_losses(x, where);
    }
    return nb::make_tuple(out.output, out.balance_loss, out.z_loss, out.counts);
  });
  nb::class_<LossScale>(m, "_AuxiliaryLossScale").def(nb::init<double>()).def("end", &LossScale::end);
  m.def("_add_auxiliary_loss", [](const Tensor& y, const Tensor& loss, double weight) {
    return nn::add_auxiliary_loss(y, loss, weight, here());
  });
  m.def("_update_expert_bias", [](nb::handle module, const Tensor& counts, double rate) {
    moe_of(module).update_expert_bias(counts, rate, here());
  });
}

}  // namespace weft::python
