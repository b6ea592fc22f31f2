// Tensors made from C++ data, wrapped memory, devices by name, limits, and the text of errors.
#include <complex>

#include <gtest/gtest.h>

#include <weft/tensor/shortened.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

template <class T>
constexpr bool reads = requires(const Tensor& x) {
  x.to_vector<T>();
  x.item<T>();
};

TEST(Tensor, ValuesAreReadAsEveryTypeOfElement) {
  const Tensor x = tensor({0.0, 2.0, -1.0, 0.0}).reshape({2, 2});
  EXPECT_EQ(x.to_vector<bool>(), (std::vector<bool>{false, true, true, false}));
  EXPECT_EQ((x > 0).t().to_vector<bool>(), (std::vector<bool>{false, false, true, false}));
  EXPECT_EQ(x[0].to_vector<bool>(), (std::vector<bool>{false, true}));
  EXPECT_TRUE(zeros({0, 3}).to_vector<bool>().empty());
  EXPECT_EQ(tensor(2.5).to_vector<bool>(), std::vector<bool>{true});
  EXPECT_EQ(x.to_vector<bfloat16>()[1].bits, 0x4000);
  EXPECT_EQ(tensor(1).item<float16>().bits, 0x3c00);
  EXPECT_EQ(x.to_vector<float8_e5m2>().size(), 4u);
  EXPECT_EQ(x.to_vector<char>()[2], -1);
  EXPECT_EQ(x.to_vector<unsigned long long>()[1], 2u);
  struct NoElement {};
  static_assert(reads<bool> && reads<float16> && reads<std::complex<float>> && !reads<NoElement>);
}

TEST(Tensor, IsMadeFromListsVectorsAndSpans) {
  EXPECT_EQ(tensor({1, 2, 3}).dtype(), i64);
  EXPECT_EQ(tensor({1.0, 2.0}).dtype(), f32);
  EXPECT_EQ(tensor({1.0f}).dtype(), f32);
  EXPECT_EQ(tensor(true).dtype(), boolean);
  EXPECT_EQ(tensor({{1.0, 2.0}, {3.0, 4.0}}).shape(), Dims({2, 2}));
  EXPECT_THROW(tensor({{1.0, 2.0}, {3.0}}), ShapeError);
  const std::vector<double> source{1, 2, 3, 4};
  EXPECT_EQ(tensor(source, f64).to_vector<double>(), source);
  EXPECT_EQ(tensor(std::span<const double>(source), {2, 2}).shape(), Dims({2, 2}));
  EXPECT_THROW(tensor(std::span<const double>(source), {3}), ShapeError);
}

TEST(Tensor, IsMadeWithTheDtypeAndDeviceOfAnother) {
  const Tensor like = zeros({3}, {f64, "meta"});
  EXPECT_EQ(new_tensor(like, {1, 2}).dtype(), f64);
  EXPECT_EQ(new_tensor(like, {1, 2}).device(), Device("meta"));
  const Tensor rows = new_tensor(like, {{1, 2}, {3, 4}}, {.dtype = i32, .device = "cpu"});
  EXPECT_EQ(rows.to_vector<int>(), (std::vector<int>{1, 2, 3, 4}));
  EXPECT_EQ(new_tensor(like, std::vector<float>{1, 2, 3}).shape(), Dims({3}));
  EXPECT_TRUE(new_tensor(ones({1}), 2.5, {.requires_grad = true}).requires_grad());
  EXPECT_THROW(new_tensor(zeros({1}, i8), {200}), ValueError);
  EXPECT_THROW(new_tensor(Tensor(), {200}), ValueError);
}

TEST(Tensor, WrapsMemoryAndFreesItWhenTheLastViewDies) {
  auto owner = std::make_shared<std::vector<float>>(std::vector<float>{1, 2, 3, 4, 5, 6});
  const std::weak_ptr<std::vector<float>> watch = owner;
  Tensor view;
  {
    const Tensor x = from_blob(owner->data(), {2, 3}, owner);
    EXPECT_EQ(x.data_ptr(), owner->data());
    view = x.select(0, 1);
    owner.reset();
  }
  EXPECT_FALSE(watch.expired());
  EXPECT_EQ(view.to_vector<float>(), (std::vector<float>{4, 5, 6}));
  view = Tensor();
  EXPECT_TRUE(watch.expired());
}

