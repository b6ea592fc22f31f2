#include "placement.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../../tensor/error.hpp"
#include "../collectives.hpp"

namespace weft::distributed {

namespace {

std::string text(const Placement& p) {
  if (p.is_shard()) return fmt::format("Shard({})", p.axis);
  return p.is_partial() ? fmt::format("Partial({})", name(p.op)) : "Replicate";
}

}  // namespace

std::string text(const Placements& placements) {
  std::vector<std::string> words;
  for (const Placement& p : placements) words.push_back(text(p));
  return fmt::format("[{}]", fmt::join(words, ", "));
}

std::vector<Dims> dims_mapping(const Placements& placements, int rank) {
  std::vector<Dims> out(static_cast<size_t>(rank));
  for (size_t d = 0; d < placements.size(); ++d) {
    if (placements[d].is_shard()) out.at(static_cast<size_t>(placements[d].axis)).push_back(static_cast<int64_t>(d));
  }
  return out;
}

Part part_of(const Dims& shape, const Placements& placements, const Dims& mesh, const Dims& coordinate,
             Location where) {
  if (std::ssize(placements) != mesh.size() || coordinate.size() != mesh.size()) {
    raise<ValueError>({.op = "part_of",
                       .problem = fmt::format("{} placements and a place {} in a mesh {}", placements.size(),
                                              coordinate.text(), mesh.text())},
                      where);
  }
  Part part{Dims::filled(shape.size(), 0), shape};
  for (int d = 0; d < mesh.size(); ++d) {
    const Placement& p = placements[static_cast<size_t>(d)];
    if (!p.is_shard()) continue;
    if (p.axis < 0 || p.axis >= shape.size()) {
      raise<IndexError>({.op = "part_of", .problem = fmt::format("{} of a tensor {}", text(p), shape.text())}, where);
    }
    const int64_t n = part.sizes[p.axis];
    const int k = static_cast<int>(mesh[d]), rank = static_cast<int>(coordinate[d]);
    part.begin[p.axis] += shard_begin(n, k, rank);
    part.sizes[p.axis] = shard_size(n, k, rank);
  }
  return part;
}

}  // namespace weft::distributed
