// The rotation of one line by pairs, shared by the kernels that rotate.
#pragma once

#include <cstdint>

namespace weft::cpu {

/// y may be x. See KernelTable::rotary.
void rotate_line(float* y, const float* x, const float* cos, const float* sin, int64_t n, bool interleaved,
                 bool inverse);
void rotate_line(double* y, const double* x, const double* cos, const double* sin, int64_t n, bool interleaved,
                 bool inverse);

}  // namespace weft::cpu
