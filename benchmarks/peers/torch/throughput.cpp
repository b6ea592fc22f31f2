// Throughput of kernels. Names end with the size. `work` is bytes (GB/s: compulsory reads + writes) or flops (GFLOP/s).
#include <torch/torch.h>
#include "bench.h"
using bench::run;
namespace F = torch::nn::functional;
using torch::Tensor;

// forward and backward of a function with one leaf; the gradient is discarded each time
template <class Fn>
static void run_grad(const std::string& name, std::vector<Tensor> leaves, Fn fn, double work = 0,
                     const char* u = nullptr) {
  if (!bench::selected(name)) return;
  for (auto& l : leaves) l.requires_grad_(true);
  Tensor g = torch::randn_like(fn().detach());
  run(
      name,
      [&] {
        for (auto& l : leaves) l.mutable_grad() = Tensor();
        fn().backward(g);
      },
      work, u);
  for (auto& l : leaves) {
    l.mutable_grad() = Tensor();
    l.requires_grad_(false);
  }
}

int main(int argc, char** argv) {
  bench::parse(argc, argv, "torch");
  torch::set_num_threads(bench::options().threads);
  torch::manual_seed(1);
  const char* GB = "GB/s";
  const char* GF = "GFLOP/s";
  {
    torch::NoGradGuard ng;
    struct {
      const char* n;
      int64_t e;
    } sizes[] = {{"1e3", 1000}, {"1e5", 100000}, {"1e7", 10000000}};
    for (auto s : sizes) {
      std::string suf = std::string(".") + s.n;
      int64_t n = s.e;
      Tensor a = torch::randn({n}), b = torch::randn({n}), o = torch::empty({n});
      run(
          "thr.add" + suf, [&] { auto r = a + b; }, 12.0 * n, GB);
      run(
          "thr.add_out" + suf, [&] { torch::add_out(o, a, b); }, 12.0 * n, GB);
      run(
          "thr.add_inplace" + suf, [&] { o.add_(b); }, 12.0 * n, GB);
      run(
          "thr.mul" + suf, [&] { auto r = a * b; }, 12.0 * n, GB);
      run(
          "thr.exp" + suf, [&] { auto r = torch::exp(a); }, 8.0 * n, GB);
      run(
          "thr.exp_out" + suf, [&] { torch::exp_out(o, a); }, 8.0 * n, GB);
      run(
          "thr.gelu" + suf, [&] { auto r = torch::gelu(a); }, 8.0 * n, GB);
      run(
          "thr.tanh" + suf, [&] { auto r = torch::tanh(a); }, 8.0 * n, GB);
      run(
          "thr.tanh_out" + suf, [&] { torch::tanh_out(o, a); }, 8.0 * n, GB);
      run(
          "thr.sigmoid" + suf, [&] { auto r = torch::sigmoid(a); }, 8.0 * n, GB);
      run(
          "thr.clone" + suf, [&] { auto r = a.clone(); }, 8.0 * n, GB);
      run(
          "thr.copy" + suf, [&] { o.copy_(a); }, 8.0 * n, GB);
      run(
          "thr.sum_all" + suf, [&] { auto r = a.sum(); }, 4.0 * n, GB);
      run(
          "thr.cumsum" + suf, [&] { auto r = a.cumsum(0); }, 8.0 * n, GB);
      run(
          "thr.to_bf16" + suf, [&] { auto r = a.to(torch::kBFloat16); }, 6.0 * n, GB);
      run(
          "thr.gt_where" + suf, [&] { auto r = torch::where(a > 0, a, b); }, 12.0 * n, GB);
    }
    {  // 2-d shapes
      Tensor a = torch::randn({2000, 2000}), b = torch::randn({2000, 2000}), row = torch::randn({2000}),
             col = torch::randn({2000, 1});
      Tensor o = torch::empty({2000, 2000});
      double n = 4e6;
      run(
          "thr.add_out.2000x2000", [&] { torch::add_out(o, a, b); }, 12 * n, GB);
      run(
          "thr.add_t_out.2000x2000", [&] { torch::add_out(o, a, b.t()); }, 12 * n, GB);
      run(
          "thr.contiguous_t.2000x2000", [&] { o.copy_(b.t()); }, 8 * n, GB);
      run(
          "thr.add_bcast_row_out.2000x2000", [&] { torch::add_out(o, a, row); }, 8 * n, GB);
      run(
          "thr.add_bcast_col_out.2000x2000", [&] { torch::add_out(o, a, col); }, 8 * n, GB);
      run(
          "thr.add_outer_out.2000x2000", [&] { torch::add_out(o, col, row); }, 4 * n, GB);
      run(
          "thr.add_strided2_out.2000x1000",
          [&, o2 = torch::empty({2000, 1000}), s = a.slice(1, 0, 2000, 2)]() mutable { torch::add_out(o2, s, s); },
          4 * n, GB);
      run(
          "thr.sum_dim0.2000x2000", [&] { auto r = a.sum(0); }, 4 * n, GB);
      run(
          "thr.sum_dim1.2000x2000", [&] { auto r = a.sum(1); }, 4 * n, GB);
      run(
          "thr.max_dim1.2000x2000", [&] { auto r = a.max(1); }, 4 * n, GB);
      run(
          "thr.argmax_dim1.2000x2000", [&] { auto r = a.argmax(1); }, 4 * n, GB);
      run(
          "thr.var_dim1.2000x2000", [&] { auto r = a.var(1); }, 4 * n, GB);
      run(
          "thr.softmax.2000x2000", [&] { auto r = torch::softmax(a, 1); }, 8 * n, GB);
      run(
          "thr.softmax_out.2000x2000", [&] { torch::softmax_out(o, a, 1); }, 8 * n, GB);
      run(
          "thr.softmax_dim0.2000x2000", [&] { auto r = torch::softmax(a, 0); }, 8 * n, GB);
      run(
          "thr.cumsum_dim0.2000x2000", [&] { auto r = a.cumsum(0); }, 8 * n, GB);
      run(
          "thr.cumsum_dim1.2000x2000", [&] { auto r = a.cumsum(1); }, 8 * n, GB);
      Tensor idx = torch::randint(2000, {2000, 2000});
      run(
          "thr.gather_dim1.2000x2000", [&] { auto r = a.gather(1, idx); }, 16 * n, GB);
      run(
          "thr.gather_dim0.2000x2000", [&] { auto r = a.gather(0, idx); }, 16 * n, GB);
      run(
          "thr.scatter_add_dim1.2000x2000", [&] { o.scatter_add_(1, idx, a); }, 16 * n, GB);
      run(
          "thr.cat_dim1.2000x2000",
          [&] {
            auto r = torch::cat({a, b}, 1);
          },
          16 * n, GB);
      run(
          "thr.triu.2000x2000", [&] { auto r = a.triu(); }, 8 * n, GB);
    }
    {  // norms, losses
      Tensor x = torch::randn({2048, 1024}), w = torch::ones({1024}), b = torch::zeros({1024});
      double n = 2048.0 * 1024;
      run(
          "thr.layer_norm.2048x1024", [&] { auto r = torch::layer_norm(x, {1024}, w, b); }, 8 * n, GB);
      run(
          "thr.rms_norm.2048x1024", [&] { auto r = at::rms_norm(x, {1024}, w, 1e-5); }, 8 * n, GB);
      Tensor lg = torch::randn({2048, 1000}), y = torch::randint(1000, {2048});
      run(
          "thr.cross_entropy.2048x1000", [&] { auto r = F::cross_entropy(lg, y); }, 4 * 2048.0 * 1000, GB);
    }
    {  // indexing at 1e6 elements
      int64_t n = 1000000;
      Tensor a = torch::randn({n}), mask = a > 0, mask1 = torch::rand({n}) < 0.01, v = torch::randn({n}),
             o = torch::zeros({n});
      Tensor idx = torch::randint(n, {n}), small = torch::randint(1000, {n});
      run(
          "thr.mask_select.1e6", [&] { auto r = a.index({mask}); }, 4.0 * n + n + 2.0 * n, GB);
      run(
          "thr.mask_select_1pct.1e6", [&] { auto r = a.index({mask1}); }, 4.0 * n + n, GB);
      run(
          "thr.masked_select.1e6", [&] { auto r = a.masked_select(mask); }, 4.0 * n + n + 2.0 * n, GB);
      run(
          "thr.mask_set_scalar.1e6", [&] { o.index_put_({mask}, 0.0f); }, 5.0 * n, GB);
      run(
          "thr.masked_fill.1e6", [&] { auto r = a.masked_fill(mask, 0.0); }, 9.0 * n, GB);
      run(
          "thr.mask_rows.1e4x100",
          [&, m = torch::rand({10000}) < 0.5, t = a.view({10000, 100})] { auto r = t.index({m}); }, 4.0 * n, GB);
      run(
          "thr.nonzero.1e6", [&] { auto r = mask.nonzero(); }, n + 4.0 * n, GB);
      run(
          "thr.index_long.1e6", [&] { auto r = a.index({idx}); }, 16.0 * n, GB);
      run(
          "thr.index_select.1e6", [&] { auto r = a.index_select(0, idx); }, 16.0 * n, GB);
      run(
          "thr.index_put.1e6", [&] { o.index_put_({idx}, v); }, 16.0 * n, GB);
      run(
          "thr.index_put_accumulate.1e6", [&] { o.index_put_({idx}, v, true); }, 20.0 * n, GB);
      run(
          "thr.index_add_1d.1e6", [&, t = torch::zeros({1000})]() mutable { t.index_add_(0, small, v); }, 12.0 * n, GB);
      run(
          "thr.bincount.1e6", [&] { auto r = torch::bincount(small); }, 8.0 * n, GB);
      run(
          "thr.unique.1e6", [&] { auto r = torch::_unique2(small); }, 8.0 * n, GB);
      Tensor table = torch::randn({10000, 128}), rows = torch::randint(10000, {8192}), src = torch::randn({8192, 128});
      double m = 8192.0 * 128;
      run(
          "thr.embedding.8192x128", [&] { auto r = torch::embedding(table, rows); }, 8 * m, GB);
      run(
          "thr.index_rows.8192x128", [&] { auto r = table.index({rows}); }, 8 * m, GB);
      run(
          "thr.index_add_rows.8192x128", [&] { table.index_add_(0, rows, src); }, 12 * m, GB);
      run(
          "thr.index_put_accumulate_rows.8192x128", [&] { table.index_put_({rows}, src, true); }, 12 * m, GB);
      run(
          "thr.sort.1e6", [&] { auto r = a.sort(); }, 16.0 * n, GB);
      run(
          "thr.sort_int64.1e6", [&] { auto r = idx.sort(); }, 24.0 * n, GB);
      run(
          "thr.sort_rows.1000x1000", [&, t = a.view({1000, 1000})] { auto r = t.sort(1); }, 16.0 * n, GB);
      run(
          "thr.topk100.1e6", [&] { auto r = a.topk(100); }, 4.0 * n, GB);
      run(
          "thr.topk8.8192x128", [&] { auto r = src.topk(8, 1); }, 4.0 * m, GB);
      run(
          "thr.randn.1e6", [&] { o.normal_(); }, 4.0 * n, GB);
      run(
          "thr.rand.1e6", [&] { o.uniform_(); }, 4.0 * n, GB);
      run(
          "thr.dropout.1e6", [&] { auto r = torch::dropout(a, 0.1, true); }, 8.0 * n, GB);
    }
    for (int64_t n : {16, 64, 256, 1024, 2048}) {
      Tensor a = torch::randn({n, n}), b = torch::randn({n, n}), o = torch::empty({n, n});
      auto s = std::to_string(n);
      double fl = 2.0 * n * n * n;
      run(
          "gemm.f32." + s, [&] { torch::mm_out(o, a, b); }, fl, GF);
      run(
          "gemm.f32_nt." + s, [&] { torch::mm_out(o, a, b.t()); }, fl, GF);
      if (n >= 64) {
        Tensor ah = a.to(torch::kBFloat16), bh = b.to(torch::kBFloat16), oh = o.to(torch::kBFloat16);
        run(
            "gemm.bf16." + s, [&] { torch::mm_out(oh, ah, bh); }, fl, GF);
      }
      if (n == 1024) {
        Tensor ad = a.to(torch::kDouble), bd = b.to(torch::kDouble), od = o.to(torch::kDouble);
        run(
            "gemm.f64." + s, [&] { torch::mm_out(od, ad, bd); }, fl, GF);
      }
    }
    {
      Tensor a = torch::randn({64, 128, 64}), b = torch::randn({64, 64, 128}), o = torch::empty({64, 128, 128});
      run(
          "gemm.bmm_f32.64x128x64x128", [&] { torch::bmm_out(o, a, b); }, 2.0 * 64 * 128 * 64 * 128, GF);
      Tensor x = torch::randn({64, 784}), w = torch::randn({256, 784}), bias = torch::randn({256});
      run(
          "gemm.linear_f32.64x784x256", [&] { auto r = torch::linear(x, w, bias); }, 2.0 * 64 * 784 * 256, GF);
      Tensor v = torch::randn({1024}), m = torch::randn({1024, 1024});
      run(
          "gemm.mv_f32.1024", [&] { auto r = torch::mv(m, v); }, 4.0 * 1024 * 1024, GB);
    }
    struct {
      const char* n;
      int64_t N, C, H, K;
    } convs[] = {{"8x64x56x64", 8, 64, 56, 64},
                 {"8x128x28x128", 8, 128, 28, 128},
                 {"8x256x14x256", 8, 256, 14, 256},
                 {"8x3x64x32", 8, 3, 64, 32}};
    for (auto c : convs) {
      Tensor x = torch::randn({c.N, c.C, c.H, c.H}), w = torch::randn({c.K, c.C, 3, 3}), b = torch::randn({c.K});
      run(
          std::string("conv.3x3_fwd.") + c.n, [&] { auto r = torch::conv2d(x, w, b, 1, 1); },
          2.0 * c.N * c.H * c.H * c.C * c.K * 9, GF);
    }
    {
      Tensor x = torch::randn({8, 64, 56, 56});
      run(
          "conv.max_pool2_fwd.8x64x56", [&] { auto r = torch::max_pool2d(x, 2); }, 5.0 * x.numel(), GB);
    }
    {
      Tensor q = torch::randn({4, 8, 512, 64}), k = torch::randn({4, 8, 512, 64}), v = torch::randn({4, 8, 512, 64});
      double fl = 4.0 * 4 * 8 * 512.0 * 512 * 64;
      run(
          "attn.fwd.4x8x512x64", [&] { auto r = at::scaled_dot_product_attention(q, k, v); }, fl, GF);
      run(
          "attn.causal_fwd.4x8x512x64", [&] { auto r = at::scaled_dot_product_attention(q, k, v, {}, 0.0, true); },
          fl / 2, GF);
      for (const auto& [dtype, name, item] :
           {std::tuple{torch::kFloat32, "f32", 4.0}, {torch::kBFloat16, "bf16", 2.0}}) {
        const Tensor keys = torch::randn({1, 8192, 8, 128}).to(dtype).transpose(1, 2);
        for (const int heads : {8, 32}) {
          const Tensor query = torch::randn({1, heads, 1, 128}).to(dtype);
          run(
              "attn.decode.1x" + std::to_string(heads) + ":8x8192x128_" + name,
              [&] { auto r = at::scaled_dot_product_attention(query, keys, keys, {}, 0.0, false, {}, heads != 8); },
              2.0 * 8192 * 8 * 128 * item, GB);
        }
      }
    }
  }
  // forward + backward
  {
    Tensor a = torch::randn({1000000}), b = torch::randn({1000000});
    run_grad("grad.mul.1e6", {a, b}, [&] { return a * b; });
    Tensor mat = torch::randn({1000, 1000}), bias = torch::randn({1000});
    run_grad("grad.add_bcast_row.1000x1000", {mat, bias}, [&] { return mat + bias; });
    run_grad("grad.gelu.1e6", {a}, [&] { return torch::gelu(a); });
    Tensor m = torch::rand({1000000}) < 0.5;
    run_grad("grad.mask_select.1e6", {a}, [&] { return a.index({m}); });
    Tensor x = torch::randn({2048, 1024}), w = torch::ones({1024}), bb = torch::zeros({1024});
    run_grad("grad.layer_norm.2048x1024", {x, w, bb}, [&] { return torch::layer_norm(x, {1024}, w, bb); });
    run_grad("grad.rms_norm.2048x1024", {x, w}, [&] { return at::rms_norm(x, {1024}, w, 1e-5); });
    run_grad("grad.softmax.2048x1024", {x}, [&] { return torch::softmax(x, 1); });
    Tensor y = torch::randint(1000, {2048}), lg = torch::randn({2048, 1000});
    run_grad("grad.cross_entropy.2048x1000", {lg}, [&] { return F::cross_entropy(lg, y); });
    Tensor t = torch::randn({10000, 128}), rows = torch::randint(10000, {8192});
    run_grad("grad.embedding.8192x128", {t}, [&] { return torch::embedding(t, rows); });
    run_grad("grad.index_rows.8192x128", {t}, [&] { return t.index({rows}); });
    Tensor l = torch::randn({512, 512}), r = torch::randn({512, 512});
    run_grad(
        "grad.matmul.512", {l, r}, [&] { return torch::matmul(l, r); }, 6.0 * 512 * 512 * 512, GF);
    struct {
      const char* n;
      int64_t N, C, H, K, k;
    } convs[] = {{"grad.conv_3x3.8x64x56x64", 8, 64, 56, 64, 3},
                 {"grad.conv_5x5.64x1x28x6", 64, 1, 28, 6, 5},
                 {"grad.conv_5x5.64x6x14x16", 64, 6, 14, 16, 5},
                 {"grad.conv_3x3.16x8x32x8", 16, 8, 32, 8, 3},
                 {"grad.conv_3x3.16x64x28x3", 16, 64, 28, 3, 3}};
    for (auto c : convs) {
      Tensor cx = torch::randn({c.N, c.C, c.H, c.H}), cw = torch::randn({c.K, c.C, c.k, c.k}), cb = torch::randn({c.K});
      run_grad(
          c.n, {cx, cw, cb}, [&] { return torch::conv2d(cx, cw, cb, 1, c.k / 2); },
          6.0 * c.N * c.H * c.H * c.C * c.K * c.k * c.k, GF);
    }
    Tensor q = torch::randn({4, 8, 512, 64}), k = torch::randn({4, 8, 512, 64}), v = torch::randn({4, 8, 512, 64});
    run_grad(
        "grad.attn.4x8x512x64", {q, k, v}, [&] { return at::scaled_dot_product_attention(q, k, v); },
        14.0 * 4 * 8 * 512.0 * 512 * 64, GF);
  }
  {  // optimizers: 100 parameters of 1e4 elements
    auto params = [] {
      std::vector<Tensor> p;
      for (int i = 0; i < 100; ++i) {
        p.push_back(torch::randn({10000}, torch::requires_grad()));
        p.back().mutable_grad() = torch::randn({10000});
      }
      return p;
    };
    double n = 1e6;
    auto p = params();
    torch::optim::AdamW adamw(p, torch::optim::AdamWOptions(1e-3));
    run(
        "opt.adamw.100x1e4", [&] { adamw.step(); }, 28 * n, GB);
    auto tiny = std::vector<Tensor>();
    for (int i = 0; i < 100; ++i) {
      tiny.push_back(torch::randn({4}, torch::requires_grad()));
      tiny.back().mutable_grad() = torch::randn({4});
    }
    torch::optim::AdamW adamw_tiny(tiny, torch::optim::AdamWOptions(1e-3));
    run("opt.adamw.100x4", [&] { adamw_tiny.step(); });
    torch::optim::SGD sgd(p, torch::optim::SGDOptions(1e-3));
    run(
        "opt.sgd.100x1e4", [&] { sgd.step(); }, 12 * n, GB);
    torch::optim::SGD sgdm(p, torch::optim::SGDOptions(1e-3).momentum(0.9));
    run(
        "opt.sgd_momentum.100x1e4", [&] { sgdm.step(); }, 20 * n, GB);
    {
      torch::NoGradGuard g;
      std::vector<Tensor> ps, gs, m, v, steps;
      for (auto& t : p) {
        ps.push_back(t.detach());
        gs.push_back(t.grad());
        m.push_back(torch::zeros({10000}));
        v.push_back(torch::zeros({10000}));
        steps.push_back(torch::ones({}));
      }
      run(
          "opt.adamw_fused.100x1e4",
          [&] { at::_fused_adamw_(ps, gs, m, v, {}, steps, 1e-3, 0.9, 0.999, 0.01, 1e-8, false, false); }, 28 * n, GB);
      run(
          "opt.clip_norm.100x1e4", [&] { auto t = torch::nn::utils::clip_grad_norm_(p, 1.0); }, 4 * n, GB);
    }
  }
  bench::report_value("mem.throughput_peak_rss", bench::peak_rss_mb(), "MB");
}
