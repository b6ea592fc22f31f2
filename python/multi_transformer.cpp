// A decoder's layers over caches for Python.
#include "../ops/multi_transformer.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cache_arguments.hpp"
#include "module_object.hpp"

namespace weft::python {

namespace {

Tensor reduced(const Callback& callable, const Tensor& part) {
  const WithGil gil;
  const Ref arguments(PyTuple_Pack(1, Ref(wrap(part)).get()));
  const Ref result(PyObject_Call(callable.get(), arguments.get(), nullptr));
  if (result.get() == nullptr) carry_error();
  if (!is_tensor(result.get()))
    throw_type_error("result of all_reduce: expected a Tensor, got " + type_name(result.get()));
  return tensor_of(result.get());
}

void bind_caches(nb::module_& m) {
  nb::class_<LayeredKvCache>(m, "LayeredKvCache", "Keys and values of a batch of sequences for each of several layers.")
      .def(
          "__init__",
          [](LayeredKvCache* self, int64_t layers, int64_t batch, int64_t capacity, int64_t heads, int64_t depth,
             std::optional<DType> dtype, std::optional<Device> device) {
            new (self) LayeredKvCache(layers, batch, capacity, heads, depth, options_of(dtype, device), here());
          },
          nb::arg("layers"), nb::arg("batch"), nb::arg("capacity"), nb::arg("heads"), nb::arg("depth"),
          nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none())
      .def_prop_ro("lengths", [](const LayeredKvCache& c) { return c.lengths(); })
      .def_prop_ro("capacity", &LayeredKvCache::capacity)
      .def("__len__", &LayeredKvCache::layers)
      .def(
          "layer", [](LayeredKvCache& c, int64_t i) -> KvCache& { return c.layer(i, here()); }, nb::arg("i"),
          nb::rv_policy::reference_internal, "The KvCache of a layer.")
      .def(
          "truncate", [](LayeredKvCache& c, const Counts& lengths) { c.truncate(lengths, here()); }, nb::arg("lengths"),
          "Each sequence keeps its first tokens alone.")
      .def(
          "take_rows", [](LayeredKvCache& c, const Counts& rows) { c.take_rows(rows, here()); }, nb::arg("rows"),
          "Sequence i becomes the former sequence rows[i].");
}

Tensor called(const Tensor& x, const std::vector<MultiTransformerLayer>& layers, LayeredKvCache& cache,
              int64_t num_heads, int64_t head_dim, double eps, bool transposed_weights, bool interleaved,
              const std::optional<Tensor>& positions, const Counts& counts, std::optional<double> scale,
              const Window& window, nb::handle all_reduce, bool mlp_in_parts, double theta, const std::string& scaling,
              double factor, int64_t original_length, double low_frequency, double high_frequency, double beta_fast,
              double beta_slow, std::optional<double> attention_factor) {
  MultiTransformerOptions o{.num_heads = num_heads,
                            .head_dim = head_dim,
                            .eps = eps,
                            .transposed_weights = transposed_weights,
                            .interleaved = interleaved,
                            .positions = positions.value_or(Tensor()),
                            .counts = counts,
                            .scale = scale,
                            .window = window_of(window),
                            .mlp_in_parts = mlp_in_parts};
  o.rope = {theta,           rope_scaling_named(scaling, here()),
            factor,          original_length,
            low_frequency,   high_frequency,
            beta_fast,       beta_slow,
            attention_factor};
  if (!all_reduce.is_none()) {
    o.all_reduce = [callable = Callback(all_reduce)](const Tensor& part) { return reduced(callable, part); };
  }
  return without_gil([&](Location where) { return fused_multi_transformer(x, layers, cache, o, where); });
}

}  // namespace

void bind_multi_transformer(nb::module_& m) {
  bind_caches(m);
  nb::class_<MultiTransformerLayer>(m, "MultiTransformerLayer", "Weights of one layer of fused_multi_transformer.")
      .def(
          "__init__",
          [](MultiTransformerLayer* self, const Tensor& ln_weight, const Tensor& qkv_weight, const Tensor& out_weight,
             const Tensor& mlp_ln_weight, const Tensor& proj, const Tensor& down) {
            new (self) MultiTransformerLayer{ln_weight, qkv_weight, out_weight, mlp_ln_weight, proj, down};
          },
          nb::arg("ln_weight"), nb::arg("qkv_weight"), nb::arg("out_weight"), nb::arg("mlp_ln_weight"), nb::arg("proj"),
          nb::arg("down"));
  m.def("fused_multi_transformer", called, nb::arg("x"), nb::arg("layers"), nb::arg("cache"), nb::kw_only(),
        nb::arg("num_heads"), nb::arg("head_dim"), nb::arg("eps") = 1e-5, nb::arg("transposed_weights") = false,
        nb::arg("interleaved") = false, nb::arg("positions") = nb::none(), nb::arg("counts") = Counts(),
        nb::arg("scale") = nb::none(), nb::arg("window") = nb::none(), nb::arg("all_reduce") = nb::none(),
        nb::arg("mlp_in_parts") = false, nb::arg("theta") = 10000.0, nb::arg("scaling") = "none",
        nb::arg("factor") = 1.0, nb::arg("original_length") = 8192, nb::arg("low_frequency") = 1.0,
        nb::arg("high_frequency") = 4.0, nb::arg("beta_fast") = 32.0, nb::arg("beta_slow") = 1.0,
        nb::arg("attention_factor") = nb::none(),
        "The layers, one after the other, of x [B, S, H] over what the cache has of each sequence, which grows: a "
        "prompt at once, or token by token. The last counts[b] of row b's places are tokens, all unless given; a row "
        "with none is inactive. Rope is as in rope_table. Nothing is recorded.");
}

}  // namespace weft::python
