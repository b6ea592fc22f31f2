#include <gtest/gtest.h>

#include <cmath>

#include <weft/weft.hpp>

namespace weft {
namespace {

/// One step of a layer in double precision, gate by gate.
std::vector<double> plain_lstm(const nn::LSTM& net, const Tensor& x) {
  const int64_t steps = x.size(0), inputs = x.size(1), hidden = net.parameter("weight_hh_l0").size(1);
  const auto numbers = [&](const char* name) {
    return net.parameter(name).to(DType::f64).flatten().to_vector<double>();
  };
  const auto w_ih = numbers("weight_ih_l0"), w_hh = numbers("weight_hh_l0"), b_ih = numbers("bias_ih_l0"),
             b_hh = numbers("bias_hh_l0"), in = x.to(DType::f64).flatten().to_vector<double>();
  std::vector<double> h(static_cast<size_t>(hidden)), c(h), out;
  const auto sigmoid_of = [](double v) { return 1 / (1 + std::exp(-v)); };
  for (int64_t t = 0; t < steps; ++t) {
    std::vector<double> gate(static_cast<size_t>(4 * hidden));
    for (int64_t r = 0; r < 4 * hidden; ++r) {
      double sum = b_ih[static_cast<size_t>(r)] + b_hh[static_cast<size_t>(r)];
      for (int64_t k = 0; k < inputs; ++k)
        sum += w_ih[static_cast<size_t>(r * inputs + k)] * in[static_cast<size_t>(t * inputs + k)];
      for (int64_t k = 0; k < hidden; ++k) sum += w_hh[static_cast<size_t>(r * hidden + k)] * h[static_cast<size_t>(k)];
      gate[static_cast<size_t>(r)] = sum;
    }
    for (int64_t j = 0; j < hidden; ++j) {
      const auto at = [&](int64_t g) { return gate[static_cast<size_t>(g * hidden + j)]; };
      double &cell = c[static_cast<size_t>(j)], &state = h[static_cast<size_t>(j)];
      cell = sigmoid_of(at(1)) * cell + sigmoid_of(at(0)) * std::tanh(at(2));
      state = sigmoid_of(at(3)) * std::tanh(cell);
    }
    out.insert(out.end(), h.begin(), h.end());
  }
  return out;
}

TEST(Recurrent, LstmIsItsFormula) {
  for (const int64_t hidden : {1, 7, 40}) {
    const nn::LSTM net(5, hidden);
    const Tensor x = randn({6, 5});
    const std::vector<double> expected = plain_lstm(net, x);
    const nn::LSTMResult result = net(x);
    const std::vector<float> found = result.output.flatten().to_vector<float>();
    ASSERT_EQ(found.size(), expected.size());
    for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], expected[i], 1e-5);
  }
}

TEST(Recurrent, PackedSequencesAreEachAlone) {
  const nn::GRU net(3, 5, {.num_layers = 2, .bidirectional = true});
  const std::vector<Tensor> sequences = {randn({2, 3}), randn({4, 3}), randn({1, 3})};
  const nn::RNNResult result = net(nn::pack_sequence(sequences, false));
  ASSERT_TRUE(result.packed.has_value());
  const std::vector<Tensor> outputs = nn::unpack_sequence(*result.packed);
  for (size_t i = 0; i < sequences.size(); ++i) {
    const nn::RNNResult alone = net(sequences[i]);
    EXPECT_TRUE(allclose(outputs[i], alone.output, 1e-5, 1e-6));
    EXPECT_TRUE(allclose(result.hidden.select(1, static_cast<int64_t>(i)), alone.hidden, 1e-5, 1e-6));
  }
}

TEST(Recurrent, TheSameWithManyRowsAsWithFew) {
  const nn::LSTM net(8, 33);
  const Tensor x = randn({5, 70, 8});
  const Tensor all = net(x).output;
  for (const int64_t b : {0, 23, 24, 47, 48, 69}) {
    EXPECT_TRUE(allclose(all.narrow(1, b, 1), net(x.narrow(1, b, 1)).output, 1e-5, 1e-6)) << b;
  }
}

