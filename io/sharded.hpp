// A model in several safetensors files with an index, named and written as the Hugging Face libraries do.
#pragma once

#include <concepts>

#include "mapping.hpp"
#include "tensor_store.hpp"

namespace weft::io {

/// A number of bytes, or a text such as "5GB", "500 MB" (powers of 1000) or "2GiB" (powers of 1024). ValueError for any
/// other text, and for a number that is not positive.
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

/// Tensors by name in an order that matters. A TensorMap is in the order of its names.
struct TensorList : std::vector<std::pair<std::string, Tensor>> {
  using vector::vector;
  TensorList(const TensorMap& map) : vector(map.begin(), map.end()) {}
};

struct ShardOptions {
  ByteCount max_shard_size = "5GB";
  /// What the names of the files begin with.
  std::string prefix = "model";
  /// The metadata of every file. Programs that load models expect "format".
  Metadata metadata = {{"format", "pt"}};
  Tie tie = Tie::error;
  /// As in SaveOptions.
  size_t buffer_bytes = size_t{16} << 20;
};

/// Writes the tensors to the folder, which is made where it is missing, and returns the names of the files. In the
/// given order, a tensor begins a new file where it would make the present one exceed `max_shard_size`; a larger tensor
/// has a file of its own. One file is "model.safetensors". Several are "model-00001-of-0000N.safetensors", and
/// "model.safetensors.index.json", which is written last, says in which file each tensor is.
///
/// Files are replaced when all of them lie complete beside the old ones, so that a failed write leaves an older save as
/// it was; until then each file to be written is open. Files of an older save that no longer belong are removed at the
/// end. Errors as save_file; ValueError also for a name that occurs twice and for a prefix that is empty or has a
/// slash.
WEFT_API std::vector<std::string> save_sharded(const TensorList& tensors, const Path& folder,
                                               const ShardOptions& options = {}, Location where = {});

/// The same of tensors that are made one at a time, as save_file takes them: `source` is called once for each entry,
/// and what it returned is dropped before the next call. `tie` says nothing here.
WEFT_API std::vector<std::string> save_sharded(const std::vector<TensorEntry>& entries, const TensorSource& source,
                                               const Path& folder, const ShardOptions& options = {},
                                               Location where = {});

/// Where tensors for the CPU lie.
enum class Offload : uint8_t {
  cpu,  ///< in memory
  disk  ///< in the mapped files, read where they are first looked at
};

struct LoadShardedOptions {
  Device device = {};
  /// Devices of parts of the model: a key stands for the tensor of that name and for those below it ("layers.1" for
  /// "layers.1.weight" but not for "layers.10.weight"), "" for all; the longest key wins. The others go to `device`.
  std::map<std::string, Device> device_map = {};
  /// Floating tensors are converted to it; those that change are in memory whatever `offload` says.
  std::optional<DType> dtype = {};
  Offload offload = Offload::cpu;
  std::string prefix = "model";
  /// Where the folder has both an index and a single file, the index is followed. Without it that is an error.
  bool prefer_index = false;
  /// Applied to what the files hold, which are then all mapped at once; `device_map` speaks of the names that it makes.
  /// Each of these has memory of its own, but with Offload::disk, where they may be views of one part of a file.
  std::optional<Mapping> mapping = {};
};

/// What save_sharded wrote, or any other folder of that form. With Offload::cpu at most one file is mapped at a time.
/// Everything but the elements is checked before the first tensor is made. IoError where the folder has neither an
/// index nor a single file. FormatError for a malformed index, a file that is missing or named by an absolute path or
/// "..", a name that is absent from its file, a file with names that the index has not, and a total_size that is not
/// the number of bytes. ValueError where an index and a single file are there, KeyError for a key of `device_map` that
/// fits no tensor, DTypeError for a `dtype` that is not floating, and the errors of load_file and
/// of Mapping::apply.
WEFT_API TensorMap load_sharded(const Path& folder, const LoadShardedOptions& options = {}, Location where = {});

/// The tensors of such a folder to be read one at a time or in parts. All files are checked, and stay mapped as long as
/// the store. Errors as load_sharded.
WEFT_API TensorStore open_sharded(const Path& folder, const std::string& prefix = "model", bool prefer_index = false,
                                  Location where = {});

}  // namespace weft::io
