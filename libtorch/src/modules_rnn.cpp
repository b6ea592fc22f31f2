#include <torch/nn/init.h>
#include <torch/nn/modules/rnn.h>
#include <torch/nn/utils.h>

#include <cmath>

#include <weft/nn/packed_sequence.hpp>
#include <weft/ops/packed.hpp>
#include <weft/ops/recurrent.hpp>

#include "print_options.h"

namespace torch::nn {

namespace detail {

namespace {

int64_t gates_of(const RNNOptionsBase& options) {
  if (std::holds_alternative<enumtype::kLSTM>(options.mode())) return 4 * options.hidden_size();
  return (std::holds_alternative<enumtype::kGRU>(options.mode()) ? 3 : 1) * options.hidden_size();
}
int64_t output_width(const RNNOptionsBase& options) {
  return options.proj_size() > 0 ? options.proj_size() : options.hidden_size();
}

}  // namespace

template <class Derived>
void RNNImplBase<Derived>::reset() {
  const RNNOptionsBase& o = options_base;
  TORCH_CHECK(o.proj_size() >= 0 && o.proj_size() < o.hidden_size(),
              "proj_size has to be a non-negative integer, smaller than hidden_size");
  if (o.dropout() > 0 && o.num_layers() == 1) {
    TORCH_WARN(
        "dropout option adds dropout after all but last recurrent layer, so non-zero dropout expects "
        "num_layers greater than 1, but got dropout=",
        o.dropout(), " and num_layers=", o.num_layers());
  }
  flat_weights_names_.clear();
  flat_weights_.clear();
  const int64_t directions = o.bidirectional() ? 2 : 1, width = output_width(o), gates = gates_of(o);
  for (int64_t layer = 0; layer < o.num_layers(); ++layer) {
    const int64_t inputs = layer == 0 ? o.input_size() : width * directions;
    for (int64_t direction = 0; direction < directions; ++direction) {
      const std::string suffix = "_l" + std::to_string(layer) + (direction == 1 ? "_reverse" : "");
      const auto add = [&](const char* name, std::vector<int64_t> shape) {
        flat_weights_names_.push_back(name + suffix);
        flat_weights_.push_back(this->register_parameter(name + suffix, at::empty(shape)));
      };
      add("weight_ih", {gates, inputs});
      add("weight_hh", {gates, width});
      if (o.bias()) {
        add("bias_ih", {gates});
        add("bias_hh", {gates});
      }
      if (o.proj_size() > 0) add("weight_hr", {o.proj_size(), o.hidden_size()});
    }
  }
  reset_parameters();
}
template <class Derived>
void RNNImplBase<Derived>::reset_parameters() {
  const double bound = 1 / std::sqrt(static_cast<double>(options_base.hidden_size()));
  for (Tensor& weight : this->parameters()) init::uniform_(weight, -bound, bound);
}
template <class Derived>
void RNNImplBase<Derived>::check_sizes(const Tensor& input, const Tensor& batch_sizes) const {
  const int64_t rank = batch_sizes.defined() ? 2 : 3;
  TORCH_CHECK(input.dim() == rank || (rank == 3 && input.dim() == 2), "input must have ", rank, " dimensions, got ",
              input.dim());
  TORCH_CHECK(input.size(-1) == options_base.input_size(), "input.size(-1) must be equal to input_size. Expected ",
              options_base.input_size(), ", got ", input.size(-1));
}
template <class Derived>
Tensor RNNImplBase<Derived>::zero_state(const Tensor& input, const Tensor& batch_sizes, int64_t width) const {
  const int64_t states = options_base.num_layers() * (options_base.bidirectional() ? 2 : 1);
  if (!batch_sizes.defined() && input.dim() == 2) return at::zeros({states, width}, input.options());
  const int64_t batch =
      batch_sizes.defined() ? batch_sizes[0].item<int64_t>() : input.size(options_base.batch_first() ? 0 : 1);
  return at::zeros({states, batch, width}, input.options());
}
template <class Derived>
void RNNImplBase<Derived>::pretty_print(std::ostream& stream) const {
  const RNNOptionsBase& o = options_base;
  std::string name = this->name();
  if (const size_t end = name.rfind("Impl"); end != name.npos) name.resize(end);
  stream << name << "(input_size=" << o.input_size() << ", hidden_size=" << o.hidden_size()
         << ", num_layers=" << o.num_layers() << ", bias=" << text(o.bias())
         << ", batch_first=" << text(o.batch_first()) << ", dropout=" << o.dropout()
         << ", bidirectional=" << text(o.bidirectional());
  if (o.proj_size() > 0) stream << ", proj_size=" << o.proj_size();
  stream << ")";
}

namespace {

template <class Options, class Mode>
RNNOptionsBase base_options(const Options& options, Mode mode) {
  RNNOptionsBase base(mode, options.input_size(), options.hidden_size());
  base.num_layers(options.num_layers())
      .bias(options.bias())
      .batch_first(options.batch_first())
      .dropout(options.dropout())
      .bidirectional(options.bidirectional());
  if constexpr (requires { options.proj_size(); }) base.proj_size(options.proj_size());
  return base;
}
RNNOptionsBase rnn_options(const RNNOptions& options) {
  if (std::holds_alternative<enumtype::kTanh>(options.nonlinearity())) return base_options(options, kRNN_TANH);
  return base_options(options, kRNN_RELU);
}
weft::RecurrentOptions call_options(const RNNOptionsBase& options, bool train, const Tensor& batch_sizes) {
  return {.num_layers = options.num_layers(),
          .has_biases = options.bias(),
          .dropout = options.dropout(),
          .train = train,
          .bidirectional = options.bidirectional(),
          .batch_first = options.batch_first() && !batch_sizes.defined(),
          .batch_sizes = batch_sizes};
}
Tensor permuted(const Tensor& state, const Tensor& permutation) {
  return permutation.defined() ? state.index_select(-2, permutation) : state;
}
utils::rnn::PackedSequence repacked(const Tensor& data, const utils::rnn::PackedSequence& like) {
  return {data, like.batch_sizes(), like.sorted_indices(), like.unsorted_indices()};
}

}  // namespace

}  // namespace detail

// ---- RNN and GRU ----
RNNImpl::RNNImpl(const RNNOptions& options_) : RNNImplBase(detail::rnn_options(options_)), options(options_) {
  reset();
}
GRUImpl::GRUImpl(const GRUOptions& options_) : RNNImplBase(detail::base_options(options_, kGRU)), options(options_) {
  reset();
}

std::tuple<Tensor, Tensor> RNNImpl::run(const Tensor& input, const Tensor& batch_sizes, Tensor hx) {
  check_sizes(input, batch_sizes);
  if (!hx.defined()) hx = zero_state(input, batch_sizes, options.hidden_size());
  const auto call = detail::call_options(options_base, is_training(), batch_sizes);
  const bool tanh = std::holds_alternative<enumtype::kRNN_TANH>(options_base.mode());
  weft::RecurrentOutput out = tanh ? weft::rnn_tanh(input, hx, at::unwrap(flat_weights_), call)
                                   : weft::rnn_relu(input, hx, at::unwrap(flat_weights_), call);
  return {std::move(out.output), std::move(out.hidden)};
}
std::tuple<Tensor, Tensor> GRUImpl::run(const Tensor& input, const Tensor& batch_sizes, Tensor hx) {
  check_sizes(input, batch_sizes);
  if (!hx.defined()) hx = zero_state(input, batch_sizes, options.hidden_size());
  weft::RecurrentOutput out =
      weft::gru(input, hx, at::unwrap(flat_weights_), detail::call_options(options_base, is_training(), batch_sizes));
  return {std::move(out.output), std::move(out.hidden)};
}
#define FORWARD(Name)                                                                               \
  std::tuple<Tensor, Tensor> Name##Impl::forward(const Tensor& input, Tensor hx) {                  \
    return run(input, Tensor(), std::move(hx));                                                     \
  }                                                                                                 \
  std::tuple<utils::rnn::PackedSequence, Tensor> Name##Impl::forward_with_packed_input(             \
      const utils::rnn::PackedSequence& packed, Tensor hx) {                                        \
    if (hx.defined()) hx = detail::permuted(hx, packed.sorted_indices());                           \
    auto [output, hidden] = run(packed.data(), packed.batch_sizes(), hx);                           \
    return {detail::repacked(output, packed), detail::permuted(hidden, packed.unsorted_indices())}; \
  }
