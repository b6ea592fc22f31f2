// Recurrent layers and cells; see ops/recurrent.hpp for formulas and shapes. Parameters are f32 on the CPU, initialised
// uniformly in ±1/√hidden. Names, layout and order are PyTorch's: weight_ih_l0, weight_hh_l0, bias_ih_l0, bias_hh_l0,
// with the suffix _reverse for the other direction. Constructors raise ValueError for sizes and numbers of layers below
// 1 and for a dropout outside [0, 1].
#pragma once

#include <string>
#include <tuple>
#include <vector>

#include "../ops/recurrent.hpp"
#include "module.hpp"
#include "packed_sequence.hpp"

namespace weft::nn {

struct RecurrentLayerOptions {
  int64_t num_layers = 1;
  bool bias = true;
  /// x and the output are [batch, steps, ...].
  bool batch_first = false;
  /// Dropout probability on the output of every layer but the last, in training.
  double dropout = 0;
  bool bidirectional = false;
};
struct RNNOptions {
  int64_t num_layers = 1;
  bool relu = false;  ///< instead of tanh
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
};
struct LSTMOptions {
  int64_t num_layers = 1;
  bool bias = true;
  bool batch_first = false;
  double dropout = 0;
  bool bidirectional = false;
  /// Size of the projection of h; 0: no projection, h has hidden_size.
  int64_t proj_size = 0;
};

/// A padded tensor, [steps, batch, inputs] or without the batch, or packed sequences.
struct RecurrentInput {
  RecurrentInput(const Tensor& x) : data(x) {}
  RecurrentInput(const PackedSequence& x) : data(x.data), packed(x) {}
  auto tensors() { return std::tie(data); }

  Tensor data;
  std::optional<PackedSequence> packed = {};
};
/// If the input was packed, `packed` is set and `output` is its data.
struct LSTMResult {
  Tensor output, hidden, cell;
  std::optional<PackedSequence> packed = {};
  auto tensors() { return std::tie(output, hidden, cell); }
};
struct RNNResult {
  Tensor output, hidden;
  std::optional<PackedSequence> packed = {};
  auto tensors() { return std::tie(output, hidden); }
};

namespace detail {

/// Options that determine the parameters of all layers and directions, in the layout of weft::lstm.
struct RecurrentShape {
  std::string type;
  int64_t gates, input_size, hidden_size, proj_size;
  RecurrentLayerOptions options;
};

/// Base class of RNN, LSTM and GRU.
template <class Self>
class WEFT_API RecurrentBase : public Layer<Self> {
 public:
  /// The parameter of this name, such as weight_ih_l0. Raises KeyError if it does not exist.
  const Parameter& parameter(std::string_view name, Location where = {}) const;

 protected:
  RecurrentOptions options_for(const RecurrentInput& x) const;
  /// The given initial state in the order of the packed sequences; zeros if it is undefined.
  Tensor first_state(const Tensor& given, const RecurrentInput& x, int64_t width, Location where) const;
  static std::optional<PackedSequence> packed_like(const RecurrentInput& x, const Tensor& data);
  static Tensor in_order(const Tensor& states, const RecurrentInput& x, Location where);
  std::vector<Tensor> weights(Location where) const;

  RecurrentShape shape_;

 private:
  friend Self;
  RecurrentBase(RecurrentShape shape, Location where);

