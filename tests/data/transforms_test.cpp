#include <cmath>
#include <set>

#include <gtest/gtest.h>

#include <weft/data/transforms.hpp>
#include <weft/weft.hpp>

#include "../message_of.hpp"
#include "../temporary_folder.hpp"

namespace weft {
namespace {

using namespace data;
const std::string cases = WEFT_SOURCE_DIR "/tests/data/cases/";

double difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  return (a.to(f64) - b.to(f64)).abs().max().item<double>();
}

TEST(Transforms, MakeFloatsAndNormalizeChannels) {
  const Tensor image = tensor({{{0, 255}}, {{51, 102}}}).to(u8);
  const Tensor unit = to_float(image);
  EXPECT_EQ(unit.dtype(), f32);
  EXPECT_LT(difference(unit, tensor({{{0.0, 1.0}}, {{0.2, 0.4}}})), 1e-7);
  EXPECT_LT(difference(to_float(tensor({{{65535, 13107}}}).to(u16)), tensor({{{1.0, 0.2}}})), 1e-7);
  EXPECT_LT(difference(normalize(unit, {0.5, 0.2}, {0.5, 0.1}), tensor({{{-1.0, 1.0}}, {{0.0, 2.0}}})), 1e-6);
  EXPECT_TRUE(equal(normalize(unit.unsqueeze(0), {0.5}, {0.5})[0], normalize(unit, {0.5, 0.5}, {0.5, 0.5})));
  EXPECT_THROW(normalize(image, {0}, {1}), DTypeError);
  EXPECT_THROW(normalize(unit, {0}, {0}), ValueError);
  EXPECT_THROW(normalize(unit, {0, 0, 0}, {1}), ValueError);
  EXPECT_THROW(to_float(zeros({2, 2})), ShapeError);
  EXPECT_THROW(to_float(zeros({1, 2, 2}, i64)), DTypeError);
}

TEST(Transforms, CropAndFlip) {
  const Tensor image = arange(24, u8).view({1, 4, 6});
  EXPECT_EQ(center_crop(image, {2, 3}).to(i64).to_vector<int64_t>(), (std::vector<int64_t>{8, 9, 10, 14, 15, 16}));
  EXPECT_EQ(center_crop(image, {4}).shape(), Dims({1, 4, 4}));
  EXPECT_TRUE(equal(crop(image, 1, 2, 2, 2), image[{Slice(), Slice(1, 3), Slice(2, 4)}]));
  EXPECT_TRUE(equal(flip_horizontal(image), flip(image, {2})));
  EXPECT_TRUE(equal(flip_vertical(image), flip(image, {1})));
  EXPECT_THROW(center_crop(image, {5}), ShapeError);
  EXPECT_THROW(center_crop(image, {0}), ValueError);
  EXPECT_THROW(center_crop(image, {1, 1, 1}), ValueError);
  EXPECT_THROW(crop(image, -1, 0, 2, 2), ShapeError);
  EXPECT_THROW(crop(image, INT64_MAX, 0, 2, 2), ShapeError);
  EXPECT_THROW(crop(image, 0, 0, 2, INT64_MAX), ShapeError);
}

TEST(Transforms, ResizeAsPilDoes) {
  const Tensor image = io::load_npy(cases + "rgb.png.npy");
  for (const bool bicubic : {false, true}) {
    for (const Dims& size : {Dims({5, 7}), Dims({30, 11}), Dims({13, 40})}) {
      const std::string name = std::string("rgb_") + (bicubic ? "bicubic_" : "bilinear_") + std::to_string(size[0]) +
                               "x" + std::to_string(size[1]) + ".npy";
      EXPECT_LE(difference(resize(image, size, {.bicubic = bicubic}), io::load_npy(cases + name)), 1) << name;
    }
  }
  EXPECT_EQ(resize(image, {26}).shape(), Dims({3, 26, 38}));
  EXPECT_EQ(resize(image.transpose(1, 2), {6}).shape(), Dims({3, 8, 6}));
  EXPECT_TRUE(equal(resize(image.unsqueeze(0), {5, 7})[0], resize(image, {5, 7})));
  EXPECT_EQ(resize(to_float(image), {5, 7}).dtype(), f32);
  EXPECT_THROW(resize(image, {0, 5}), ValueError);
  EXPECT_THROW(resize(zeros({3, 0, 5}), {5, 5}), ShapeError);
  EXPECT_THROW(resize(zeros({1, 1, 1000}), {int64_t{1} << 40}), ShapeError);
}

// A part of an image of numbers says where it was taken.
TEST(Transforms, RandomCropsAreUniformAndPadded) {
  const Tensor image = arange(12, f32).view({1, 3, 4}) + 1;
  Generator generator(1);
  std::vector<int> places(6);
  for (int i = 0; i < 600; ++i) {
    const Tensor part = RandomCrop{.size = {2, 2}}(image, generator);
    const auto first = part[{0, 0, 0}].item<int64_t>() - 1;
    ASSERT_TRUE(equal(part, crop(image, first / 4, first % 4, 2, 2)));
    ++places[static_cast<size_t>(first / 4 * 3 + first % 4)];
  }
  for (const int count : places) EXPECT_NEAR(count, 100, 45);
  const Tensor padded = pad(image, {2, 2, 2, 2}, Padding::constant, 9);
  std::set<int64_t> sums;
  for (int i = 0; i < 200; ++i) {
    const Tensor part = RandomCrop{.size = {3, 4}, .padding = 2, .fill = 9}(image, generator);
    bool found = false;
    for (int64_t top = 0; top <= 4; ++top) {
      for (int64_t left = 0; left <= 4; ++left) found |= equal(part, crop(padded, top, left, 3, 4));
    }
    ASSERT_TRUE(found);
    sums.insert(part.sum().item<int64_t>());
  }
  EXPECT_GT(sums.size(), 15u);
  EXPECT_THROW((RandomCrop{.size = {4, 4}}(image, generator)), ShapeError);
  EXPECT_THROW((RandomCrop{.size = {2, 2}, .padding = -1}(image, generator)), ValueError);
}

TEST(Transforms, FlipWithTheirProbability) {
  const Tensor images = arange(2000 * 2, f32).view({2000, 1, 1, 2});
  Generator generator(2);
  const Tensor flipped = RandomHorizontalFlip{.p = 0.3}(images, generator);
  const double share = (flipped != images).to(f64).mean().item<double>();
  EXPECT_NEAR(share, 0.3, 0.04);
  EXPECT_TRUE(equal(RandomHorizontalFlip{.p = 1}(images, generator), flip_horizontal(images)));
  EXPECT_TRUE(equal(RandomVerticalFlip{.p = 0}(images, generator), images));
  EXPECT_THROW((RandomHorizontalFlip{.p = 1.5}(images, generator)), ValueError);
  EXPECT_THROW((RandomVerticalFlip{.p = NAN}(images, generator)), ValueError);
}

template <class T>
void expect_batch_is_its_images(const T& transform, const Tensor& images) {
  Generator one(7), other(7);
  const Tensor batch = transform(images, one);
  for (int64_t i = 0; i < images.size(0); ++i) EXPECT_TRUE(equal(batch[i], transform(images[i], other))) << i;
  EXPECT_EQ(one.state(), other.state());
}

TEST(Transforms, OfABatchEqualThoseOfItsImages) {
  manual_seed(3);
  for (const Tensor& images : {randint(0, 256, {6, 3, 9, 8}, u8), rand({6, 3, 9, 8})}) {
    expect_batch_is_its_images(RandomCrop{.size = {5, 6}, .padding = 2}, images);
    expect_batch_is_its_images(RandomHorizontalFlip{}, images);
    expect_batch_is_its_images(RandomVerticalFlip{}, images);
    expect_batch_is_its_images(RandomResizedCrop{.size = {4, 7}}, images);
    expect_batch_is_its_images(ColorJitter{.brightness = 0.4, .contrast = 0.4, .saturation = 0.4}, images);
    expect_batch_is_its_images(RandomErasing{.p = 0.7}, images);
  }
  expect_batch_is_its_images(CropFlipNormalize{.size = {4, 4}, .p = 0}, randint(0, 256, {1, 3, 9, 8}, u8));
}

TEST(Transforms, ResizeARandomPart) {
  const Tensor image = linspace(0, 1, 64).expand({3, 32, 64});
  Generator generator(4);
  for (int i = 0; i < 50; ++i) {
    const Tensor part = RandomResizedCrop{.size = {16, 16}}(image, generator);
    ASSERT_EQ(part.shape(), Dims({3, 16, 16}));
    ASSERT_GT((part[{0, 0, 15}].item<double>()), (part[{0, 0, 0}].item<double>()));  // no part is turned
  }
  // No part has this ratio: the middle, as wide as may be.
  const Tensor middle = RandomResizedCrop{.size = {8, 8}, .scale = {1, 1}, .ratio = {1, 1}}(image, generator);
  EXPECT_LT(difference(middle, resize(image[{Slice(), Slice(), Slice(16, 48)}], {8, 8})), 1e-6);
  EXPECT_THROW((RandomResizedCrop{.size = {8, 8}, .scale = {1, 0}}(image, generator)), ValueError);
  EXPECT_THROW((RandomResizedCrop{.size = {8, 8}, .ratio = {0, 1}}(image, generator)), ValueError);
}

TEST(Transforms, ChangeColoursByFactorsInTheirRange) {
  const Tensor image = full({3, 2, 2}, 0.4);
  image[0] = 0.8;
  Generator generator(5);
  for (int i = 0; i < 100; ++i) {
    const double factor = ColorJitter{.brightness = 0.5}(image, generator)[{1, 0, 0}].item<double>() / 0.4;
    ASSERT_GE(factor, 0.5 - 1e-6);
    ASSERT_LE(factor, 1.5 + 1e-6);
    const Tensor paler = ColorJitter{.saturation = 0.5}(image, generator);
    const double grey = 0.2989 * 0.8 + 0.587 * 0.4 + 0.114 * 0.4, green = paler[{1, 0, 0}].item<double>();
    const double by = (green - grey) / (0.4 - grey);
    ASSERT_NEAR((paler[{0, 0, 0}].item<double>()), std::min(1.0, grey + (0.8 - grey) * by), 1e-5);
  }
  // Contrast moves away from the mean grey, which stays.
  const Tensor two = tensor({{{0.25, 0.75}}});
  const Tensor contrast = ColorJitter{.contrast = 0.9}(two, generator);
  EXPECT_NEAR(contrast.mean().item<double>(), 0.5, 1e-6);
  EXPECT_NE((contrast[{0, 0, 0}].item<float>()), 0.25f);
  EXPECT_EQ((ColorJitter{.brightness = 0.5}(full({1, 2, 2}, 255, u8), generator).dtype()), u8);
  EXPECT_THROW((ColorJitter{.contrast = -1}(two, generator)), ValueError);
  EXPECT_THROW((ColorJitter{}(zeros({4, 2, 2}), generator)), ShapeError);
}

TEST(Transforms, EraseARectangle) {
  const Tensor image = ones({2, 20, 20});
  Generator generator(6);
  for (int i = 0; i < 50; ++i) {
    const Tensor erased = RandomErasing{.p = 1, .scale = {0.1, 0.2}}(image, generator);
    ASSERT_TRUE(equal(erased[0], erased[1]));
    const Tensor gone = erased[0] == 0;
    const int64_t rows = gone.any(1).sum().item<int64_t>(), columns = gone.any(0).sum().item<int64_t>();
    ASSERT_EQ(gone.sum().item<int64_t>(), rows * columns);
    ASSERT_NEAR(static_cast<double>(rows * columns) / 400, 0.15, 0.08);
  }
  EXPECT_TRUE(equal(image, ones({2, 20, 20})));
}

TEST(Transforms, AreOneAfterTheOtherInAChain) {
  const Tensor images = randint(0, 256, {5, 3, 32, 32}, u8);
  const std::vector<double> mean = {0.49, 0.48, 0.45}, deviation = {0.25, 0.24, 0.26};
  Compose chain(RandomCrop{.size = {32, 32}, .padding = 4}, RandomHorizontalFlip{}, ToFloat{},
                Normalize{mean, deviation});
  Generator one(8), other(8), third(8);
  const Tensor out = chain(images, one);
  Tensor by_hand = RandomHorizontalFlip{}(RandomCrop{.size = {32, 32}, .padding = 4}(images, other), other);
  EXPECT_TRUE(equal(out, normalize(to_float(by_hand), mean, deviation)));
  const Tensor at_once =
      CropFlipNormalize{.size = {32, 32}, .padding = 4, .mean = mean, .deviation = deviation}(images, third);
  EXPECT_TRUE(equal(out, at_once));
  EXPECT_EQ(one.state(), third.state());
  chain.add([](const Tensor& x) { return x * 2; });
  one.manual_seed(8);
  EXPECT_TRUE(equal(chain(images, one), out * 2));
  EXPECT_THROW((CropFlipNormalize{.size = {4}}(rand({3, 8, 8}), one)), DTypeError);
}

TEST(Transforms, TakePartsThatAreNotContiguous) {
  const Tensor images = randint(0, 256, {4, 8, 8, 3}, u8).permute({0, 3, 1, 2});
  Generator one(9), other(9);
  const CropFlipNormalize transform{.size = {10, 6}, .padding = 1};
  EXPECT_TRUE(equal(transform(images, one), transform(images.contiguous(), other)));
}

TEST(Transforms, NameThePlaceOfTheCall) {
  const std::string message = message_of<ShapeError>([] {
    Generator generator;
    RandomCrop{.size = {4, 4}}(zeros({1, 2, 2}), generator);
  });
  EXPECT_NE(message.find("[RandomCrop]"), std::string::npos) << message;
  EXPECT_NE(message.find("transforms_test.cpp:"), std::string::npos) << message;
}

}  // namespace
}  // namespace weft
