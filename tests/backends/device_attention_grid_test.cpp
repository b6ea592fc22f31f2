// attention() over the grid of masks, causality, slopes, shared heads and lengths: every backend, on the CPU and on
// every kind of device, against the math backend in f64.
#include "device_checks.hpp"

#include <cmath>
#include <limits>
#include <random>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include <weft/autograd/engine.hpp>
#include <weft/autograd/mode.hpp>
#include <weft/generate/paged_kv_cache.hpp>
#include <weft/ops/attention.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/join.hpp>
#include <weft/ops/kv_cache.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/allocator.hpp>

namespace weft {
namespace {

using namespace test;

/// Numbers in [-1, 1), the same on every machine.
Tensor numbers(const Dims& shape, std::mt19937& random) {
  std::vector<double> values;
  for (int64_t i = 0; i < shape.product(); ++i) values.push_back(static_cast<double>(random()) / 0x1p31 - 1);
  return tensor(values).to(f64).reshape(shape);
}

void expect_close(const Tensor& actual, const Tensor& expected, double tolerance, const char* what) {
  ASSERT_TRUE(actual.defined() && expected.defined()) << what;
  ASSERT_EQ(actual.shape(), expected.shape()) << what;
  const std::vector<double> a = actual.to(Device()).to(f64).to_vector<double>();
  const std::vector<double> b = expected.to(Device()).to(f64).to_vector<double>();
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_NEAR(a[i], b[i], tolerance * (1 + std::fabs(b[i]))) << what << " at " << i;
  }
}

enum class MaskKind { none, boolean, floating };
struct GridCase {
  MaskKind mask;
  bool causal, alibi, grouped;
  int64_t queries, keys;
  AttentionWindow window = {};
};

std::string text(const GridCase& c) {
  std::ostringstream out;
  out << "mask " << static_cast<int>(c.mask) << " causal " << c.causal << " alibi " << c.alibi << " grouped "
      << c.grouped << " queries " << c.queries << " keys " << c.keys << " window " << c.window.left << " "
      << c.window.right;
  return out.str();
}

/// The operands of a case: leaves, in f64 on the CPU or as they are computed with.
struct Inputs {
  Tensor q, k, v, g, mask, slopes;

