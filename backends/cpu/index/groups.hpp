// Positions of an index, grouped by destination.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace weft::cpu {

/// The positions j of an index, sorted by destination and, for one destination, by j.
struct Groups {
  std::vector<int64_t> order, starts;

  Groups(const std::vector<int64_t>& rows, int64_t size) : order(rows.size()) {
    const int64_t n = static_cast<int64_t>(rows.size());
    if (size <= 16 * n + 1024) {
      std::vector<int64_t> next(static_cast<size_t>(size) + 1, 0);
      for (const int64_t row : rows) ++next[static_cast<size_t>(row) + 1];
      std::partial_sum(next.begin(), next.end(), next.begin());
      for (int64_t j = 0; j < n; ++j)
        order[static_cast<size_t>(next[static_cast<size_t>(rows[static_cast<size_t>(j)])]++)] = j;
    } else {
      std::iota(order.begin(), order.end(), int64_t{0});
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        return rows[static_cast<size_t>(a)] < rows[static_cast<size_t>(b)];
      });
    }
    for (size_t i = 0; i < order.size(); ++i) {
      if (i == 0 || rows[static_cast<size_t>(order[i])] != rows[static_cast<size_t>(order[i - 1])]) {
        starts.push_back(static_cast<int64_t>(i));
      }
    }
    starts.push_back(n);
  }
  int64_t count() const { return static_cast<int64_t>(starts.size()) - 1; }
};

}  // namespace weft::cpu
