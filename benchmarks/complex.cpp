// Complex arithmetic and Fourier transforms; benchmarks/peers/complex.py has the same cases in PyTorch and NumPy.
#include <functional>
#include <memory>
#include <optional>

#include "case.hpp"

namespace weft::bench {

namespace {

Tensor random(const Dims& shape, DType dtype) {
  const DType part = real_type(dtype);
  const Tensor re = randn(shape).to(part);
  return is_complex(dtype) ? complex(re, randn(shape).to(part)) : re;
}

void add(const std::string& name, const Dims& shape, DType dtype, std::function<void(const Tensor&)> f, double work,
         Rate rate) {
  const auto x = std::make_shared<std::optional<Tensor>>();
  add_case(
      name,
      [=] {
        if (!*x) *x = random(shape, dtype);
        f(**x);
      },
      Mode::no_grad, work, rate);
}

std::string size_of(const Dims& shape) {
  std::string text;
  for (const int64_t n : shape) text += (text.empty() ? "" : "x") + std::to_string(n);
  return text;
}

void add_transform_cases() {
  const Dims shapes[] = {Dims{1 << 20},      Dims{1000, 1024}, Dims{1000, 1000},
                         Dims{64, 256, 256}, Dims{1000003},    Dims{1024}};
  for (const DType dtype : {c128, c64}) {
    for (const Dims& shape : shapes) {
      const std::string name = std::string(weft::name(dtype)) + "." + size_of(shape);
      const double bytes = 2.0 * static_cast<double>(shape.product() * itemsize(dtype));
      add(
          "fft." + name, shape, dtype, [](const Tensor& x) { fft::fft(x); }, bytes, Rate::bytes);
      add(
          "rfft." + name, shape, real_type(dtype), [](const Tensor& x) { fft::rfft(x); }, bytes / 2, Rate::bytes);
      if (shape.size() == 3) {
        add(
            "fft2." + name, shape, dtype, [](const Tensor& x) { fft::fft2(x); }, bytes, Rate::bytes);
      }
    }
  }
}

void add_arithmetic_cases() {
  for (const DType dtype : {c64, c128}) {
    for (const int64_t n : {1000, 1000000}) {
      const auto name = [&](const char* op) {
        return std::string("complex.") + op + "." + weft::name(dtype) + "." + std::to_string(n);
      };
      const double bytes = static_cast<double>(n * itemsize(dtype));
      add(
          name("mul"), {n}, dtype, [](const Tensor& x) { x* x; }, 2 * bytes, Rate::bytes);
      add(
          name("add"), {n}, dtype, [](const Tensor& x) { x + x; }, 2 * bytes, Rate::bytes);
      add(
          name("conj"), {n}, dtype, [](const Tensor& x) { conj(x); }, 2 * bytes, Rate::bytes);
      add(
          name("abs"), {n}, dtype, [](const Tensor& x) { abs(x); }, 1.5 * bytes, Rate::bytes);
      add(
          name("exp"), {n}, dtype, [](const Tensor& x) { exp(x); }, 2 * bytes, Rate::bytes);
      add(
          name("sum"), {n}, dtype, [](const Tensor& x) { x.sum(); }, bytes, Rate::bytes);
    }
    for (const int64_t n : {32, 512}) {
      add(
          std::string("complex.matmul.") + weft::name(dtype) + "." + std::to_string(n), {n, n}, dtype,
          [](const Tensor& x) { matmul(x, x); }, 8.0 * static_cast<double>(n * n * n), Rate::flops);
    }
    add(
        std::string("complex.conj.") + weft::name(dtype) + ".512x512", {512, 512}, dtype,
        [](const Tensor& x) { conj(x); }, 2.0 * 512 * 512 * static_cast<double>(itemsize(dtype)), Rate::bytes);
  }
}

}  // namespace

void add_complex_cases() {
  add_transform_cases();
  add_arithmetic_cases();
}

}  // namespace weft::bench
