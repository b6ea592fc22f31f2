// Dimensions moved, split, added and broadcast; pieces.
#include <weft/ops/axes.hpp>
#include <weft/ops/pieces.hpp>

#include "message_of.hpp"
#include "ops/values.hpp"

namespace weft::testing {
namespace {

constexpr int64_t huge = int64_t{1} << 62;

Tensor counted(const Dims& shape) { return arange(shape.product()).to(f64).view(shape); }

template <class E, class F>
void expect_refused(F&& f, const std::string& problem) {
  EXPECT_NE(message_of<E>(f).find(problem), std::string::npos) << message_of<E>(f);
}

TEST(Movedim, IsAView) {
  const Tensor x = counted({2, 3, 4});
  EXPECT_EQ(movedim(x, 0, -1).shape(), Dims({3, 4, 2}));
  EXPECT_EQ(moveaxis(x, {2, 0}, {0, 1}).shape(), Dims({4, 2, 3}));
  EXPECT_EQ(movedim(x, {0, 1, 2}, {2, 1, 0}).shape(), Dims({4, 3, 2}));
  EXPECT_TRUE(movedim(x, 0, 1).shares_storage(x));
  EXPECT_EQ(movedim(tensor(1.), 0, -1).shape(), Dims());
  EXPECT_EQ(swapaxes(x, 0, -1).shape(), Dims({4, 3, 2}));
  EXPECT_EQ(swapdims(x, 1, 0).shape(), Dims({3, 2, 4}));
}

TEST(Movedim, Errors) {
  const Tensor x = counted({2, 3, 4});
  expect_refused<ValueError>([&] { movedim(x, {0, 0}, {0, 1}); }, "dimension 0 is named twice");
  expect_refused<ValueError>([&] { movedim(x, {0, 1}, {-1, 2}); }, "dimension 2 is named twice");
  expect_refused<ValueError>([&] { movedim(x, {0, 1}, 0); }, "2 dimensions to move to 1 places");
  EXPECT_THROW(movedim(x, 3, 0), IndexError);
  EXPECT_THROW(movedim(x, 0, -4), IndexError);
  EXPECT_THROW(movedim(x, huge, 0), IndexError);
  EXPECT_THROW(movedim(Tensor(), 0, 0), ValueError);
  EXPECT_THROW(swapaxes(x, 0, 3), IndexError);
}

TEST(Unflatten, SplitsADimension) {
  const Tensor x = counted({2, 6});
  EXPECT_EQ(unflatten(x, 1, {3, 2}).shape(), Dims({2, 3, 2}));
  EXPECT_EQ(unflatten(x, -1, {-1, 3}).shape(), Dims({2, 2, 3}));
  EXPECT_TRUE(unflatten(x.t(), 0, {2, 3}).shares_storage(x));
  EXPECT_EQ(unflatten(zeros({0, 2}), 0, {0, 5}).shape(), Dims({0, 5, 2}));
  EXPECT_EQ(unflatten(zeros({0, 2}), 0, {-1, 5}).shape(), Dims({0, 5, 2}));
}

TEST(Unflatten, Errors) {
  const Tensor x = counted({2, 6});
  for (const Dims& sizes : {Dims{4}, Dims{-1, 4}, Dims{-1, -1}, Dims(), Dims{0, -1}, Dims{-2, -3}, Dims{huge, huge},
                            Dims{huge, 4}, Dims{-1, huge, huge}}) {
    EXPECT_THROW(unflatten(x, 1, sizes), ShapeError) << sizes;
  }
  expect_refused<ShapeError>([&] { unflatten(x, 1, {4, 2}); }, "sizes [4, 2] do not make dimension 1 of size 6");
  EXPECT_THROW(unflatten(zeros({0}), 0, {-1, 0}), ShapeError);
  EXPECT_THROW(unflatten(x, 2, {1}), IndexError);
  EXPECT_THROW(unflatten(tensor(1.), 0, {1}), IndexError);
  EXPECT_THROW(unflatten(ones({1, 1, 1, 1, 1, 1, 1, 1}), 0, {1, 1}), ShapeError);
}

TEST(AtLeast, PutsDimensionsOfOneElement) {
  const Tensor x = counted({3});
  EXPECT_EQ(atleast_1d(tensor(1.)).shape(), Dims(1));
  EXPECT_EQ(atleast_2d(x).shape(), Dims({1, 3}));
  EXPECT_EQ(atleast_3d(x).shape(), Dims({1, 3, 1}));
  EXPECT_EQ(atleast_3d(counted({2, 3})).shape(), Dims({2, 3, 1}));
  EXPECT_EQ(atleast_3d(tensor(1.)).shape(), Dims({1, 1, 1}));
  EXPECT_TRUE(atleast_3d(x).shares_storage(x));
  EXPECT_EQ(atleast_2d(std::vector<Tensor>{x, tensor(1.)})[1].shape(), Dims({1, 1}));
  EXPECT_THROW(atleast_1d(Tensor()), ValueError);
}

TEST(BroadcastTensors, ExpandsEach) {
  const std::vector<Tensor> out = broadcast_tensors(std::vector<Tensor>{counted({2, 1}), counted({3}), tensor(1)});
  for (const Tensor& t : out) EXPECT_EQ(t.shape(), Dims({2, 3}));
  EXPECT_EQ(out[2].dtype(), i64);
  EXPECT_TRUE(broadcast_tensors({}).empty());
  EXPECT_THROW(broadcast_tensors(std::vector<Tensor>{counted({2}), counted({3})}), ShapeError);
  EXPECT_THROW(broadcast_to(counted({2}), {3}), ShapeError);
  EXPECT_EQ(broadcast_to(counted({2}), {3, 2}).shape(), Dims({3, 2}));
}

TEST(Meshgrid, RunsAlongADimensionForEach) {
  const std::vector<Tensor> axes{counted({2}), counted({3})};
  const std::vector<Tensor> ij = meshgrid(axes), xy = meshgrid(axes, GridIndexing::xy);
  expect_values(ij[0], {0, 0, 0, 1, 1, 1});
  expect_values(ij[1], {0, 1, 2, 0, 1, 2});
  EXPECT_EQ(xy[0].shape(), Dims({3, 2}));
  expect_values(xy[0], {0, 1, 0, 1, 0, 1});
  expect_values(xy[1], {0, 0, 1, 1, 2, 2});
  EXPECT_TRUE(ij[0].shares_storage(axes[0]));
}

TEST(Meshgrid, Errors) {
  EXPECT_THROW(meshgrid({}), ValueError);
  EXPECT_THROW(meshgrid(std::vector<Tensor>{counted({2, 2})}), ShapeError);
  EXPECT_THROW(meshgrid(std::vector<Tensor>{counted({2}), arange(2)}), DTypeError);
  EXPECT_THROW(meshgrid(std::vector<Tensor>(9, counted({1}))), ShapeError);
}

TEST(TensorSplit, MakesPiecesOfTwoSizes) {
  const Tensor x = counted({5});
  const std::vector<Tensor> parts = tensor_split(x, 3);
  ASSERT_EQ(parts.size(), 3u);
  expect_values(parts[0], {0, 1});
  expect_values(parts[2], {4});
  EXPECT_TRUE(parts[1].shares_storage(x));
  EXPECT_EQ(tensor_split(x, 7)[6].numel(), 0);
}

TEST(TensorSplit, AListIsOfIndices) {
  const Tensor x = counted({5});
  ASSERT_EQ(tensor_split(x, {2}).size(), 2u);
  expect_values(tensor_split(x, {1, 3})[1], {1, 2});
  expect_values(tensor_split(x, {3, 1})[1], {});
  expect_values(tensor_split(x, {3, 1})[2], {1, 2, 3, 4});
  expect_values(tensor_split(x, {-1, huge})[1], {4});
  EXPECT_EQ(tensor_split(x, std::vector<int64_t>(20, 1)).size(), 21u);
  EXPECT_EQ(tensor_split(x, std::initializer_list<int64_t>{}).size(), 1u);
}

TEST(SplitWithSizes, TakesAnyNumberOfThem) {
  EXPECT_EQ(split_with_sizes(counted({12}), std::vector<int64_t>(12, 1)).size(), 12u);
  expect_values(split_with_sizes(counted({3}), {1, 0, 2})[2], {1, 2});
  expect_values(split_with_sizes(counted({2, 3}), {1, 2}, -1)[0], {0, 3});
}

TEST(Pieces, Errors) {
  const Tensor x = counted({2, 3});
  expect_refused<ShapeError>(
      [&] {
        split_with_sizes(x, {1, 1}, 1);
      },
      "the sizes of 2 pieces do not add up to dimension 1 of size 3");
  EXPECT_THROW(split_with_sizes(x, {huge, huge, huge, huge, 3}, 1), ShapeError);
  EXPECT_THROW(split_with_sizes(x, {-1, 4}, 1), ValueError);
  EXPECT_THROW(split_with_sizes(x, {2}, 2), IndexError);
  EXPECT_THROW(tensor_split(x, 0), ValueError);
  EXPECT_THROW(tensor_split(x, -1), ValueError);
  EXPECT_THROW(tensor_split(x, huge), ShapeError);
  EXPECT_THROW(tensor_split(tensor(1.), 1), ValueError);
  EXPECT_THROW(hsplit(x, 2), ShapeError);
  EXPECT_THROW(hsplit(x, 0), ValueError);
  EXPECT_THROW(hsplit(tensor(1.), 1), ShapeError);
  EXPECT_THROW(vsplit(counted({3}), 1), ShapeError);
  EXPECT_THROW(dsplit(x, {1}), ShapeError);
  EXPECT_THROW(tensor_split(Tensor(), 1), ValueError);
}

TEST(Pieces, AlongNamedDimensions) {
  const Tensor x = counted({2, 2, 4});
  EXPECT_EQ(hsplit(counted({4}), 2)[0].shape(), Dims(2));
  EXPECT_EQ(hsplit(x, 2)[0].shape(), Dims({2, 1, 4}));
  EXPECT_EQ(vsplit(x, {1})[1].shape(), Dims({1, 2, 4}));
  EXPECT_EQ(dsplit(x, {1, 3})[1].shape(), Dims({2, 2, 2}));
}

}  // namespace
}  // namespace weft::testing
