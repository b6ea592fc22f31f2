#include <fmt/format.h>

#include "../../tensor/index.hpp"
#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/common.hpp"
#include "../fused.hpp"
#include "../join.hpp"
#include "../matmul.hpp"
#include "../norm.hpp"
#include "../pointwise.hpp"
#include "../rotary.hpp"
#include "rotate-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

enum class QkvLayout : uint8_t { plain, transposed, stacked };

struct Heads {
  int64_t all, kv_heads, size;
  bool interleaved;
};

Heads check_qkv(const Tensor& src, const Tensor& weight, const Tensor& rope, int64_t size, int64_t all,
                bool interleaved) {
  check_floating(checked(src));
  check_floating(checked(weight));
  check_same_device({&src, &weight});
  expect_one_dtype("src and qkv_weight", src, weight, "convert one with to(dtype)");
  expect_shape("src", src, src.dim() == 3, "[B, S, H]");
  if (size <= 0 || size % 2 != 0 || all <= 0) {
    raise<ValueError>({.problem = fmt::format("{} heads of {} features, which are rotated by pairs", all, size)});
  }
  const bool is_matrix = weight.dim() == 2 && weight.size(1) == src.size(2);
  const int64_t heads = is_matrix && weight.size(0) % size == 0 ? weight.size(0) / size : 0, others = heads - all;
  if (others < 2 || others % 2 != 0 || all % (others / 2) != 0) {
    raise<ShapeError>({.problem = fmt::format("a qkv_weight {} has no {} heads of {} features for q and as many for k "
                                              "as for v",
                                              weight.shape().text(), all, size),
                       .remedy = "it is [(heads + 2 fewer) head_dim, H], and heads a multiple of fewer"});
  }
  check_floating(checked(rope));
  check_same_device({&src, &rope});
  bool fits = rope.dim() == 5 && rope.size(0) == 2 && rope.size(3) == 1 && rope.size(4) == size;
  for (int d = 1; fits && d < 3; ++d) fits = rope.size(d) == 1 || rope.size(d) == src.size(d - 1);
  expect_shape("rope", rope, fits, "[2, {}, {}, 1, {}]", src.size(0), src.size(1), size);
  return {all, others / 2, size, interleaved};
}

/// q, k and v as [B, S, heads, size], whatever their memory is like.
struct Parts {
  Tensor q, k, v;
};

Tensor swapped(const Tensor& t) { return t.transpose(1, 2); }

/// The results: tensors in the layout, and views of them as [B, S, heads, size].
struct Target {
  std::vector<Tensor> results;
  Parts views;
};

Target target_for(const Tensor& src, const Heads& h, QkvLayout layout) {
  const int64_t b = src.size(0), s = src.size(1);
  const auto fresh = [&](const Dims& shape) { return make(shape, src.dtype(), src.device()); };
  if (layout == QkvLayout::transposed) {
    const Tensor q = fresh({b, h.all, s, h.size}), k = fresh({b, h.kv_heads, s, h.size}), v = make_like(k);
    return {{q, k, v}, {swapped(q), swapped(k), swapped(v)}};
  }
  const Tensor q = fresh({b, s, h.all, h.size});
  if (layout == QkvLayout::stacked) {
    const Tensor kv = fresh({2, b, s, h.kv_heads, h.size});
    return {{q, kv}, {q, kv.select(0, 0), kv.select(0, 1)}};
  }
  const Tensor k = fresh({b, s, h.kv_heads, h.size}), v = make_like(k);
  return {{q, k, v}, {q, k, v}};
}

/// Recorded parts in the layout.
std::vector<Tensor> laid_out(const Parts& p, QkvLayout layout) {
  if (layout == QkvLayout::stacked) return {p.q, stack({p.k, p.v})};
  if (layout == QkvLayout::plain) return {p.q, p.k, p.v};
  return {swapped(p.q).contiguous(), swapped(p.k).contiguous(), swapped(p.v).contiguous()};
}

/// By public ops, recorded.
Parts projected_by_ops(const Tensor& x, const Tensor& weight, const Tensor& rope, const Heads& h) {
  const Tensor all = linear(x, weight).reshape({x.size(0), x.size(1), h.all + 2 * h.kv_heads, h.size});
  return {rotate(all.narrow(2, 0, h.all), rope, h.interleaved, false),
          rotate(all.narrow(2, h.all, h.kv_heads), rope, h.interleaved, false),
          all.narrow(2, h.all + h.kv_heads, h.kv_heads).contiguous()};
}

/// Rotations back, then linear's gradients: by public ops, to any order.
struct ProjectedBackward {
  Saved x, weight, rope;
  Heads heads;
  QkvLayout layout;

