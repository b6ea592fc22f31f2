#include "layers.hpp"

#include "../ops/create.hpp"
#include "../ops/index.hpp"
#include "../ops/matmul.hpp"
#include "../ops/norm.hpp"
#include "../ops/random.hpp"
#include "layer-inl.hpp"
#include "module_state-inl.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::nn {

Linear::Linear(int64_t in, int64_t out, bool with_bias, Location where) {
  check_size("nn::Linear", "in", in, where);
  check_size("nn::Linear", "out", out, where);
  weight = uniform_by_width({out, in}, in, where);
  if (with_bias) bias = uniform_by_width(out, in, where);
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  set_config({{"in_features", in}, {"out_features", out}, {"bias", with_bias}});
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
  check_size("nn::Embedding", "count", count, where);
  check_size("nn::Embedding", "width", width, where);
  const std::optional<int64_t> padding = options_.padding_idx =
      padding_row("nn::Embedding", options.padding_idx, count, where);
  weight = table(count, width, deviation, padding, where);
  register_parameter("weight", weight);
  set_config(
      {{"num_embeddings", count}, {"embedding_dim", width}, {"padding_idx", padding}, {"sparse", options.sparse}});
  set_extra_repr(fmt::format("{}, {}{}{}", count, width, padding ? fmt::format(", padding_idx={}", *padding) : "",
                             options.sparse ? ", sparse=True" : ""));
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
  check_size("nn::EmbeddingBag", "count", count, where);
  check_size("nn::EmbeddingBag", "width", width, where);
  if (options.max_norm && !(*options.max_norm >= 0)) {
    raise<ValueError>({.op = "nn::EmbeddingBag", .problem = mismatch_text("max_norm", "at least 0", *options.max_norm)},
                      where);
  }
  const std::optional<int64_t> padding = padding_row("nn::EmbeddingBag", options.padding_idx, count, where);
  weight = table(count, width, 1, padding, where);
  register_parameter("weight", weight);
  const std::string_view mode = bag_modes[static_cast<size_t>(options.mode)];
  set_config({{"num_embeddings", count},
              {"embedding_dim", width},
              {"max_norm", options.max_norm},
              {"norm_type", options.norm_type},
              {"mode", mode},
              {"include_last_offset", options.include_last_offset},
              {"padding_idx", padding},
              {"sparse", options.sparse}});
  set_extra_repr(fmt::format(
      "{}, {}, mode='{}'{}{}{}", count, width, mode, padding ? fmt::format(", padding_idx={}", *padding) : "",
      options.max_norm ? ", max_norm=" + python_float(*options.max_norm) : "", options.sparse ? ", sparse=True" : ""));
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
  if (affine) weight = ones(shape, {}, where);
  if (with_bias) bias = zeros(shape, {}, where);
  register_parameter("weight", weight);
  register_parameter("bias", bias);
  set_config({{"normalized_shape", shape}, {"eps", eps}, {"elementwise_affine", affine}, {"bias", with_bias}});
  set_extra_repr(fmt::format("{}, eps={}, elementwise_affine={}, bias={}", python_tuple(shape), python_float(eps),
                             python_bool(affine), python_bool(with_bias)));
}

Tensor LayerNorm::forward(const Tensor& x, Location where) const {
  return layer_norm(x, shape_, borrowed(weight, where), borrowed(bias, where), eps_, where);
}

RMSNorm::RMSNorm(const Dims& shape, std::optional<double> eps, bool affine, Location where) : shape_(shape), eps_(eps) {
  check_shape("nn::RMSNorm", shape, where);
  if (affine) weight = ones(shape, {}, where);
  register_parameter("weight", weight);
  set_config({{"normalized_shape", shape}, {"eps", eps}, {"elementwise_affine", affine}});
  set_extra_repr(fmt::format("{}, eps={}, elementwise_affine={}", python_tuple(shape),
                             eps ? python_float(*eps) : "None", python_bool(affine)));
}

Tensor RMSNorm::forward(const Tensor& x, Location where) const {
  return rms_norm(x, shape_, borrowed(weight, where), eps_, RmsCast::once, where);
}

}  // namespace weft::nn
