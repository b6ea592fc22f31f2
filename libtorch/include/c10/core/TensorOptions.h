// TensorOptions: dtype, device, layout and gradient of a new tensor, in the builder style.
#pragma once

#include <weft/tensor/tensor.hpp>

#include <c10/core/Device.h>
#include <c10/core/ScalarType.h>
#include <c10/util/Optional.h>

namespace c10 {

class TensorOptions {
 public:
  constexpr TensorOptions() = default;
  TensorOptions(ScalarType dtype) : dtype_(dtype) {}
  TensorOptions(weft::DType dtype) : dtype_(dtype) {}
  TensorOptions(Layout layout) : layout_(layout) {}
  TensorOptions(MemoryFormat format) : memory_format_(format) {}
  /// A Device, or its arguments. As templates, so that `TensorOptions({kCPU, 0})` is not ambiguous.
  template <class T>
    requires(std::is_constructible_v<Device, T> && !std::is_base_of_v<TensorOptions, std::remove_cvref_t<T>>)
  TensorOptions(T&& device) : device_(Device(std::forward<T>(device))) {}
  template <std::integral I>
  TensorOptions(DeviceType type, I index) : device_(Device(type, static_cast<DeviceIndex>(index))) {}
  TensorOptions(const weft::TensorOptions& options)
      : dtype_(options.dtype), device_(options.device), requires_grad_(options.requires_grad) {}

  [[nodiscard]] TensorOptions device(optional<Device> value) const { return with(&TensorOptions::device_, value); }
  [[nodiscard]] TensorOptions device(DeviceType type, DeviceIndex index) const { return device(Device(type, index)); }
  [[nodiscard]] TensorOptions device_index(DeviceIndex index) const { return device(Device(kCUDA, index)); }
  [[nodiscard]] TensorOptions dtype(optional<ScalarType> value) const { return with(&TensorOptions::dtype_, value); }
  template <class T>
  [[nodiscard]] TensorOptions dtype() const {
    return dtype(ScalarType::Make<T>());
  }
  [[nodiscard]] TensorOptions layout(optional<Layout> value) const { return with(&TensorOptions::layout_, value); }
  [[nodiscard]] TensorOptions requires_grad(optional<bool> value) const {
    return with(&TensorOptions::requires_grad_, value);
  }
  [[nodiscard]] TensorOptions pinned_memory(optional<bool> value) const {
    return with(&TensorOptions::pinned_memory_, value);
  }
  [[nodiscard]] TensorOptions memory_format(optional<MemoryFormat> value) const {
    return with(&TensorOptions::memory_format_, value);
  }
  /// These options, replaced by those that `other` sets.
  [[nodiscard]] TensorOptions merge_in(const TensorOptions& other) const;
  [[nodiscard]] TensorOptions merge_memory_format(optional<MemoryFormat> value) const {
    return value ? memory_format(value) : *this;
  }

  Device device() const { return device_.value_or(Device(kCPU)); }
  ScalarType dtype() const { return dtype_.value_or(get_default_dtype()); }
  Layout layout() const { return layout_.value_or(kStrided); }
  bool requires_grad() const { return requires_grad_.value_or(false); }
  bool pinned_memory() const { return pinned_memory_.value_or(false); }
  DeviceIndex device_index() const { return device().index(); }
  bool is_sparse() const { return layout() == kSparse; }
  bool has_device() const { return device_.has_value(); }
  bool has_dtype() const { return dtype_.has_value(); }
  bool has_layout() const { return layout_.has_value(); }
  bool has_requires_grad() const { return requires_grad_.has_value(); }
  bool has_pinned_memory() const { return pinned_memory_.has_value(); }
  bool has_memory_format() const { return memory_format_.has_value(); }
  optional<Device> device_opt() const { return device_; }
  optional<ScalarType> dtype_opt() const { return dtype_; }
  optional<Layout> layout_opt() const { return layout_; }
  optional<bool> requires_grad_opt() const { return requires_grad_; }
  optional<bool> pinned_memory_opt() const { return pinned_memory_; }
  optional<MemoryFormat> memory_format_opt() const { return memory_format_; }
  bool type_equal(const TensorOptions& other) const;

  /// The options of a Weft function. Raises NotImplementedError for a layout that Weft's constructors do not make.
  operator weft::TensorOptions() const {
    check_layout();
    return {.dtype = dtype_of(dtype_),
            .device = device_ ? weft::Device(*device_) : weft::Device(),
            .requires_grad = requires_grad()};
  }
  operator weft::LikeOptions() const {
    check_layout();
    return {.dtype = dtype_of(dtype_),
            .device = device_ ? optional<weft::Device>(*device_) : nullopt,
            .requires_grad = requires_grad()};
  }

 private:
  template <class T>
  TensorOptions with(optional<T> TensorOptions::*member, const optional<T>& value) const {
    TensorOptions copy = *this;
    copy.*member = value;
    return copy;
  }
  void check_layout() const {
    if (layout_ && *layout_ != kStrided) refuse_layout(*layout_);
  }
  [[noreturn]] static void refuse_layout(Layout layout);

  optional<ScalarType> dtype_;
  optional<Device> device_;
  optional<Layout> layout_;
  optional<bool> requires_grad_;
  optional<bool> pinned_memory_;
  optional<MemoryFormat> memory_format_;
};
std::ostream& operator<<(std::ostream& out, const TensorOptions& options);

inline TensorOptions dtype(ScalarType type) { return TensorOptions(type); }
template <class T>
TensorOptions dtype() {
  return TensorOptions(ScalarType::Make<T>());
}
inline TensorOptions device(Device device) { return TensorOptions(device); }
inline TensorOptions device_index(DeviceIndex index) { return TensorOptions().device_index(index); }
inline TensorOptions layout(Layout layout) { return TensorOptions(layout); }
inline TensorOptions memory_format(MemoryFormat format) { return TensorOptions(format); }
inline TensorOptions requires_grad(bool on = true) { return TensorOptions().requires_grad(on); }

}  // namespace c10
