// Parts of safetensors files, tensors that are one, and writing to streams.
#include <csignal>
#include <cstring>
#include <sstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <weft/io/safetensors.hpp>
#include <weft/ops/complex.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/subscript.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string file_of(const std::string& header, const std::string& data) {
  const uint64_t n = header.size();
  std::string out(8, '\0');
  std::memcpy(out.data(), &n, 8);
  return out + header + data;
}

// ---- slices ---------------------------------------------------------------------------------------------------------

TEST(SafetensorsSlice, EveryBoxEqualsTheNarrowedTensor) {
  const TemporaryFolder folder;
  const Tensor x = arange(24).view({2, 3, 4});
  io::save_file({{"x", x}}, folder / "f");
  const io::SafeFile file = io::SafeFile::open(folder / "f");
  int boxes = 0;
  for (int64_t code = 0; code < 3 * 3 * 4 * 4 * 5 * 5; ++code) {
    int64_t rest = code;
    const auto next = [&](int64_t below) { return std::exchange(rest, rest / below) % below; };
    const Dims starts = {next(3), next(4), next(5)}, ends = {next(3), next(4), next(5)};
    if (starts[0] > ends[0] || starts[1] > ends[1] || starts[2] > ends[2]) continue;
    Tensor part = x;
    for (int d = 0; d < 3; ++d) part = part.narrow(d, starts[d], ends[d] - starts[d]);
    const Tensor got = file.get_slice("x", starts, ends);
    ASSERT_EQ(got.shape(), part.shape());
    ASSERT_TRUE(got.is_contiguous());
    ASSERT_EQ(got.to_vector<int>(), part.contiguous().to_vector<int>()) << starts.text() << ends.text();
    ++boxes;
  }
  EXPECT_EQ(boxes, 6 * 10 * 15);
}

TEST(SafetensorsSlice, NumbersAndUnalignedTensors) {
  const TemporaryFolder folder;
  io::save_file({{"n", tensor(7)}}, folder / "f");
  EXPECT_EQ(io::SafeFile::open(folder / "f").get_slice("n", {}, {}).item<int>(), 7);
  const std::string header = R"({"b":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                             R"("x":{"dtype":"F32","shape":[2,2],"data_offsets":[1,17]}})";
  const float values[] = {1, 2, 3, 4};
  std::string data(17, '\7');
  std::memcpy(data.data() + 1, values, 16);
  write_bytes(folder / "odd", file_of(header, data));
  const io::SafeFile file = io::SafeFile::open(folder / "odd");
  EXPECT_EQ(file.get_slice("x", {1, 0}, {2, 2}).to_vector<float>(), (std::vector<float>{3, 4}));
  EXPECT_EQ(file.get_slice("x", {0, 1}, {2, 2}).to_vector<float>(), (std::vector<float>{2, 4}));
}

TEST(SafetensorsSlice, OfAHugeTensorReadsItsPartAlone) {
  const TemporaryFolder folder;
  constexpr uint64_t rows = uint64_t{1} << 24, columns = 4096, bytes = rows * columns;
  const std::string header = R"({"x":{"dtype":"BOOL","shape":[16777216,4096],"data_offsets":[0,68719476736]}})";
  write_bytes(folder / "huge", file_of(header, ""));
  std::filesystem::resize_file(folder / "huge", 8 + header.size() + bytes);
  const io::SafeFile file = io::SafeFile::open(folder / "huge");
  const Tensor columns_of_rows = file.get_slice("x", {9'000'000, 7}, {9'000'003, 9});
  EXPECT_EQ(columns_of_rows.to_vector<int>(), std::vector<int>(6, 0));
  EXPECT_EQ(file.get_slice("x", {9'000'000, 0}, {9'000'002, 4096}).numel(), 8192);
}

TEST(SafetensorsSlice, BoundsAreChecked) {
  const TemporaryFolder folder;
  io::save_file({{"x", ones({2, 3})}}, folder / "f");
  const io::SafeFile file = io::SafeFile::open(folder / "f");
  EXPECT_THROW(file.get_slice("x", {0}, {1}), ShapeError);
  EXPECT_THROW(file.get_slice("x", {0, 0}, {1}), ShapeError);
  EXPECT_THROW(file.get_slice("x", {-1, 0}, {1, 1}), IndexError);
  EXPECT_THROW(file.get_slice("x", {1, 0}, {0, 1}), IndexError);
  EXPECT_THROW(file.get_slice("y", {0, 0}, {1, 1}), KeyError);
  EXPECT_THAT(message_of<IndexError>([&] {
                file.get_slice("x", {0, 0}, {1, 4});
              }),
              HasSubstr("[0, 4) is no part of dimension 1 of \"x\", whose shape is [2, 3]"));
}

