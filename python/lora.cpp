// LoRA for Python; weft/nn/lora.py gives it its shape.
#include "../io/adapter.hpp"
#include "../nn/checkpointing.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

nn::LoraBias bias_of(const std::string& word) {
  if (word == "none") return nn::LoraBias::none;
  if (word == "all") return nn::LoraBias::all;
  if (word == "lora_only") return nn::LoraBias::lora_only;
  throw_error(PyExc_ValueError, "bias: expected 'none', 'all' or 'lora_only', got '" + word + "'");
}

nn::LoraBase base_of(const std::string& word) {
  if (word == "cpu") return nn::LoraBase::cpu;
  if (word == "disk") return nn::LoraBase::disk;
  if (word == "recompute") return nn::LoraBase::recompute;
  throw_error(PyExc_ValueError, "base: expected 'cpu', 'disk' or 'recompute', got '" + word + "'");
}

nb::dict described(const nn::LoraLayer& layer) {
  nb::dict out;
  out["name"] = layer.name;
  out["r"] = layer.options.r;
  out["scale"] = layer.scale;
  out["merged"] = layer.merged;
  return out;
}

}  // namespace

void bind_lora(nb::module_& m) {
  m.def(
      "_apply_lora",
      [](nb::handle model, std::vector<std::string> targets, int64_t r, std::optional<double> alpha, double dropout,
         bool rslora, double lora_plus_scale, std::vector<bool> enable, std::optional<DType> dtype, bool merge_on_eval,
         const std::string& base, bool share) {
        const nn::LoraOptions options{.r = r,
                                      .alpha = alpha,
                                      .dropout = dropout,
                                      .rslora = rslora,
                                      .lora_plus_scale = lora_plus_scale,
                                      .targets = std::move(targets),
                                      .enable = std::move(enable),
                                      .share = share,
                                      .dtype = dtype,
                                      .merge_on_eval = merge_on_eval,
                                      .base = base_of(base)};
        return nn::apply_lora(module_of(model), options, here());
      },
      nb::arg("model"), nb::arg("targets"), nb::arg("r"), nb::arg("alpha").none(), nb::arg("dropout"),
      nb::arg("rslora"), nb::arg("lora_plus_scale"), nb::arg("enable"), nb::arg("dtype").none(),
      nb::arg("merge_on_eval"), nb::arg("base"), nb::arg("share"));
  m.def("_mark_only_lora_trainable", [](nb::handle model, const std::string& bias) {
    nn::mark_only_lora_trainable(module_of(model), bias_of(bias), here());
  });
  m.def("_merge_lora", [](nb::handle model) { nn::merge_lora(module_of(model), here()); });
  m.def("_unmerge_lora", [](nb::handle model) { nn::unmerge_lora(module_of(model), here()); });
  m.def("_merge_and_unload_lora", [](nb::handle model) { nn::merge_and_unload_lora(module_of(model), here()); });
  m.def("_is_lora_merged", [](nb::handle model) { return nn::is_lora_merged(module_of(model)); });
  m.def("_lora_layers", [](nb::handle model) {
    nb::list out;
    for (const nn::LoraLayer& layer : nn::lora_layers(module_of(model))) out.append(described(layer));
    return out;
  });
  m.def("_lora_parameter_groups", [](nb::handle model, double lr) {
    nb::list out;
    for (const nn::LoraGroup& group : nn::lora_parameter_groups(module_of(model), lr, here())) {
      out.append(nb::make_tuple(group.parameters, group.lr));
    }
    return out;
  });
  m.def("_lora_state_dict",
        [](nb::handle model, const std::string& bias) { return nn::lora_state_dict(module_of(model), bias_of(bias)); });
  m.def("_load_lora_state_dict", [](nb::handle model, const nn::StateDict& values) {
    nn::load_lora_state_dict(module_of(model), values, here());
  });
  m.def("_save_adapter", [](const std::string& folder, nb::handle model, std::string base, const std::string& bias) {
    io::save_adapter(folder, module_of(model), {.base = std::move(base), .bias = bias_of(bias)}, here());
  });
  m.def("_load_adapter", [](const std::string& folder, nb::handle model) {
    const io::AdapterInfo info = io::load_adapter(folder, module_of(model), here());
    return nb::make_tuple(info.base, info.names);
  });
  m.def("_checkpoint_module", [](nb::handle model, bool on) { nn::checkpoint_module(module_of(model), on); });
  m.def("_is_checkpointed", [](nb::handle model) { return nn::is_checkpointed(module_of(model)); });
  m.def("_set_checkpointing", [](nb::handle model, const std::string& pattern, bool on) {
    return nn::set_checkpointing(module_of(model), pattern, on, here());
  });
}

}  // namespace weft::python
