#include "../token_dispatcher.hpp"

#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/index.hpp"
#include "../../ops/pointwise.hpp"
#include "../../ops/reduce.hpp"
#include "../../ops/scatter.hpp"
#include "../collectives.hpp"
#include "../detail/member.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed {

using Sizes = std::vector<int64_t>;
using Kind = TokenDispatcherOptions::Kind;

struct DispatchedTokens::Route {
  Kind kind = Kind::all_to_all;
  int64_t own_tokens = 0;
  /// Number of tokens of each rank; for all_gather.
  Sizes tokens = {};
  /// For all_to_all: token index of each row that this rank sent. For all_gather: index of each row's token among all
  /// ranks' tokens.
  Tensor token_of_row = {};
  /// For all_to_all: index of each local row's token among the received tokens; and the numbers of tokens sent to and
  /// received from each rank.
  Tensor arrived_of_row = {};
  Sizes sent = {}, received = {};
};

namespace {

void check(const Tensor& x, const Tensor& routing, const Tensor& probabilities) {
  check_floating(checked(x));
  check_floating(checked(probabilities));
  expect_integers("routing", checked(routing));
  check_same_device({&x, &routing, &probabilities});
  if (x.dim() == 2 && routing.dim() == 2 && routing.size(0) == x.size(0) && routing.shape() == probabilities.shape()) {
    return;
  }
  raise<ShapeError>({.problem = "x is [T, H], routing and probabilities are [T, K]",
                     .details = fmt::format("x {}, routing {}, probabilities {}", x.shape().text(),
                                            routing.shape().text(), probabilities.shape().text())});
}

/// Experts of all tokens, flattened; -1 if the expert is full.
Sizes wanted_experts(const Tensor& routing, int64_t experts, const std::optional<int64_t>& capacity) {
  Sizes wanted = routing.to(i64).to_vector<int64_t>(), kept_counts(static_cast<size_t>(experts), 0);
  for (int64_t& e : wanted) {
    if (e < -1 || e >= experts) raise<IndexError>({.problem = fmt::format("expert {} of {}", e, experts)});
    if (e >= 0 && capacity && ++kept_counts[static_cast<size_t>(e)] > *capacity) e = -1;
  }
  return wanted;
}

/// Flat indices of the entries that name experts [first, first + counts.size()), sorted by expert, then by index.
Sizes places_by_expert(const Sizes& wanted, int64_t first, Sizes& counts) {
  const auto local = [&](int64_t e) { return static_cast<size_t>(e - first); };
  const auto is_local = [&](int64_t e) { return e >= first && local(e) < counts.size(); };
  for (const int64_t e : wanted) counts[is_local(e) ? local(e) : 0] += is_local(e) ? 1 : 0;
  Sizes next(counts.size(), 0);
  for (size_t e = 1; e < counts.size(); ++e) next[e] = next[e - 1] + counts[e - 1];
  Sizes places(static_cast<size_t>(next.back() + counts.back()));
  for (size_t i = 0; i < wanted.size(); ++i) {
    if (is_local(wanted[i])) places[static_cast<size_t>(next[local(wanted[i])]++)] = static_cast<int64_t>(i);
  }
  return places;
}

Tensor indices(const Sizes& numbers, Device device) { return tensor(numbers).to(device); }

/// Token indices of flat indices into [T, K].
Sizes tokens_of(Sizes places, int64_t k) {
  for (int64_t& p : places) p /= k;
  return places;
}

/// Rows arrive sorted by rank, then by expert, with `counts` [ranks, local experts]. Returns the position of each row
/// when sorted by expert, then by rank.
Sizes grouped_places(const Sizes& counts, size_t ranks, size_t experts) {
  Sizes begin(counts.size()), places;
  int64_t rows = 0;
  for (size_t e = 0; e < experts; ++e) {
    for (size_t r = 0; r < ranks; ++r) {
      begin[r * experts + e] = rows;
      rows += counts[r * experts + e];
    }
  }
  for (size_t i = 0; i < counts.size(); ++i) {
    for (int64_t row = 0; row < counts[i]; ++row) places.push_back(begin[i] + row);
  }
  return places;
}

Sizes inverse(const Sizes& places) {
  Sizes out(places.size());
  for (size_t i = 0; i < places.size(); ++i) out[static_cast<size_t>(places[i])] = static_cast<int64_t>(i);
  return out;
}

/// Sums of consecutive groups of `experts` elements.
Sizes sums_of(const Sizes& counts, size_t experts) {
  Sizes out;
  for (size_t i = 0; i < counts.size(); i += experts) {
    out.push_back(std::accumulate(counts.begin() + static_cast<ptrdiff_t>(i),
                                  counts.begin() + static_cast<ptrdiff_t>(i + experts), int64_t{0}));
  }
  return out;
}

/// Tokens to send to each rank, each once, however many of its experts need it.
struct Parcels {
  /// Tokens rank by rank; and for each row, the index of its token among those of its rank.
  Sizes tokens, number_of_row;
  Sizes sizes;
};
Parcels parcels(const Sizes& token_of_row, const Sizes& rows_of_rank, int64_t tokens) {
  Parcels out;
  size_t row = 0;
  for (const int64_t rows : rows_of_rank) {
    Sizes number(static_cast<size_t>(tokens), -1);
    int64_t count = 0;
    for (const size_t end = row + static_cast<size_t>(rows); row < end; ++row) {
      int64_t& n = number[static_cast<size_t>(token_of_row[row])];
      if (n < 0) {
        n = count++;
        out.tokens.push_back(token_of_row[row]);
      }
      out.number_of_row.push_back(n);
    }
    out.sizes.push_back(count);
  }
  return out;
}

/// Converts token indices within a rank to indices among all received tokens.
void count_on(Sizes& numbers, const Sizes& rows_of_rank, const Sizes& tokens_of_rank) {
  size_t row = 0;
  int64_t before = 0;
  for (size_t r = 0; r < rows_of_rank.size(); ++r) {
    for (const size_t end = row + static_cast<size_t>(rows_of_rank[r]); row < end; ++row) numbers[row] += before;
    before += tokens_of_rank[r];
  }
}

DispatchedTokens by_all_to_all(const Tensor& x, const Tensor& probabilities, const Sizes& wanted, int64_t experts,
                               const Group& group) {
  const auto ranks = static_cast<size_t>(group.size()), local = static_cast<size_t>(experts) / ranks;
  Sizes counts(static_cast<size_t>(experts), 0);
  const Sizes places = places_by_expert(wanted, 0, counts), rows_to = sums_of(counts, local);
  const Parcels parcel = parcels(tokens_of(places, std::max<int64_t>(probabilities.size(1), 1)), rows_to, x.size(0));
  const Sizes coming = all_to_all(tensor(counts), group).to_vector<int64_t>(), rows_from = sums_of(coming, local);
  DispatchedTokens::Route route{.kind = Kind::all_to_all, .own_tokens = x.size(0)};
  route.token_of_row = indices(parcel.tokens, x.device());
  route.sent = parcel.sizes;
  route.received = all_to_all(tensor(parcel.sizes), group).to_vector<int64_t>();
  const Sizes grouped = grouped_places(coming, ranks, local);
  const Tensor by_expert = indices(inverse(grouped), x.device());
  const AllToAllOptions rows{.send_sizes = rows_to, .receive_sizes = rows_from};
  const AllToAllOptions tokens{.send_sizes = route.sent, .receive_sizes = route.received};
  Sizes arrived = all_to_all(tensor(parcel.number_of_row), group, rows).to_vector<int64_t>();
  count_on(arrived, rows_from, route.received);
  route.arrived_of_row = index_select(indices(arrived, x.device()), 0, by_expert);
  DispatchedTokens out;
  const Tensor came = all_to_all(index_select(x, 0, route.token_of_row), group, tokens);
  out.tokens = index_select(came, 0, route.arrived_of_row);
  const Tensor sent = index_select(probabilities.reshape({-1}), 0, indices(places, x.device()));
  out.probabilities = index_select(all_to_all(sent, group, rows), 0, by_expert);
  out.counts.assign(local, 0);
  for (size_t i = 0; i < coming.size(); ++i) out.counts[i % local] += coming[i];
  out.route = Shared<const DispatchedTokens::Route>(Shared<DispatchedTokens::Route>::make(std::move(route)));
  return out;
}

DispatchedTokens by_all_gather(const Tensor& x, const Tensor& probabilities, const Sizes& wanted, int64_t experts,
                               const Group& group) {
  const int64_t local = experts / group.size(), k = probabilities.size(1);
  DispatchedTokens::Route route{.kind = Kind::all_gather, .own_tokens = x.size(0)};
  const int64_t own[] = {x.size(0)};
  route.tokens = detail::tell_all(group.shared_member(), own);
  const Tensor own_wanted = tensor(wanted).reshape({x.size(0), k});
  const Sizes all_wanted = all_gather(own_wanted, route.tokens, group).to_vector<int64_t>();
  DispatchedTokens out;
  out.counts.assign(static_cast<size_t>(local), 0);
  const Sizes places = places_by_expert(all_wanted, local * group.rank(), out.counts);
  route.token_of_row = indices(tokens_of(places, std::max<int64_t>(k, 1)), x.device());
  out.tokens = index_select(all_gather(x, route.tokens, group), 0, route.token_of_row);
  const Tensor all_probabilities = all_gather(probabilities, route.tokens, group).reshape({-1});
  out.probabilities = index_select(all_probabilities, 0, indices(places, x.device()));
  out.route = Shared<const DispatchedTokens::Route>(Shared<DispatchedTokens::Route>::make(std::move(route)));
  return out;
}

Tensor sums_by_token(const Tensor& rows, const Tensor& token_of_row, int64_t tokens) {
  Dims shape = rows.shape();
  shape[0] = tokens;
  return index_add(zeros(shape, {.dtype = rows.dtype(), .device = rows.device()}), 0, token_of_row, rows);
}

}  // namespace