TEST(SafetensorsSlice, OnlyTheBoolsThatAreReadAreChecked) {
  const TemporaryFolder folder;
  write_bytes(folder / "f",
              file_of(R"({"x":{"dtype":"BOOL","shape":[2,2],"data_offsets":[0,4]}})", std::string("\0\1\2\1", 4)));
  const io::SafeFile file = io::SafeFile::open(folder / "f");
  EXPECT_EQ(file.get_slice("x", {0, 1}, {2, 2}).to_vector<int>(), (std::vector<int>{1, 1}));
  EXPECT_THAT(message_of<FormatError>([&] {
                file.get_slice("x", {1, 0}, {2, 1});
              }),
              HasSubstr("at byte 2 of the data"));
}

TEST(SafetensorsSlice, LivesLongerThanTheFileObject) {
  const TemporaryFolder folder;
  io::save_file({{"x", arange(6)}}, folder / "f");
  const Tensor part = io::SafeFile::open(folder / "f").get_slice("x", {2}, {4});
  std::filesystem::remove(folder / "f");
  EXPECT_EQ(part.to_vector<int>(), (std::vector<int>{2, 3}));
}

// ---- aliases --------------------------------------------------------------------------------------------------------

TEST(SafetensorsAlias, OneTensorUnderTwoNamesIsWrittenOnceAndLoadedAsOne) {
  const TemporaryFolder folder;
  const Tensor w = arange(6).view({2, 3});
  const io::TensorMap tied = {{"head", w}, {"embedding", w}, {"other", ones(2)}};
  EXPECT_THAT(message_of<ValueError>([&] { io::save_file(tied, folder / "f"); }),
              AllOf(HasSubstr("\"embedding\""), HasSubstr("\"head\"")));
  EXPECT_FALSE(std::filesystem::exists(folder / "f"));

  io::save_file(tied, folder / "f", {{"a", "b"}}, {.tie = io::Tie::alias});
  const std::string bytes = read_bytes(folder / "f");
  EXPECT_THAT(bytes, HasSubstr(R"("weft.alias.head":"embedding")"));
  const io::SafeFile file = io::SafeFile::open(folder / "f");
  EXPECT_EQ(file.data_bytes(), 6 * 8 + 2 * 4u);
  EXPECT_THAT(file.keys(), ElementsAre("embedding", "head", "other"));
  EXPECT_EQ(file.metadata(), (io::Metadata{{"a", "b"}}));
  EXPECT_EQ(file.get("head").to_vector<int>(), w.to_vector<int>());
  EXPECT_EQ(file.get_slice("head", {1, 0}, {2, 3}).to_vector<int>(), (std::vector<int>{3, 4, 5}));

  io::TensorMap loaded = io::load_file(folder / "f");
  EXPECT_EQ(loaded.at("head").impl(), loaded.at("embedding").impl());
  io::save_file(loaded, folder / "again", file.metadata(), {.tie = io::Tie::alias});
  EXPECT_EQ(read_bytes(folder / "again"), bytes);
  loaded = io::load_file(folder / "f", {}, {{"head"}});
  EXPECT_EQ(loaded.size(), 1u);
  EXPECT_EQ(loaded.at("head").to_vector<int>(), w.to_vector<int>());
}

TEST(SafetensorsAlias, TensorsThatOverlapInAnotherLayoutAreRefusedAllTheSame) {
  const TemporaryFolder folder;
  const Tensor w = ones({3, 3});
  const auto refused = [&](const Tensor& other) {
    const std::string words = message_of<ValueError>([&] {
      io::save_file({{"a", w}, {"b", other}}, folder / "f", {}, {.tie = io::Tie::alias});
    });
    EXPECT_THAT(words, HasSubstr("\"a\" and \"b\" share memory"));
  };
  refused(w.t());
  refused(w.view(9));
  refused(w.narrow(0, 1, 2));
  EXPECT_THROW(io::save_file({{"a", w}}, folder / "f", {{"weft.alias.b", "a"}}), ValueError);
  io::save_file({{"a", w.narrow(0, 0, 0)}, {"b", w.narrow(0, 0, 0)}}, folder / "f", {}, {.tie = io::Tie::alias});
  EXPECT_EQ(io::load_file(folder / "f").size(), 2u);
}

