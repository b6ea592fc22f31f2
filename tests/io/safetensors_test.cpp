#include <cmath>
#include <cstring>
#include <ctime>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/io/safetensors.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/random.hpp>

#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::HasSubstr;

constexpr DType all_dtypes[] = {boolean, u8,   i8,  u16, i16,       u32,     i32,         u64,         i64,
                                f16,     bf16, f32, f64, f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu};

std::string raw(const Tensor& t) {
  const Tensor dense = t.contiguous();
  return dense.numel() == 0
             ? ""
             : std::string(static_cast<const char*>(dense.data_ptr()), static_cast<size_t>(dense.nbytes()));
}

// "length, header, data" as a file.
std::string file_of(const std::string& header, const std::string& data, int64_t length = -1) {
  const uint64_t n = length < 0 ? header.size() : static_cast<uint64_t>(length);
  std::string out(8, '\0');
  std::memcpy(out.data(), &n, 8);
  return out + header + data;
}

TEST(Safetensors, RoundTripOfEveryDtype) {
  const TemporaryFolder folder;
  io::TensorMap tensors;
  for (const DType dtype : all_dtypes) {
    const Tensor values = tensor({0.0, 1.0, 2.0, 3.0, 4.0, 5.0}).to(dtype);
    const std::string type = name(dtype);
    tensors[type] = values.view({2, 3});
    tensors[type + ".scalar"] = tensor(1.0).to(dtype);
    tensors[type + ".empty"] = empty({3, 0, 2}, dtype);
  }
  const io::Metadata metadata = {{"format", "weft"}, {"ünïcode \"quoted\"", "line\nbreak"}};
  io::save_file(tensors, folder / "all.safetensors", metadata);
  const io::SafeFile file = io::SafeFile::open(folder / "all.safetensors");
  EXPECT_EQ(file.metadata(), metadata);
  EXPECT_EQ(file.keys().size(), tensors.size());
  for (const auto& [name, saved] : tensors) {
    const Tensor loaded = file.get(name);
    EXPECT_EQ(loaded.dtype(), saved.dtype()) << name;
    EXPECT_EQ(loaded.shape(), saved.shape()) << name;
    EXPECT_EQ(raw(loaded), raw(saved)) << name;
  }
}

TEST(Safetensors, BytesOfTheSpecifiedCase) {
  const TemporaryFolder folder;
  const io::TensorMap tensors = {{"b", tensor(uint8_t{7}, u8)}, {"a", tensor({1.0, 2.0})}};
  io::save_file(tensors, folder / "case", {{"format", "weft"}});
  const std::string bytes = read_bytes(folder / "case");
  ASSERT_EQ(bytes.size(), 161u);
  EXPECT_EQ(bytes.substr(0, 8), std::string("\x90\0\0\0\0\0\0\0", 8));
  EXPECT_EQ(bytes.substr(8, 144),
            R"({"__metadata__":{"format":"weft"},"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},)"
            R"("b":{"dtype":"U8","shape":[],"data_offsets":[8,9]}}      )");
  EXPECT_EQ(bytes.substr(152), std::string("\0\0\x80\x3f\0\0\0\x40\7", 9));
}

TEST(Safetensors, ViewsArePackedRowMajor) {
  const TemporaryFolder folder;
  const Tensor x = arange(12).view({3, 4});
  io::save_file({{"t", x.t()}, {"r", x.clone().slice(1, {}, {}, -2)}}, folder / "views");
  const io::TensorMap loaded = io::load_file(folder / "views");
  EXPECT_EQ(loaded.at("t").to_vector<int>(), x.t().to_vector<int>());
  EXPECT_EQ(loaded.at("r").to_vector<int>(), (std::vector<int>{3, 1, 7, 5, 11, 9}));
  EXPECT_TRUE(loaded.at("t").is_contiguous());
}

