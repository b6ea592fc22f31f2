// Mappings of names and shapes, read and evaluated.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/io/sharded.hpp>
#include <weft/weft.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

namespace weft {
namespace {

using io::Mapping;
using io::TensorMap;
using io::TensorStore;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

// Of ascending numbers, so that every element is known by its value.
Tensor numbered(const Dims& shape, int64_t first = 0, DType dtype = f32) {
  return arange(first, first + shape.product()).reshape(shape).to(dtype);
}

std::vector<std::string> names_of(const TensorStore& store) {
  std::vector<std::string> names;
  for (const auto& entry : store.entries()) names.push_back(entry.first);
  return names;
}

TensorMap mapped(const char* text, const TensorMap& tensors) { return Mapping::parse(text).apply(tensors).tensors(); }

template <class E>
std::string refusal(const std::string& text, const TensorMap& tensors = {}) {
  return message_of<E>([&] { Mapping::parse(text).apply(tensors); });
}

// Records the reads of another store.
struct Watched {
  std::vector<std::string> reads;
  TensorStore store;

  explicit Watched(const TensorStore& inner)
      : store(inner.entries(),
              [this, inner](const std::string& name, const Dims& starts, const Dims& ends, Location at) {
                reads.push_back(name + starts.text() + ends.text());
                return inner.get_slice(name, starts, ends, {}, at);
              }) {}
};

const TensorMap attention = {{"q", numbered({2, 4})}, {"k", numbered({1, 4}, 100)}, {"v", numbered({1, 4}, 200)}};

TEST(Mapping, TheSpecifiedCaseReadsKAndVAlone) {
  Watched watched(attention);
  const TensorStore store = Mapping::parse("q, k, v -> qkv, axis=0\nqkv -> w, permute=[1,0]\n").apply(watched.store);
  EXPECT_THAT(names_of(store), ElementsAre("w"));
  EXPECT_EQ(store.info("w").shape, (Dims{4, 4}));
  EXPECT_EQ(store.info("w").dtype, f32);
  EXPECT_TRUE(watched.reads.empty());

  const Tensor part = store.get_slice("w", {0, 2}, {4, 4});
  EXPECT_EQ(part.to_vector<int>(), (std::vector<int>{100, 200, 101, 201, 102, 202, 103, 203}));
  EXPECT_THAT(watched.reads, ElementsAre("k[0, 0][1, 4]", "v[0, 0][1, 4]"));

  watched.reads.clear();
  EXPECT_EQ(store.get_slice("w", {1, 1}, {3, 2}).to_vector<int>(), (std::vector<int>{5, 6}));
  EXPECT_THAT(watched.reads, ElementsAre("q[1, 1][2, 3]"));
  EXPECT_TRUE(equal(store.get("w"), cat({attention.at("q"), attention.at("k"), attention.at("v")}, 0).t()));
}

TEST(Mapping, NamesThatNoStatementReadsStay) {
  const TensorMap out = mapped("q -> query", attention);
  EXPECT_EQ(out.size(), 3u);
  EXPECT_TRUE(equal(out.at("query"), attention.at("q")) && equal(out.at("k"), attention.at("k")));
  EXPECT_EQ(mapped("", attention).size(), 3u);
  EXPECT_EQ(Mapping().apply(attention).tensors().size(), 3u);
}

TEST(Mapping, AttributesApplyFromLeftToRightAndAsOftenAsWritten) {
  const TensorMap tensors = {{"a", numbered({2, 3})}, {"b", numbered({2, 3}, 6)}};
  const Tensor a = tensors.at("a"), b = tensors.at("b");
  const auto c = [&](const char* text) { return mapped(text, tensors).at("c"); };
  EXPECT_TRUE(equal(c("a, b -> c, axis=0, permute=[1,0]"), cat({a, b}, 0).t()));
  EXPECT_TRUE(equal(c("a, b -> c, permute=[1,0], axis=0"), cat({a.t(), b.t()}, 0)));
  EXPECT_TRUE(equal(c("a, b -> c, permute=[], axis=-1, permute=[]"), cat({a.t(), b.t()}, 1).t()));
  EXPECT_TRUE(equal(c("a -> c, permute=[1,0], permute=[1,0]"), a));
  const Tensor fine = tensor({1.001, 2.0});
  EXPECT_TRUE(
      equal(mapped("a -> c, dtype=\"bfloat16\", dtype=\"float32\"", {{"a", fine}}).at("c"), fine.to(bf16).to(f32)));
  const TensorMap parts = mapped("a, b -> c, d, axis=0, dtype=\"int64\", axis=1, permute=[]",
                                 {{"a", numbered({1, 4})}, {"b", numbered({1, 4}, 4)}});
  EXPECT_EQ(parts.at("c").dtype(), i64);
  EXPECT_EQ(parts.at("d").to_vector<int>(), (std::vector<int>{2, 6, 3, 7}));
}

TEST(Mapping, SplitsAreEvenAndPartsMayBeDropped) {
  const TensorMap tensors = {{"x", numbered({2, 6})}};
  const TensorMap out = mapped("x -> a, _, c, axis=1", tensors);
  EXPECT_EQ(out.size(), 2u);
  EXPECT_TRUE(equal(out.at("a"), tensors.at("x").narrow(1, 0, 2)) &&
              equal(out.at("c"), tensors.at("x").narrow(1, 4, 2)));
  EXPECT_THAT(refusal<ShapeError>("x -> a, b, c, d, axis=1", tensors),
              AllOf(HasSubstr("axis 1 of [2, 6] cannot be split evenly by 4"), HasSubstr("line 1, column 18")));
}

TEST(Mapping, VariablesMatchExistingNumbers) {
  TensorMap tensors = {{"norm", numbered({2})}};
  for (const char* layer : {"0", "7", "10"}) {
    for (const char* part : {"gate", "up"})
      tensors.emplace(std::string("l.") + layer + "." + part, numbered({1, 2}, layer[0]));
  }
  const TensorMap out = mapped("l.$LAYER.gate, l.$LAYER.up -> l.$LAYER.both, axis=0", tensors);
  EXPECT_EQ(out.size(), 4u);
  EXPECT_EQ(out.at("l.10.both").to_vector<int>(), (std::vector<int>{'1', '1' + 1, '1', '1' + 1}));
  const TensorMap experts = {{"l.0.e.1.w", ones(1)}, {"l.0.e.12.w", ones(1)}, {"l.3.e.1.w", ones(1)}};
  EXPECT_THAT(names_of(Mapping::parse("l.$A.e.$B.w -> x${B}_$A.w").apply(experts)),
              ElementsAre("x12_0.w", "x1_0.w", "x1_3.w"));
  EXPECT_THAT(
      names_of(
          Mapping::parse("l.$A.e.$A.w -> same.$A").apply(TensorMap{{"l.2.e.2.w", ones(1)}, {"l.2.e.3.w", ones(1)}})),
      ElementsAre("l.2.e.3.w", "same.2"));
  tensors.erase("l.7.up");
  EXPECT_THAT(refusal<KeyError>("l.$I.gate, l.$I.up -> l.$I.both, axis=0", tensors),
              AllOf(HasSubstr("no tensor is named \"l.7.up\""), HasSubstr("line 1, column 12")));
  tensors.erase("l.7.gate");
  tensors.emplace("l.8.up", ones(1));
  EXPECT_THAT(refusal<KeyError>("l.$I.gate, l.$I.up -> l.$I.both, axis=0", tensors), HasSubstr("\"l.8.gate\""));
  EXPECT_THAT(refusal<KeyError>("h.$I.w -> x.$I", tensors), HasSubstr("no tensor has a name such as \"h.$I.w\""));
}

TEST(Mapping, ANameIsFreeOnceItWasReadAndReadableUntilItIsMadeAgain) {
  const TensorMap tensors = {{"a", numbered({2})}, {"b", numbered({2}, 5)}};
  const TensorMap swapped = mapped("a -> spare\nb -> a\nspare -> b", tensors);
  EXPECT_EQ(swapped.size(), 2u);
  EXPECT_TRUE(equal(swapped.at("a"), tensors.at("b")) && equal(swapped.at("b"), tensors.at("a")));
  const TensorMap pairs = {{"x.0.1", ones(1)}, {"x.1.0", zeros(1)}};
  EXPECT_EQ(mapped("x.$A.$B -> x.$B.$A", pairs).at("x.1.0").item<int>(), 1);
  const TensorMap tied = mapped("a -> x\na -> y\na -> a", tensors);
  EXPECT_EQ(tied.size(), 4u);
  EXPECT_TRUE(equal(tied.at("x"), tied.at("y")) && equal(tied.at("a"), tied.at("x")));
  EXPECT_FALSE(tied.at("x").shares_storage(tied.at("y")));
  EXPECT_EQ(mapped("a, a -> aa, axis=0", tensors).at("aa").to_vector<int>(), (std::vector<int>{0, 1, 0, 1}));
  EXPECT_THAT(refusal<ValueError>("a -> b", tensors),
              AllOf(HasSubstr("\"b\" is there already, from the source"), HasSubstr("column 6")));
  EXPECT_THAT(refusal<ValueError>("a -> c\n\nb -> c", tensors),
              AllOf(HasSubstr("from line 1"), HasSubstr("line 3, column 6")));
  EXPECT_THAT(refusal<ValueError>("a -> c, c, axis=0", tensors), HasSubstr("\"c\" is there already"));
}

TEST(Mapping, DroppedTensorsAreGoneAndOthersStayAsInitialised) {
  const TensorMap tensors = {{"a", ones(2)}, {"b.1.x", ones(2)}, {"b.2.x", ones(2)}};
  EXPECT_THAT(names_of(Mapping::parse("b.$I.x -> _").apply(tensors)), ElementsAre("a"));
  EXPECT_THAT(names_of(Mapping::parse("a, b.1.x -> _").apply(tensors)), ElementsAre("b.2.x"));
  EXPECT_THAT(refusal<KeyError>("a -> _\na -> b", tensors),
              AllOf(HasSubstr("no tensor is named \"a\""), HasSubstr("line 2, column 1")));
  EXPECT_THAT(names_of(Mapping::parse("a -> _\nb.1.x -> a").apply(tensors)), ElementsAre("a", "b.2.x"));

  const Mapping mapping = Mapping::parse("b.$I.x -> _\n_ -> new.$I.lora, head\n_ -> \"$x\"");
  EXPECT_TRUE(mapping.leaves("new.3.lora") && mapping.leaves("head") && mapping.leaves("$x"));
  EXPECT_FALSE(mapping.leaves("new.lora") || mapping.leaves("new.x.lora") || mapping.leaves("a") ||
               Mapping().leaves("a"));
  const TensorMap into = {{"a", zeros(2)}, {"head", full(3, 7)}, {"new.0.lora", full(1, 8)}};
  io::load_into(into, tensors, mapping);
  EXPECT_EQ(into.at("a").to_vector<int>(), (std::vector<int>{1, 1}));
  EXPECT_EQ(into.at("head").to_vector<int>(), (std::vector<int>{7, 7, 7}));
  EXPECT_THAT(refusal<ValueError>("_ -> a", tensors), HasSubstr("\"a\" is to stay as it is"));
}

TEST(Mapping, LoadingIntoTensorsChecksAllBeforeItWrites) {
  nn::Linear layer(4, 2);
  const TensorMap into = layer.state_dict(),
                  before = {{"weight", into.at("weight").clone()}, {"bias", into.at("bias").clone()}};
  const TensorMap source = {{"w", numbered({4, 2}, 0, f64)}, {"b", ones(2, bf16)}};
  const auto refuse = [&]<class E>(const char* text, bool strict, E*) {
    const std::string words = message_of<E>([&] { io::load_into(into, source, Mapping::parse(text), strict); });
    EXPECT_TRUE(equal(into.at("weight"), before.at("weight")) && equal(into.at("bias"), before.at("bias")));
    return words;
  };
  const KeyError* key_error = nullptr;
  const ShapeError* shape_error = nullptr;
  EXPECT_THAT(refuse("b -> bias", false, key_error), HasSubstr("nothing is loaded into: weight"));
  EXPECT_THAT(refuse("b -> bias\nw -> weight", true, shape_error),
              HasSubstr("\"weight\" has the shape [2, 4], what is loaded [4, 2]"));
  EXPECT_THAT(refuse("b -> bias\nw -> weight, permute=[]\n_ -> weight", true, static_cast<ValueError*>(nullptr)),
              HasSubstr("stay"));
  EXPECT_THAT(refuse("b -> extra\nw -> weight, permute=[]\n_ -> bias", true, key_error),
              HasSubstr("no destination has the name: extra"));
  io::load_into(into, source, Mapping::parse("b -> extra\nw -> weight, permute=[]\n_ -> bias"), false);
  EXPECT_TRUE(equal(layer.weight, numbered({4, 2}).t()) && equal(layer.bias, before.at("bias")));
  io::load_into(into, source, Mapping::parse("b -> bias\nw -> weight, permute=[]"));
  EXPECT_EQ(layer.bias.to_vector<int>(), (std::vector<int>{1, 1}));
  EXPECT_TRUE(layer.weight.requires_grad());
}

TEST(Mapping, ErrorsNameLineAndColumn) {
  const TensorMap tensors = {
      {"a", numbered({2, 3})}, {"b", numbered({3, 3})}, {"h", ones({2, 3}, f16)}, {"s", tensor(1.0)}};
  EXPECT_THAT(refusal<KeyError>("# first\n\n  a , nowhere -> c, axis=0", tensors),
              AllOf(HasSubstr("no tensor is named \"nowhere\""), HasSubstr("line 3, column 7: a , nowhere -> c")));
  EXPECT_THAT(refusal<ShapeError>("a, b -> c, axis=1", tensors),
              HasSubstr("[2, 3] and [3, 3] do not fit together along axis 1"));
  EXPECT_THAT(refusal<ShapeError>("a, s -> c, axis=1", tensors), HasSubstr("[2, 3] and [] do not fit"));
  EXPECT_THAT(refusal<ShapeError>("s, s -> c, axis=0", tensors), HasSubstr("the shape [] has no axis 0"));
  EXPECT_THAT(refusal<ShapeError>("a, a -> c, axis=-3", tensors), HasSubstr("the shape [2, 3] has no axis -3"));
  EXPECT_THAT(refusal<DTypeError>("a, h -> c, axis=0", tensors), HasSubstr("float32 and float16 are joined"));
  EXPECT_EQ(mapped("a, h -> c, dtype=\"float16\", axis=0", tensors).at("c").dtype(), f16);
  EXPECT_THAT(refusal<ShapeError>("a -> c, permute=[2,0,1]", tensors),
              HasSubstr("[2, 0, 1] permutes 3 dimensions, the shape is [2, 3]"));
  const TemporaryFolder folder;
  write_bytes(folder / "my.map", "a -> b, axis=0");
  EXPECT_THAT(message_of<FormatError>([&] { Mapping::read(folder / "my.map"); }),
              AllOf(HasSubstr("my.map, line 1, column 9")));
  EXPECT_THROW(Mapping::read(folder / "none.map"), IoError);
}

TEST(Mapping, MalformedTextsAreRefused) {
  const std::pair<const char*, const char*> cases[] = {{"a", "column 2"},
                                                       {"a ->", "a name is missing"},
                                                       {"-> b", "column 1"},
                                                       {"a -> b -> c", "column 8"},
                                                       {"a b -> c", "-> is missing"},
                                                       {"a -> b c", "column 8"},
                                                       {"a, -> b", "a name is missing"},
                                                       {"a -> b,", "a name is missing"},
                                                       {"a -> b, axis", "for 2 destinations"},
                                                       {"a -> b, axis=", "a number is missing"},
                                                       {"a -> b, axis=0", "nothing to join or to split"},
                                                       {"a, b -> c", "2 tensors are made of 2 for 1"},
                                                       {"a, b -> c, d", "2 tensors are made of 2"},
                                                       {"a, b -> c, d, axis=0", "1 tensors are made of 2"},
                                                       {"a, b -> c, axis=0, axis=0", "nothing to join"},
                                                       {"a -> b, c, axis=0, axis=0", "1 tensors"},
                                                       {"a -> b, c", "1 tensors"},
                                                       {"a,b -> c, axis=99999999999999999999", "from -8 to 7"},
                                                       {"a,b -> c, axis=8", "from -8 to 7"},
                                                       {"a,b -> c, axis=1.5", "a comma"},
                                                       {"a -> b, permute=0", "[ is missing"},
                                                       {"a -> b, permute=[0", "] is missing"},
                                                       {"a -> b, permute=[0,0]", "no permutation"},
                                                       {"a -> b, permute=[1]", "0 is missing"},
                                                       {"a -> b, permute=[0,1,2,3,4,5,6,7,0]", "at most 8"},
                                                       {"a -> b, permute=[-1]", "from 0 to 7"},
                                                       {"a -> b, dtype=float32", "a dtype is missing"},
                                                       {"a -> b, dtype=\"real\"", "no dtype is named \"real\""},
                                                       {"a -> b, shape=[1]", "no attribute is named shape"},
                                                       {"a -> b, permute=[], c", "an attribute is missing"},
                                                       {"a -> b=c", "a comma"},
                                                       {"_ -> _", "both sides"},
                                                       {"_, a -> b, axis=0", "beside other sources"},
                                                       {"_ -> a, permute=[]", "nothing is read"},
                                                       {"a -> _, permute=[]", "nothing is made"},
                                                       {"a.$ -> b", "variable's name"},
                                                       {"a.$1 -> b", "variable's name"},
                                                       {"a.${X -> b", "} is missing"},
                                                       {"$A$B -> $A.$B", "digits follow $A"},
                                                       {"${A}1 -> $A", "digits follow $A"},
                                                       {"a.$I -> b", "the same variables"},
                                                       {"a -> b.$I", "the same variables"},
                                                       {"a.$I, b -> c.$I, axis=0", "the same variables"},
                                                       {"\"a -> b", "\" is missing"},
                                                       {"\"a\\b\" -> c", "may precede"},
                                                       {"\"a\"b -> c", "-> is missing"},
                                                       {"a -> b\001", "a control character"},
                                                       {"a -> \xff", "not UTF-8"}};
  for (const auto& [text, words] : cases) {
    EXPECT_THAT(refusal<FormatError>(text), HasSubstr(words)) << text;
  }
}

TEST(Mapping, AnyNameCanBeWritten) {
  const TensorMap tensors = {{"a.$LAYER", ones(1)},  {"with blank", ones(1)}, {"_", ones(1)}, {"größe.ω", ones(1)},
                             {"q\"uote\\", ones(1)}, {"x-1", ones(1)},        {"", ones(1)}};
  EXPECT_THAT(
      names_of(Mapping::parse("\"a.$LAYER\" -> b\n\"with blank\"->c # comment\r\n\"_\" -> \"#,=\"\n größe.ω\t-> größe\n"
                              "\"q\\\"uote\\\\\" -> d\nx-1->e\n\"\" -> empty")
                   .apply(tensors)),
      ElementsAre("#,=", "b", "c", "d", "e", "empty", "größe"));
  EXPECT_THAT(refusal<KeyError>("größe.ω, ä -> b, axis=0", tensors), HasSubstr("column 10"));
}

TEST(Mapping, TensorsWithoutElementsAndWithoutDimensions) {
  const TensorMap tensors = {{"none", zeros({0, 3})}, {"rows", ones({2, 3})}, {"s", tensor(4.0)}};
  EXPECT_EQ(mapped("none, rows, none -> x, axis=0", tensors).at("x").shape(), (Dims{2, 3}));
  EXPECT_EQ(mapped("none -> a, b, axis=0, permute=[]", tensors).at("b").shape(), (Dims{3, 0}));
  EXPECT_EQ(mapped("none, none -> a, axis=1", tensors).at("a").shape(), (Dims{0, 6}));
  EXPECT_EQ(mapped("s -> t, permute=[], dtype=\"int32\"", tensors).at("t").item<int>(), 4);
  const TensorStore store = Mapping::parse("rows -> r, permute=[]").apply(tensors);
  EXPECT_EQ(store.get_slice("r", {1, 1}, {1, 2}).shape(), (Dims{0, 1}));
  EXPECT_THROW(store.get_slice("r", {1, 1}, {1, 3}), IndexError);
  EXPECT_THROW(store.get_slice("r", {1}, {1, 2}), ShapeError);
  EXPECT_THROW(store.get("rows"), KeyError);
}

TEST(Mapping, MismatchesRaiseBeforeMemoryIsAllocated) {
  const int64_t huge = int64_t{1} << 61;
  const auto nothing = [](const std::string&, const Dims&, const Dims&, Location) { return Tensor(); };
  const TensorStore store({{"x", {u8, {huge}}}, {"e", {u8, {int64_t{1} << 62, 0}}}}, nothing);
  EXPECT_EQ(Mapping::parse("x, x, x -> y, axis=0").apply(store).info("y").shape, Dims(3 * huge));
  EXPECT_THROW(Mapping::parse("x, x, x, x -> y, axis=0").apply(store), ShapeError);
  EXPECT_THROW(Mapping::parse("x -> y, dtype=\"float32\"").apply(store), ShapeError);
  EXPECT_THROW(Mapping::parse("e, e, e -> y, axis=0").apply(store), ShapeError);
  EXPECT_THROW(TensorStore({{"x", {f32, {huge}}}}, nothing), ShapeError);
  EXPECT_THROW(TensorStore({{"x", {f32, {-1}}}}, nothing), ShapeError);
  std::string doubling = "a, a -> x0, axis=0\n";
  for (int i = 0; i < 40; ++i)
    doubling += "x" + std::to_string(i) + ", x" + std::to_string(i) + " -> x" + std::to_string(i + 1) + ", axis=0\n";
  EXPECT_THAT(refusal<ValueError>(doubling, {{"a", ones(1)}}), HasSubstr("slices are made"));
  std::string chain;
  for (int i = 0; i < 20000; ++i) chain += "x -> x, permute=[]\n";
  EXPECT_TRUE(equal(mapped(chain.c_str(), {{"x", numbered({2, 3})}}).at("x"), numbered({2, 3})));
}

TEST(TensorStore, ReadsMemoryAndFilesAndWritesOneTensorAtATime) {
  const TemporaryFolder folder;
  const TensorMap tensors = {{"a", numbered({3, 4})}, {"b", numbered({2}, 7, i64)}, {"none", zeros({0, 2})}};
  io::save_file(tensors, folder / "f");
  const io::SafeFile file = io::SafeFile::open(folder / "f");
  for (const TensorStore& store : {TensorStore(tensors), TensorStore(file)}) {
    EXPECT_THAT(names_of(store), ElementsAre("a", "b", "none"));
    EXPECT_EQ(store.info("a").shape, (Dims{3, 4}));
    EXPECT_TRUE(equal(store.get("a"), tensors.at("a")));
    EXPECT_TRUE(equal(store.get_slice("a", {1, 0}, {3, 2}), tensors.at("a").narrow(0, 1, 2).narrow(1, 0, 2)));
    EXPECT_FALSE(store.copy("a").shares_storage(store.get("a")));
    EXPECT_THROW(store.get("c"), KeyError);
    EXPECT_THAT(names_of(store.only([](const std::string& name) { return name != "b"; })), ElementsAre("a", "none"));
    io::save_file(store.list(), store.source(), folder / "g");
    EXPECT_EQ(read_bytes(folder / "g"), read_bytes(folder / "f"));
  }
  const Tensor leaf = ones(2).requires_grad_();
  EXPECT_FALSE(TensorStore(TensorMap{{"leaf", leaf}}).get("leaf").requires_grad());
  EXPECT_TRUE(TensorStore().entries().empty());
  EXPECT_THROW(TensorStore(TensorMap{{"x", Tensor()}}), ValueError);
  EXPECT_THROW(TensorStore(TensorMap{{"x", zeros(2, Device(DeviceType::meta))}}), ValueError);
}

TEST(Mapping, ShardsAreReadWhereverAStatementNeedsThem) {
  const TemporaryFolder folder;
  ASSERT_EQ(io::save_sharded(attention, folder.path(), {.max_shard_size = 16}).size(), 3u);
  const Mapping mapping = Mapping::parse("q, k, v -> qkv, axis=0\nqkv -> att.w, permute=[]\nqkv -> tied");
  const Tensor w = cat({attention.at("q"), attention.at("k"), attention.at("v")}, 0).t();
  for (const io::Offload offload : {io::Offload::cpu, io::Offload::disk}) {
    const TensorMap loaded = io::load_sharded(folder.path(), {.offload = offload, .mapping = mapping});
    EXPECT_EQ(loaded.size(), 2u);
    EXPECT_TRUE(equal(loaded.at("att.w"), w) && equal(loaded.at("tied"), w.t()));
  }
  const TensorMap half =
      io::load_sharded(folder.path(), {.device_map = {{"att", {}}}, .dtype = f16, .mapping = mapping});
  EXPECT_TRUE(equal(half.at("att.w"), w.to(f16)));
  EXPECT_THROW(io::load_sharded(folder.path(), {.device_map = {{"q", {}}}, .mapping = mapping}), KeyError);
  const TensorStore store = mapping.apply(io::open_sharded(folder.path()));
  EXPECT_TRUE(equal(store.get_slice("att.w", {1, 0}, {3, 4}), w.narrow(0, 1, 2)));
  EXPECT_THROW(io::open_sharded(folder.path(), "other"), IoError);

  io::save_sharded(store.list(), store.source(), folder.path(), {.max_shard_size = 64, .prefix = "mapped"});
  const TensorMap written = io::load_sharded(folder.path(), {.prefix = "mapped"});
  EXPECT_EQ(written.size(), 2u);
  EXPECT_TRUE(equal(written.at("att.w"), w));
  EXPECT_THROW(io::save_sharded({{"a", f32, {1}}, {"a", f32, {1}}}, store.source(), folder.path()), ValueError);
}

TEST(Mapping, TwoNamesOfOneTensorHaveMemoryOfTheirOwn) {
  const TemporaryFolder folder;
  io::save_sharded(attention, folder.path());
  const TensorMap loaded = io::load_sharded(folder.path(), {.mapping = Mapping::parse("q -> a\nq -> b")});
  loaded.at("a").zero_();
  EXPECT_TRUE(equal(loaded.at("b"), attention.at("q")));
}

// ---- states of optimizers -------------------------------------------------------------------------------------------

TEST(MappingOfOptimizers, MomentsFollowAndScalarsAreRenamed) {
  TensorMap state = {{"group.0.lr", tensor(0.1)}, {"group.0.params", tensor(int64_t{3})}};
  for (const char* name : {"q", "k", "v"}) {
    state.emplace(std::string(name) + ".exp_avg", attention.at(name) * 2);
    state.emplace(std::string(name) + ".step", tensor(int64_t{3}));
  }
  const Mapping mapping =
      Mapping::parse("q, k, v -> qkv, axis=0\nqkv -> w, permute=[1,0], dtype=\"bfloat16\"\nfrozen.$I -> f.$I\n");
  const TensorMap out = mapping.apply_to_optimizer(state).tensors();
  EXPECT_EQ(out.size(), 3u);
  EXPECT_TRUE(equal(out.at("w.exp_avg"), cat({attention.at("q"), attention.at("k"), attention.at("v")}, 0).t() * 2));
  EXPECT_EQ(out.at("w.exp_avg").dtype(), f32);
  EXPECT_EQ(out.at("w.step").item<int>(), 3);
  EXPECT_TRUE(out.contains("group.0.lr"));
  state.at("k.step") = tensor(int64_t{4});
  EXPECT_THAT(message_of<ValueError>([&] { mapping.apply_to_optimizer(state); }), HasSubstr("scalars differ: 3 and 4"));
  state.erase("k.step"), state.erase("k.exp_avg");
  EXPECT_THAT(message_of<KeyError>([&] { mapping.apply_to_optimizer(state); }),
              HasSubstr("no tensor is named \"k.exp_avg\""));
}

TEST(MappingOfOptimizers, AnOptimizerResumesWithMappedWeights) {
  nn::Sequential fused(nn::Linear(3, 4, false)), apart(nn::Linear(3, 2, false), nn::Linear(3, 2, false));
  const Mapping mapping = Mapping::parse("0.weight -> 0.weight, 1.weight, axis=0");
  const auto train = [](nn::Sequential& net, optim::AdamW& optimizer, const Tensor& gradient) {
    const auto parameters = net.parameters();
    int64_t row = 0;
    for (const Tensor& p : parameters) {
      p.set_grad(gradient.narrow(0, row, p.size(0)).clone());
      row += p.size(0);
    }
    optimizer.step();
  };
  optim::AdamW first(fused.parameters());
  for (int i = 0; i < 3; ++i) train(fused, first, randn({4, 3}));
  const TemporaryFolder folder;
  const io::Path state = io::save_training_state(folder.path(), {fused, &first}, {.step = 3});

  io::load_into(apart.state_dict(), io::SafeFile::open(state / "model.safetensors"), mapping);
  const TensorMap kept = mapping.apply_to_optimizer(io::SafeFile::open(state / "optimizer.safetensors")).tensors();
  optim::AdamW second(apart.parameters());
  train(apart, second, zeros({4, 3}));  // makes the state that is replaced
  optim::Optimizer::StateDict values = second.state_dict();
  for (auto& [key, value] : values) {
    if (key == "group.0.params") continue;  // of two weights now
    const bool of_group = key.starts_with("group.");
    value = kept.at(of_group ? key : key.substr(0, 1) + ".weight" + key.substr(1)).clone();
  }
  second.load_state_dict(values);
  io::load_into(apart.state_dict(), io::SafeFile::open(state / "model.safetensors"), mapping);
  const Tensor gradient = randn({4, 3});
  train(fused, first, gradient), train(apart, second, gradient);
  EXPECT_TRUE(equal(cat({apart.parameters()[0], apart.parameters()[1]}, 0).detach(), fused.parameters()[0].detach()));
}

// ---- at random, against plain tensors -------------------------------------------------------------------------------

// Writes random statements and does the same to tensors in memory.
class RandomMapping {
 public:
  explicit RandomMapping(uint64_t seed) : random_(seed) {
    for (int i = 0; i < 4; ++i) {
      Dims shape;
      for (int64_t d = below(4); d > 0; --d) shape.push_back(below(8) == 0 ? 0 : 1 + below(4));
      source.emplace("t" + std::to_string(i), numbered(shape, 1000 * i));
    }
    live_ = source;
    for (int64_t n = 1 + below(8); n > 0; --n) add_statement();
  }

