// A state with tensors that are sharded across ranks. Each rank saves its shards, and any number of ranks can load
// them.
//
// A folder holds RANK_ID.safetensors, the shards that a rank wrote, and ID.metadata.json, with the dtype and global
// shape of every tensor and the offset and file of every shard:
//
//   {"format_version": 1,
//    "tensors": {"w": {"dtype": "float32", "global_shape": [4, 4], "shards": [
//      {"global_offset": [0, 0], "local_shape": [2, 4], "replica": 0, "file": "0_1.safetensors"},
//      {"global_offset": [2, 0], "local_shape": [2, 4], "flattened_range": [0, 8], "replica": 0,
//       "file": "1_1.safetensors"}]}},
//    "nested_names": {"w": ["model", "w"]}}
//
// A shard with a flattened range and "blocks": 3 has the elements of its box in each third of the tensor; this requires
// version 2 of the format. The metadata is written last, so an interrupted save is not visible.
#pragma once

#include <span>

#include "sharded.hpp"

namespace weft::io {

/// The elements [begin, end) of a box in row-major order.
struct FlatRange {
  int64_t begin, end;
  bool operator==(const FlatRange&) const = default;
};

/// A rank's shard of a tensor: the box of `local`'s shape at `global_offset`. With a flattened range, it is that range
/// of the elements of a box of `local_shape`, as in optimizers that shard their state.
struct ShardedTensor {
  /// 1-d if there is a flattened range.
  Tensor local;
  Dims global_shape, global_offset;
  std::optional<FlatRange> flattened_range = {};
  /// Only used with a flattened range.
  Dims local_shape = {};
  /// Only used with a flattened range. The tensor's first dimension is divided into this many equal blocks, such as
  /// queries, keys and values in one weight. The box is that of the first block. The range counts the elements of the
  /// boxes of all blocks, one block after the other.
  int64_t blocks = 1;
};
using ShardedState = std::map<std::string, ShardedTensor>;

/// Returns every tensor as a shard that covers the whole tensor.
WEFT_API ShardedState unsharded(const TensorMap& tensors);

struct SaveStateDictOptions {
  /// An older save with this id is replaced. Default: the largest id in the folder plus 1.
  std::optional<int64_t> id = {};
  /// Every rank writes all its shards. Otherwise each replicated shard is written by one rank.
  bool replicas = false;
  /// Path of a tensor in a nested state, for example {"model", "w"}.
  std::map<std::string, std::vector<std::string>> nested_names = {};
};

/// Writes the shards of all ranks from this process, and returns the id. A replicated shard is written by the rank with
/// the fewest bytes so far, the first of several. Raises ValueError, with the ranks, if they disagree about a dtype or
/// a global shape, if different shards overlap, or if elements are missing. Raises ValueError also for a negative id or
/// a tensor that cannot be saved; ShapeError for a shard that does not fit its tensor; IoError. All errors except
/// IoError are raised before anything is written; a later failure does not affect the states of other ids.
WEFT_API int64_t save_state_dict(std::span<const ShardedState> ranks, const Path& folder,
                                 const SaveStateDictOptions& options = {}, Location where = {});
WEFT_API int64_t save_state_dict(const ShardedState& state, const Path& folder,
                                 const SaveStateDictOptions& options = {}, Location where = {});

/// Returns the ids of the complete states in a folder, ascending.
WEFT_API std::vector<int64_t> state_ids(const Path& folder);

/// Opens a state; its tensors are assembled from their shards when they are read. The default is the largest id. Raises
/// IoError if it does not exist; FormatError for malformed metadata, overlapping shards, and a file that is missing or
/// lacks a shard; KeyError if elements are in no shard; VersionError if a newer version wrote it.
WEFT_API TensorStore open_state_dict(const Path& folder, std::optional<int64_t> id = {}, Location where = {});

struct LoadStateDictOptions {
  std::optional<int64_t> id = {};
  /// Every destination must exist in the state, unless the mapping excludes it.
  bool strict = true;
  Mapping mapping = {};
};

/// Fills the tensors of a rank; the sharding may differ from that of the save, and only the required elements are read.
/// The tensors keep their devices and dtypes. Errors as open_state_dict and Mapping::apply. Raises KeyError for a
/// missing name and ShapeError for another global shape or a shard that does not fit its tensor, before anything is
/// written.
WEFT_API void load_state_dict(const ShardedState& state, const Path& folder, const LoadStateDictOptions& options = {},
                              Location where = {});

struct MergeOptions {
  std::optional<int64_t> id = {};
  /// Only tensors with this name or below it ("model" for "model.w"); nested names are used where they exist.
  std::string prefix = {};
  /// Tensors with one of these name suffixes are skipped, for example ".exp_avg".
  std::vector<std::string> skip_suffixes = {};
  Mapping mapping = {};
  /// Holds one tensor at a time in memory; otherwise all are loaded before the first is written.
  bool offload = false;
  ShardOptions shards = {};
};

/// Writes a state as a model that load_sharded can load in one process, and returns the names of the files. Tensors
/// keep their names unless the mapping renames them. Errors as open_state_dict, Mapping::apply and save_sharded.
WEFT_API std::vector<std::string> merge_sharded(const Path& load_folder, const Path& save_folder,
                                                const MergeOptions& options = {}, Location where = {});

// ---- for ranks in separate processes --------------------------------------------------------------------------------
//
// Each rank describes its shards with parts_of. plan_state takes the descriptions of all ranks and assigns each shard
// to a writer. One rank calls begin_state, then each rank writes its file, then one rank calls finish_state. Ranks
// synchronise between these steps.

/// A ShardedTensor without its elements.
struct ShardInfo {
  DType dtype;
  Dims global_shape, global_offset, local_shape;
  std::optional<FlatRange> flattened_range = {};
  int64_t blocks = 1;
};
using RankShards = std::map<std::string, ShardInfo>;

/// A shard in a rank's file.
struct StoredShard {
  Dims global_offset, local_shape;
  std::optional<FlatRange> flattened_range = {};
  int64_t replica = 0, rank = 0;
  int64_t blocks = 1;
};
struct StoredTensor {
  DType dtype;
  Dims global_shape;
  std::vector<StoredShard> shards = {};
};
struct StateMetadata {
  int64_t id = 0;
  std::map<std::string, StoredTensor> tensors = {};
  std::map<std::string, std::vector<std::string>> nested_names = {};
};

/// Returns the descriptions of a rank's shards. Errors as save_state_dict.
WEFT_API RankShards parts_of(const ShardedState& state, Location where = {});
/// Returns the plan for the shards of all ranks, indexed by rank; equal arguments give equal plans. It does not read
/// the folder, so the options must have an id. Errors as save_state_dict.
WEFT_API StateMetadata plan_state(std::span<const RankShards> ranks, const SaveStateDictOptions& options,
                                  Location where = {});
/// Returns the largest id of any file in the folder plus 1; 1 for an empty folder.
WEFT_API int64_t next_state_id(const Path& folder, Location where = {});
/// Creates the folder and removes the metadata of an older state with this id, so that readers no longer find it.
WEFT_API void begin_state(const Path& folder, int64_t id, Location where = {});
/// Writes the shards that the plan assigns to this rank, if any. Raises KeyError for a shard that the state lacks.
WEFT_API void write_state_rank(const Path& folder, const ShardedState& state, int64_t rank, const StateMetadata& plan,
                               Location where = {});
/// Writes the metadata and removes obsolete files of the id.
WEFT_API void finish_state(const Path& folder, const StateMetadata& plan, Location where = {});

}  // namespace weft::io
