// One layer of a recurrent network in one direction, with its gradient. Not public.
#pragma once

#include <vector>

#include "../../backends/recurrent_steps.hpp"
#include "common.hpp"

namespace weft {

/// How the rows of x go through a layer; see RecurrentSteps.
struct RecurrentPath {
  Cell cell;
  bool reverse = false;
  int64_t count = 1;
  std::vector<int64_t> rows = {};

  RecurrentSteps steps() const { return {count, reverse, rows}; }
};

/// Undefined where there is none. All of one of the dtypes f32 and f64, and of sizes that fit.
struct RecurrentWeights {
  Tensor ih, hh, bias_ih, bias_hh, hr;
};

/// out [rows, hidden], and the last states [batch, hidden].
struct RecurrentStates {
  Tensor out, hidden, cell;
};

/// x is [rows, inputs]; h0 and c0 are [batch, hidden].
RecurrentStates recurrent_layer(const RecurrentPath& path, const Tensor& x, const RecurrentWeights& weights,
                                const Tensor& h0, const Tensor& c0);

}  // namespace weft
