#include "../mesh.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "../../tensor/error.hpp"
#include "../../tensor/layout.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed {

namespace {

std::vector<int> checked_ranks(const Dims& shape, std::vector<int> ranks, const Group& within) {
  for (const int64_t n : shape) {
    if (n <= 0) raise<ValueError>({.problem = fmt::format("a mesh of shape {} has no ranks", shape.text())});
  }
  const int64_t places = shape.product();
  if (ranks.empty()) {
    ranks.resize(static_cast<size_t>(within.size()));
    std::iota(ranks.begin(), ranks.end(), 0);
  }
  if (places != static_cast<int64_t>(ranks.size())) {
    raise<ValueError>({.problem = mismatch_text(fmt::format("mesh of shape {}", shape.text()),
                                                fmt::format("{} ranks", places), ranks.size()),
                       .remedy = "start as many ranks as the mesh has places, or name those of it"});
  }
  return ranks;
}

std::vector<std::string> checked_names(const Dims& shape, std::vector<std::string> names) {
  if (names.empty()) {
    for (int d = 0; d < shape.size(); ++d) names.push_back(fmt::format("dim{}", d));
  }
  if (static_cast<int>(names.size()) != shape.size()) {
    raise<ValueError>({.problem = fmt::format("{} names for the {} dimensions of a mesh", names.size(), shape.size())});
  }
  for (const std::string& name : names) {
    if (std::count(names.begin(), names.end(), name) > 1) {
      raise<ValueError>({.problem = fmt::format("two dimensions of the mesh are named '{}'", name)});
    }
  }
  return names;
}

Dims place_of(const Dims& shape, std::span<const int> ranks, int rank) {
  const auto at = std::find(ranks.begin(), ranks.end(), rank);
  if (at == ranks.end()) return {};
  Dims place = Dims::filled(shape.size(), 0);
  int64_t rest = at - ranks.begin();
  for (int d = shape.size() - 1; d >= 0; --d) {
    place[d] = rest % shape[d];
    rest /= shape[d];
  }
  return place;
}

std::vector<int> line_through(const Dims& shape, std::span<const int> ranks, const Dims& place, int dim) {
  int64_t first = 0, step = 1;
  for (int d = shape.size() - 1, stride = 1; d >= 0; --d) {
    if (d == dim) step = stride;
    else first += place[d] * stride;
    stride *= static_cast<int>(shape[d]);
  }
  std::vector<int> line;
  for (int64_t i = 0; i < shape[dim]; ++i) line.push_back(ranks[static_cast<size_t>(first + i * step)]);
  return line;
}

}  // namespace

Mesh::Mesh(const Dims& shape, std::vector<std::string> names, const Group& within, std::vector<int> ranks,
           Location where)
    : shape_(shape), all_(within) {
  const CallScope call("Mesh", where);
  names_ = checked_names(shape, std::move(names));
  ranks_ = checked_ranks(shape, std::move(ranks), within);
  all_ = within.subgroup(ranks_, where);
  coordinate_ = place_of(shape, ranks_, within.rank());
  if (!all_.contains_me()) return;
  for (int d = 0; d < shape.size(); ++d) {
    lines_.push_back(within.subgroup(line_through(shape, ranks_, coordinate_, d), where));
  }
}

int Mesh::dim(std::string_view name, Location where) const {
  const CallScope call("Mesh::dim", where);
  const auto at = std::find(names_.begin(), names_.end(), name);
  if (at == names_.end()) raise<KeyError>({.problem = fmt::format("the mesh has no dimension named '{}'", name)});
  return static_cast<int>(at - names_.begin());
}

const Group& Mesh::group(int dim, Location where) const {
  const CallScope call("Mesh::group", where);
  if (lines_.empty()) raise<ValueError>({.problem = "this rank has no place in the mesh"});
  return lines_[static_cast<size_t>(wrap_dim(dim, shape_.size()))];
}

const Group& Mesh::group(std::string_view name, Location where) const { return group(dim(name, where), where); }

}  // namespace weft::distributed