FORWARD(RNN)
FORWARD(GRU)
#undef FORWARD

// ---- LSTM ----
LSTMImpl::LSTMImpl(const LSTMOptions& options_)
    : RNNImplBase(detail::base_options(options_, kLSTM)), options(options_) {
  reset();
}
std::tuple<Tensor, LSTMImpl::State> LSTMImpl::run(const Tensor& input, const Tensor& batch_sizes, optional<State> hx) {
  check_sizes(input, batch_sizes);
  if (!hx) {
    hx = State(zero_state(input, batch_sizes, detail::output_width(options_base)),
               zero_state(input, batch_sizes, options.hidden_size()));
  }
  weft::RecurrentOutput out = weft::lstm(input, std::get<0>(*hx), std::get<1>(*hx), at::unwrap(flat_weights_),
                                         detail::call_options(options_base, is_training(), batch_sizes));
  return {std::move(out.output), State(std::move(out.hidden), std::move(out.cell))};
}
std::tuple<Tensor, LSTMImpl::State> LSTMImpl::forward(const Tensor& input, optional<State> hx_opt) {
  return run(input, Tensor(), std::move(hx_opt));
}
std::tuple<utils::rnn::PackedSequence, LSTMImpl::State> LSTMImpl::forward_with_packed_input(
    const utils::rnn::PackedSequence& packed, optional<State> hx_opt) {
  const auto permute = [](const State& state, const Tensor& order) {
    return State(detail::permuted(std::get<0>(state), order), detail::permuted(std::get<1>(state), order));
  };
  if (hx_opt) hx_opt = permute(*hx_opt, packed.sorted_indices());
  auto [output, state] = run(packed.data(), packed.batch_sizes(), hx_opt);
  return {detail::repacked(output, packed), permute(state, packed.unsorted_indices())};
}

