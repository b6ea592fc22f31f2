#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>

#include <nlohmann/json.hpp>

#include <weft/io/model.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;
using nn::AnyModule;
using nn::ModuleDescription;
using nn::ModuleRegistry;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

/// Every parameter and buffer filled with 0, 1/64, 2/64, …
template <class M>
M filled(M module) {
  NoGradGuard unrecorded;
  double start = 0;
  for (const auto& list : {module.parameters(), module.buffers()}) {
    for (Tensor t : list) {
      t.copy_((arange(t.numel()).to(DType::f64) + start).reshape(t.shape()) / 64);
      start += 1;
    }
  }
  return module;
}

nn::Sequential small_net() {
  return filled(nn::Sequential(nn::Conv2d(1, 2, {3, 3}, {.padding = "same"}), nn::BatchNorm2d(2), nn::ReLU(),
                               nn::MaxPool2d(2), nn::Flatten(), nn::Dropout(0.25), nn::Linear(8, 3)));
}

void expect_same_values(const nn::Module& a, const nn::Module& b) {
  const nn::StateDict left = a.state_dict(), right = b.state_dict();
  ASSERT_EQ(left.size(), right.size());
  for (const auto& [name, value] : left) {
    ASSERT_TRUE(right.contains(name)) << name;
    EXPECT_EQ(value.dtype(), right.at(name).dtype()) << name;
    EXPECT_TRUE(value.equal(right.at(name))) << name;
  }
}

TEST(ModelJson, ReadsAsDocumented) {
  const nn::Sequential net(nn::Linear(2, 3));
  nn::Module(net).eval();
  EXPECT_EQ(Json::parse(io::to_json(net)), Json::parse(R"({
    "format_version": "1.0", "required_features": [],
    "model": {"type": "Sequential", "training": false, "children": [
      {"name": "0", "type": "Linear", "training": false,
       "config": {"in_features": 2, "out_features": 3, "bias": true},
       "parameters": [{"name": "weight", "dtype": "float32", "shape": [3, 2], "requires_grad": true},
                      {"name": "bias", "dtype": "float32", "shape": [3], "requires_grad": true}]}]}})"));
}

TEST(ModelJson, EveryKindOfOptionComesBack) {
  ModuleDescription d{.type = "T"};
  const double infinity = std::numeric_limits<double>::infinity();
  d.config = {{"none", {}},
              {"yes", true},
              {"most", std::numeric_limits<int64_t>::max()},
              {"least", std::numeric_limits<int64_t>::min()},
              {"one", 1.0},
              {"minus", -0.0},
              {"tiny", 5e-324},
              {"third", 1.0 / 3},
              {"text", "ü\n\"quoted\""},
              {"empty", ""},
              {"no i32", std::vector<int32_t>()},
              {"no i64", std::vector<int64_t>()},
              {"no f64", std::vector<double>()},
              {"no text", std::vector<std::string>()},
              {"bools", std::vector<bool>{true, false}},
              {"numbers", std::vector<double>{0.1, infinity, -infinity, std::nan("")}}};
  const std::string text = io::to_json(d);
  const ModuleDescription back = io::read_model(text);
  ASSERT_EQ(back.config.options().size(), d.config.options().size());
  for (size_t i = 0; i < d.config.options().size(); ++i) {
    EXPECT_EQ(back.config.options()[i].name, d.config.options()[i].name);
    EXPECT_EQ(back.config.options()[i].value, d.config.options()[i].value) << d.config.options()[i].name;
  }
  EXPECT_EQ(io::to_json(back), text);
  d.config = {{"infinite", infinity}};
  EXPECT_EQ(io::read_model(io::to_json(d)).config.get<double>("infinite"), infinity);
}

std::string with_model(const std::string& model, const std::string& more = R"("format_version": "1.0")") {
  return "{" + more + ", \"model\": " + model + "}";
}