TEST(Safetensors, LoadedTensorsAreWindowsThatNeverChangeTheFile) {
  const TemporaryFolder folder;
  io::save_file({{"x", ones(100)}}, folder / "x");
  const std::string before = read_bytes(folder / "x");
  {
    const Tensor x = io::load_file(folder / "x").at("x");
    std::filesystem::rename(folder / "x", folder / "y");
    x.fill_(5);
    EXPECT_EQ(x.to_vector<int>()[99], 5);
  }
  EXPECT_EQ(read_bytes(folder / "y"), before);
  EXPECT_EQ(io::load_file(folder / "y").at("x").to_vector<int>()[99], 1);
}

TEST(Safetensors, UnalignedStartsAreCopied) {
  const TemporaryFolder folder;
  const std::string header = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("x":{"dtype":"F32","shape":[1],"data_offsets":[1,5]}})";
  write_bytes(folder / "odd", file_of(header, std::string("\7\0\0\x80\x3f", 5)));
  EXPECT_EQ(io::load_file(folder / "odd").at("x").item<float>(), 1);
}

TEST(Safetensors, NamedPartsAndUnknownNames) {
  const TemporaryFolder folder;
  io::save_file({{"a", ones(2)}, {"b", ones(3)}}, folder / "f");
  EXPECT_EQ(io::load_file(folder / "f", {}, {{"b"}}).size(), 1u);
  EXPECT_THROW(io::load_file(folder / "f", {}, {{"c"}}), KeyError);
  EXPECT_THROW(io::SafeFile::open(folder / "f").info("c"), KeyError);
  EXPECT_EQ(io::SafeFile::open(folder / "f").info("b").shape, Dims(3));
}

TEST(Safetensors, EmptyMap) {
  const TemporaryFolder folder;
  io::save_file({}, folder / "none");
  EXPECT_EQ(read_bytes(folder / "none"), file_of("{}      ", ""));
  EXPECT_TRUE(io::load_file(folder / "none").empty());
}

