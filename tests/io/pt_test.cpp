// Files of torch.save (pt_cases/make_cases.py), against PyTorch's description of them.
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <weft/io/pt.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using Kind = io::PtValue::Kind;

std::string case_file(const std::string& name) { return WEFT_SOURCE_DIR "/tests/io/pt_cases/" + name; }

#if WEFT_HAS_ZIP

class Describer {
 public:
  json of(const io::PtValue& value) {
    switch (value.kind()) {
      case Kind::none:
        return {{"kind", "none"}};
      case Kind::boolean:
        return {{"kind", "boolean"}, {"value", value.boolean()}};
      case Kind::integer:
        return {{"kind", "integer"}, {"value", value.integer()}};
      case Kind::floating:
        return {{"kind", "floating"}, {"value", value.number()}};
      case Kind::string:
        return {{"kind", "string"}, {"value", value.string()}};
      case Kind::device:
        return {{"kind", "device"}, {"value", value.string()}};
      case Kind::dtype:
        return {{"kind", "dtype"}, {"value", name(value.dtype())}};
      case Kind::bytes: {
        json bytes = json::array();
        for (const char c : value.string()) bytes.push_back(static_cast<unsigned char>(c));
        return {{"kind", "bytes"}, {"value", bytes}};
      }
      case Kind::list:
      case Kind::tuple:
      case Kind::set:
        return items_of(value);
      case Kind::dict: {
        json entries = json::array();
        for (const io::PtEntry& e : value.entries()) entries.push_back({of(e.key), of(e.value)});
        return {{"kind", "dict"}, {"entries", entries}};
      }
      case Kind::tensor:
        return tensor(value.tensor());
    }
    return {};
  }

 private:
  json items_of(const io::PtValue& value) {
    const char* kind = value.is(Kind::list) ? "list" : value.is(Kind::tuple) ? "tuple" : "set";
    json items = json::array();
    for (const io::PtValue& v : value.items()) items.push_back(of(v));
    return {{"kind", kind}, {"items", items}};
  }
  json tensor(const Tensor& t) {
    const Dims shape = t.shape();
    json strides = json::array();
    for (int i = 0; i < t.dim() && t.numel() != 0; ++i) strides.push_back(t.size(i) > 1 ? t.stride(i) : 0);
    int storage = -1;
    if (t.numel() != 0) {
      const char* start = static_cast<const char*>(t.data_ptr()) - t.storage_offset() * t.itemsize();
      storage = storages_.emplace(start, static_cast<int>(storages_.size())).first->second;
    }
    const Tensor values = t.detach();
    json listed = is_floating(t.dtype()) ? json(values.to(f64).to_vector<double>())
                  : t.dtype() == u64     ? json(values.to_vector<uint64_t>())
                                         : json(values.to_vector<int64_t>());
    return {{"kind", "tensor"},
            {"dtype", name(t.dtype())},
            {"shape", std::vector<int64_t>(shape.begin(), shape.end())},
            {"strides", strides},
            {"requires_grad", t.requires_grad()},
            {"storage", storage},
            {"values", listed}};
  }
  std::map<const char*, int> storages_;
};

TEST(Pt, FilesOfTorchSaveEqualPyTorchs) {
  json expected = json::parse(std::ifstream(case_file("expected.json")));
  for (json& wanted : expected["deflated.pt"]["entries"]) wanted[1]["values"] = std::vector<double>(400);
  ASSERT_EQ(expected.size(), 10u);
  for (const auto& [file, value] : expected.items()) {
    const json difference = json::diff(Describer().of(io::load_pt(case_file(file))), value);
    EXPECT_TRUE(difference.empty()) << file << ": " << difference.dump().substr(0, 500);
  }
}

TEST(Pt, TensorsOfOneStorageShareMemory) {
  const io::PtValue file = io::load_pt(case_file("shared.pt"));
  const Tensor weight = file.at("weight").tensor(), transposed = file.at("transposed").tensor();
  transposed[{2, 1}] = 50;
  EXPECT_EQ(weight.to_vector<float>(), (std::vector<float>{0, 1, 2, 3, 4, 50}));
  EXPECT_EQ(file.at("column").tensor().to_vector<float>(), (std::vector<float>{2, 50}));
}

TEST(Pt, ComplexTensorsAreRead) {
  const Tensor z = io::load_pt(case_file("complex.pt")).at("a").at("z").tensor();
  EXPECT_EQ(z.dtype(), c64);
  EXPECT_TRUE(equal(z, zeros({2}, c64)));
}

TEST(Pt, TiedWeightsAreOneTensor) {
  const io::PtValue file = io::load_pt(case_file("shared.pt"));
  const Tensor encoder = file.at("encoder").tensor(), decoder = file.at("decoder").tensor();
  EXPECT_EQ(file.at("encoder").identity(), file.at("decoder").identity());
  (encoder * 2.0).sum().backward();
  EXPECT_EQ(decoder.grad().to_vector<float>(), (std::vector<float>{2, 2}));
}

TEST(Pt, TensorsComeToTheDeviceThatIsAskedFor) {
  const io::PtValue file = io::load_pt(case_file("shared.pt"), "meta");
  EXPECT_EQ(file.at("transposed").tensor().device(), Device("meta"));
  EXPECT_EQ(file.at("transposed").tensor().strides(), Dims({1, 3}));
  EXPECT_TRUE(file.at("encoder").tensor().requires_grad());
  EXPECT_EQ(io::load_pt_state_dict(case_file("cuda.pt")).at("x").device(), Device());
}