TEST(ModelJson, MalformedTextIsRefusedWithThePlace) {
  const std::pair<std::string, const char*> cases[] = {
      {"", "malformed JSON at byte"},
      {"[]", "the text: it is no object"},
      {"{\"a\": 1,}", "malformed JSON at byte 9"},
      {R"({"model": {}})", "there is no \"format_version\""},
      {R"({"format_version": "1.0"})", "there is no \"model\""},
      {R"({"format_version": 1, "model": {}})", "format_version: it is no text"},
      {R"({"format_version": "1", "model": {}})", "is no version such as 1.0"},
      {R"({"format_version": "-1.0", "model": {}})", "is no version"},
      {R"({"format_version": "1.0x", "model": {}})", "is no version"},
      {R"({"format_version": "99999999999.0", "model": {}})", "is no version"},
      {with_model("[]"), "model: it is no object"},
      {with_model("{}"), "model: there is no \"type\""},
      {with_model(R"({"type": 3})"), "model.type: it is no text"},
      {with_model(R"({"type": "A", "type": "B"})"), "\"type\" is there twice in one object"},
      {with_model(R"({"type": "A", "version": -1})"), "model.version: a version is not negative"},
      {with_model(R"({"type": "A", "version": 1.5})"), "model.version: it is no 64-bit integer"},
      {with_model(R"({"type": "A", "training": 1})"), "model.training: it is no bool"},
      {with_model(R"({"type": "A", "config": []})"), "model.config: it is no object"},
      {with_model(R"({"type": "A", "config": {"k": [1]}})"), "model.config.k: a list is written with its type"},
      {with_model(R"({"type": "A", "config": {"k": {"i16": []}}})"), "\"i16\" is no type of a list's elements"},
      {with_model(R"({"type": "A", "config": {"k": {"i64": [1, null]}}})"), "model.config.k.i64[1]: it is no 64-bit"},
      {with_model(R"({"type": "A", "config": {"k": {"f64": [null]}}})"), "model.config.k.f64[0]: it is no number"},
      {with_model(R"({"type": "A", "config": {"k": {"f64": ["nan"]}}})"), "it is no number"},
      {with_model(R"({"type": "A", "config": {"k": {"i32": [2147483648]}}})"), "it is no 32-bit integer"},
      {with_model(R"({"type": "A", "config": {"k": 18446744073709551615}})"), "it is no 64-bit integer"},
      {with_model(R"({"type": "A", "config": {"k": 1e999}})"), "of the JSON is too large"},
      {with_model(R"({"type": "A", "children": {}})"), "model.children: it is no list"},
      {with_model(R"({"type": "A", "children": [{"type": "B"}]})"), "model.children[0]: there is no \"name\""},
      {with_model(R"({"type": "A", "children": [{"name": "a.b", "type": "B"}]})"), "has no dot"},
      {with_model(R"({"type": "A", "children": [{"name": "a", "type": "B"}, {"name": "a", "type": "B"}]})"),
       "\"a\" is there twice"},
      {with_model(R"({"type": "A", "parameters": [{"name": "w", "dtype": "f33", "shape": []}]})"),
       "model.parameters[0].dtype: \"f33\" is no dtype"},
      {with_model(R"({"type": "A", "parameters": [{"name": "w", "dtype": "float32", "shape": [-1]}]})"),
       "model.parameters[0].shape[0]: a size is negative"},
      {with_model(R"({"type": "A", "buffers": [{"name": "w", "dtype": "float32", "shape": [1,1,1,1,1,1,1,1,1]}]})"),
       "more than 8 dimensions"},
      {with_model(R"({"type": "A", "parameters": [{"name": "w", "dtype": "float32"}]})"), "there is no \"shape\""},
      {std::string(1000, '['), "levels of JSON"},
      {with_model(R"({"type": "A"})") + std::string("\0x", 2), "malformed JSON at byte"},
  };
  for (const auto& [text, problem] : cases) {
    EXPECT_THAT(message_of<FormatError>([&, &text = text] { (void)io::read_model(text); }), HasSubstr(problem)) << text;
  }
}

