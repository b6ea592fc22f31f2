// Ranks in a grid, whose lines are groups.
#pragma once

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../tensor/dims.hpp"
#include "group.hpp"

namespace weft::distributed {

/// A grid of ranks with names for its dimensions: `Mesh({2, 4}, {"dp", "tp"})`. A value.
class WEFT_API Mesh {
 public:
  /// The ranks of `within` in row-major order, or `ranks` of it where given. Every rank of `within` calls it.
  /// ValueError unless there is one rank for each place, and as many names as dimensions, all different.
  explicit Mesh(const Dims& shape, std::vector<std::string> names = {}, const Group& within = world(),
                std::vector<int> ranks = {}, Location where = {});
  explicit Mesh(std::initializer_list<int64_t> shape, std::vector<std::string> names = {},
                const Group& within = world(), std::vector<int> ranks = {}, Location where = {})
      : Mesh(Dims(shape), std::move(names), within, std::move(ranks), where) {}

  const Dims& shape() const { return shape_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  std::span<const std::string> names() const { return names_; }
  std::span<const int> ranks() const { return ranks_; }
  /// KeyError for a name that it does not have.
  int dim(std::string_view name, Location where = {}) const;
  /// This rank's place in the grid; empty where it has none.
  const Dims& coordinate() const { return coordinate_; }

  /// The ranks that differ from this one in dimension `dim` alone, in its order. IndexError for no such dimension;
  /// ValueError where this rank has no place in the grid.
  const Group& group(int dim, Location where = {}) const;
  const Group& group(std::string_view name, Location where = {}) const;
  /// All ranks of the grid.
  const Group& group() const { return all_; }

 private:
  Dims shape_, coordinate_;
  std::vector<std::string> names_;
  std::vector<int> ranks_;
  Group all_;
  std::vector<Group> lines_;
};

}  // namespace weft::distributed
