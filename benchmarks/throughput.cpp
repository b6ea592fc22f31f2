// Kernels on realistic sizes; names end with the size. Case names and work as in peers/torch/throughput.cpp.
#include <memory>

#include "case.hpp"

namespace weft::bench {

namespace {

constexpr Mode plain = Mode::no_grad;
constexpr Rate bytes = Rate::bytes;
constexpr Rate flops = Rate::flops;

void add_pointwise_cases(const std::string& size, int64_t n) {
  const Tensor a = randn({n}), b = randn({n}), o = empty({n});
  const double w = static_cast<double>(n);
  const auto name = [&](const char* op) { return "thr." + std::string(op) + "." + size; };
  add_case(
      name("add"), [=] { Tensor r = a + b; }, plain, 12 * w, bytes);
  add_case(
      name("add_out"), [=] { add_out(o, a, b); }, plain, 12 * w, bytes);
  add_case(
      name("add_inplace"), [=] { o.add_(b); }, plain, 12 * w, bytes);
  add_case(
      name("mul"), [=] { Tensor r = a * b; }, plain, 12 * w, bytes);
  add_case(
      name("exp"), [=] { Tensor r = exp(a); }, plain, 8 * w, bytes);
  add_case(
      name("exp_out"), [=] { exp_out(o, a); }, plain, 8 * w, bytes);
  add_case(
      name("gelu"), [=] { Tensor r = gelu(a); }, plain, 8 * w, bytes);
  add_case(
      name("tanh"), [=] { Tensor r = tanh(a); }, plain, 8 * w, bytes);
  add_case(
      name("tanh_out"), [=] { tanh_out(o, a); }, plain, 8 * w, bytes);
  add_case(
      name("sigmoid"), [=] { Tensor r = sigmoid(a); }, plain, 8 * w, bytes);
  add_case(
      name("clone"), [=] { Tensor r = a.clone(); }, plain, 8 * w, bytes);
  add_case(
      name("copy"), [=] { o.copy_(a); }, plain, 8 * w, bytes);
  add_case(
      name("sum_all"), [=] { Tensor r = a.sum(); }, plain, 4 * w, bytes);
  add_case(
      name("cumsum"), [=] { Tensor r = cumsum(a, 0); }, plain, 8 * w, bytes);
  add_case(
      name("to_bf16"), [=] { Tensor r = a.to(bf16); }, plain, 6 * w, bytes);
  add_case(
      name("gt_where"), [=] { Tensor r = where(a > 0, a, b); }, plain, 12 * w, bytes);
}

void add_matrix_cases() {
  const Tensor a = randn({2000, 2000}), b = randn({2000, 2000}), row = randn({2000}), col = randn({2000, 1});
  const Tensor o = empty({2000, 2000});
  const double n = 4e6;
  add_case(
      "thr.add_out.2000x2000", [=] { add_out(o, a, b); }, plain, 12 * n, bytes);
  add_case(
      "thr.add_t_out.2000x2000", [=, t = b.t()] { add_out(o, a, t); }, plain, 12 * n, bytes);
  add_case(
      "thr.contiguous_t.2000x2000", [=, t = b.t()] { o.copy_(t); }, plain, 8 * n, bytes);
  add_case(
      "thr.add_bcast_row_out.2000x2000", [=] { add_out(o, a, row); }, plain, 8 * n, bytes);
  add_case(
      "thr.add_bcast_col_out.2000x2000", [=] { add_out(o, a, col); }, plain, 8 * n, bytes);
  add_case(
      "thr.add_outer_out.2000x2000", [=] { add_out(o, col, row); }, plain, 4 * n, bytes);
  add_case(
      "thr.add_strided2_out.2000x1000", [o2 = empty({2000, 1000}), s = a.slice(1, 0, 2000, 2)] { add_out(o2, s, s); },
      plain, 4 * n, bytes);
  add_case(
      "thr.sum_dim0.2000x2000", [=] { Tensor r = a.sum(0); }, plain, 4 * n, bytes);
  add_case(
      "thr.sum_dim1.2000x2000", [=] { Tensor r = a.sum(1); }, plain, 4 * n, bytes);
  add_case(
      "thr.max_dim1.2000x2000", [=] { Tensor r = max(a, 1).values; }, plain, 4 * n, bytes);
  add_case(
      "thr.argmax_dim1.2000x2000", [=] { Tensor r = argmax(a, 1); }, plain, 4 * n, bytes);
  add_case(
      "thr.var_dim1.2000x2000", [=] { Tensor r = var(a, 1); }, plain, 4 * n, bytes);
  add_case(
      "thr.softmax.2000x2000", [=] { Tensor r = softmax(a, 1); }, plain, 8 * n, bytes);
  add_case(
      "thr.softmax_dim0.2000x2000", [=] { Tensor r = softmax(a, 0); }, plain, 8 * n, bytes);
  add_case(
      "thr.triu.2000x2000", [=] { Tensor r = triu(a); }, plain, 8 * n, bytes);
  add_case(
      "thr.cumsum_dim0.2000x2000", [=] { Tensor r = cumsum(a, 0); }, plain, 8 * n, bytes);
  add_case(
      "thr.cumsum_dim1.2000x2000", [=] { Tensor r = cumsum(a, 1); }, plain, 8 * n, bytes);
  const Tensor idx = randint(0, 2000, {2000, 2000});
  add_case(
      "thr.gather_dim1.2000x2000", [=] { Tensor r = gather(a, 1, idx); }, plain, 16 * n, bytes);
  add_case(
      "thr.gather_dim0.2000x2000", [=] { Tensor r = gather(a, 0, idx); }, plain, 16 * n, bytes);
  add_case(
      "thr.scatter_add_dim1.2000x2000", [=] { scatter_add_(o, 1, idx, a); }, plain, 16 * n, bytes);
  add_case(
      "thr.cat_dim1.2000x2000", [both = std::vector{a, b}] { Tensor r = cat(both, 1); }, plain, 16 * n, bytes);
}

void add_row_cases() {
  const Tensor x = randn({2048, 1024}), w = ones({1024}), b = zeros({1024});
  const double n = 2048.0 * 1024;
  add_case(
      "thr.layer_norm.2048x1024", [=] { Tensor r = layer_norm(x, {1024}, w, b); }, plain, 8 * n, bytes);
  add_case(
      "thr.rms_norm.2048x1024", [=] { Tensor r = rms_norm(x, {1024}, w, 1e-5); }, plain, 8 * n, bytes);
  const Tensor logits = randn({2048, 1000}), y = randint(0, 1000, {2048});
  add_case(
      "thr.cross_entropy.2048x1000", [=] { Tensor r = cross_entropy(logits, y); }, plain, 4 * 2048.0 * 1000, bytes);
}

void add_convolution_cases() {
  const auto add = [](const std::string& name, int64_t n, int64_t c, int64_t size, int64_t k, int64_t groups) {
    const Tensor x = randn({n, c, size, size}), w = randn({k, c / groups, 3, 3}), b = randn({k});
    const double work = 2.0 * static_cast<double>(n * size * size * c * k * 9 / groups);
    add_case(
        name, [=] { Tensor r = conv2d(x, w, b, {.padding = 1, .groups = groups}); }, plain, work, flops);
  };
  add("conv.3x3_fwd.8x64x56x64", 8, 64, 56, 64, 1);
  add("conv.3x3_fwd.8x128x28x128", 8, 128, 28, 128, 1);
  add("conv.3x3_fwd.8x256x14x256", 8, 256, 14, 256, 1);
  add("conv.3x3_fwd.8x3x64x32", 8, 3, 64, 32, 1);
  add("conv.depthwise_fwd.8x64x56", 8, 64, 56, 64, 64);
  const Tensor x = randn({8, 64, 56, 56}), w = ones({64}), b = zeros({64});
  const double n = static_cast<double>(x.numel());
  add_case(
      "conv.max_pool2_fwd.8x64x56", [=] { Tensor r = max_pool2d(x, 2); }, plain, 5 * n, bytes);
  add_case(
      "conv.batch_norm_fwd.8x64x56", [=] { Tensor r = batch_norm(x, {}, {}, w, b, {.training = true}); }, plain, 8 * n,
      bytes);
}

void add_index_cases() {
  const int64_t n = 1000000;
  const double w = 1e6;
  const Tensor a = randn({n}), mask = a > 0, idx = randint(0, n, {n}), small = randint(0, 1000, {n}), v = randn({n});
  const Tensor rare = rand({n}) < 0.01, o = zeros({n}), sums = zeros({1000});
  add_case(
      "thr.mask_select.1e6", [=] { Tensor r = a[mask]; }, plain, 7 * w, bytes);
  add_case(
      "thr.mask_select_1pct.1e6", [=] { Tensor r = a[rare]; }, plain, 5 * w, bytes);
  add_case(
      "thr.masked_select.1e6", [=] { Tensor r = masked_select(a, mask); }, plain, 7 * w, bytes);
  add_case(
      "thr.mask_set_scalar.1e6", [=] { o[mask] = 0.0; }, plain, 5 * w, bytes);
  add_case(
      "thr.masked_fill.1e6", [=] { Tensor r = masked_fill(a, mask, 0.0); }, plain, 9 * w, bytes);
  add_case(
      "thr.mask_rows.1e4x100", [m = rand({10000}) < 0.5, t = a.reshape({10000, 100})] { Tensor r = t[m]; }, plain,
      4 * w, bytes);
  add_case(
      "thr.nonzero.1e6", [=] { Tensor r = nonzero(mask); }, plain, 5 * w, bytes);
  add_case(
      "thr.bincount.1e6", [=] { Tensor r = bincount(small); }, plain, 8 * w, bytes);
  add_case(
      "thr.unique.1e6", [=] { Unique r = unique(small); }, plain, 8 * w, bytes);
  add_case(
      "thr.sort.1e6", [=] { ValuesAndIndices r = sort(a); }, plain, 16 * w, bytes);
  add_case(
      "thr.sort_int64.1e6", [=] { ValuesAndIndices r = sort(idx); }, plain, 24 * w, bytes);
  add_case(
      "thr.sort_rows.1000x1000", [t = a.reshape({1000, 1000})] { ValuesAndIndices r = sort(t, 1); }, plain, 16 * w,
      bytes);
  add_case(
      "thr.topk100.1e6", [=] { ValuesAndIndices r = topk(a, 100); }, plain, 4 * w, bytes);
  add_case(
      "thr.topk8.8192x128", [t = randn({8192, 128})] { ValuesAndIndices r = topk(t, 8, 1); }, plain, 4.0 * 8192 * 128,
      bytes);
  add_case(
      "thr.index_long.1e6", [=] { Tensor r = a[idx]; }, plain, 16 * w, bytes);
  add_case(
      "thr.index_select.1e6", [=] { Tensor r = index_select(a, 0, idx); }, plain, 16 * w, bytes);
  add_case(
      "thr.index_put.1e6", [=] { o.index_put_({idx}, v); }, plain, 16 * w, bytes);
  add_case(
      "thr.index_put_accumulate.1e6", [=] { o.index_put_({idx}, v, true); }, plain, 20 * w, bytes);
  add_case(
      "thr.index_add_1d.1e6", [=] { index_add_(sums, 0, small, v); }, plain, 12 * w, bytes);
  const Tensor table = randn({10000, 128}), rows = randint(0, 10000, {8192});
  const double m = 8192.0 * 128;
  add_case(
      "thr.embedding.8192x128", [=] { Tensor r = embedding(table, rows); }, plain, 8 * m, bytes);
  const Tensor lines = randn({8192, 128});
  add_case(
      "thr.index_rows.8192x128", [=] { Tensor r = table[rows]; }, plain, 8 * m, bytes);
  add_case(
      "thr.index_add_rows.8192x128", [=] { index_add_(table, 0, rows, lines); }, plain, 12 * m, bytes);
  add_case(
      "thr.index_put_accumulate_rows.8192x128", [=] { table.index_put_({rows}, lines, true); }, plain, 12 * m, bytes);
  add_case(
      "thr.dropout.1e6", [=] { Tensor r = dropout(a, 0.1, true); }, plain, 8 * w, bytes);
  add_case(
      "thr.randn.1e6", [=, o = empty({n})] { normal_(o); }, plain, 4 * w, bytes);
  add_case(
      "thr.rand.1e6", [=, o = empty({n})] { uniform_(o); }, plain, 4 * w, bytes);
}

void add_gemm_cases() {
  for (int64_t n : {16, 64, 256, 1024, 2048}) {
    const Tensor a = randn({n, n}), b = randn({n, n}), o = empty({n, n});
    const std::string size = std::to_string(n);
    const double work = 2.0 * static_cast<double>(n * n * n);
    add_case(
        "gemm.f32." + size, [=] { matmul_out(o, a, b); }, plain, work, flops);
    add_case(
        "gemm.f32_nt." + size, [=, t = b.t()] { matmul_out(o, a, t); }, plain, work, flops);
    if (n >= 64) {
      add_case(
          "gemm.bf16." + size, [ah = a.to(bf16), bh = b.to(bf16), oh = o.to(bf16)] { matmul_out(oh, ah, bh); }, plain,
          work, flops);
    }
    if (n == 1024) {
      add_case(
          "gemm.f64." + size, [ad = a.to(f64), bd = b.to(f64), od = o.to(f64)] { matmul_out(od, ad, bd); }, plain, work,
          flops);
    }
  }
  const Tensor a = randn({64, 128, 64}), b = randn({64, 64, 128}), o = empty({64, 128, 128});
  add_case(
      "gemm.bmm_f32.64x128x64x128", [=] { matmul_out(o, a, b); }, plain, 2.0 * 64 * 128 * 64 * 128, flops);
  const Tensor x = randn({64, 784}), w = randn({256, 784}), bias = randn({256});
  add_case(
      "gemm.linear_f32.64x784x256", [=] { Tensor r = linear(x, w, bias); }, plain, 2.0 * 64 * 784 * 256, flops);
  const Tensor v = randn({1024}), m = randn({1024, 1024});
  add_case(
      "gemm.mv_f32.1024", [=] { Tensor r = matmul(m, v); }, plain, 4.0 * 1024 * 1024, bytes);
}

void add_attention_cases() {
  const Tensor q = randn({4, 8, 512, 64}), k = randn({4, 8, 512, 64}), v = randn({4, 8, 512, 64});
  const double work = 4.0 * 4 * 8 * 512.0 * 512 * 64;
  add_case(
      "attn.fwd.4x8x512x64", [=] { Tensor r = scaled_dot_product_attention(q, k, v); }, plain, work, flops);
  add_case(
      "attn.causal_fwd.4x8x512x64", [=] { Tensor r = scaled_dot_product_attention(q, k, v, {.causal = true}); }, plain,
      work / 2, flops);
  const Tensor turned = randn({1, 4096, 8, 64});
  add_case(
      "attn.window_fwd.1x8x4096x64w256",
      [=] {
        Tensor r = attention(turned, turned, turned, {.causal = true, .window = {256, 0}});
      },
      plain, 4.0 * 8 * 4096 * 257 * 64, flops);
  const Tensor rows = randn({4096, 8, 64}), of = tensor({0, 2000, 2300, 2310, 3100, 3996, 4096});
  add_case(
      "attn.varlen_causal_fwd.4096x8x64",
      [=] { Tensor r = attention_varlen(rows, rows, rows, of, of, {.causal = true}); }, plain,
      2.0 * 8 * 64 * (2000.0 * 2000 + 300 * 300 + 790 * 790 + 896 * 896 + 100 * 100), flops);
}

/// One token attends to all cached ones: the cost is reading keys and values.
void add_decoding_cases() {
  const int64_t length = 8192, groups = 8, depth = 128;
  for (const DType dtype : {f32, bf16}) {
    const auto cache = std::make_shared<KvCache>(1, length, groups, depth, TensorOptions{dtype});
    const Tensor k = randn({1, length, groups, depth});
    cache->append(k, k);
    const auto pages = std::make_shared<PagedKvCache>(length / 16, 16, groups, depth, TensorOptions{dtype});
    const std::vector<int64_t> ids{pages->add_sequence()}, one{1}, all{length};
    pages->append(ids, k.squeeze(0), k.squeeze(0), all);
    const double read = 2.0 * length * groups * depth * static_cast<double>(itemsize(dtype));
    for (const int64_t heads : {groups, 4 * groups}) {
      const Tensor q = randn({1, 1, heads, depth}).to(dtype);
      const std::string size = "1x" + std::to_string(heads) + ":8x8192x128_" + name(dtype);
      add_case(
          "attn.decode." + size, [=] { Tensor r = attention(q, *cache); }, plain, read, bytes);
      add_case(
          "attn.decode_paged." + size, [=] { Tensor r = attention_varlen(q.squeeze(0), one, ids, *pages); }, plain,
          read, bytes);
    }
  }
}

// Forward and backward of a function of several leaves; the gradients are discarded each time.
template <class F>
void add_gradient_case(const std::string& name, std::vector<Tensor> leaves, F function, double work = 0,
                       Rate rate = Rate::none) {
  for (auto& leaf : leaves) leaf.requires_grad_();
  const Tensor seed = randn_like(function().detach());
  add_case(
      name,
      [=] {
        for (const auto& leaf : leaves) leaf.set_grad({});
        function().backward(seed);
      },
      Mode::recording, work, rate);
}

/// Dispatches tokens to 64 experts, 8 each, and combines them; a mixture of experts compared with a dense layer with
/// the same number of products.
void add_expert_cases() {
  const int64_t tokens = 4096, width = 1024, experts = 64, k = 8;
  const Tensor x = randn({tokens, width}), scores = softmax(randn({tokens, experts}), -1);
  const ValuesAndIndices best = topk(scores, k);
  const std::vector<int64_t> counts = bincount(best.indices.reshape({-1}), {}, experts).to_vector<int64_t>();
  const MoePermuteOut to = moe_permute(x, {}, best.indices, best.values, experts, counts, 1);
  const MoeGateDispatchOut gate = moe_gate_dispatch(x, scores, {}, k, tokens, false);
  const double rows = static_cast<double>(tokens * k * width);
  add_case(
      "thr.moe_permute.4096x1024e64k8", [=] { moe_permute(x, {}, best.indices, best.values, experts, counts, 1); },
      plain, 8 * rows, bytes);
  add_case(
      "thr.moe_unpermute.4096x1024e64k8",
      [=] { moe_unpermute(to.tokens, to.rowmap, best.indices, to.probs, tokens, experts); }, plain, 4 * rows, bytes);
  add_case(
      "thr.moe_gate_dispatch.4096x1024e64k8", [=] { moe_gate_dispatch(x, scores, {}, k, tokens, false); }, plain,
      8 * rows, bytes);
  add_case(
      "thr.moe_combine.4096x1024e64k8", [=] { moe_combine(gate.y, gate.weights, gate.scatter); }, plain, 4 * rows,
      bytes);
  const Tensor few = randn({2048, 512});
  const double products = 2.0 * 2048 * 4 * 512 * 256 * 3;
  add_case(
      "thr.moe_layer.2048x512e64k4", [=, moe = nn::MoE(512, 256, 64, {.top_k = 4})] { moe(few); }, plain, products,
      flops);
  add_case(
      "thr.moe_layer.2048x512e1k1", [=, moe = nn::MoE(512, 1024, 1, {.top_k = 1})] { moe(few); }, plain, products,
      flops);
}

/// A 4096 x 4096 linear layer by the number of bits of its weight, for one, eight and many tokens.
void add_low_precision_linear_cases() {
  const int64_t n = 4096;
  const Tensor w = randn({n, n}), wh = w.to(bf16);
  const QuantizedWeight eight = quantize_weight(w), four = quantize_weight(w, {.bits = 4});
  for (const int64_t rows : {1, 8, 256}) {
    const Tensor x = randn({rows, n}), xh = x.to(bf16);
    const auto add = [&](const std::string& what, double weight_bytes, auto body) {
      const std::string name = "gemm.linear_" + what + "." + std::to_string(rows) + "x4096x4096";
      const double elements = static_cast<double>(n * n), products = 2.0 * static_cast<double>(rows) * elements;
      add_case(name, body, plain, rows > 8 ? products : weight_bytes * elements, rows > 8 ? flops : bytes);
    };
    add("f32", 4, [=] { Tensor r = linear(x, w); });
    add("bf16", 2, [=] { Tensor r = linear(xh, wh); });
    add("int8", 1, [=] { Tensor r = quantized_linear(xh, eight.codes, eight.scale); });
    add("int4", 0.5, [=] { Tensor r = quantized_linear(xh, four.codes, four.scale, {.bits = 4}); });
  }
}

void add_fp8_cases() {
  const Tensor x = randn({4096, 2048}).to(bf16), y = empty({4096, 2048}, bf16);
  const double n = 4096.0 * 2048;
  const QuantOut rows = quant_blockwise(x), tiles = quant_blockwise(x, QuantBlock::tile_128x128);
  add_case(
      "thr.copy_bf16.4096x2048", [=] { y.copy_(x); }, plain, 4 * n, bytes);
  add_case(
      "thr.quant_rows.4096x2048", [=] { quant_blockwise(x); }, plain, 3 * n, bytes);
  add_case(
      "thr.quant_tiles.4096x2048", [=] { quant_blockwise(x, QuantBlock::tile_128x128); }, plain, 3 * n, bytes);
  add_case(
      "thr.quant_transpose.4096x2048", [=, t = x.t()] { quant_blockwise(t); }, plain, 3 * n, bytes);
  add_case(
      "thr.dequant_rows.4096x2048", [=] { Tensor r = dequant_blockwise(rows.q, rows.scale); }, plain, 3 * n, bytes);
  add_case(
      "thr.requant_transpose.4096x2048", [=] { fused_act_dequant_transpose_act_quant(rows.q, rows.scale); }, plain,
      2 * n, bytes);
  add_case(
      "thr.swiglu_quant.4096x1024", [=] { fused_weighted_swiglu_act_quant(x); }, plain, 2.5 * n, bytes);
  for (const int64_t size : {1024, 2048}) {
    const Tensor a = randn({size, size}), b = randn({size, size});
    const QuantOut qa = quant_blockwise(a), qb = quant_blockwise(b, QuantBlock::tile_128x128);
    add_case(
        "gemm.fp8." + std::to_string(size), [=] { Tensor r = gemm_fp8_blockwise(qa.q, qa.scale, qb.q, qb.scale); },
        plain, 2.0 * static_cast<double>(size * size * size), flops);
  }
}

}  // namespace

void add_throughput_cases() {
  add_pointwise_cases("1e3", 1000);
  add_pointwise_cases("1e5", 100000);
  add_pointwise_cases("1e7", 10000000);
  add_matrix_cases();
  add_row_cases();
  add_index_cases();
  add_gemm_cases();
  add_convolution_cases();
  add_attention_cases();
  add_decoding_cases();
  add_expert_cases();
  add_low_precision_linear_cases();
  add_fp8_cases();
}

void add_gradient_cases() {
  const Tensor a = randn({1000000}), b = randn({1000000}), mat = randn({1000, 1000}), bias = randn({1000});
  add_gradient_case("grad.mul.1e6", {a, b}, [=] { return a * b; });
  add_gradient_case("grad.add_bcast_row.1000x1000", {mat, bias}, [=] { return mat + bias; });
  const Tensor c = randn({1000000});
  add_gradient_case("grad.gelu.1e6", {c}, [=] { return gelu(c); });
  const Tensor d = randn({1000000}), mask = rand({1000000}) < 0.5;
  add_gradient_case("grad.mask_select.1e6", {d}, [=] { return Tensor(d[mask]); });
  const Tensor x = randn({2048, 1024}), w = ones({1024}), bb = zeros({1024});
  add_gradient_case("grad.layer_norm.2048x1024", {x, w, bb}, [=] { return layer_norm(x, {1024}, w, bb); });
  const Tensor x2 = randn({2048, 1024}), w2 = ones({1024});
  add_gradient_case("grad.rms_norm.2048x1024", {x2, w2}, [=] { return rms_norm(x2, {1024}, w2, 1e-5); });
  const Tensor x3 = randn({2048, 1024});
  add_gradient_case("grad.softmax.2048x1024", {x3}, [=] { return softmax(x3, 1); });
  const Tensor y = randint(0, 1000, {2048}), logits = randn({2048, 1000});
  add_gradient_case("grad.cross_entropy.2048x1000", {logits}, [=] { return cross_entropy(logits, y); });
  const Tensor table = randn({10000, 128}), rows = randint(0, 10000, {8192});
  add_gradient_case("grad.embedding.8192x128", {table}, [=] { return embedding(table, rows); });
  const Tensor table2 = randn({10000, 128});
  add_gradient_case("grad.index_rows.8192x128", {table2}, [=] { return Tensor(table2[rows]); });
  const Tensor l = randn({512, 512}), r = randn({512, 512});
  add_gradient_case(
      "grad.matmul.512", {l, r}, [=] { return matmul(l, r); }, 6.0 * 512 * 512 * 512, flops);
  const auto add_convolution = [](const std::string& name, const Dims& image, const Dims& kernel) {
    const Tensor x = randn(image), w = randn(kernel), b = randn({kernel[0]});
    const double work = 6.0 * static_cast<double>(image[0] * image[2] * image[3] * kernel.product());
    add_gradient_case(
        name, {x, w, b}, [=] { return conv2d(x, w, b, {.padding = w.size(2) / 2}); }, work, flops);
  };
  add_convolution("grad.conv_3x3.8x64x56x64", {8, 64, 56, 56}, {64, 64, 3, 3});
  add_convolution("grad.conv_5x5.64x1x28x6", {64, 1, 28, 28}, {6, 1, 5, 5});
  add_convolution("grad.conv_5x5.64x6x14x16", {64, 6, 14, 14}, {16, 6, 5, 5});
  add_convolution("grad.conv_3x3.16x8x32x8", {16, 8, 32, 32}, {8, 8, 3, 3});
  add_convolution("grad.conv_3x3.16x64x28x3", {16, 64, 28, 28}, {3, 64, 3, 3});
  const Tensor q = randn({4, 8, 512, 64}), k = randn({4, 8, 512, 64}), v = randn({4, 8, 512, 64});
  add_gradient_case(
      "grad.attn.4x8x512x64", {q, k, v}, [=] { return scaled_dot_product_attention(q, k, v); },
      14.0 * 4 * 8 * 512.0 * 512 * 64, flops);
}

}  // namespace weft::bench