// ---- cells ----
namespace detail {

template <class Derived>
void RNNCellImplBase<Derived>::reset() {
  const int64_t gates = options_base.num_chunks() * options_base.hidden_size();
  weight_ih = this->register_parameter("weight_ih", at::empty({gates, options_base.input_size()}));
  weight_hh = this->register_parameter("weight_hh", at::empty({gates, options_base.hidden_size()}));
  const bool bias = options_base.bias();
  bias_ih = this->register_parameter("bias_ih", bias ? at::empty({gates}) : Tensor(), bias);
  bias_hh = this->register_parameter("bias_hh", bias ? at::empty({gates}) : Tensor(), bias);
  reset_parameters();
}
template <class Derived>
void RNNCellImplBase<Derived>::reset_parameters() {
  const double bound = 1 / std::sqrt(static_cast<double>(options_base.hidden_size()));
  for (Tensor& weight : this->parameters()) init::uniform_(weight, -bound, bound);
}
template <class Derived>
void RNNCellImplBase<Derived>::pretty_print(std::ostream& stream) const {
  std::string name = this->name();
  if (const size_t end = name.rfind("Impl"); end != name.npos) name.resize(end);
  stream << name << "(" << options_base.input_size() << ", " << options_base.hidden_size();
  if (!options_base.bias()) stream << ", bias=false";
  if constexpr (std::is_same_v<Derived, RNNCellImpl>) {
    const auto& nonlinearity = static_cast<const RNNCellImpl*>(this)->options.nonlinearity();
    if (!std::holds_alternative<enumtype::kTanh>(nonlinearity)) {
      stream << ", nonlinearity=" << enumtype::get_enum_name(nonlinearity);
    }
  }
  stream << ")";
}
template <class Derived>
Tensor RNNCellImplBase<Derived>::state_or_zeros(const Tensor& input, const Tensor& state, const char* name) const {
  TORCH_CHECK(input.size(-1) == options_base.input_size(), "input has inconsistent input_size: got ", input.size(-1),
              " expected ", options_base.input_size());
  if (state.defined()) {
    TORCH_CHECK(state.size(-1) == options_base.hidden_size(), "hidden", name, " has inconsistent hidden_size: got ",
                state.size(-1), ", expected ", options_base.hidden_size());
    return state;
  }
  std::vector<int64_t> shape = input.sizes().vec();
  shape.back() = options_base.hidden_size();
  return at::zeros(shape, input.options());
}

}  // namespace detail