TokenDispatcher::TokenDispatcher(int64_t experts, Group group, TokenDispatcherOptions options, Location where)
    : experts_(experts), group_(std::move(group)), options_(options) {
  const CallScope call("TokenDispatcher", where);
  group_.member().check_member();
  if (experts <= 0 || experts % group_.size() != 0) {
    raise<ValueError>({.problem = fmt::format("{} ranks do not divide {} experts", group_.size(), experts)});
  }
  if (options.capacity) expect_at_least("capacity", *options.capacity, 0);
}

DispatchedTokens TokenDispatcher::dispatch(const Tensor& x, const Tensor& routing, const Tensor& probabilities,
                                           Location where) const {
  const CallScope call("TokenDispatcher::dispatch", where);
  check(x, routing, probabilities);
  const Sizes wanted = wanted_experts(routing, experts_, options_.capacity);
  return (options_.kind == Kind::all_to_all ? by_all_to_all : by_all_gather)(x, probabilities, wanted, experts_,
                                                                             group_);
}

Tensor TokenDispatcher::combine(const Tensor& expert_out, const DispatchedTokens& dispatched, Location where) const {
  const CallScope call("TokenDispatcher::combine", where);
  check_floating(checked(expert_out));
  if (!dispatched.route)
    raise<ValueError>({.problem = "nothing was dispatched", .remedy = "pass the result of dispatch"});
  const int64_t rows = dispatched.probabilities.size(0);
  if (expert_out.dim() == 0 || expert_out.size(0) != rows) {
    raise<ShapeError>({.problem = fmt::format("{} rows were dispatched here", rows),
                       .details = fmt::format("expert_out {}", expert_out.shape().text())});
  }
  const DispatchedTokens::Route& route = *dispatched.route;
  Dims one_each = Dims::filled(expert_out.dim(), 1);
  one_each[0] = rows;
  const DType dtype = expert_out.dtype(), wide = compute_type(dtype);
  // Backward is a collective, so that it must reach this rank's tokens even if there are no rows.
  const Tensor connected = rows == 0 ? expert_out + dispatched.tokens.sum().to(dtype) : expert_out;
  const Tensor weighted = connected.to(wide) * dispatched.probabilities.to(wide).reshape(one_each);
  if (route.kind == Kind::all_to_all) {
    const AllToAllOptions back{.send_sizes = route.received, .receive_sizes = route.sent};
    const int64_t arrived = std::accumulate(route.received.begin(), route.received.end(), int64_t{0});
    const Tensor terms = sums_by_token(weighted, route.arrived_of_row, arrived);
    const Tensor returned = all_to_all(terms.to(dtype), group_, back);
    return sums_by_token(returned.to(wide), route.token_of_row, route.own_tokens).to(dtype);
  }
  const int64_t all = std::accumulate(route.tokens.begin(), route.tokens.end(), int64_t{0});
  const Tensor terms = sums_by_token(weighted, route.token_of_row, all);
  return reduce_scatter(terms, route.tokens, group_, ReduceOp::sum, 0).to(dtype);
}

}  // namespace weft::distributed
