// In which order the operands of an einsum are contracted. Not public.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

namespace weft::linalg {

/// Letters as bits, with their sizes.
struct Contraction {
  std::vector<uint64_t> words;
  uint64_t result = 0;
  std::vector<double> sizes;
};
using Order = std::vector<std::pair<int, int>>;

/// Multiply-adds that an order takes. Each step takes operands first < second off the list, and appends their product.
double cost_of(const Contraction& c, const Order& order);
/// opt_einsum's greedy rule: the pair whose product adds the fewest elements to those of its operands.
Order greedy_order(const Contraction& c);
/// The cheapest order of at most 8 operands, by dynamic programming over their subsets.
Order cheapest_order(const Contraction& c);
/// The cheaper of both.
Order contraction_order(const Contraction& c);

}  // namespace weft::linalg