TEST(Recurrent, AChangedOutputIsRefusedInBackward) {
  const nn::RNN net(2, 3);
  const Tensor x = randn({4, 2}), w = net.parameter("weight_ih_l0"), u = net.parameter("weight_hh_l0");
  const Tensor h = rnn_tanh_cell(x, zeros({4, 3}), w, u);
  h.mul_(2);
  EXPECT_THROW(h.sum().backward(), AutogradError);
}

TEST(Recurrent, CopiesShareAndClonesDoNot) {
  const nn::LSTM net(2, 3);
  const nn::LSTM copy = net, apart = net.clone();
  EXPECT_EQ(copy.parameter("weight_ih_l0").impl(), net.parameter("weight_ih_l0").impl());
  EXPECT_NE(apart.parameter("weight_ih_l0").impl(), net.parameter("weight_ih_l0").impl());
  const Tensor x = randn({3, 1, 2});
  EXPECT_TRUE(equal(apart(x).output, net(x).output));
  EXPECT_THROW(net.parameter("weight_ih_l1"), KeyError);
}

TEST(Recurrent, LayersRefuseWrongSizes) {
  EXPECT_THROW(nn::LSTM(3, 0), ValueError);
  EXPECT_THROW(nn::LSTM(3, 4, {.proj_size = 4}), ValueError);
  EXPECT_THROW(nn::GRU(3, 4, {.num_layers = 0}), ValueError);
  EXPECT_THROW(nn::RNN(3, 4, {.dropout = 2}), ValueError);
  const nn::GRU net(3, 4);
  EXPECT_THROW(net(randn({2, 2, 5})), ShapeError);
  EXPECT_THROW(net(randn({2, 2, 3}), zeros({1, 3, 4})), ShapeError);
  EXPECT_THROW(net(zeros({0, 2, 3})), ValueError);
  EXPECT_THROW(net(zeros({2, 2, 3}, {DType::f64})), DTypeError);
}

TEST(ParameterList, RegistersByPosition) {
  const nn::ParameterList list{nn::Parameter(ones({2})), nn::Parameter(zeros({3}))};
  EXPECT_EQ(list[-1].size(0), 3);
  EXPECT_TRUE(list.state_dict().contains("1"));
  EXPECT_THROW(list[2], IndexError);
}

TEST(Freeze, TakesNamesByPattern) {
  const nn::Sequential net(nn::Linear(2, 3), nn::Linear(3, 1));
  EXPECT_EQ(nn::freeze(net, "weight$"), (std::vector<std::string>{"0.weight", "1.weight"}));
  EXPECT_EQ(nn::freeze(net, "weight$"), std::vector<std::string>());
  EXPECT_EQ(nn::unfreeze(net), (std::vector<std::string>{"0.weight", "1.weight"}));
  EXPECT_THROW(nn::freeze(net, "("), ValueError);
}

TEST(Summary, CountsEachLayersOwn) {
  const nn::Sequential net(nn::Linear(4, 3), nn::Tanh(), nn::Linear(3, 2));
  nn::freeze(net, "^2");
  const nn::Summary found = nn::summary(net, randn({5, 4}));
  ASSERT_EQ(found.layers.size(), 4u);
  EXPECT_EQ(found.layers[1].multiply_adds, 5 * 4 * 3);
  EXPECT_EQ(found.layers[3].multiply_adds, 5 * 3 * 2);
  EXPECT_EQ(found.total().trainable, 15);
  EXPECT_EQ(found.total().frozen, 8);
  EXPECT_EQ(found.layers[2].outputs.at(0), (Dims{5, 3}));
  EXPECT_NE(found.text().find("0: Linear"), std::string::npos);
  EXPECT_EQ(net[0].as<nn::Linear>().weight.device(), Device());
}

