#include "../multi_transformer.hpp"

#include <numeric>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../create.hpp"
#include "../detail/common.hpp"
#include "../detail/rope_lengths.hpp"
#include "../fused.hpp"
#include "../index.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "mlp-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

/// Which places of x are tokens, row by row.
struct Batch {
  std::vector<int64_t> counts, places;
  Tensor rope;
};

void check_weight(const char* what, int64_t layer, const Tensor& x, const Tensor& t, const Dims& shape) {
  check_floating(checked(t));
  check_same_device({&x, &t});
  if (t.dtype() != x.dtype()) {
    raise_dtype(fmt::format("{} of layer {}", what, layer), x.dtype(), t.dtype(), "convert one with to(dtype)");
  }
  if (t.shape() == shape) return;
  raise_shape(fmt::format("{} of layer {}", what, layer), shape, t);
}

void check_layer(const Tensor& x, const MultiTransformerLayer& w, int64_t layer, int64_t kv_heads,
                 const MultiTransformerOptions& o) {
  const int64_t width = x.size(2), all = o.num_heads * o.head_dim;
  check_weight("ln_weight", layer, x, w.ln_weight, {width});
  check_weight("qkv_weight", layer, x, w.qkv_weight, {all + 2 * kv_heads * o.head_dim, width});
  check_weight("out_weight", layer, x, w.out_weight, o.transposed_weights ? Dims{width, all} : Dims{all, width});
  check_weight("mlp_ln_weight", layer, x, w.mlp_ln_weight, {width});
  check_mlp(x, w.proj, {}, w.down, o.transposed_weights);
  const int64_t hidden = w.down.size(o.transposed_weights ? 1 : 0);
  check_weight("down", layer, x, w.down, o.transposed_weights ? Dims{width, hidden} : Dims{hidden, width});
  if (should_record(w.ln_weight, w.qkv_weight, w.out_weight, w.mlp_ln_weight, w.proj, w.down)) {
    raise<ValueError>({.problem = "no gradient passes through a cache, and a weight requires one",
                       .remedy = "call it under a NoGradGuard"});
  }
}

void check_cache(const Tensor& x, const LayeredKvCache& cache, int64_t layers, const MultiTransformerOptions& o) {
  if (cache.layers() != layers) {
    raise<ValueError>({.problem = fmt::format("{} layers of weights, and {} of the cache", layers, cache.layers())});
  }
  const Tensor& first = cache.layer(0).k();
  for (int64_t i = 0; i < layers; ++i) {
    const KvCache& own = cache.layer(i);
    check_same_device({&x, &own.k()});
    if (own.k().size(0) != x.size(0) || own.k().size(3) != o.head_dim || own.v().size(3) != o.head_dim ||
        own.k().size(2) != first.size(2)) {
      raise_shape(fmt::format("cache of layer {}", i), fmt::format("[{}, capacity, heads, {}]", x.size(0), o.head_dim),
                  own.k());
    }
    if (own.lengths() != cache.lengths()) {
      raise<ValueError>({.problem = fmt::format("layer {} of the cache has read other tokens than layer 0", i)});
    }
  }
}

std::vector<int64_t> checked_counts(const Tensor& x, const LayeredKvCache& cache, std::vector<int64_t> counts) {
  const int64_t rows = x.size(0), length = x.size(1);
  if (counts.empty()) counts.assign(static_cast<size_t>(rows), length);
  if (std::ssize(counts) != rows) {
    raise<ValueError>({.problem = fmt::format("{} counts for {} rows", counts.size(), rows)});
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] < 0 || counts[i] > length) {
      raise<ValueError>({.problem = fmt::format("row {} has {} tokens in {} places", i, counts[i], length)});
    }
    for (int64_t layer = 0; layer < cache.layers(); ++layer) {
      const KvCache& own = cache.layer(layer);
      if (counts[i] <= own.capacity() - own.lengths()[i]) continue;
      raise<IndexError>({.problem = fmt::format("sequence {} has {} tokens of at most {}, and no room for {} more", i,
                                                own.lengths()[i], own.capacity(), counts[i])});
    }
  }
  return counts;
}

void check_call(const Tensor& x, std::span<const MultiTransformerLayer> layers, const LayeredKvCache& cache,
                const MultiTransformerOptions& o) {
  check_floating(checked(x));
  expect_shape("x", x, x.dim() == 3, "[B, S, H]");
  if (should_record(x)) {
    raise<ValueError>({.problem = "no gradient passes through a cache, and x requires one",
                       .remedy = "call it under a NoGradGuard, or with x.detach()"});
  }
  check_cache(x, cache, std::ssize(layers), o);
  const int64_t kv_heads = cache.layer(0).k().size(2);
  if (o.num_heads < 1 || o.head_dim < 2 || o.head_dim % 2 != 0 || kv_heads < 1 || o.num_heads % kv_heads != 0) {
    raise<ValueError>(
        {.problem = fmt::format("{} heads of {} features over a cache of {} heads", o.num_heads, o.head_dim, kv_heads),
         .remedy = "heads are a multiple of the cache's, of an even number of features"});
  }
  for (size_t i = 0; i < layers.size(); ++i) check_layer(x, layers[i], static_cast<int64_t>(i), kv_heads, o);
  if (!o.positions.defined()) return;
  if (is_floating(o.positions.dtype()) || o.positions.dtype() == DType::boolean) {
    raise_dtype("positions", "integers", o.positions.dtype());
  }
  expect_shape("positions", o.positions, {x.size(0), x.size(1)});
}

