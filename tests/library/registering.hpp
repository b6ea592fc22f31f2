// Small ops that the tests register.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/weft.hpp>
#include <weft/backends/watch/observe.hpp>
#include <weft/ops/check_op.hpp>
#include <weft/ops/library.hpp>

#include "message_of.hpp"

namespace weft::testing {

inline Tensor doubles(std::initializer_list<double> values) {
  return tensor(std::span<const double>(values.begin(), values.size()), {static_cast<int64_t>(values.size())}, f64);
}

inline std::vector<double> elements(const Tensor& t) {
  const Tensor host = t.detach().to(Device());
  return (is_complex(t.dtype()) ? view_as_real(host) : host).to_vector<double>();
}

/// A cube by a loop over f64 elements, as a user's kernel has it.
inline Tensor cube_of(const Tensor& x, double scale) {
  const Tensor in = x.contiguous();
  Tensor out = empty(x.shape(), {x.dtype()});
  visit_dtype(x.dtype(), [&]<class T>() {
    if constexpr (std::is_floating_point_v<T>) {
      const T* from = in.data<T>();
      T* to = out.data<T>();
      for (int64_t i = 0; i < in.numel(); ++i) to[i] = static_cast<T>(scale) * from[i] * from[i] * from[i];
    }
  });
  return out;
}

inline std::vector<Values> cube_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), 2.0}, {make.tensor({4})}, {make.tensor({})}};
}

/// "name(x, scale=1.0)" with a kernel for f32 and f64 on the CPU.
inline OpBuilder cube(const char* name, Location where = {}) {
  OpBuilder op(name, where);
  op.schema("(x, scale: float = 1.0)")
      .kernel(DeviceType::cpu, {f32, f64}, cube_of)
      .infer_meta([](const Tensor& x, double) {
        return TensorMeta{x.shape(), x.dtype()};
      })
      .samples(cube_samples);
  return op;
}
inline Tensor cube_gradient(const OpGradient& g) {
  return 3 * g.attribute<double>("scale") * square(g.input("x")) * g.gradient();
}

}  // namespace weft::testing
