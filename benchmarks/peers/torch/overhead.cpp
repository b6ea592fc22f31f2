// Overhead per op, in ns: the tensors are so small that the arithmetic is negligible.
#include <torch/torch.h>
#include "bench.h"
using bench::run;
namespace F = torch::nn::functional;
using torch::Tensor;
using torch::indexing::None;
using torch::indexing::Slice;

int main(int argc, char** argv) {
  bench::parse(argc, argv, "torch");
  torch::set_num_threads(bench::options().threads);
  auto one = [](int64_t n) { return torch::rand({n}); };
  Tensor a1 = one(1), b1 = one(1), a16 = one(16), b16 = one(16), m4 = torch::rand({4, 4}), m16 = torch::rand({16, 16}),
         t3 = torch::rand({4, 5, 6}), a1k = one(1024), b1k = one(1024);
  Tensor i1 = torch::ones({1}, torch::kLong), j1 = torch::ones({1}, torch::kLong);

  // the loop itself costs < 1 ns; results are dropped each time
  {
    torch::NoGradGuard g;
    run("ovh.add_1.nograd", [&] { auto r = a1 + b1; });
    run("ovh.add_16.nograd", [&] { auto r = a16 + b16; });
    run("ovh.add_1024.nograd", [&] { auto r = a1k + b1k; });
    run("ovh.add_bcast_4x4.nograd", [&] { auto r = m4 + m4[0]; });
    run("ovh.add_scalar_1.nograd", [&] { auto r = a1 + 1.5; });
    run("ovh.add_int64_1.nograd", [&] { auto r = i1 + j1; });
    run("ovh.add_promote_1.nograd", [&] { auto r = a1 + i1; });
    run("ovh.mul_1.nograd", [&] { auto r = a1 * b1; });
    run("ovh.relu_1.nograd", [&] { auto r = torch::relu(a1); });
    run("ovh.exp_1.nograd", [&] { auto r = torch::exp(a1); });
    run("ovh.eq_1.nograd", [&] { auto r = a1 == b1; });
    run("ovh.where_16.nograd", [&, c = a16 > 0.5] { auto r = torch::where(c, a16, b16); });
    run("ovh.sum_16.nograd", [&] { auto r = a16.sum(); });
    run("ovh.sum_dim_4x4.nograd", [&] { auto r = m4.sum(1); });
    run("ovh.max_dim_4x4.nograd", [&] { auto r = std::get<0>(m4.max(1)); });
    run("ovh.softmax_4x4.nograd", [&] { auto r = torch::softmax(m4, -1); });
    run("ovh.matmul_4x4.nograd", [&] { auto r = torch::matmul(m4, m4); });
    run("ovh.matmul_16x16.nograd", [&] { auto r = torch::matmul(m16, m16); });
    run("ovh.linear_4x4.nograd",
        [&, w = torch::rand({4, 4}), b = torch::rand({4})] { auto r = torch::linear(m4, w, b); });
    run("ovh.layer_norm_4x4.nograd",
        [&, w = torch::ones({4}), b = torch::zeros({4})] { auto r = torch::layer_norm(m4, {4}, w, b); });
    run("ovh.cat_2x16.nograd", [&] { auto r = torch::cat({a16, b16}); });
    run("ovh.stack_2x16.nograd", [&] { auto r = torch::stack({a16, b16}); });
    run("ovh.empty_1", [&] { auto r = torch::empty({1}); });
    run("ovh.empty_1024", [&] { auto r = torch::empty({1024}); });
    run("ovh.zeros_16", [&] { auto r = torch::zeros({16}); });
    run("ovh.zeros_like_16", [&] { auto r = torch::zeros_like(a16); });
    run("ovh.full_16", [&] { auto r = torch::full({16}, 2.0f); });
    run("ovh.arange_16", [&] { auto r = torch::arange(16); });
    run("ovh.tensor_from_scalar", [&] { auto r = torch::tensor(1.5f); });
    run("ovh.tensor_from_list4", [&] { auto r = torch::tensor({1.f, 2.f, 3.f, 4.f}); });
    run("ovh.rand_16", [&] { auto r = torch::rand({16}); });
    run("ovh.clone_16", [&] { auto r = a16.clone(); });
    run("ovh.copy_16", [&] { b16.copy_(a16); });
    run("ovh.to_f64_16", [&] { auto r = a16.to(torch::kDouble); });
    run("ovh.add_inplace_1", [&] { a1.add_(b1); });
    run("ovh.mul_inplace_scalar_1", [&] { a1.mul_(0.5); });
    run("ovh.fill_16", [&] { b16.fill_(0.5); });
    run("ovh.add_out_1", [&, o = torch::empty({1})]() mutable { torch::add_out(o, a1, b1); });
    run("ovh.item", [&] {
      volatile float v = a1.item<float>();
      (void)v;
    });
    run("ovh.handle_copy", [&] {
      Tensor r = a1;
      asm volatile("" : : "r"(&r) : "memory");
    });
    // views
    run("ovh.view", [&] { auto r = m4.view({2, 8}); });
    run("ovh.reshape", [&] { auto r = m4.reshape({-1}); });
    run("ovh.transpose", [&] { auto r = m4.transpose(0, 1); });
    run("ovh.permute", [&] { auto r = t3.permute({2, 0, 1}); });
    run("ovh.slice", [&] { auto r = m4.slice(0, 1, 3); });
    run("ovh.narrow", [&] { auto r = m4.narrow(1, 1, 2); });
    run("ovh.select", [&] { auto r = m4.select(0, 1); });
    run("ovh.unsqueeze", [&] { auto r = m4.unsqueeze(0); });
    run("ovh.expand", [&] { auto r = a1.expand({4}); });
    run("ovh.detach", [&] { auto r = a1.detach(); });
    run("ovh.chunk4", [&] { auto r = m16.chunk(4, 1); });
    run("ovh.unbind4", [&] { auto r = m4.unbind(0); });
    run("ovh.contiguous_t4x4", [&, t = m4.t()] { auto r = t.contiguous(); });
    // indexing as in user code
    run("ovh.getitem_int", [&] { auto r = m4[1]; });
    run("ovh.getitem_int_int", [&] { auto r = m4.index({1, 2}); });
    run("ovh.getitem_int_int_item", [&] {
      volatile float v = m4[1][2].item<float>();
      (void)v;
    });
    run("ovh.getitem_slice2", [&] { auto r = m4.index({Slice(1, 3), Slice(0, None, 2)}); });
    run("ovh.getitem_ellipsis_none", [&] { auto r = t3.index({torch::indexing::Ellipsis, None, 1}); });
    run("ovh.setitem_int_scalar", [&] { m4.index_put_({1, 2}, 3.0f); });
    run("ovh.setitem_slice_tensor", [&] { m4.index_put_({Slice(1, 3)}, b16.view({4, 4}).slice(0, 0, 2)); });
    {
      Tensor mask = a16 > 0.5, idx = torch::tensor({3, 1, 2, 0}), v4 = torch::rand({4});
      run("ovh.getitem_mask_16", [&] { auto r = a16.index({mask}); });
      run("ovh.setitem_mask_16_scalar", [&] { b16.index_put_({mask}, 1.0f); });
      run("ovh.masked_fill_16", [&] { auto r = a16.masked_fill(mask, 0.0); });
      run("ovh.getitem_long_4", [&] { auto r = a16.index({idx}); });
      run("ovh.setitem_long_4", [&] { b16.index_put_({idx}, v4); });
      run("ovh.setitem_long_4_accumulate", [&] { b16.index_put_({idx}, v4, true); });
      run("ovh.index_select_4", [&] { auto r = a16.index_select(0, idx); });
      run("ovh.gather_4", [&] { auto r = a16.gather(0, idx); });
      run("ovh.nonzero_16", [&] { auto r = mask.nonzero(); });
    }
  }
  {
    c10::InferenceMode g;
    Tensor a = one(1), b = one(1), c = one(16), d = one(16), m = torch::rand({4, 4});
    run("ovh.add_1.inference", [&] { auto r = a + b; });
    run("ovh.add_16.inference", [&] { auto r = c + d; });
    run("ovh.add_inplace_1.inference", [&] { a.add_(b); });
    run("ovh.view.inference", [&] { auto r = m.view({2, 8}); });
    run("ovh.slice.inference", [&] { auto r = m.slice(0, 1, 3); });
  }
  // autograd
  Tensor x = torch::rand({1}, torch::requires_grad()), y = torch::rand({1}, torch::requires_grad()),
         z = torch::rand({1}, torch::requires_grad());
  Tensor xm = torch::rand({4, 4}, torch::requires_grad());
  run("ovh.add_1.gradmode_plain", [&] { auto r = a1 + b1; });  // grad mode on, nothing requires grad
  run("ovh.add_1.record", [&] { auto r = x + y; });            // node recorded, then dropped
  run("ovh.mul_1.record", [&] { auto r = x * y; });            // saves both inputs
  run("ovh.view.record", [&] { auto r = xm.view({2, 8}); });
  run("ovh.slice.record", [&] { auto r = xm.slice(0, 1, 3); });
  run("ovh.matmul_4x4.record", [&] { auto r = torch::matmul(xm, xm); });
  auto zero = [&] {
    x.mutable_grad() = Tensor();
    y.mutable_grad() = Tensor();
    z.mutable_grad() = Tensor();
  };
  run("ovh.muladd_fwd", [&] { auto r = x * y + z; });
  run("ovh.muladd_fwd_bwd", [&] {
    zero();
    auto r = x * y + z;
    r.backward();
  });  // whole of 2 ops + 3 leaves
  run("ovh.muladd_fwd_bwd_accum", [&] {
    auto r = x * y + z;
    r.backward();
  });  // grads accumulate in place
  run(
      "ovh.chain100_fwd",
      [&] {
        Tensor r = x;
        for (int i = 0; i < 100; ++i) r = r * y;
      },
      0, nullptr, 100);
  run(
      "ovh.chain100_fwd_bwd",
      [&] {
        zero();
        Tensor r = x;
        for (int i = 0; i < 100; ++i) r = r * y;
        r.backward();
      },
      0, nullptr, 100);
  run(
      "ovh.chain100_add_fwd_bwd",
      [&] {
        zero();
        Tensor r = x;
        for (int i = 0; i < 100; ++i) r = r + y;
        r.backward();
      },
      0, nullptr, 100);
  run(
      "ovh.relu_chain100_fwd_bwd",
      [&] {
        zero();
        Tensor r = x;
        for (int i = 0; i < 100; ++i) r = torch::relu(r);
        r.backward();
      },
      0, nullptr, 100);
  run("ovh.backward_empty", [&] {
    zero();
    auto r = x + 1.0;
    r.backward();
  });  // smallest possible backward
  {
    Tensor h = torch::rand({1}, torch::requires_grad());
    h.register_hook([](Tensor g) { return g; });
    run("ovh.hook_fwd_bwd", [&] {
      h.mutable_grad() = Tensor();
      auto r = h + 1.0;
      r.backward();
    });
  }
  bench::report_value("mem.overhead_peak_rss", bench::peak_rss_mb(), "MB");
}
