// Models in several files with an index.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/io/sharded.hpp>
#include <weft/ops/create.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Tensor bytes_of(int64_t count, int value = 1) { return full(count, value, u8); }

std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  std::ranges::sort(names);
  return names;
}

// The specified case: a40 b70 c30 d20 with at most 100 bytes.
io::TensorList four_tensors(int value = 1) {
  return {
      {"a", bytes_of(40, value)}, {"b", bytes_of(70, value)}, {"c", bytes_of(30, value)}, {"d", bytes_of(20, value)}};
}
const io::ShardOptions at_most_100 = {.max_shard_size = 100};
constexpr const char* index_file = "model.safetensors.index.json";

TEST(Sharded, TheSpecifiedCase) {
  const TemporaryFolder folder;
  const auto names = io::save_sharded(four_tensors(), folder.path(), at_most_100);
  EXPECT_THAT(names, ElementsAre("model-00001-of-00003.safetensors", "model-00002-of-00003.safetensors",
                                 "model-00003-of-00003.safetensors"));
  EXPECT_THAT(names_in(folder.path()), ElementsAre(names[0], names[1], names[2], index_file));
  EXPECT_THAT(io::SafeFile::open(folder / names[0]).keys(), ElementsAre("a"));
  EXPECT_THAT(io::SafeFile::open(folder / names[1]).keys(), ElementsAre("b", "c"));
  EXPECT_THAT(io::SafeFile::open(folder / names[2]).keys(), ElementsAre("d"));
  EXPECT_EQ(io::SafeFile::open(folder / names[2]).metadata(), (io::Metadata{{"format", "pt"}}));
  EXPECT_EQ(
      read_bytes(folder / index_file),
      "{\n  \"metadata\": {\n    \"total_size\": 160\n  },\n  \"weight_map\": {\n"
      "    \"a\": \"model-00001-of-00003.safetensors\",\n    \"b\": \"model-00002-of-00003.safetensors\",\n"
      "    \"c\": \"model-00002-of-00003.safetensors\",\n    \"d\": \"model-00003-of-00003.safetensors\"\n  }\n}\n");
  const io::TensorMap loaded = io::load_sharded(folder.path());
  EXPECT_EQ(loaded.size(), 4u);
  EXPECT_EQ(loaded.at("b").to_vector<int>(), std::vector<int>(70, 1));
}