TEST(Safetensors, AFailedSaveKeepsTheOldFile) {
  const TemporaryFolder folder;
  io::save_file({{"a", ones(2)}}, folder / "f");
  const std::string before = read_bytes(folder / "f");
  const Tensor shared = ones(4);
  EXPECT_THROW(io::save_file({{"a", shared}, {"b", shared.narrow(0, 3, 1)}}, folder / "f"), ValueError);
  EXPECT_THROW(io::save_file({{"a", Tensor()}}, folder / "f"), ValueError);
  EXPECT_THROW(io::save_file({{"\xff", ones(1)}}, folder / "f"), ValueError);
  EXPECT_THROW(io::save_file({{"__metadata__", ones(1)}}, folder / "f"), ValueError);
  EXPECT_THROW(io::save_file({{"a", empty(2, Device("meta"))}}, folder / "f"), ValueError);
  EXPECT_THROW(io::save_file({{"a", ones(2)}}, folder / "no" / "such" / "folder"), IoError);
  EXPECT_EQ(read_bytes(folder / "f"), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
  io::save_file({{"a", shared.narrow(0, 0, 2)}, {"b", shared.narrow(0, 2, 2)}}, folder / "f");
}

struct Corruption {
  const char* what;
  std::string bytes;
};

std::vector<Corruption> corruptions() {
  const std::string x = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", data(8, '\0');
  const auto with = [&](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return file_of(R"({"x":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}", data);
  };
  return {{"empty", ""},
          {"seven bytes", "1234567"},
          {"length 1", file_of("{}", "", 1)},
          {"length beyond the file", file_of("{}", "", 3)},
          {"length beyond the limit", file_of("{}", "", 100'000'001)},
          {"length of 64 bits", file_of("{}", "", INT64_MAX)},
          {"no brace first", file_of(" {}", "")},
          {"an array", file_of("[]", "")},
          {"cut off", file_of(R"({"x":)", "")},
          {"trailing line break", file_of("{}\n", "")},
          {"trailing zero", file_of(std::string("{}\0", 3), "")},
          {"zero inside", file_of(std::string("{}\0 }", 5), "")},
          {"something behind", file_of("{} {}", "")},
          {"not UTF-8", file_of("{\"\xff\":" + x + "}", data)},
          {"duplicate tensor", file_of(R"({"x":)" + x + R"(,"x":)" + x + "}", data)},
          {"duplicate field", file_of(R"({"x":{"dtype":"F32","dtype":"F32","shape":[2],"data_offsets":[0,8]}})", data)},
          {"deep nesting", file_of(R"({"x":)" + std::string(2000, '[') + std::string(2000, ']') + "}", "")},
          {"hole at the start", with("\"F32\"", "[1]", "[4,8]")},
          {"trailing data", with("\"F32\"", "[1]", "[0,4]")},
          {"beyond the data", with("\"F32\"", "[4]", "[0,16]")},
          {"overlap", file_of(R"({"x":)" + x + R"(,"y":)" + x + "}", data)},
          {"hole between", file_of(R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                                   R"("y":{"dtype":"U8","shape":[6],"data_offsets":[2,8]}})",
                                   data)},
          {"reversed offsets", with("\"F32\"", "[2]", "[8,0]")},
          {"three offsets", with("\"F32\"", "[2]", "[0,8,8]")},
          {"bytes do not fit", with("\"F64\"", "[2]", "[0,8]")},
          {"negative size", with("\"F32\"", "[-2]", "[0,8]")},
          {"fractional size", with("\"F32\"", "[2.0]", "[0,8]")},
          {"size as text", with("\"F32\"", "[\"2\"]", "[0,8]")},
          {"size overflows", with("\"F32\"", "[4294967296,4294967296,4294967296]", "[0,8]")},
          {"size beyond 64 bits", with("\"F32\"", "[99999999999999999999999]", "[0,8]")},
          {"product wraps to eight bytes", with("\"F64\"", "[9223372036854775807,9223372036854775807]", "[0,8]")},
          {"shape missing", file_of(R"({"x":{"dtype":"F32","data_offsets":[0,8]}})", data)},
          {"dtype a number", with("32", "[2]", "[0,8]")},
          {"entry a list", file_of(R"({"x":[1]})", "")},
          {"metadata a list", file_of(R"({"__metadata__":[]})", "")},
          {"metadata not text", file_of(R"({"__metadata__":{"step":3}})", "")}};
}

TEST(Safetensors, EveryMalformedFileIsAFormatError) {
  const TemporaryFolder folder;
  for (const auto& [what, bytes] : corruptions()) {
    write_bytes(folder / "bad", bytes);
    EXPECT_THROW(io::load_file(folder / "bad"), FormatError) << what;
  }
}

TEST(Safetensors, OtherRefusals) {
  const TemporaryFolder folder;
  const auto refuse = [&]<class E>(const std::string& bytes, E*) {
    write_bytes(folder / "f", bytes);
    EXPECT_THROW(io::load_file(folder / "f"), E);
  };
  refuse(file_of(R"({"z":{"dtype":"C128","shape":[1],"data_offsets":[0,8]}})", std::string(8, '\0')),
         static_cast<DTypeError*>(nullptr));
  refuse(file_of(R"({"z":{"dtype":"U8","shape":[1,1,1,1,1,1,1,1,1],"data_offsets":[0,1]}})", std::string(1, '\0')),
         static_cast<ShapeError*>(nullptr));
  refuse(file_of(R"({"z":{"dtype":"BOOL","shape":[1],"data_offsets":[0,1]}})", "\2"),
         static_cast<FormatError*>(nullptr));
  EXPECT_THROW(io::load_file(folder / "absent"), IoError);
  EXPECT_THROW(io::load_file(folder.path()), IoError);
}

TEST(Safetensors, UnknownFieldsAndWideHeadersAreRead) {
  const TemporaryFolder folder;
  const std::string header =
      "{ \"x\" : {\"dtype\":\"U8\", \"shape\":[1], \"more\":{\"a\":[1,2]}, \"data_offsets\":[0,1]}}   ";
  write_bytes(folder / "f", file_of(header, "\5"));
  EXPECT_EQ(io::load_file(folder / "f").at("x").to_vector<int>(), std::vector<int>{5});
}

// Seconds of the processor, the least of three: other programs do not count.
double processor_seconds(const auto& f) {
  double least = INFINITY;
  for (int i = 0; i < 3; ++i) {
    const std::clock_t start = std::clock();
    f();
    least = std::min(least, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  return least;
}

TEST(Safetensors, TimeGrowsWithTheNumberOfTensorsNotWithItsSquare) {
  const TemporaryFolder folder;
  const auto seconds = [&](int count) {
    io::TensorMap tensors;
    for (int i = 0; i < count; ++i) tensors.emplace("layer." + std::to_string(i) + ".weight", ones(1));
    const double saving = processor_seconds([&] { io::save_file(tensors, folder / "many"); });
    return std::pair(saving, processor_seconds([&] {
                       EXPECT_EQ(io::load_file(folder / "many").size(), static_cast<size_t>(count));
                     }));
  };
  const auto [few_saved, few_loaded] = seconds(4000);
  const auto [many_saved, many_loaded] = seconds(32'000);
  EXPECT_LT(many_saved, 24 * few_saved);
  EXPECT_LT(many_loaded, 24 * few_loaded);
}

TEST(Safetensors, MessagesNameTheFileAndStayShort) {
  const TemporaryFolder folder;
  const auto words = [&](const std::string& bytes) -> std::string {
    write_bytes(folder / "some file", bytes);
    try {
      io::load_file(folder / "some file");
    } catch (const Error& error) {
      return error.what();
    }
    return "no error";
  };
  for (const auto& [what, bytes] : corruptions()) {
    const std::string text = words(bytes);
    EXPECT_THAT(text, HasSubstr("some file")) << what;
    EXPECT_LT(text.size(), 800u) << what;
  }
  const std::string name(10'000, 'n'), entry = R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})";
  const std::string good = file_of("{\"" + name + "\":" + entry + "}", std::string(8, '\0'));
  EXPECT_EQ(words(good), "no error");
  const std::string text = words(good.substr(0, good.size() - 3));
  EXPECT_THAT(text, testing::AllOf(HasSubstr("the file is cut off: \"nnn"), HasSubstr("ends at byte 8 of the data"),
                                   HasSubstr("copy or save it again")));
  EXPECT_LT(text.size(), 800u);
  EXPECT_THAT(words(good.substr(0, 5000)), HasSubstr("the file is cut off"));
  EXPECT_LT(words(file_of("{\"" + name + "\":{\"" + name + "\":1}}", "")).size(), 800u);
}

TEST(Safetensors, ThePythonPackageAgrees) {
  const std::string python = python_with("numpy, safetensors.numpy");
  if (python.empty()) GTEST_SKIP() << "no Python with numpy and safetensors";
  const TemporaryFolder folder;
  io::save_file({{"x", arange(6).to(f32).view({2, 3})}, {"n", tensor({1, -2})}, {"s", tensor(true)}}, folder / "ours",
                {{"who", "weft"}});
  ASSERT_EQ(run_python(python, folder, R"(
import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file
t = load_file("ours")
assert t["x"].dtype == np.float32 and t["x"].tolist() == [[0, 1, 2], [3, 4, 5]], t
assert t["n"].tolist() == [1, -2] and t["s"].shape == () and bool(t["s"])
with safe_open("ours", "np") as f: assert f.metadata() == {"who": "weft"}
save_file({"h": np.arange(3, dtype=np.float16), "w": np.array([[1.5]], np.float64)}, "theirs", {"a": "b"})
save_file(t, "again", {"who": "weft"})
assert open("again", "rb").read() == open("ours", "rb").read(), "other bytes"
)"),
            0);
  const io::TensorMap theirs = io::load_file(folder / "theirs");
  EXPECT_EQ(theirs.at("h").dtype(), f16);
  EXPECT_EQ(theirs.at("h").to_vector<int>(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(theirs.at("w").shape(), Dims({1, 1}));
  EXPECT_EQ(theirs.at("w").item<double>(), 1.5);
  EXPECT_EQ(io::SafeFile::open(folder / "theirs").metadata(), (io::Metadata{{"a", "b"}}));
}

}  // namespace
}  // namespace weft