TEST(MultiheadAttention, AFullyMaskedQueryGetsZeros) {
  const nn::MultiheadAttention net(4, 2, {.bias = false});
  const Tensor x = randn({3, 1, 4}), hidden = ones({1, 3}, {DType::boolean});
  for (const bool weights : {true, false}) {
    const auto out =
        net(x, x, x, nn::MultiheadAttentionCall{.key_padding_mask = hidden, .need_weights = weights}).output;
    EXPECT_EQ(amax(abs(out)).item<float>(), 0);
  }
}

TEST(Transformer, RunsAndHasPytorchsNames) {
  const nn::Transformer net(4, 2, {1, 1, {.dim_feedforward = 6, .dropout = 0}});
  const Tensor mask = nn::Transformer::generate_square_subsequent_mask(3);
  const Tensor out = net(randn({5, 2, 4}), randn({3, 2, 4}), nn::EncoderCall{}, nn::DecoderCall{.tgt_mask = mask});
  EXPECT_EQ(out.shape(), (Dims{3, 2, 4}));
  EXPECT_TRUE(net.state_dict().contains("decoder.layers.0.multihead_attn.in_proj_weight"));
}

TEST(MultiheadAttention, MasksAreBoolOrAdded) {
  const nn::MultiheadAttention net(4, 2, {.batch_first = true});
  const nn::TransformerEncoderLayer layer(4, 2, {.dim_feedforward = 8, .dropout = 0, .batch_first = true});
  const Tensor x = randn({2, 3, 4}), hidden = tensor({{0, 0, 1}, {0, 1, 1}});
  const Tensor weights = net(x, x, x, {.key_padding_mask = hidden.to(DType::boolean)}).weights;
  EXPECT_EQ(weights.select(2, 2).abs().max().item<float>(), 0);
  for (const DType dtype : {u8, i64}) {
    const Tensor mask = hidden.to(dtype);
    EXPECT_THROW(net(x, x, x, {.key_padding_mask = mask}), DTypeError);
    EXPECT_THROW(net(x, x, x, {.attn_mask = zeros({3, 3}, dtype)}), DTypeError);
    EXPECT_THROW(layer(x, {.key_padding_mask = mask}), DTypeError);
    EXPECT_THROW(layer(x, {.mask = zeros({3, 3}, dtype)}), DTypeError);
  }
}

TEST(Recurrent, StatesAreGivenAndNamedInBraces) {
  const nn::LSTM lstm(3, 4);
  const nn::GRU gru(3, 4);
  const nn::LSTMCell cell(3, 4);
  const Tensor x = randn({5, 2, 3}), h = randn({1, 2, 4}), c = randn({1, 2, 4});
  const LstmState state{h, c};
  const auto [output, hidden, last] = lstm(x, {h, c});
  EXPECT_TRUE(equal(output, lstm(x, state).output));
  EXPECT_TRUE(equal(hidden[0], output[-1]));
  EXPECT_TRUE(equal(last, lstm(x, state).cell));
  auto [steps, next] = gru(x, h);
  next = gru(x, next).hidden;
  EXPECT_EQ(steps.shape(), (Dims{5, 2, 4}));
  EXPECT_TRUE(equal(cell(x[0], {h[0], c[0]}).hidden, cell(x[0], LstmState{h[0], c[0]}).hidden));
}

TEST(Recurrent, AnInputOfAnotherWidthIsNamed) {
  try {
    nn::LSTM(3, 4)(randn({5, 2, 7}));
    FAIL() << "raised nothing";
  } catch (const ShapeError& error) {
    EXPECT_NE(std::string(error.what()).find("inputs are 7 wide, where weight_ih [16, 3] takes 3"), std::string::npos)
        << error.what();
  }
}

TEST(RecurrentCells, AnInputWithoutDimensionsIsNamed) {
  EXPECT_THROW(nn::LSTMCell(2, 3)(ones({})), ShapeError);
  EXPECT_THROW(nn::GRUCell(2, 3)(ones({})), ShapeError);
  EXPECT_THROW(nn::RNNCell(2, 3)(ones({})), ShapeError);
}

}  // namespace
}  // namespace weft
