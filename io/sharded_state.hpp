// A state that lies in parts on several ranks, saved by each of them and loaded by any number of others.
//
// A folder holds RANK_ID.safetensors, what a rank wrote, and ID.metadata.json, which says of every tensor its dtype and
// global shape, and of every shard its place and its file:
//
//   {"format_version": 1,
//    "tensors": {"w": {"dtype": "float32", "global_shape": [4, 4], "shards": [
//      {"global_offset": [0, 0], "local_shape": [2, 4], "replica": 0, "file": "0_1.safetensors"},
//      {"global_offset": [2, 0], "local_shape": [2, 4], "flattened_range": [0, 8], "replica": 0,
//       "file": "1_1.safetensors"}]}},
//    "nested_names": {"w": ["model", "w"]}}
//
// A shard with "blocks": 3 beside its flattened range has the elements of its box in each third of the tensor, and
// makes the format's version 2. The metadata is written last, so a save that was interrupted is not there.
#pragma once

#include <span>

#include "sharded.hpp"

namespace weft::io {

/// Elements [begin, end) of the row-major elements of a box.
struct FlatRange {
  int64_t begin, end;
  bool operator==(const FlatRange&) const = default;
};

/// What a rank has of a tensor: the box of `local`'s shape at `global_offset` or, where the box of `local_shape` was
/// flattened and cut, as optimizers do that share out their state, a range of its elements.
struct ShardedTensor {
  /// Has one dimension where there is a flattened range.
  Tensor local;
  Dims global_shape, global_offset;
  std::optional<FlatRange> flattened_range = {};
  /// Said only beside a flattened range.
  Dims local_shape = {};
  /// Only beside a flattened range: the tensor's first dimension is so many equal blocks, as that of queries, keys and
  /// values in one weight, and the box is that of the first block; the range is one of the elements of these boxes in
  /// all blocks, one block after the other.
  int64_t blocks = 1;
};
using ShardedState = std::map<std::string, ShardedTensor>;

/// Every tensor whole.
WEFT_API ShardedState unsharded(const TensorMap& tensors);

struct SaveStateDictOptions {
  /// An older save of this id is replaced; where it is left out, 1 more than the largest in the folder.
  std::optional<int64_t> id = {};
  /// Every rank writes all it has, where otherwise one of those that have the same does.
  bool replicas = false;
  /// Where a tensor stood in a nested state, for example {"model", "w"}.
  std::map<std::string, std::vector<std::string>> nested_names = {};
};

/// Writes what the ranks have, all of them in this process, and returns the id. Of ranks that have the same part the
/// one that has least to write so far writes it, the first of several. ValueError, which names the ranks, where they
/// disagree about a dtype or a global shape, overlap but for the same part on several, or leave elements out, and for
/// an id below 0 or a tensor that cannot be saved; ShapeError for a part that does not fit its tensor; IoError. All but
/// the last are found before anything is written; what fails later leaves the states of other ids as they are.
WEFT_API int64_t save_state_dict(std::span<const ShardedState> ranks, const Path& folder,
                                 const SaveStateDictOptions& options = {}, Location where = {});
WEFT_API int64_t save_state_dict(const ShardedState& state, const Path& folder,
                                 const SaveStateDictOptions& options = {}, Location where = {});

/// Ids of the complete states in a folder, ascending.
WEFT_API std::vector<int64_t> state_ids(const Path& folder);

/// The tensors of a state, put together from their shards where they are read. Without an id the largest is taken.
/// IoError where it is not there; FormatError for malformed metadata, shards that overlap, and a file that is missing
/// or lacks a shard; KeyError where elements are in no shard; VersionError where a newer program wrote it.
WEFT_API TensorStore open_state_dict(const Path& folder, std::optional<int64_t> id = {}, Location where = {});

struct LoadStateDictOptions {
  std::optional<int64_t> id = {};
  /// Every destination is to be found, but for those that the mapping leaves.
  bool strict = true;
  Mapping mapping = {};
};

/// Fills the tensors of a rank, however the state was shared out when it was saved, and reads of it what they need.
/// They stay on their devices and keep their dtypes. Errors as open_state_dict and Mapping::apply; KeyError for a name
/// that is not there, ShapeError for another global shape, and for a part that does not fit its tensor, before anything
/// is written.
WEFT_API void load_state_dict(const ShardedState& state, const Path& folder, const LoadStateDictOptions& options = {},
                              Location where = {});

struct MergeOptions {
  std::optional<int64_t> id = {};
  /// Only tensors of this name or below it, "model" for "model.w": by their nested names, where they have such.
  std::string prefix = {};
  /// Tensors whose names end so are left out, for example ".exp_avg".
  std::vector<std::string> skip_suffixes = {};
  Mapping mapping = {};
  /// One tensor at a time is in memory; otherwise all are, before the first is written.
  bool offload = false;
  ShardOptions shards = {};
};

/// Writes a state as a model that one process loads with load_sharded, and returns the names of the files. The names of
/// the tensors stay, but for the mapping. Errors as open_state_dict, Mapping::apply and save_sharded.
WEFT_API std::vector<std::string> merge_sharded(const Path& load_folder, const Path& save_folder,
                                                const MergeOptions& options = {}, Location where = {});

// ---- for ranks in processes of their own ----------------------------------------------------------------------------
//
// Each rank tells what it has (parts_of); where all of that is known, plan_state says who writes what. One rank calls
// begin_state, then each writes its file, then one calls finish_state, each step after the one before on all ranks.

/// A ShardedTensor without its elements.
struct ShardInfo {
  DType dtype;
  Dims global_shape, global_offset, local_shape;
  std::optional<FlatRange> flattened_range = {};
  int64_t blocks = 1;
};
using RankParts = std::map<std::string, ShardInfo>;

/// A shard that is in a rank's file.
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

/// Errors as save_state_dict.
WEFT_API RankParts parts_of(const ShardedState& state, Location where = {});
/// The same for the same parts, which are given by rank; the folder is not looked at, so the options have an id. Errors
/// as save_state_dict.
WEFT_API StateMetadata plan_state(std::span<const RankParts> ranks, const SaveStateDictOptions& options,
                                  Location where = {});
/// 1 more than the largest id that a file in the folder has; 1 for an empty folder.
WEFT_API int64_t next_state_id(const Path& folder, Location where = {});
/// Makes the folder, and takes an older state of the id away from who looks for it.
WEFT_API void begin_state(const Path& folder, int64_t id, Location where = {});
/// Writes the shards that are this rank's by the plan, if any. KeyError for one that the state has not.
WEFT_API void write_state_rank(const Path& folder, const ShardedState& state, int64_t rank, const StateMetadata& plan,
                               Location where = {});
/// Writes the metadata, and removes files of the id that are no longer part of it.
WEFT_API void finish_state(const Path& folder, const StateMetadata& plan, Location where = {});

}  // namespace weft::io
