#include "../npy.hpp"

#include <cstring>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../file.hpp"
#include "npy_format-inl.hpp"

namespace weft::io {

void save_npy(const Tensor& tensor, const Path& path, Location where) {
  const std::string header = npy_header(tensor, "save_npy", where);
  NoGradGuard unrecorded;
  const Tensor dense = tensor.to(Device(), where).contiguous(where);
  AtomicFile file(path, "save_npy", where);
  file.write(header.data(), header.size());
  file.write(dense.data_ptr(), static_cast<size_t>(dense.nbytes()));
  file.commit();
}

Tensor load_npy(const Path& path, Device device, Location where) {
  const ReadScope reading;
  const MappedFile file = MappedFile::open(path, "load_npy", where);
  const std::byte* at = file.bytes().data();
  const auto take = [&](void* to, size_t bytes) {
    if (bytes != 0) std::memcpy(to, at, bytes);
    at += bytes;
  };
  Tensor out = read_npy({"load_npy", {}, where, file.bytes().size(), take}, device);
  reading.check("load_npy", where);
  return out;
}

}  // namespace weft::io
