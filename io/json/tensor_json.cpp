#include "../tensor_json.hpp"

#include <charconv>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "../../ops/create.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/reduce.hpp"
#include "../../tensor/checked.hpp"
#include "../../tensor/shortened.hpp"
#include "../../tensor/warning.hpp"
#include "decimal-inl.hpp"
#include "json_reader-inl.hpp"

namespace weft::io {

namespace {

using Json = nlohmann::json;

constexpr const char *writing = "tensors_to_json", *reading = "tensors_from_json";
constexpr double infinity = std::numeric_limits<double>::infinity();

// ---- writing --------------------------------------------------------------------------------------------------------

template <class T>
std::string element_text(T value, DType dtype) {
  if constexpr (std::is_same_v<T, bool>) return value ? "true" : "false";
  else if constexpr (std::is_integral_v<T>) return std::to_string(value);
  else if (std::isfinite(value)) return shortest_decimal(value, dtype);
  else return value != value ? "\"NaN\"" : value > 0 ? "\"Infinity\"" : "\"-Infinity\"";
}

std::string quoted(const std::string& text, Location where) {
  try {
    return Json(text).dump();
  } catch (const Json::type_error&) {
    raise<ValueError>({.op = writing, .problem = "a name or the metadata is not UTF-8"}, where);
  }
}

std::string data_text(const Tensor& tensor, Location where) {
  const DType dtype = tensor.dtype();
  const DType wide = is_floating(dtype) ? (dtype == DType::f64 ? DType::f64 : DType::f32) : dtype;
  const Tensor values = tensor.detach().to(Device(), where).to(wide, where).contiguous(where);
  std::string out;
  visit_dtype(wide, [&]<class T>() {
    if constexpr (std::is_arithmetic_v<T>) {
      const T* data = static_cast<const T*>(values.data_ptr());
      for (int64_t i = 0; i < values.numel(); ++i) {
        if (i > 0) out += ", ";
        out += element_text(data[i], dtype);
      }
    }
  });
  return out;
}

std::string tensor_text(const std::string& name, const Tensor& tensor, Location where) {
  if (!tensor.defined() || tensor.device().type == DeviceType::meta) {
    raise<ValueError>({.op = writing, .problem = fmt::format("\"{}\" has no values", shortened(name, 80))}, where);
  }
  if (is_complex(tensor.dtype())) {
    raise<DTypeError>({.op = writing,
                       .problem = fmt::format("\"{}\" is {}", shortened(name, 80), weft::name(tensor.dtype())),
                       .remedy = "write view_as_real of it"},
                      where);
  }
  std::string sizes;
  for (const int64_t size : tensor.shape()) sizes += (sizes.empty() ? "" : ", ") + std::to_string(size);
  return fmt::format("  {}: {{\"dtype\": \"{}\", \"shape\": [{}],\n   \"data\": [{}]}}", quoted(name, where),
                     weft::name(tensor.dtype()), sizes, data_text(tensor, where));
}

template <class Map, class Text>
std::string object_text(const Map& map, Text&& text) {
  std::string out;
  for (const auto& [name, value] : map) out += (out.empty() ? "\n" : ",\n") + text(name, value);
  return "{" + out + "}";
}

}  // namespace

std::string tensors_to_json(const TensorMap& tensors, const Metadata& metadata, Location where) {
  const auto entry = [&](const std::string& name, const std::string& value) {
    return fmt::format("  {}: {}", quoted(name, where), quoted(value, where));
  };
  const auto tensor = [&](const std::string& name, const Tensor& t) { return tensor_text(name, t, where); };
  return fmt::format("{{\"format_version\": \"1.0\",\n \"metadata\": {},\n \"tensors\": {}}}\n",
                     object_text(metadata, entry), object_text(tensors, tensor));
}

// ---- reading --------------------------------------------------------------------------------------------------------

namespace {

struct Elements {
  std::optional<DType> dtype;
  std::optional<Dims> shape;
  bool has_data = false;
  std::vector<std::byte> bytes;

  template <class T>
  void add(T value) {
    const auto* from = reinterpret_cast<const std::byte*>(&value);
    bytes.insert(bytes.end(), from, from + sizeof value);
  }
  /// Floats narrower than f32 are read as f32, rounded to odd, and converted at the end.
  DType held() const { return is_floating(*dtype) && itemsize(*dtype) < 4 ? DType::f32 : *dtype; }
};

/// Parses the text in one pass; numbers are parsed from their literals.
class Reader final : public JsonEvents {
 public:
  explicit Reader(Location where) : where_(where) {}
  JsonTensors out;