TEST(ModelJson, NewerMajorVersionsAndUnknownFeaturesAreRefused) {
  const std::string model = R"({"type": "ReLU"})";
  EXPECT_THAT(message_of<VersionError>([&] { (void)io::from_json(with_model(model, R"("format_version": "2.0")")); }),
              HasSubstr("version 2.0, newer than this program's 1.0"));
  EXPECT_THAT(
      message_of<VersionError>([&] {
        (void)io::from_json(with_model(model, R"("format_version": "1.0", "required_features": ["sparse layout"])"));
      }),
      HasSubstr("the model needs \"sparse layout\""));
}

TEST(ModelJson, KeepsFieldsOfANewerMinorVersion) {
  const std::string text = with_model(
      R"({"type": "Sequential", "note": {"by": [1, 2]}, "children": [{"name": "0", "type": "ReLU", "cost": 3}]})",
      R"("format_version": "1.7", "made_by": "tomorrow")");
  const Json again = Json::parse(io::to_json(io::from_json(text)));
  EXPECT_EQ(again["made_by"], "tomorrow");
  EXPECT_EQ(again["model"]["note"], Json::parse(R"({"by": [1, 2]})"));
  EXPECT_EQ(again["model"]["children"][0]["cost"], 3);
  EXPECT_EQ(io::to_json(io::from_json(again.dump())), io::to_json(io::from_json(text)));
}

TEST(ModelFolder, LoadsAsACallableWithoutItsClass) {
  const TemporaryFolder folder;
  const nn::Sequential net = small_net();
  io::save_model(folder / "net", net, {.documents = {{"generation_config", "{\"p\": 0.9}"}}});
  AnyModule loaded = io::load_model(folder / "net");
  expect_same_values(net, loaded);
  EXPECT_EQ(io::to_json(loaded), io::to_json(net));
  nn::Module(net).eval(), loaded.eval();
  const Tensor x = randn({2, 1, 4, 4});
  EXPECT_TRUE(loaded(x).equal(net(x)));
  EXPECT_EQ(read_bytes(folder / "net" / "generation_config.json"), "{\"p\": 0.9}");
  const AnyModule half = io::load_model(folder / "net", {.dtype = DType::bf16});
  EXPECT_EQ(half.parameters()[0].dtype(), DType::bf16);
}

TEST(ModelFolder, TiedWeightsStayTied) {
  const TemporaryFolder folder;
  nn::Sequential net(nn::Embedding(5, 4), nn::Linear(4, 5, false));
  net[1].as<nn::Linear>().weight = net[0].as<nn::Embedding>().weight;
  io::save_model(folder / "net", net);
  const auto loaded = io::load_model(folder / "net").as<nn::Sequential>();
  ASSERT_EQ(loaded.parameters().size(), 1u);
  const Tensor x = tensor({0, 3, 4}, {.dtype = DType::i64});
  EXPECT_TRUE(loaded(x).equal(net(x)));
  loaded(x).sum().backward();
  EXPECT_TRUE(loaded.parameters()[0].grad().defined());
}

TEST(ModelFolder, WeightsThatWereUntiedStayApart) {
  struct Tied : nn::Layer<Tied> {
    Tied() {
      WEFT_REGISTER(token, head);
      head.weight = token.weight;
    }
    Tensor forward(const Tensor& x) const { return head(token(x)); }
    nn::Embedding token{5, 4};
    nn::Linear head{4, 5, false};
  };
  const TemporaryFolder folder;
  nn::ModuleRegistry registry = nn::ModuleRegistry::standard();
  registry.add<Tied>("Tied");
  Tied net;
  net.head.weight = nn::Parameter(randn({5, 4}));
  io::save_model(folder / "net", net, {.registry = registry});
  const auto loaded = io::load_model(folder / "net", {.registry = registry}).as<Tied>();
  EXPECT_EQ(loaded.parameters().size(), 2u);
  const Tensor x = tensor({0, 3, 4}, {.dtype = DType::i64});
  EXPECT_TRUE(loaded(x).equal(net(x)));
}

