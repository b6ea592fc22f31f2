#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/rows/cross_entropy.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <cmath>

#include "../kernels.hpp"
#include "../simd/lanes-inl.hpp"
#include "../lines.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

template <class A>
A& item(const View& view, int64_t i) {
  return *reinterpret_cast<A*>(bytes(view) + i * view.layout.strides[0]);
}

template <class A>
void losses_of_rows(const View& losses, const View& log_sum_exp, const View& logits, const View& targets,
                    int64_t ignore_index, double smoothing) {
  using L = Lanes<A>;
  constexpr A none = -infinity<A>;
  const int64_t rows = logits.layout.sizes[0], n = logits.layout.sizes[1];
  parallel_for(rows, rows_per_chunk(n), [&](int64_t begin, int64_t end) HWY_ATTR {
    const Scratch line(n * (int64_t)sizeof(A), needs_scratch<A>(logits.layout, 1));
    for (int64_t row = begin; row < end; ++row) {
      const A* x = read_line(line.as<A>(), bytes(logits) + row * logits.layout.strides[0], logits.layout.strides[1], n,
                             logits.layout.dtype);
      const A largest = max_of_line(x, n);
      const L shift(largest);
      const double sum =
          sum_lines<A>(n, [&](int64_t i, int64_t left) HWY_ATTR { return exp(L::load(x + i, left, none) - shift); });
      const double total = static_cast<double>(largest) + std::log(sum);
      if (log_sum_exp.data != nullptr) item<A>(log_sum_exp, row) = static_cast<A>(total);
      const int64_t target = item<int64_t>(targets, row);
      if (target == ignore_index) {
        item<A>(losses, row) = 0;
        continue;
      }
      double loss = total - static_cast<double>(x[target]);
      if (smoothing != 0) {
        const double all =
            sum_lines<A>(n, [&](int64_t i, int64_t left) HWY_ATTR { return L::load(x + i, left, largest) - shift; });
        loss = (1 - smoothing) * loss + smoothing * (std::log(sum) - all / static_cast<double>(n));
      }
      item<A>(losses, row) = static_cast<A>(loss);
    }
  });
}

template <class A>
void gradient_of_rows(const View& dlogits, const View& g, const View& logits, const View& log_sum_exp,
                      const View& targets, int64_t ignore_index, double smoothing) {
  using L = Lanes<A>;
  const int64_t rows = logits.layout.sizes[0], n = logits.layout.sizes[1];
  const Layout& out = dlogits.layout;
  parallel_for(rows, rows_per_chunk(n), [&](int64_t begin, int64_t end) HWY_ATTR {
    const Scratch line(n * (int64_t)sizeof(A), needs_scratch<A>(logits.layout, 1));
    const Scratch result(n * (int64_t)sizeof(A), needs_scratch<A>(out, 1));
    for (int64_t row = begin; row < end; ++row) {
      char* to = bytes(dlogits) + row * out.strides[0];
      A* dx = write_line(result.as<A>(), to, out.strides[1], n, out.dtype);
      const int64_t target = item<int64_t>(targets, row);
      if (target == ignore_index) {
        for (int64_t i = 0; i < n; ++i) dx[i] = 0;
      } else {
        const A* x = read_line(line.as<A>(), bytes(logits) + row * logits.layout.strides[0], logits.layout.strides[1],
                               n, logits.layout.dtype);
        const A gradient = item<A>(g, row);
        const A lse = item<A>(log_sum_exp, row);
        const A share = static_cast<A>(smoothing / static_cast<double>(n));
        const L shift(lse), scale(gradient), spread(share);
        alignas(64) A probability[lane_count];
        exp(L(x[target]) - shift).store(probability);  // before dx, which may be the same memory, is written
        const A hit = (probability[0] - share) - static_cast<A>(1 - smoothing);
        each_step(n, [&](int64_t i, int64_t left) HWY_ATTR {
          ((exp(L::load(x + i, left, A(0)) - shift) - spread) * scale).store(dx + i, left);
        });
        dx[target] = hit * gradient;
      }
      finish_line(dx, to, out.strides[1], n, out.dtype);
    }
  });
}

void losses_any(const View& losses, const View& log_sum_exp, const View& logits, const View& targets,
                int64_t ignore_index, double smoothing) {
  if (logits.layout.dtype == DType::f64) {
    losses_of_rows<double>(losses, log_sum_exp, logits, targets, ignore_index, smoothing);
  } else {
    losses_of_rows<float>(losses, log_sum_exp, logits, targets, ignore_index, smoothing);
  }
}
void gradient_any(const View& dlogits, const View& g, const View& logits, const View& log_sum_exp, const View& targets,
                  int64_t ignore_index, double smoothing) {
  if (logits.layout.dtype == DType::f64) {
    gradient_of_rows<double>(dlogits, g, logits, log_sum_exp, targets, ignore_index, smoothing);
  } else {
    gradient_of_rows<float>(dlogits, g, logits, log_sum_exp, targets, ignore_index, smoothing);
  }
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(losses_any);
HWY_EXPORT(gradient_any);

namespace {
void check(const View& logits, const View& per_row, const View& targets) {
  if (!is_computable_float(logits.layout.dtype)) unsupported("cross_entropy", logits);
  if (per_row.layout.dtype != compute_type(logits.layout.dtype)) unsupported("cross_entropy", per_row);
  if (targets.layout.dtype != DType::i64) unsupported("cross_entropy", targets);
}
}  // namespace

void cross_entropy(const View& losses, const View& log_sum_exp, const View& logits, const View& targets,
                   int64_t ignore_index, double label_smoothing) {
  check(logits, losses, targets);
  const int64_t rows = logits.layout.sizes[0], classes = logits.layout.sizes[1];
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t target = *reinterpret_cast<const int64_t*>(bytes(targets) + row * targets.layout.strides[0]);
    if (target != ignore_index && (target < 0 || target >= classes)) target_out_of_range(target, classes);
  }
  HWY_DYNAMIC_DISPATCH(losses_any)(losses, log_sum_exp, logits, targets, ignore_index, label_smoothing);
}

void cross_entropy_gradient(const View& dlogits, const View& g, const View& logits, const View& log_sum_exp,
                            const View& targets, int64_t ignore_index, double label_smoothing) {
  check(logits, g, targets);
  if (!is_computable_float(dlogits.layout.dtype)) unsupported("cross_entropy_gradient", dlogits);
  if (dlogits.layout.numel == 0) return;
  HWY_DYNAMIC_DISPATCH(gradient_any)(dlogits, g, logits, log_sum_exp, targets, ignore_index, label_smoothing);
}

}  // namespace weft::cpu
#endif
