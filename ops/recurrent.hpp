// Recurrent layers and their cells, as PyTorch's functions of these names. Gates are concatenated in the rows of the
// weights: i, f, g, o for lstm and r, z, n for gru. 16-bit floats are computed in f32 and rounded once. ShapeError
// where sizes do not fit, DTypeError unless all is of one floating dtype, ValueError for a wrong number of parameters.
#pragma once

#include <span>

#include "../tensor/index.hpp"

namespace weft {

struct RecurrentOptions {
  int64_t num_layers = 1;
  /// Whether there are biases among the parameters.
  bool has_biases = true;
  /// Between the layers, with `train`.
  double dropout = 0;
  bool train = false;
  bool bidirectional = false;
  /// x and the output are [batch, steps, ...] rather than [steps, batch, ...].
  bool batch_first = false;
  /// Of packed sequences (i64 on the CPU): how many of them each step has, never more than the one before; x and the
  /// output are then [rows of all steps, ...], one step after the other.
  Tensor batch_sizes = {};
};

/// output [steps, batch, directions * hidden]; hidden [layers * directions, batch, hidden] has the last state of each
/// layer and direction, and cell, of lstm alone, the last cells. Without a batch that dimension is missing in all.
struct RecurrentOutput {
  Tensor output, hidden, cell;
};

/// i, f, o = sigmoid(..), g = tanh(..) of W_ih x + b_ih + W_hh h + b_hh; c = f c + i g; h = o tanh(c) (Hochreiter and
/// Schmidhuber 1997; Gers et al. 2000). x is [steps, batch, inputs] or [steps, inputs]; h0 and c0 are [layers *
/// directions, batch, hidden]. `parameters` has for each layer and each of its directions weight_ih [4 * hidden,
/// inputs], weight_hh [4 * hidden, hidden], bias_ih and bias_hh [4 * hidden], and, where all layers have it, weight_hr
/// [projected, hidden], a projection of h (Sak et al. 2014); h0 and the output then have width `projected`.
WEFT_API RecurrentOutput lstm(const Tensor& x, const Tensor& h0, const Tensor& c0, std::span<const Tensor> parameters,
                              const RecurrentOptions& options = {}, Location where = {});
/// r, z = sigmoid(..) of W_ih x + b_ih + W_hh h + b_hh; n = tanh(W_in x + b_in + r (W_hn h + b_hn)); h = (1 - z) n + z
/// h (Cho et al. 2014).
WEFT_API RecurrentOutput gru(const Tensor& x, const Tensor& h0, std::span<const Tensor> parameters,
                             const RecurrentOptions& options = {}, Location where = {});
/// h = tanh(W_ih x + b_ih + W_hh h + b_hh) (Elman 1990), or relu of it. Shapes and errors as lstm, with weights
/// [hidden, …].
WEFT_API RecurrentOutput rnn_tanh(const Tensor& x, const Tensor& h0, std::span<const Tensor> parameters,
                                  const RecurrentOptions& options = {}, Location where = {});
WEFT_API RecurrentOutput rnn_relu(const Tensor& x, const Tensor& h0, std::span<const Tensor> parameters,
                                  const RecurrentOptions& options = {}, Location where = {});

struct LstmState {
  Tensor hidden, cell;
};
/// One step of a layer: x [batch, inputs] and the states [batch, hidden], or all without the batch. Raises ShapeError
/// if a weight, bias or state does not fit.
WEFT_API LstmState lstm_cell(const Tensor& x, const Tensor& h, const Tensor& c, const Tensor& weight_ih,
                             const Tensor& weight_hh, const Tensor& bias_ih = {}, const Tensor& bias_hh = {},
                             Location where = {});
[[nodiscard]] WEFT_API Tensor gru_cell(const Tensor& x, const Tensor& h, const Tensor& weight_ih,
                                       const Tensor& weight_hh, const Tensor& bias_ih = {}, const Tensor& bias_hh = {},
                                       Location where = {});
[[nodiscard]] WEFT_API Tensor rnn_tanh_cell(const Tensor& x, const Tensor& h, const Tensor& weight_ih,
                                            const Tensor& weight_hh, const Tensor& bias_ih = {},
                                            const Tensor& bias_hh = {}, Location where = {});
[[nodiscard]] WEFT_API Tensor rnn_relu_cell(const Tensor& x, const Tensor& h, const Tensor& weight_ih,
                                            const Tensor& weight_hh, const Tensor& bias_ih = {},
                                            const Tensor& bias_hh = {}, Location where = {});

}  // namespace weft
