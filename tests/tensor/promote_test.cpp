// Type promotion: PyTorch 2.15's promote_types for every pair, and the weakness of numbers and 0-d tensors.
#include <gtest/gtest.h>

#include <vector>

#include <weft/weft.hpp>

namespace weft {
namespace {

constexpr const char* types[] = {"bool",  "uint8",   "int8",     "int16",   "int32",
                                 "int64", "float16", "bfloat16", "float32", "float64"};
// Printed by torch.promote_types.
constexpr const char* expected[10][10] = {
    {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    {"uint8", "uint8", "int16", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    {"int8", "int16", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    {"int16", "int16", "int16", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    {"int32", "int32", "int32", "int32", "int32", "int64", "float16", "bfloat16", "float32", "float64"},
    {"int64", "int64", "int64", "int64", "int64", "int64", "float16", "bfloat16", "float32", "float64"},
    {"float16", "float16", "float16", "float16", "float16", "float16", "float16", "float32", "float32", "float64"},
    {"bfloat16", "bfloat16", "bfloat16", "bfloat16", "bfloat16", "bfloat16", "float32", "bfloat16", "float32",
     "float64"},
    {"float32", "float32", "float32", "float32", "float32", "float32", "float32", "float32", "float32", "float64"},
    {"float64", "float64", "float64", "float64", "float64", "float64", "float64", "float64", "float64", "float64"},
};

TEST(Promotion, EveryPairIsAsInPyTorch) {
  for (int i = 0; i < 10; ++i) {
    for (int j = 0; j < 10; ++j) {
      const DType a = dtype_from_name(types[i]), b = dtype_from_name(types[j]);
      EXPECT_STREQ(name(promote(a, b)), expected[i][j]) << types[i] << " and " << types[j];
    }
  }
}

TEST(Promotion, EightBitFloatsHaveNoCommonTypeWithFloats) {
  EXPECT_THROW(promote(f8_e4m3fn, f32), DTypeError);
  EXPECT_THROW(promote(f8_e4m3fn, f8_e5m2), DTypeError);
}

TEST(Promotion, UnsignedAndSignedIntegersMeetInTheSmallestSignedTypeThatHoldsBoth) {
  const DType signed_types[] = {i8, i16, i32, i64}, unsigned_types[] = {u8, u16, u32};
  const DType expected[3][4] = {{i16, i16, i32, i64}, {i32, i32, i32, i64}, {i64, i64, i64, i64}};
  for (int u = 0; u < 3; ++u) {
    for (int s = 0; s < 4; ++s) {
      EXPECT_EQ(promote(unsigned_types[u], signed_types[s]), expected[u][s]);
      EXPECT_EQ(promote(signed_types[s], unsigned_types[u]), expected[u][s]);
    }
  }
  for (DType t : signed_types) EXPECT_THROW(promote(u64, t), DTypeError);
  for (DType t : {u8, u16, u32, boolean}) EXPECT_EQ(promote(u64, t), u64);
  EXPECT_EQ(promote(u16, u32), u32);
  EXPECT_EQ(promote(u64, f16), f16);
}

TEST(Promotion, NumbersDoNotWidenATensorOfTheirCategory) {
  EXPECT_EQ((ones({2}, f16) * 2.0).dtype(), f16);
  EXPECT_EQ((ones({2}, i8) + 100).dtype(), i8);
  EXPECT_EQ((ones({2}, i32) * 1.5).dtype(), f32);
  EXPECT_EQ((ones({2}, boolean) + 1).dtype(), i64);
  EXPECT_EQ((2.0 - ones({2}, f64)).dtype(), f64);
}

TEST(Promotion, ZeroDimensionalTensorsYieldToDimensionedOnes) {
  EXPECT_EQ((ones({2}, f16) * full({}, 2.0, f64)).dtype(), f16);
  EXPECT_EQ((ones({2}, i32) * full({}, 2.0, f64)).dtype(), f64);
  EXPECT_EQ((full({}, 2.0, f64) * full({}, 2.0)).dtype(), f64);
}

TEST(Promotion, IntegersAreDividedInFloat32) {
  const Tensor q = tensor({1, 2, 3}) / tensor({2, 2, 2});
  EXPECT_EQ(q.dtype(), f32);
  EXPECT_EQ(q.to_vector<float>(), (std::vector<float>{0.5f, 1.0f, 1.5f}));
}

TEST(Promotion, LargeIntegersKeepTheirValueBesideNumbers) {
  const Tensor x = full({1}, int64_t{9007199254740993});
  EXPECT_EQ((x + 2).item<int64_t>(), 9007199254740995);
  EXPECT_EQ((x * 1).item<int64_t>(), 9007199254740993);
}

TEST(Promotion, HalfPrecisionTimesANumberUsesTheNumbersOwnPrecision) {
  // 0.1 rounded to bfloat16 first would give 100.5.
  EXPECT_EQ((full({1}, 1000.0, bf16) * 0.1).item<float>(), 100.0f);
}

/// Restores the default dtype.
struct DefaultDType {
  explicit DefaultDType(DType t) { set_default_dtype(t); }
  ~DefaultDType() { set_default_dtype(before); }
  const DType before = default_dtype();
};

TEST(Promotion, TheDefaultDtypeAppliesToNewTensorsAndNumbers) {
  const Tensor whole = tensor({1, 2, 3}), bools = tensor({true, false}), single = ones({2}, f32);
  for (const DType t : {f64, f16, bf16, f32}) {
    const DefaultDType scope(t);
    EXPECT_EQ(default_dtype(), t);
    for (const Tensor& made :
         std::vector<Tensor>{ones({2}), tensor({1.0, 2.5}), tensor(1.5), rand({2}), arange(0.0, 1.0, 0.5),
                             linspace(0, 1, 3), eye(2), whole + 2.5, whole / 2, sqrt(whole), bools * 0.5,
                             where(bools, 1.5, 2.5), nn::Linear(2, 2).weight, nn::PReLU().weight}) {
      EXPECT_EQ(made.dtype(), t);
    }
    for (const Tensor& kept : std::vector<Tensor>{single * 2.5, tensor({1.0f})}) EXPECT_EQ(kept.dtype(), f32);
    for (const Tensor& kept : std::vector<Tensor>{arange(3), tensor({1, 2}), whole + 1}) EXPECT_EQ(kept.dtype(), i64);
  }
}

TEST(Promotion, OnlyDtypesOfArithmeticAreDefaults) {
  for (const DType t : {i64, boolean, f8_e5m2}) EXPECT_THROW(set_default_dtype(t), DTypeError);
  EXPECT_EQ(default_dtype(), f32);
}

}  // namespace
}  // namespace weft
