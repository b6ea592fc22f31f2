#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include <weft/nn/config.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>

namespace weft {
namespace {

using nn::Attribute;
using nn::Config;
using Type = nn::Attribute::Type;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(ModuleConfig, ValuesKeepTheirTypes) {
  EXPECT_EQ(Attribute().type(), Type::none);
  EXPECT_EQ(Attribute(true).type(), Type::boolean);
  EXPECT_EQ(Attribute(3).type(), Type::i64);
  EXPECT_EQ(Attribute(size_t{3}).type(), Type::i64);
  EXPECT_EQ(Attribute(0.5f).type(), Type::f64);
  EXPECT_EQ(Attribute("same").type(), Type::text);
  EXPECT_EQ(Attribute(Dims{3, 3}).type(), Type::i64s);
  EXPECT_EQ(Attribute(std::vector<int32_t>()).type(), Type::i32s);
  EXPECT_EQ(Attribute(std::vector<double>()).type(), Type::f64s);
  EXPECT_EQ(Attribute(std::vector<bool>{true}).type(), Type::booleans);
  EXPECT_EQ(Attribute(std::vector<std::string>{"a"}).type(), Type::texts);
  EXPECT_EQ(Attribute(std::optional<int64_t>()).type(), Type::none);
  EXPECT_EQ(Attribute(std::optional(2.5)).to<double>(), 2.5);
  EXPECT_EQ(Attribute(std::numeric_limits<int64_t>::min()).to<int64_t>(), std::numeric_limits<int64_t>::min());
  EXPECT_THROW(Attribute(std::numeric_limits<uint64_t>::max()), ValueError);
}

TEST(ModuleConfig, AnIntegerServesAsANumberAndAsAListOfOne) {
  EXPECT_EQ(Attribute(3).to<double>(), 3.0);
  EXPECT_EQ(Attribute(3).to<int>(), 3);
  EXPECT_THAT(Attribute(3).to<std::vector<int64_t>>(), ElementsAre(3));
  EXPECT_EQ(Attribute(3).to<Dims>(), Dims(3));
  EXPECT_THAT(Attribute(Dims{1, 2}).to<std::vector<double>>(), ElementsAre(1, 2));
  EXPECT_TRUE(std::isnan(Attribute("NaN").to<double>()));
  EXPECT_EQ(Attribute("-Infinity").to<double>(), -std::numeric_limits<double>::infinity());
  EXPECT_EQ(Attribute().to<std::optional<double>>(), std::nullopt);
}

TEST(ModuleConfig, OtherTypesAreRefusedWithTheNameOfTheOption) {
  const Config config{{"width", 3.5}, {"bias", true}, {"mode", "nan"}, {"list", std::vector<int64_t>(9)}, {"none", {}}};
  EXPECT_THAT(message_of<ValueError>([&] { (void)config.get<int64_t>("width"); }),
              HasSubstr("option \"width\": expected an integer, got 3.5"));
  EXPECT_THROW((void)config.get<double>("bias"), ValueError);
  EXPECT_THROW((void)config.get<double>("mode"), ValueError);
  EXPECT_THROW((void)config.get<Dims>("list"), ValueError);
  EXPECT_THROW((void)config.get<double>("none"), ValueError);
  EXPECT_THROW((void)Config({{"n", int64_t{1} << 40}}).get<int>("n"), ValueError);
  EXPECT_THAT(message_of<KeyError>([&] { (void)config.get<bool>("absent"); }), HasSubstr("no option \"absent\""));
  EXPECT_EQ(config.get_or("absent", 7), 7);
  EXPECT_THROW((void)config.get_or("bias", 7), ValueError);
}

TEST(ModuleConfig, ConversionsLoseNothing) {
  EXPECT_EQ(Attribute(std::vector<int32_t>{1, -2}).as(Type::i64s), Attribute(std::vector<int64_t>{1, -2}));
  EXPECT_EQ(Attribute(std::vector<int32_t>()).as(Type::i64s), Attribute(std::vector<int64_t>()));
  EXPECT_EQ(Attribute(std::vector<int64_t>{5}).as(Type::i32s), Attribute(std::vector<int32_t>{5}));
  EXPECT_EQ(Attribute(2.0).as(Type::i64), Attribute(2));
  EXPECT_EQ(Attribute(2).as(Type::f64), Attribute(2.0));
  EXPECT_EQ(Attribute("a").as(Type::texts), Attribute(std::vector<std::string>{"a"}));
  EXPECT_THROW(Attribute(2.5).as(Type::i64), ValueError);
  EXPECT_THROW(Attribute(std::numeric_limits<double>::infinity()).as(Type::i64), ValueError);
  EXPECT_THROW(Attribute(std::vector<int64_t>{int64_t{1} << 31}).as(Type::i32s), ValueError);
  EXPECT_THROW(Attribute("2").as(Type::i64), ValueError);
  EXPECT_THROW(Attribute().as(Type::i64), ValueError);
}

TEST(ModuleConfig, EqualMeansTheSameTypeAndBits) {
  const double nan = std::nan("");
  EXPECT_EQ(Attribute(nan), Attribute(nan));
  EXPECT_EQ(Attribute(std::vector<double>{nan, 1}), Attribute(std::vector<double>{nan, 1}));
  EXPECT_FALSE(Attribute(0.0) == Attribute(-0.0));
  EXPECT_FALSE(Attribute(1) == Attribute(1.0));
  EXPECT_FALSE(Attribute(std::vector<int32_t>()) == Attribute(std::vector<int64_t>()));
}

TEST(ModuleConfig, OptionsKeepTheirOrderThroughChanges) {
  Config config{{"a", 1}, {"b", 2}};
  config.set("c", "x");
  config.set("a", 3);
  EXPECT_TRUE(config.rename("b", "d"));
  EXPECT_FALSE(config.rename("absent", "a"));
  EXPECT_EQ(config.text(), "a=3, d=2, c='x'");
  EXPECT_EQ(config.text(1), "3, d=2, c='x'");
  EXPECT_TRUE(config.rename("c", "a"));  // takes the place of what was named so
  EXPECT_EQ(config.text(), "d=2, a='x'");
  EXPECT_TRUE(config.remove("d"));
  EXPECT_FALSE(config.remove("d"));
  EXPECT_EQ(config.choice("a", {"y", "x"}), 1u);
  EXPECT_THROW((void)config.choice("a", {"y"}), ValueError);
  EXPECT_THROW(Config({{"a", 1}, {"a", 2}}), ValueError);
  EXPECT_THROW(Config({{"", 1}}), ValueError);
}

}  // namespace
}  // namespace weft