TEST(ModelFolder, ParametersMayBeTrainedAfterLoading) {
  const TemporaryFolder folder;
  const nn::Sequential net = small_net();
  io::save_model(folder / "net", net);
  const AnyModule loaded = io::load_model(folder / "net");
  const std::string before = read_bytes(folder / "net" / "model.safetensors");
  optim::SGD optimizer(loaded.parameters(), {.lr = 0.1});
  loaded(randn({2, 1, 4, 4})).sum().backward();
  optimizer.step();
  io::save_model(folder / "net", loaded);  // over the file that it was mapped from
  expect_same_values(loaded, io::load_model(folder / "net"));
  EXPECT_NE(read_bytes(folder / "net" / "model.safetensors"), before);
}

TEST(ModelFolder, ANameMayEndWithASlash) {
  const TemporaryFolder folder;
  const nn::Sequential net = small_net();
  for (int i = 0; i < 2; ++i) {
    io::save_model((folder / "net").string() + "/", net);
    expect_same_values(net, io::load_model((folder / "net").string() + "/"));
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 1);
}

TEST(ModelFolder, LargeModelsAreSavedInSeveralFiles) {
  const TemporaryFolder folder;
  const nn::Sequential net = filled(nn::Sequential(nn::Linear(100, 50), nn::Linear(50, 100)));
  io::save_model(folder / "net", net, {.max_shard_size = "21KB"});
  EXPECT_TRUE(fs::exists(folder / "net" / "model.safetensors.index.json"));
  expect_same_values(net, io::load_model(folder / "net"));
  io::save_model(folder / "net", net);
  EXPECT_FALSE(fs::exists(folder / "net" / "model.safetensors.index.json"));
  expect_same_values(net, io::load_model(folder / "net"));
}

TEST(ModelFolder, ATrainingStateIsAModel) {
  const TemporaryFolder folder;
  nn::Sequential net = small_net();
  optim::AdamW optimizer(net.parameters());
  const io::Path state = io::save_training_state(folder / "run", {net, &optimizer}, {.step = 3});
  expect_same_values(net, io::load_model(state));
  EXPECT_THROW((void)io::save_training_state(folder / "run", {net}, {.step = 4, .documents = {{"model", "{}"}}}),
               ValueError);
}

TEST(ModelFolder, AFailureLeavesTheOldModel) {
  const TemporaryFolder folder;
  const nn::Sequential net = small_net();
  io::save_model(folder / "net", net);
  EXPECT_THROW(io::save_model(folder / "net", net, {.documents = {{"model", "{}"}}}), ValueError);
  EXPECT_THROW(io::save_model(folder / "net", net, {.documents = {{"a/b", "{}"}}}), ValueError);
  EXPECT_THROW(io::save_model(folder / "net", net, {.documents = {{"a", "{"}}}), ValueError);
  EXPECT_THROW(io::save_model(folder / "net", net, {.max_shard_size = "x"}), ValueError);
  EXPECT_THROW(io::save_model(folder / "absent" / "net", net), IoError);
  expect_same_values(net, io::load_model(folder / "net"));
  fs::create_directory(folder / "mine");
  write_bytes(folder / "mine" / "thesis.txt", "all of it");
  EXPECT_THAT(message_of<ValueError>([&] { io::save_model(folder / "mine", net); }), HasSubstr("is no model"));
  EXPECT_EQ(read_bytes(folder / "mine" / "thesis.txt"), "all of it");
  fs::create_directory(folder / "empty");
  io::save_model(folder / "empty", net);
  expect_same_values(net, io::load_model(folder / "empty"));
}

