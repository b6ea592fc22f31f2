// Names of devices, dtypes and layouts, and TensorOptions.
#include <algorithm>
#include <charconv>

#include <c10/core/Scalar.h>
#include <c10/core/TensorOptions.h>
#include <c10/util/Exception.h>

namespace c10 {

namespace {

struct DeviceName {
  DeviceType type;
  const char* name;
};
constexpr DeviceName device_names[] = {
    {DeviceType::CPU, "cpu"},       {DeviceType::CUDA, "cuda"},
    {DeviceType::MKLDNN, "mkldnn"}, {DeviceType::OPENGL, "opengl"},
    {DeviceType::OPENCL, "opencl"}, {DeviceType::IDEEP, "ideep"},
    {DeviceType::HIP, "hip"},       {DeviceType::FPGA, "fpga"},
    {DeviceType::ORT, "ort"},       {DeviceType::XLA, "xla"},
    {DeviceType::Vulkan, "vulkan"}, {DeviceType::Metal, "metal"},
    {DeviceType::XPU, "xpu"},       {DeviceType::MPS, "mps"},
    {DeviceType::Meta, "meta"},     {DeviceType::HPU, "hpu"},
    {DeviceType::VE, "ve"},         {DeviceType::Lazy, "lazy"},
    {DeviceType::IPU, "ipu"},       {DeviceType::PrivateUse1, "privateuseone"},
};

struct Counterpart {
  DeviceType type;
  weft::DeviceType weft;
};
constexpr Counterpart counterparts[] = {
    {DeviceType::CPU, weft::DeviceType::cpu},
    {DeviceType::CUDA, weft::DeviceType::cuda},
    {DeviceType::HPU, weft::DeviceType::hpu},
    {DeviceType::Meta, weft::DeviceType::meta},
};

DeviceType type_from_name(std::string_view name, const std::string& text) {
  for (const DeviceName& row : device_names) {
    if (name == row.name) return row.type;
  }
  throw weft::DeviceError("Invalid device string: '" + text + "'");
}

}  // namespace

std::string DeviceTypeName(DeviceType type, bool lower_case) {
  for (const DeviceName& row : device_names) {
    if (row.type != type) continue;
    std::string name = row.name;
    if (!lower_case) std::transform(name.begin(), name.end(), name.begin(), [](char c) { return std::toupper(c); });
    return name;
  }
  return "unknown";
}
std::ostream& operator<<(std::ostream& out, DeviceType type) { return out << DeviceTypeName(type, true); }

Device::Device(const weft::Device& device) : type_(DeviceType::PrivateUse1) {
  for (const Counterpart& row : counterparts) {
    if (row.weft == device.type) type_ = row.type;
  }
  index_ = weft::is_numbered(device.type) ? static_cast<DeviceIndex>(device.index) : DeviceIndex(-1);
}

Device::Device(const std::string& text) : type_(DeviceType::CPU) {
  const size_t colon = text.find(':');
  type_ = type_from_name(std::string_view(text).substr(0, colon), text);
  if (colon == text.npos) return;
  int index = -1;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, index);
  if (error != std::errc() || stop != end || index < 0 || index > 127) {
    throw weft::DeviceError("Invalid device string: '" + text + "'");
  }
  index_ = static_cast<DeviceIndex>(index);
}

std::string Device::str() const {
  const std::string name = DeviceTypeName(type_, true);
  return has_index() ? name + ":" + std::to_string(index_) : name;
}
std::ostream& operator<<(std::ostream& out, const Device& device) { return out << device.str(); }

weft::Device Device::device() const {
  for (const Counterpart& row : counterparts) {
    if (row.type == type_) return {row.weft, has_index() ? index_ : 0};
  }
  throw weft::DeviceError("[Device] Weft has no backend for " + str());
}

std::ostream& operator<<(std::ostream& out, Layout layout) {
  constexpr const char* names[] = {"Strided", "Sparse", "SparseCsr", "Mkldnn"};
  return out << names[static_cast<int>(layout)];
}
std::ostream& operator<<(std::ostream& out, MemoryFormat format) {
  constexpr const char* names[] = {"Contiguous", "Preserve", "ChannelsLast", "ChannelsLast3d"};
  return out << names[static_cast<int>(format)];
}

const char* toString(ScalarType type) {
#define NAME(name, dtype, cpp, text, ...) \
  if (type == ScalarType::name) return text;
  TORCH_SCALAR_TYPES(NAME)
#undef NAME
  return "Undefined";
}
const char* ScalarType::name() const {
#define NAME(name, dtype, cpp, text, meta) \
  if (*this == ScalarType::name) return meta;
  TORCH_SCALAR_TYPES(NAME)
#undef NAME
  return "nullptr (uninitialized)";
}
std::ostream& operator<<(std::ostream& out, ScalarType type) { return out << toString(type); }

std::ostream& operator<<(std::ostream& out, const Scalar& value) {
  if (value.isFloatingPoint()) return out << value.toDouble();
  if (value.isBoolean()) return out << (value.toBool() ? "true" : "false");
  if (value.isComplex()) return out << '(' << value.to_complex().re << ',' << value.to_complex().im << ')';
  return out << value.toLong();
}

TensorOptions TensorOptions::merge_in(const TensorOptions& other) const {
  TensorOptions merged = *this;
  const auto take = [&](auto member) {
    if (other.*member) merged.*member = other.*member;
  };
  take(&TensorOptions::dtype_);
  take(&TensorOptions::device_);
  take(&TensorOptions::layout_);
  take(&TensorOptions::requires_grad_);
  take(&TensorOptions::pinned_memory_);
  take(&TensorOptions::memory_format_);
  return merged;
}
bool TensorOptions::type_equal(const TensorOptions& other) const {
  return dtype() == other.dtype() && device().type() == other.device().type() && layout() == other.layout();
}
void TensorOptions::refuse_layout(Layout layout) {
  detail::throw_not_implemented(c10::str("[TensorOptions] layout ", layout, " is not supported: expected Strided.\n",
                                         "use a dense tensor, or Weft's own sparse products (docs/sparse.md)"));
}
std::ostream& operator<<(std::ostream& out, const TensorOptions& options) {
  return out << "TensorOptions(dtype=" << options.dtype().name() << (options.has_dtype() ? "" : " (default)")
             << ", device=" << options.device() << (options.has_device() ? "" : " (default)")
             << ", layout=" << options.layout() << (options.has_layout() ? "" : " (default)")
             << ", requires_grad=" << (options.requires_grad() ? "true" : "false")
             << (options.has_requires_grad() ? "" : " (default)") << ")";
}

}  // namespace c10
