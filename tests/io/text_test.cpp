#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/io/text.hpp>
#include <weft/ops/create.hpp>

#include <temporary_folder.hpp>

namespace weft {
namespace {

TEST(ReadText, FilesAndFolders) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "sub");
  write_bytes(folder / "b.cpp", "second ");
  write_bytes(folder / "a.cpp", "first ");
  write_bytes(folder / "sub" / "c.hpp", "third");
  write_bytes(folder / "a.txt", "no");
  EXPECT_EQ(io::read_text(folder.path(), {".cpp", ".hpp"}), "first second third");
  EXPECT_EQ(io::read_text(folder / "a.txt"), "no");
  EXPECT_THROW(io::read_text(folder.path(), {".rs"}), ValueError);
  EXPECT_THROW(io::read_text(folder / "none"), IoError);
}

TEST(Vocabulary, CharactersInOrder) {
  const io::Vocabulary v("banana → ñ");
  EXPECT_EQ(v.text(), " abnñ→");
  EXPECT_EQ(v.size(), 6);
  const Tensor t = v.encode("nab→");
  EXPECT_EQ(t.dtype(), i64);
  EXPECT_EQ(t.to_vector<int>(), (std::vector<int>{3, 1, 2, 5}));
  EXPECT_EQ(v.decode(t), "nab→");
  EXPECT_EQ(io::Vocabulary(v.text()).encode("nab→").to_vector<int>(), t.to_vector<int>());
}

TEST(Vocabulary, AnyBytesComeBack) {
  std::string bytes;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 256; ++i) bytes += static_cast<char>(i * (2 * round + 1));
  }
  bytes += "\xe2\x86";
  const io::Vocabulary v(bytes);
  EXPECT_EQ(v.decode(v.encode(bytes)), bytes);
  EXPECT_EQ(io::Vocabulary::from_hex(v.hex()).encode(bytes).to_vector<int>(), v.encode(bytes).to_vector<int>());
  EXPECT_EQ(io::Vocabulary("ba").hex(), "6162");
  for (const char* wrong : {"616", "6g", "61 62", "ä"}) EXPECT_THROW(io::Vocabulary::from_hex(wrong), FormatError);
}

TEST(Vocabulary, CopiesStandAlone) {
  auto original = std::make_unique<io::Vocabulary>("hello");
  const io::Vocabulary copy = *original;
  original.reset();
  EXPECT_EQ(copy.decode(copy.encode("hole")), "hole");
}

TEST(Vocabulary, StrangersAreRefused) {
  const io::Vocabulary v("abc");
  EXPECT_THROW(v.encode("abcd"), ValueError);
  EXPECT_THROW(v.decode(tensor({3})), IndexError);
  EXPECT_THROW(v.decode(tensor({-1})), IndexError);
  EXPECT_EQ(v.encode("").numel(), 0);
  EXPECT_EQ(io::Vocabulary("").size(), 0);
}

TEST(TextLoader, TargetsAreOneFurther) {
  const io::TextLoader loader(arange(50), 4, 8, 3);
  const io::TextBatch batch = loader.batch(7);
  EXPECT_EQ(batch.inputs.shape(), Dims({4, 8}));
  const auto in = batch.inputs.to_vector<int>(), out = batch.targets.to_vector<int>();
  for (size_t i = 0; i < in.size(); ++i) {
    EXPECT_EQ(out[i], in[i] + 1);
    if (i % 8 != 0) {
      EXPECT_EQ(in[i], in[i - 1] + 1);
    }
  }
}

TEST(TextLoader, BatchesDependOnSeedAndNumberAlone) {
  const io::TextLoader a(arange(1000), 4, 8, 3), b(arange(1000), 4, 8, 3), c(arange(1000), 4, 8, 4);
  a.batch(0);
  EXPECT_EQ(a.batch(5).inputs.to_vector<int>(), b.batch(5).inputs.to_vector<int>());
  EXPECT_NE(a.batch(5).inputs.to_vector<int>(), a.batch(6).inputs.to_vector<int>());
  EXPECT_NE(a.batch(5).inputs.to_vector<int>(), c.batch(5).inputs.to_vector<int>());
}

TEST(TextLoader, EveryWindowIsReached) {
  const io::TextLoader loader(arange(4), 64, 2, 0);
  const auto first = loader.batch(0).inputs.select(1, 0).to_vector<int>();
  EXPECT_EQ(std::set<int>(first.begin(), first.end()), (std::set<int>{0, 1}));
  const io::TextLoader smallest(arange(3), 2, 2, 0);
  EXPECT_EQ(smallest.batch(0).targets.to_vector<int>(), (std::vector<int>{1, 2, 1, 2}));
}

TEST(TextLoader, TooLittleTextIsRefused) {
  EXPECT_THROW(io::TextLoader(arange(8), 1, 8), ValueError);
  EXPECT_THROW(io::TextLoader(arange(0), 1, 8), ValueError);
  EXPECT_THROW(io::TextLoader(arange(80), 0, 8), ValueError);
  EXPECT_THROW(io::TextLoader(ones(80), 1, 8), ShapeError);
  EXPECT_THROW(io::split_tail(arange(10), 1), ValueError);
  const auto [head, tail] = io::split_tail(arange(10), 0.2);
  EXPECT_EQ(head.numel(), 8);
  EXPECT_EQ(tail.to_vector<int>(), (std::vector<int>{8, 9}));
}

}  // namespace
}  // namespace weft
