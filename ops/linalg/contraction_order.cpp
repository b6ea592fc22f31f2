#include "contraction_order.hpp"

#include <bit>
#include <cmath>
#include <limits>

namespace weft::linalg {

namespace {

double size_of(const Contraction& c, uint64_t word) {
  double size = 1;
  for (; word != 0; word &= word - 1) size *= c.sizes[static_cast<size_t>(std::countr_zero(word))];
  return size;
}

/// The remaining letters of the product of operands i and j: those of another operand or the result.
uint64_t product_of(const std::vector<uint64_t>& words, uint64_t result, size_t i, size_t j) {
  uint64_t others = result;
  for (size_t k = 0; k < words.size(); ++k) {
    if (k != i && k != j) others |= words[k];
  }
  return (words[i] | words[j]) & others;
}

void contract(std::vector<uint64_t>& words, size_t i, size_t j, uint64_t product) {
  words.erase(words.begin() + static_cast<int64_t>(j));
  words.erase(words.begin() + static_cast<int64_t>(i));
  words.push_back(product);
}

}  // namespace

double cost_of(const Contraction& c, const Order& order) {
  std::vector<uint64_t> words = c.words;
  double cost = 0;
  for (const auto& [first, second] : order) {
    const auto i = static_cast<size_t>(first), j = static_cast<size_t>(second);
    cost += size_of(c, words[i] | words[j]);
    contract(words, i, j, product_of(words, c.result, i, j));
  }
  return cost;
}

Order greedy_order(const Contraction& c) {
  std::vector<uint64_t> words = c.words;
  Order order;
  while (words.size() > 1) {
    // Pairs that share a letter come before outer products.
    size_t best_i = 0, best_j = 1;
    double best = std::numeric_limits<double>::infinity();
    bool best_shares = false;
    for (size_t i = 0; i < words.size(); ++i) {
      for (size_t j = i + 1; j < words.size(); ++j) {
        const bool shares = (words[i] & words[j]) != 0;
        const double product = size_of(c, product_of(words, c.result, i, j));
        // Outer products combine the smallest operands.
        const double added = shares ? product - size_of(c, words[i]) - size_of(c, words[j]) : product;
        if (shares < best_shares || (shares == best_shares && !(added < best))) continue;
        best_shares = shares, best = added, best_i = i, best_j = j;
      }
    }
    order.emplace_back(static_cast<int>(best_i), static_cast<int>(best_j));
    contract(words, best_i, best_j, product_of(words, c.result, best_i, best_j));
  }
  return order;
}

Order cheapest_order(const Contraction& c) {
  const size_t n = c.words.size(), subsets = size_t{1} << n;
  std::vector<double> cost(subsets, std::numeric_limits<double>::infinity());
  std::vector<uint64_t> word(subsets, 0);  // what a subset's product keeps
  std::vector<size_t> left(subsets, 0);
  for (size_t s = 1; s < subsets; ++s) {
    uint64_t inside = 0, outside = c.result;
    for (size_t k = 0; k < n; ++k) ((s >> k & 1) != 0 ? inside : outside) |= c.words[k];
    word[s] = std::has_single_bit(s) ? inside : inside & outside;
    if (std::has_single_bit(s)) {
      cost[s] = 0;
      continue;
    }
    for (size_t part = (s - 1) & s; part != 0; part = (part - 1) & s) {
      const size_t rest = s ^ part;
      if (part < rest) continue;
      const double all = cost[part] + cost[rest] + size_of(c, word[part] | word[rest]);
      if (all < cost[s]) cost[s] = all, left[s] = part;
    }
  }
  // From subsets to places in the list, parts before wholes.
  Order order;
  std::vector<size_t> list;
  for (size_t k = 0; k < n; ++k) list.push_back(size_t{1} << k);
  const auto place = [&](size_t s) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i] == s) return i;
    }
    return list.size();
  };
  const auto visit = [&](auto&& self, size_t s) -> void {
    if (std::has_single_bit(s)) return;
    self(self, left[s]);
    self(self, s ^ left[s]);
    size_t i = place(left[s]), j = place(s ^ left[s]);
    if (i > j) std::swap(i, j);
    order.emplace_back(static_cast<int>(i), static_cast<int>(j));
    list.erase(list.begin() + static_cast<int64_t>(j));
    list.erase(list.begin() + static_cast<int64_t>(i));
    list.push_back(s);
  };
  if (n > 1) visit(visit, subsets - 1);
  return order;
}

Order contraction_order(const Contraction& c) {
  if (c.words.size() <= 2) return c.words.size() == 2 ? Order{{0, 1}} : Order{};
  Order greedy = greedy_order(c);
  if (c.words.size() > 8) return greedy;
  Order cheapest = cheapest_order(c);
  return cost_of(c, cheapest) < cost_of(c, greedy) ? cheapest : greedy;
}

}  // namespace weft::linalg
