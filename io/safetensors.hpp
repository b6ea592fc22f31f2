// safetensors: named tensors in one file, as the Python package of that name reads and writes them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "path.hpp"
#include "../tensor/dims.hpp"
#include "../tensor/index.hpp"
#include "../tensor/shared.hpp"

namespace weft::io {

using TensorMap = std::map<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;

/// Writes the tensors (any dtype, device and strides) and the metadata. The same input gives the same bytes: tensors by
/// descending size of their dtype, then by name, row-major without gaps. The file is replaced atomically, so a failure
/// leaves an old one as it was. IoError; ValueError for a tensor that is undefined or on meta, a name or metadata that
/// is not UTF-8, the name "__metadata__", and for two tensors that share memory.
WEFT_API void save_file(const TensorMap& tensors, const Path& path, const Metadata& metadata = {}, Location where = {});

/// A safetensors file, opened and fully checked except for the elements. Copies share the mapping.
class WEFT_API SafeFile {
 public:
  struct Info {
    DType dtype;
    Dims shape;
    /// Bytes [begin, end) from the start of the data.
    size_t begin, end;
  };

  /// IoError where the file cannot be read; FormatError where it is malformed in any way, DTypeError and ShapeError for
  /// a dtype or rank that Weft lacks.
  static SafeFile open(const Path& path, Location where = {});

  std::vector<std::string> keys() const;
  const Metadata& metadata() const;
  /// ValueError for an unknown name.
  const Info& info(const std::string& name, Location where = {}) const;
  /// On the CPU the tensor is a view of the mapped file where its address is aligned, else a copy. Writing to it never
  /// changes the file. ValueError for an unknown name, FormatError for a bool that is neither 0 nor 1.
  Tensor get(const std::string& name, Device device = {}, Location where = {}) const;

 private:
  struct Contents;
  Shared<const Contents> contents_;
};

/// Every tensor of the file, or those named. Errors as SafeFile's.
WEFT_API TensorMap load_file(const Path& path, Device device = {},
                             const std::optional<std::vector<std::string>>& names = {}, Location where = {});

}  // namespace weft::io
