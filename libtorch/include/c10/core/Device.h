// Devices, layouts and memory formats.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include <weft/tensor/device.hpp>

namespace c10 {

enum class DeviceType : int8_t {
  CPU = 0,
  CUDA = 1,
  MKLDNN = 2,
  OPENGL = 3,
  OPENCL = 4,
  IDEEP = 5,
  HIP = 6,
  FPGA = 7,
  ORT = 8,
  XLA = 9,
  Vulkan = 10,
  Metal = 11,
  XPU = 12,
  MPS = 13,
  Meta = 14,
  HPU = 15,
  VE = 16,
  Lazy = 17,
  IPU = 18,
  PrivateUse1 = 19,
};
inline constexpr DeviceType kCPU = DeviceType::CPU, kCUDA = DeviceType::CUDA, kHIP = DeviceType::HIP,
                            kXLA = DeviceType::XLA, kMPS = DeviceType::MPS, kMeta = DeviceType::Meta,
                            kHPU = DeviceType::HPU, kXPU = DeviceType::XPU, kVulkan = DeviceType::Vulkan,
                            kMetal = DeviceType::Metal, kLazy = DeviceType::Lazy;
/// "cpu", or "CPU" in upper case.
std::string DeviceTypeName(DeviceType type, bool lower_case = false);
std::ostream& operator<<(std::ostream& out, DeviceType type);

using DeviceIndex = int8_t;

class Device {
 public:
  using Type = DeviceType;
  Device(DeviceType type, DeviceIndex index = -1) : type_(type), index_(index) {}
  Device(const weft::Device& device);
  /// Parses "cpu", "cuda", "cuda:1". Raises DeviceError for other texts.
  Device(const std::string& text);
  Device(const char* text) : Device(std::string(text)) {}

  DeviceType type() const { return type_; }
  DeviceIndex index() const { return index_; }
  bool has_index() const { return index_ != -1; }
  void set_index(DeviceIndex index) { index_ = index; }
  bool is_cpu() const { return type_ == DeviceType::CPU; }
  bool is_cuda() const { return type_ == DeviceType::CUDA; }
  bool is_meta() const { return type_ == DeviceType::Meta; }
  bool is_mps() const { return type_ == DeviceType::MPS; }
  bool is_xla() const { return type_ == DeviceType::XLA; }
  /// "cuda:1"
  std::string str() const;
  /// Raises DeviceError for a type that Weft has no backend for.
  operator weft::Device() const { return is_cpu() ? weft::Device() : device(); }
  friend bool operator==(const Device& a, const Device& b) { return a.type_ == b.type_ && a.index_ == b.index_; }

 private:
  weft::Device device() const;

  DeviceType type_;
  DeviceIndex index_ = -1;
};
std::ostream& operator<<(std::ostream& out, const Device& device);

enum class Layout : int8_t { Strided, Sparse, SparseCsr, Mkldnn };
inline constexpr Layout kStrided = Layout::Strided, kSparse = Layout::Sparse, kSparseCsr = Layout::SparseCsr,
                        kMkldnn = Layout::Mkldnn;
std::ostream& operator<<(std::ostream& out, Layout layout);

enum class MemoryFormat : int8_t { Contiguous, Preserve, ChannelsLast, ChannelsLast3d };
std::ostream& operator<<(std::ostream& out, MemoryFormat format);

}  // namespace c10

template <>
struct std::hash<c10::Device> {
  size_t operator()(const c10::Device& device) const noexcept {
    return static_cast<size_t>(device.type()) << 8 | static_cast<uint8_t>(device.index());
  }
};
