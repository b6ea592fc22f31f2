#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>

#include <weft/io/tensor_json.hpp>
#include <weft/weft.hpp>

#include <collected_warnings.hpp>
#include <message_of.hpp>
#include <tensor_bytes.hpp>

namespace weft {
namespace {

using ::testing::HasSubstr;

Tensor of_bytes(const std::string& bytes, DType dtype) {
  Tensor t = empty(static_cast<int64_t>(bytes.size() / itemsize(dtype)), {.dtype = dtype});
  std::memcpy(t.data_ptr(), bytes.data(), bytes.size());
  return t;
}

Tensor back(const Tensor& t) { return io::tensors_from_json(io::tensors_to_json({{"x", t}})).tensors.at("x"); }

/// The one element that a number has in a dtype.
Tensor parsed(const std::string& number, DType dtype) {
  const std::string text = R"({"format_version": "1.0", "tensors": {"x": {"dtype": ")" + std::string(name(dtype)) +
                           R"(", "shape": [], "data": [)" + number + "]}}}";
  return io::tensors_from_json(text).tensors.at("x");
}

TEST(TensorJson, ReadsAsDocumented) {
  const Tensor b = tensor({{true}, {false}});
  EXPECT_EQ(io::tensors_to_json({{"a", tensor({1.f, 2.5f})}, {"b", b}}, {{"by", "me"}}), R"({"format_version": "1.0",
 "metadata": {
  "by": "me"},
 "tensors": {
  "a": {"dtype": "float32", "shape": [2],
   "data": [1.0, 2.5]},
  "b": {"dtype": "bool", "shape": [2, 1],
   "data": [true, false]}}}
)");
  EXPECT_TRUE(io::tensors_from_json(io::tensors_to_json({})).tensors.empty());
}

TEST(TensorJson, EveryBitPatternOfTheNarrowFloatsComesBackOrIsNaN) {
  for (const DType dtype : {f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu, f16, bf16}) {
    const int bits = static_cast<int>(itemsize(dtype)) * 8;
    const Tensor codes = arange(int64_t{1} << bits).to(bits == 8 ? DType::u8 : DType::u16);
    const Tensor values = of_bytes(bytes_of(codes), dtype);
    const Tensor again = back(values);
    ASSERT_EQ(again.dtype(), dtype);
    const std::vector<float> a = values.to(DType::f32).to_vector<float>(), b = again.to(DType::f32).to_vector<float>();
    const std::string left = bytes_of(values), right = bytes_of(again);
    for (size_t i = 0; i < a.size(); ++i) {
      if (std::isnan(a[i])) EXPECT_TRUE(std::isnan(b[i])) << i;
      else EXPECT_EQ(std::memcmp(&left[i * itemsize(dtype)], &right[i * itemsize(dtype)], itemsize(dtype)), 0) << a[i];
    }
  }
}

TEST(TensorJson, RandomBitsOfTheOtherDtypesComeBack) {
  std::mt19937_64 random(3);
  std::vector<int64_t> words(4096);
  for (int64_t& word : words) word = static_cast<int64_t>(random());
  const Tensor bits = tensor(words);
  for (const DType dtype :
       {DType::u8, DType::i8, DType::u16, DType::i16, DType::u32, DType::i32, DType::u64, DType::i64}) {
    EXPECT_EQ(bytes_of(back(of_bytes(bytes_of(bits), dtype))), bytes_of(bits)) << name(dtype);
  }
  for (const DType dtype : {DType::f32, DType::f64}) {
    const Tensor values = nan_to_num(of_bytes(bytes_of(bits), dtype), -0.0);
    EXPECT_EQ(bytes_of(back(values)), bytes_of(values)) << name(dtype);
  }
}

TEST(TensorJson, ShapesStridesAndEmptyTensorsComeBack) {
  for (const Tensor& t : {ones({2, 0, 3}), tensor(3.5), arange(24).reshape({2, 3, 4}).transpose(0, 2),
                          arange(6).flip(0), tensor({1.0, 2.0}).expand({3, 2})}) {
    const Tensor again = back(t);
    EXPECT_EQ(again.shape(), t.shape());
    EXPECT_TRUE(again.equal(t));
  }
}

TEST(TensorJson, DecimalsHaveTheFewestDigits) {
  EXPECT_THAT(io::tensors_to_json({{"x", tensor({0.1f, 1e10f, -0.f}).to(DType::f32)}}),
              HasSubstr("[0.1, 10000000000.0, -0.0]"));
  EXPECT_THAT(io::tensors_to_json({{"x", tensor({0.1f, 65504.f, 6e-8f}).to(DType::f16)}}),
              HasSubstr("[0.1, 65500.0, 6e-08]"));
  EXPECT_THAT(io::tensors_to_json({{"x", tensor({0.1f, 240.f}).to(DType::f8_e4m3fn)}}), HasSubstr("[0.1, 240.0]"));
}

