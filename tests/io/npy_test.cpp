#include <cstdlib>

#include <gtest/gtest.h>

#include <weft/io/npy.hpp>
#include <weft/ops/create.hpp>

#include <temporary_folder.hpp>

namespace weft {
namespace {

constexpr DType numpy_dtypes[] = {boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, f32, f64};

// A file of version `major` with this header, padded with nothing.
std::string file_of(const std::string& header, const std::string& data, char major = 1) {
  std::string out = std::string("\x93NUMPY") + major + '\0';
  const size_t n = header.size();
  for (int i = 0; i < (major == 1 ? 2 : 4); ++i) out += static_cast<char>(n >> (8 * i) & 255);
  return out + header + data;
}

std::string header_of(const std::string& descr, const std::string& order, const std::string& shape) {
  return "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }\n";
}

TEST(Npy, RoundTripOfEveryDtypeAndShape) {
  const TemporaryFolder folder;
  for (const DType dtype : numpy_dtypes) {
    for (const Dims& shape : {Dims({2, 3}), Dims(6), Dims(), Dims({2, 0, 3}), Dims({1, 1, 6, 1})}) {
      Tensor x = empty(shape, dtype);
      if (x.numel() == 6) x = tensor({0.0, 1.0, 2.0, 3.0, 4.0, 5.0}).to(dtype).view(shape);
      if (x.numel() == 1) x = tensor(1.0).to(dtype);
      io::save_npy(x, folder / "x.npy");
      EXPECT_EQ(read_bytes(folder / "x.npy").size() % 64, static_cast<size_t>(x.nbytes()) % 64);
      const Tensor y = io::load_npy(folder / "x.npy");
      EXPECT_EQ(y.dtype(), dtype);
      EXPECT_EQ(y.shape(), shape);
      EXPECT_EQ(y.to_vector<double>(), x.to_vector<double>());
    }
  }
}

TEST(Npy, ViewsAreWrittenRowMajor) {
  const TemporaryFolder folder;
  const Tensor x = arange(6).view({2, 3}).t();
  io::save_npy(x, folder / "x.npy");
  EXPECT_EQ(io::load_npy(folder / "x.npy").to_vector<int>(), (std::vector<int>{0, 3, 1, 4, 2, 5}));
}

TEST(Npy, ColumnMajorAndSwappedBytes) {
  const TemporaryFolder folder;
  write_bytes(folder / "f", file_of(header_of("|u1", "True", "(2, 3)"), "\1\4\2\5\3\6"));
  const Tensor x = io::load_npy(folder / "f");
  EXPECT_EQ(x.to_vector<int>(), (std::vector<int>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(x.strides(), Dims({1, 2}));
  write_bytes(folder / "f", file_of(header_of(">i4", "False", "(1,)"), std::string("\0\0\1\2", 4)));
  EXPECT_EQ(io::load_npy(folder / "f").item<int>(), 258);
}

TEST(Npy, Versions2And3) {
  const TemporaryFolder folder;
  for (const char version : {2, 3}) {
    write_bytes(folder / "f", file_of(header_of("|i1", "False", "(1,)"), "\7", version));
    EXPECT_EQ(io::load_npy(folder / "f").item<int>(), 7);
  }
}

TEST(Npy, MalformedFilesAreFormatErrors) {
  const TemporaryFolder folder;
  const std::string good = file_of(header_of("|u1", "False", "(2,)"), "ab");
  const std::pair<const char*, std::string> bad[] = {
      {"empty", ""},
      {"no magic", "NUMPY" + good},
      {"version 9", file_of(header_of("|u1", "False", "(2,)"), "ab", 9)},
      {"header cut off", good.substr(0, 30)},
      {"elements cut off", good.substr(0, good.size() - 1)},
      {"no dictionary", file_of("[]\n", "")},
      {"missing key", file_of("{'descr': '|u1', 'shape': (2,), }\n", "ab")},
      {"key twice", file_of("{'descr': '|u1', 'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n", "ab")},
      {"unknown key", file_of("{'descr': '|u1', 'fortran_order': False, 'shape': (2,), 'x': 1}\n", "ab")},
      {"negative size", file_of(header_of("|u1", "False", "(-2,)"), "ab")},
      {"size not a number", file_of(header_of("|u1", "False", "(a,)"), "ab")},
      {"shape not closed", file_of("{'descr': '|u1', 'fortran_order': False, 'shape': (2,", "ab")},
      {"order not a bool", file_of(header_of("|u1", "Maybe", "(2,)"), "ab")},
      {"quote not closed", file_of("{'descr", "ab")},
      {"product overflows", file_of(header_of("<f8", "False", "(4611686018427387904, 4)"), "ab")},
      {"something behind", file_of("{'descr': '|u1', 'fortran_order': False, 'shape': (2,)} x\n", "ab")},
  };
  for (const auto& [what, bytes] : bad) {
    write_bytes(folder / "bad.npy", bytes);
    EXPECT_THROW(io::load_npy(folder / "bad.npy"), FormatError) << what;
  }
}

TEST(Npy, OtherRefusals) {
  const TemporaryFolder folder;
  const auto load = [&](const std::string& descr, const std::string& shape) {
    write_bytes(folder / "f", file_of(header_of(descr, "False", shape), std::string(64, '\0')));
    return io::load_npy(folder / "f");
  };
  for (const char* descr : {"<c32", "|O", "<U4", "|S3", "<M8[s]", "", "f4"})
    EXPECT_THROW(load(descr, "(1,)"), DTypeError) << descr;
  EXPECT_THROW(load("|u1", "(1, 1, 1, 1, 1, 1, 1, 1, 1)"), ShapeError);
  write_bytes(folder / "f", file_of("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,), }\n", "abcd"));
  EXPECT_THROW(io::load_npy(folder / "f"), DTypeError);
  EXPECT_THROW(io::load_npy(folder / "absent"), IoError);
  EXPECT_THROW(io::save_npy(ones(2, bf16), folder / "g"), DTypeError);
  EXPECT_THROW(io::save_npy(ones(2).to(f8_e4m3fn), folder / "g"), DTypeError);
  EXPECT_FALSE(std::filesystem::exists(folder / "g"));
}

TEST(Npy, NumpyAgrees) {
  const std::string python = python_with("numpy");
  if (python.empty()) GTEST_SKIP() << "no Python with numpy";
  const TemporaryFolder folder;
  for (const DType dtype : numpy_dtypes) {
    io::save_npy(tensor({0.0, 1.0, 0.0, 1.0, 1.0, 1.0}).to(dtype).view({2, 3}),
                 folder / (std::string(name(dtype)) + ".npy"));
  }
  io::save_npy(tensor(2.5), folder / "scalar.npy");
  ASSERT_EQ(run_python(python, folder, R"(
import numpy as np, io, glob
for path in glob.glob("*.npy"):
    x = np.load(path)
    if path == "scalar.npy": assert x.shape == () and x == 2.5
    else: assert x.dtype.name == path[:-4] and x.tolist() == [[0, 1, 0], [1, 1, 1]], path
    again = io.BytesIO()
    np.save(again, x)
    assert again.getvalue() == open(path, "rb").read(), path + ": other bytes"
np.save("fortran", np.asfortranarray(np.arange(12, dtype=np.int16).reshape(3, 4)))
np.save("big", np.array([1.5, -2], ">f8"))
np.lib.format.write_array(open("v2.npy", "wb"), np.arange(3), version=(2, 0))
np.lib.format.write_array(open("v3.npy", "wb"), np.zeros((0, 2), bool), version=(3, 0))
)"),
            0);
  EXPECT_EQ(io::load_npy(folder / "fortran.npy").to_vector<int>(), arange(12).to_vector<int>());
  EXPECT_EQ(io::load_npy(folder / "fortran.npy").strides(), Dims({1, 3}));
  EXPECT_EQ(io::load_npy(folder / "big.npy").to_vector<double>(), (std::vector<double>{1.5, -2}));
  EXPECT_EQ(io::load_npy(folder / "v2.npy").to_vector<int>(), (std::vector<int>{0, 1, 2}));
  EXPECT_EQ(io::load_npy(folder / "v3.npy").shape(), Dims({0, 2}));
}

}  // namespace
}  // namespace weft
