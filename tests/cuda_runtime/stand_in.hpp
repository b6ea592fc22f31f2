// Common to the replacements of NVIDIA's libraries: elements of any float type as doubles, and work in a stream's
// order.
#pragma once

#include <library_types.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>

#include <cuda_runtime_api.h>

#include "../../tensor/number.hpp"

namespace weft::testing {

inline int64_t bytes_of(cudaDataType_t type) { return type == CUDA_R_64F ? 8 : (type == CUDA_R_32F ? 4 : 2); }

inline double load(const void* data, cudaDataType_t type, int64_t i) {
  switch (type) {
    case CUDA_R_64F:
      return static_cast<const double*>(data)[i];
    case CUDA_R_32F:
      return static_cast<const float*>(data)[i];
    case CUDA_R_16F:
      return to_float(static_cast<const float16*>(data)[i]);
    default:
      return to_float(static_cast<const bfloat16*>(data)[i]);
  }
}

inline void store(void* data, cudaDataType_t type, int64_t i, double x) {
  switch (type) {
    case CUDA_R_64F:
      static_cast<double*>(data)[i] = x;
      break;
    case CUDA_R_32F:
      static_cast<float*>(data)[i] = static_cast<float>(x);
      break;
    case CUDA_R_16F:
      static_cast<float16*>(data)[i] = to_float16(static_cast<float>(x));
      break;
    default:
      static_cast<bfloat16*>(data)[i] = to_bfloat16(static_cast<float>(x));
  }
}

/// Rounds to TF32's ten bits behind the point.
inline double to_tf32(double x) {
  const auto bits = std::bit_cast<uint32_t>(static_cast<float>(x));
  if (!std::isfinite(x)) return x;
  return std::bit_cast<float>((bits + 0xfff + (bits >> 13 & 1)) & ~uint32_t{0x1fff});
}

inline bool is_aligned(const void* data, int64_t bytes) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(bytes) == 0;
}

/// Runs `work` on the host in the stream's order; as often as a graph of it does.
inline bool run_on(cudaStream_t stream, std::function<void()> work) {
  static std::mutex mutex;
  static auto* const all = new std::list<std::function<void()>>;
  std::function<void()>* kept = nullptr;
  {
    const std::lock_guard lock(mutex);
    kept = &all->emplace_back(std::move(work));
  }
  const auto call = [](void* function) { (*static_cast<std::function<void()>*>(function))(); };
  return cudaLaunchHostFunc(stream, call, kept) == cudaSuccess;
}

}  // namespace weft::testing
