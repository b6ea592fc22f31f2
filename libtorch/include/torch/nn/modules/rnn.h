// Recurrent layers and cells.
#pragma once

#include <torch/nn/modules/any.h>
#include <torch/nn/modules/common.h>
#include <torch/nn/options/common.h>
#include <torch/nn/utils/rnn.h>

namespace torch::nn {

namespace detail {

/// Weights and options of RNN, LSTM and GRU.
template <class Derived>
class RNNImplBase : public Cloneable<Derived> {
 public:
  explicit RNNImplBase(const RNNOptionsBase& options_) : options_base(options_) {}
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;
  /// libtorch joins the weights in memory for cuDNN; Weft needs nothing.
  void flatten_parameters() {}
  std::vector<Tensor> all_weights() const { return flat_weights_; }
  void to(Device device, Dtype dtype, bool non_blocking = false) override { Module::to(device, dtype, non_blocking); }
  void to(Dtype dtype, bool non_blocking = false) override { Module::to(dtype, non_blocking); }
  void to(Device device, bool non_blocking = false) override { Module::to(device, non_blocking); }

  RNNOptionsBase options_base;

 protected:
  void check_sizes(const Tensor& input, const Tensor& batch_sizes) const;
  Tensor zero_state(const Tensor& input, const Tensor& batch_sizes, int64_t width) const;
  std::vector<std::string> flat_weights_names_;
  std::vector<Tensor> flat_weights_;
};

}  // namespace detail

#define TORCH_RECURRENT(Name)                                                                                   \
  class Name##Impl : public detail::RNNImplBase<Name##Impl> {                                                   \
   public:                                                                                                      \
    Name##Impl(int64_t input_size, int64_t hidden_size) : Name##Impl(Name##Options(input_size, hidden_size)) {} \
    explicit Name##Impl(const Name##Options& options_);                                                         \
    /* The output and the last hidden state. */                                                                 \
    std::tuple<Tensor, Tensor> forward(const Tensor& input, Tensor hx = {});                                    \
    std::tuple<utils::rnn::PackedSequence, Tensor> forward_with_packed_input(                                   \
        const utils::rnn::PackedSequence& packed_input, Tensor hx = {});                                        \
                                                                                                                \
   protected:                                                                                                   \
    FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(Tensor())})                                                           \
                                                                                                                \
   public:                                                                                                      \
    Name##Options options;                                                                                      \
                                                                                                                \
   private:                                                                                                     \
    std::tuple<Tensor, Tensor> run(const Tensor& input, const Tensor& batch_sizes, Tensor hx);                  \
  };                                                                                                            \
  TORCH_MODULE(Name);
TORCH_RECURRENT(RNN)
TORCH_RECURRENT(GRU)
#undef TORCH_RECURRENT

class LSTMImpl : public detail::RNNImplBase<LSTMImpl> {
 public:
  using State = std::tuple<Tensor, Tensor>;
  LSTMImpl(int64_t input_size, int64_t hidden_size) : LSTMImpl(LSTMOptions(input_size, hidden_size)) {}
  explicit LSTMImpl(const LSTMOptions& options_);
  /// The output, and the last hidden state and cells.
  std::tuple<Tensor, State> forward(const Tensor& input, optional<State> hx_opt = {});
  std::tuple<utils::rnn::PackedSequence, State> forward_with_packed_input(
      const utils::rnn::PackedSequence& packed_input, optional<State> hx_opt = {});

 protected:
  FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(optional<std::tuple<Tensor, Tensor>>())})

 public:
  LSTMOptions options;

 private:
  std::tuple<Tensor, State> run(const Tensor& input, const Tensor& batch_sizes, optional<State> hx);
};
TORCH_MODULE(LSTM);

namespace detail {

struct RNNCellOptionsBase {
  RNNCellOptionsBase(int64_t input_size, int64_t hidden_size, bool bias, int64_t num_chunks)
      : input_size_(input_size), hidden_size_(hidden_size), bias_(bias), num_chunks_(num_chunks) {}
  TORCH_ARG(int64_t, input_size);
  TORCH_ARG(int64_t, hidden_size);
  TORCH_ARG(bool, bias);
  TORCH_ARG(int64_t, num_chunks);
};
template <class Derived>
class RNNCellImplBase : public Cloneable<Derived> {
 public:
  explicit RNNCellImplBase(const RNNCellOptionsBase& options_) : options_base(options_) {}
  void reset() override;
  void reset_parameters();
  void pretty_print(std::ostream& stream) const override;

  RNNCellOptionsBase options_base;
  Tensor weight_ih, weight_hh, bias_ih, bias_hh;

 protected:
  Tensor state_or_zeros(const Tensor& input, const Tensor& state, const char* name) const;
};

}  // namespace detail

#define TORCH_CELL(Name, State)                                                                                 \
  class Name##Impl : public detail::RNNCellImplBase<Name##Impl> {                                               \
   public:                                                                                                      \
    Name##Impl(int64_t input_size, int64_t hidden_size) : Name##Impl(Name##Options(input_size, hidden_size)) {} \
    explicit Name##Impl(const Name##Options& options_);                                                         \
    State forward(const Tensor& input, TORCH_CELL_STATE(Name) hx = {});                                         \
                                                                                                                \
   protected:                                                                                                   \
    FORWARD_HAS_DEFAULT_ARGS({1, AnyValue(TORCH_CELL_STATE(Name)())})                                           \
                                                                                                                \
   public:                                                                                                      \
    Name##Options options;                                                                                      \
  };                                                                                                            \
  TORCH_MODULE(Name);
namespace detail {
using RNNCellState = Tensor;
using GRUCellState = Tensor;
using LSTMCellState = optional<std::tuple<Tensor, Tensor>>;
}  // namespace detail
#define TORCH_CELL_STATE(Name) detail::Name##State
using LSTMCellResult = std::tuple<Tensor, Tensor>;
TORCH_CELL(RNNCell, Tensor)
TORCH_CELL(GRUCell, Tensor)
TORCH_CELL(LSTMCell, LSTMCellResult)
#undef TORCH_CELL
#undef TORCH_CELL_STATE

}  // namespace torch::nn
