// Files of torch::save: their contents, and files that are damaged or hostile.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <random>
#include <sstream>

#include <torch/torch.h>

#include "../io/archive_bytes.hpp"

namespace {

using torch::Tensor;

template <class T>
std::string saved(const T& value) {
  std::ostringstream stream;
  torch::save(value, stream);
  return stream.str();
}
torch::serialize::InputArchive read(const std::string& bytes) {
  torch::serialize::InputArchive archive;
  archive.load_from(bytes.data(), bytes.size());
  return archive;
}
std::string refusal(const std::string& bytes) {
  try {
    read(bytes);
  } catch (const weft::FormatError& e) {
    return e.what();
  }
  return "no error";
}

// ---- saved files ----
TEST(TorchArchive, TensorsThatShareMemoryShareItAgain) {
  const Tensor base = torch::arange(12).view({3, 4});
  const std::string bytes = saved(std::vector<Tensor>{base, base[1], base.t()});
  std::vector<Tensor> loaded;
  torch::load(loaded, bytes.data(), bytes.size());
  ASSERT_EQ(loaded.size(), 3u);
  loaded[0][1].fill_(7);
  EXPECT_TRUE(loaded[1].equal(torch::full({4}, 7)));
  EXPECT_EQ(loaded[2][0][1].item<int64_t>(), 7);
  EXPECT_EQ(loaded[2].strides(), torch::IntArrayRef({1, 4}));
}

TEST(TorchArchive, TensorsWithNegativeStridesAreCopied) {
  const weft::Tensor reversed = weft::arange(4)[{weft::Slice(weft::none, weft::none, -1)}];
  const std::string bytes = saved(Tensor(reversed));
  Tensor loaded;
  torch::load(loaded, bytes.data(), bytes.size());
  EXPECT_TRUE(loaded.equal(torch::tensor({3, 2, 1, 0})));
  EXPECT_EQ(loaded.strides(), torch::IntArrayRef({1}));
}

TEST(TorchArchive, UndefinedParametersAreNeitherWrittenNorRead) {
  torch::nn::Linear without(torch::nn::LinearOptions(2, 2).bias(false));
  auto archive = read(saved(without));
  EXPECT_EQ(archive.keys(), std::vector<std::string>{"weight"});
  torch::nn::Linear other(torch::nn::LinearOptions(2, 2).bias(false));
  const std::string bytes = saved(without);
  torch::load(other, bytes.data(), bytes.size());
  EXPECT_TRUE(other->weight.equal(without->weight));
}

TEST(TorchArchive, ValuesKeepTheirTypes) {
  torch::serialize::OutputArchive out;
  out.write("empty", torch::IValue(std::vector<double>()));
  out.write("ints", torch::IValue(std::vector<int64_t>{1, -1, 300, int64_t{1} << 33}));
  out.write("pair", torch::IValue(std::make_tuple(int64_t{1}, 2.5)));
  out.write("names", torch::IValue(std::vector<std::string>{"a", "b"}));
  out.write("a \"key\" \\", torch::IValue(true));
  std::ostringstream stream;
  out.save_to(stream);
  auto in = read(stream.str());
  const auto get = [&](const char* key) {
    torch::IValue value;
    in.read(key, value);
    return value;
  };
  EXPECT_TRUE(get("empty").isDoubleList());
  EXPECT_EQ(get("ints").toIntVector(), (std::vector<int64_t>{1, -1, 300, int64_t{1} << 33}));
  EXPECT_EQ((*get("pair").toTuple())[1].toDouble(), 2.5);
  EXPECT_EQ(get("names").to<std::vector<std::string>>().back(), "b");
  EXPECT_TRUE(get("a \"key\" \\").toBool());
}

TEST(TorchArchive, PicklesHoldDicts) {
  torch::IValue::Dict dict;
  dict.emplace_back("x", torch::ones({2}));
  dict.emplace_back("y", torch::zeros({1}));
  const auto loaded = torch::pickle_load(torch::pickle_save(torch::IValue(dict)));
  ASSERT_EQ(loaded.toGenericDict().size(), 2u);
  EXPECT_EQ(loaded.toGenericDict()[0].first.toStringRef(), "x");
  EXPECT_TRUE(loaded.toGenericDict()[0].second.toTensor().equal(torch::ones({2})));
}

TEST(TorchArchive, UnknownDtypesAndControlCharactersAreRefused) {
  EXPECT_THROW(saved(Tensor(weft::zeros({2}, weft::u32))), weft::DTypeError);
  torch::serialize::OutputArchive out;
  out.write("line\nbreak", torch::IValue(true));
  std::ostringstream stream;
  EXPECT_THROW(out.save_to(stream), weft::ValueError);
}

TEST(TorchArchive, SourcesThatReturnTooLittleRaise) {
  torch::serialize::InputArchive archive;
  EXPECT_THROW(archive.load_from([](uint64_t, void*, size_t) -> size_t { return 0; }, [] { return size_t{100}; }),
               weft::IoError);
  std::istringstream empty;
  EXPECT_THROW(archive.load_from(empty), weft::FormatError);
  EXPECT_THROW(archive.load_from(std::string("/no/such/file.pt")), weft::IoError);
}

// ---- damaged files ----
std::string script(const std::string& pickle) {
  return weft::zip_of({{"archive/data.pkl", "\x80\x02" + pickle + "."}, {"archive/version", "3\n"}});
}
const std::string module = "c__torch__\nModule\n", object = module + ")\x81";

TEST(TorchArchive, PicklesWithoutAModuleAreRefused) {
  using testing::HasSubstr;
  EXPECT_THAT(refusal(script("K\x05")), HasSubstr("no module of torch::save"));
  EXPECT_THAT(refusal(script("K\x05)\x81")), HasSubstr("NEWOBJ of an int"));
  EXPECT_THAT(refusal(script(module + "K\x05\x85\x81")), HasSubstr("made with arguments"));
  EXPECT_THAT(refusal(script(module + ")R")), HasSubstr("REDUCE calls Module"));
  EXPECT_THAT(refusal(script(object + "K\x05" + "b")), HasSubstr("attributes of an object are an int"));
  EXPECT_THAT(refusal(script(object + "}b}b")), HasSubstr("attributes twice"));
  EXPECT_THAT(refusal(script(object + "q\x01}(X\x01" + std::string(3, '\0') + "ah\x01ub")),
              HasSubstr("contains itself"));
  EXPECT_THAT(refusal(script("ctorch.jit._pickle\nbuild_intlist\nK\x05\x85R")), HasSubstr("has no list"));
  EXPECT_THAT(refusal(script("ctorch.jit._pickle\nrestore_type_tag\nK\x05\x85R")), HasSubstr("wrong arguments"));
  EXPECT_THAT(refusal(script("cos\nsystem\n)R")), HasSubstr("refused"));
}

TEST(TorchArchive, DamagedFilesRaiseTypedErrors) {
  torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
  torch::optim::Adam optimizer(model->parameters(), torch::optim::AdamOptions(0.1));
  model->forward(torch::ones({2, 3})).sum().backward();
  optimizer.step();
  std::mt19937 random(1);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  int refused = 0;
  for (const bool of_model : {true, false}) {
    const std::string file = of_model ? saved(model) : saved(optimizer);
    for (int round = 0; round < 1000; ++round) {
      std::string bytes = file;
      const size_t changes = 1 + below(4);
      for (size_t i = 0; i < changes; ++i) bytes[below(bytes.size())] = static_cast<char>(below(256));
      if (round % 10 == 0) bytes.resize(below(bytes.size()));
      try {
        torch::nn::Sequential other(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
        torch::optim::Adam others(other->parameters(), torch::optim::AdamOptions(0.1));
        if (of_model) torch::load(other, bytes.data(), bytes.size());
        else torch::load(others, bytes.data(), bytes.size());
      } catch (const weft::Error&) {
        ++refused;
      }
    }
  }
  EXPECT_GT(refused, 500);
}

// The checksums are right: the pickle itself is damaged.
TEST(TorchArchive, DamagedPicklesRaiseTypedErrors) {
  torch::serialize::OutputArchive out, inner;
  out.write("a", torch::arange(6).view({2, 3}));
  out.write("list", torch::IValue(std::vector<int64_t>{1, 2, 3}));
  inner.write("b", torch::ones({2}), true);
  out.write("inner", inner);
  std::ostringstream stream;
  out.save_to(stream);
  const std::string file = stream.str();
  const size_t begin = file.find("\x80\x02"), end = file.find("ub.", begin) + 3;
  ASSERT_NE(begin, file.npos);
  const std::string pickle = file.substr(begin, end - begin), six = std::string(48, '\1'), two = std::string(8, '\0');
  std::mt19937 random(2);
  const auto below = [&](size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random); };
  const auto load = [&](const std::string& changed) {
    auto archive = read(weft::zip_of(
        {{"archive/data.pkl", changed}, {"archive/data/0", six}, {"archive/data/1", two}, {"archive/version", "3\n"}}));
    for (const std::string& key : archive.keys()) {
      torch::IValue value;
      archive.try_read(key, value);
      Tensor tensor;
      if (archive.try_read(key, tensor)) tensor.sum().item<double>();
    }
  };
  ASSERT_NO_THROW(load(pickle));
  int refused = 0;
  for (int round = 0; round < 4000; ++round) {
    std::string changed = pickle;
    switch (below(3)) {
      case 0:
        changed[below(changed.size())] = static_cast<char>(below(256));
        break;
      case 1:
        changed.erase(below(changed.size()), 1 + below(8));
        break;
      default:
        changed.insert(below(changed.size()), pickle.substr(below(pickle.size()), 1 + below(20)));
    }
    try {
      load(changed);
    } catch (const weft::Error&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 2000);
}

}  // namespace
