#include "../sharded_state.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../tensor/shortened.hpp"
#include "../files/atomic_folder-inl.hpp"
#include "../file.hpp"
#include "../files/folder-inl.hpp"
#include "state_metadata-inl.hpp"
#include "state_plan-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::io {

namespace {

constexpr const char *saver = "save_state_dict", *loader = "load_state_dict";
constexpr std::string_view metadata_end = ".metadata.json";

std::string metadata_file(int64_t id) { return std::to_string(id) + std::string(metadata_end); }

std::optional<int64_t> id_of_metadata(std::string_view name) {
  return name.ends_with(metadata_end) ? number_in(name.substr(0, name.size() - metadata_end.size())) : std::nullopt;
}

ShardInfo info_of(const std::string& key, const ShardedTensor& t, const char* op, Location where) {
  if (!t.local.defined()) raise<ValueError>({.op = op, .problem = fmt::format("\"{}\" is undefined", key)}, where);
  ShardInfo info{t.local.dtype(), t.global_shape, t.global_offset, t.local.shape(), t.flattened_range};
  if (t.flattened_range) info.local_shape = t.local_shape;
  info.blocks = t.blocks;
  std::string problem = problem_of(info);
  const bool is_cut = t.flattened_range.has_value();
  if (problem.empty() && is_cut && !(t.local.shape() == Dims(t.flattened_range->end - t.flattened_range->begin))) {
    problem = fmt::format("the range [{}, {}) has the shape {}", t.flattened_range->begin, t.flattened_range->end,
                          t.local.shape().text());
  }
  if (!is_cut && !t.local_shape.empty() && !(t.local_shape == info.local_shape)) {
    problem = fmt::format("{} is said to have the shape {}", info.local_shape.text(), t.local_shape.text());
  }
  if (problem.empty()) return info;
  raise<ShapeError>({.op = op, .problem = fmt::format("\"{}\": {}", key, problem)}, where);
}

}  // namespace

ShardedState unsharded(const TensorMap& tensors) {
  ShardedState out;
  for (const auto& [name, t] : tensors) out.emplace(name, ShardedTensor{t, t.shape(), Dims::filled(t.dim(), 0)});
  return out;
}

// ---- saving ---------------------------------------------------------------------------------------------------------

RankShards parts_of(const ShardedState& state, Location where) {
  RankShards out;
  for (const auto& [key, t] : state) {
    out.emplace(key, info_of(key, t, saver, where));
    const char* problem = key == "__metadata__"                       ? "is a name that the format keeps for itself"
                          : t.local.device().type == DeviceType::meta ? "is on the meta device and has no elements"
                                                                      : nullptr;
    if (problem != nullptr) raise<ValueError>({.op = saver, .problem = fmt::format("\"{}\" {}", key, problem)}, where);
  }
  return out;
}

int64_t next_state_id(const Path& folder, Location where) {
  int64_t largest = 0;
  for (const std::string& name : names_in(folder.string())) {
    const auto numbers = numbers_of_file(name);
    largest = std::max(largest, numbers ? numbers->second : id_of_metadata(name).value_or(0));
  }
  if (largest < INT64_MAX) return largest + 1;
  raise<ValueError>({.op = saver, .problem = fmt::format("{} has a state of the largest id", folder.string())}, where);
}

void begin_state(const Path& folder, int64_t id, Location where) {
  make_folder(folder, saver, where);
  remove_file(folder / metadata_file(id), saver, where);
  flush_folder(folder.string());
}

void write_state_rank(const Path& folder, const ShardedState& state, int64_t rank, const StateMetadata& plan,
                      Location where) {
  TensorMap owned;
  for (const auto& [key, tensor] : plan.tensors) {
    const auto own = [&](const StoredShard& s) { return s.rank == rank; };
    if (std::ranges::none_of(tensor.shards, own)) continue;
    const auto found = state.find(key);
    if (found == state.end()) {
      raise<KeyError>({.op = saver, .problem = fmt::format("rank {} is to write \"{}\", which it has not", rank, key)},
                      where);
    }
    owned.emplace(key, found->second.local);
  }
  std::vector<TensorEntry> entries;
  for (const auto& [key, t] : owned) entries.push_back({key, t.dtype(), t.shape()});
  const auto source = [&](const std::string& key) { return owned.at(key); };
  if (!owned.empty()) save_file(entries, source, folder / rank_file(rank, plan.id), {}, {}, where);
}

void finish_state(const Path& folder, const StateMetadata& plan, Location where) {
  write_file(folder / metadata_file(plan.id), metadata_text(plan, where), saver, where);
  std::set<int64_t> ranks;
  for (const auto& [key, tensor] : plan.tensors) {
    for (const StoredShard& s : tensor.shards) ranks.insert(s.rank);
  }
  for (const std::string& name : names_in(folder.string())) {
    const auto numbers = numbers_of_file(name);
    if (numbers && numbers->second == plan.id && !ranks.contains(numbers->first))
      remove_file(folder / name, saver, where);
  }
}

