#include <random>

#include <gtest/gtest.h>

#include <temporary_folder.hpp>
#include <weft/io/idx.hpp>
#include <weft/weft.hpp>

namespace weft {
namespace {

class Idx : public testing::Test {
 protected:
  TemporaryFolder folder;
  std::string path = folder / "file.idx";

  Tensor load(const std::string& bytes) {
    write_bytes(path, bytes);
    return io::load_idx(path);
  }
};

std::string text(std::initializer_list<int> bytes) {
  std::string out;
  for (const int b : bytes) out.push_back(static_cast<char>(b));
  return out;
}

TEST_F(Idx, ReadsBytesAndNumbersOfEveryType) {
  const Tensor bytes = load(text({0, 0, 8, 2, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4, 5, 255}));
  EXPECT_EQ(bytes.dtype(), u8);
  EXPECT_EQ(bytes.shape(), Dims({2, 3}));
  EXPECT_EQ(bytes.to(i64).to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3, 4, 5, 255}));
  EXPECT_EQ(load(text({0, 0, 9, 1, 0, 0, 0, 1, 255})).to(i64).item<int64_t>(), -1);
  EXPECT_EQ(load(text({0, 0, 0xB, 1, 0, 0, 0, 1, 1, 2})).to(i64).item<int64_t>(), 258);
  EXPECT_EQ(load(text({0, 0, 0xC, 1, 0, 0, 0, 1, 255, 255, 255, 254})).item<int32_t>(), -2);
  EXPECT_EQ(load(text({0, 0, 0xD, 1, 0, 0, 0, 1, 0x3F, 0xC0, 0, 0})).item<float>(), 1.5f);
  EXPECT_EQ(load(text({0, 0, 0xE, 1, 0, 0, 0, 1, 0xC0, 0x02, 0, 0, 0, 0, 0, 0})).item<double>(), -2.25);
  EXPECT_EQ(load(text({0, 0, 8, 0, 7})).shape(), Dims());
  EXPECT_EQ(load(text({0, 0, 8, 1, 0, 0, 0, 0})).shape(), Dims(0));
}

TEST_F(Idx, RejectsInvalidFilesWithAReason) {
  const auto refused = [&](const std::string& bytes, const std::string& why) {
    try {
      load(bytes);
      ADD_FAILURE() << why;
    } catch (const FormatError& e) {
      EXPECT_NE(std::string(e.what()).find(why), std::string::npos) << e.what();
    }
  };
  refused(text({0x1F, 0x8B, 8, 0}), "gunzip");
  refused("", "two zeros");
  refused(text({0, 1, 8, 1}), "two zeros");
  refused(text({0, 0, 7, 1, 0, 0, 0, 1, 1}), "byte 2");
  refused(text({0, 0, 8, 2, 0, 0, 0, 1}), "sizes");
  refused(text({0, 0, 8, 1, 0, 0, 0, 2, 1}), "does not fit");
  refused(text({0, 0, 8, 1, 0, 0, 0, 1, 1, 1}), "does not fit");
  refused(text({0, 0, 0xE, 4, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255}),
          "does not fit");
  EXPECT_THROW(load(text({0, 0, 8, 9}) + std::string(36, '\0')), ShapeError);
  EXPECT_THROW(io::load_idx(path + ".absent"), IoError);
}

TEST_F(Idx, DamagedFilesGiveATensorOrATypedError) {
  std::mt19937 random(3);
  const std::string sound = text({0, 0, 0xC, 2, 0, 0, 0, 2, 0, 0, 0, 2}) + std::string(16, 'x');
  for (int trial = 0; trial < 2000; ++trial) {
    std::string bytes = sound.substr(0, random() % (sound.size() + 1));
    for (unsigned changes = random() % 4; changes > 0 && !bytes.empty(); --changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    try {
      load(bytes);
    } catch (const Error&) {
    }
  }
}

TEST(Tiles, DrawsEachMatrixAndItsCaption) {
  const std::string svg = io::tiles_svg(tensor<float>({{{0, 1}, {1, 0}}, {{-1, 0}, {0, 1}}}),
                                        {.title = "a < b", .captions = {"first", "second"}});
  EXPECT_NE(svg.find("a &lt; b"), std::string::npos);
  EXPECT_NE(svg.find(">second<"), std::string::npos);
  EXPECT_NE(svg.find("#1f4e8c"), std::string::npos);  // the greatest
  EXPECT_NE(svg.find("#c85710"), std::string::npos);  // the least, below 0
}

TEST(Tiles, TakesEmptyConstantAndBrokenMatrices) {
  EXPECT_NE(io::tiles_svg(zeros({0, 3, 3})).find("</svg>"), std::string::npos);
  EXPECT_NE(io::tiles_svg(zeros({2, 0, 3})).find("</svg>"), std::string::npos);
  EXPECT_NE(io::tiles_svg(full({3, 3}, 7, i64)).find("</svg>"), std::string::npos);
  const std::string broken = io::tiles_svg(tensor<float>({{1, std::numeric_limits<float>::quiet_NaN()}}));
  EXPECT_NE(broken.find("#d1242f"), std::string::npos);
  EXPECT_THROW(io::tiles_svg(zeros({3})), ShapeError);
  EXPECT_THROW(io::save_tiles("/nonexistent/x.svg", zeros({1, 1})), IoError);
}

}  // namespace
}  // namespace weft
