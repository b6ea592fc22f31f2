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