TEST(ModelFolder, ATreeLargerThanTheWeightsIsRefusedBeforeItTakesMemory) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& type, const nlohmann::json& config) {
    SCOPED_TRACE(config.dump());
    io::save_model(folder / "net", small_net());
    const nlohmann::json tree = {{"format_version", "1.0"},
                                 {"required_features", nlohmann::json::array()},
                                 {"model", {{"type", type}, {"config", config}}}};
    write_bytes(folder / "net" / "model.json", tree.dump());
    const size_t before = memory_stats().peak_allocated;
    EXPECT_THROW((void)io::load_model(folder / "net"), Error);
    EXPECT_LT(memory_stats().peak_allocated, before + (size_t{1} << 30));
  };
  refused("Linear", {{"in_features", 100000}, {"out_features", 100000}});
  refused("Embedding", {{"num_embeddings", 4000000000}, {"embedding_dim", 64}});
  refused("LSTM", {{"input_size", 1}, {"hidden_size", 1}, {"num_layers", 1000000000}});
  refused("BatchNorm1d", {{"num_features", 100000000000}});
}

// A class whose option does not describe its head.
struct Headed : nn::Layer<Headed> {
  explicit Headed(int64_t width) : body(2, width), head(width, 3), blocks({nn::Linear(2, 2)}) {
    WEFT_REGISTER(body, head, blocks);
    set_config({{"width", width}});
  }
  Tensor forward(const Tensor& x) const { return head(body(x)); }
  nn::Linear body, head;
  nn::ModuleList<nn::Linear> blocks;
};

ModuleRegistry with_headed() {
  ModuleRegistry registry = ModuleRegistry::standard();
  registry.add<Headed>("Headed", [](const nn::Config& c) { return Headed(c.get<int64_t>("width")); });
  return registry;
}

TEST(ModelFolder, AReplacedMemberThatLoadingWouldMissIsRefusedWhenItIsSaved) {
  const TemporaryFolder folder;
  const ModuleRegistry registry = with_headed();
  const auto refused = [&](const char* path, const char* difference, auto&& change) {
    const nn::Sequential net(nn::ReLU(), Headed(4));
    Headed inner = net[1].as<Headed>();
    change(inner);
    const GeneratorState before = default_generator().state();
    const std::string words =
        message_of<ValueError>([&] { io::save_model(folder / "net", net, {.registry = registry}); });
    EXPECT_THAT(words, AllOf(HasSubstr(path), HasSubstr(difference), HasSubstr("set_config")));
    EXPECT_FALSE(fs::exists(folder / "net"));
    EXPECT_TRUE(default_generator().state() == before) << "it draws";
  };
  refused("1: ", "out_features", [](Headed& net) { net.head = nn::Linear(4, 7); });
  refused("1: ", "bias", [](Headed& net) { net.head.bias = nn::Parameter(); });
  refused("1: ", "[9, 4]", [](Headed& net) { net.head.weight = nn::Parameter(ones({9, 4})); });
  refused("1: ", "it has no \"1\"", [](Headed& net) { net.blocks.append(nn::Linear(2, 2)); });
  refused("1: ", "QuantizedLinear", [](Headed& net) { nn::quantize(net, {.targets = {"head"}}); });
}

TEST(ModelFolder, AReplacedMemberOfTheSameOptionsIsSavedAndLoaded) {
  const TemporaryFolder folder;
  const ModuleRegistry registry = with_headed();
  Headed net(2);
  net.head = nn::Linear(2, 3);             // as constructed
  net.blocks[0].weight = net.body.weight;  // tied
  io::save_model(folder / "net", net, {.registry = registry});
  expect_same_values(net, io::load_model(folder / "net", {.registry = registry}));
}

TEST(ModelFolder, LayersReplacedInAConstructorAreRebuilt) {
  struct Grown : nn::Layer<Grown> {
    Grown() {
      WEFT_REGISTER(layer, list);
      layer = nn::Linear(2, 5);
      list.append(nn::Linear(1, 1));
    }
    Tensor forward(const Tensor& x) const { return layer(x); }
    nn::Linear layer{2, 2};
    nn::ModuleList<nn::Linear> list;
  };
  ModuleRegistry registry = ModuleRegistry::standard();
  registry.add<Grown>("Grown");
  const TemporaryFolder folder;
  const Grown net;
  io::save_model(folder / "net", net, {.registry = registry});
  expect_same_values(net, io::load_model(folder / "net", {.registry = registry}));
}