TEST(Tensor, WrapsMemoryWithAnyStrides) {
  float data[] = {1, 2, 3, 4, 5, 6};
  EXPECT_EQ(from_blob(data, {3, 2}, {1, 3}).to_vector<float>(), (std::vector<float>{1, 4, 2, 5, 3, 6}));
  EXPECT_EQ(from_blob(data + 5, {3}, {-2}).to_vector<float>(), (std::vector<float>{6, 4, 2}));
  from_blob(data + 5, {3}, {-2}).fill_(0.0);
  EXPECT_EQ(data[1] + data[3] + data[5], 0.0f);
  EXPECT_THROW(from_blob(static_cast<float*>(nullptr), {2}), ValueError);
}

TEST(Tensor, DataIsTypedAndItemNeedsOneElement) {
  const Tensor x = tensor({1.0, 2.0});
  EXPECT_EQ(x.data<float>()[1], 2.0f);
  EXPECT_THROW(x.data<double>(), DTypeError);
  EXPECT_THROW(x.item<float>(), ValueError);
  EXPECT_EQ(tensor(int64_t{1} << 62).item<int64_t>(), int64_t{1} << 62);
  EXPECT_EQ(tensor({2.5}, bf16).item<double>(), 2.5);
}

TEST(Device, NamesAreParsed) {
  EXPECT_EQ(Device("cpu"), Device());
  EXPECT_EQ(Device("cuda:1"), Device(DeviceType::cuda, 1));
  EXPECT_EQ(Device("hpu").name(), "hpu:0");
  for (const char* bad : {"", "gpu", "cuda:", "cuda:x", "cpu:1", "cuda:-1", "cuda:1000", "cuda:99999999999"}) {
    EXPECT_THROW(Device{bad}, DeviceError) << bad;
  }
  EXPECT_THROW(empty({2}, Device("cuda:63")), DeviceError);
}

TEST(Device, AnUnknownNameRaisesWithItsLine) {
  const auto words = [](const auto& f) -> std::string {
    try {
      f();
    } catch (const DeviceError& error) {
      return error.what();
    }
    return "no error";
  };
  const std::string here = "tensor_test.cpp:" + std::to_string(__LINE__ + 1);
  EXPECT_NE(words([] { Device("gpu"); }).find(here), std::string::npos) << words([] { Device("gpu"); });
  const std::string to_line = "tensor_test.cpp:" + std::to_string(__LINE__ + 1);
  EXPECT_NE(words([] { zeros(2).to("gpu"); }).find(to_line), std::string::npos);
  EXPECT_LT(words([] { Device(std::string(5000, 'x')); }).size(), 300u);
}

TEST(Device, MetaHasShapesButNoElements) {
  const Tensor x = empty({2, 3}, Device("meta")), y = empty({3}, {i64, Device("meta")});
  const Tensor z = exp(x + y);
  EXPECT_EQ(z.shape(), Dims({2, 3}));
  EXPECT_EQ(z.dtype(), f32);
  EXPECT_EQ(z.device(), Device("meta"));
  EXPECT_THROW(z.to(Device()), DeviceError);
  EXPECT_THROW(x + ones({2, 3}), DeviceError);
}

TEST(Memory, AnAllocationBeyondTheLimitRaisesAndTheNextWorks) {
  const Tensor keep = ones({1024});
  set_memory_limit({}, memory_stats().allocated + (1 << 20));
  try {
    ones({1 << 20});
    ADD_FAILURE() << "nothing was raised";
  } catch (const OutOfMemoryError& error) {
    EXPECT_EQ(error.requested, size_t{4} << 20);
    EXPECT_NE(std::string(error.what()).find("tensor_test.cpp:"), std::string::npos);
  }
  EXPECT_EQ((keep + keep).select(0, 3).item<float>(), 2.0f);
  set_memory_limit({}, 0);
  EXPECT_EQ(ones({1 << 20}).numel(), 1 << 20);
}

std::string text_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const Error& error) {
    std::string text = error.what();
    const size_t place = text.rfind("at ");
    const size_t slash = text.rfind('/');
    if (place != std::string::npos && slash != std::string::npos && slash > place)
      text.erase(place + 3, slash - place - 2);
    const size_t colon = text.rfind(':');
    return colon == std::string::npos ? text : text.substr(0, colon + 1) + "LINE";
  }
  return "nothing was raised";
}