TEST(Sharded, FilesFollowTheListAndLargeTensorsGetTheirOwn) {
  const TemporaryFolder folder;
  const auto shards = [&](const io::TensorList& tensors) {
    std::vector<std::vector<std::string>> out;
    for (const auto& name : io::save_sharded(tensors, folder.path(), at_most_100)) {
      out.push_back(io::SafeFile::open(folder / name).keys());
    }
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_THAT(shards({{"z", bytes_of(60)}, {"b", bytes_of(60)}, {"a", bytes_of(40)}}),
              ElementsAre(Names{"z"}, Names{"a", "b"}));
  EXPECT_THAT(shards({{"big", bytes_of(500)}, {"x", bytes_of(100)}, {"huge", bytes_of(101)}, {"y", bytes_of(1)}}),
              ElementsAre(Names{"big"}, Names{"x"}, Names{"huge"}, Names{"y"}));
  EXPECT_THAT(shards({{"none", bytes_of(0)}, {"x", bytes_of(100)}, {"no", bytes_of(0)}}),
              ElementsAre(Names{"no", "none", "x"}));
  EXPECT_THAT(shards(io::TensorMap{}), ElementsAre(Names{}));
}

TEST(Sharded, OneFileNeedsNoIndexAndOlderSavesLeaveNothingBehind) {
  const TemporaryFolder folder;
  io::save_sharded(four_tensors(), folder.path(), at_most_100);
  write_bytes(folder / "model-extra.safetensors", "kept");
  write_bytes(folder / "model2-00001-of-00002.safetensors", "kept");
  write_bytes(folder / "model-00001-of-00002.safetensors.bak", "kept");
  io::save_sharded(four_tensors(2), folder.path(), {.max_shard_size = 120});
  EXPECT_THAT(names_in(folder.path()),
              ElementsAre("model-00001-of-00002.safetensors", "model-00001-of-00002.safetensors.bak",
                          "model-00002-of-00002.safetensors", "model-extra.safetensors", index_file,
                          "model2-00001-of-00002.safetensors"));
  EXPECT_EQ(io::load_sharded(folder.path()).at("d").to_vector<int>(), std::vector<int>(20, 2));
  io::save_sharded(four_tensors(3), folder.path());
  EXPECT_THAT(names_in(folder.path()), ElementsAre("model-00001-of-00002.safetensors.bak", "model-extra.safetensors",
                                                   "model.safetensors", "model2-00001-of-00002.safetensors"));
  EXPECT_EQ(io::load_sharded(folder.path()).at("a").to_vector<int>(), std::vector<int>(40, 3));
  io::save_sharded(four_tensors(4), folder.path(), at_most_100);
  EXPECT_FALSE(std::filesystem::exists(folder / "model.safetensors"));
  EXPECT_EQ(io::load_sharded(folder.path()).at("a").to_vector<int>(), std::vector<int>(40, 4));
}

TEST(Sharded, AFailedSaveKeepsTheOldFiles) {
  const TemporaryFolder folder;
  io::save_sharded(four_tensors(), folder.path(), at_most_100);
  const auto before = names_in(folder.path());
  const Tensor x = bytes_of(90);
  const auto refuse = [&]<class E>(const io::TensorList& tensors, const io::ShardOptions& options, E*) {
    EXPECT_THROW(io::save_sharded(tensors, folder.path(), options), E);
    EXPECT_EQ(names_in(folder.path()), before);
    EXPECT_EQ(io::load_sharded(folder.path()).size(), 4u);
  };
  ValueError* value_error = nullptr;
  refuse({{"x", x}, {"y", Tensor()}}, at_most_100, value_error);
  refuse({{"x", x}, {"y", x}}, at_most_100, value_error);
  refuse({{"x", x}, {"x", bytes_of(80)}}, at_most_100, value_error);
  refuse({{"x", x}, {"\xff", bytes_of(80)}}, at_most_100, value_error);
  refuse({{"x", x}, {"__metadata__", bytes_of(80)}}, at_most_100, value_error);
  refuse({{"x", x}}, {.prefix = ""}, value_error);
  refuse({{"x", x}}, {.prefix = "../model"}, value_error);
  refuse({{"x", x}}, {.metadata = {{"\xff", ""}}}, value_error);
  EXPECT_THROW(io::save_sharded({{"x", x}}, folder / index_file), IoError);
  std::filesystem::create_directory(folder / "model-00002-of-00002.safetensors");
  EXPECT_THROW(io::save_sharded({{"x", x}, {"y", bytes_of(90)}}, folder.path(), at_most_100), IoError);
  EXPECT_EQ(io::load_sharded(folder.path()).size(), 4u);
}

TEST(Sharded, SizesAreNumbersOrTexts) {
  const auto bytes = [](const io::ByteCount& count) { return count.value(); };
  EXPECT_EQ(bytes(7), 7);
  EXPECT_EQ(bytes("7"), 7);
  EXPECT_EQ(bytes("7B"), 7);
  EXPECT_EQ(bytes("3KB"), 3000);
  EXPECT_EQ(bytes("200 MB"), 200'000'000);
  EXPECT_EQ(bytes("5GB"), 5'000'000'000);
  EXPECT_EQ(bytes("3KiB"), 3072);
  EXPECT_EQ(bytes("2MiB"), 2 << 20);
  EXPECT_EQ(bytes(std::string("2GiB")), int64_t{1} << 31);
  for (const char* bad : {"", "GB", "0", "0GB", "-5GB", "5gb", "5XB", "1.5GB", "5GBs", " 5GB", "9223372036854775808",
                          "99999999999GB", "5  GB"}) {
    EXPECT_THROW(bytes(bad), ValueError) << bad;
  }
  EXPECT_THROW(bytes(-1), ValueError);
}

TEST(Sharded, TiedTensorsShareAFileAndAreLoadedAsOne) {
  const TemporaryFolder folder;
  const Tensor w = bytes_of(80);
  const io::TensorList tied = {{"z", w}, {"x", bytes_of(90)}, {"a", w}};
  EXPECT_THROW(io::save_sharded(tied, folder.path(), at_most_100), ValueError);
  EXPECT_EQ(io::save_sharded(tied, folder.path(), {.max_shard_size = 100, .tie = io::Tie::alias}).size(), 2u);
  EXPECT_THAT(read_bytes(folder / index_file),
              testing::AllOf(HasSubstr("\"total_size\": 170"), HasSubstr("\"z\""), testing::Not(HasSubstr("\"a\""))));
  const io::TensorMap loaded = io::load_sharded(folder.path());
  EXPECT_EQ(loaded.size(), 3u);
  EXPECT_EQ(loaded.at("a").impl(), loaded.at("z").impl());
}

TEST(Sharded, PrefixesDoNotDisturbEachOther) {
  const TemporaryFolder folder;
  io::save_sharded(four_tensors(1), folder / "new" / "folder", {.max_shard_size = 100, .prefix = "first"});
  io::save_sharded(four_tensors(2), folder / "new" / "folder", {.max_shard_size = 100, .prefix = "second"});
  EXPECT_EQ(io::load_sharded(folder / "new" / "folder", {.prefix = "first"}).at("d").to_vector<int>()[0], 1);
  EXPECT_EQ(io::load_sharded(folder / "new" / "folder", {.prefix = "second"}).at("d").to_vector<int>()[0], 2);
}

// ---- loading --------------------------------------------------------------------------------------------------------

int mapped_shards(const std::filesystem::path& folder) {
  std::ifstream maps("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(maps, line);) {
    count += line.find(folder.string()) != line.npos && line.find("-of-") != line.npos;
  }
  return count;
}

TEST(Sharded, OffloadedToDiskTensorsStayMappedElseNoFileDoes) {
  const TemporaryFolder folder;
  io::save_sharded(four_tensors(), folder.path(), at_most_100);
  {
    const io::TensorMap loaded = io::load_sharded(folder.path());
    EXPECT_EQ(mapped_shards(folder.path()), 0);
    const io::TensorMap lazy = io::load_sharded(folder.path(), {.offload = io::Offload::disk});
    EXPECT_EQ(mapped_shards(folder.path()), 3);
    EXPECT_EQ(lazy.at("c").to_vector<int>(), loaded.at("c").to_vector<int>());
    const io::TensorMap meta = io::load_sharded(folder.path(), {.device = Device("meta")});
    EXPECT_EQ(meta.at("a").device(), Device("meta"));
    EXPECT_EQ(mapped_shards(folder.path()), 3);
  }
  EXPECT_EQ(mapped_shards(folder.path()), 0);
}

TEST(Sharded, DeviceMapsGoByWholeNamesAndTheLongestKey) {
  const TemporaryFolder folder;
  io::save_sharded(
      {{"layers.1.weight", ones(2)}, {"layers.10.weight", ones(3)}, {"layers.1.bias", ones(4)}, {"head", ones(5)}},
      folder.path());
  const Device meta("meta");
  const auto on_meta = [&](const std::map<std::string, Device>& device_map) {
    std::vector<std::string> names;
    for (const auto& [name, t] : io::load_sharded(folder.path(), {.device_map = device_map})) {
      if (t.device() == meta) names.push_back(name);
    }
    return names;
  };
  EXPECT_THAT(on_meta({{"layers.1", meta}}), ElementsAre("layers.1.bias", "layers.1.weight"));
  EXPECT_THAT(on_meta({{"", meta}, {"layers", Device()}, {"layers.1.bias", meta}}),
              ElementsAre("head", "layers.1.bias"));
  EXPECT_THAT(message_of<KeyError>([&] { on_meta({{"layer", meta}}); }), HasSubstr("\"layer\", which fits no tensor"));
}

TEST(Sharded, FloatingTensorsAreConverted) {
  const TemporaryFolder folder;
  io::save_sharded({{"x", full(3, 1.5, f64)}, {"n", arange(3)}, {"h", full(2, 0.5, f16)}}, folder.path());
  const io::TensorMap loaded = io::load_sharded(folder.path(), {.dtype = f16, .offload = io::Offload::disk});
  EXPECT_EQ(loaded.at("x").dtype(), f16);
  EXPECT_EQ(loaded.at("x").to_vector<double>(), std::vector<double>(3, 1.5));
  EXPECT_EQ(loaded.at("n").dtype(), i64);
  EXPECT_EQ(loaded.at("h").to_vector<double>(), std::vector<double>(2, 0.5));
  EXPECT_THROW(io::load_sharded(folder.path(), {.dtype = i64}), DTypeError);
}

TEST(Sharded, AnIndexBesideASingleFileRaisesByDefault) {
  const TemporaryFolder folder;
  io::save_sharded(four_tensors(), folder.path(), at_most_100);
  io::save_file({{"a", bytes_of(3)}}, folder / "model.safetensors");
  EXPECT_THAT(message_of<ValueError>([&] { io::load_sharded(folder.path()); }), HasSubstr("prefer_index"));
  EXPECT_EQ(io::load_sharded(folder.path(), {.prefer_index = true}).size(), 4u);
  std::filesystem::remove(folder / index_file);
  EXPECT_EQ(io::load_sharded(folder.path()).size(), 1u);
  std::filesystem::remove(folder / "model.safetensors");
  EXPECT_THROW(io::load_sharded(folder.path()), IoError);
}

class Indexes : public testing::Test {
 protected:
  Indexes() {
    io::save_file({{"a", bytes_of(4)}}, folder / "one.safetensors");
    io::save_file({{"b", bytes_of(6)}, {"c", bytes_of(2)}}, folder / "two.safetensors");
  }
  std::string load(const std::string& index) {
    write_bytes(folder / index_file, index);
    return message_of<FormatError>([&] { io::load_sharded(folder.path()); });
  }
  std::string with(const std::string& weight_map, const std::string& total = "12") {
    return load(R"({"metadata":{"total_size":)" + total + R"(},"weight_map":{)" + weight_map + "}}");
  }
  TemporaryFolder folder;
  const std::string all = R"("a":"one.safetensors","b":"two.safetensors","c":"two.safetensors")";
};

TEST_F(Indexes, OfOtherProgramsAreRead) {
  EXPECT_EQ(with(all), "nothing was thrown");
  EXPECT_EQ(load("{\"weight_map\": {" + all + "}}\n"), "nothing was thrown");
  EXPECT_EQ(
      load(R"({"more":[{"a":[]}],"metadata":{"total_parameters":1.5,"total_size":12,"x":{"y":null}},"weight_map":{)" +
           all + "}}"),
      "nothing was thrown");
}

TEST_F(Indexes, ThatDisagreeWithTheFilesAreRefused) {
  EXPECT_THAT(with(R"("a":"gone.safetensors")"), HasSubstr("the file \"gone.safetensors\" is missing"));
  EXPECT_THAT(with(all + R"(,"d":"two.safetensors")"),
              HasSubstr("weight_map.d names \"two.safetensors\", which has no such tensor"));
  EXPECT_THAT(with(R"("a":"one.safetensors","b":"two.safetensors")"),
              HasSubstr("\"two.safetensors\" holds \"c\", which weight_map has not"));
  EXPECT_THAT(with(all, "13"), HasSubstr("metadata.total_size is 13, the tensors have 12 bytes"));
  EXPECT_THAT(with(all, "18446744073709551615"), HasSubstr("metadata.total_size"));
  write_bytes(folder / "one.safetensors", "damaged");
  EXPECT_THAT(with(all), HasSubstr("not a valid safetensors file"));
}

TEST_F(Indexes, WithPathsOutOfTheFolderAreRefused) {
  std::filesystem::create_directory(folder / "sub");
  io::save_file({{"a", bytes_of(12)}}, folder / "sub" / "x.safetensors");
  EXPECT_EQ(with(R"("a":"sub/x.safetensors")"), "nothing was thrown");
  for (const char* path : {"/etc/passwd", "../x", "sub/../sub/x.safetensors", "sub/..", "..", ".", "",
                           "./one.safetensors", "sub//x.safetensors", "sub/", R"(sub\\..\\x)", R"(x\u0000y)"}) {
    EXPECT_THAT(with("\"a\":\"" + std::string(path) + "\""), HasSubstr("weight_map.a: ")) << path;
  }
}

TEST_F(Indexes, ThatAreMalformedAreNamedByByteOrPath) {
  EXPECT_THAT(load(""), HasSubstr("no JSON at byte 0"));
  EXPECT_THAT(load("{\"weight_map\":{}"), HasSubstr("no JSON at byte"));
  EXPECT_THAT(load("{x}"), HasSubstr("no JSON at byte 1"));
  EXPECT_THAT(load("{\"weight_map\":{}} x"), HasSubstr("no JSON at byte 18"));
  EXPECT_THAT(load(std::string("{\"weight_map\":{}}\0", 18)), HasSubstr("no JSON at byte 17"));
  EXPECT_THAT(load("{\"weight_map\":{\"\xff\":\"x\"}}"), HasSubstr("no JSON at byte"));
  EXPECT_THAT(load("[]"), HasSubstr("expected an object, got an array"));
  EXPECT_THAT(load("3"), HasSubstr("expected an object, got a number"));
  EXPECT_THAT(load("null"), HasSubstr("expected an object, got null"));
  EXPECT_THAT(load("{}"), HasSubstr("weight_map is missing"));
  EXPECT_THAT(load(R"({"weight_map":[]})"), HasSubstr("weight_map: expected an object, got an array"));
  EXPECT_THAT(load(R"({"weight_map":{"a":1}})"), HasSubstr("weight_map.a: expected a string, got a number"));
  EXPECT_THAT(load(R"({"weight_map":{"a":{}}})"), HasSubstr("weight_map.a: expected a string, got an object"));
  EXPECT_THAT(load(R"({"weight_map":{"a":"x","a":"x"}})"), HasSubstr("weight_map.a occurs twice"));
  EXPECT_THAT(load(R"({"weight_map":{},"weight_map":{}})"), HasSubstr("weight_map occurs twice"));
  EXPECT_THAT(load(R"({"metadata":3,"weight_map":{}})"), HasSubstr("metadata: expected an object, got a number"));
  for (const char* total : {"-1", "1.5", "\"12\"", "null", "[]", "{}", "18446744073709551616"}) {
    EXPECT_THAT(with(all, total), HasSubstr("metadata.total_size")) << total;
  }
  EXPECT_THAT(load("{\"x\":" + std::string(100, '[') + std::string(100, ']') + "}"), HasSubstr("nested too deeply"));
  EXPECT_LT(with("\"" + std::string(100'000, 'n') + "\":1").size(), 800u);
}

TEST(Sharded, ThePythonPackageReadsEveryFileAndTheIndexIsPythons) {
  const std::string python = python_with("numpy, safetensors.numpy");
  if (python.empty()) GTEST_SKIP() << "no Python with numpy and safetensors";
  const TemporaryFolder folder;
  io::save_sharded({{"a", arange(10).to(f32)}, {"ünï\"code", arange(10)}, {"c", tensor(true)}}, folder.path(),
                   at_most_100);
  EXPECT_EQ(run_python(python, folder, R"(
import json
from safetensors import safe_open
from safetensors.numpy import save_file
import numpy as np
text = open("model.safetensors.index.json").read()
index = json.loads(text)
assert text == json.dumps(index, indent=2, sort_keys=True) + "\n", text
found, size = {}, 0
for name in set(index["weight_map"].values()):
    with safe_open(name, "np") as f:
        assert f.metadata() == {"format": "pt"}
        for key in f.keys():
            found[key] = f.get_tensor(key)
            size += found[key].nbytes
            assert index["weight_map"][key] == name
assert sorted(found) == sorted(index["weight_map"]) and size == index["metadata"]["total_size"]
assert found["ünï\"code"].tolist() == list(range(10))
import os
for f in set(index["weight_map"].values()): os.remove(f)
save_file({"x": np.arange(4.0)}, "model-00001-of-00002.safetensors", {"format": "np"})
save_file({"y": np.arange(3)}, "model-00002-of-00002.safetensors")
weights = {"x": "model-00001-of-00002.safetensors", "y": "model-00002-of-00002.safetensors"}
json.dump({"metadata": {"total_size": 56}, "weight_map": weights}, open("model.safetensors.index.json", "w"))
)"),
            0);
  const io::TensorMap loaded = io::load_sharded(folder.path());
  EXPECT_EQ(loaded.at("x").to_vector<int>(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(loaded.at("y").to_vector<int>(), (std::vector<int>{0, 1, 2}));
}

}  // namespace
}  // namespace weft
