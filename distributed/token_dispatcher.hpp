// Sends tokens to experts on other ranks, and their results back.
//
//   const TokenDispatcher dispatcher(64, mesh.group("ep"));
//   const DispatchedTokens to = dispatcher.dispatch(x, routing, probabilities);
//   Tensor out = …;   // apply each local expert to its rows of to.tokens: to.counts[e] rows each, in order
//   Tensor y = dispatcher.combine(out, to);
//
// Every rank of the group calls the same functions in the same order, each with its own tokens. Gradients are those of
// the sum of all ranks' losses, as for collectives.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "../tensor/shared.hpp"
#include "../tensor/tensor.hpp"
#include "group.hpp"

namespace weft::distributed {

/// Tokens received by this rank.
struct DispatchedTokens {
  /// [rows, H]: sorted by local expert, then by source rank, then by token.
  Tensor tokens;
  /// [rows]
  Tensor probabilities;
  /// Number of rows of each local expert.
  std::vector<int64_t> counts;

  struct Route;
  /// Routing information that combine needs.
  Shared<const Route> route;
};

struct TokenDispatcherOptions {
  enum class Kind : uint8_t {
    all_to_all,  // a token is sent once to each rank with one of its experts, which returns one sum of its rows
    all_gather,  // every rank gets all tokens and selects those of its experts; reduce_scatter returns results
  };
  Kind kind = Kind::all_to_all;
  /// Capacity: maximum number of rows of a rank for each expert. The first ones by token and column of `routing` are
  /// kept, the others are dropped. Empty means no limit.
  std::optional<int64_t> capacity = {};
};

class WEFT_API TokenDispatcher {
 public:
  /// Rank r of the group has the experts [r · experts / ranks, (r + 1) · experts / ranks). Raises ValueError unless
  /// `experts` is above 0 and divisible by the number of ranks, and for a negative capacity.
  explicit TokenDispatcher(int64_t experts, Group group = world(), TokenDispatcherOptions options = {},
                           Location where = {});

  /// Sends x [T, H] to the experts in `routing` [T, K], integers in [-1, experts), where -1 means none, with
  /// `probabilities` [T, K], floating. T may differ between ranks, and may be 0. An expert named twice for a token gets
  /// two rows. Raises ShapeError, DTypeError and IndexError before anything is sent. Synchronizes with the device.
  DispatchedTokens dispatch(const Tensor& x, const Tensor& routing, const Tensor& probabilities,
                            Location where = {}) const;
  /// For each token the sum of its rows of `expert_out` [rows, …] over all ranks, weighted with their probabilities:
  /// [T, …], in expert_out's dtype, accumulated in f32 or f64; 0 for a token without experts. Raises ShapeError for
  /// another number of rows, and ValueError if nothing was dispatched. If only the experts need gradients, not x or
  /// probabilities, call experts without rows, too, so that all ranks record the same graph.
  Tensor combine(const Tensor& expert_out, const DispatchedTokens& dispatched, Location where = {}) const;

 private:
  int64_t experts_;
  Group group_;
  TokenDispatcherOptions options_;
};

}  // namespace weft::distributed
