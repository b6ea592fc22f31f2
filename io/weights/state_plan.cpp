#include "state_plan-inl.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../../tensor/layout.hpp"

namespace weft::io {

namespace {

constexpr const char* saver = "save_state_dict";

// ---- boxes ----------------------------------------------------------------------------------------------------------

// Adds the elements [begin, end) of a box; its dimensions before `d` have size 1.
void add_flat(Box box, int d, FlatRange range, int64_t& first, std::vector<FlatBox>& out) {
  if (range.begin >= range.end) return;
  const auto add = [&](const Box& whole) {
    out.push_back({whole, first, std::min(d, box.rank() - 1)});
    first += whole.shape().product();
  };
  if (d == box.rank()) return add(box);
  int64_t row = 1;
  for (int i = d + 1; i < box.rank(); ++i) row *= box.size(i);
  const int64_t start = box.starts[d];
  const auto part = [&](int64_t from, int64_t to) {
    Box rows = box;
    rows.starts[d] = start + from, rows.ends[d] = start + to;
    return rows;
  };
  const int64_t from = range.begin / row, to = range.end / row, head = range.begin % row, tail = range.end % row;
  if (from == to) return add_flat(part(from, from + 1), d + 1, {head, tail}, first, out);
  if (head != 0) add_flat(part(from, from + 1), d + 1, {head, row}, first, out);
  const int64_t whole = from + (head != 0);
  if (whole < to) add(part(whole, to));
  if (tail != 0) add_flat(part(to, to + 1), d + 1, {0, tail}, first, out);
}

Box box_at(const Dims& offset, const Dims& shape) {
  Box out{offset, offset};
  for (int d = 0; d < shape.size(); ++d) out.ends[d] += shape[d];
  return out;
}

void subtract(const Box& a, const Box& b, std::vector<Box>& out) {
  const Box common = intersection(a, b);
  if (common.empty()) return out.push_back(a);
  Box rest = a;
  for (int d = 0; d < a.rank(); ++d) {
    Box below = rest, above = rest;
    below.ends[d] = common.starts[d], above.starts[d] = common.ends[d];
    if (!below.empty()) out.push_back(below);
    if (!above.empty()) out.push_back(above);
    rest.starts[d] = common.starts[d], rest.ends[d] = common.ends[d];
  }
}

// Returns the dimension in which the boxes have the most distinct starts.
int widest(const std::vector<std::pair<Box, size_t>>& boxes) {
  std::pair<size_t, int> best{0, 0};
  for (int d = 0; !boxes.empty() && d < boxes[0].first.rank(); ++d) {
    std::set<int64_t> starts;
    for (const auto& entry : boxes) starts.insert(entry.first.starts[d]);
    best = std::max(best, {starts.size(), d});
  }
  return best.second;
}

}  // namespace

std::vector<FlatBox> flat_boxes(const ShardInfo& s) {
  std::vector<FlatBox> out;
  const int64_t each = s.local_shape.product();
  const FlatRange& range = *s.flattened_range;
  if (each == 0 || range.begin == range.end) return out;
  int64_t first = 0;
  for (int64_t b = range.begin / each; b <= (range.end - 1) / each; ++b) {
    Dims offset = s.global_offset;
    if (b > 0) offset[0] += b * (s.global_shape[0] / s.blocks);
    const int64_t begin = std::max(range.begin - b * each, int64_t{0}), end = std::min(range.end - b * each, each);
    add_flat(box_at(offset, s.local_shape), 0, {begin, end}, first, out);
  }
  return out;
}

std::vector<Box> boxes_of(const ShardInfo& s) {
  std::vector<Box> out;
  if (s.flattened_range) {
    for (const FlatBox& part : flat_boxes(s)) out.push_back(part.box);
  } else if (const Box box = box_at(s.global_offset, s.local_shape); !box.empty()) {
    out.push_back(box);
  }
  return out;
}

ShardInfo info_of(const StoredTensor& tensor, const StoredShard& s) {
  return {tensor.dtype, tensor.global_shape, s.global_offset, s.local_shape, s.flattened_range, s.blocks};
}

std::string problem_of(const ShardInfo& s) {
  Layout layout;
  const Dims& global = s.global_shape;
  if (!set_contiguous(layout, global, itemsize(s.dtype))) return "no tensor has the global shape " + global.text();
  const bool is_cut =
      s.blocks == 1 || (s.blocks > 1 && s.flattened_range && !global.empty() && global[0] % s.blocks == 0);
  if (!is_cut) return fmt::format("{} blocks are no parts of {}", s.blocks, global.text());
  bool fits = s.global_offset.size() == global.size() && s.local_shape.size() == global.size();
  for (int d = 0; fits && d < global.size(); ++d) {
    const int64_t size = d == 0 ? global[d] / s.blocks : global[d];
    fits = s.global_offset[d] >= 0 && s.local_shape[d] >= 0 && s.local_shape[d] <= size &&
           s.global_offset[d] <= size - s.local_shape[d];
  }
  if (!fits) {
    return fmt::format("{} at {} is no part of {}", s.local_shape.text(), s.global_offset.text(), global.text());
  }
  const std::optional<FlatRange>& range = s.flattened_range;
  if (!range || (range->begin >= 0 && range->begin <= range->end && range->end <= s.blocks * s.local_shape.product())) {
    return {};
  }
  return fmt::format("[{}, {}) are no elements of {}", range->begin, range->end, s.local_shape.text());
}

std::optional<Overlap> overlap_of(const std::vector<std::vector<Box>>& shards) {
  std::vector<std::pair<Box, size_t>> all;
  for (size_t i = 0; i < shards.size(); ++i) {
    for (const Box& box : shards[i]) all.emplace_back(box, i);
  }
  if (all.size() > 1 && all[0].first.rank() == 0) return Overlap{all[0].second, all[1].second, all[0].first};
  const int d = widest(all);
  std::ranges::stable_sort(all, {},
                           [d](const auto& entry) { return entry.first.rank() == 0 ? 0 : entry.first.starts[d]; });
  for (size_t i = 0; i < all.size(); ++i) {
    for (size_t k = i + 1; k < all.size() && all[k].first.starts[d] < all[i].first.ends[d]; ++k) {
      const Box common = intersection(all[i].first, all[k].first);
      if (!common.empty()) return Overlap{all[i].second, all[k].second, common};
    }
  }
  return {};
}

std::optional<Box> hole_of(const Dims& shape, const std::vector<std::vector<Box>>& shards) {
  int64_t left = shape.product();
  for (const auto& boxes : shards) {
    for (const Box& box : boxes) left -= box.shape().product();
  }
  if (left == 0) return {};
  std::vector<Box> holes = {Box::whole(shape)};
  for (const auto& boxes : shards) {
    for (const Box& box : boxes) {
      std::vector<Box> rest;
      for (const Box& hole : holes) subtract(hole, box, rest);
      holes = std::move(rest);
    }
  }
  return holes.front();
}

// ---- the plan -------------------------------------------------------------------------------------------------------

namespace {

struct Part {
  ShardInfo info;
  std::vector<int64_t> ranks;
};

std::string ranks_text(const std::vector<int64_t>& ranks) {
  return fmt::format("{} {}", ranks.size() == 1 ? "rank" : "ranks", fmt::join(ranks, ", "));
}

// Sort key of shards; equal keys mean the same shard.
std::vector<int64_t> place_of(const ShardInfo& s) {
  std::vector<int64_t> out(s.global_offset.begin(), s.global_offset.end());
  out.insert(out.end(), s.local_shape.begin(), s.local_shape.end());
  if (s.flattened_range) out.insert(out.end(), {s.flattened_range->begin, s.flattened_range->end, s.blocks});
  return out;
}

// Returns the distinct shards of a tensor, sorted, without empty ones.
std::vector<Part> parts_of_tensor(const std::string& key, std::span<const RankShards> ranks, Location where) {
  std::map<std::vector<int64_t>, Part> parts;
  const ShardInfo* first = nullptr;
  int64_t first_rank = 0;
  for (int64_t rank = 0; rank < std::ssize(ranks); ++rank) {
    const auto found = ranks[static_cast<size_t>(rank)].find(key);
    if (found == ranks[static_cast<size_t>(rank)].end()) continue;
    const ShardInfo& info = found->second;
    if (const std::string problem = problem_of(info); !problem.empty()) {
      raise<ShapeError>({.op = saver, .problem = fmt::format("\"{}\" of rank {}: {}", key, rank, problem)}, where);
    }
    if (first == nullptr) first = &info, first_rank = rank;
    if (info.dtype != first->dtype || !(info.global_shape == first->global_shape)) {
      raise<ValueError>({.op = saver,
                         .problem = fmt::format("\"{}\" is {} of {} on rank {}, {} of {} on rank {}", key,
                                                name(first->dtype), first->global_shape.text(), first_rank,
                                                name(info.dtype), info.global_shape.text(), rank)},
                        where);
    }
    if (boxes_of(info).empty()) continue;
    parts.try_emplace(place_of(info), Part{info, {}}).first->second.ranks.push_back(rank);
  }
  std::vector<Part> out;
  for (auto& entry : parts) out.push_back(std::move(entry.second));
  return out;
}

void check_whole(const std::string& key, const Dims& shape, const std::vector<Part>& parts, Location where) {
  std::vector<std::vector<Box>> boxes;
  std::set<int64_t> all;
  for (const Part& part : parts) {
    boxes.push_back(boxes_of(part.info));
    all.insert(part.ranks.begin(), part.ranks.end());
  }
  if (const std::optional<Overlap> overlap = overlap_of(boxes)) {
    raise<ValueError>(
        {.op = saver,
         .problem = fmt::format("\"{}\": {} and {} both have {} to {}", key, ranks_text(parts[overlap->first].ranks),
                                ranks_text(parts[overlap->second].ranks), overlap->common.starts.text(),
                                overlap->common.ends.text())},
        where);
  }
  if (const std::optional<Box> hole = hole_of(shape, boxes)) {
    raise<ValueError>(
        {.op = saver,
         .problem = fmt::format("\"{}\": no rank has {} to {}", key, hole->starts.text(), hole->ends.text()),
         .details = all.empty() ? "" : ranks_text({all.begin(), all.end()}) + " have the others"},
        where);
  }
}

int64_t bytes_of(const ShardInfo& s) {
  const int64_t elements =
      s.flattened_range ? s.flattened_range->end - s.flattened_range->begin : s.local_shape.product();
  return elements * itemsize(s.dtype);
}

}  // namespace

StateMetadata plan_state(std::span<const RankShards> ranks, const SaveStateDictOptions& options, Location where) {
  if (!options.id || *options.id < 0) raise<ValueError>({.op = saver, .problem = "an id is 0 or more"}, where);
  std::map<std::string, const ShardInfo*> keys;
  for (const RankShards& parts : ranks) {
    for (const auto& [key, info] : parts) keys.emplace(key, &info);
  }
  StateMetadata out{.id = *options.id, .tensors = {}, .nested_names = options.nested_names};
  // A double, since a sum of sizes cannot overflow it.
  std::vector<double> written(ranks.size(), 0);
  for (const auto& [key, info] : keys) {
    const std::vector<Part> parts = parts_of_tensor(key, ranks, where);
    check_whole(key, info->global_shape, parts, where);
    StoredTensor tensor{info->dtype, info->global_shape};
    for (const Part& part : parts) {
      const auto load = [&](int64_t rank) { return written[static_cast<size_t>(rank)]; };
      std::vector<int64_t> owners = part.ranks;
      if (!options.replicas) owners = {*std::ranges::min_element(part.ranks, {}, load)};
      for (size_t i = 0; i < owners.size(); ++i) {
        written[static_cast<size_t>(owners[i])] += static_cast<double>(bytes_of(part.info));
        tensor.shards.push_back({part.info.global_offset, part.info.local_shape, part.info.flattened_range,
                                 static_cast<int64_t>(i), owners[i], part.info.blocks});
      }
    }
    out.tensors.emplace(key, std::move(tensor));
  }
  for (const auto& entry : options.nested_names) {
    if (keys.contains(entry.first)) continue;
    raise<ValueError>({.op = saver, .problem = fmt::format("nested_names has \"{}\", which is no tensor", entry.first)},
                      where);
  }
  return out;
}

}  // namespace weft::io
