// Mixtures of experts whose experts are on different ranks: tokens go to their experts, and what these make of them
// comes back.
//
//   const TokenDispatcher dispatcher(64, mesh.group("ep"));
//   const DispatchedTokens to = dispatcher.dispatch(x, routing, probabilities);
//   Tensor out = …;   // each local expert's function of its rows of to.tokens, which are to.counts[e] in order
//   Tensor y = dispatcher.combine(out, to);
//
// Every rank of the group calls the same functions in the same order, on tokens of its own. Gradients are those of the
// sum of all ranks' losses, as collectives have them.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "../tensor/shared.hpp"
#include "../tensor/tensor.hpp"
#include "group.hpp"

namespace weft::distributed {

/// What came to this rank.
struct DispatchedTokens {
  /// [rows, H]: by local expert, within it by the rank they came from, then by token.
  Tensor tokens;
  /// [rows]
  Tensor probabilities;
  /// How many rows each local expert has.
  std::vector<int64_t> counts;

  struct Route;
  /// The way back.
  Shared<const Route> route;
};

struct TokenDispatcherOptions {
  enum class Kind : uint8_t {
    all_to_all,  ///< a token goes once to each rank that has an expert of it, and one sum of its rows comes back
    all_gather,  ///< every rank gets all tokens, and takes those of its experts; reduce_scatter brings results back
  };
  Kind kind = Kind::all_to_all;
  /// How many rows of a rank an expert takes at most: the first ones, by token and place in `routing`. Others are
  /// dropped. Left out, all of them.
  std::optional<int64_t> capacity = {};
};

class WEFT_API TokenDispatcher {
 public:
  /// Rank r of the group has experts r · experts / ranks and the following. ValueError unless the number of ranks
  /// divides `experts`, which is above 0, and for a negative capacity.
  explicit TokenDispatcher(int64_t experts, Group group = world(), TokenDispatcherOptions options = {},
                           Location where = {});

  /// x [T, H] goes to the experts in `routing` [T, K], integers in [-1, experts), of which -1 is none; `probabilities`
  /// [T, K], floating, go along. T may differ between ranks, and be 0. An expert that is named twice gets two rows.
  /// ShapeError, DTypeError and IndexError before anything is sent. Waits for a device.
  DispatchedTokens dispatch(const Tensor& x, const Tensor& routing, const Tensor& probabilities,
                            Location where = {}) const;
  /// For each token the sum of its rows of `expert_out` [rows, …] over all ranks, times their probabilities: [T, …], of
  /// expert_out's dtype, added up in f32 or f64; 0 for a token of no expert. ShapeError for another number of rows,
  /// ValueError where nothing was dispatched.
  /// Where backward is to reach the experts and neither x nor probabilities need it, also experts without rows are
  /// called, so that all ranks record the same.
  Tensor combine(const Tensor& expert_out, const DispatchedTokens& dispatched, Location where = {}) const;

 private:
  int64_t experts_;
  Group group_;
  TokenDispatcherOptions options_;
};

}  // namespace weft::distributed
