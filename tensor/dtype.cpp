#include "dtype.hpp"

#include <charconv>

#include <fmt/format.h>

#include "atomic.hpp"
#include "device.hpp"
#include "device_kinds.hpp"
#include "error.hpp"
#include "scalar.hpp"
#include "version.hpp"

#define WEFT_TEXT_OF(x) #x
#define WEFT_TEXT(x) WEFT_TEXT_OF(x)

namespace weft {

#ifdef _GLIBCXX_DEBUG
namespace detail {
const char compile_weft_with_GLIBCXX_DEBUG_or_use_GLIBCXX_ASSERTIONS = 0;
}
#endif

const char* version() {
  return WEFT_TEXT(WEFT_VERSION_MAJOR) "." WEFT_TEXT(WEFT_VERSION_MINOR) "." WEFT_TEXT(WEFT_VERSION_PATCH);
}

namespace {
constexpr const char* dtype_names[dtype_count] = {
    "bool",      "uint8",         "int8",        "uint16",          "int16",           "uint32",
    "int32",     "uint64",        "int64",       "float16",         "bfloat16",        "float32",
    "float64",   "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz", "float8_e5m2fnuz", "float8_e8m0fnu",
    "complex64", "complex128"};
// Names of plug-in types are null until the plug-in is loaded.
constinit Atomic<const char*> device_names[device_type_count] = {"cpu", "cuda", "hpu", "meta"};

const char* kind_name(DeviceType type) {
  const char* known = device_names[static_cast<int>(type)].load(MemoryOrder::acquire);
  return known != nullptr ? known : "unknown";
}
}  // namespace

constinit Atomic<DType> detail::process_default_dtype = DType::f32;

void detail::raise_complex_number() {
  raise<DTypeError>({.op = current_call.op != nullptr ? nullptr : "Scalar",
                     .problem = "a real number does not hold the imaginary parts of a complex one",
                     .remedy = "take real(x), imag(x) or abs(x)"});
}

void set_default_dtype(DType dtype, Location where) {
  if (!is_floating(dtype) || is_storage_only(dtype)) {
    raise<DTypeError>({.op = "set_default_dtype",
                       .problem = fmt::format("{} cannot be the default", name(dtype)),
                       .remedy = "it is one of float16, bfloat16, float32 and float64"},
                      where);
  }
  detail::process_default_dtype.store(dtype, MemoryOrder::relaxed);
}

void detail::name_device_type(DeviceType type, const char* name) {
  device_names[static_cast<int>(type)].store(name, MemoryOrder::release);
}

const char* name(DType t) { return dtype_names[static_cast<int>(t)]; }

std::optional<DType> find_dtype(std::string_view wanted) {
  for (int i = 0; i < dtype_count; ++i) {
    if (wanted == dtype_names[i]) return static_cast<DType>(i);
  }
  return {};
}

DType dtype_from_name(const char* wanted, Location where) {
  if (const auto found = find_dtype(wanted)) return *found;
  raise<ValueError>({.op = "dtype", .problem = fmt::format("unknown dtype '{}'", wanted)}, where);
}

DType promote(DType a, DType b, Location where) {
  if (a == b) return a;
  if (a > b) std::swap(a, b);  // now b is the later in the enumeration
  const auto refuse = [&]() -> DType {
    raise<DTypeError>({.op = detail::current_call.op != nullptr ? nullptr : "promote",
                       .problem = fmt::format("{} and {} have no common type", name(a), name(b)),
                       .remedy = "convert one operand with to(dtype)"},
                      where);
  };
  if (a == DType::boolean) return b;
  if (is_complex(b)) return is_storage_only(a) ? refuse() : a == DType::f64 || a == DType::c128 ? DType::c128 : b;
  if (is_floating(b)) {
    if (is_storage_only(b) && is_floating(a)) return refuse();
    if (!is_floating(a)) return b;
    if (a == DType::f16 && b == DType::bf16) return DType::f32;
    return b;
  }
  if (is_signed(a) == is_signed(b)) return itemsize(a) > itemsize(b) ? a : b;
  const DType signed_type = is_signed(a) ? a : b;
  const DType unsigned_type = is_signed(a) ? b : a;
  if (unsigned_type == DType::u64) return refuse();
  if (itemsize(signed_type) > itemsize(unsigned_type)) return signed_type;
  return unsigned_type == DType::u8 ? DType::i16 : unsigned_type == DType::u16 ? DType::i32 : DType::i64;
}

namespace {

std::optional<DeviceType> find_kind(std::string_view wanted) {
  for (int i = 0; i < device_type_count; ++i) {
    const char* const known = device_names[i].load(MemoryOrder::acquire);
    if (known != nullptr && wanted == known) return static_cast<DeviceType>(i);
  }
  return {};
}

std::string known_kinds() {
  std::string kinds;
  for (const DeviceType type : device_kinds()) {
    kinds += fmt::format("{}{}{}", kinds.empty() ? "" : ", ", kind_name(type), is_numbered(type) ? "[:index]" : "");
  }
  return kinds;
}

}  // namespace

std::vector<DeviceType> device_kinds() {
  detail::load_plugins_of_environment();
  return detail::named_kinds();
}

std::vector<DeviceType> detail::named_kinds() {
  std::vector<DeviceType> kinds;
  for (int i = 0; i < device_type_count; ++i) {
    if (device_names[i].load(MemoryOrder::acquire) != nullptr) kinds.push_back(static_cast<DeviceType>(i));
  }
  return kinds;
}

std::vector<DeviceType> accelerator_kinds() {
  std::vector<DeviceType> kinds = device_kinds();
  std::erase_if(kinds, [](DeviceType type) { return !is_numbered(type); });
  return kinds;
}

Device::Device(std::string_view text, Location where) {
  const size_t colon = text.find(':');
  const std::string_view kind = text.substr(0, colon);
  std::optional<DeviceType> known = find_kind(kind);
  if (!known) {
    detail::load_plugins_of_environment();
    known = find_kind(kind);
  }
  type = known.value_or(DeviceType::cpu);
  unsigned number = 0;
  bool ok = known.has_value();
  if (colon != std::string_view::npos) {
    const std::string_view digits = text.substr(colon + 1);
    const char* const end = digits.data() + digits.size();
    const auto [rest, error] = std::from_chars(digits.data(), end, number);
    ok = ok && digits.size() <= 2 && error == std::errc() && rest == end;
    ok = ok && (number == 0 || is_numbered(type));
  }
  if (!ok) {
    raise<DeviceError>({.op = "device",
                        .problem = fmt::format("unknown device '{}'", text.substr(0, 40)),
                        .remedy = "use one of " + known_kinds()},
                       where);
  }
  index = static_cast<uint8_t>(number);
}

std::string Device::name() const {
  const char* kind = kind_name(type);
  return is_numbered(type) ? fmt::format("{}:{}", kind, index) : kind;
}

}  // namespace weft