TEST(SafetensorsSave, ViewsBetweenEachOthersElementsAreTwoTensors) {
  const TemporaryFolder folder;
  const Tensor w = arange(24).reshape({4, 6});
  const io::TensorMap views = {{"even", w[{Slice(), Slice(0, none, 2)}]},
                               {"first", w[{Slice(), Slice(1, 2)}]},
                               {"odd", w[{Slice(none, none, -1), Slice(3, none, 2)}]},
                               {"spread", w.narrow(0, 0, 0).expand({0, 6})}};
  io::save_file(views, folder / "f");
  const io::TensorMap loaded = io::load_file(folder / "f");
  for (const auto& [name, view] : views) EXPECT_TRUE(equal(loaded.at(name), view)) << name;
  // Of other dtypes: the halves of complex numbers.
  const Tensor z = complex(ones({3}), zeros({3}));
  io::save_file({{"imag", imag(z)}, {"real", real(z)}}, folder / "z");
  EXPECT_EQ(io::load_file(folder / "z").at("real").to_vector<float>(), (std::vector<float>{1, 1, 1}));

  const auto refused = [&](const Tensor& a, const Tensor& b) {
    EXPECT_THAT(message_of<ValueError>([&] {
                  io::save_file({{"a", a}, {"b", b}, {"c", ones(2)}}, folder / "f");
                }),
                testing::AnyOf(HasSubstr("\"a\" and \"b\" share memory"), HasSubstr("\"b\" and \"a\" share memory")));
  };
  refused(w[{Slice(), Slice(0, none, 2)}], w[{Slice(), Slice(0, none, 3)}]);
  refused(w[{Slice(), Slice(0, 3)}], w[{Slice(), Slice(2, 4)}]);
  refused(w.select(0, 1), w.select(1, 1));
  refused(w.select(1, 0), w);
  refused(w.view_bytes(i32).select(1, 1), w.select(1, 0));
}

TEST(SafetensorsAlias, RecordsThatDoNotFitAreFormatErrors) {
  const TemporaryFolder folder;
  const std::string x = R"("x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})";
  write_bytes(folder / "f", file_of(R"({"__metadata__":{"weft.alias.y":"z"},)" + x, "\1"));
  EXPECT_THAT(message_of<FormatError>([&] { io::load_file(folder / "f"); }),
              HasSubstr("__metadata__.weft.alias.y: \"z\" is no tensor of the file"));
  write_bytes(folder / "f", file_of(R"({"__metadata__":{"weft.alias.x":"x"},)" + x, "\1"));
  EXPECT_THAT(message_of<FormatError>([&] { io::load_file(folder / "f"); }), HasSubstr("is a tensor of its own"));
}

// ---- malformed files ------------------------------------------------------------------------------------------------

TEST(Safetensors, MalformedFilesAreNamedByByteOrPath) {
  const TemporaryFolder folder;
  const auto words = [&](const std::string& bytes) {
    write_bytes(folder / "f", bytes);
    return message_of<FormatError>([&] { io::load_file(folder / "f"); });
  };
  const std::string x = R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", data(4, '\0');
  EXPECT_THAT(words("1234567"), HasSubstr("ends at byte 7"));
  EXPECT_THAT(words(file_of("!", "")), HasSubstr("a header of 1 bytes, says byte 0"));
  EXPECT_THAT(words(file_of("[]", "")), HasSubstr("at byte 8"));
  EXPECT_THAT(words(file_of("{}x", "")), HasSubstr("byte 10 is neither"));
  EXPECT_THAT(words(file_of(std::string("{}\0 }", 5), "")), HasSubstr("byte 10 is neither"));
  EXPECT_THAT(words(file_of("{x}", "")), HasSubstr("no JSON at byte 9"));
  EXPECT_THAT(words(file_of("{\"x\":" + x + ",\"x\":" + x + "}", data)), HasSubstr("\"x\" occurs twice"));
  EXPECT_THAT(words(file_of(R"({"x":{"dtype":"F32","dtype":"F32"}})", "")), HasSubstr("x.dtype occurs twice"));
  EXPECT_THAT(words(file_of(R"({"__metadata__":{"a":"b","a":"c"}})", "")), HasSubstr("__metadata__.a occurs twice"));
  EXPECT_THAT(words(file_of(R"({"__metadata__":{"a":1}})", "")),
              HasSubstr("__metadata__.a: expected a string, got a number"));
  EXPECT_THAT(words(file_of(R"({"x":{"dtype":"F32","shape":[2],"data_offsets":[0,4]}})", data)),
              HasSubstr("x.data_offsets, [0, 4], do not fit"));
  EXPECT_THAT(words(file_of(R"({"x":{"more":[[[[[[[[1]]]]]]]]}})", "")), HasSubstr("x.more is nested too deeply"));
  EXPECT_THAT(words(file_of("{\"x\":" + x + "}", data + "!")),
              HasSubstr("the data has 5 bytes, the header tells of 4"));
}