int64_t save_state_dict(std::span<const ShardedState> ranks, const Path& folder, const SaveStateDictOptions& options,
                        Location where) {
  SaveStateDictOptions known = options;
  if (!known.id) known.id = next_state_id(folder, where);
  std::vector<RankShards> parts;
  for (const ShardedState& state : ranks) parts.push_back(parts_of(state, where));
  const StateMetadata plan = plan_state(parts, known, where);
  metadata_text(plan, where);  // finds metadata errors before anything is written
  begin_state(folder, plan.id, where);
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    write_state_rank(folder, ranks[rank], static_cast<int64_t>(rank), plan, where);
  }
  finish_state(folder, plan, where);
  return plan.id;
}

int64_t save_state_dict(const ShardedState& state, const Path& folder, const SaveStateDictOptions& options,
                        Location where) {
  return save_state_dict(std::span(&state, 1), folder, options, where);
}

// ---- loading --------------------------------------------------------------------------------------------------------

std::vector<int64_t> state_ids(const Path& folder) {
  std::vector<int64_t> out;
  for (const std::string& name : names_in(folder.string())) {
    if (const std::optional<int64_t> id = id_of_metadata(name)) out.push_back(*id);
  }
  std::ranges::sort(out);
  return out;
}

namespace {

// A box of elements in a rank's file; with `flat`, they are stored in one dimension, starting at `flat.first`.
struct Region {
  SafeFile file;
  Box box;
  std::optional<FlatBox> flat;

  // Reads the elements of `wanted`, which is within this box.
  Tensor read(const std::string& key, const Box& wanted, Location where) const {
    if (!flat) {
      const Box at = wanted.from(box.starts);
      return file.get_slice(key, at.starts, at.ends, {}, where);
    }
    if (box.rank() == 0) return file.get(key, {}, where).reshape({}, where);
    // Whole rows along the first dimension of size above 1 are consecutive.
    const int lead = flat->lead;
    Dims rows = box.shape();
    int64_t row = 1;
    for (int d = lead + 1; d < box.rank(); ++d) row *= rows[d];
    rows[lead] = wanted.size(lead);
    const int64_t first = flat->first + (wanted.starts[lead] - box.starts[lead]) * row;
    const Tensor part = file.get_slice(key, first, first + rows[lead] * row, {}, where).reshape(rows, where);
    Box at = wanted.from(box.starts);
    at.starts[lead] = 0, at.ends[lead] = rows[lead];
    return part_of(part, at, where);
  }
};

class OpenedState {
 public:
  OpenedState(const Path& folder, std::optional<int64_t> id, Location where) : folder_(folder), where_(where) {
    const std::vector<int64_t> ids = state_ids(folder);
    if (!id && !ids.empty()) id = ids.back();
    if (!id || std::ranges::find(ids, *id) == ids.end()) {
      const std::string wanted = id ? fmt::format("no complete state {}", *id) : "no complete state";
      raise<IoError>({.op = loader, .problem = fmt::format("{} holds {}", folder.string(), wanted)}, where);
    }
    path_ = folder / metadata_file(*id);
    metadata_ = parse_metadata(read_file(path_, loader, where), *id, path_, where);
    for (const auto& [key, tensor] : metadata_.tensors) add(key, tensor);
  }

  const StateMetadata& metadata() const { return metadata_; }
  TensorStore store() && {
    TensorStore::Entries entries;
    for (const auto& [key, tensor] : metadata_.tensors)
      entries.emplace(key, TensorStore::Info{tensor.dtype, tensor.global_shape});
    const auto read = [regions = std::move(regions_), entries](const std::string& name, const Dims& starts,
                                                               const Dims& ends, Location at) {
      return elements_in(regions.at(name), name, {starts, ends}, entries.at(name).dtype, at);
    };
    return TensorStore(std::move(entries), read, where_);
  }

