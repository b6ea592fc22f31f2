// The grammar of error messages: "name: expected ..., got ...".
#include <algorithm>
#include <cmath>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/tensor/expect-inl.hpp>
#include <weft/weft.hpp>

#include "message_of.hpp"

namespace weft {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

TEST(Expect, NamesArgumentRequirementAndValue) {
  EXPECT_EQ(mismatch_text("h", "shape [2, 4]", Dims{2, 5}), "h: expected shape [2, 4], got [2, 5]");
  EXPECT_EQ(mismatch_text("pivots", DType::i32, DType::i64), "pivots: expected int32, got int64");
  EXPECT_EQ(mismatch_text("x", Device("meta"), Device()), "x: expected meta, got cpu");
  EXPECT_EQ(mismatch_text("p", "a number in [0, 1]", 1.5), "p: expected a number in [0, 1], got 1.5");
  EXPECT_EQ(mismatch_text("side", "'left' or 'right'", in_quotes("up")), "side: expected 'left' or 'right', got 'up'");
  EXPECT_EQ(mismatch_text("", "one element", 6), "expected one element, got 6");
}

TEST(Expect, ChecksShapes) {
  const Tensor x = zeros({2, 3});
  EXPECT_NO_THROW(expect_shape("x", x, {2, 3}));
  EXPECT_NO_THROW(expect_shape("x", x, x.dim() == 2, "[{}, n]", 2));
  EXPECT_NO_THROW(expect_rank("x", x, 2));
  EXPECT_NO_THROW(expect_rank_at_least("x", x, 2));
  EXPECT_NO_THROW(expect_matrix("x", x));
  EXPECT_THAT(message_of<ShapeError>([&] {
                expect_shape("x", x, {3, 2});
              }),
              HasSubstr("] x: expected shape [3, 2], got [2, 3]"));
  EXPECT_THAT(message_of<ShapeError>([&] { expect_shape("x", x, false, "[{}, n]", 4); }),
              HasSubstr("x: expected shape [4, n], got [2, 3]"));
  EXPECT_THAT(message_of<ShapeError>([&] { expect_rank("x", x, 1); }),
              HasSubstr("x: expected 1 dimension, got shape [2, 3]"));
  EXPECT_THAT(message_of<ShapeError>([&] { expect_rank_at_least("x", x, 3); }),
              HasSubstr("x: expected at least 3 dimensions, got shape [2, 3]"));
  EXPECT_THAT(message_of<ShapeError>([&] { expect_matrix("x", x.flatten()); }),
              HasSubstr("x: expected a matrix, got shape [6]"));
}

TEST(Expect, ChecksDtypes) {
  const Tensor x = zeros({2}), index = zeros({2}, i64);
  EXPECT_NO_THROW(expect_dtype("x", x, DType::f32));
  EXPECT_NO_THROW(expect_integers("index", index));
  EXPECT_NO_THROW(expect_one_dtype("x and y", x, x));
  EXPECT_THAT(message_of<DTypeError>([&] { expect_dtype("x", x, DType::f64); }),
              HasSubstr("x: expected float64, got float32"));
  EXPECT_THAT(message_of<DTypeError>([&] { expect_dtype("x", x, false, "int32 or int64"); }),
              HasSubstr("x: expected int32 or int64, got float32"));
  EXPECT_THAT(message_of<DTypeError>([&] { expect_integers("index", x, "use i64"); }),
              HasSubstr("index: expected integers, got float32\n  use i64"));
  EXPECT_THAT(message_of<DTypeError>([&] { expect_one_dtype("x and y", x, index); }),
              HasSubstr("x and y: expected one dtype, got float32 and int64"));
}

TEST(Expect, ChecksNumbers) {
  EXPECT_NO_THROW(expect_at_least("groups", int64_t{1}, 1));
  EXPECT_NO_THROW(expect_range("p", 0.0, 0, 1));
  EXPECT_NO_THROW(expect_range("p", 1.0, 0, 1));
  EXPECT_THAT(message_of<ValueError>([] { expect_at_least("groups", int64_t{0}, 1); }),
              HasSubstr("groups: expected at least 1, got 0"));
  EXPECT_THAT(message_of<ValueError>([] { expect_at_least("eps", std::nan(""), 0); }),
              HasSubstr("eps: expected at least 0, got nan"));
  EXPECT_THAT(message_of<ValueError>([] { expect_range("p", std::nan(""), 0, 1); }),
              HasSubstr("p: expected a number in [0, 1], got nan"));
  EXPECT_THAT(message_of<ValueError>([] { expect_range("n", int64_t{-1}, 0, 170); }),
              HasSubstr("n: expected a number in [0, 170], got -1"));
}

/// Calls of several rooms that raise, by the text that follows the op.
TEST(Expect, EveryRoomHasOneGrammar) {
  const Tensor x = rand({2, 3});
  EXPECT_THAT(message_of<ShapeError>([&] {
                gru_cell(x, zeros({2, 5}), zeros({12, 3}), zeros({12, 4}));
              }),
              StartsWith("[gru_cell] h: expected shape [2, 4], got [2, 5]"));
  EXPECT_THAT(message_of<ValueError>([&] { optim::SGD({zeros({2}).requires_grad_(true)}, {.lr = -1}); }),
              HasSubstr("lr: expected a finite number of at least 0, got -1"));
  EXPECT_THAT(message_of<ValueError>([] { nn::Dropout(2); }), HasSubstr("p: expected a number in [0, 1], got 2"));
  EXPECT_THAT(message_of<DTypeError>([&] { (void)x.data<double>(); }),
              HasSubstr("elements: expected float64, got float32"));
  const std::string text = message_of<DTypeError>([&] { masked_fill(x, x, 0.0); });
  EXPECT_THAT(text,
              AllOf(StartsWith("[masked_fill] mask: expected bool, got float32\n"), HasSubstr("expect_test.cpp:")));
  EXPECT_LE(std::ranges::count(text, '\n'), 2) << text;
}

}  // namespace
}  // namespace weft