TEST(ErrorText, NamesOpShapesRemedyAndPlaceInThreeLinesAtMost) {
  const Tensor a = ones({2, 3}), b = ones({4});
  EXPECT_EQ(text_of([&] { (void)(a + b); }),
            "[add] shapes [2, 3] and [4] do not broadcast\n"
            "  sizes must be equal or 1, counted from the last dimension, at tensor_test.cpp:LINE");
  EXPECT_EQ(text_of([&] { a.view({7}); }),
            "[view] 6 elements of shape [2, 3] do not make shape [7]\n"
            "  one size may be -1, at tensor_test.cpp:LINE");
  EXPECT_EQ(text_of([&] { a.select(1, 3); }),
            "[select] index 3 is out of range for axis 1 of size 3\n  at tensor_test.cpp:LINE");
  EXPECT_EQ(text_of([&] { a.item<float>(); }),
            "[item] expected one element, got 6 elements of shape [2, 3]\n"
            "  select one, or use to_vector(), at tensor_test.cpp:LINE");
  EXPECT_EQ(text_of([&] { ones({2}).requires_grad_().add_(1.0); }),
            "[add_] in-place write to a leaf that requires a gradient\n"
            "  shape [2], float32\n"
            "  write under NoGradGuard, or use the out-of-place form, at tensor_test.cpp:LINE");
  EXPECT_EQ(text_of([&] { ones({2}, i64).add_(1.5); }),
            "[add_] a float32 result cannot be written into int64\n"
            "  use the out-of-place form, or convert the target first, at tensor_test.cpp:LINE");
  EXPECT_EQ(
      text_of([&] { exp(Tensor()); }),
      "[exp] the tensor is undefined\n"
      "  it was never given a value, was moved from, or is the grad() of a tensor without one: a leaf has one after "
      "backward, a result after retain_grad(), at tensor_test.cpp:LINE");
  EXPECT_EQ(text_of([&] { a.to(f8_e4m3fn) + a; }),
            "[add] float32 and float8_e4m3fn have no common type\n"
            "  convert one operand with to(dtype), at tensor_test.cpp:LINE");
  EXPECT_EQ(text_of([&] { (void)Device("gpu"); }),
            "[device] unknown device 'gpu'\n"
            "  use one of cpu, cuda[:index], hpu[:index], meta, at tensor_test.cpp:LINE");
  EXPECT_EQ(text_of([&] { a.backward(); }),
            "[backward] the output does not require a gradient\n"
            "  shape [2, 3], float32\n"
            "  no input required a gradient, or it was computed under NoGradGuard, at tensor_test.cpp:LINE");
}

TEST(ErrorText, QuotesNoThousandsOfCharacters) {
  const std::string text(5000, 'x');
  EXPECT_EQ(shortened("short"), "short");
  EXPECT_EQ(shortened(text, 100).size(), 100u);
  EXPECT_EQ(shortened("0123456789012345678901234567890123456789", 25), "012345678901234 ... 56789");
  std::string umlauts;
  for (int i = 0; i < 1000; ++i) umlauts += "\xc3\xa4";
  for (size_t most = 90; most < 96; ++most) {
    std::string cut = shortened(umlauts, most);
    EXPECT_LE(cut.size(), most);
    cut.erase(cut.find(" ... "), 5);
    for (size_t i = 0; i < cut.size(); ++i) EXPECT_EQ(cut[i], umlauts[i]) << most;
  }
  try {
    Device{text};
    FAIL() << "there is no such device";
  } catch (const DeviceError& e) {
    EXPECT_LT(std::string(e.what()).size(), 600u);
  }
  EXPECT_THROW(dtype_from_name(text.c_str()), ValueError);
}

TEST(ErrorText, NamesTheWriterOfASavedTensor) {
  const Tensor x = ones({2}).requires_grad_();
  const Tensor y = exp(x);
  y.add_(1.0);
  std::string text = text_of([&] { y.sum().backward(); });
  const size_t writer = text.find("written by add_ at ");
  ASSERT_NE(writer, std::string::npos) << text;
  text.erase(writer + 19, text.find('\n', writer) - writer - 19);
  EXPECT_EQ(
      text,
      "[exp] a tensor saved for backward was modified by an in-place operation: float32 of shape [2] is at version "
      "1, saved at version 0\n"
      "  written by add_ at \n"
      "  use the out-of-place form there, or clone() before the write; saved at tensor_test.cpp:LINE");
}

}  // namespace
}  // namespace weft