  Inputs(const GridCase& c, DType dtype) {
    std::mt19937 random(3);
    const int64_t batch = 2, heads = 4, groups = c.grouped ? 2 : 4;
    const auto rounded = [&](const Dims& shape) { return numbers(shape, random).to(dtype).to(f64); };
    q = rounded({batch, c.queries, heads, 8}), k = rounded({batch, c.keys, groups, 8});
    v = rounded({batch, c.keys, groups, 8}), g = rounded({batch, c.queries, heads, 8});
    if (c.mask == MaskKind::boolean) mask = numbers({batch, 1, c.queries, c.keys}, random) < 0.3;
    if (c.mask == MaskKind::floating) mask = rounded({heads, c.queries, c.keys});
    if (c.alibi) slopes = tensor(alibi_slopes(heads));
  }
  Inputs on(Device device, DType dtype) const {
    Inputs out = *this;
    for (Tensor* t : {&out.q, &out.k, &out.v, &out.g}) *t = t->to(dtype).to(device);
    if (mask.defined()) out.mask = (mask.dtype() == boolean ? mask : mask.to(dtype)).to(device);
    if (slopes.defined()) out.slopes = slopes.to(f32).to(device);
    return out;
  }
};

struct Results {
  Tensor out, dq, dk, dv, dmask;
};
Results compute(Inputs x, const GridCase& c, AttentionBackend backend, bool mask_gradient) {
  for (Tensor* t : {&x.q, &x.k, &x.v}) *t = t->detach().clone().requires_grad_();
  if (mask_gradient) x.mask = x.mask.detach().clone().requires_grad_();
  AttentionArguments a{
      .mask = x.mask, .causal = c.causal, .alibi_slopes = x.slopes, .window = c.window, .backend = backend};
  const Tensor out = attention(x.q, x.k, x.v, a);
  out.backward(x.g);
  return {out.detach(), x.q.grad(), x.k.grad(), x.v.grad(), mask_gradient ? x.mask.grad() : Tensor()};
}

void expect_case(Device on, const GridCase& c, DType dtype) {
  SCOPED_TRACE(text(c) + " " + name(dtype));
  const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 1e-5 : 1e-2;
  const Inputs exact(c, dtype), there = exact.on(on, dtype);
  const bool float_mask = c.mask == MaskKind::floating;
  const Results expected = compute(exact, c, AttentionBackend::math, float_mask);
  for (const auto backend : {AttentionBackend::math, AttentionBackend::fused, AttentionBackend::automatic}) {
    SCOPED_TRACE(name(backend));
    const bool mask_gradient = float_mask && backend != AttentionBackend::fused;
    const Results actual = compute(there, c, backend, mask_gradient);
    EXPECT_EQ(actual.out.dtype(), dtype);
    expect_close(actual.out, expected.out, tolerance, "out");
    expect_close(actual.dq, expected.dq, 2 * tolerance, "dq");
    expect_close(actual.dk, expected.dk, 2 * tolerance, "dk");
    expect_close(actual.dv, expected.dv, 2 * tolerance, "dv");
    if (mask_gradient) expect_close(actual.dmask, expected.dmask, 2 * tolerance, "dmask");
  }
}

void expect_grid(Device on) {
  const std::pair<int64_t, int64_t> lengths[] = {{5, 5}, {3, 7}, {7, 3}, {1, 40}, {40, 33}};
  for (const MaskKind mask : {MaskKind::none, MaskKind::boolean, MaskKind::floating}) {
    for (const bool causal : {false, true}) {
      for (const bool alibi : {false, true}) {
        for (const bool grouped : {false, true}) {
          for (const auto& [queries, keys] : lengths) {
            for (const DType dtype : {f32, bf16}) {
              expect_case(on, {mask, causal, alibi, grouped, queries, keys}, dtype);
            }
          }
        }
      }
    }
  }
}

void expect_windows(Device on) {
  for (const AttentionWindow window : {AttentionWindow{0, 0}, {2, -1}, {-1, 1}, {3, 2}, {100, 100}}) {
    for (const bool causal : {false, true}) {
      for (const auto& [queries, keys] : {std::pair<int64_t, int64_t>{9, 9}, {4, 11}, {11, 4}, {1, 12}, {70, 90}}) {
        for (const DType dtype : {f32, f16}) {
          expect_case(on, {MaskKind::none, causal, true, true, queries, keys, window}, dtype);
        }
        expect_case(on, {MaskKind::boolean, causal, false, false, queries, keys, window}, f64);
      }
    }
  }
}

TEST(Cpu, AttentionIsTheMathOverTheGrid) { expect_grid(Device()); }
DEVICE_TEST(AttentionIsTheMathOverTheGrid) { expect_grid(on); }
TEST(Cpu, AttentionInWindowsIsTheMath) { expect_windows(Device()); }
DEVICE_TEST(AttentionInWindowsIsTheMath) { expect_windows(on); }

/// Heads, depths and widths of whole vectors of 16 bytes, as libraries of devices take them.
DEVICE_TEST(AttentionOf16BitVectorsIsTheMath) {
  for (const DType dtype : {f16, bf16}) {
    for (const bool grouped : {false, true}) {
      for (const auto& [queries, keys, causal] :
           {std::tuple<int64_t, int64_t, bool>{40, 33, false}, {48, 48, true}, {33, 33, true}, {17, 70, false}}) {
        expect_case(on, {MaskKind::none, causal, false, grouped, queries, keys}, dtype);
      }
    }
  }
}

// ---- packed sequences -----------------------------------------------------------------------------------------------

std::vector<int64_t> offsets_of(const std::vector<int64_t>& counts) {
  std::vector<int64_t> out{0};
  for (const int64_t n : counts) out.push_back(out.back() + n);
  return out;
}

/// One call for each sequence, joined.
Tensor in_a_loop(const Tensor& q, const Tensor& k, const Tensor& v, const std::vector<int64_t>& of_q,
                 const std::vector<int64_t>& of_k, const PackedAttentionArguments& a) {
  std::vector<Tensor> outputs;
  for (size_t i = 0; i + 1 < of_q.size(); ++i) {
    const auto part = [&](const Tensor& t, const std::vector<int64_t>& of) {
      return t.narrow(0, of[i], of[i + 1] - of[i]).unsqueeze(0);
    };
    outputs.push_back(attention(part(q, of_q), part(k, of_k), part(v, of_k),
                                {.causal = a.causal,
                                 .scale = a.scale,
                                 .alibi_slopes = a.alibi_slopes,
                                 .window = a.window,
                                 .backend = AttentionBackend::math})
                          .squeeze(0));
  }
  return cat(outputs, 0);
}

void expect_packed(Device on) {
  std::mt19937 random(8);
  const std::vector<int64_t> of_q = offsets_of({3, 0, 40, 1, 5}), of_k = offsets_of({4, 2, 50, 0, 5});
  for (const DType dtype : {f32, bf16, f64}) {
    for (const bool causal : {false, true}) {
      for (const auto backend : {AttentionBackend::math, AttentionBackend::fused}) {
        SCOPED_TRACE(std::string(name(dtype)) + (causal ? " causal " : " ") + name(backend));
        const auto make = [&](int64_t rows, int64_t heads) {
          return numbers({rows, heads, 8}, random).to(dtype).to(on);
        };
        const std::vector<Tensor> x{make(49, 4), make(61, 2), make(61, 2)};
        const Tensor g = make(49, 4);
        const PackedAttentionArguments a{.causal = causal,
                                         .scale = 0.4,
                                         .alibi_slopes = tensor(alibi_slopes(4)).to(f32).to(on),
                                         .window = {20, -1},
                                         .backend = backend};
        std::vector<Tensor> here, there;
        for (const Tensor& t : x) {
          here.push_back(t.detach().clone().requires_grad_());
          there.push_back(t.detach().clone().requires_grad_());
        }
        const Tensor expected = in_a_loop(here[0], here[1], here[2], of_q, of_k, a);
        const Tensor actual =
            attention_varlen(there[0], there[1], there[2], tensor(of_q).to(on), tensor(of_k).to(i32).to(on), a);
        expected.backward(g);
        actual.backward(g);
        const double tolerance = dtype == f64 ? 1e-12 : dtype == f32 ? 2e-5 : 2e-2;
        expect_close(actual, expected, tolerance, "out");
        for (size_t i = 0; i < 3; ++i) expect_close(there[i].grad(), here[i].grad(), tolerance, "gradient");
      }
    }
  }
}
TEST(Cpu, PackedAttentionEqualsAttentionPerSequence) { expect_packed(Device()); }
DEVICE_TEST(PackedAttentionEqualsAttentionPerSequence) { expect_packed(on); }

// ---- caches ---------------------------------------------------------------------------------------------------------

struct CacheCase {
  bool alibi;
  AttentionWindow window;
  int64_t heads, groups;
};

/// Tokens one after the other, with a few at once in between, give the rows of one call over all.
void expect_decoding(Device on, const CacheCase& c, DType dtype) {
  SCOPED_TRACE(std::string(name(dtype)) + (c.alibi ? " alibi" : "") + " window " + std::to_string(c.window.left) +
               " heads " + std::to_string(c.heads) + " " + std::to_string(c.groups));
  const NoGradGuard unrecorded;
  std::mt19937 random(4);
  const int64_t batch = 2, length = 45, depth = 8;
  const auto make = [&](int64_t heads) { return numbers({batch, length, heads, depth}, random).to(dtype).to(on); };
  const Tensor q = make(c.heads), k = make(c.groups), v = make(c.groups);
  const Tensor slopes = c.alibi ? tensor(alibi_slopes(c.heads)).to(f32).to(on) : Tensor();
  const Tensor expected = attention(q, k, v, {.causal = true, .alibi_slopes = slopes, .window = c.window});
  const CachedAttentionArguments a{.alibi_slopes = slopes, .window = c.window};
  KvCache cache(batch, length, c.groups, depth, {dtype, on});
  PagedKvCache pages(40, 4, c.groups, depth, {dtype, on});
  // Blocks of the two sequences alternate, so that none is contiguous with the next.
  const std::vector<int64_t> ids{pages.add_sequence(), pages.add_sequence()};
  const double tolerance = dtype == f32 ? 1e-5 : 1e-2;
  int64_t begin = 0;
  for (const int64_t n : {1, 7, 1, 1, 20, 2, 1, 3, 8, 1}) {
    const auto part = [&](const Tensor& t) { return t.narrow(1, begin, n); };
    const auto rows = [&](const Tensor& t) { return part(t).reshape({batch * n, t.size(2), depth}); };
    cache.append(part(k), part(v));
    const std::vector<int64_t> counts{n, n};
    pages.append(ids, rows(k), rows(v), counts);
    expect_close(attention(part(q), cache, a), part(expected), tolerance, "contiguous");
    expect_close(attention_varlen(rows(q), counts, ids, pages, a), rows(expected), tolerance, "paged");
    begin += n;
  }
  EXPECT_EQ(begin, length);
  EXPECT_THROW(cache.append(k.narrow(1, 0, 1), v.narrow(1, 0, 1)), IndexError);
}

void expect_decoding(Device on) {
  for (const bool alibi : {false, true}) {
    for (const AttentionWindow window : {AttentionWindow{}, {6, 0}}) {
      for (const auto& [heads, groups] : {std::pair<int64_t, int64_t>{4, 4}, {4, 2}, {12, 1}}) {
        for (const DType dtype : {f32, bf16, f16}) expect_decoding(on, {alibi, window, heads, groups}, dtype);
      }
    }
  }
}
TEST(Cpu, DecodingWithACacheEqualsTheRowsOfOneCall) { expect_decoding(Device()); }
DEVICE_TEST(DecodingWithACacheEqualsTheRowsOfOneCall) { expect_decoding(on); }

void expect_ragged(Device on) {
  const NoGradGuard unrecorded;
  std::mt19937 random(5);
  const std::vector<int64_t> lengths{200, 0, 3, 130}, counts{1, 0, 3, 2};
  const std::vector<int64_t> of_q = offsets_of(counts), of_k = offsets_of(lengths);
  const auto make = [&](int64_t rows, int64_t heads) { return numbers({rows, heads, 16}, random).to(f32).to(on); };
  const Tensor q = make(of_q.back(), 4), k = make(of_k.back(), 2), v = make(of_k.back(), 2);
  const Tensor expected = in_a_loop(q, k, v, of_q, of_k, {.causal = true});
  KvCache cache(4, 256, 2, 16, {f32, on});
  cache.append(k, v, lengths);
  expect_close(attention_varlen(q, counts, cache), expected, 1e-5, "contiguous");
  PagedKvCache pages(64, 16, 2, 16, {f32, on});
  std::vector<int64_t> ids;
  for (size_t i = 0; i < lengths.size(); ++i) ids.push_back(pages.add_sequence());
  pages.append(ids, k, v, lengths);
  expect_close(attention_varlen(q, counts, ids, pages), expected, 1e-5, "paged");
}
TEST(Cpu, SequencesOfDifferentLengthsShareACache) { expect_ragged(Device()); }
DEVICE_TEST(SequencesOfDifferentLengthsShareACache) { expect_ragged(on); }

}  // namespace
}  // namespace weft