// The exact answer by 128-bit arithmetic: decimals of at most 30 digits around the ties of f16.
TEST(TensorJson, DecimalsAreRoundedOnce) {
  // Between 1 and 1 + 2^-10 is the tie 1.00048828125; the double next to the second decimal is that tie.
  EXPECT_EQ(parsed("1.00048828125", DType::f16).to(DType::f64).item<double>(), 1);
  EXPECT_EQ(parsed("1.000488281250000000000000001", DType::f16).to(DType::f64).item<double>(), 1 + 0x1p-10);
  EXPECT_EQ(parsed("1.0014648437499999999999999999", DType::f16).to(DType::f64).item<double>(), 1 + 0x1p-10);
  EXPECT_EQ(parsed("1.00146484375", DType::f16).to(DType::f64).item<double>(), 1 + 0x1p-9);
  EXPECT_EQ(parsed("100048828125000000000000000001e-29", DType::f16).to(DType::f64).item<double>(), 1 + 0x1p-10);
  EXPECT_EQ(parsed("1.00390625000000000000000000001", DType::bf16).to(DType::f64).item<double>(), 1 + 0x1p-7);
  EXPECT_EQ(parsed("1.0625000000000000000000001", DType::f8_e4m3fn).to(DType::f64).item<double>(), 1.125);
  EXPECT_EQ(parsed("-1.0625000000000000000000001", DType::f8_e4m3fn).to(DType::f64).item<double>(), -1.125);
  EXPECT_EQ(parsed("9007199254740993", DType::f64).item<double>(), 9007199254740992.0);
  EXPECT_EQ(parsed("2049.0000000000000000000001", DType::f16).to(DType::f64).item<double>(), 2050);
  EXPECT_EQ(parsed("2049", DType::f16).to(DType::f64).item<double>(), 2048);
  EXPECT_EQ(parsed("1e-400", DType::f16).to(DType::f64).item<double>(), 0);
  EXPECT_EQ(parsed("2.98023223876953125e-8", DType::f16).to(DType::f64).item<double>(), 0);  // 2^-25, a tie
  EXPECT_EQ(parsed("2.980232238769531250001e-8", DType::f16).to(DType::f64).item<double>(), 0x1p-24);
}

TEST(TensorJson, NumbersBeyondTheRangeAreInfinite) {
  const double infinity = std::numeric_limits<double>::infinity();
  EXPECT_EQ(parsed("65520.0", DType::f16).to(DType::f64).item<double>(), infinity);
  EXPECT_EQ(parsed("65519.9999", DType::f16).to(DType::f64).item<double>(), 65504);
  EXPECT_EQ(parsed("-1e39", DType::f32).item<double>(), -infinity);
  EXPECT_EQ(parsed("1e6", DType::f8_e5m2).to(DType::f64).item<double>(), infinity);
  EXPECT_EQ(parsed("\"Infinity\"", DType::bf16).to(DType::f64).item<double>(), infinity);
  CollectedWarnings warnings;
  EXPECT_TRUE(std::isnan(parsed("\"Infinity\"", DType::f8_e4m3fn).to(DType::f64).item<double>()));
  EXPECT_TRUE(std::isnan(parsed("465.0", DType::f8_e4m3fn).to(DType::f64).item<double>()));
  EXPECT_EQ(parsed("464.0", DType::f8_e4m3fn).to(DType::f64).item<double>(), 448);
  ASSERT_EQ(warnings.texts.size(), 1u);
  EXPECT_THAT(warnings.texts[0], HasSubstr("1 numbers of \"x\" are beyond float8_e4m3fn"));
  const auto fnuz = [](const std::string& numbers) {  // another place, which warns for itself
    return io::tensors_from_json(
               R"({"format_version": "1.0", "tensors": {"x": {"dtype": "float8_e4m3fnuz", "shape": [2],
                                 "data": [)" +
               numbers + "]}}}")
        .tensors.at("x")
        .to(DType::f64)
        .to_vector<double>();
  };
  EXPECT_TRUE(std::isnan(fnuz("1.0, \"NaN\"")[1]));
  EXPECT_EQ(warnings.texts.size(), 1u);
  EXPECT_TRUE(std::isnan(fnuz("1.0, 248.0")[1]));
  ASSERT_EQ(warnings.texts.size(), 2u);
  EXPECT_THAT(warnings.texts[1], HasSubstr("1 numbers of \"x\" are beyond float8_e4m3fnuz"));
}

