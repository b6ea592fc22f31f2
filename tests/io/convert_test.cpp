// `./weft convert`, run as a user runs it.
#include <filesystem>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/io/model.hpp>
#include <weft/io/tensor_json.hpp>
#include <weft/weft.hpp>

#include <run_program.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::HasSubstr;

class Convert : public testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(examples + "weft-convert")) GTEST_SKIP() << "weft-convert was not built";
    tensors = {{"a.weight", randn({3, 4})},
               {"a.half", randn({5}).to(DType::f16)},
               {"b.count", arange(7)},
               {"b.flag", ones({2, 1}, DType::boolean)},
               {"b.odd", full({2}, std::nan(""))}};
    io::save_file(tensors, folder / "in.safetensors", {{"by", "test"}});
  }
  void converts(const std::string& arguments) {
    const Outcome outcome = run(folder, "weft-convert " + arguments);
    EXPECT_EQ(outcome.code, 0) << outcome.words;
    EXPECT_THAT(outcome.words, HasSubstr("read again and found equal"));
  }
  void refuses(const std::string& arguments, const std::string& words) {
    const Outcome outcome = run(folder, "weft-convert " + arguments);
    EXPECT_NE(outcome.code, 0);
    EXPECT_THAT(outcome.words, HasSubstr(words));
    EXPECT_LE(std::count(outcome.words.begin(), outcome.words.end(), '\n'), 4);
  }
  std::string bytes(const std::string& name) const { return read_bytes(folder / name); }

  TemporaryFolder folder;
  io::TensorMap tensors;
};

TEST_F(Convert, EveryFormatLeadsBackToTheSameBytes) {
  for (const char* format : {"t.json", "t.cbor", "t.npz", "folder/"}) {
    SCOPED_TRACE(format);
    converts(std::string("in.safetensors ") + format);
    converts(std::string(format) + " back.safetensors --force");
    const io::TensorMap back = io::load_file(folder / "back.safetensors");
    EXPECT_EQ(io::tensors_to_json(back), io::tensors_to_json(tensors));
  }
  converts("in.safetensors same.safetensors");
  EXPECT_EQ(bytes("same.safetensors"), bytes("in.safetensors"));
}

TEST_F(Convert, TreesGoFromTextToBinaryAndBack) {
  write_bytes(folder / "model.json", io::to_json(nn::Sequential(nn::Linear(2, 3), nn::ReLU())));
  converts("model.json model.cbor");
  converts("model.cbor again.json");
  EXPECT_EQ(bytes("again.json"), bytes("model.json"));
  EXPECT_LT(bytes("model.cbor").size(), bytes("model.json").size());
  refuses("model.json model.safetensors", "a model's tree has no weights");
}

TEST_F(Convert, ReadsFilesOfTorchSave) {
  if (WEFT_HAS_ZIP == 0) GTEST_SKIP() << "built without libzip";
  converts(WEFT_SOURCE_DIR "/tests/io/pt_cases/training.pt t.safetensors --entry model --dtype bfloat16");
  EXPECT_EQ(io::load_file(folder / "t.safetensors").begin()->second.dtype(), DType::bf16);
}

TEST_F(Convert, TensorsGoThroughAMapping) {
  write_bytes(folder / "names.map", "a.weight -> q, k, v, axis=0\na.half -> _\nb.count -> count, dtype=\"float32\"\n");
  converts("in.safetensors out.safetensors --map names.map");
  const io::TensorMap out = io::load_file(folder / "out.safetensors");
  EXPECT_TRUE(out.at("k").equal(tensors.at("a.weight").narrow(0, 1, 1)));
  EXPECT_EQ(out.at("count").dtype(), DType::f32);
  EXPECT_FALSE(out.contains("a.half"));
  write_bytes(folder / "wrong.map", "a.wight -> q\n");
  refuses("in.safetensors new.safetensors --map wrong.map", "a.wight");
}

TEST_F(Convert, LargeFoldersHaveSeveralFiles) {
  io::save_file({{"a", ones(1000)}, {"b", ones(1000)}}, folder / "large.safetensors");
  converts("large.safetensors parts/ --max-shard-size 5KB");
  EXPECT_TRUE(std::filesystem::exists(folder / "parts" / "model-00002-of-00002.safetensors"));
}

TEST_F(Convert, DescribesErrorsAndReplacesNothingWithoutTheOption) {
  write_bytes(folder / "mine.npz", "mine");
  refuses("in.safetensors mine.npz", "mine.npz is there");
  EXPECT_EQ(bytes("mine.npz"), "mine");
  refuses("absent.safetensors out.npz", "absent.safetensors");
  refuses("in.safetensors out.gif", "no kind that is written");
  refuses("in.gif out.npz", "no kind that is read");
  refuses("in.safetensors out.npz --entry model", "--entry is for files of torch.save");
  refuses("in.safetensors out.npz --dtype float33", "unknown dtype 'float33'");
  write_bytes(folder / "broken.json", "{\"model\"");
  refuses("broken.json out.npz", "malformed JSON");
  write_bytes(folder / "broken.cbor", "\xff\xff");
  refuses("broken.cbor out.npz", "is no CBOR");
  const Outcome help = run(folder, "weft-convert --help");
  EXPECT_EQ(help.code, 0);
  EXPECT_THAT(help.words, HasSubstr("--max-shard-size"));
}

}  // namespace
}  // namespace weft
