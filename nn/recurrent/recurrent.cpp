#include "../recurrent.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../../ops/create.hpp"
#include "../../ops/index.hpp"
#include "../containers.hpp"
#include "../description-inl.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::nn {

namespace {

constexpr std::string_view nonlinearities[] = {"tanh", "relu"};

void check_layer(const std::string& layer, int64_t input_size, int64_t hidden_size, Location where) {
  check_size(layer, "input_size", input_size, where);
  if (hidden_size >= 1) return;
  raise<ValueError>({.op = layer.c_str(), .problem = mismatch_text("hidden_size", "at least 1", hidden_size)}, where);
}

Parameter drawn(const Dims& shape, int64_t hidden, Location where) { return uniform_by_width(shape, hidden, where); }

}  // namespace

template <class O, class... More>
static auto recurrent(const char* name, Of<O>, More... more) {
  return described(name, "", required<int64_t>("input_size").bare(), required<int64_t>("hidden_size").bare(),
                   option("num_layers", &O::num_layers).if_set(), option("bias", &O::bias).if_set(),
                   option("batch_first", &O::batch_first).if_set(), option("dropout", &O::dropout).if_set(),
                   option("bidirectional", &O::bidirectional).if_set(), more...);
}
static auto describe(Of<LSTM>) {
  return recurrent("LSTM", Of<LSTMOptions>(), option("proj_size", &LSTMOptions::proj_size).if_set().printed_at(2));
}
static auto describe(Of<GRU>) { return recurrent("GRU", Of<RecurrentLayerOptions>()); }
static auto describe(Of<RNN>) {
  return recurrent("RNN", Of<RNNOptions>(),
                   option("nonlinearity", &RNNOptions::relu, nonlinearities).hidden().python_at(3));
}

template <class... More>
static auto cell(const char* name, More... more) {
  return described(name, "", required<int64_t>("input_size").bare(), required<int64_t>("hidden_size").bare(),
                   option("bias", true).if_set(), more...);
}
static auto describe(Of<LSTMCell>) { return cell("LSTMCell"); }
static auto describe(Of<GRUCell>) { return cell("GRUCell"); }
static auto describe(Of<RNNCell>) { return cell("RNNCell", choice("nonlinearity", nonlinearities, false).hidden()); }

