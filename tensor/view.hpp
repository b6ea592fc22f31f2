// Layout and View: the description of a tensor that kernels receive. They have the same C layout on the host, CUDA and
// HPU.
#pragma once

#include "number.hpp"

namespace weft {

/// Element types. The 8-bit floats are for storage and conversion: arithmetic raises DTypeError. c64 and c128 are
/// complex numbers of two f32 and two f64.
enum class DType : uint8_t {
  boolean,
  u8,
  i8,
  u16,
  i16,
  u32,
  i32,
  u64,
  i64,
  f16,
  bf16,
  f32,
  f64,
  f8_e4m3fn,
  f8_e5m2,
  f8_e4m3fnuz,
  f8_e5m2fnuz,
  f8_e8m0fnu,
  c64,
  c128
};
inline constexpr int dtype_count = 20;

/// The built-in device types. Plug-ins add theirs after them, up to device_type_count.
enum class DeviceType : uint8_t { cpu, cuda, hpu, meta, first_plugin };
inline constexpr int plugin_type_count = 8;
inline constexpr int device_type_count = static_cast<int>(DeviceType::first_plugin) + plugin_type_count;

inline constexpr int max_rank = 8;

/// Shape and strides of a strided array, without its address. Strides are signed and in bytes.
struct Layout {
  DType dtype = DType::f32;
  uint8_t rank = 0;
  /// Row-major without gaps. Layouts with 0 or 1 elements are contiguous.
  uint8_t contiguous = 1;
  DeviceType device_type = DeviceType::cpu;
  uint8_t device_index = 0;
  /// The data pointer refers to one element in host memory, on any device: a scalar operand of a kernel.
  uint8_t host_scalar = 0;
  uint8_t reserved[2] = {0, 0};
  int64_t numel = 1;
  int64_t sizes[max_rank];
  int64_t strides[max_rank];
};

/// A typed, strided view of memory that it does not own. `data` is the address of the first element.
struct View {
  void* data = nullptr;
  Layout layout;
};

}  // namespace weft
