// Files for Python: safetensors, .npy, .npz and .pt.
#include <unordered_map>

#include "../io/npy.hpp"
#include "../io/npz.hpp"
#include "../io/pt.hpp"
#include "../io/safetensors.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

/// Makes Python objects of a .pt file's values: one object of what is one in the file.
class Objects {
 public:
  nb::object of(const io::PtValue& value) {
    const auto found = made_.find(value.identity());
    if (found != made_.end() && value.identity() != nullptr) return found->second;
    nb::object out = make(value);
    made_.emplace(value.identity(), out);
    return out;
  }

 private:
  nb::object make(const io::PtValue& value) {
    using Kind = io::PtValue::Kind;
    switch (value.kind()) {
      case Kind::none:
        return nb::none();
      case Kind::boolean:
        return nb::bool_(value.boolean());
      case Kind::integer:
        return nb::int_(value.integer());
      case Kind::floating:
        return nb::float_(value.number());
      case Kind::string:
      case Kind::device:
        return text(value.string());
      case Kind::bytes:
        return nb::bytes(value.string().data(), value.string().size());
      case Kind::tensor:
        return nb::cast(value.tensor());
      case Kind::dtype:
        return nb::borrow(dtype_objects[static_cast<int>(value.dtype())]);
      case Kind::dict:
        return dict(value);
      default:
        return items(value);
    }
  }
  static nb::object text(const std::string& s) {
    return nb::steal(Ref(PyUnicode_DecodeUTF8(s.data(), std::ssize(s), "surrogatepass")).release());
  }
  nb::object dict(const io::PtValue& value) {
    nb::dict out;
    for (const io::PtEntry& e : value.entries()) out[of(e.key)] = of(e.value);
    return out;
  }
  nb::object items(const io::PtValue& value) {
    nb::list out;
    for (const io::PtValue& item : value.items()) out.append(of(item));
    if (value.is(io::PtValue::Kind::set)) return nb::steal(Ref(PySet_New(out.ptr())).release());
    return value.is(io::PtValue::Kind::tuple) ? nb::object(nb::tuple(out)) : nb::object(out);
  }

  std::unordered_map<const void*, nb::object> made_;
};

nb::object load_pt(const std::string& path, Device device) {
  const Location where = here();
  io::PtValue value;
  {
    const WithoutGil others;
    value = io::load_pt(path, device, where);
  }
  return Objects().of(value);
}

}  // namespace

void bind_io(nb::module_& m) {
  m.def("_save_file", [](const io::TensorMap& tensors, const std::string& path, const io::Metadata& metadata) {
    const Location where = here();
    const WithoutGil others;
    io::save_file(tensors, path, metadata, where);
  });
  m.def("_load_file", [](const std::string& path, Device device) {
    const Location where = here();
    const WithoutGil others;
    return io::load_file(path, device, {}, where);
  });
  m.def("_metadata", [](const std::string& path) { return io::SafeFile::open(path, here()).metadata(); });
  m.def("_save_npy", [](const Tensor& tensor, const std::string& path) { io::save_npy(tensor, path, here()); });
  m.def("_load_npy", [](const std::string& path, Device device) { return io::load_npy(path, device, here()); });
  m.def("_save_npz", [](const io::TensorMap& tensors, const std::string& path, bool compressed) {
    const Location where = here();
    const WithoutGil others;
    io::save_npz(tensors, path, compressed, where);
  });
  m.def("_load_npz", [](const std::string& path, Device device) {
    const Location where = here();
    const WithoutGil others;
    return io::load_npz(path, device, where);
  });
  m.def("_load_pt", load_pt);
}

}  // namespace weft::python