  TensorMap source;
  std::string text;
  const TensorMap& expected() const { return live_; }
  int64_t below(int64_t bound) { return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound)); }

 private:
  void add_statement() {
    if (live_.empty()) return;
    const auto [name, x] = *std::next(live_.begin(), below(std::ssize(live_)));
    const std::string made = "m" + std::to_string(made_++);
    switch (below(5)) {
      case 0:
        text += name + " -> " + made + "\n";
        live_.emplace(made, x);
        break;
      case 1:
        text += name + " -> " + made + ", permute=" + order_of(x.dim()).text() + "\n";
        live_.emplace(made, x.permute(order_));
        break;
      case 2:
        text += name + " -> " + made + ", dtype=\"int32\", permute=[]\n";
        live_.emplace(made, x.to(i32).permute(reversed(x.dim())));
        break;
      case 3:
        if (x.dim() == 0) return;
        join(name, x, made);
        break;
      default:
        if (x.dim() == 0) return;
        split(name, x, made);
    }
    live_.erase(name);
  }
  Dims reversed(int rank) {
    Dims out;
    for (int d = rank - 1; d >= 0; --d) out.push_back(d);
    return out;
  }
  const Dims& order_of(int rank) {
    std::vector<int> order;
    for (int d = 0; d < rank; ++d) order.push_back(d);
    std::ranges::shuffle(order, random_);
    return order_ = order;
  }
  void join(const std::string& name, const Tensor& x, const std::string& made) {
    const int axis = static_cast<int>(below(x.dim()));
    std::vector<Tensor> parts = {x};
    std::string names = name;
    for (const auto& [other, y] : TensorMap(live_)) {
      Dims a = x.shape(), b = y.shape();
      if (other == name || a.size() != b.size() || x.dtype() != y.dtype()) continue;
      a[axis] = b[axis] = 0;
      if (!(a == b)) continue;
      parts.push_back(y), names += ", " + other, live_.erase(other);
    }
    if (parts.size() == 1) parts.push_back(x), names += ", " + name;
    text += names + " -> " + made + ", axis=" + std::to_string(axis) + "\n";
    live_.emplace(made, cat(parts, axis));
  }
  void split(const std::string& name, const Tensor& x, const std::string& made) {
    const int axis = static_cast<int>(below(x.dim()));
    const int64_t size = x.size(axis), count = size == 0 ? 2 : size;
    if (count == 1) {
      live_.emplace(made, x);
      text += name + " -> " + made + "\n";
      return;
    }
    std::string names;
    for (int64_t i = 0; i < count; ++i) {
      const std::string part = made + "." + std::to_string(i);
      names += (i == 0 ? "" : ", ") + part;
      live_.emplace(part, x.narrow(axis, i * (size / count), size / count));
    }
    text += name + " -> " + names + ", axis=" + std::to_string(axis - (below(2) == 0 ? x.dim() : 0)) + "\n";
  }

