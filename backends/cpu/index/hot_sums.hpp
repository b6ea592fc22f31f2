// Sums in double for the few destinations of an index that get many terms.
#pragma once

#include <algorithm>
#include <vector>

#include "crowd.hpp"
#include "index_offsets.hpp"

namespace weft::cpu {

/// Counts some of the positions' destinations, in bytes from the base.
template <int K>
CrowdSample sample_of(const SelectionWalk<K>& walk, const IndexPlan& plan) {
  const int64_t positions = walk.lines.count * walk.length;
  CrowdSample sample(positions);
  if (positions <= few_terms) return sample;
  Cursor<2 + K> at(walk.lines, 0);
  for (int64_t first = 0; first < positions; first += walk.length, at.next()) {
    while (sample.next() < first + walk.length) {
      const int64_t j = sample.next() - first;
      int64_t to = at.offset[1] + j * walk.step[1];
      for (int k = 0; k < plan.count; ++k) {
        with_index_type(plan.indices[k], [&](auto type) {
          int64_t row = index_at<decltype(type)>(bytes(plan.indices[k]), at.offset[2 + k] + j * walk.step[2 + k]);
          wraps_into(row, plan.sizes[k], true);
          to += row * plan.strides[k];
        });
      }
      sample.count(to);
    }
  }
  return sample;
}

/// Sums in double for the destinations that may get many terms, `width` numbers for each.
class HotSums {
 public:
  template <int K>
  HotSums(const SelectionWalk<K>& walk, const IndexPlan& plan, const CrowdSample& sample, int64_t width)
      : sample_(sample), width_(width), table_(1024, -1) {
    OffsetBlock<K> offsets(plan);
    Cursor<2 + K> at(walk.lines, 0);
    for (int64_t line = 0; line < walk.lines.count; ++line, at.next()) {
      for (int64_t j = 0; j < walk.length; j += offset_block) {
        const int64_t n = std::min(offset_block, walk.length - j);
        const int64_t* const offset = offsets(at.offset + 2, walk.step + 2, j, n);
        for (int64_t i = 0; i < n; ++i) insert(at.offset[1] + (j + i) * walk.step[1] + offset[i]);
      }
    }
    sums_.resize(destinations_.size() * static_cast<size_t>(width));
  }
  /// The sums of a destination; null where it gets few terms.
  double* find(int64_t destination) {
    if (!sample_.is_hot(destination)) return nullptr;
    return sums_.data() + table_[place_of(destination)] * width_;
  }
  /// Calls body(destination, sums) for each.
  template <class F>
  void each(F&& body) const {
    for (size_t i = 0; i < destinations_.size(); ++i) {
      body(destinations_[i], sums_.data() + i * static_cast<size_t>(width_));
    }
  }

 private:
  size_t place_of(int64_t destination) const {
    const size_t mask = table_.size() - 1;
    size_t place = (CrowdSample::hash(static_cast<uint64_t>(destination)) >> 32) & mask;
    while (table_[place] >= 0 && destinations_[static_cast<size_t>(table_[place])] != destination) {
      place = (place + 1) & mask;
    }
    return place;
  }
  void insert(int64_t destination) {
    if (!sample_.is_hot(destination)) return;
    int64_t& slot = table_[place_of(destination)];
    if (slot >= 0) return;
    slot = std::ssize(destinations_);
    destinations_.push_back(destination);
    if (2 * destinations_.size() < table_.size()) return;
    table_.assign(2 * table_.size(), -1);
    for (size_t i = 0; i < destinations_.size(); ++i) table_[place_of(destinations_[i])] = static_cast<int64_t>(i);
  }

  const CrowdSample& sample_;
  int64_t width_;
  std::vector<int64_t> table_, destinations_;  // open addressing: the number of a destination, -1 for none
  std::vector<double> sums_;
};

}  // namespace weft::cpu
