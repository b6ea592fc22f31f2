// Edges around tensors, and channels that change places with pixels.
#include <weft/ops/pad.hpp>
#include <weft/ops/rearrange.hpp>
#include <weft/ops/reduce.hpp>

#include "message_of.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

constexpr int64_t huge = int64_t{1} << 62;
constexpr Padding repeating[] = {Padding::reflect, Padding::replicate, Padding::circular};

Tensor counted(const Dims& shape) { return arange(shape.product()).to(f64).view(shape); }

TEST(Pad, ConstantEdges) {
  const Tensor x = counted({2, 3});
  expect_values(pad(x, {1, 0}), {0, 0, 1, 2, 0, 3, 4, 5});
  expect_values(pad(x, {0, 0, 1, 0}, Padding::constant, 7), {7, 7, 7, 0, 1, 2, 3, 4, 5});
  expect_values(pad(x, {-1, 1, 0, -1}, Padding::constant, infinity), {1, 2, infinity});
  expect_values(pad(x, {-3, 2}), {0, 0, 0, 0});
  expect_values(pad(x.t(), {1, 0}), {0, 0, 3, 0, 1, 4, 0, 2, 5});
  EXPECT_FALSE(pad(x, {}).shares_storage(x));
  EXPECT_EQ(pad(zeros({0, 2}), {1, 1, 1, 1}).shape(), Dims({2, 4}));
  expect_values(pad(x.slice(1, {}, {}, -1), {0, 1}), {2, 1, 0, 0, 5, 4, 3, 0});
}

TEST(Pad, KeepsTheDtype) {
  for (const DType t : {boolean, u8, i16, u64, f16, bf16}) {
    const Tensor out = pad(tensor({1, 1}).to(t), {1, 0}, Padding::constant, 1);
    EXPECT_EQ(out.dtype(), t);
    expect_values(out, {1, 1, 1});
  }
  EXPECT_THROW(pad(tensor({1, 2}).to(u8), {1, 1}, Padding::constant, 300), ValueError);
}

TEST(Pad, RepeatingModes) {
  const Tensor x = counted({1, 4});
  expect_values(pad(x, {2, 1}, Padding::reflect), {2, 1, 0, 1, 2, 3, 2});
  expect_values(pad(x, {2, 1}, Padding::replicate), {0, 0, 0, 1, 2, 3, 3});
  expect_values(pad(x, {2, 1}, Padding::circular), {2, 3, 0, 1, 2, 3, 0});
  // Mirrored from the original elements, repeated from the remaining ones.
  expect_values(pad(x, {-2, 3}, Padding::reflect), {2, 3, 2, 1, 0});
  expect_values(pad(x, {-2, 2}, Padding::circular), {2, 3, 2, 3});
  for (const Padding mode : repeating) {
    const Tensor image = counted({1, 1, 1, 1, 4}).expand({1, 1, 2, 2, 4});
    EXPECT_EQ(pad(image, {1, 1, 1, 0, 0, 1}, mode).shape(), Dims({1, 1, 3, 3, 6}));
    EXPECT_FALSE(pad(x, {0, 0}, mode).shares_storage(x));
    EXPECT_EQ(pad(zeros({0, 1, 2}), {1, 1}, mode).shape(), Dims({0, 1, 4}));
  }
}

TEST(Pad, GradientsOfRepeatedElementsAdd) {
  for (const Padding mode : repeating) {
    expect_gradients([&](Inputs in) { return square(pad(in[0], {2, -1, -1, 1}, mode)); }, {leaf({1, 3, 4})});
  }
  const Tensor x = counted({1, 3}).requires_grad_();
  sum(pad(x, {2, 1}, Padding::replicate)).backward();
  expect_values(x.grad(), {3, 1, 2});
}

