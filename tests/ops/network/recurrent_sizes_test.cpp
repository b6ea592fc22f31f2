// Recurrent layers of sizes that nothing fits.
#include <gtest/gtest.h>

#include <weft/ops/create.hpp>
#include <weft/ops/recurrent.hpp>

namespace weft {
namespace {

const Tensor weights[] = {zeros({2, 3}), zeros({2, 2})};

TEST(RecurrentSizes, StepsWithoutRowsTakeNoTimeAndNoMemory) {
  const int64_t steps = int64_t{1} << 31;
  const RecurrentOutput out = rnn_relu(zeros({1, 0, 3}).expand({steps, 0, 3}), zeros({1, 0, 2}), weights,
                                       {.num_layers = 1, .has_biases = false});
  EXPECT_EQ(out.output.shape(), (Dims{steps, 0, 2}));
  EXPECT_EQ(out.hidden.shape(), (Dims{1, 0, 2}));
}

TEST(RecurrentSizes, StepsOnMetaTakeNoTime) {
  const Device meta(DeviceType::meta);
  const int64_t steps = int64_t{1} << 40;
  const TensorOptions on_meta{.dtype = f32, .device = meta};
  const Tensor w_ih = zeros({16, 3}, on_meta).requires_grad_(), projection = zeros({2, 4}, on_meta);
  const RecurrentOutput out =
      lstm(zeros({1, 2, 3}, on_meta).expand({steps, 2, 3}), zeros({1, 2, 2}, on_meta), zeros({1, 2, 4}, on_meta),
           std::vector{w_ih, zeros({16, 2}, on_meta), projection}, {.num_layers = 1, .has_biases = false});
  EXPECT_EQ(out.output.shape(), (Dims{steps, 2, 2}));
  EXPECT_EQ(out.hidden.shape(), (Dims{1, 2, 2}));
  EXPECT_EQ(out.cell.shape(), (Dims{1, 2, 4}));
  out.output.sum().backward();
  EXPECT_EQ(w_ih.grad().shape(), w_ih.shape());
}

TEST(RecurrentSizes, MoreLayersThanParametersAreRefused) {
  for (const int64_t layers : {int64_t{2}, int64_t{1} << 61, int64_t{1} << 62}) {
    for (const bool both : {false, true}) {
      EXPECT_THROW(rnn_tanh(zeros({4, 1, 3}), zeros({1, 1, 2}), weights,
                            {.num_layers = layers, .has_biases = false, .bidirectional = both}),
                   ValueError);
      EXPECT_THROW(rnn_tanh(zeros({4, 1, 3}), zeros({1, 1, 2}), {}, {.num_layers = layers, .bidirectional = both}),
                   ValueError);
    }
  }
}

}  // namespace
}  // namespace weft
