#include "common.hpp"

#include <algorithm>

#include "../../backends/watch/observe.hpp"
#include "../../backends/watch/recorded_kernel.hpp"
#include "../../tensor/capture_recorder.hpp"
#include "../complex.hpp"
#include "../detail/promote.hpp"
#include "../reduce.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::linalg {

namespace {

/// A call that a recorded step runs again.
class KeptCall final : public RecordedKernel {
 public:
  KeptCall(const char* name, std::span<const View> all, size_t written, Kernel kernel_function, bool first, bool second,
           bool in_batches)
      : RecordedKernel(name),
        all_(all.begin(), all.end()),
        function_(kernel_function),
        first_(first),
        second_(second),
        in_batches_(in_batches) {
    detail::CallBytes bytes(attributes);
    bytes.add(reinterpret_cast<uintptr_t>(kernel_function));
    bytes.add(first), bytes.add(second);
    for (size_t k = 0; k < all_.size(); ++k) {
      bytes.add(all_[k].layout), bytes.add(all_[k].data != nullptr);
      if (all_[k].data == nullptr) continue;
      views.push_back(&all_[k]);
      outputs += k < written ? 1 : 0;
    }
  }
  void run() override { function_(all_.data(), first_, second_); }
  bool put_examples(int64_t count, std::span<const int64_t> steps) override {
    if (!in_batches_) return false;
    std::vector<Layout> layouts;
    for (size_t i = 0; i < views.size(); ++i) {
      Layout& layout = layouts.emplace_back(views[i]->layout);
      if (!put_along(layout, 0, count, steps[i]) || layout.contiguous < views[i]->layout.contiguous) return false;
    }
    for (size_t i = 0; i < views.size(); ++i) views[i]->layout = layouts[i];
    return true;
  }

 private:
  std::vector<View> all_;
  Kernel function_;
  bool first_, second_, in_batches_;
};

}  // namespace

void check_matrix(const Tensor& x) {
  if (checked(x).dim() >= 2) return;
  raise_rank("", "a matrix or a batch of matrices", x);
}
void check_square(const Tensor& x) {
  check_matrix(x);
  if (x.size(-2) == x.size(-1)) return;
  raise_rank("", "square matrices", x);
}
void check_numbers(const Tensor& x) {
  if (!is_complex(checked(x).dtype())) check_floating(x);
}
void check_alike(const Tensor& a, const Tensor& b) {
  check_same_device({&checked(a), &checked(b)});
  check_numbers(a);
  check_numbers(b);
  expect_one_dtype("operands", a, b, "convert one with to(dtype)");
}

Tensor brought(const Tensor& x) {
  check_numbers(x);
  const Tensor wide = to_compute_type(x);
  return is_meta(x) ? wide : wide.to(Device());
}

Dims batch_of(const Tensor& x) {
  return Dims(std::span<const int64_t>(x.sizes()).first(static_cast<size_t>(x.dim() - 2)));
}
Dims with(Dims batch, std::initializer_list<int64_t> more) {
  for (const int64_t n : more) batch.push_back(n);
  return batch;
}
Tensor are_negligible(const Tensor& x, const Tensor& scale) {
  return abs(x) <= 10.0 * static_cast<double>(x.size(-1)) * machine_epsilon(real_type(x.dtype())) * scale;
}

Tensor over_differences(const Tensor& x, const Tensor& values, const Tensor& influence, const Tensor& scale) {
  if (x.numel() == 0) return x;
  const Tensor apart = by_columns(values) - by_rows(values);
  Tensor left_out = eye(x.size(-1), {}, {DType::boolean, x.device()});
  {
    const NoGradGuard unrecorded;
    const Tensor equal = are_negligible(apart, by_rows(amax(abs(values), {-1}, true)));
    const Tensor own = abs(scale.diagonal(0, -2, -1));
    const Tensor independent = are_negligible(influence, maximum(by_rows(own), by_columns(own)));
    left_out = logical_or(left_out, logical_and(equal, logical_and(independent, independent.transpose(-2, -1))));
  }
  return masked_fill(x / masked_fill(apart, left_out, 1), left_out, 0);
}

Dims common_batch(const Tensor& a, const Tensor& b) {
  const auto both = broadcast(batch_of(a), batch_of(b));
  if (both) return *both;
  raise<ShapeError>(
      {.problem = fmt::format("the batches of {} and {} do not broadcast", a.shape().text(), b.shape().text())});
}