  /// The gradient of a part, zeros where there is none: [B, S, heads, size].
  Tensor part(const Tensor& g, int64_t count, const Tensor& like) const {
    if (g.defined()) return g;
    return zeros({like.size(0), like.size(1), count, heads.size}, {like.dtype(), like.device()});
  }
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor& in = x.get(self);
    Tensor q = incoming[0], k, v;
    if (layout == QkvLayout::stacked) {
      if (incoming[1].defined()) k = incoming[1].select(0, 0), v = incoming[1].select(0, 1);
    } else {
      k = incoming[1], v = incoming[2];
    }
    if (layout == QkvLayout::transposed) {
      for (Tensor* t : {&q, &k, &v}) *t = t->defined() ? swapped(*t) : *t;
    }
    const Tensor waves = rope.get(self);
    const Tensor g =
        cat({rotate(part(q, heads.all, in), waves, heads.interleaved, true),
             rotate(part(k, heads.kv_heads, in), waves, heads.interleaved, true), part(v, heads.kv_heads, in)},
            2)
            .reshape({in.size(0) * in.size(1), (heads.all + 2 * heads.kv_heads) * heads.size});
    if (self.wants(0)) outgoing[0] = matmul(g, weight.get(self)).reshape(in.shape());
    if (self.wants(1)) outgoing[1] = matmul(g.t(), in.reshape({g.size(0), in.size(2)}));
  }
};

/// cos or sin as [B, S, size].
View wave(const Tensor& rope, int64_t i, const Tensor& x) {
  return broadcast_view(rope.select(0, i).squeeze(2).raw_view(), Dims{x.size(0), x.size(1), rope.size(-1)});
}

std::vector<Tensor> projected(const Tensor& x, const Tensor& weight, const Tensor& rope, const Heads& h,
                              QkvLayout layout) {
  const auto kernel = kernels(x.raw_view()).rotated_products;
  if (autocasting() || should_record(rope) || kernel == nullptr || x.size(2) == 0) {
    return laid_out(projected_by_ops(x, weight, rope, h), layout);
  }
  Target to;
  {
    const NoGradGuard unrecorded;
    const bool mixed = (rope.dtype() == DType::f64) != (x.dtype() == DType::f64);
    const Tensor waves = mixed ? rope.to(compute_type(x.dtype())) : rope;
    to = target_for(x, h, layout);
    const Tensor rows = x.reshape({x.size(0) * x.size(1), x.size(2)}), w = weight.t();
    kernel(to.views.q.raw_view(), to.views.k.raw_view(), to.views.v.raw_view(), rows.raw_view(), w.raw_view(),
           wave(waves, 0, x), wave(waves, 1, x), h.interleaved);
  }
  if (should_record(x, weight)) {
    const Tensor inputs[] = {x, weight};
    ProjectedBackward backward{Saved(x), Saved(weight), Saved(rope), h, layout};
    GeneralNode* const node = make_general_node(inputs, static_cast<int>(to.results.size()), std::move(backward));
    for (size_t i = 0; i < to.results.size(); ++i) {
      if (i > 0) node->refs.increment();
      set_history(to.results[i].impl(), node, static_cast<uint16_t>(i));
    }
  }
  return std::move(to.results);
}

std::vector<Tensor> qkv(const Tensor& src, const Tensor& ln_weight, const Tensor& qkv_weight, const Tensor& rope,
                        double eps, int64_t head_dim, int64_t num_heads, bool interleaved, QkvLayout layout) {
  const Heads heads = check_qkv(src, qkv_weight, rope, head_dim, num_heads, interleaved);
  return projected(rms_norm(src, {src.size(2)}, ln_weight, eps), qkv_weight, rope, heads, layout);
}

}  // namespace

std::tuple<Tensor, Tensor, Tensor> fused_rms_qkv_rope(const Tensor& src, const Tensor& ln_weight,
                                                      const Tensor& qkv_weight, const Tensor& rope, double eps,
                                                      int64_t head_dim, int64_t num_heads, bool interleaved,
                                                      Location where) {
  const CallScope call("fused_rms_qkv_rope", where);
  std::vector<Tensor> out =
      qkv(src, ln_weight, qkv_weight, rope, eps, head_dim, num_heads, interleaved, QkvLayout::plain);
  return {out[0], out[1], out[2]};
}

std::tuple<Tensor, Tensor, Tensor> fused_rms_qkv_rope_transposed(const Tensor& src, const Tensor& ln_weight,
                                                                 const Tensor& qkv_weight, const Tensor& rope,
                                                                 double eps, int64_t head_dim, int64_t num_heads,
                                                                 bool interleaved, Location where) {
  const CallScope call("fused_rms_qkv_rope_transposed", where);
  std::vector<Tensor> out =
      qkv(src, ln_weight, qkv_weight, rope, eps, head_dim, num_heads, interleaved, QkvLayout::transposed);
  return {out[0], out[1], out[2]};
}

std::tuple<Tensor, Tensor> fused_rms_qkv_rope_stacked(const Tensor& src, const Tensor& ln_weight,
                                                      const Tensor& qkv_weight, const Tensor& rope, double eps,
                                                      int64_t head_dim, int64_t num_heads, bool interleaved,
                                                      Location where) {
  const CallScope call("fused_rms_qkv_rope_stacked", where);
  std::vector<Tensor> out =
      qkv(src, ln_weight, qkv_weight, rope, eps, head_dim, num_heads, interleaved, QkvLayout::stacked);
  return {out[0], out[1]};
}

}  // namespace weft
