// Sizes that a model's file claims: each integer of model.json is replaced by others. Loading refuses it at once, or
// loads the model if the number does not concern the weights.
#include <chrono>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <weft/io/model.hpp>
#include <weft/nn/draft_heads.hpp>
#include <weft/nn/moe.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

void add_integers(Json& json, std::vector<Json*>& out) {
  if (json.is_number_integer()) out.push_back(&json);
  if (!json.is_structured()) return;
  for (auto& item : json) add_integers(item, out);
}

struct Cost {
  double seconds;
  size_t bytes;
};

Cost cost_of(const auto& f) {
  reset_peak();
  const size_t before = memory_stats().allocated;
  const auto start = std::chrono::steady_clock::now();
  f();
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  return {passed.count(), memory_stats().peak_allocated - before};
}

/// Returns how many of the changed files were refused.
int change_each_integer(const nn::Module& model) {
  const TemporaryFolder folder;
  io::save_model(folder / "m", model);
  const Json tree = Json::parse(read_bytes(folder / "m/model.json"));
  Json changed = tree;
  std::vector<Json*> integers;
  add_integers(changed, integers);
  int refused = 0;
  for (Json* const place : integers) {
    const Json before = *place;
    for (const int64_t value : {int64_t{1000000000}, int64_t{-1}, int64_t{1} << 62, int64_t{-1} << 62}) {
      *place = value;
      write_bytes(folder / "m/model.json", changed.dump());
      const Cost cost = cost_of([&] {
        try {
          (void)io::load_model(folder / "m");
        } catch (const Error&) {
          ++refused;
        }
      });
      // A hundredth of it is needed; the machine may be busy.
      EXPECT_LT(cost.seconds, 1) << Json::diff(tree, changed).dump();
      EXPECT_LT(cost.bytes, size_t{1} << 20) << Json::diff(tree, changed).dump();
    }
    *place = before;
  }
  return refused;
}

nn::CausalLMOptions small_options() {
  return {.vocabulary = 11, .width = 8, .layers = 2, .heads = 2, .kv_heads = 1, .hidden = 12, .context = 16};
}

TEST(Claims, OfACausalLMAreComparedWithItsWeights) {
  nn::CausalLMOptions options = small_options();
  EXPECT_GT(change_each_integer(nn::CausalLM(options)), 100);
  options.tied = true;
  options.positions = nn::CausalLMPositions::learned;
  EXPECT_GT(change_each_integer(nn::CausalLM(options)), 100);
}

TEST(Claims, OfAdaptersAreComparedWithThem) {
  const nn::CausalLM model(small_options());
  nn::apply_lora(model, {.r = 2, .targets = {"q_proj", "lm_head"}});
  EXPECT_GT(change_each_integer(model), 100);
}

TEST(Claims, OfStacksAreComparedWithTheirWeights) {
  const nn::TransformerEncoderLayer layer(8, 2, {.dim_feedforward = 6});
  EXPECT_GT(change_each_integer(nn::TransformerEncoder(layer, 2)), 50);
  EXPECT_GT(change_each_integer(nn::TransformerDecoder(nn::TransformerDecoderLayer(8, 2, {.dim_feedforward = 6}), 2)),
            50);
  EXPECT_GT(change_each_integer(nn::Transformer(8, 2, {1, 1, {.dim_feedforward = 6}})), 50);
  EXPECT_GT(change_each_integer(nn::LSTM(3, 4, {.num_layers = 2, .bidirectional = true, .proj_size = 2})), 20);
  EXPECT_GT(change_each_integer(nn::DraftHeads(4, 2)), 20);
}

TEST(Claims, OfExpertsAreComparedWithThem) {
  EXPECT_GT(change_each_integer(nn::MoE(4, 6, 3, {.top_k = 2, .shared_experts = 1})), 20);
}

TEST(Claims, OfLayersAreComparedWithTheirWeights) {
  const nn::Sequential inner(nn::Linear(4, 4), nn::LayerNorm(Dims(4)), nn::GroupNorm(2, 4), nn::PReLU(4));
  EXPECT_GT(change_each_integer(nn::Sequential(nn::Conv2d(2, 4, {3, 3}, {.groups = 2}), nn::BatchNorm2d(4),
                                               nn::ConvTranspose2d(4, 2, 2), nn::Flatten(), nn::Unflatten(1, {2, 2}),
                                               nn::Sequential(inner))),
            80);
  EXPECT_GT(change_each_integer(nn::Embedding(5, 3, 1)), 5);
  EXPECT_GT(change_each_integer(nn::SelfAttention(8, 2)), 10);
  EXPECT_GT(change_each_integer(nn::TransformerBlock(8, 2)), 20);
}

// A class of the program, which Weft has no formula for.
struct Deep : nn::Layer<Deep> {
  explicit Deep(int64_t layers) {
    for (int64_t i = 0; i < layers; ++i) all.append(nn::Linear(1, 1));
    WEFT_REGISTER(all);
    set_config({{"layers", layers}});
  }
  Tensor forward(const Tensor& x) const { return x; }
  nn::ModuleList<nn::Linear> all;
};

TEST(Claims, OfOtherClassesEndWithANumberOfTensors) {
  nn::ModuleRegistry registry = nn::ModuleRegistry::standard();
  registry.add<Deep>("Deep", [](const nn::Config& c) { return Deep(c.get<int64_t>("layers")); });
  const TemporaryFolder folder;
  io::save_model(folder / "m", Deep(3), {.registry = registry});
  Json tree = Json::parse(read_bytes(folder / "m/model.json"));
  tree["model"]["config"]["layers"] = 1000000000;
  write_bytes(folder / "m/model.json", tree.dump());
  std::string words;
  const Cost cost = cost_of(
      [&] { words = message_of<FormatError>([&] { (void)io::load_model(folder / "m", {.registry = registry}); }); });
  EXPECT_THAT(words, HasSubstr("its weights are far smaller"));
  EXPECT_LT(cost.seconds, 1);
}

TEST(Claims, AShapeOtherThanTheFilesIsNamed) {
  const TemporaryFolder folder;
  io::save_model(folder / "m", nn::Linear(2, 3));
  Json tree = Json::parse(read_bytes(folder / "m/model.json"));
  tree["model"]["config"]["out_features"] = 4;
  for (auto& tensor : tree["model"]["parameters"]) tensor["shape"][0] = 4;
  write_bytes(folder / "m/model.json", tree.dump());
  EXPECT_THAT(message_of<ShapeError>([&] { (void)io::load_model(folder / "m"); }),
              HasSubstr("describes \"weight\" as [4, 2], and the weights have [3, 2]"));
}

TEST(Claims, OfADescriptionAloneAreComparedWithItsTensors) {
  Json tree = Json::parse(io::to_json(nn::CausalLM(small_options())));
  tree["model"]["config"]["layers"] = 1000000000;
  const Cost cost = cost_of(
      [&] { EXPECT_THAT(message_of<FormatError>([&] { (void)io::from_json(tree.dump()); }), HasSubstr("elements")); });
  EXPECT_LT(cost.seconds, 1);
}

}  // namespace
}  // namespace weft
