// safetensors: named tensors in one file, compatible with the Python package of that name.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "path.hpp"
#include "../tensor/callback.hpp"
#include "../tensor/dims.hpp"
#include "../tensor/index.hpp"
#include "../tensor/shared.hpp"

namespace weft::io {

using TensorMap = std::map<std::string, Tensor>;
using Metadata = std::map<std::string, std::string>;

/// Handling of tied tensors: several names with the same memory, dtype, shape and strides.
enum class Tie : uint8_t {
  error,  ///< raises ValueError
  alias   ///< writes the first, and records the others in the metadata as "weft.alias.<name>" = its name
};

struct SaveOptions {
  Tie tie = Tie::error;
  /// Maximum host memory in bytes for packing views and for copying tensors from a device. Contiguous CPU tensors need
  /// none.
  size_t buffer_bytes = size_t{16} << 20;
};

/// Writes the tensors (any dtype, device and strides) and the metadata. The same input gives the same bytes: tensors
/// are sorted by descending dtype size, then by name, row-major without gaps. The file is replaced atomically, so a
/// failure leaves the old file unchanged.
///
/// Raises IoError, with tensor and byte if a write failed. Raises ValueError for a tensor that is undefined or on meta,
/// and for two tensors that share elements, unless they are tied and `tie` allows it. Raises ValueError also for a name
/// or metadata that is not UTF-8, the name "__metadata__" and metadata "weft.alias.…".
WEFT_API void save_file(const TensorMap& tensors, const Path& path, const Metadata& metadata = {},
                        const SaveOptions& options = {}, Location where = {});
/// Writes the same bytes to a stream. The stream only needs to support writing; it is flushed at the end. After a
/// failure the output is too short to be loaded. Errors as save_file.
WEFT_API void save_stream(std::ostream& out, const TensorMap& tensors, const Metadata& metadata = {},
                          const SaveOptions& options = {}, Location where = {});

/// Name, dtype and shape of a tensor that is supplied later.
struct TensorEntry {
  std::string name;
  DType dtype;
  Dims shape;
};
using TensorSource = Callback<Tensor(const std::string& name)>;

/// Writes tensors that are created one at a time. `source` is called once for each name, in file order, and its result
/// is released before the next call. `tie` is ignored. Errors as save_file; DTypeError or ShapeError for a tensor that
/// differs from its entry, ValueError for a duplicate name. Exceptions of `source` are passed on.
WEFT_API void save_file(const std::vector<TensorEntry>& entries, const TensorSource& source, const Path& path,
                        const Metadata& metadata = {}, const SaveOptions& options = {}, Location where = {});
WEFT_API void save_stream(std::ostream& out, const std::vector<TensorEntry>& entries, const TensorSource& source,
                          const Metadata& metadata = {}, const SaveOptions& options = {}, Location where = {});

struct OpenOptions {
  /// Maps the file and reads elements lazily; if another program truncates the file before that, the process ends.
  /// Otherwise the whole file is read into memory at once, for files that may change.
  bool mmap = true;
};

/// An open safetensors file; everything except the elements is validated. Copies share the mapping.
class WEFT_API SafeFile {
 public:
  struct Info {
    DType dtype;
    Dims shape;
    /// Byte range [begin, end) from the start of the data.
    size_t begin, end;
  };

  /// Raises IoError if the file cannot be read, FormatError if it is malformed, and DTypeError or ShapeError for a
  /// dtype or rank that Weft lacks.
  static SafeFile open(const Path& path, Location where = {}) { return open(path, {}, where); }
  static SafeFile open(const Path& path, const OpenOptions& options, Location where = {});

  /// Names in sorted order, including aliases.
  std::vector<std::string> keys() const;
  /// The metadata without the alias records.
  const Metadata& metadata() const;
  /// Aliases, and for each the name of the stored tensor.
  const std::map<std::string, std::string>& aliases() const;
  /// Total bytes of all tensors.
  size_t data_bytes() const;
  /// Raises KeyError for an unknown name.
  const Info& info(const std::string& name, Location where = {}) const;
  /// Returns a tensor. On the CPU it is a view of the file's bytes if their address is aligned, else a copy. Writing to
  /// it never changes the file. Raises KeyError for an unknown name, and FormatError for a bool that is neither 0 nor
  /// 1.
  Tensor get(const std::string& name, Device device = {}, Location where = {}) const;
  /// Returns the elements from `starts` to `ends`, with one entry per dimension; reads only those. Memory and errors as
  /// get; ShapeError for another number of starts or ends, IndexError unless 0 <= start <= end <= size.
  Tensor get_slice(const std::string& name, const Dims& starts, const Dims& ends, Device device = {},
                   Location where = {}) const;

 private:
  struct Contents;
  Shared<const Contents> contents_;
};

/// Returns every tensor of the file, or the named ones. An alias and its stored tensor are the same tensor. Errors as
/// SafeFile.
WEFT_API TensorMap load_file(const Path& path, Device device = {},
                             const std::optional<std::vector<std::string>>& names = {}, Location where = {});
/// Same as `load_file(path, {}, {}, {.mmap = false})`: later changes of the file have no effect.
WEFT_API TensorMap load_file(const Path& path, Device device, const std::optional<std::vector<std::string>>& names,
                             const OpenOptions& options, Location where = {});

}  // namespace weft::io