namespace detail {

template <class Self>
RecurrentBase<Self>::RecurrentBase(RecurrentShape shape, Location where) : shape_(std::move(shape)) {
  const RecurrentLayerOptions& o = shape_.options;
  const std::string layer = "nn::" + shape_.type;
  const int64_t hidden = shape_.hidden_size, projected = shape_.proj_size, width = projected > 0 ? projected : hidden;
  check_layer(layer, shape_.input_size, hidden, where);
  const auto refuse = [&](const std::string& problem) {
    raise<ValueError>({.op = layer.c_str(), .problem = problem}, where);
  };
  if (o.num_layers < 1) refuse(mismatch_text("num_layers", "at least 1", o.num_layers));
  if (!(o.dropout >= 0 && o.dropout <= 1)) refuse(mismatch_text("dropout", "a number in [0, 1]", o.dropout));
  if (projected < 0 || projected >= hidden) {
    refuse(mismatch_text("proj_size", fmt::format("a number in [0, {}), below hidden_size", hidden), projected));
  }
  const int64_t directions = o.bidirectional ? 2 : 1, gates = shape_.gates * hidden;
  for (int64_t i = 0; i < o.num_layers * directions; ++i) {
    const std::string suffix = fmt::format("_l{}{}", i / directions, i % directions == 1 ? "_reverse" : "");
    const auto add = [&](const char* name, const Dims& sizes) {
      names_.push_back(name + suffix);
      parameters_.push_back(drawn(sizes, hidden, where));
    };
    add("weight_ih", {gates, i < directions ? shape_.input_size : width * directions});
    add("weight_hh", {gates, width});
    if (o.bias) add("bias_ih", Dims(gates)), add("bias_hh", Dims(gates));
    if (projected > 0) add("weight_hr", {projected, hidden});
  }
  for (size_t i = 0; i < names_.size(); ++i) this->register_parameter(names_[i], parameters_[i]);
}

template <class Self>
const Parameter& RecurrentBase<Self>::parameter(std::string_view name, Location where) const {
  const auto found = std::ranges::find(names_, name);
  if (found == names_.end()) {
    raise<KeyError>({.op = shape_.type.c_str(),
                     .problem = fmt::format("there is no parameter \"{}\"", name),
                     .details = fmt::format("there are: {}", fmt::join(names_, ", "))},
                    where);
  }
  return parameters_[static_cast<size_t>(found - names_.begin())];
}

template <class Self>
std::vector<Tensor> RecurrentBase<Self>::weights(Location where) const {
  std::vector<Tensor> out;
  for (const Parameter& p : parameters_) out.push_back(this->borrowed(p, where));
  return out;
}

template <class Self>
RecurrentOptions RecurrentBase<Self>::options_for(const RecurrentInput& x) const {
  const RecurrentLayerOptions& o = shape_.options;
  return {.num_layers = o.num_layers,
          .has_biases = o.bias,
          .dropout = o.dropout,
          .train = this->is_training(),
          .bidirectional = o.bidirectional,
          .batch_first = o.batch_first,
          .batch_sizes = x.packed ? x.packed->batch_sizes : Tensor()};
}

template <class Self>
Tensor RecurrentBase<Self>::first_state(const Tensor& given, const RecurrentInput& x, int64_t width,
                                        Location where) const {
  const RecurrentLayerOptions& o = shape_.options;
  if (given.defined()) {
    const bool sorted = x.packed && x.packed->sorted_indices.defined();
    return sorted ? index_select(given, 1, x.packed->sorted_indices, where) : given;
  }
  const int64_t groups = o.num_layers * (o.bidirectional ? 2 : 1);
  const TensorOptions like{x.data.defined() ? x.data.dtype() : default_dtype(),
                           x.data.defined() ? x.data.device() : Device()};
  if (!x.packed && x.data.defined() && x.data.dim() == 2) return zeros({groups, width}, like, where);
  int64_t batch = 0;
  if (x.packed && x.packed->batch_sizes.numel() > 0) batch = x.packed->batch_sizes[0].item<int64_t>();
  else if (x.data.defined() && x.data.dim() == 3) batch = x.data.size(o.batch_first ? 0 : 1);
  return zeros({groups, batch, width}, like, where);
}

template <class Self>
std::optional<PackedSequence> RecurrentBase<Self>::packed_like(const RecurrentInput& x, const Tensor& data) {
  if (!x.packed) return {};
  return PackedSequence{data, x.packed->batch_sizes, x.packed->sorted_indices, x.packed->unsorted_indices};
}

template <class Self>
Tensor RecurrentBase<Self>::in_order(const Tensor& states, const RecurrentInput& x, Location where) {
  const bool sorted = x.packed && x.packed->unsorted_indices.defined();
  return sorted ? index_select(states, 1, x.packed->unsorted_indices, where) : states;
}

template class RecurrentBase<LSTM>;
template class RecurrentBase<GRU>;
template class RecurrentBase<RNN>;

}  // namespace detail

LSTM::LSTM(int64_t input_size, int64_t hidden_size, const LSTMOptions& o, Location where)
    : RecurrentBase({"LSTM",
                     4,
                     input_size,
                     hidden_size,
                     o.proj_size,
                     {o.num_layers, o.bias, o.batch_first, o.dropout, o.bidirectional}},
                    where) {
  set_options(*this, where, input_size, hidden_size, o);
}

LSTMResult LSTM::forward(const RecurrentInput& x, const LstmState& state, Location where) const {
  const int64_t hidden = shape_.hidden_size, width = shape_.proj_size > 0 ? shape_.proj_size : hidden;
  const RecurrentOutput out = lstm(x.data, first_state(state.hidden, x, width, where),
                                   first_state(state.cell, x, hidden, where), weights(where), options_for(x), where);
  return {out.output, in_order(out.hidden, x, where), in_order(out.cell, x, where), packed_like(x, out.output)};
}

GRU::GRU(int64_t input_size, int64_t hidden_size, const RecurrentLayerOptions& options, Location where)
    : RecurrentBase({"GRU", 3, input_size, hidden_size, 0, options}, where) {
  set_options(*this, where, input_size, hidden_size, options);
}

RNNResult GRU::forward(const RecurrentInput& x, const Tensor& state, Location where) const {
  const Tensor first = first_state(state, x, shape_.hidden_size, where);
  const RecurrentOutput out = gru(x.data, first, weights(where), options_for(x), where);
  return {out.output, in_order(out.hidden, x, where), packed_like(x, out.output)};
}

RNN::RNN(int64_t input_size, int64_t hidden_size, const RNNOptions& o, Location where)
    : RecurrentBase(
          {"RNN", 1, input_size, hidden_size, 0, {o.num_layers, o.bias, o.batch_first, o.dropout, o.bidirectional}},
          where),
      relu_(o.relu) {
  set_options(*this, where, input_size, hidden_size, o);
}

