#include "layers.hpp"

#include "description-inl.hpp"
#include "../ops/create.hpp"
#include "../ops/index.hpp"
#include "../ops/matmul.hpp"
#include "../ops/norm.hpp"
#include "../ops/random.hpp"
#include "layer-inl.hpp"
#include "module_state-inl.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::nn {

static auto describe(Of<Linear>) {
  return described("Linear", "", required<int64_t>("in_features").at_least(0),
                   required<int64_t>("out_features").at_least(0), option("bias", true));
}
static auto describe(Of<Embedding>) {
  using O = EmbeddingOptions;
  return described("Embedding", "", required<int64_t>("num_embeddings").at_least(0).bare(),
                   required<int64_t>("embedding_dim").at_least(0).bare(),
                   option("padding_idx", &O::padding_idx).if_set(), python_option("max_norm", std::optional<double>()),
                   python_option("norm_type", 2.0), python_option("scale_grad_by_freq", false),
                   option("sparse", &O::sparse).if_set(), python_option("_weight", Attribute()),
                   python_option("_freeze", false));
}
static auto describe(Of<EmbeddingBag>) {
  using O = EmbeddingBagOptions;
  return described("EmbeddingBag", "", required<int64_t>("num_embeddings").at_least(0).bare(),
                   required<int64_t>("embedding_dim").at_least(0).bare(),
                   option("max_norm", &O::max_norm).at_least(0).hidden(), option("norm_type", &O::norm_type).hidden(),
                   python_option("scale_grad_by_freq", false), option("mode", &O::mode, bag_modes),
                   option("include_last_offset", &O::include_last_offset).hidden(),
                   option("padding_idx", &O::padding_idx).if_set(), option("sparse", &O::sparse).hidden().python_at(6),
                   python_option("_weight", Attribute()).python_at(7));
}
static auto describe(Of<LayerNorm>) {
  return described("LayerNorm", "", required<Dims>("normalized_shape").tuple_of(1).bare(), option("eps", 1e-5),
                   option("elementwise_affine", true), option("bias", true));
}
static auto describe(Of<RMSNorm>) {
  return described("RMSNorm", "", required<Dims>("normalized_shape").tuple_of(1).bare(),
                   option("eps", std::optional<double>()), option("elementwise_affine", true));
}

Linear::Linear(int64_t in, int64_t out, bool with_bias, Location where) {
  set_options(*this, where, in, out, with_bias);
  weight = uniform_by_width({out, in}, in, where);
  if (with_bias) bias = uniform_by_width(out, in, where);
  register_parameter("weight", weight);
  register_parameter("bias", bias);
}

Tensor Linear::forward(const Tensor& x, Location where) const {
  if (WEFT_LIKELY(detail::StateAccess::state(*this).forms.get() == nullptr)) return linear(x, weight, bias, where);
  return detail::linear_with_forms(*this, x, where);
}

namespace {

// The initial weight of an embedding; the row `padding` is 0.
Tensor table(int64_t count, int64_t width, double deviation, std::optional<int64_t> padding, Location where) {
  const Tensor rows = normal_(empty({count, width}, {}, where), 0, deviation, nullptr, where);
  if (padding) rows[*padding] = 0;
  return rows;
}

// Converts padding_idx to a row counted from the start. Raises ValueError if it is out of range.
std::optional<int64_t> padding_row(const char* layer, std::optional<int64_t> given, int64_t count, Location where) {
  if (!given) return {};
  const int64_t row = *given < 0 ? *given + count : *given;
  if (0 <= row && row < count) return row;
  raise<ValueError>(
      {.op = layer, .problem = mismatch_text("padding_idx", fmt::format("one of {} rows", count), *given)}, where);
}

void check_shape(const char* layer, const Dims& shape, Location where) {
  if (shape.empty()) raise<ValueError>({.op = layer, .problem = "the normalized shape has no dimensions"}, where);
  for (const int64_t size : shape) check_size(layer, "a size", size, where);
}

}  // namespace

Embedding::Embedding(int64_t count, int64_t width, const EmbeddingOptions& options, double deviation, Location where)
    : options_(options) {
  options_.padding_idx = padding_row("nn::Embedding", options.padding_idx, count, where);
  set_options(*this, where, count, width, options_);
  weight = table(count, width, deviation, options_.padding_idx, where);
  register_parameter("weight", weight);
}

Tensor Embedding::forward(const Tensor& indices, Location where) const {
  if (WEFT_LIKELY(detail::StateAccess::state(*this).forms.get() == nullptr)) {
    return embedding(weight, indices, options_, where);
  }
  const Tensor rows = detail::embedding_with_forms(*this, indices, options_.padding_idx.value_or(-1), where);
  return rows.defined() ? rows : embedding(borrowed(weight, where), indices, options_, where);
}

EmbeddingBag::EmbeddingBag(int64_t count, int64_t width, const EmbeddingBagOptions& options, Location where)
    : options_(options) {
  options_.padding_idx = padding_row("nn::EmbeddingBag", options.padding_idx, count, where);
  set_options(*this, where, count, width, options_);
  weight = table(count, width, 1, options_.padding_idx, where);
  register_parameter("weight", weight);
  const std::string most = options.max_norm ? ", max_norm=" + python_float(*options.max_norm) : "";
  set_extra_repr(extra_repr() + most + (options.sparse ? ", sparse=True" : ""));
}

Tensor EmbeddingBag::forward(const Tensor& indices, const Tensor& offsets, const Tensor& per_sample_weights,
                             Location where) const {
  EmbeddingBagOptions options = options_;
  options.offsets = offsets;
  options.per_sample_weights = per_sample_weights;
  return embedding_bag(indices, borrowed(weight, where), options, where);
}

LayerNorm::LayerNorm(const Dims& shape, double eps, bool affine, bool with_bias, Location where)
    : shape_(shape), eps_(eps) {
  check_shape("nn::LayerNorm", shape, where);
  with_bias = with_bias && affine;
  set_options(*this, where, shape, eps, affine, with_bias);
  if (affine) weight = ones(shape, {}, where);
  if (with_bias) bias = zeros(shape, {}, where);
  register_parameter("weight", weight);
  register_parameter("bias", bias);
}

Tensor LayerNorm::forward(const Tensor& x, Location where) const {
  return layer_norm(x, shape_, borrowed(weight, where), borrowed(bias, where), eps_, where);
}

RMSNorm::RMSNorm(const Dims& shape, std::optional<double> eps, bool affine, Location where) : shape_(shape), eps_(eps) {
  check_shape("nn::RMSNorm", shape, where);
  set_options(*this, where, shape, eps, affine);
  if (affine) weight = ones(shape, {}, where);
  register_parameter("weight", weight);
}

Tensor RMSNorm::forward(const Tensor& x, Location where) const {
  return rms_norm(x, shape_, borrowed(weight, where), eps_, RmsCast::once, where);
}

void detail::describe_layers(LayerList& list) { list.add<Linear, Embedding, EmbeddingBag, LayerNorm, RMSNorm>(); }

}  // namespace weft::nn