View batched(const Tensor& t, int count) {
  View view = t.raw_view();
  const Layout from = view.layout;
  Layout& l = view.layout;
  const int before = from.rank - count;
  int64_t batch = 1, item = itemsize(from.dtype);
  for (int d = 0; d < before; ++d) batch *= from.sizes[d];
  for (int d = 0; d < count; ++d) {
    l.sizes[d + 1] = from.sizes[before + d];
    l.strides[d + 1] = from.strides[before + d];
    item *= from.sizes[before + d];
  }
  l.rank = static_cast<uint8_t>(count + 1);
  l.sizes[0] = batch;
  l.strides[0] = item;
  return view;
}

Tensor dense(const Tensor& x, const Dims& batch) {
  const NoGradGuard unrecorded;
  return x.detach().expand(with(batch, {x.size(-2), x.size(-1)})).contiguous();
}
Tensor dense_copy(const Tensor& x, const Dims& batch) {
  const NoGradGuard unrecorded;
  const Tensor out = make(with(batch, {x.size(-2), x.size(-1)}), x.dtype(), x.device());
  if (out.numel() != 0) WEFT_KERNEL(copy, out)(out.raw_view(), broadcast_view(x.raw_view(), out.sizes()));
  return out;
}

void run(const char* name, std::initializer_list<View> outputs, std::initializer_list<View> inputs, Kernel kernel,
         bool first, bool second, bool in_batches) {
  if (outputs.begin()->layout.device_type == DeviceType::meta) return;
  const auto is_empty = [](const View& v) { return v.data == nullptr || v.layout.numel == 0; };
  if (std::ranges::all_of(outputs, is_empty)) return;
  constexpr size_t max_views = 8;
  View views[max_views];
  const View* pointers[max_views];
  size_t count = 0;
  for (const auto& list : {outputs, inputs}) {
    for (const View& v : list) {
      views[count] = v;
      pointers[count] = &views[count];
      ++count;
    }
  }
  if (WEFT_UNLIKELY(detail::capture_recorder != nullptr)) {
    detail::kernel_recorder().record(std::make_unique<KeptCall>(name, std::span<const View>(views, count),
                                                                outputs.size(), kernel, first, second, in_batches));
  }
  const auto call = [&] { kernel(views, first, second); };
  if (WEFT_LIKELY(!detail::kernels_are_observed())) return call();
  const std::span<const View* const> all(pointers, count);
  detail::run_observed(name, all.first(outputs.size()), all.subspan(outputs.size()), call);
}

namespace {

/// Calls raise(number of the matrix, its info) for the first that is not 0.
template <class F>
void find_failure(const Tensor& info, F raise_for) {
  if (is_meta(info)) return;
  check_elements([info, raise_for] {
    const auto* codes = static_cast<const int32_t*>(info.raw_view().data);
    for (int64_t i = 0; i < info.numel(); ++i) {
      if (WEFT_UNLIKELY(codes[i] != 0)) raise_for(i, codes[i], info.dim() == 0);
    }
  });
}
std::string matrix_number(int64_t i, bool alone) {
  return alone ? std::string("the matrix") : fmt::format("matrix {} of the batch", i);
}

}  // namespace

void check_info(const Tensor& info, const char* problem) {
  find_failure(info, [problem](int64_t i, int32_t code, bool alone) {
    raise<LinAlgError>(
        {.problem = fmt::format("{} {}", matrix_number(i, alone), fmt::format(fmt::runtime(problem), code))});
  });
}
void check_converged(const Tensor& info) {
  find_failure(info, [](int64_t i, int32_t code, bool alone) {
    raise<LinAlgError>(
        {.problem = code < 0 ? fmt::format("{} has elements that are not finite", matrix_number(i, alone))
                             : fmt::format("{} values of {} did not converge", code, matrix_number(i, alone))});
  });
}

void check_phase(const Tensor& product) {
  const NoGradGuard unrecorded;
  if (!is_complex(product.dtype()) || product.numel() == 0 || is_meta(product)) return;
  check_elements([p = product.detach()] {
    const NoGradGuard still;
    const double turn = max(abs(imag(p.diagonal(0, -2, -1)))).item<double>(), size = max(abs(p)).item<double>();
    if (turn <= 1e-2 * std::max(size, 1.0)) return;
    raise<AutogradError>({.problem = "the loss depends on the phase of complex vectors, which is any",
                          .remedy = "use values that no phase changes, such as abs(vectors)"});
  });
}

}  // namespace weft::linalg
