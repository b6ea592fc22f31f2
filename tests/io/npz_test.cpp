#include <csignal>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <weft/io/npz.hpp>
#include <weft/ops/create.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

#include "archive_bytes.hpp"

namespace weft {
namespace {

using testing::HasSubstr;

#if WEFT_HAS_ZIP

constexpr DType numpy_dtypes[] = {boolean, u8, i8, u16, i16, u32, i32, u64, i64, f16, f32, f64};

io::TensorMap some_tensors() {
  io::TensorMap out;
  for (const DType dtype : numpy_dtypes) {
    out[name(dtype)] = tensor({0.0, 1.0, 0.0, 1.0, 1.0, 1.0}).to(dtype).view({2, 3});
  }
  out["scalar"] = tensor(2.5);
  out["hole"] = empty({3, 0, 2});
  out["folder/wörld"] = arange(6).view({2, 3}).t();
  out["long"] = arange(200'000).to(f32);
  return out;
}

// The header and data of an array of two bytes.
std::string two_bytes(const std::string& shape = "(2,)") {
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': " + shape + ", }\n";
  return "\x93NUMPY" + std::string("\1\0", 2) + little(static_cast<uint16_t>(header.size())) + header + "ab";
}

TEST(Npz, RoundTripStoredAndDeflated) {
  const TemporaryFolder folder;
  const io::TensorMap tensors = some_tensors();
  for (const bool compressed : {false, true}) {
    io::save_npz(tensors, folder / "f.npz", compressed);
    const io::TensorMap loaded = io::load_npz(folder / "f.npz");
    ASSERT_EQ(loaded.size(), tensors.size());
    for (const auto& [name, saved] : tensors) {
      EXPECT_EQ(loaded.at(name).dtype(), saved.dtype()) << name;
      EXPECT_EQ(loaded.at(name).shape(), saved.shape()) << name;
      EXPECT_EQ(loaded.at(name).to_vector<double>(), saved.to_vector<double>()) << name;
    }
  }
}

TEST(Npz, EqualTensorsGiveEqualBytesAndDeflatedOnesAreSmaller) {
  const TemporaryFolder folder;
  for (const bool compressed : {false, true}) {
    const std::string kind = compressed ? "deflated" : "stored";
    io::save_npz(some_tensors(), folder / kind, compressed);
    io::save_npz(some_tensors(), folder / "again", compressed);
    EXPECT_EQ(read_bytes(folder / kind), read_bytes(folder / "again"));
  }
  EXPECT_LT(read_bytes(folder / "deflated").size() * 2, read_bytes(folder / "stored").size());
}

TEST(Npz, NoTensorsAreAnArchiveWithoutEntries) {
  const TemporaryFolder folder;
  io::save_npz({{"a", ones(2)}}, folder / "f.npz");
  io::save_npz({}, folder / "f.npz");
  EXPECT_EQ(read_bytes(folder / "f.npz"), zip_of({}));
  EXPECT_TRUE(io::load_npz(folder / "f.npz").empty());
}

TEST(Npz, AFailedSaveKeepsTheOldFile) {
  const TemporaryFolder folder;
  io::save_npz({{"old", ones(2)}}, folder / "f.npz");
  const std::string before = read_bytes(folder / "f.npz");
  const auto refused = [&]<class E>(const io::TensorMap& tensors) {
    EXPECT_THROW(io::save_npz(tensors, folder / "f.npz"), E);
  };
  refused.operator()<DTypeError>({{"a", ones(2)}, {"b", ones(2, bf16)}});
  refused.operator()<DTypeError>({{"b", ones(2).to(f8_e5m2)}});
  refused.operator()<ValueError>({{"b", Tensor()}});
  refused.operator()<ValueError>({{"b", ones({2}, {.device = "meta"})}});
  refused.operator()<ValueError>({{"\xff", ones(2)}});
  refused.operator()<ValueError>({{std::string("a\0b", 3), ones(2)}});
  refused.operator()<ValueError>({{std::string(70'000, 'a'), ones(2)}});
  EXPECT_EQ(read_bytes(folder / "f.npz"), before);
  EXPECT_THROW(io::save_npz({{"a", ones(2)}}, folder / "nowhere/f.npz"), IoError);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Npz, AFullDiskLeavesTheOldFile) {
  const TemporaryFolder folder;
  io::save_npz({{"old", ones(2)}}, folder / "f.npz");
  const std::string before = read_bytes(folder / "f.npz");
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
  const auto ignored = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit little_room{100'000, old.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &little_room), 0);
  const std::string words = message_of<IoError>([&] { io::save_npz(some_tensors(), folder / "f.npz"); });
  setrlimit(RLIMIT_FSIZE, &old);
  std::signal(SIGXFSZ, ignored);
  EXPECT_THAT(words, HasSubstr("[save_npz] cannot write " + (folder / "f.npz").string()));
  EXPECT_EQ(read_bytes(folder / "f.npz"), before);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(Npz, ErrorsNameTheEntry) {
  const TemporaryFolder folder;
  const auto write = [&](const std::vector<RawEntry>& entries) { write_bytes(folder / "f.npz", zip_of(entries)); };
  const auto refusal = [&] { return message_of<FormatError>([&] { io::load_npz(folder / "f.npz"); }); };
  write({{"a.npy", two_bytes()}});
  EXPECT_EQ(io::load_npz(folder / "f.npz").at("a").to_vector<int>(), (std::vector<int>{'a', 'b'}));
  write({{"a.npy", two_bytes()}, {"notes.txt", "hello, world"}});
  EXPECT_THAT(refusal(), HasSubstr("it does not begin as one\n  \"notes.txt\" in "));
  write({{"a.npy", two_bytes()}, {"a", two_bytes()}});
  EXPECT_THAT(refusal(), HasSubstr("two arrays \"a\""));
  write({{"a.npy", two_bytes("(3,)")}});
  EXPECT_THAT(refusal(), HasSubstr("the elements are cut off\n  \"a.npy\" in "));
  write({{.name = "a.npy", .bytes = two_bytes(), .crc = 1}});
  EXPECT_THAT(refusal(), HasSubstr("\"a.npy\" is damaged: CRC error"));
  write({{.name = "a.npy", .bytes = two_bytes() + std::string(9000, 'x')}});
  EXPECT_EQ(io::load_npz(folder / "f.npz").size(), 1u);
  write({{.name = "a.npy", .bytes = two_bytes() + std::string(9000, 'x'), .crc = 1}});
  EXPECT_THAT(refusal(), HasSubstr("\"a.npy\" is damaged: CRC error"));
  EXPECT_THROW(io::load_npz(folder / "absent"), IoError);
}

TEST(Npz, EveryTruncationIsRefused) {
  const TemporaryFolder folder;
  io::save_npz({{"a", ones(2)}, {"b", arange(3)}}, folder / "f.npz", true);
  const std::string good = read_bytes(folder / "f.npz");
  for (size_t size = 0; size < good.size(); ++size) {
    write_bytes(folder / "cut.npz", good.substr(0, size));
    EXPECT_THROW(io::load_npz(folder / "cut.npz"), FormatError) << size;
  }
}

TEST(Npz, NumpyAgreesBothWays) {
  const std::string python = python_with("numpy");
  if (python.empty()) GTEST_SKIP() << "no Python with numpy";
  const TemporaryFolder folder;
  io::save_npz(some_tensors(), folder / "stored.npz");
  io::save_npz(some_tensors(), folder / "deflated.npz", true);
  io::save_npz({}, folder / "none.npz");
  ASSERT_EQ(run_python(python, folder, R"(
import numpy as np, zipfile
for path, method in ("stored.npz", zipfile.ZIP_STORED), ("deflated.npz", zipfile.ZIP_DEFLATED):
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None and {i.compress_type for i in archive.infolist()} == {method}, path
    with np.load(path) as f:
        assert len(f.files) == 16
        for name in f.files:
            x = f[name]
            if name == "scalar": assert x.shape == () and x == 2.5
            elif name == "hole": assert x.shape == (3, 0, 2)
            elif name == "long": assert np.array_equal(x, np.arange(200000, dtype=np.float32))
            elif name == "folder/wörld": assert x.tolist() == [[0, 3], [1, 4], [2, 5]]
            else: assert x.dtype.name == name and x.tolist() == [[0, 1, 0], [1, 1, 1]], name
assert np.load("none.npz").files == []
arrays = dict(fortran=np.asfortranarray(np.arange(12, dtype=np.int16).reshape(3, 4)), big=np.array([1.5, -2], ">f8"),
              scalar=np.float32(3), empty=np.zeros((0, 2), bool))
arrays["wörld/x"] = np.arange(100000)
np.savez("from_numpy.npz", **arrays)
np.savez_compressed("from_numpy_deflated.npz", **arrays)
np.savez("positional.npz", np.arange(2), np.arange(3))
)"),
            0);
  for (const char* file : {"from_numpy.npz", "from_numpy_deflated.npz"}) {
    const io::TensorMap loaded = io::load_npz(folder / file);
    EXPECT_EQ(loaded.size(), 5u);
    EXPECT_EQ(loaded.at("fortran").to_vector<int>(), arange(12).to_vector<int>());
    EXPECT_EQ(loaded.at("fortran").strides(), Dims({1, 3}));
    EXPECT_EQ(loaded.at("big").to_vector<double>(), (std::vector<double>{1.5, -2}));
    EXPECT_EQ(loaded.at("scalar").item<float>(), 3);
    EXPECT_EQ(loaded.at("empty").shape(), Dims({0, 2}));
    EXPECT_EQ(loaded.at("wörld/x").to_vector<int>(), arange(100'000).to_vector<int>());
  }
  EXPECT_EQ(io::load_npz(folder / "positional.npz").at("arr_1").to_vector<int>(), (std::vector<int>{0, 1, 2}));
}

#else

TEST(Npz, WithoutLibzipTheErrorNamesIt) {
  const TemporaryFolder folder;
  const std::string words = message_of<IoError>([&] { io::save_npz({{"a", ones(2)}}, folder / "f.npz"); });
  EXPECT_THAT(words, HasSubstr("libzip-dev"));
  EXPECT_THAT(message_of<IoError>([&] { io::load_npz(folder / "f.npz"); }), HasSubstr("-DWEFT_WITH_ZIP=ON"));
  EXPECT_FALSE(std::filesystem::exists(folder / "f.npz"));
}

#endif

}  // namespace
}  // namespace weft