RNNResult RNN::forward(const RecurrentInput& x, const Tensor& state, Location where) const {
  const Tensor first = first_state(state, x, shape_.hidden_size, where);
  const RecurrentOutput out = relu_ ? rnn_relu(x.data, first, weights(where), options_for(x), where)
                                    : rnn_tanh(x.data, first, weights(where), options_for(x), where);
  return {out.output, in_order(out.hidden, x, where), packed_like(x, out.output)};
}

// ---- cells ----

namespace {

/// Initialises the parameters of a cell; the weights have `gates` times the hidden size rows.
template <class C>
void draw(C& cell, const char* layer, int64_t gates, int64_t input_size, int64_t hidden_size, bool bias,
          Location where) {
  check_layer(layer, input_size, hidden_size, where);
  const int64_t rows = gates * hidden_size;
  cell.weight_ih = drawn({rows, input_size}, hidden_size, where);
  cell.weight_hh = drawn({rows, hidden_size}, hidden_size, where);
  if (bias) cell.bias_ih = drawn(rows, hidden_size, where), cell.bias_hh = drawn(rows, hidden_size, where);
}

struct CellWeights {
  template <class C>
  CellWeights(const C& cell, Location where)
      : ih(cell.borrowed(cell.weight_ih, where)),
        hh(cell.borrowed(cell.weight_hh, where)),
        bias_ih(cell.borrowed(cell.bias_ih, where)),
        bias_hh(cell.borrowed(cell.bias_hh, where)) {}

  int64_t hidden() const { return hh.get().size(1); }
  MemberTensor ih, hh, bias_ih, bias_hh;
};

Tensor state_or_zeros(const Tensor& state, const Tensor& x, int64_t hidden, Location where) {
  if (state.defined() || !x.defined()) return state;
  const TensorOptions like{x.dtype(), x.device()};
  return x.dim() <= 1 ? zeros(hidden, like, where) : zeros({x.size(0), hidden}, like, where);
}

}  // namespace

LSTMCell::LSTMCell(int64_t input_size, int64_t hidden_size, bool bias, Location where) {
  draw(*this, "nn::LSTMCell", 4, input_size, hidden_size, bias, where);
  WEFT_REGISTER(weight_ih, weight_hh, bias_ih, bias_hh);
  set_options(*this, where, input_size, hidden_size, bias);
}

LstmState LSTMCell::forward(const Tensor& x, const LstmState& state, Location where) const {
  const CellWeights w(*this, where);
  return lstm_cell(x, state_or_zeros(state.hidden, x, w.hidden(), where),
                   state_or_zeros(state.cell, x, w.hidden(), where), w.ih, w.hh, w.bias_ih, w.bias_hh, where);
}

GRUCell::GRUCell(int64_t input_size, int64_t hidden_size, bool bias, Location where) {
  draw(*this, "nn::GRUCell", 3, input_size, hidden_size, bias, where);
  WEFT_REGISTER(weight_ih, weight_hh, bias_ih, bias_hh);
  set_options(*this, where, input_size, hidden_size, bias);
}

Tensor GRUCell::forward(const Tensor& x, const Tensor& state, Location where) const {
  const CellWeights w(*this, where);
  return gru_cell(x, state_or_zeros(state, x, w.hidden(), where), w.ih, w.hh, w.bias_ih, w.bias_hh, where);
}

RNNCell::RNNCell(int64_t input_size, int64_t hidden_size, bool bias, bool relu, Location where) : relu_(relu) {
  draw(*this, "nn::RNNCell", 1, input_size, hidden_size, bias, where);
  WEFT_REGISTER(weight_ih, weight_hh, bias_ih, bias_hh);
  set_options(*this, where, input_size, hidden_size, bias, relu);
  if (relu) set_extra_repr(extra_repr() + ", nonlinearity=relu");
}

Tensor RNNCell::forward(const Tensor& x, const Tensor& state, Location where) const {
  const CellWeights w(*this, where);
  const Tensor before = state_or_zeros(state, x, w.hidden(), where);
  return relu_ ? rnn_relu_cell(x, before, w.ih, w.hh, w.bias_ih, w.bias_hh, where)
               : rnn_tanh_cell(x, before, w.ih, w.hh, w.bias_ih, w.bias_hh, where);
}

void detail::describe_recurrent(LayerList& list) { list.add<LSTM, GRU, RNN, LSTMCell, GRUCell, RNNCell>(); }

}  // namespace weft::nn