  bool boolean(bool value) override {
    if (ignored_ > 0) return true;
    if (place_ != Place::data || *now_.dtype != DType::boolean) return other("a bool");
    now_.add(value);
    return true;
  }
  bool number_integer(number_integer_t value) override {
    if (ignored_ > 0) return true;
    return place_ == Place::data ? integer(value) : other("a negative number");
  }
  bool number_unsigned(number_unsigned_t value) override {
    if (ignored_ > 0) return true;
    if (place_ == Place::data) return integer(value);
    if (place_ != Place::shape) return other("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max()) || now_.shape->size() == max_rank) {
      fail("the shape is too large");
    }
    now_.shape->push_back(static_cast<int64_t>(value));
    return true;
  }
  bool number_float(number_float_t, const string_t& text) override {
    if (ignored_ > 0) return true;
    if (place_ != Place::data || !is_floating(*now_.dtype)) return other("a fraction");
    add_float(text);
    return true;
  }
  bool string(string_t& value) override {
    if (ignored_ > 0) return true;
    if (place_ == Place::top && key_ == "format_version") return version(value);
    if (place_ == Place::metadata) return out.metadata.emplace(key_, std::move(value)).second || twice();
    if (place_ == Place::tensor && key_ == "dtype") return dtype(value);
    if (place_ != Place::data || !is_floating(*now_.dtype)) return other("a text");
    if (value == "NaN") add_special(std::numeric_limits<double>::quiet_NaN());
    else if (value == "Infinity" || value == "-Infinity") add_special(value == "Infinity" ? infinity : -infinity);
    else fail(fmt::format("\"{}\" is no number", shortened(value, 80)));
    return true;
  }

  bool start_object(size_t) override {
    if (ignored_ > 0) return ++ignored_, deep();
    if (place_ == Place::before) place_ = Place::top;
    else if (place_ == Place::top && key_ == "tensors" && !has_tensors_) place_ = Place::tensors, has_tensors_ = true;
    else if (place_ == Place::top && key_ == "metadata") place_ = Place::metadata;
    else if (place_ == Place::tensors) name_ = key_, now_ = {}, place_ = Place::tensor;
    else if ((place_ == Place::top && !is_known()) || (place_ == Place::tensor && !is_field())) ignored_ = 1;
    else return other("an object");
    return true;
  }
  bool key(string_t& name) override {
    if (ignored_ == 0) key_ = std::move(name);
    return true;
  }
  bool end_object() override {
    if (ignored_ > 0) return --ignored_, true;
    if (place_ == Place::tensor) finish(), place_ = Place::tensors;
    else place_ = place_ == Place::top ? Place::after : Place::top;
    return true;
  }
  bool start_array(size_t) override {
    if (ignored_ > 0) return ++ignored_, deep();
    if (place_ == Place::tensor && key_ == "shape" && !now_.shape)
      return now_.shape.emplace(), place_ = Place::shape, true;
    if (place_ == Place::tensor && key_ == "data" && !now_.has_data) {
      if (!now_.dtype || !now_.shape) fail("\"dtype\" and \"shape\" come before \"data\"");
      now_.has_data = true;
      place_ = Place::data;
      return true;
    }
    if ((place_ == Place::top && !is_known()) || (place_ == Place::tensor && !is_field())) return ignored_ = 1, true;
    return other("a list");
  }
  bool end_array() override {
    if (ignored_ > 0) return --ignored_, true;
    place_ = Place::tensor;
    return true;
  }
  void check_complete() const {
    if (!has_version_ || !has_tensors_) fail("there is no \"format_version\" or no \"tensors\"");
  }

 private:
  enum class Place : uint8_t { before, top, metadata, tensors, tensor, shape, data, after };