RNNCellImpl::RNNCellImpl(const RNNCellOptions& options_)
    : RNNCellImplBase({options_.input_size(), options_.hidden_size(), options_.bias(), 1}), options(options_) {
  reset();
}
GRUCellImpl::GRUCellImpl(const GRUCellOptions& options_)
    : RNNCellImplBase({options_.input_size(), options_.hidden_size(), options_.bias(), 3}), options(options_) {
  reset();
}
LSTMCellImpl::LSTMCellImpl(const LSTMCellOptions& options_)
    : RNNCellImplBase({options_.input_size(), options_.hidden_size(), options_.bias(), 4}), options(options_) {
  reset();
}
Tensor RNNCellImpl::forward(const Tensor& input, Tensor hx) {
  const Tensor h = state_or_zeros(input, hx, "");
  return std::holds_alternative<enumtype::kTanh>(options.nonlinearity())
             ? weft::rnn_tanh_cell(input, h, weight_ih, weight_hh, bias_ih, bias_hh)
             : weft::rnn_relu_cell(input, h, weight_ih, weight_hh, bias_ih, bias_hh);
}
Tensor GRUCellImpl::forward(const Tensor& input, Tensor hx) {
  return weft::gru_cell(input, state_or_zeros(input, hx, ""), weight_ih, weight_hh, bias_ih, bias_hh);
}
LSTMCellResult LSTMCellImpl::forward(const Tensor& input, detail::LSTMCellState hx) {
  const Tensor h = state_or_zeros(input, hx ? std::get<0>(*hx) : Tensor(), "[0]");
  const Tensor c = state_or_zeros(input, hx ? std::get<1>(*hx) : Tensor(), "[1]");
  weft::LstmState state = weft::lstm_cell(input, h, c, weight_ih, weight_hh, bias_ih, bias_hh);
  return {std::move(state.hidden), std::move(state.cell)};
}

namespace detail {
template class RNNImplBase<RNNImpl>;
template class RNNImplBase<GRUImpl>;
template class RNNImplBase<LSTMImpl>;
template class RNNCellImplBase<RNNCellImpl>;
template class RNNCellImplBase<GRUCellImpl>;
template class RNNCellImplBase<LSTMCellImpl>;
}  // namespace detail

// ---- packed sequences ----
namespace utils::rnn {

PackedSequence::PackedSequence(Tensor data, Tensor batch_sizes, Tensor sorted_indices, Tensor unsorted_indices)
    : data_(std::move(data)),
      batch_sizes_(std::move(batch_sizes)),
      sorted_indices_(std::move(sorted_indices)),
      unsorted_indices_(std::move(unsorted_indices)) {
  if (!unsorted_indices_.defined() && sorted_indices_.defined()) {
    unsorted_indices_ = invert_permutation(sorted_indices_);
  }
}
PackedSequence PackedSequence::to(const TensorOptions& options) const {
  const TensorOptions device = TensorOptions(options.device());
  const auto moved = [&](const Tensor& t) { return t.defined() ? t.to(device) : t; };
  return {data_.to(options), batch_sizes_, moved(sorted_indices_), moved(unsorted_indices_)};
}

Tensor invert_permutation(const Tensor& permutation) {
  if (!permutation.defined()) return {};
  return at::empty_like(permutation).scatter_(0, permutation, at::arange(permutation.numel(), permutation.options()));
}
PackedSequence pack_padded_sequence(Tensor input, Tensor lengths, bool batch_first, bool enforce_sorted) {
  weft::nn::PackedSequence packed =
      weft::nn::pack_padded_sequence(input, lengths, {.batch_first = batch_first, .enforce_sorted = enforce_sorted});
  return {packed.data, packed.batch_sizes, packed.sorted_indices, packed.unsorted_indices};
}
std::tuple<Tensor, Tensor> pad_packed_sequence(PackedSequence sequence, bool batch_first, double padding_value,
                                               optional<int64_t> total_length) {
  weft::nn::PaddedSequence padded = weft::nn::pad_packed_sequence(
      {sequence.data(), sequence.batch_sizes(), sequence.sorted_indices(), sequence.unsorted_indices()},
      {.batch_first = batch_first, .padding_value = padding_value, .total_length = total_length});
  return {std::move(padded.data), std::move(padded.lengths)};
}
Tensor pad_sequence(ArrayRef<Tensor> sequences, bool batch_first, double padding_value) {
  return weft::pad_sequence(at::unwrap(sequences), batch_first, padding_value);
}
PackedSequence pack_sequence(ArrayRef<Tensor> sequences, bool enforce_sorted) {
  std::vector<int64_t> lengths;
  for (const Tensor& sequence : sequences) lengths.push_back(sequence.size(0));
  return pack_padded_sequence(pad_sequence(sequences), at::tensor(lengths), false, enforce_sorted);
}

}  // namespace utils::rnn

}  // namespace torch::nn