// ---- streams --------------------------------------------------------------------------------------------------------

// Takes so many bytes and no more, and cannot be sought.
class ShortBuffer : public std::streambuf {
 public:
  explicit ShortBuffer(size_t most) : most_(most) {}
  std::string bytes;
  size_t longest = 0;

 private:
  std::streamsize xsputn(const char* data, std::streamsize count) override {
    const size_t taken = std::min(static_cast<size_t>(count), most_ - bytes.size());
    longest = std::max(longest, static_cast<size_t>(count));
    bytes.append(data, taken);
    return static_cast<std::streamsize>(taken);
  }
  int_type overflow(int_type) override { return traits_type::eof(); }

  size_t most_;
};

io::TensorMap mixed_tensors() {
  const Tensor x = arange(60).view({3, 4, 5});
  return {{"view", x.permute({2, 0, 1})},
          {"reversed", x.clone().slice(2, {}, {}, -1)},
          {"bytes", ones(7, u8)},
          {"none", empty({0, 2})},
          {"number", tensor(1.5)}};
}

TEST(SaveStream, EqualsTheFileForAnyBuffer) {
  const TemporaryFolder folder;
  Tensor large = arange(64 * 1024).view({8, 64, 128}).to(f32);
  io::TensorMap tensors = mixed_tensors();
  tensors["large"] = large.permute({2, 0, 1});
  io::save_file(tensors, folder / "f", {{"a", "b"}});
  for (const size_t buffer : {size_t{0}, size_t{5000}, size_t{1} << 14, size_t{1} << 24}) {
    std::ostringstream out;
    io::save_stream(out, tensors, {{"a", "b"}}, {.buffer_bytes = buffer});
    EXPECT_TRUE(out.str() == read_bytes(folder / "f")) << buffer;
  }
  ShortBuffer pieces(size_t{1} << 30);
  std::ostream out(&pieces);
  io::save_stream(out, {{"t", large.permute({2, 0, 1})}}, {}, {.buffer_bytes = 5000});
  EXPECT_LE(pieces.longest, 5000u);
}

TEST(SaveStream, AFailureNamesTensorAndByteAndIsNeverLoadable) {
  const TemporaryFolder folder;
  std::ostringstream whole;
  io::save_stream(whole, mixed_tensors());
  const size_t size = whole.str().size(), header = 8 + static_cast<unsigned char>(whole.str()[0]) +
                                                   256 * static_cast<unsigned char>(whole.str()[1]);
  for (size_t most = 0; most < size; most += 5) {
    ShortBuffer buffer(most);
    std::ostream out(&buffer);
    const std::string words = message_of<IoError>([&] { io::save_stream(out, mixed_tensors()); });
    ASSERT_THAT(words, HasSubstr("the stream failed at byte " + std::to_string(most) + ", in ")) << most;
    ASSERT_THAT(words, HasSubstr(most < header ? "in the header" : "in tensor \"")) << most;
    ASSERT_FALSE(out.good());
    write_bytes(folder / "short", buffer.bytes);
    ASSERT_THROW(io::load_file(folder / "short"), FormatError) << most;
  }
  ShortBuffer buffer(size - 1);
  std::ostream out(&buffer);
  EXPECT_THAT(message_of<IoError>([&] { io::save_stream(out, mixed_tensors()); }), HasSubstr("in tensor \"bytes\""));
}