  void malformed(size_t byte) const override {
    raise<FormatError>({.op = reading, .problem = fmt::format("malformed JSON at byte {}", byte + 1)}, where_);
  }
  [[noreturn]] void fail(const std::string& problem) const override {
    const bool inside = place_ == Place::tensor || place_ == Place::shape || place_ == Place::data;
    const std::string place = inside ? fmt::format("tensors.{}", shortened(name_, 80)) : "the text";
    raise<FormatError>({.op = reading, .problem = fmt::format("{}: {}", place, problem)}, where_);
  }
  bool is_known() const { return key_ == "tensors" || key_ == "metadata" || key_ == "format_version"; }
  bool is_field() const { return key_ == "dtype" || key_ == "shape" || key_ == "data"; }
  bool other(const char* what) const override {
    if (ignored_ > 0) return true;
    if ((place_ == Place::top && !is_known()) || (place_ == Place::tensor && !is_field())) return true;
    if (place_ == Place::before) fail(fmt::format("{} is no object", what));
    fail(fmt::format("{} cannot represent \"{}\"", what, shortened(key_, 80)));
  }
  bool twice() const { fail(fmt::format("\"{}\" is there twice", shortened(key_, 80))); }
  bool deep() const {
    if (ignored_ > 500) fail("more than 500 levels of JSON");
    return true;
  }

  bool version(const std::string& text) {
    int major = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), major);
    if (error != std::errc() || end == text.data() + text.size() || *end != '.') fail("the version is none");
    if (major > 1) {
      raise<VersionError>(
          {.op = reading, .problem = fmt::format("the text is of version {}, newer than this program's 1.0", text)},
          where_);
    }
    has_version_ = true;
    return true;
  }
  bool dtype(const std::string& text) {
    if (now_.dtype) twice();
    now_.dtype = find_dtype(text);
    if (!now_.dtype || is_complex(*now_.dtype)) {
      fail(fmt::format("\"{}\" is no dtype of numbers here", shortened(text, 80)));
    }
    return true;
  }

  void add_special(double value) {
    held_as_float([&](auto tag) { now_.add(static_cast<decltype(tag)>(value)); });
  }
  void held_as_float(auto&& add) {
    if (now_.held() == DType::f64) add(double());
    else add(float());
  }
  void add_float(const std::string& text) {
    if (now_.held() == DType::f64) now_.add(std::strtod(text.c_str(), nullptr));
    else if (*now_.dtype == DType::f32) now_.add(std::strtof(text.c_str(), nullptr));
    else now_.add(odd_float(odd_double(text)));
  }

  template <class T>
  bool integer(T value) {
    visit_dtype(*now_.dtype, [&]<class E>() {
      if constexpr (std::is_same_v<E, bool>) other("a number");
      else if constexpr (std::is_integral_v<E>) {
        if (!std::in_range<E>(value)) fail(fmt::format("{} is out of range", value));
        now_.add(static_cast<E>(value));
      } else if constexpr (std::is_arithmetic_v<E>) now_.add(static_cast<E>(value));
      else now_.add(odd_float(value));
    });
    return true;
  }

  void finish() {
    if (!now_.has_data) fail("there is no \"data\"");
    Checked count = 1;
    for (const int64_t size : *now_.shape) count = count * size;
    const auto found = std::ssize(now_.bytes) / itemsize(now_.held());
    if (!count.fits() || count.value() != found) {
      fail(fmt::format("{} elements for the shape {}", found, now_.shape->text()));
    }
    Tensor values = empty(*now_.shape, {.dtype = now_.held()}, where_);
    if (found > 0) std::memcpy(values.data_ptr(), now_.bytes.data(), now_.bytes.size());
    if (now_.held() != *now_.dtype) values = narrowed(values);
    if (!out.tensors.emplace(name_, std::move(values)).second) fail("there are two of this name");
  }
  Tensor narrowed(const Tensor& values) const {
    const Tensor out_values = cast(Operand(values, where_), *now_.dtype, Overflow::ieee);
    if (!is_storage_only(*now_.dtype)) return out_values;
    const int64_t lost = (isnan(out_values) != isnan(values)).sum().item<int64_t>();
    if (lost > 0) {
      warn({.op = reading,
            .problem = fmt::format("{} numbers of \"{}\" are beyond {}", lost, name_, weft::name(*now_.dtype)),
            .details = "it has no infinity: they are NaN"},
           where_);
    }
    return out_values;
  }

  Location where_;
  Place place_ = Place::before;
  std::string key_, name_;
  Elements now_;
  int ignored_ = 0;
  bool has_tensors_ = false, has_version_ = false;
};

}  // namespace

JsonTensors tensors_from_json(std::string_view text, Location where) {
  Reader reader(where);
  reader.read(text, text.max_size());
  reader.check_complete();
  return std::move(reader.out);
}

}  // namespace weft::io
