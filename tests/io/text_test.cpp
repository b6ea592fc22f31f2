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

TEST(Vocabulary, CopiesAreIndependent) {
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

TEST(Text, SplitsATailOff) {
  EXPECT_THROW(io::split_tail(arange(10), 1), ValueError);
  const auto [head, tail] = io::split_tail(arange(10), 0.2);
  EXPECT_EQ(head.numel(), 8);
  EXPECT_EQ(tail.to_vector<int>(), (std::vector<int>{8, 9}));
}

}  // namespace
}  // namespace weft
