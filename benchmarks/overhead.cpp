// Overhead per op: the tensors are so small that the arithmetic is negligible. Case names as in
// peers/torch/overhead.cpp.
#include "case.hpp"

namespace weft::bench {

namespace {

constexpr Mode plain = Mode::no_grad;

Tensor one(int64_t n) { return rand({n}); }

void add_op_cases() {
  const Tensor a1 = one(1), b1 = one(1), a16 = one(16), b16 = one(16), a1k = one(1024), b1k = one(1024);
  const Tensor m4 = rand({4, 4}), m16 = rand({16, 16}), i1 = ones({1}, i64), j1 = ones({1}, i64);
  add_case(
      "ovh.add_1.nograd", [=] { Tensor r = a1 + b1; }, plain);
  add_case(
      "ovh.add_16.nograd", [=] { Tensor r = a16 + b16; }, plain);
  add_case(
      "ovh.add_1024.nograd", [=] { Tensor r = a1k + b1k; }, plain);
  add_case(
      "ovh.add_bcast_4x4.nograd", [=] { Tensor r = m4 + m4.select(0, 0); }, plain);
  add_case(
      "ovh.add_scalar_1.nograd", [=] { Tensor r = a1 + 1.5; }, plain);
  add_case(
      "ovh.add_int64_1.nograd", [=] { Tensor r = i1 + j1; }, plain);
  add_case(
      "ovh.add_promote_1.nograd", [=] { Tensor r = a1 + i1; }, plain);
  add_case(
      "ovh.mul_1.nograd", [=] { Tensor r = a1 * b1; }, plain);
  add_case(
      "ovh.relu_1.nograd", [=] { Tensor r = relu(a1); }, plain);
  add_case(
      "ovh.exp_1.nograd", [=] { Tensor r = exp(a1); }, plain);
  add_case(
      "ovh.eq_1.nograd", [=] { Tensor r = a1 == b1; }, plain);
  add_case(
      "ovh.where_16.nograd", [=, c = a16 > 0.5] { Tensor r = where(c, a16, b16); }, plain);
  add_case(
      "ovh.sum_16.nograd", [=] { Tensor r = a16.sum(); }, plain);
  add_case(
      "ovh.sum_dim_4x4.nograd", [=] { Tensor r = m4.sum(1); }, plain);
  add_case(
      "ovh.max_dim_4x4.nograd", [=] { Tensor r = max(m4, 1).values; }, plain);
  add_case(
      "ovh.softmax_4x4.nograd", [=] { Tensor r = softmax(m4, -1); }, plain);
  add_case(
      "ovh.matmul_4x4.nograd", [=] { Tensor r = matmul(m4, m4); }, plain);
  add_case(
      "ovh.matmul_16x16.nograd", [=] { Tensor r = matmul(m16, m16); }, plain);
  add_case(
      "ovh.linear_4x4.nograd", [=, w = rand({4, 4}), b = rand({4})] { Tensor r = linear(m4, w, b); }, plain);
  add_case(
      "ovh.layer_norm_4x4.nograd", [=, w = ones({4}), b = zeros({4})] { Tensor r = layer_norm(m4, {4}, w, b); }, plain);
  add_case(
      "ovh.cat_2x16.nograd", [=, both = std::vector{a16, b16}] { Tensor r = cat(both); }, plain);
  add_case(
      "ovh.stack_2x16.nograd", [=, both = std::vector{a16, b16}] { Tensor r = stack(both); }, plain);
  add_case(
      "ovh.clone_16", [=] { Tensor r = a16.clone(); }, plain);
  add_case(
      "ovh.copy_16", [=] { b16.copy_(a16); }, plain);
  add_case(
      "ovh.to_f64_16", [=] { Tensor r = a16.to(f64); }, plain);
  add_case(
      "ovh.add_inplace_1", [=] { a1.add_(b1); }, plain);
  add_case(
      "ovh.mul_inplace_scalar_1", [=] { a1.mul_(0.5); }, plain);
  add_case(
      "ovh.fill_16", [=] { b16.fill_(0.5); }, plain);
  add_case(
      "ovh.add_out_1", [=, o = empty({1})] { add_out(o, a1, b1); }, plain);
  add_case(
      "ovh.item", [=] { benchmark::DoNotOptimize(a1.item<float>()); }, plain);
  add_case(
      "ovh.handle_copy", [=] { benchmark::DoNotOptimize(Tensor(a1)); }, plain);
  add_case(
      "ovh.index_select_4", [=, idx = tensor({3, 1, 2, 0})] { Tensor r = index_select(a16, 0, idx); }, plain);
  add_case(
      "ovh.gather_4", [=, idx = tensor({3, 1, 2, 0})] { Tensor r = gather(a16, 0, idx); }, plain);
  add_case(
      "ovh.nonzero_16", [=, mask = a16 > 0.5] { Tensor r = nonzero(mask); }, plain);
  add_case(
      "ovh.masked_fill_16", [=, mask = a16 > 0.5] { Tensor r = masked_fill(a16, mask, 0.0); }, plain);
}

void add_creation_cases() {
  const Tensor a16 = one(16);
  add_case(
      "ovh.empty_1", [] { Tensor r = empty({1}); }, plain);
  add_case(
      "ovh.empty_1024", [] { Tensor r = empty({1024}); }, plain);
  add_case(
      "ovh.zeros_16", [] { Tensor r = zeros({16}); }, plain);
  add_case(
      "ovh.zeros_like_16", [=] { Tensor r = zeros_like(a16); }, plain);
  add_case(
      "ovh.full_16", [] { Tensor r = full({16}, 2.0f); }, plain);
  add_case(
      "ovh.arange_16", [] { Tensor r = arange(16); }, plain);
  add_case(
      "ovh.tensor_from_scalar", [] { Tensor r = tensor(1.5f); }, plain);
  add_case(
      "ovh.tensor_from_list4",
      [] {
        Tensor r = tensor({1.f, 2.f, 3.f, 4.f});
      },
      plain);
  add_case(
      "ovh.rand_16", [] { Tensor r = rand({16}); }, plain);
}

void add_view_cases() {
  const Tensor a1 = one(1), m4 = rand({4, 4}), m16 = rand({16, 16}), t3 = rand({4, 5, 6});
  add_case(
      "ovh.view",
      [=] {
        Tensor r = m4.view({2, 8});
      },
      plain);
  add_case(
      "ovh.reshape", [=] { Tensor r = m4.reshape({-1}); }, plain);
  add_case(
      "ovh.transpose", [=] { Tensor r = m4.transpose(0, 1); }, plain);
  add_case(
      "ovh.permute",
      [=] {
        Tensor r = t3.permute({2, 0, 1});
      },
      plain);
  add_case(
      "ovh.slice", [=] { Tensor r = m4.slice(0, 1, 3); }, plain);
  add_case(
      "ovh.narrow", [=] { Tensor r = m4.narrow(1, 1, 2); }, plain);
  add_case(
      "ovh.select", [=] { Tensor r = m4.select(0, 1); }, plain);
  add_case(
      "ovh.unsqueeze", [=] { Tensor r = m4.unsqueeze(0); }, plain);
  add_case(
      "ovh.expand", [=] { Tensor r = a1.expand({4}); }, plain);
  add_case(
      "ovh.detach", [=] { Tensor r = a1.detach(); }, plain);
  add_case(
      "ovh.chunk4", [=] { auto r = m16.chunk(4, 1); }, plain);
  add_case(
      "ovh.unbind4", [=] { auto r = m4.unbind(0); }, plain);
  add_case(
      "ovh.contiguous_t4x4", [t = m4.t()] { Tensor r = t.contiguous(); }, plain);
}

void add_indexing_cases() {
  const Tensor a16 = one(16), b16 = one(16), m4 = rand({4, 4}), t3 = rand({4, 5, 6}), v4 = rand({4});
  const Tensor mask = a16 > 0.5, idx = tensor({3, 1, 2, 0});
  add_case(
      "ovh.getitem_int", [=] { Tensor r = m4[1]; }, plain);
  add_case(
      "ovh.getitem_int_int",
      [=] {
        Tensor r = m4[{1, 2}];
      },
      plain);
  add_case(
      "ovh.getitem_int_int_item", [=] { benchmark::DoNotOptimize(m4[1][2].item<float>()); }, plain);
  add_case(
      "ovh.getitem_slice2",
      [=] {
        Tensor r = m4[{Slice(1, 3), Slice(0, none, 2)}];
      },
      plain);
  add_case(
      "ovh.getitem_ellipsis_none",
      [=] {
        Tensor r = t3[{Ellipsis, None, 1}];
      },
      plain);
  add_case(
      "ovh.setitem_int_scalar",
      [=] {
        m4[{1, 2}] = 3.0f;
      },
      plain);
  add_case(
      "ovh.setitem_slice_tensor",
      [=] {
        m4[Slice(1, 3)] = b16.view({4, 4}).slice(0, 0, 2);
      },
      plain);
  add_case(
      "ovh.getitem_mask_16", [=] { Tensor r = a16[mask]; }, plain);
  add_case(
      "ovh.setitem_mask_16_scalar", [=] { b16[mask] = 1.0f; }, plain);
  add_case(
      "ovh.getitem_long_4", [=] { Tensor r = a16[idx]; }, plain);
  add_case(
      "ovh.setitem_long_4", [=] { b16[idx] = v4; }, plain);
  add_case(
      "ovh.setitem_long_4_accumulate", [=] { b16.index_put_({idx}, v4, true); }, plain);
}

void add_inference_cases() {
  const Tensor a = one(1), b = one(1), c = one(16), d = one(16), m = rand({4, 4});
  add_case(
      "ovh.add_1.inference", [=] { Tensor r = a + b; }, Mode::inference);
  add_case(
      "ovh.add_16.inference", [=] { Tensor r = c + d; }, Mode::inference);
  add_case(
      "ovh.add_inplace_1.inference", [=] { a.add_(b); }, Mode::inference);
  add_case(
      "ovh.view.inference",
      [=] {
        Tensor r = m.view({2, 8});
      },
      Mode::inference);
  add_case(
      "ovh.slice.inference", [=] { Tensor r = m.slice(0, 1, 3); }, Mode::inference);
}

void add_autograd_cases() {
  const Tensor a1 = one(1), b1 = one(1);
  const Tensor x = one(1).requires_grad_(), y = one(1).requires_grad_(), z = one(1).requires_grad_();
  const Tensor xm = rand({4, 4}).requires_grad_();
  const auto clear = [=] {
    x.set_grad({});
    y.set_grad({});
    z.set_grad({});
  };
  const auto chain = [=](auto step) {
    Tensor r = x;
    for (int i = 0; i < 100; ++i) r = step(r);
    return r;
  };
  const auto times = [=](const Tensor& r) { return r * y; };
  add_case("ovh.add_1.gradmode_plain", [=] { Tensor r = a1 + b1; });
  add_case("ovh.add_1.record", [=] { Tensor r = x + y; });
  add_case("ovh.mul_1.record", [=] { Tensor r = x * y; });
  add_case("ovh.view.record", [=] { Tensor r = xm.view({2, 8}); });
  add_case("ovh.slice.record", [=] { Tensor r = xm.slice(0, 1, 3); });
  add_case("ovh.matmul_4x4.record", [=] { Tensor r = matmul(xm, xm); });
  add_case("ovh.muladd_fwd", [=] { Tensor r = x * y + z; });
  add_case("ovh.muladd_fwd_bwd", [=] {
    clear();
    Tensor r = x * y + z;
    r.backward();
  });
  add_case("ovh.muladd_fwd_bwd_accum", [=] {
    Tensor r = x * y + z;
    r.backward();
  });
  add_case(
      "ovh.chain100_fwd", [=] { Tensor r = chain(times); }, Mode::recording, 0, Rate::none, 100);
  add_case(
      "ovh.chain100_fwd_bwd",
      [=] {
        clear();
        chain(times).backward();
      },
      Mode::recording, 0, Rate::none, 100);
  add_case(
      "ovh.chain100_add_fwd_bwd",
      [=] {
        clear();
        chain([=](const Tensor& r) { return r + y; }).backward();
      },
      Mode::recording, 0, Rate::none, 100);
  add_case(
      "ovh.relu_chain100_fwd_bwd",
      [=] {
        clear();
        chain([](const Tensor& r) { return relu(r); }).backward();
      },
      Mode::recording, 0, Rate::none, 100);
  add_case("ovh.backward_empty", [=] {
    clear();
    Tensor r = x + 1.0;
    r.backward();
  });
  const Tensor h = one(1).requires_grad_();
  register_hook(h, [](const Tensor& g) { return g; });
  add_case("ovh.hook_fwd_bwd", [=] {
    h.set_grad({});
    Tensor r = h + 1.0;
    r.backward();
  });
}

}  // namespace

void add_overhead_cases() {
  add_op_cases();
  add_creation_cases();
  add_view_cases();
  add_indexing_cases();
  add_inference_cases();
  add_autograd_cases();
}

}  // namespace weft::bench
