#include <weft/ops/channels.hpp>
#include <weft/ops/columns.hpp>
#include <weft/ops/dropout.hpp>
#include <weft/ops/embedding_bag.hpp>
#include <weft/ops/reduce.hpp>

#include "message_of.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

TEST(EmbeddingBag, EmptyBagsAreZero) {
  const Tensor rows = doubles({1, -1, 2, -2, 3, -3}, {3, 2}), list = tensor({2, 0, 1});
  const Tensor offsets = tensor({0, 0, 2, 3});
  for (const auto mode : {BagMode::sum, BagMode::mean, BagMode::max}) {
    const Tensor out = embedding_bag(list, rows, {.offsets = offsets, .mode = mode});
    expect_values(out.select(0, 0), {0, 0});
    expect_values(out.select(0, 3), {0, 0});
    expect_values(out.select(0, 2), {2, -2});
  }
  EXPECT_EQ(embedding_bag(list, rows, {.offsets = offsets, .include_last_offset = true}).shape(), (Dims{3, 2}));
}

TEST(EmbeddingBag, AMaximumsGradientGoesToTheFirst) {
  const Tensor rows = doubles({1, 1, 1}, {3, 1}).requires_grad_();
  sum(embedding_bag(tensor({{2, 1, 0}}), rows, {.mode = BagMode::max})).backward();
  expect_values(rows.grad(), {0, 0, 1});
}

TEST(EmbeddingBag, ErrorsNameTheInvalidArgument) {
  const Tensor rows = spread({3, 2}), list = tensor({2, 0, 1});
  const auto with = [&](const Dims& offsets) {
    return embedding_bag(list, rows, {.offsets = tensor(std::vector<int64_t>(offsets.begin(), offsets.end()))});
  };
  EXPECT_NE(message_of<ValueError>([&] { with({1, 2}); }).find("ascend from 0"), std::string::npos);
  EXPECT_THROW(with({0, 2, 1}), ValueError);
  EXPECT_THROW(with({0, 4}), ValueError);
  EXPECT_THROW(embedding_bag(list, rows), ShapeError);
  EXPECT_THROW(embedding_bag(list + 1, rows, {.offsets = tensor({0})}), IndexError);
  EXPECT_THROW(embedding_bag(list.to(f32), rows, {.offsets = tensor({0})}), DTypeError);
  EXPECT_THROW(embedding_bag(tensor({{0, 1}}), rows, {.padding_idx = 3}), IndexError);
  EXPECT_THROW(embedding_bag(tensor({{0, 1}}), rows, {.per_sample_weights = spread({1, 2})}), ValueError);
}

TEST(Columns, AreEachOthersInverseWithoutOverlap) {
  const Tensor x = spread({2, 3, 4, 6});
  expect_values(col2im(im2col(x, 2, {.stride = 2}), {4, 6}, 2, {.stride = 2}), values(x));
  EXPECT_EQ(im2col(x.select(0, 0), {4, 6}).shape(), (Dims{72, 1}));
  EXPECT_THROW(im2col(x, 7), ShapeError);
  EXPECT_THROW(im2col(x, 2, {.padding = -1}), ValueError);
  EXPECT_THROW(im2col(x, 2, {.padding = int64_t{1} << 62}), Error);
  EXPECT_THROW(col2im(spread({1, 5, 4}), 3, 2), ShapeError);
  EXPECT_THROW(col2im(spread({1, 4, 5}), 3, 2), ShapeError);
}

TEST(ChannelDropout, TakesAllOfAChannel) {
  const Tensor y = dropout2d(full({8, 16, 3, 3}, 1, f64), 0.5);
  for (const double v : values(mean(y, {2, 3}))) EXPECT_TRUE(v == 0 || v == 2) << v;
  const Tensor x = full({2, 3}, 1, f64);
  EXPECT_TRUE(dropout1d(x, 0.5, false).shares_storage(x));
  EXPECT_THROW(dropout2d(x), ShapeError);
  EXPECT_THROW(dropout1d(x, 1.5), ValueError);
  EXPECT_THROW(alpha_dropout(x.to(i64)), DTypeError);
  EXPECT_THROW(rrelu(x, 0.5, 0.1), ValueError);
}

TEST(Channels, MaxoutAndResponses) {
  expect_values(maxout(doubles({1, 2, 4, 3}, {1, 4}), 2), {2, 4});
  EXPECT_THROW(maxout(spread({1, 4}), 3), ValueError);
  EXPECT_THROW(maxout(spread({1, 4}), 0), ValueError);
  expect_values(local_response_norm(doubles({1, 2}, {1, 2, 1}), 1, 1, 1, 1), {0.5, 0.4});
  EXPECT_THROW(local_response_norm(spread({2, 3}), 1), ShapeError);
  EXPECT_THROW(local_response_norm(spread({1, 2, 3}), 0), ValueError);
}

}  // namespace
}  // namespace weft::testing