 private:
  [[noreturn]] void refuse(const std::string& problem) const {
    raise<FormatError>({.op = loader, .problem = problem, .details = path_.string()}, where_);
  }
  void add(const std::string& key, const StoredTensor& tensor) {
    std::vector<std::vector<Box>> boxes;
    std::vector<Region>& regions = regions_[key];
    for (const StoredShard& s : tensor.shards) {
      const SafeFile& file = file_of(key, tensor, s);
      if (s.replica != 0) continue;
      const ShardInfo info = info_of(tensor, s);
      boxes.push_back(boxes_of(info));
      if (!s.flattened_range) {
        for (const Box& box : boxes.back()) regions.push_back({file, box, {}});
        continue;
      }
      for (const FlatBox& flat : flat_boxes(info)) {
        regions.push_back({file, flat.box, flat});
      }
    }
    const std::string shown = shortened(key, 80);
    if (const std::optional<Overlap> overlap = overlap_of(boxes)) {
      refuse(fmt::format("two shards of \"{}\" have {} to {}", shown, overlap->common.starts.text(),
                         overlap->common.ends.text()));
    }
    if (const std::optional<Box> hole = hole_of(tensor.global_shape, boxes)) {
      raise<KeyError>(
          {.op = loader,
           .problem = fmt::format("no shard of \"{}\" has {} to {}", shown, hole->starts.text(), hole->ends.text()),
           .details = path_.string()},
          where_);
    }
  }
  const SafeFile& file_of(const std::string& key, const StoredTensor& tensor, const StoredShard& s) {
    const std::string name = rank_file(s.rank, metadata_.id);
    auto found = files_.find(s.rank);
    if (found == files_.end()) {
      if (!exists(folder_ / name)) refuse(fmt::format("the file {} is missing", name));
      const SafeFile file = SafeFile::open(folder_ / name, where_);
      const std::vector<std::string> keys = file.keys();
      found = files_.emplace(s.rank, File{file, {keys.begin(), keys.end()}}).first;
    }
    const std::string shown = shortened(key, 80);
    if (!found->second.keys.contains(key)) refuse(fmt::format("{} has no \"{}\"", name, shown));
    const SafeFile::Info& info = found->second.file.info(key, where_);
    const Dims shape = s.flattened_range ? Dims(s.flattened_range->end - s.flattened_range->begin) : s.local_shape;
    if (info.dtype != tensor.dtype || !(info.shape == shape)) {
      refuse(mismatch_text(fmt::format("\"{}\" in {}", shown, name),
                           fmt::format("{} {}", weft::name(tensor.dtype), shape.text()),
                           fmt::format("{} {}", weft::name(info.dtype), info.shape.text())));
    }
    return found->second.file;
  }
  static Tensor elements_in(const std::vector<Region>& regions, const std::string& key, const Box& wanted, DType dtype,
                            Location where) {
    Tensor out;
    for (const Region& region : regions) {
      const Box common = intersection(region.box, wanted);
      if (common.empty()) continue;
      const Tensor part = region.read(key, common, where);
      if (common == wanted) return part.contiguous(where);
      if (!out.defined()) out = empty(wanted.shape(), dtype, where);
      part_of(out, common.from(wanted.starts), where).copy_(part, where);
    }
    return out;
  }

  struct File {
    SafeFile file;
    std::set<std::string> keys;
  };
  const Path& folder_;
  Location where_;
  Path path_;
  StateMetadata metadata_;
  std::map<int64_t, File> files_;
  std::map<std::string, std::vector<Region>> regions_;
};

void fill(const ShardedTensor& t, const ShardInfo& info, const std::string& key, const TensorStore& store,
          Location where) {
  if (!info.flattened_range) {
    for (const Box& box : boxes_of(info)) {
      t.local.copy_(store.get_slice(key, box.starts, box.ends, t.local.device(), where), where);
    }
    return;
  }
  for (const FlatBox& flat : flat_boxes(info)) {
    const Tensor part = store.get_slice(key, flat.box.starts, flat.box.ends, t.local.device(), where);
    t.local.narrow(0, flat.first, part.numel(), where).copy_(part.reshape({-1}, where), where);
  }
}

}  // namespace

TensorStore open_state_dict(const Path& folder, std::optional<int64_t> id, Location where) {
  return OpenedState(folder, id, where).store();
}

void load_state_dict(const ShardedState& state, const Path& folder, const LoadStateDictOptions& options,
                     Location where) {
  const TensorStore store = options.mapping.apply(open_state_dict(folder, options.id, where), where);
  std::map<std::string, ShardInfo> wanted;
  std::vector<std::string> missing;
  for (const auto& [key, t] : state) {
    const ShardInfo info = info_of(key, t, loader, where);
    if (options.mapping.leaves(key)) continue;
    const auto found = store.entries().find(key);
    if (found == store.entries().end()) {
      missing.push_back(key);
      continue;
    }
    if (!(found->second.shape == info.global_shape)) {
      raise<ShapeError>({.op = loader,
                         .problem = fmt::format("\"{}\" is of {}, what is loaded of {}", key, info.global_shape.text(),
                                                found->second.shape.text())},
                        where);
    }
    wanted.emplace(key, info);
  }
  if (options.strict && !missing.empty()) {
    raise<KeyError>(
        {.op = loader, .problem = "nothing is loaded into: " + shortened(fmt::format("{}", fmt::join(missing, ", ")))},
        where);
  }
  const NoGradGuard unrecorded;
  for (const auto& [key, info] : wanted) fill(state.at(key), info, key, store, where);
}

// ---- merging --------------------------------------------------------------------------------------------------------

std::vector<std::string> merge_sharded(const Path& load_folder, const Path& save_folder, const MergeOptions& options,
                                       Location where) {
  OpenedState opened(load_folder, options.id, where);
  const auto nested = opened.metadata().nested_names;
  const auto is_wanted = [&](const std::string& key) {
    const auto found = nested.find(key);
    const std::string name = found == nested.end() ? key : fmt::format("{}", fmt::join(found->second, "."));
    const bool below = options.prefix.empty() || name == options.prefix || name.starts_with(options.prefix + ".");
    return below && std::ranges::none_of(options.skip_suffixes, [&](const std::string& s) { return key.ends_with(s); });
  };
  const TensorStore store = options.mapping.apply(std::move(opened).store().only(is_wanted), where);
  if (options.offload) return save_sharded(store.list(), store.source(), save_folder, options.shards, where);
  return save_sharded(store.tensors({}, where), save_folder, options.shards, where);
}

}  // namespace weft::io