Batch batch_of(const Tensor& x, const LayeredKvCache& cache, const MultiTransformerOptions& o) {
  Batch out{checked_counts(x, cache, o.counts), {}, {}};
  std::vector<int64_t> positions;
  const int64_t length = x.size(1);
  for (size_t row = 0; row < out.counts.size(); ++row) {
    for (int64_t i = 0; i < out.counts[row]; ++i) {
      out.places.push_back((static_cast<int64_t>(row) + 1) * length - out.counts[row] + i);
      positions.push_back(cache.lengths()[row] + i);
    }
  }
  const Tensor own = o.positions.defined() ? index_select(o.positions.to(Device()).to(DType::i64).flatten(), 0,
                                                          tensor(out.places, {DType::i64}))
                                           : tensor(positions, {DType::i64});
  const DType dtype = x.dtype() == DType::f64 ? DType::f64 : DType::f32;
  const std::vector<int64_t> lengths = rope_lengths(own.to_vector<int64_t>(), out.counts, cache.lengths());
  out.rope = rope_table_of_lengths(own.unsqueeze(0), lengths, o.head_dim, o.rope, o.interleaved, dtype).to(x.device());
  return out;
}

/// Removes appended keys and values unless the call completes.
class Rollback {
 public:
  explicit Rollback(LayeredKvCache& cache) : cache_(cache), lengths_(cache.lengths()) {}
  Rollback(const Rollback&) = delete;
  Rollback& operator=(const Rollback&) = delete;
  ~Rollback() {
    if (!is_over) cache_.truncate(lengths_);
  }
  bool is_over = false;

 private:
  LayeredKvCache& cache_;
  const std::vector<int64_t> lengths_;
};

Tensor summed(const Tensor& part, bool in_parts, const MultiTransformerOptions& o) {
  if (!in_parts || !o.all_reduce) return part;
  Tensor all;
  {
    const OutsideCalls users;
    all = o.all_reduce(part);
  }
  if (checked(all).shape() != part.shape() || all.dtype() != part.dtype()) {
    raise<ValueError>({.problem = fmt::format("all_reduce of {} gave {}", describe(part), describe(all))});
  }
  return all;
}

/// h [1, tokens, H].
Tensor layer_of(const Tensor& h, const MultiTransformerLayer& w, KvCache& cache, const Batch& batch,
                const MultiTransformerOptions& o) {
  const auto [q, k, v] =
      fused_rms_qkv_rope(h, w.ln_weight, w.qkv_weight, batch.rope, o.eps, o.head_dim, o.num_heads, o.interleaved);
  cache.append(k.squeeze(0), v.squeeze(0), batch.counts);
  const Tensor mixed =
      attention_varlen(q.squeeze(0), batch.counts, cache, {.scale = o.scale, .window = o.window}).flatten(1, 2);
  const Tensor out = o.transposed_weights ? linear(mixed, w.out_weight) : matmul(mixed, w.out_weight);
  const Tensor attended = summed(out.to(h.dtype()), true, o).unsqueeze(0);
  const auto [mlp, sum] = fused_rms_mlp_res(attended, w.mlp_ln_weight, w.proj, w.down, h, o.eps, o.transposed_weights);
  return sum + summed(mlp.to(h.dtype()).squeeze(0), o.mlp_in_parts, o).unsqueeze(0);
}

}  // namespace

// No record: a schema has neither lists of structs nor a cache that is written to.
Tensor fused_multi_transformer(const Tensor& x, std::span<const MultiTransformerLayer> layers, LayeredKvCache& cache,
                               const MultiTransformerOptions& options, Location where) {
  const CallScope call("fused_multi_transformer", where);
  check_call(x, layers, cache, options);
  const NoGradGuard unrecorded;
  const Batch batch = batch_of(x, cache, options);
  const int64_t rows = x.size(0) * x.size(1), width = x.size(2);
  const bool all = std::ssize(batch.places) == rows;
  const Tensor places = all ? Tensor() : tensor(batch.places, {DType::i64}).to(x.device());
  const Tensor flat = x.reshape({rows, width});
  Tensor h = (all ? flat : index_select(flat, 0, places)).unsqueeze(0);
  Rollback rollback(cache);
  for (size_t i = 0; i < layers.size(); ++i) {
    h = layer_of(h, layers[i], cache.layer(static_cast<int64_t>(i)), batch, options);
  }
  if (all) h = h.reshape(x.shape());
  else h = index_copy(zeros({rows, width}, {x.dtype(), x.device()}), 0, places, h.squeeze(0)).reshape(x.shape());
  rollback.is_over = true;
  return h;
}

}  // namespace weft
