// Fused layers compared with their composed ops: `fused.X` and `composed.X` compute the same. Operands are created when
// a case first runs.
#include <memory>
#include <optional>

#include "case.hpp"

namespace weft::bench {

namespace {

/// Registers both cases; `make` returns the operands of the two functions.
template <class Make, class Fused, class Composed>
void add_pair(const std::string& name, Make make, Fused fused, Composed composed, double work, Rate rate) {
  using Inputs = decltype(make());
  const auto inputs = std::make_shared<std::optional<Inputs>>();
  const auto with = [=](auto f) {
    return [=] {
      if (!*inputs) *inputs = make();
      f(**inputs);
    };
  };
  add_case("fused." + name, with(fused), Mode::no_grad, work, rate);
  add_case("composed." + name, with(composed), Mode::no_grad, work, rate);
}

struct Text {
  DType dtype;
  int64_t tokens, width;
  std::string name() const {
    return std::string(weft::name(dtype)) + ".t" + std::to_string(tokens) + "h" + std::to_string(width);
  }
  Tensor random(const Dims& shape) const { return (randn(shape) * 0.05).to(dtype); }
};

std::vector<Text> texts() {
  std::vector<Text> all;
  for (const DType dtype : {f32, bf16, f16}) {
    for (const int64_t width : {1024, 2048, 4096}) {
      for (const int64_t tokens : {1, 4, 8, 512}) {
        if (width < 4096 || tokens < 512) all.push_back({dtype, tokens, width});
      }
    }
  }
  return all;
}

struct MlpInputs {
  Tensor x, norm, proj, down, residual;
};

Tensor composed_mlp(const Tensor& x, const Tensor& proj, const Tensor& down) {
  const int64_t f = proj.size(0) / 2;
  return linear(silu(linear(x, proj.narrow(0, 0, f))) * linear(x, proj.narrow(0, f, f)), down);
}

void add_mlp_cases(const Text& t) {
  const int64_t f = t.width * 8 / 3 / 64 * 64;
  const auto make = [=] {
    return MlpInputs{t.random({t.tokens, t.width}), ones({t.width}, t.dtype), t.random({2 * f, t.width}),
                     t.random({t.width, f}), t.random({t.tokens, t.width})};
  };
  const double work = 6.0 * static_cast<double>(t.tokens * t.width * f);
  add_pair(
      "mlp." + t.name(), make, [](const MlpInputs& in) { fused_mlp(in.x, in.proj, {}, in.down, true); },
      [](const MlpInputs& in) { composed_mlp(in.x, in.proj, in.down); }, work, Rate::flops);
  add_pair(
      "rms_mlp_res." + t.name(), make,
      [](const MlpInputs& in) { fused_rms_mlp_res(in.x, in.norm, in.proj, in.down, in.residual, 1e-5, true); },
      [](const MlpInputs& in) {
        const Tensor sum = in.x + in.residual;
        composed_mlp(rms_norm(sum, {sum.size(1)}, in.norm, 1e-5), in.proj, in.down);
      },
      work, Rate::flops);
}

struct QkvInputs {
  Tensor src, norm, weight, rope;
};

/// x cos + (-x2, x1) sin, as model code typically computes it.
Tensor composed_rotation(const Tensor& x, const Tensor& rope) {
  const int64_t half = x.size(-1) / 2;
  const Tensor turned = cat({-x.narrow(-1, half, half), x.narrow(-1, 0, half)}, -1);
  return (x * rope.select(0, 0) + turned * rope.select(0, 1)).to(x.dtype());
}

void add_qkv_cases(const Text& t) {
  constexpr int64_t size = 128;
  const int64_t heads = t.width / size, kv_heads = heads / 4, rows = (heads + 2 * kv_heads) * size;
  const auto make = [=] {
    return QkvInputs{t.random({1, t.tokens, t.width}), ones({t.width}, t.dtype), t.random({rows, t.width}),
                     rope_table(arange(0, t.tokens, 1, i64), size).to(t.dtype)};
  };
  add_pair(
      "qkv." + t.name(), make,
      [=](const QkvInputs& in) { fused_rms_qkv_rope(in.src, in.norm, in.weight, in.rope, 1e-5, size, heads); },
      [=](const QkvInputs& in) {
        const Tensor all = linear(rms_norm(in.src, {in.src.size(2)}, in.norm, 1e-5), in.weight)
                               .reshape({1, t.tokens, heads + 2 * kv_heads, size});
        composed_rotation(all.narrow(2, 0, heads), in.rope);
        composed_rotation(all.narrow(2, heads, kv_heads), in.rope);
        all.narrow(2, heads + kv_heads, kv_heads).contiguous();
      },
      2.0 * static_cast<double>(t.tokens * t.width * rows), Rate::flops);
}

void add_row_cases(const Text& t) {
  const auto make = [=] {
    return MlpInputs{t.random({t.tokens, t.width}), ones({t.width}, t.dtype), {}, {}, t.random({t.tokens, t.width})};
  };
  const auto bytes = static_cast<double>(4 * t.tokens * t.width * itemsize(t.dtype));
  add_pair(
      "rms_norm_residual." + t.name(), make,
      [](const MlpInputs& in) { fused_rms_norm_residual(in.x, in.residual, {}, in.norm, 1e-5); },
      [](const MlpInputs& in) { rms_norm(in.x + in.residual, {in.x.size(1)}, in.norm, 1e-5); }, bytes, Rate::bytes);
  const auto make_heads = [=] {
    return QkvInputs{
        t.random({1, t.tokens, t.width / 128, 128}), {}, {}, rope_table(arange(0, t.tokens, 1, i64), 128).to(t.dtype)};
  };
  add_pair(
      "rotary." + t.name(), make_heads, [](const QkvInputs& in) { rotary_embedding(in.src, in.rope); },
      [](const QkvInputs& in) { composed_rotation(in.src, in.rope); }, bytes / 2, Rate::bytes);
}

void add_linear_cases(const Text& t) {
  const auto make = [=] {
    return MlpInputs{t.random({t.tokens, t.width}), t.random({4 * t.width}), t.random({4 * t.width, t.width}), {}, {}};
  };
  add_pair(
      "linear_gelu." + t.name(), make, [](const MlpInputs& in) { linear(in.x, in.proj, in.norm, Activation::gelu); },
      [](const MlpInputs& in) { gelu(linear(in.x, in.proj, in.norm)); },
      8.0 * static_cast<double>(t.tokens * t.width * t.width), Rate::flops);
}

struct MoeInputs {
  Tensor h, routing, weights;
  std::vector<Tensor> gate_up, down;
};

/// Each expert selects its tokens by index_select, and adds its results by index_add.
Tensor composed_experts(const MoeInputs& in) {
  const Tensor out = zeros(in.h.sizes(), f32);
  for (size_t e = 0; e < in.down.size(); ++e) {
    const Tensor found = nonzero(in.routing == static_cast<int64_t>(e));
    if (found.size(0) == 0) continue;
    const Tensor token = found.select(1, 0),
                 factor = in.weights.reshape({-1}).index_select(0, token * in.routing.size(1) + found.select(1, 1));
    const Tensor x = index_select(in.h, 0, token);
    const int64_t f = in.down[e].size(0);
    const Tensor gate = matmul(x, in.gate_up[e].narrow(1, 0, f)), up = matmul(x, in.gate_up[e].narrow(1, f, f));
    const Tensor y = matmul(silu(gate) * up, in.down[e]);
    out.index_add_(0, token, y.to(f32) * factor.unsqueeze(1));
  }
  return out.to(in.h.dtype());
}

void add_moe_cases(DType dtype, int64_t tokens, int64_t experts, int64_t k) {
  constexpr int64_t width = 1024, f = 512;
  const Text t{dtype, tokens, width};
  const auto make = [=] {
    const Tensor scores = softmax(randn({tokens, experts}), -1);
    const ValuesAndIndices best = topk(scores, k);
    MoeInputs in{t.random({tokens, width}), best.indices, best.values, {}, {}};
    for (int64_t e = 0; e < experts; ++e) {
      in.gate_up.push_back(t.random({width, 2 * f}));
      in.down.push_back(t.random({f, width}));
    }
    return in;
  };
  add_pair(
      "moe." + t.name() + "e" + std::to_string(experts) + "k" + std::to_string(k), make,
      [](const MoeInputs& in) { mixture_of_experts(in.h, in.routing, in.weights, in.gate_up, in.down); },
      [](const MoeInputs& in) { composed_experts(in); }, 6.0 * static_cast<double>(tokens * k * width * f),
      Rate::flops);
}

}  // namespace

void add_fused_cases() {
  for (const Text& t : texts()) {
    add_mlp_cases(t);
    add_qkv_cases(t);
    add_row_cases(t);
    add_linear_cases(t);
  }
  for (const DType dtype : {f32, bf16}) {
    for (const int64_t tokens : {1, 8, 512}) {
      for (const int64_t experts : {8, 64, 256}) add_moe_cases(dtype, tokens, experts, 2);
    }
  }
}

}  // namespace weft::bench