  std::mt19937_64 random_;
  TensorMap live_;
  Dims order_;
  int made_ = 0;
};

TEST(Mapping, RandomStatementsEqualTheSameOpsInMemory) {
  const TemporaryFolder folder;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    RandomMapping random(seed);
    const bool in_file = seed % 6 == 0;
    if (in_file) io::save_file(random.source, folder / "f");
    Watched watched(in_file ? TensorStore(io::SafeFile::open(folder / "f")) : TensorStore(random.source));
    const TensorStore store = Mapping::parse(random.text).apply(watched.store);
    ASSERT_TRUE(watched.reads.empty());
    ASSERT_EQ(store.entries().size(), random.expected().size()) << random.text;
    for (const auto& [name, expected] : random.expected()) {
      ASSERT_EQ(store.info(name).shape, expected.shape()) << random.text << name;
      ASSERT_EQ(store.info(name).dtype, expected.dtype());
      const Tensor whole = store.get(name);
      ASSERT_TRUE(whole.is_contiguous() && whole.dtype() == expected.dtype() && equal(whole, expected))
          << random.text << name;
      Dims starts, ends;
      Tensor part = expected;
      for (int d = 0; d < expected.dim(); ++d) {
        const int64_t start = random.below(expected.size(d) + 1);
        starts.push_back(start), ends.push_back(start + random.below(expected.size(d) - start + 1));
        part = part.narrow(d, start, ends[d] - start);
      }
      ASSERT_TRUE(equal(store.get_slice(name, starts, ends), part)) << random.text << name << starts << ends;
    }
  }
}

}  // namespace
}  // namespace weft
