// The same test on ranks of every kind: threads of worlds of several sizes or, under mpirun, processes.
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>

#include <weft/distributed.hpp>
#include <weft/weft.hpp>

#include <tensor_bytes.hpp>

namespace weft::distributed {

inline bool under_mpirun() { return std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr; }

inline void on_all_ranks(const std::function<void(const Group&)>& body) {
  if (under_mpirun()) return body(world());
  for (const int ranks : {1, 2, 3, 4, 8}) {
    SCOPED_TRACE(::testing::Message() << ranks << " ranks");
    LocalWorld(ranks, {.timeout_seconds = 60}).run(body);
  }
}

/// The data of rank r; the same on every rank.
inline Tensor input_of(int r, const Dims& shape, DType dtype = f32) {
  Generator generator(100 + static_cast<uint64_t>(r));
  const GeneratorGuard guard(generator);
  if (dtype == boolean) return (randn(shape) > 0.3).to(boolean);
  if (!is_floating(dtype)) return (rand(shape) * 7).to(dtype);
  return randn(shape).to(dtype);
}

inline bool same_bits(const Tensor& a, const Tensor& b) {
  return a.dtype() == b.dtype() && a.shape() == b.shape() && bytes_of(a) == bytes_of(b);
}

inline const std::vector<DType> all_dtypes = {boolean, u8,  i8,   u16, i16, u32,       i32,    u64,
                                              i64,     f16, bf16, f32, f64, f8_e4m3fn, f8_e5m2};

}  // namespace weft::distributed