struct Unregistered : nn::Layer<Unregistered> {
  nn::Linear fc{2, 2};
  Unregistered() { WEFT_REGISTER(fc); }
  Tensor forward(const Tensor& x) const { return fc(x); }
};

TEST(ModelFolder, RejectsModelsThatCannotBeLoadedOnSaving) {
  const TemporaryFolder folder;
  const auto refused = [&](const nn::Module& module, const char* path) {
    const std::string words = message_of<ValueError>([&] { io::save_model(folder / "net", module); });
    EXPECT_THAT(words, HasSubstr(path));
    EXPECT_THAT(words, HasSubstr("registry.add"));
    EXPECT_FALSE(fs::exists(folder / "net"));
  };
  refused(Unregistered(), "Unregistered");
  refused(nn::Sequential(nn::Linear(2, 2), Unregistered()), "1: ");
  refused(nn::Sequential(nn::Linear(2, 2), [](const Tensor& x) { return relu(x); }), "1: ");
  refused(nn::Sequential(nn::ReLU(), nn::Sequential(nn::ReLU(), [](const Tensor& x) { return relu(x); })), "1.1: ");
  nn::ModuleRegistry registry = nn::ModuleRegistry::standard();
  registry.add<Unregistered>("Unregistered");
  const nn::Sequential net{Unregistered()};
  io::save_model(folder / "net", net, {.registry = registry});
  expect_same_values(net, io::load_model(folder / "net", {.registry = registry}));
}

TEST(ModelFolder, RejectsMismatchedFiles) {
  const TemporaryFolder folder;
  const nn::Sequential net = small_net();
  io::save_model(folder / "net", net);
  EXPECT_THROW((void)io::load_model(folder / "absent"), IoError);
  fs::copy(folder / "net", folder / "other");
  io::save_file({{"0.weight", ones(3)}}, folder / "other" / "model.safetensors");
  EXPECT_THROW((void)io::load_model(folder / "other"), ShapeError);
  io::TensorMap fewer = net.state_dict();
  fewer.erase("6.bias");
  io::save_file(fewer, folder / "other" / "model.safetensors");
  EXPECT_THAT(message_of<ValueError>([&] { (void)io::load_model(folder / "other"); }), HasSubstr("missing: 6.bias"));
  io::TensorMap more = net.state_dict();
  more.emplace("7.bias", ones(3));
  io::save_file(more, folder / "other" / "model.safetensors");
  EXPECT_THAT(message_of<ValueError>([&] { (void)io::load_model(folder / "other"); }), HasSubstr("unexpected: 7.bias"));
  fs::remove(folder / "other" / "model.safetensors");
  EXPECT_THROW((void)io::load_model(folder / "other"), IoError);
  write_bytes(folder / "other" / "model.json", "{");
  EXPECT_THAT(message_of<FormatError>([&] { (void)io::load_model(folder / "other"); }),
              AllOf(HasSubstr("model.json"), HasSubstr("malformed JSON")));
  EXPECT_THROW((void)io::load_model(folder / "net", {.dtype = DType::i64}), DTypeError);
}

struct Old : nn::Layer<Old> {
  Old() : body(2, 2), mask(ones(2)), dropped(ones(3)) { WEFT_REGISTER(body, mask, dropped); }
  Tensor forward(const Tensor& x) const { return body(x) * mask; }
  nn::Linear body;
  nn::Buffer mask;
  nn::Parameter dropped;
};
struct New : nn::Layer<New> {
  New() : layer(2, 2), keep(zeros(2)), shift(zeros(2)) { WEFT_REGISTER(layer, keep, shift); }
  Tensor forward(const Tensor& x) const { return layer(x) * keep + shift; }
  nn::Linear layer;
  nn::Parameter keep, shift;  // "mask" was a buffer
};