TEST(SaveStream, StreamsThatThrowOrHaveFailedBeforeAreIoErrors) {
  ShortBuffer buffer(100);
  std::ostream out(&buffer);
  out.exceptions(std::ios_base::badbit | std::ios_base::failbit);
  EXPECT_THROW(io::save_stream(out, mixed_tensors()), IoError);
  std::ostringstream failed;
  failed.setstate(std::ios_base::failbit);
  EXPECT_THROW(io::save_stream(failed, mixed_tensors()), IoError);
  EXPECT_EQ(failed.str(), "");
}

TEST(SaveFile, AFullDiskNamesTensorAndByte) {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  if (child == 0) {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit = {2'000'000, 2'000'000};
    setrlimit(RLIMIT_FSIZE, &limit);
    const std::string words = message_of<IoError>([&] {
      io::save_file({{"a", ones(300'000)}, {"b", ones(300'000)}}, folder / "f");
    });
    const bool right = words.find("at byte 2000000, in tensor \"b\"") != words.npos;
    if (!right) std::fprintf(stderr, "%s\n", words.c_str());
    ::_exit(right && !std::filesystem::exists(folder / "f") ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// ---- tensors made one at a time -------------------------------------------------------------------------------------

const std::vector<io::TensorEntry> two_entries = {{"b", u8, Dims(3)}, {"a", f32, {2, 2}}};

TEST(SaveFromSource, CallsTheSourceOncePerNameInFileOrder) {
  const TemporaryFolder folder;
  std::vector<std::string> asked;
  const auto source = [&](const std::string& name) {
    asked.push_back(name);
    return name == "a" ? full({2, 2}, 2.0) : ones(3, u8);
  };
  io::save_file(two_entries, source, folder / "f", {{"k", "v"}});
  EXPECT_THAT(asked, ElementsAre("a", "b"));
  std::ostringstream out;
  io::save_stream(out, two_entries, source, {{"k", "v"}});
  EXPECT_EQ(out.str(), read_bytes(folder / "f"));
  io::save_file({{"a", full({2, 2}, 2.0)}, {"b", ones(3, u8)}}, folder / "g", {{"k", "v"}});
  EXPECT_EQ(read_bytes(folder / "g"), read_bytes(folder / "f"));
}

TEST(SaveFromSource, AMismatchedTensorRaisesAndTheOldFileStays) {
  const TemporaryFolder folder;
  write_bytes(folder / "f", "old");
  const auto save = [&](const Tensor& b) {
    io::save_file(
        two_entries,
        [&](const std::string& name) {
          return name == "a" ? ones({2, 2}) : b;
        },
        folder / "f");
  };
  EXPECT_THAT(message_of<DTypeError>([&] { save(ones(3)); }), HasSubstr("\"b\" is float32, uint8 was announced"));
  EXPECT_THAT(message_of<ShapeError>([&] { save(ones(4, u8)); }),
              HasSubstr("\"b\" has the shape [4], [3] was announced"));
  EXPECT_THROW(save(Tensor()), ValueError);
  EXPECT_THROW(save(empty(3, {.dtype = u8, .device = Device("meta")})), ValueError);
  const auto none = [](const std::string&) -> Tensor { throw std::runtime_error("from the source"); };
  EXPECT_THROW(io::save_file(two_entries, none, folder / "f"), std::runtime_error);
  EXPECT_EQ(read_bytes(folder / "f"), "old");
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder.path()), {}), 1);
}

TEST(SaveFromSource, EntriesAreCheckedBeforeTheSourceIsAsked) {
  const TemporaryFolder folder;
  const auto never = [](const std::string&) -> Tensor { throw std::logic_error("asked"); };
  const auto save = [&](const std::vector<io::TensorEntry>& entries) { io::save_file(entries, never, folder / "f"); };
  EXPECT_THAT(message_of<ValueError>([&] { save({{"x", f32, 1}, {"x", u8, 2}}); }), HasSubstr("\"x\" occurs twice"));
  EXPECT_THROW(save({{"__metadata__", f32, 1}}), ValueError);
  EXPECT_THROW(save({{"x", f32, {INT64_MAX, 2}}}), ShapeError);
  EXPECT_THROW(save({{"x", u8, INT64_MAX}, {"y", u8, 1}}), ShapeError);
  EXPECT_THROW(save({{"x", f32, -1}}), ShapeError);
  EXPECT_THROW(save({{"\xff", f32, 1}}), ValueError);
}

}  // namespace
}  // namespace weft