  std::vector<std::string> names_;
  std::vector<Parameter> parameters_;
};

}  // namespace detail

/// weft::lstm as a layer. The default initial state is zeros.
class WEFT_API LSTM : public detail::RecurrentBase<LSTM> {
 public:
  LSTM(int64_t input_size, int64_t hidden_size, const LSTMOptions& options = {}, Location where = {});
  template <class = void>
  LSTM(int64_t, int64_t, ...) = delete;  // options have names and an order: {.num_layers = 2}
  LSTMResult forward(const RecurrentInput& x, Location where) const { return forward(x, LstmState(), where); }
  LSTMResult forward(const RecurrentInput& x, const LstmState& state, Location where) const;
};

/// weft::gru as a layer.
class WEFT_API GRU : public detail::RecurrentBase<GRU> {
 public:
  GRU(int64_t input_size, int64_t hidden_size, const RecurrentLayerOptions& options = {}, Location where = {});
  template <class = void>
  GRU(int64_t, int64_t, ...) = delete;  // options have names and an order: {.num_layers = 2}
  RNNResult forward(const RecurrentInput& x, Location where) const { return forward(x, Tensor(), where); }
  RNNResult forward(const RecurrentInput& x, const Tensor& state, Location where) const;
};

/// weft::rnn_tanh or weft::rnn_relu as a layer.
class WEFT_API RNN : public detail::RecurrentBase<RNN> {
 public:
  RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& options = {}, Location where = {});
  template <class = void>
  RNN(int64_t, int64_t, ...) = delete;  // options have names and an order: {.num_layers = 2}
  RNNResult forward(const RecurrentInput& x, Location where) const { return forward(x, Tensor(), where); }
  RNNResult forward(const RecurrentInput& x, const Tensor& state, Location where) const;

 private:
  bool relu_;
};

/// weft::lstm_cell as a layer. An undefined state means zeros.
class WEFT_API LSTMCell : public Layer<LSTMCell> {
 public:
  LSTMCell(int64_t input_size, int64_t hidden_size, bool bias = true, Location where = {});
  LstmState forward(const Tensor& x, Location where) const { return forward(x, LstmState(), where); }
  LstmState forward(const Tensor& x, const LstmState& state, Location where) const;

  Parameter weight_ih, weight_hh, bias_ih, bias_hh;
};
class WEFT_API GRUCell : public Layer<GRUCell> {
 public:
  GRUCell(int64_t input_size, int64_t hidden_size, bool bias = true, Location where = {});
  Tensor forward(const Tensor& x, Location where) const { return forward(x, Tensor(), where); }
  Tensor forward(const Tensor& x, const Tensor& state, Location where) const;

  Parameter weight_ih, weight_hh, bias_ih, bias_hh;
};
class WEFT_API RNNCell : public Layer<RNNCell> {
 public:
  RNNCell(int64_t input_size, int64_t hidden_size, bool bias = true, bool relu = false, Location where = {});
  /// Deleted: "tanh" would convert to true.
  RNNCell(int64_t input_size, int64_t hidden_size, bool bias, const char* nonlinearity, Location where = {}) = delete;
  Tensor forward(const Tensor& x, Location where) const { return forward(x, Tensor(), where); }
  Tensor forward(const Tensor& x, const Tensor& state, Location where) const;

  Parameter weight_ih, weight_hh, bias_ih, bias_hh;

 private:
  bool relu_;
};

template <>
struct detail::CallOf<GRU> {
  using First = const RecurrentInput&;
};
template <>
struct detail::CallOf<RNN> : detail::CallOf<GRU> {};
template <>
struct detail::CallOf<LSTM> : detail::CallOf<GRU> {
  using Last = LstmState;
};
template <>
struct detail::CallOf<LSTMCell> {
  using First = const Tensor&;
  using Last = LstmState;
};

/// Element i, for structured bindings: `auto [output, hidden, cell] = lstm(x)`.
template <size_t i>
Tensor get(const LSTMResult& result) {
  return std::get<i>(std::tie(result.output, result.hidden, result.cell));
}
template <size_t i>
Tensor get(const RNNResult& result) {
  return std::get<i>(std::tie(result.output, result.hidden));
}

}  // namespace weft::nn

// Structured bindings: `auto [output, hidden, cell] = lstm(x);`
template <>
struct std::tuple_size<weft::nn::LSTMResult> : std::integral_constant<size_t, 3> {};
template <>
struct std::tuple_size<weft::nn::RNNResult> : std::integral_constant<size_t, 2> {};
template <size_t i>
struct std::tuple_element<i, weft::nn::LSTMResult> {
  using type = weft::Tensor;
};
template <size_t i>
struct std::tuple_element<i, weft::nn::RNNResult> {
  using type = weft::Tensor;
};