TEST(TensorJson, MalformedTextIsRefusedWithThePlace) {
  const auto in_tensors = [](const std::string& t) { return R"({"format_version": "1.0", "tensors": )" + t + "}"; };
  const std::pair<std::string, const char*> cases[] = {
      {"", "malformed JSON at byte"},
      {"[]", "a list is no object"},
      {"null", "null is no object"},
      {R"({"format_version": "1.0"})", "there is no"},
      {R"({"tensors": {}})", "there is no"},
      {R"({"format_version": "1", "tensors": {}})", "the version is none"},
      {R"({"format_version": "1.0", "tensors": {}, "tensors": {}})", "cannot represent \"tensors\""},
      {R"({"format_version": "1.0", "metadata": {"a": 1}, "tensors": {}})", "a number cannot represent \"a\""},
      {R"({"format_version": "1.0", "metadata": {"a": "b", "a": "b"}, "tensors": {}})", "\"a\" is there twice"},
      {in_tensors("[]"), "a list cannot represent \"tensors\""},
      {in_tensors(R"({"a": 1})"), "cannot represent \"a\""},
      {in_tensors(R"({"a": {}})"), "tensors.a: there is no \"data\""},
      {in_tensors(R"({"a": {"data": []}})"), "come before \"data\""},
      {in_tensors(R"({"a": {"dtype": "f9", "shape": [], "data": []}})"), "\"f9\" is no dtype"},
      {in_tensors(R"({"a": {"dtype": "int8", "dtype": "int8", "shape": [], "data": []}})"), "is there twice"},
      {in_tensors(R"({"a": {"dtype": "int8", "shape": [-1], "data": []}})"), "a negative number cannot represent"},
      {in_tensors(R"({"a": {"dtype": "int8", "shape": [1,1,1,1,1,1,1,1,1], "data": [1]}})"), "the shape is too large"},
      {in_tensors(R"({"a": {"dtype": "int8", "shape": [9223372036854775807, 4], "data": []}})"), "0 elements for"},
      {in_tensors(R"({"a": {"dtype": "int8", "shape": [2], "data": [1]}})"), "1 elements for the shape [2]"},
      {in_tensors(R"({"a": {"dtype": "int8", "shape": [], "data": [128]}})"), "128 is out of range"},
      {in_tensors(R"({"a": {"dtype": "uint8", "shape": [], "data": [-1]}})"), "-1 is out of range"},
      {in_tensors(R"({"a": {"dtype": "int8", "shape": [], "data": [1.0]}})"), "a fraction cannot represent"},
      {in_tensors(R"({"a": {"dtype": "int8", "shape": [], "data": ["NaN"]}})"), "a text cannot represent"},
      {in_tensors(R"({"a": {"dtype": "bool", "shape": [], "data": [1]}})"), "a number cannot represent"},
      {in_tensors(R"({"a": {"dtype": "float32", "shape": [], "data": [true]}})"), "a bool cannot represent"},
      {in_tensors(R"({"a": {"dtype": "float32", "shape": [], "data": [null]}})"), "null cannot represent"},
      {in_tensors(R"({"a": {"dtype": "float32", "shape": [], "data": ["nan"]}})"), "\"nan\" is no number"},
      {in_tensors(R"({"a": {"dtype": "float32", "shape": [], "data": [[1.0]]}})"), "a list cannot represent"},
      {in_tensors(R"({"a": {"dtype": "float32", "shape": [], "data": [1.0]},
                      "a": {"dtype": "float32", "shape": [], "data": [1.0]}})"),
       "there are two of this name"},
      {"{\"x\": " + std::string(2000, '['), "more than 500 levels"},
      {in_tensors("{}") + std::string("\0x", 2), "malformed JSON at byte"},
  };
  for (const auto& [text, problem] : cases) {
    EXPECT_THAT(message_of<FormatError>([&, &text = text] { (void)io::tensors_from_json(text); }), HasSubstr(problem))
        << text;
  }
  EXPECT_THROW((void)io::tensors_from_json(R"({"format_version": "2.0", "tensors": {}})"), VersionError);
  EXPECT_TRUE(io::tensors_from_json(
                  R"({"format_version": "1.9", "more": {"a": [1, {}]}, "tensors": {"a": {"dtype": "int8", "note": [[]],
                      "shape": [], "data": [1], "why": null}}})")
                  .tensors.contains("a"));
  EXPECT_THROW((void)io::tensors_to_json({{"x", Tensor()}}), ValueError);
  EXPECT_THROW((void)io::tensors_to_json({{"\xff", ones(1)}}), ValueError);
  EXPECT_THROW((void)io::tensors_to_json({}, {{"a", "\xff"}}), ValueError);
}

}  // namespace
}  // namespace weft
