// Errors name the program's line, not one of Weft.
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/backends/backend.hpp>
#include <weft/data/csv.hpp>
#include <weft/data/json_lines.hpp>
#include <weft/func/func.hpp>
#include <weft/hooks/memory_history.hpp>
#include <weft/weft.hpp>

#include "message_of.hpp"

namespace weft {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* here = "at .*place_test.cpp:[0-9]+";

TEST(Place, OfTooManyDimensions) {
  const std::vector<int64_t> nine(9, 1);
  const Tensor x = zeros({1});
  for (const std::string& text :
       {message_of<ShapeError>([] {
          zeros({1, 1, 1, 1, 1, 1, 1, 1, 1});
        }),
        message_of<ShapeError>([&] { ones(nine); }),
        message_of<ShapeError>([&] { full(std::span<const int64_t>(nine), 3); }), message_of<ShapeError>([&] {
          x.reshape({1, 1, 1, 1, 1, 1, 1, 1, 1});
        }),
        message_of<ShapeError>([&] { x.expand(nine); }), message_of<ShapeError>([&] {
          sum(x, {0, 0, 0, 0, 0, 0, 0, 0, 0});
        })}) {
    EXPECT_THAT(text, ContainsRegex(here));
    EXPECT_THAT(text, HasSubstr("at most 8 dimensions"));
  }
}

TEST(Place, OfDevicesThatAreNotThere) {
  const Device absent("hpu:77");
  for (const std::string& text :
       {message_of<DeviceError>([&] { memory_stats(absent); }), message_of<DeviceError>([&] { reset_peak(absent); }),
        message_of<DeviceError>([&] { empty_cache(absent); }),
        message_of<DeviceError>([&] { set_memory_limit(absent, 1); }),
        message_of<DeviceError>([&] { memory_snapshot(absent); }),
        message_of<DeviceError>([&] { synchronize(absent); })}) {
    EXPECT_THAT(text, ContainsRegex(here));
  }
  EXPECT_THAT(message_of<DeviceError>([&] { empty_cache(absent); }),
              HasSubstr("[empty_cache] there is no device hpu:77"));
}

TEST(Place, OfNamesBetweenBrackets) {
  const data::Table table = data::parse_csv("a,b\n1,2\n");
  const data::Json json = data::Json::parse("{\"a\": [1, 2]}");
  const std::string name = "c";
  for (const std::string& text :
       {message_of<KeyError>([&] { table["c"]; }), message_of<KeyError>([&] { table[name]; }),
        message_of<KeyError>([&] { json["c"]; }), message_of<IndexError>([&] { json["a"][0u + 2]; })}) {
    EXPECT_THAT(text, ContainsRegex(here));
  }
  EXPECT_EQ(json["a"][0].integer(), 1);
  EXPECT_EQ(table[std::string_view("b")].item<int64_t>(), 2);
}

TEST(Place, OfFunctionsOfTensors) {
  const Tensor x = zeros({2});
  const func::Function two = [](const Tensor& a, const Tensor& b) { return a + b; };
  const func::Function none = [](const Tensor&) { return std::vector<Tensor>(); };
  EXPECT_THAT(message_of<ValueError>([&] { two(x); }), ContainsRegex(here));
  EXPECT_THAT(message_of<ValueError>([&] { none(x); }), ContainsRegex(here));
}

TEST(Place, OfMemoryThatIsNotThere) {
  try {
    zeros({int64_t{1} << 44});
    ADD_FAILURE() << "nothing was raised";
  } catch (const OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), ContainsRegex(here));
    EXPECT_THAT(error.what(), Not(HasSubstr("limit")));
    EXPECT_EQ(error.device, Device());
    EXPECT_EQ(error.requested, size_t{1} << 46);
    EXPECT_EQ(error.limit, 0u);
    EXPECT_GT(error.free, 0u);
    EXPECT_GE(error.reserved, error.allocated);
  }
  const size_t limit = memory_stats().allocated + (1 << 20);
  set_memory_limit({}, limit);
  try {
    zeros({1 << 20});
    ADD_FAILURE() << "nothing was raised";
  } catch (const OutOfMemoryError& error) {
    EXPECT_THAT(error.what(), HasSubstr(", limit " + std::to_string(limit)));
    EXPECT_THAT(error.what(), HasSubstr("raise set_memory_limit"));
    EXPECT_EQ(error.limit, limit);
  }
  set_memory_limit({}, 0);
}

TEST(Place, OfTargetsThatDoNotFit) {
  const Tensor x = zeros({2, 3}), wide = zeros({2, 3}, f64), other = zeros({3, 2}), square = zeros({3, 3});
  const Tensor away = empty({2, 3}, {f32, "meta"});
  const auto check = [&](const auto& into, const Tensor& shape) {
    EXPECT_THAT(message_of<DTypeError>([&] { into(wide); }), HasSubstr("does not fit the result"));
    EXPECT_THAT(message_of<ShapeError>([&] { into(shape); }), HasSubstr("does not fit the result"));
    EXPECT_THAT(message_of<DeviceError>([&] { into(away); }), HasSubstr("does not fit the result"));
  };
  check([&](const Tensor& out) { add_out(out, x, 1.0f); }, other);
  check([&](const Tensor& out) { exp_out(out, x); }, other);
  check([&](const Tensor& out) { matmul_out(out, x, square); }, other);
  check([&](const Tensor& out) { mm_out(out, x, square); }, other);
  const QuantOut a = quant_blockwise(ones({2, 128})), b = quant_blockwise(ones({3, 128}), QuantBlock::tile_128x128);
  check([&](const Tensor& out) { gemm_fp8_blockwise(a.q, a.scale, b.q, b.scale, f32, {.out = out}); }, other);
}

TEST(Place, OfRanksThatALayerDoesNotTake) {
  const auto text = [](auto layer, const Dims& shape) { return message_of<ShapeError>([&] { layer(zeros(shape)); }); };
  EXPECT_THAT(text(nn::BatchNorm1d(3), {2, 3, 4, 5}),
              HasSubstr("x: expected 2 to 3 dimensions, got shape [2, 3, 4, 5]"));
  EXPECT_THAT(text(nn::BatchNorm2d(3), {2, 3}), HasSubstr("x: expected 4 dimensions, got shape [2, 3]"));
  EXPECT_THAT(text(nn::BatchNorm3d(3), {2, 3}), HasSubstr("x: expected 5 dimensions, got shape [2, 3]"));
  EXPECT_THAT(text(nn::InstanceNorm2d(3), {2, 3}), HasSubstr("expected"));
}

}  // namespace
}  // namespace weft
