// Caches of keys and values, slopes and backends of attention for Python.
#include "../generate/paged_kv_cache.hpp"
#include "../ops/kv_cache.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include "cache_arguments.hpp"
#include "module_object.hpp"

namespace weft::python {

namespace {

CachedAttentionArguments cached(bool causal, std::optional<double> scale, const std::optional<Tensor>& slopes,
                                const Window& window) {
  return {causal, scale, slopes.value_or(Tensor()), window_of(window)};
}

std::vector<std::pair<std::string, std::vector<std::string>>> backends(const Tensor& q, const Tensor& k,
                                                                       const Tensor& v,
                                                                       const std::optional<Tensor>& mask, bool causal,
                                                                       std::optional<double> scale, double dropout,
                                                                       const std::optional<Tensor>& slopes,
                                                                       const Window& window, bool return_weights) {
  const AttentionArguments arguments{.mask = mask.value_or(Tensor()),
                                     .causal = causal,
                                     .scale = scale,
                                     .dropout = dropout,
                                     .alibi_slopes = slopes.value_or(Tensor()),
                                     .window = window_of(window)};
  std::vector<std::pair<std::string, std::vector<std::string>>> out;
  for (auto& state : attention_backends(q, k, v, arguments, return_weights, here())) {
    out.emplace_back(name(state.backend), std::move(state.reasons));
  }
  return out;
}

void bind_contiguous(nb::module_& m) {
  nb::class_<KvCache>(m, "KvCache", "Keys and values of a batch of sequences, each in one piece.")
      .def(
          "__init__",
          [](KvCache* self, int64_t batch, int64_t capacity, int64_t heads, int64_t depth, int64_t width,
             std::optional<DType> dtype, std::optional<Device> device) {
            new (self) KvCache(batch, capacity, heads, depth, options_of(dtype, device), width, here());
          },
          nb::arg("batch"), nb::arg("capacity"), nb::arg("heads"), nb::arg("depth"), nb::arg("width") = -1,
          nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none())
      .def_prop_ro("k", [](const KvCache& c) { return c.k(); })
      .def_prop_ro("v", [](const KvCache& c) { return c.v(); })
      .def_prop_ro("lengths", [](const KvCache& c) { return c.lengths(); })
      .def_prop_ro("capacity", &KvCache::capacity)
      .def(
          "append",
          [](KvCache& c, const Tensor& k, const Tensor& v, const std::optional<Counts>& counts) {
            const Location where = here();
            const WithoutGil others;
            if (counts) c.append(k, v, *counts, where);
            else c.append(k, v, where);
          },
          nb::arg("k"), nb::arg("v"), nb::arg("counts") = nb::none(),
          "Writes k and v [batch, n, heads, width] behind every sequence, or counts[i] of their rows "
          "[sum, heads, width] behind sequence i.")
      .def(
          "truncate", [](KvCache& c, int64_t sequence, int64_t length) { c.truncate(sequence, length, here()); },
          nb::arg("sequence"), nb::arg("length"), "Forgets all of a sequence but its first tokens.")
      .def(
          "attention",
          [](const KvCache& c, const Tensor& q, const std::optional<Counts>& counts, bool causal,
             std::optional<double> scale, const std::optional<Tensor>& slopes, const Window& window) {
            const Location where = here();
            const WithoutGil others;
            const CachedAttentionArguments a = cached(causal, scale, slopes, window);
            return counts ? attention_varlen(q, *counts, c, a, where) : attention(q, c, a, where);
          },
          nb::arg("q"), nb::arg("counts") = nb::none(), nb::kw_only(), nb::arg("causal") = true,
          nb::arg("scale") = nb::none(), nb::arg("alibi_slopes") = nb::none(), nb::arg("window") = nb::none(),
          "Attention of the last tokens of every sequence over all of it: q [batch, n, heads, width], or counts[i] "
          "rows "
          "for sequence i of q [sum, heads, width].");
}

void bind_paged(nb::module_& m) {
  nb::class_<PagedKvCache>(m, "PagedKvCache", "Keys and values in blocks of a pool, which sequences may share.")
      .def(
          "__init__",
          [](PagedKvCache* self, int64_t blocks, int64_t block_size, int64_t heads, int64_t depth, int64_t width,
             std::optional<DType> dtype, std::optional<Device> device) {
            new (self) PagedKvCache(blocks, block_size, heads, depth, options_of(dtype, device), width, here());
          },
          nb::arg("blocks"), nb::arg("block_size"), nb::arg("heads"), nb::arg("depth"), nb::arg("width") = -1,
          nb::arg("dtype") = nb::none(), nb::arg("device") = nb::none())
      .def_prop_ro("k", [](const PagedKvCache& c) { return c.k(); })
      .def_prop_ro("v", [](const PagedKvCache& c) { return c.v(); })
      .def_prop_ro("block_size", &PagedKvCache::block_size)
      .def_prop_ro("free_blocks", &PagedKvCache::free_blocks)
      .def("add_sequence", &PagedKvCache::add_sequence, "An empty sequence; its number.")
      .def(
          "fork", [](PagedKvCache& c, int64_t sequence) { return c.fork(sequence, here()); }, nb::arg("sequence"),
          "A sequence of the same tokens, which shares their blocks.")
      .def(
          "remove", [](PagedKvCache& c, int64_t sequence) { c.remove(sequence, here()); }, nb::arg("sequence"))
      .def(
          "length", [](const PagedKvCache& c, int64_t sequence) { return c.length(sequence, here()); },
          nb::arg("sequence"))
      .def(
          "blocks", [](const PagedKvCache& c, int64_t sequence) { return c.blocks(sequence, here()); },
          nb::arg("sequence"))
      .def(
          "append",
          [](PagedKvCache& c, const Counts& sequences, const Tensor& k, const Tensor& v, const Counts& counts) {
            const Location where = here();
            const WithoutGil others;
            c.append(sequences, k, v, counts, where);
          },
          nb::arg("sequences"), nb::arg("k"), nb::arg("v"), nb::arg("counts"),
          "Writes counts[i] of the rows of k and v [sum, heads, width] behind sequences[i].")
      .def(
          "attention",
          [](const PagedKvCache& c, const Tensor& q, const Counts& counts, const Counts& sequences, bool causal,
             std::optional<double> scale, const std::optional<Tensor>& slopes, const Window& window) {
            const Location where = here();
            const WithoutGil others;
            return attention_varlen(q, counts, sequences, c, cached(causal, scale, slopes, window), where);
          },
          nb::arg("q"), nb::arg("counts"), nb::arg("sequences"), nb::kw_only(), nb::arg("causal") = true,
          nb::arg("scale") = nb::none(), nb::arg("alibi_slopes") = nb::none(), nb::arg("window") = nb::none(),
          "Attention of the last counts[i] tokens of sequences[i], rows of q [sum, heads, width], over all of it.");
}

}  // namespace

void bind_attention(nb::module_& m) {
  m.def(
      "alibi_slopes", [](int64_t n) { return alibi_slopes(n, here()); }, nb::arg("n"),
      "The slopes of n heads (Press et al. 2022), a list of floats.");
  m.def("attention_backends", backends, nb::arg("q"), nb::arg("k"), nb::arg("v"), nb::arg("mask") = nb::none(),
        nb::arg("causal") = false, nb::kw_only(), nb::arg("scale") = nb::none(), nb::arg("dropout") = 0.0,
        nb::arg("alibi_slopes") = nb::none(), nb::arg("window") = nb::none(), nb::arg("return_weights") = false,
        "Each backend of weft.attention for this call, the fastest first, with the reasons why it is not eligible.");
  bind_contiguous(m);
  bind_paged(m);
}

}  // namespace weft::python