TEST(Pad, Errors) {
  const Tensor x = counted({2, 3});
  EXPECT_NE(message_of<ShapeError>([&] {
              pad(x, {1, 2, 3});
            }).find("3 numbers do not pad shape [2, 3]"),
            std::string::npos);
  EXPECT_THROW(pad(x, {1, 1, 1, 1, 1, 1}), ShapeError);
  EXPECT_THROW(pad(x, {-2, -2}), ShapeError);
  EXPECT_THROW(pad(x, {-4, 9}), ShapeError);
  EXPECT_THROW(pad(x, {huge, huge}), ShapeError);
  EXPECT_THROW(pad(x, {std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max()}), ShapeError);
  EXPECT_THROW(pad(tensor(1.), {1, 1}), ShapeError);
  EXPECT_THROW(pad(Tensor(), {1, 1}), ValueError);
  for (const Padding mode : repeating) {
    EXPECT_THROW(pad(counted({3}), {1, 1}, mode), ShapeError);
    EXPECT_THROW(pad(x, {1, 1, 1, 1}, mode), ShapeError);
    EXPECT_THROW(pad(zeros({2, 0}), {1, 1}, mode), ShapeError);
    EXPECT_THROW(pad(zeros({0, 2}), {1, 1}, mode), ShapeError);
    EXPECT_THROW(pad(x, {1, 1}, mode, 1), ValueError);
    EXPECT_THROW(pad(x, {huge, 0}, mode), ShapeError);
  }
  EXPECT_NE(message_of<ShapeError>([&] {
              pad(x, {3, 0}, Padding::reflect);
            }).find("padding of 3 and 0 does not fit dimension 1 of size 3"),
            std::string::npos);
  EXPECT_THROW(pad(x, {4, 0}, Padding::circular), ShapeError);
  EXPECT_THROW(pad(x, {3, -1}, Padding::circular), ShapeError);
}

TEST(PixelShuffle, MovesChannelsIntoPixelsAndBack) {
  const Tensor x = counted({1, 4, 1, 2});
  expect_values(pixel_shuffle(x, 2), {0, 2, 1, 3, 4, 6, 5, 7});
  expect_values(pixel_unshuffle(pixel_shuffle(x, 2), 2), values(x));
  EXPECT_FALSE(pixel_shuffle(x, 1).shares_storage(x));
  EXPECT_FALSE(pixel_unshuffle(x, 1).shares_storage(x));
  EXPECT_EQ(pixel_shuffle(ones({1, 1, 1, 1, 1, 4, 2, 3}), 2).shape(), Dims({1, 1, 1, 1, 1, 1, 4, 6}));
  EXPECT_EQ(pixel_unshuffle(zeros({0, 1, 4, 4}), 2).shape(), Dims({0, 4, 2, 2}));
}

TEST(PixelShuffle, Errors) {
  const Tensor x = counted({4, 2, 2});
  for (const int64_t factor : {int64_t{0}, int64_t{-1}}) {
    EXPECT_THROW(pixel_shuffle(x, factor), ValueError);
    EXPECT_THROW(pixel_unshuffle(x, factor), ValueError);
    EXPECT_THROW(channel_shuffle(x, factor), ValueError);
  }
  for (const int64_t factor : {int64_t{3}, huge}) {
    EXPECT_THROW(pixel_shuffle(x, factor), ShapeError);
    EXPECT_THROW(pixel_unshuffle(x, factor), ShapeError);
    EXPECT_THROW(channel_shuffle(x, factor), ShapeError);
  }
  EXPECT_THROW(pixel_shuffle(zeros({0, 2, 2}), huge), ShapeError);
  EXPECT_THROW(pixel_unshuffle(zeros({3, 0, 0}), huge), ShapeError);
  EXPECT_THROW(pixel_shuffle(counted({4, 2}), 1), ShapeError);
  EXPECT_THROW(channel_shuffle(counted({4, 2}), 1), ShapeError);
}

TEST(ChannelShuffle, TransposesGroups) {
  expect_values(channel_shuffle(counted({1, 6, 1}), 2), {0, 3, 1, 4, 2, 5});
  EXPECT_FALSE(channel_shuffle(counted({1, 6, 1}), 1).shares_storage(counted({1})));
}

TEST(Rot90, TurnsAPlane) {
  const Tensor x = counted({2, 3});
  expect_values(rot90(x), {2, 5, 1, 4, 0, 3});
  expect_values(rot90(x, 2), {5, 4, 3, 2, 1, 0});
  expect_values(rot90(x, -1), {3, 0, 4, 1, 5, 2});
  expect_values(rot90(x, std::numeric_limits<int64_t>::min()), values(x));
  EXPECT_FALSE(rot90(x, 4).shares_storage(x));
  EXPECT_THROW(rot90(x, 1, {0, -2}), ValueError);
  EXPECT_THROW(rot90(x, 1, {0}), ValueError);
  EXPECT_THROW(rot90(x, 1, {0, 2}), IndexError);
  EXPECT_THROW(rot90(counted({3})), ShapeError);
}

}  // namespace
}  // namespace weft::testing
