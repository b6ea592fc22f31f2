// safetensors: named tensors in one file, as the Python package of that name reads and writes them.
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

/// What becomes of tensors that are one: the same memory, dtype, shape and strides under several names.
enum class Tie : uint8_t {
  error,  ///< they are refused
  alias   ///< the first is written, the others are recorded in the metadata as "weft.alias.<name>" = its name
};

struct SaveOptions {
  Tie tie = Tie::error;
  /// Most bytes of host memory for packing views and for tensors on their way from a device. Contiguous tensors on the
  /// CPU need none.
  size_t buffer_bytes = size_t{16} << 20;
};

/// Writes the tensors (any dtype, device and strides) and the metadata. The same input gives the same bytes: tensors by
/// descending size of their dtype, then by name, row-major without gaps. The file is replaced atomically, so a failure
/// leaves an old one as it was. IoError, with tensor and byte where writing failed; ValueError for a tensor that is
/// undefined or on meta, a name or metadata that is not UTF-8, the name "__metadata__", metadata "weft.alias.…", and
/// for two tensors that share elements, unless they are one and `tie` allows it.
WEFT_API void save_file(const TensorMap& tensors, const Path& path, const Metadata& metadata = {},
                        const SaveOptions& options = {}, Location where = {});
/// The same bytes into a stream, which is never read, sought or asked for its position, and is flushed at the end. What
/// a failure leaves behind is too short to be loaded. Errors as save_file.
WEFT_API void save_stream(std::ostream& out, const TensorMap& tensors, const Metadata& metadata = {},
                          const SaveOptions& options = {}, Location where = {});

/// A tensor that is to come.
struct TensorEntry {
  std::string name;
  DType dtype;
  Dims shape;
};
using TensorSource = Callback<Tensor(const std::string& name)>;

/// Writes tensors that are made one at a time: `source` is called once for each name, in the order of the file, and
/// what it returned is dropped before the next call. `tie` says nothing here. Errors as save_file; DTypeError or
/// ShapeError for a tensor unlike its entry, ValueError for a name that occurs twice; what `source` throws passes
/// through.
WEFT_API void save_file(const std::vector<TensorEntry>& entries, const TensorSource& source, const Path& path,
                        const Metadata& metadata = {}, const SaveOptions& options = {}, Location where = {});
WEFT_API void save_stream(std::ostream& out, const std::vector<TensorEntry>& entries, const TensorSource& source,
                          const Metadata& metadata = {}, const SaveOptions& options = {}, Location where = {});

struct OpenOptions {
  /// Maps the file: elements are read when they are first used, and a file that another program truncates before then
  /// ends the process. Without it the whole file is read into memory at once: for files that may change.
  bool mmap = true;
};

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
  static SafeFile open(const Path& path, Location where = {}) { return open(path, {}, where); }
  static SafeFile open(const Path& path, const OpenOptions& options, Location where = {});

  /// In order, aliases included.
  std::vector<std::string> keys() const;
  /// Without what records aliases.
  const Metadata& metadata() const;
  /// Aliases, with the names of the tensors that they stand for.
  const std::map<std::string, std::string>& aliases() const;
  /// Number of bytes of all tensors.
  size_t data_bytes() const;
  /// KeyError for an unknown name.
  const Info& info(const std::string& name, Location where = {}) const;
  /// On the CPU the tensor is a view of the file's bytes where its address is aligned, else a copy. Writing to it never
  /// changes the file. KeyError for an unknown name, FormatError for a bool that is neither 0 nor 1.
  Tensor get(const std::string& name, Device device = {}, Location where = {}) const;
  /// The elements from `starts` to `ends`, one of each for every dimension; no other part of the tensor is read. Memory
  /// and errors as get; ShapeError for another number of starts or ends, IndexError unless 0 <= start <= end <= size.
  Tensor get_slice(const std::string& name, const Dims& starts, const Dims& ends, Device device = {},
                   Location where = {}) const;

 private:
  struct Contents;
  Shared<const Contents> contents_;
};

/// Every tensor of the file, or those named; an alias and what it stands for are one tensor. Errors as SafeFile's.
WEFT_API TensorMap load_file(const Path& path, Device device = {},
                             const std::optional<std::vector<std::string>>& names = {}, Location where = {});
/// `load_file(path, {}, {}, {.mmap = false})`: the file may change afterwards.
WEFT_API TensorMap load_file(const Path& path, Device device, const std::optional<std::vector<std::string>>& names,
                             const OpenOptions& options, Location where = {});

}  // namespace weft::io
