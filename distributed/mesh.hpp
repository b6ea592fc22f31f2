// Grids of ranks, whose lines are groups.
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

/// A grid of ranks with named dimensions: `Mesh({2, 4}, {"dp", "tp"})`. A value.
class WEFT_API Mesh {
 public:
  /// Arranges the ranks of `within`, or the given `ranks` of it, in row-major order. Called by every rank of `within`.
  /// Raises ValueError unless there is one rank for each position of the grid, and one name for each dimension, all
  /// different.
  explicit Mesh(const Dims& shape, std::vector<std::string> names = {}, const Group& within = world(),
                std::vector<int> ranks = {}, Location where = {});
  explicit Mesh(std::initializer_list<int64_t> shape, std::vector<std::string> names = {},
                const Group& within = world(), std::vector<int> ranks = {}, Location where = {})
      : Mesh(Dims(shape), std::move(names), within, std::move(ranks), where) {}

  const Dims& shape() const { return shape_; }
  int size() const { return static_cast<int>(ranks_.size()); }
  std::span<const std::string> names() const { return names_; }
  std::span<const int> ranks() const { return ranks_; }
  /// Index of the dimension with this name. Raises KeyError if there is none.
  int dim(std::string_view name, Location where = {}) const;
  /// This rank's coordinates in the grid; empty if it is not in the grid.
  const Dims& coordinate() const { return coordinate_; }

  /// The group of ranks that differ from this one in dimension `dim` only, ordered along it. Raises IndexError if there
  /// is no such dimension, and ValueError if this rank is not in the grid.
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