TEST(Pt, AccessorsAskForTheKindThatIsThere) {
  const io::PtValue file = io::load_pt(case_file("tree.pt"));
  EXPECT_EQ(file.at("epoch").integer(), 3);
  EXPECT_EQ(file.at("epoch").number(), 3.0);
  EXPECT_EQ(file.at(7).string(), "seven");
  EXPECT_EQ(file.at("tuples").at(3).size(), 4u);
  EXPECT_EQ(file.at("nested").at("a").at(0).at("b").at(0).tensor().item<double>(), 2.5);
  EXPECT_EQ(file.at("twice").at(0).identity(), file.at("twice").at(1).identity());
  EXPECT_TRUE(file.at("nothing").is(Kind::none));
  EXPECT_EQ(file.find("absent"), nullptr);
  EXPECT_THAT(message_of<ValueError>([&] { file.at("absent"); }), HasSubstr("the dict has no key \"absent\""));
  EXPECT_THAT(message_of<ValueError>([&] { file.at("name").integer(); }),
              HasSubstr("value: expected an int, got a string"));
  EXPECT_THAT(message_of<ValueError>([&] { file.at("tuples").at(4); }), HasSubstr("4 elements and no 4"));
  EXPECT_THAT(message_of<ValueError>([&] { file.at("epoch").items(); }),
              HasSubstr("value: expected a list, got an int"));
  EXPECT_THAT(message_of<ValueError>([&] { io::PtValue().tensor(); }), HasSubstr("value: expected a tensor, got None"));
}

TEST(Pt, StateDictsComeAsMaps) {
  const io::TensorMap model = io::load_pt_state_dict(case_file("training.pt"), "model");
  EXPECT_EQ(model.size(), 7u);
  EXPECT_EQ(model.at("fc.weight").shape(), Dims({3, 2}));
  EXPECT_EQ(model.at("norm.num_batches_tracked").item<int64_t>(), 1);
  const auto refusal = [](const std::string& file, const std::string& entry) {
    return message_of<ValueError>([&] { io::load_pt_state_dict(case_file(file), entry); });
  };
  EXPECT_THAT(refusal("training.pt", ""), HasSubstr("the value under \"epoch\" is no tensor; name the entry"));
  EXPECT_THAT(refusal("training.pt", "net"), HasSubstr("there is no entry \"net\""));
  EXPECT_THAT(refusal("training.pt", "epoch"), HasSubstr("no dict of tensors"));
  EXPECT_THAT(refusal("tensor.pt", ""), HasSubstr("no dict of tensors"));
}

TEST(Pt, UnsupportedDtypesRaiseWithTheKey) {
  const auto refusal = [](const std::string& file) {
    return message_of<DTypeError>([&] { io::load_pt(case_file(file)); });
  };
  EXPECT_THAT(refusal("complex32.pt"), HasSubstr("\"half\" is complex32"));
  EXPECT_THAT(refusal("quantised.pt"), HasSubstr("\"[0]\" is quantised"));
  EXPECT_THAT(message_of<ShapeError>([&] { io::load_pt(case_file("rank9.pt")); }), HasSubstr("9 dimensions"));
}

TEST(Pt, CodeIsRefusedByName) {
  const auto refusal = [](const std::string& file) {
    return message_of<FormatError>([&] { io::load_pt(case_file(file)); });
  };
  EXPECT_THAT(refusal("module.pt"), HasSubstr("byte 2: the global \"torch.nn.modules.linear.Linear\" is refused"));
  EXPECT_THAT(refusal("sparse.pt"), HasSubstr("the global \"torch._utils._rebuild_sparse_tensor\" is refused"));
  EXPECT_THAT(refusal("negated.pt"), HasSubstr("a tensor has metadata"));
}

TEST(Pt, FilesBeforePyTorch16RaiseWithARemedy) {
  const std::string words = message_of<FormatError>([] { io::load_pt(case_file("legacy.pt")); });
  EXPECT_THAT(words, HasSubstr("before 1.6"));
  EXPECT_THAT(words, HasSubstr("torch.save(torch.load(name), name)"));
}

TEST(Pt, ErrorsOfOtherReadersNameTheRightOne) {
  EXPECT_THAT(message_of<FormatError>([] { io::load_file(case_file("tensor.pt")); }), HasSubstr("load_pt reads files"));
}

TEST(Pt, OtherFilesAreRefused) {
  const TemporaryFolder folder;
  write_bytes(folder / "text", "hello");
  write_bytes(folder / "empty", "");
  EXPECT_THROW(io::load_pt(folder / "text"), FormatError);
  EXPECT_THROW(io::load_pt(folder / "empty"), FormatError);
  EXPECT_THROW(io::load_pt(folder / "absent"), IoError);
  EXPECT_THROW(io::load_pt(folder.path()), IoError);
}

#else

TEST(Pt, WithoutLibzipTheErrorNamesIt) {
  const std::string words = message_of<IoError>([] { io::load_pt(case_file("tensor.pt")); });
  EXPECT_THAT(words, HasSubstr("libzip-dev"));
  EXPECT_THAT(words, HasSubstr("-DWEFT_WITH_ZIP=ON"));
}

#endif

}  // namespace
}  // namespace weft
