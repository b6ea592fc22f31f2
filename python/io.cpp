// Files for Python: safetensors and .npy.
#include "../io/npy.hpp"
#include "../io/safetensors.hpp"

#include "caster.hpp"

namespace weft::python {

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
}

}  // namespace weft::python
