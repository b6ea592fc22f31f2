// Pictures written by PIL against the pixels that it reads (cases/make_cases.py), and damaged ones.
#include <gtest/gtest.h>

#include <weft/data/cifar.hpp>
#include <weft/data/image.hpp>
#include <weft/data/mnist.hpp>
#include <weft/weft.hpp>

#include "../message_of.hpp"
#include "../temporary_folder.hpp"

namespace weft {
namespace {

const std::string cases = WEFT_SOURCE_DIR "/tests/data/cases/";

std::span<const std::byte> bytes_of(const std::string& text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

int64_t largest_difference(const Tensor& a, const Tensor& b) {
  EXPECT_EQ(a.shape(), b.shape());
  return (a.to(i64) - b.to(i64)).abs().max().item<int64_t>();
}

#if WEFT_HAS_PNG && WEFT_HAS_JPEG

class Picture : public testing::TestWithParam<const char*> {};

TEST_P(Picture, IsReadAsPilReadsIt) {
  const std::string name = GetParam();
  const Tensor read = data::load_image(cases + name), expected = io::load_npy(cases + name + ".npy");
  EXPECT_EQ(read.dtype(), u8);
  EXPECT_LE(largest_difference(read, expected), name == "cmyk.jpg" ? 2 : 0);
  EXPECT_TRUE(equal(data::decode_image(bytes_of(read_bytes(cases + name))), read));
}

INSTANTIATE_TEST_SUITE_P(Cases, Picture,
                         testing::Values("grey.png", "grey_alpha.png", "rgb.png", "rgba.png", "bits.png", "palette.png",
                                         "interlaced.png", "grey.jpg", "rgb.jpg", "progressive.jpg", "cmyk.jpg"));

TEST(Image, IsTurnedUprightWhereThatIsAskedFor) {
  const Tensor stored = data::load_image(cases + "oriented_1.jpg");
  for (int orientation = 1; orientation <= 8; ++orientation) {
    const std::string name = "oriented_" + std::to_string(orientation) + ".jpg";
    const Tensor upright = data::load_image(cases + name, {.apply_exif_orientation = true});
    EXPECT_TRUE(equal(upright, io::load_npy(cases + name + ".npy"))) << name;
    EXPECT_TRUE(upright.is_contiguous());
    EXPECT_TRUE(equal(data::load_image(cases + name), stored)) << name;
  }
  EXPECT_TRUE(equal(data::load_image(cases + "oriented_6.png", {.apply_exif_orientation = true}),
                    io::load_npy(cases + "oriented_6.png.npy")));
  EXPECT_EQ(data::load_image(cases + "oriented_6.png").size(1), 13);
}

// Exif data of either byte order; other tags have no effect.
TEST(Image, LooksForItsOrientationInExifDataAlone) {
  const std::string plain = read_bytes(cases + "rgb.jpg");
  const Tensor stored = data::decode_image(bytes_of(plain)), turned = stored.transpose(1, 2).flip({2}).contiguous();
  const auto with = [&](std::string exif) {
    const std::string segment = std::string("Exif\0\0", 6) + exif;
    const size_t length = segment.size() + 2;
    std::string jpeg = plain.substr(0, 2) + "\xFF\xE1";
    jpeg += {static_cast<char>(length >> 8), static_cast<char>(length)};
    return data::decode_image(bytes_of(jpeg + segment + plain.substr(2)), {.apply_exif_orientation = true});
  };
  const std::string little("II\x2A\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0", 22);
  const std::string big("MM\0\x2A\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0", 22);
  EXPECT_TRUE(equal(with(little), turned));
  EXPECT_TRUE(equal(with(big), turned));
  for (size_t length = 0; length < 20; ++length) EXPECT_TRUE(equal(with(little.substr(0, length)), stored)) << length;
  for (const auto& [at, byte] : {std::pair(0, 'X'),
                                 {2, 'X'},
                                 {4, 'X'},
                                 {8, '\0'},
                                 {10, 'X'},
                                 {12, 'X'},
                                 {14, '\2'},
                                 {18, '\0'},
                                 {18, '\x09'},
                                 {19, '\x01'}}) {
    std::string other = little;
    other[static_cast<size_t>(at)] = byte;
    EXPECT_TRUE(equal(with(other), stored)) << at;
  }
  EXPECT_TRUE(equal(data::decode_image(bytes_of(plain), {.apply_exif_orientation = true}), stored));
}

TEST(Image, ReturnsTheRequestedChannels) {
  const Tensor rgb = data::load_image(cases + "rgb.png"), rgba = data::load_image(cases + "rgba.png");
  EXPECT_TRUE(equal(data::load_image(cases + "rgb.png", {.channels = 1}), io::load_npy(cases + "rgb_as_grey.npy")));
  EXPECT_TRUE(equal(data::load_image(cases + "rgba.png", {.channels = 3}), rgba.narrow(0, 0, 3)));
  const Tensor opaque = data::load_image(cases + "rgb.png", {.channels = 4});
  EXPECT_TRUE(equal(opaque.narrow(0, 0, 3), rgb));
  EXPECT_EQ(opaque[3].min().item<int64_t>(), 255);
  const Tensor grey = data::load_image(cases + "grey.png"),
               wide = data::load_image(cases + "grey.png", {.channels = 3});
  for (int64_t c = 0; c < 3; ++c) EXPECT_TRUE(equal(wide[c], grey[0]));
  EXPECT_EQ(data::load_image(cases + "rgba.png", {.channels = 2}).size(0), 2);
  EXPECT_THROW(data::load_image(cases + "rgb.png", {.channels = 5}), ValueError);
}

TEST(Image, Keeps16BitsOnRequest) {
  const Tensor expected = io::load_npy(cases + "wide.png.npy");
  const Tensor wide = data::load_image(cases + "wide.png", {.keep_16_bits = true});
  EXPECT_EQ(wide.dtype(), u16);
  EXPECT_EQ(largest_difference(wide, expected), 0);
  const Tensor narrow = data::load_image(cases + "wide.png");
  EXPECT_EQ(narrow.dtype(), u8);
  EXPECT_LE((narrow.to(f64) - expected.to(f64) / 257).abs().max().item<double>(), 0.5 + 1e-9);
}

TEST(Image, IsWrittenAsPngWithoutLoss) {
  const TemporaryFolder folder;
  for (const int64_t channels : {1, 2, 3, 4}) {
    const Tensor image = randint(0, 256, {channels, 7, 5}, u8);
    data::save_png(image, folder / "a.png");
    EXPECT_TRUE(equal(data::load_image(folder / "a.png"), image));
    const Tensor wide = randint(0, 65536, {channels, 3, 4}).to(u16);
    EXPECT_EQ(largest_difference(data::decode_image(bytes_of(data::encode_png(wide)), {.keep_16_bits = true}), wide),
              0);
  }
  const Tensor plane = randint(0, 256, {6, 4}, u8).t();
  EXPECT_TRUE(equal(data::decode_image(bytes_of(data::encode_png(plane)))[0], plane));
}

TEST(Image, IsWrittenAsJpegNearly) {
  const TemporaryFolder folder;
  const Tensor image = data::load_image(cases + "rgb.png"), grey = data::load_image(cases + "grey.png");
  data::save_jpeg(image, folder / "a.jpg", {.quality = 95});
  EXPECT_LT((data::load_image(folder / "a.jpg").to(f64) - image.to(f64)).abs().mean().item<double>(), 6);
  data::save_jpeg(grey, folder / "b.jpg", {.quality = 95});
  EXPECT_EQ(data::load_image(folder / "b.jpg").shape(), grey.shape());
  EXPECT_LT(largest_difference(data::load_image(folder / "b.jpg"), grey), 20);
  EXPECT_LT(data::encode_jpeg(image, {.quality = 5}).size(), data::encode_jpeg(image, {.quality = 95}).size());
  EXPECT_THROW(data::encode_jpeg(image, {.quality = 0}), ValueError);
  EXPECT_THROW(data::encode_jpeg(data::load_image(cases + "rgba.png")), ShapeError);
}

TEST(Image, RefusesOtherTensors) {
  EXPECT_THROW(data::encode_png(zeros({3, 4, 4})), DTypeError);
  EXPECT_THROW(data::encode_png(zeros({5, 4, 4}, u8)), ShapeError);
  EXPECT_THROW(data::encode_png(zeros({3, 0, 4}, u8)), ShapeError);
  EXPECT_THROW(data::encode_png(zeros({4}, u8)), ShapeError);
  EXPECT_THROW(data::encode_jpeg(zeros({3, 4, 4}, u16)), DTypeError);
  EXPECT_THROW(data::encode_jpeg(zeros({1, 1, 70000}, u8)), ShapeError);
}

TEST(Image, RefusesEveryFileThatIsCutShort) {
  for (const char* name : {"rgb.png", "interlaced.png", "rgb.jpg", "progressive.jpg", "grey.jpg"}) {
    const std::string whole = read_bytes(cases + name);
    for (size_t size = 0; size + 2 < whole.size(); size += 1 + size / 40) {
      EXPECT_THROW(data::decode_image(bytes_of(whole.substr(0, size))), FormatError) << name << " " << size;
    }
  }
}

TEST(Image, RejectsSizesBeforeAllocating) {
  std::string png = read_bytes(cases + "rgb.png");
  EXPECT_THROW(data::decode_image(bytes_of(png), {.max_pixels = 246}), FormatError);
  EXPECT_EQ(data::decode_image(bytes_of(png), {.max_pixels = 247}).size(1), 13);
  EXPECT_THROW(data::load_image(cases + "rgb.jpg", {.max_pixels = 246}), FormatError);
  // A header of 11,000 x 11,000 pixels, with its checksum, before the data of a few.
  const std::string header("IHDR\0\0\x2A\xF8\0\0\x2A\xF8\x08\x02\0\0\0", 17);
  uint32_t crc = ~0u;
  for (const char c : header) {
    crc ^= static_cast<uint8_t>(c);
    for (int i = 0; i < 8; ++i) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320u : 0);
  }
  png.replace(12, 17, header);
  for (int i = 0; i < 4; ++i) png[static_cast<size_t>(29 + i)] = static_cast<char>(~crc >> (24 - 8 * i));
  const std::string message = message_of<FormatError>([&] { data::decode_image(bytes_of(png)); });
  EXPECT_NE(message.find("too short for 11000 x 11000"), std::string::npos) << message;
}

TEST(Image, NamesTheFileAndThePlace) {
  const TemporaryFolder folder;
  write_bytes(folder / "a.png", "GIF89a");
  const std::string message = message_of<FormatError>([&] { data::load_image(folder / "a.png"); });
  EXPECT_NE(message.find("[load_image]"), std::string::npos) << message;
  EXPECT_NE(message.find("a.png: it is neither a PNG nor a JPEG"), std::string::npos) << message;
  EXPECT_NE(message.find("image_test.cpp:"), std::string::npos) << message;
  EXPECT_THROW(data::load_image(folder / "none.png"), IoError);
}

#endif

TEST(ImageFolder, ListsFilesByFolder) {
  const TemporaryFolder folder;
  for (const char* name : {"dogs", "cats", "cats/more"}) std::filesystem::create_directory(folder / name);
  for (const char* name : {"dogs/b.PNG", "dogs/a.jpg", "dogs/notes.txt", "cats/more/c.jpeg", "cats/d.png", "top.png"}) {
    write_bytes(folder / name, "");
  }
  const data::ImageFolder found = data::image_folder(folder.path());
  EXPECT_EQ(found.classes, (std::vector<std::string>{"cats", "dogs"}));
  EXPECT_EQ(found.labels, (std::vector<int64_t>{0, 0, 1, 1}));
  std::vector<std::string> names;
  for (const io::Path& file : found.files) names.push_back(file.string().substr(folder.path().string().size() + 1));
  EXPECT_EQ(names, (std::vector<std::string>{"cats/d.png", "cats/more/c.jpeg", "dogs/a.jpg", "dogs/b.PNG"}));
  std::filesystem::create_directory(folder / "empty");
  EXPECT_THROW(data::image_folder(folder.path()), ValueError);
  EXPECT_THROW(data::image_folder(folder / "empty"), ValueError);
  EXPECT_THROW(data::image_folder(folder / "none"), IoError);
}

// ---- sets of images -------------------------------------------------------------------------------------------------

std::string idx(const std::string& sizes, const std::string& bytes) {
  return std::string("\0\0\x08", 3) + static_cast<char>(sizes.size() / 4) + sizes + bytes;
}

TEST(Mnist, IsReadUnderEachOfItsNames) {
  const std::string images = idx(std::string("\0\0\0\2\0\0\0\2\0\0\0\3", 12), "abcdefghijkl");
  const std::string labels = idx(std::string("\0\0\0\2", 4), std::string("\7\0", 2));
  for (const char* pattern : {"-idx", ".idx"}) {
    for (const char* end : {"", ".idx"}) {
      if (*pattern == '.' && *end == '.') continue;
      const TemporaryFolder folder;
      write_bytes(folder / (std::string("t10k-images") + pattern + "3-ubyte" + end), images);
      write_bytes(folder / (std::string("t10k-labels") + pattern + "1-ubyte" + end), labels);
      const data::LabelledImages read = data::load_mnist(folder.path(), false);
      EXPECT_EQ(read.images.shape(), Dims({2, 1, 2, 3}));
      EXPECT_EQ(read.images.dtype(), u8);
      EXPECT_EQ(read.labels.to_vector<int64_t>(), (std::vector<int64_t>{7, 0}));
      EXPECT_THROW(data::load_mnist(folder.path()), IoError);
    }
  }
}

TEST(Mnist, RefusesPartsOfUnequalLengths) {
  const TemporaryFolder folder;
  write_bytes(folder / "train-images-idx3-ubyte", idx(std::string("\0\0\0\1\0\0\0\1\0\0\0\1", 12), "a"));
  write_bytes(folder / "train-labels-idx1-ubyte", idx(std::string("\0\0\0\2", 4), "ab"));
  EXPECT_THROW(data::load_mnist(folder.path()), FormatError);
}

std::string record(const std::string& labels, char colour) { return labels + std::string(3072, colour); }

TEST(Cifar, IsReadFromSeveralFiles) {
  const TemporaryFolder folder;
  write_bytes(folder / "test_batch.bin", record("\3", 'a') + record("\11", 'b'));
  for (int i = 1; i <= 5; ++i) {
    write_bytes(folder / ("data_batch_" + std::to_string(i) + ".bin"),
                record({static_cast<char>(i)}, static_cast<char>(i)));
  }
  const data::LabelledImages test = data::load_cifar10(folder.path(), false);
  EXPECT_EQ(test.images.shape(), Dims({2, 3, 32, 32}));
  EXPECT_EQ(test.labels.to_vector<int64_t>(), (std::vector<int64_t>{3, 9}));
  EXPECT_EQ(test.images[1].min().item<int64_t>(), 'b');
  EXPECT_EQ(data::load_cifar10(folder.path()).labels.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3, 4, 5}));
  EXPECT_EQ(data::read_cifar10({}).images.shape(), Dims({0, 3, 32, 32}));
  std::filesystem::create_directory(folder / "cifar-100-binary");
  write_bytes(folder / "cifar-100-binary/train.bin", record("\23\143", 'x'));
  const data::Cifar100 hundred = data::load_cifar100(folder.path());
  EXPECT_EQ(hundred.coarse_labels.item<int64_t>(), 19);
  EXPECT_EQ(hundred.labels.item<int64_t>(), 99);
}

TEST(Cifar, RefusesCutFilesAndOtherClasses) {
  const TemporaryFolder folder;
  write_bytes(folder / "a.bin", record("\3", 'a').substr(1));
  EXPECT_THROW(data::read_cifar10({folder / "a.bin"}), FormatError);
  write_bytes(folder / "b.bin", record("\12", 'a'));
  const std::string message = message_of<FormatError>([&] { data::read_cifar10({folder / "b.bin"}); });
  EXPECT_NE(message.find("byte 0 is class 10 of 10"), std::string::npos) << message;
  EXPECT_THROW(data::read_cifar100({folder / "b.bin"}), FormatError);
  EXPECT_THROW(data::read_cifar10({folder / "none.bin"}), IoError);
}

}  // namespace
}  // namespace weft
