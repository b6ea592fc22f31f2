// The structures of DLPack 1.1, as other libraries lay them out.
#pragma once

#include <cstdint>

namespace weft::python::dlpack {

enum DeviceKind : int32_t { kind_cpu = 1, kind_cuda = 2 };
enum TypeCode : uint8_t {
  code_int = 0,
  code_uint = 1,
  code_float = 2,
  code_bfloat = 4,
  code_complex = 5,
  code_bool = 6,
  code_f8_e4m3fn = 10,
  code_f8_e4m3fnuz = 11,
  code_f8_e5m2 = 12,
  code_f8_e5m2fnuz = 13,
  code_f8_e8m0fnu = 14
};

struct DeviceOf {
  int32_t kind;
  int32_t index;
};
struct TypeOf {
  uint8_t code, bits;
  uint16_t lanes;
};
struct Array {
  void* data;
  DeviceOf device;
  int32_t rank;
  TypeOf type;
  int64_t* shape;
  /// In elements; null for row-major.
  int64_t* strides;
  uint64_t byte_offset;
};
struct Managed {
  Array array;
  void* context;
  void (*deleter)(Managed*);
};
struct Version {
  uint32_t major, minor;
};
enum Flags : uint64_t { read_only = 1, is_copied = 2 };
struct ManagedVersioned {
  Version version;
  void* context;
  void (*deleter)(ManagedVersioned*);
  uint64_t flags;
  Array array;
};

}  // namespace weft::python::dlpack