TEST(ModelFolder, MigrationsRenameDropAndAddTheWeightsOfAnOldModel) {
  const TemporaryFolder folder;
  ModuleRegistry then = ModuleRegistry::standard();
  then.add<Old>("Net");
  const nn::Sequential net(filled(Old()), nn::Tanh());
  ModuleDescription tree = then.describe(net);
  tree.children[0].type = "Net";
  io::save_model(folder / "net", net, {.registry = then});
  write_bytes(folder / "net" / "model.json", io::to_json(tree));

  ModuleRegistry now = ModuleRegistry::standard();
  now.add<New>("New");
  now.add_migration("Net", 1, [](ModuleDescription& d) {
    d.type = "New";
    d.version = 1;
    d.children[0].name = "layer";
    nn::TensorDescription keep = d.buffers[0];
    keep.name = "keep";
    d.buffers.clear();
    d.parameters = {keep, {.name = "shift", .shape = {2}}};
  });
  const AnyModule loaded = io::load_model(folder / "net", {.registry = now});
  const Tensor x = tensor({{1.f, 2.f}});
  EXPECT_TRUE(loaded(x).equal(tanh(net[0].as<Old>()(x))));
}

// ---- every released version's files ----

io::Path golden(const std::string& version) { return WEFT_SOURCE_DIR "/tests/io/versions/" + version; }

nn::Sequential golden_net() {
  return filled(nn::Sequential(nn::Embedding(5, 4, 0), nn::TransformerBlock(4, 2, {.dropout = 0.1}), nn::RMSNorm({4}),
                               nn::Linear(4, 3, false), nn::Softmax(-1)));
}

// Written by this program's version when WEFT_TEST_WRITE_VERSIONS names it; never written anew after its release.
TEST(ModelFolder, EveryReleasedVersionLoads) {
  const nn::Sequential net = golden_net();
  if (const char* version = std::getenv("WEFT_TEST_WRITE_VERSIONS")) {
    fs::create_directories(golden(version).string());
    io::save_model(golden(version) / "model", net, {.max_shard_size = 600});
    nn::Sequential trained(nn::Linear(2, 2), nn::Dropout());
    filled(trained);
    optim::AdamW optimizer(trained.parameters(), {.lr = 0.5});
    for (const Tensor& p : trained.parameters()) p.set_grad(ones_like(p));
    optimizer.step();
    io::save_training_state(golden(version) / "run", {trained, &optimizer},
                            {.step = 1, .samples = 8, .best_metric = 0.25, .documents = {{"config", "{}"}}});
  }
  int count = 0;
  for (const auto& entry : fs::directory_iterator(WEFT_SOURCE_DIR "/tests/io/versions")) {
    const fs::path version = entry.path();
    SCOPED_TRACE(version);
    ++count;
    expect_same_values(net, io::load_model(version / "model"));
    EXPECT_EQ(io::to_json(io::load_model(version / "model")), io::to_json(net));
    nn::Sequential trained(nn::Linear(2, 2), nn::Dropout());
    optim::AdamW optimizer(trained.parameters(), {.lr = 0.1});
    const io::RunState state = io::load_training_state(version / "run", {trained, &optimizer});
    EXPECT_EQ(state.step, 1);
    EXPECT_EQ(state.samples, 8);
    EXPECT_EQ(state.best_metric, 0.25);
    EXPECT_EQ(optimizer.lr(), 0.5);
    EXPECT_NEAR(trained.parameters()[1].to_vector<float>()[0], 1.0 / 64 * 0.995 - 0.5, 1e-6);
    expect_same_values(trained, io::load_model(version / "run" / "step-00000001"));
  }
  EXPECT_GE(count, 1);
}

}  // namespace
}  // namespace weft
