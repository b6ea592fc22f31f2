// A model in several safetensors files with an index, in the format of the Hugging Face libraries.
#pragma once

#include <concepts>

#include "mapping.hpp"
#include "tensor_store.hpp"

namespace weft::io {

/// A number of bytes, or a text such as "5GB", "500 MB" (powers of 1000) or "2GiB" (powers of 1024). Raises ValueError
/// for any other text, and for a number that is not positive.
class WEFT_API ByteCount {
 public:
  template <std::integral T>
  ByteCount(T bytes, Location where = {}) : ByteCount(std::to_string(bytes), where) {}
  ByteCount(const char* text, Location where = {}) : ByteCount(std::string(text), where) {}
  ByteCount(const std::string& text, Location where = {});
  int64_t value() const { return value_; }

 private:
  int64_t value_;
};

/// Named tensors in a significant order. A TensorMap converts in the order of its names.
struct TensorList : std::vector<std::pair<std::string, Tensor>> {
  using vector::vector;
  TensorList(const TensorMap& map) : vector(map.begin(), map.end()) {}
};

struct ShardOptions {
  ByteCount max_shard_size = "5GB";
  /// Prefix of the file names.
  std::string prefix = "model";
  /// The metadata of every file. Programs that load models expect "format".
  Metadata metadata = {{"format", "pt"}};
  Tie tie = Tie::error;
  /// As in SaveOptions.
  size_t buffer_bytes = size_t{16} << 20;
};

/// Writes the tensors to the folder, which is created if missing, and returns the names of the files. Tensors are
/// assigned in order: one that would make the current file exceed `max_shard_size` begins a new file, and a larger
/// tensor gets a separate file. A single file is "model.safetensors". Several are "model-00001-of-0000N.safetensors",
/// with "model.safetensors.index.json", written last, which maps each tensor to its file.
///
/// Existing files are replaced only when all new files are complete in the folder, so a failed write leaves an older
/// save unchanged; until then all new files are open. Obsolete files of an older save are removed at the end. Errors as
/// save_file; ValueError also for a duplicate name and for a prefix that is empty or contains a slash.
WEFT_API std::vector<std::string> save_sharded(const TensorList& tensors, const Path& folder,
                                               const ShardOptions& options = {}, Location where = {});

/// Same for tensors that are created one at a time, as in save_file: `source` is called once for each entry, and its
/// result is released before the next call. `tie` is ignored.
WEFT_API std::vector<std::string> save_sharded(const std::vector<TensorEntry>& entries, const TensorSource& source,
                                               const Path& folder, const ShardOptions& options = {},
                                               Location where = {});

/// Storage of CPU tensors.
enum class Offload : uint8_t {
  cpu,  ///< in memory
  disk  ///< in the mapped files, read on first access
};

struct LoadShardedOptions {
  Device device = {};
  /// Devices of the model's submodules. A key applies to the tensor of that name and to those below it ("layers.1" to
  /// "layers.1.weight" but not to "layers.10.weight"), "" to all; the longest key wins. Other tensors use `device`.
  std::map<std::string, Device> device_map = {};
  /// Target dtype of floating-point tensors; converted tensors are in memory regardless of `offload`.
  std::optional<DType> dtype = {};
  Offload offload = Offload::cpu;
  std::string prefix = "model";
  /// Uses the index if the folder has both an index and a single file; otherwise that is an error.
  bool prefer_index = false;
  /// Applied to the tensors of the files, which are then all mapped at once; the keys of `device_map` are mapped names.
  /// Each result has separate memory, except with Offload::disk, where results may be views of the same bytes of a
  /// file.
  std::optional<Mapping> mapping = {};
};

/// Loads a folder that save_sharded or a compatible program wrote. With Offload::cpu at most one file is mapped at a
/// time. Everything except the elements is checked before the first tensor is created.
///
/// Raises IoError if the folder has neither an index nor a single file. Raises FormatError for a malformed index, and
/// for a total_size that differs from the number of bytes. Also for a file that is missing or named by an absolute path
/// or "..". Raises FormatError also if the names in a file differ from those in the index. Raises ValueError if both an
/// index and a single file exist. Raises KeyError for a key of `device_map` that matches no tensor, DTypeError for a
/// `dtype` that is not floating-point, and the errors of load_file and Mapping::apply.
WEFT_API TensorMap load_sharded(const Path& folder, const LoadShardedOptions& options = {}, Location where = {});

/// Opens such a folder for reading single tensors or slices. All files are checked, and stay mapped as long as the
/// store exists. Errors as load_sharded.
WEFT_API TensorStore open_sharded(const Path& folder, const std::string& prefix = "model", bool prefer_index = false,
                                  Location where = {});

}  // namespace weft::io
