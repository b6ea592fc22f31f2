#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/data/collate.hpp>
#include <weft/ops/create.hpp>

#include <message_of.hpp>

namespace weft {
namespace {

using data::Collate;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Collate, TensorsNumbersAndStrings) {
  const Tensor stacked = Collate()(std::vector{tensor({1, 2}), tensor({3, 4})});
  EXPECT_EQ(stacked.shape(), Dims({2, 2}));
  const Tensor doubles = Collate()(std::vector{1.5, 2.5});
  EXPECT_EQ(doubles.dtype(), f32);
  EXPECT_EQ(Collate()(std::vector<int>{1, 2}).dtype(), i64);
  EXPECT_EQ(Collate()(std::vector<uint8_t>{1, 2}).dtype(), u8);
  const Tensor flags = Collate()(std::vector<bool>{true, false});
  EXPECT_EQ(flags.dtype(), boolean);
  EXPECT_THAT(flags.to_vector<int64_t>(), ElementsAre(1, 0));
  EXPECT_THAT(Collate()(std::vector<std::string>{"a", "b"}), ElementsAre("a", "b"));
}

TEST(Collate, PairsTuplesAndArrays) {
  const auto [x, y] = Collate()(std::vector<std::pair<Tensor, int64_t>>{{ones(3), 4}, {zeros(3), 5}});
  EXPECT_EQ(x.shape(), Dims({2, 3}));
  EXPECT_THAT(y.to_vector<int64_t>(), ElementsAre(4, 5));
  using Three = std::tuple<Tensor, std::string, std::pair<float, double>>;
  const auto [a, names, nested] = Collate()(std::vector<Three>{{ones(1), "p", {1, 2}}, {ones(1), "q", {3, 4}}});
  EXPECT_THAT(names, ElementsAre("p", "q"));
  EXPECT_THAT(nested.second.to_vector<double>(), ElementsAre(2, 4));
  const std::array<Tensor, 2> both = Collate()(std::vector<std::array<Tensor, 2>>{{ones(1), zeros(2)}});
  EXPECT_EQ(both[1].shape(), Dims({1, 2}));
}

struct Images {
  Tensor image, mask;
};
struct Labelled {
  Tensor image;
  int64_t label;
  std::string name;
};

TEST(Collate, AStructOfTensorsStaysOne) {
  const Images batch = Collate()(std::vector<Images>{{ones(2), zeros(3)}, {ones(2), zeros(3)}});
  EXPECT_EQ(batch.mask.shape(), Dims({2, 3}));
}

TEST(Collate, AnotherStructBecomesATuple) {
  const auto [image, label, name] = Collate()(std::vector<Labelled>{{ones(2), 3, "a"}, {ones(2), 4, "b"}});
  EXPECT_EQ(image.shape(), Dims({2, 2}));
  EXPECT_THAT(label.to_vector<int64_t>(), ElementsAre(3, 4));
  EXPECT_THAT(name, ElementsAre("a", "b"));
}

TEST(Collate, VectorsOfNumbersAreTensors) {
  const Tensor x = Collate()(std::vector<std::vector<int64_t>>{{1, 2}, {3, 4}});
  EXPECT_EQ(x.shape(), Dims({2, 2}));
  EXPECT_THROW(Collate()(std::vector<std::vector<int64_t>>{{1, 2}, {3}}), ShapeError);
}

TEST(Collate, UnequalShapesNameTwoSamples) {
  const std::string text = message_of<ShapeError>([] { Collate()(std::vector{ones(2), ones(2), ones(3)}); });
  EXPECT_THAT(text, AllOf(HasSubstr("sample 0 of the batch and sample 2 of the batch have different shapes"),
                          HasSubstr("[2] and [3]"), HasSubstr("data::pad()")));
  EXPECT_THROW(Collate()(std::vector{ones(2), ones(2).to(f64)}), DTypeError);
}

TEST(Pad, ToTheLongestAndItsMultiple) {
  const Tensor x = data::pad()(std::vector{arange(3), arange(1), arange(0)});
  EXPECT_EQ(x.shape(), Dims({3, 3}));
  EXPECT_THAT(x.to_vector<int64_t>(), ElementsAre(0, 1, 2, 0, 0, 0, 0, 0, 0));
  const Tensor wide = data::pad({.value = -100, .multiple_of = 4})(std::vector<std::vector<int64_t>>{{1, 2}, {3}});
  EXPECT_THAT(wide.to_vector<int64_t>(), ElementsAre(1, 2, -100, -100, 3, -100, -100, -100));
  EXPECT_EQ(data::pad({.length = 5})(std::vector{arange(3)}).shape(), Dims({1, 5}));
  EXPECT_EQ(data::pad({.multiple_of = 4})(std::vector{arange(4)}).shape(), Dims({1, 4}));
}

TEST(Pad, OnlyTheFirstDimension) {
  const Tensor x = data::pad()(std::vector{ones({2, 3}), ones({4, 3})});
  EXPECT_EQ(x.shape(), Dims({2, 4, 3}));
  EXPECT_EQ(x.sum().item<double>(), 18);
  EXPECT_THROW(data::pad()(std::vector{ones({2, 3}), ones({4, 2})}), ShapeError);
  EXPECT_THROW(data::pad()(std::vector{ones({2, 3}), ones({2})}), ShapeError);
  EXPECT_THROW(data::pad({.length = 3})(std::vector{ones(4)}), ValueError);
  EXPECT_THROW(data::pad({.multiple_of = 0})(std::vector{ones(4)}), ValueError);
  EXPECT_THROW(data::pad({.multiple_of = INT64_MAX})(std::vector{ones(4), ones(2)}), ShapeError);
}

TEST(Pad, WithLengthsAndAMask) {
  using Sample = std::pair<std::vector<int64_t>, int64_t>;
  const auto [tokens, label] = data::pad_with_lengths()(std::vector<Sample>{{{1, 2, 3}, 7}, {{4}, 8}});
  EXPECT_THAT(tokens.values.to_vector<int64_t>(), ElementsAre(1, 2, 3, 4, 0, 0));
  EXPECT_THAT(tokens.lengths.to_vector<int64_t>(), ElementsAre(3, 1));
  const Tensor mask = tokens.mask();
  EXPECT_EQ(mask.dtype(), boolean);
  EXPECT_THAT(mask.to_vector<int64_t>(), ElementsAre(1, 1, 1, 1, 0, 0));
  EXPECT_THAT(label.to_vector<int64_t>(), ElementsAre(7, 8));
}

}  // namespace
}  // namespace weft
