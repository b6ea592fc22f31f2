// nn::CausalLM and nn::DraftHeads for Python; weft/nn/causal_lm.py gives them their shape.
#include "../generate/checkpoint.hpp"
#include "../nn/draft_heads.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "module_object.hpp"

namespace weft::python {

namespace {

nn::CausalLM& model_of(nb::handle module) { return state_of(module).callee->as<nn::CausalLM>(here()); }
nn::DraftHeads& heads_of(nb::handle module) { return state_of(module).callee->as<nn::DraftHeads>(here()); }

template <class M>
Layer layer_of(const M& module) {
  return {module, module};
}

}  // namespace

void bind_causal_lm(nb::module_& m) {
  m.def("_causal_lm", [](const nb::dict& options) {
    const Location where = here();
    return layer_of(nn::CausalLM(nn::causal_lm_options(config_from(options), where), where));
  });
  m.def(
      "_load_causal_lm",
      [](const std::string& folder, std::optional<DType> dtype, Device device) {
        return layer_of(without_gil([&](Location where) {
          return generate::load_causal_lm(folder, {.dtype = dtype, .device = device}, where);
        }));
      },
      nb::arg(), nb::arg().none(), nb::arg());
  m.def("_draft_heads", [](int64_t width, int64_t heads) { return layer_of(nn::DraftHeads(width, heads, here())); });
  m.def("_draft_loss", [](nb::handle model, nb::handle heads, const Tensor& tokens) {
    const nn::CausalLM& of = model_of(model);
    const nn::DraftHeads& by = heads_of(heads);
    return without_gil([&](Location where) { return nn::draft_loss(of, by, tokens, where); });
  });
  m.def("_causal_lm_hidden", [](nb::handle model, const Tensor& tokens) {
    const nn::CausalLM& of = model_of(model);
    return without_gil([&](Location where) { return of.hidden(tokens, where); });
  });
  m.def(
      "_language_model",
      [](nb::handle model, nb::handle heads) {
        if (heads.is_none()) return generate::language_model(model_of(model));
        return generate::language_model(model_of(model), heads_of(heads), here());
      },
      nb::arg(), nb::arg().none());
}

}  // namespace weft::python
