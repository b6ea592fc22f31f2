// Files of torch.save that are wrong in one place: each is refused, with the place.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <weft/io/pt.hpp>
#include <weft/ops/create.hpp>

#include <message_of.hpp>
#include <temporary_folder.hpp>

#include "archive_bytes.hpp"

#if WEFT_HAS_ZIP

namespace weft {
namespace {

using namespace pickled;
using testing::HasSubstr;

class PtMalformed : public testing::Test {
 protected:
  io::PtValue load(const std::string& bytes) {
    write_bytes(folder_ / "f.pt", bytes);
    return io::load_pt(folder_ / "f.pt");
  }
  io::PtValue load_pickle(const std::string& value, const std::string& stored = std::string(24, '\0')) {
    return load(pt_of(whole(value), stored));
  }
  std::string refusal_of(const std::string& bytes) {
    return message_of<FormatError>([&] { load(bytes); });
  }
  std::string refusal_of_pickle(const std::string& value, const std::string& stored = std::string(24, '\0')) {
    return message_of<FormatError>([&] { load_pickle(value, stored); });
  }

 private:
  TemporaryFolder folder_;
};

TEST_F(PtMalformed, TheFilesMadeHereAreRightUntilTheyAreChanged) {
  const Tensor t = load_pickle(tensor(storage(6), 0, {2, 3}, {3, 1})).tensor();
  EXPECT_EQ(t.shape(), Dims({2, 3}));
  EXPECT_EQ(load_pickle(tensor(storage(6), 5, {1}, {1})).tensor().numel(), 1);
  EXPECT_EQ(load_pickle(tensor(storage(6), 0, {4, 6}, {0, 1})).tensor().numel(), 24);
  EXPECT_EQ(load_pickle(tensor(storage(6), 9, {0}, {1})).tensor().numel(), 0);
  EXPECT_EQ(load_pickle(dict(text("a") + "N")).size(), 1u);
}

TEST_F(PtMalformed, EveryTruncationOfAFile) {
  const std::string good = read_bytes(WEFT_SOURCE_DIR "/tests/io/pt_cases/tensor.pt");
  ASSERT_EQ(load(good).tensor().numel(), 6);
  for (size_t size = 0; size < good.size(); ++size) EXPECT_THROW(load(good.substr(0, size)), FormatError) << size;
}

TEST_F(PtMalformed, EveryTruncationOfAPickle) {
  const std::string good = whole(dict(text("x") + tensor(storage(6), 0, {2, 3}, {3, 1}) + text("l") + "](K\1e"));
  ASSERT_EQ(load(pt_of(good, std::string(24, '\0'))).size(), 2u);
  for (size_t size = 0; size < good.size(); ++size) {
    EXPECT_THAT(refusal_of(pt_of(good.substr(0, size), std::string(24, '\0'))), HasSubstr("it is cut off")) << size;
  }
}

TEST_F(PtMalformed, OpcodesThatAreRefusedAreNamed) {
  const std::string known("\x80.(NJKMGXBC)taes}]uqrhjcRbQ\x88\x89\x8a\x85\x86\x87");
  for (int code = 0; code < 256; ++code) {
    if (known.find(static_cast<char>(code)) != known.npos) continue;
    const std::string words = refusal_of_pickle("N" + std::string(1, static_cast<char>(code)) + std::string(16, '\0'));
    EXPECT_THAT(words, HasSubstr("data.pkl, byte 3: the opcode ")) << code;
    EXPECT_THAT(words, HasSubstr("is refused")) << code;
  }
  const std::pair<std::string, const char*> named[] = {{"i", "INST"},
                                                       {"o", "OBJ"},
                                                       {"\x81", "NEWOBJ"},
                                                       {"\x92", "NEWOBJ_EX"},
                                                       {"\x82", "EXT1"},
                                                       {"P", "PERSID"},
                                                       {"\x93", "STACK_GLOBAL"},
                                                       {"I", "INT"},
                                                       {"\x8b", "LONG4"},
                                                       {"0", "POP"},
                                                       {"\x8f", "EMPTY_SET"},
                                                       {"\x97", "NEXT_BUFFER"},
                                                       {"\xff", "0xff"},
                                                       {"U", "SHORT_BINSTRING"}};
  for (const auto& [code, name] : named) {
    EXPECT_THAT(refusal_of_pickle(code), HasSubstr("the opcode " + std::string(name) + " is refused"));
  }
  EXPECT_THAT(refusal_of(pt_of("\x80\x04N.")), HasSubstr("protocol 4 is refused"));
}

TEST_F(PtMalformed, GlobalsThatAreRefusedAreNamed) {
  const std::pair<const char*, const char*> refused[] = {{"os", "system"},
                                                         {"posix", "system"},
                                                         {"builtins", "eval"},
                                                         {"__builtin__", "getattr"},
                                                         {"torch", "load"},
                                                         {"torch.hub", "load"},
                                                         {"numpy", "ndarray"},
                                                         {"torch.storage", "_load_from_bytes"},
                                                         {"torch", "FloatTensor"},
                                                         {"collections", "deque"},
                                                         {"torch.nn", "Module"},
                                                         {"torch", "float33"},
                                                         {"runpy", "_run_code"},
                                                         {"torch", "Size.count"},
                                                         {"torch.float32", "is_complex"},
                                                         {"", ""}};
  for (const auto& [module, name] : refused) {
    const std::string full = std::string(module) + "." + name;
    EXPECT_THAT(refusal_of_pickle("N" + global(module, name) + ")R"),
                HasSubstr("data.pkl, byte 3: the global \"" + full + "\" is refused"));
  }
  EXPECT_THAT(refusal_of_pickle(global("a\x1b[31m", std::string(5000, 'b'))), HasSubstr("a\\x1b[31m.bbb"));
  EXPECT_LT(refusal_of_pickle(global("a", std::string(5000, 'b'))).size(), 400u);
}

TEST_F(PtMalformed, CallsOfNonFunctions) {
  EXPECT_THAT(refusal_of_pickle(text("a") + ")R"), HasSubstr("REDUCE calls a string"));
  EXPECT_THAT(refusal_of_pickle(global("torch", "FloatStorage") + ")R"), HasSubstr("REDUCE calls FloatStorage"));
  EXPECT_THAT(refusal_of_pickle(global("torch", "float32") + ")R"), HasSubstr("REDUCE calls float32"));
  EXPECT_THAT(refusal_of_pickle(global("torch", "Size") + "NR"), HasSubstr("no tuple of arguments"));
  EXPECT_THAT(refusal_of_pickle(global("torch", "Size") + ")R"), HasSubstr("made of one tuple"));
  EXPECT_THAT(refusal_of_pickle(global("torch", "device") + ")R"), HasSubstr("torch.device without a name"));
  EXPECT_THAT(refusal_of_pickle(global("collections", "OrderedDict") + "]\x85R"), HasSubstr("OrderedDict"));
  EXPECT_THAT(refusal_of_pickle(global("builtins", "set") + "](]e\x85R"), HasSubstr("a set holds a list"));
  EXPECT_THAT(refusal_of_pickle(global("torch", "Size")), HasSubstr("Size is no value"));
  EXPECT_THAT(refusal_of_pickle(storage(6)), HasSubstr("a storage without a tensor"));
  EXPECT_THAT(refusal_of_pickle("}}b"), HasSubstr("BUILD of a dict is refused"));
  const std::string encode = global("_codecs", "encode");
  EXPECT_THAT(refusal_of_pickle(encode + text("a") + text("utf8") + "\x86R"), HasSubstr("only bytes"));
  EXPECT_THAT(refusal_of_pickle(encode + text("ā") + text("latin1") + "\x86R"), HasSubstr("above 255"));
}

TEST_F(PtMalformed, StacksAndMemosThatDoNotFit) {
  const std::string deep(1000, ']');
  const std::pair<std::string, const char*> wrong[] = {
      {"", "more than one value"},
      {"NN", "more than one value"},
      {"N(", "more than one value"},
      {"a", "the stack is empty"},
      {"t", "there is no mark"},
      {"\x86", "the stack is empty"},
      {"N(\x85", "the stack is empty"},
      {"(s", "the stack is empty"},
      {"NNa", "elements for None"},
      {"](Ne(Nu", "entries for a list"},
      {"}(Nu", "a key without a value"},
      {"h\5", "place 5 of the memo is empty"},
      {"j\xff\xff\xff\xff", "is empty"},
      {"Nr\xff\xff\xff\x7f", "the memo has no place 2147483647"},
      {"q\1", "the stack is empty"},
      {"R", "the stack is empty"},
      {"Q", "the stack is empty"},
      {text("\xff"), "not UTF-8"},
      {"\x8a\x09" + std::string(8, '\xff') + "\1", "more than 64 bits"},
      {"\x8a\x09" + std::string(8, '\xff') + std::string(1, '\0'), "more than 64 bits"}};
  for (const auto& [pickle, words] : wrong) EXPECT_THAT(refusal_of_pickle(pickle), HasSubstr(words));
  EXPECT_EQ(load_pickle("\x8a\x09" + std::string(9, '\xff')).integer(), -1);
  EXPECT_EQ(load_pickle(std::string("\x8a\x00", 2)).integer(), 0);
}

TEST_F(PtMalformed, ValuesThatContainThemselves) {
  EXPECT_THAT(refusal_of_pickle("]q\1h\1a"), HasSubstr("a value contains itself"));
  EXPECT_THAT(refusal_of_pickle("]q\1](h\1ea"), HasSubstr("a value contains itself"));
  EXPECT_THAT(refusal_of_pickle("}q\1" + text("me") + "h\1s"), HasSubstr("a value contains itself"));
  EXPECT_THAT(refusal_of_pickle("]q\1h\1\x85"
                                "a"),
              HasSubstr("a value contains itself"));
}

TEST_F(PtMalformed, NestingIsLimited) {
  const auto nested = [](int depth) {
    return std::string(static_cast<size_t>(depth), '(') + "N" + std::string(static_cast<size_t>(depth), 't');
  };
  EXPECT_EQ(load_pickle(nested(255)).size(), 1u);
  EXPECT_THAT(refusal_of_pickle(nested(257)), HasSubstr("nested more than 256 deep"));
  EXPECT_THAT(refusal_of_pickle(nested(1000000)), HasSubstr("nested more than 256 deep"));
  // A part that was made before, at a place that is less deep.
  const std::string again = "](" + nested(200) + "q\1" + std::string(100, '(') + "h\1" + std::string(100, 't') + "e";
  EXPECT_THAT(refusal_of_pickle(again), HasSubstr("nested more than 256 deep"));
}

TEST_F(PtMalformed, SharedPartsCostTheirLengthOnce) {
  // Each list holds the one before twice: 2^200 elements if they were written out.
  std::string lists = "]q\1";
  for (int i = 0; i < 200; ++i) lists += "](h\1h\1eq\1";
  io::PtValue value = load_pickle("(" + lists + "t").items().back();
  for (int i = 0; i < 200; ++i) value = io::PtValue(value.at(i % 2));
  EXPECT_EQ(value.size(), 0u);
  std::string bytes = text(std::string(1000, 'a')) + "q\1" + text("latin1") + "q\2";
  for (int i = 0; i < 1000; ++i) bytes += global("_codecs", "encode") + "h\1h\2\x86R";
  EXPECT_THAT(refusal_of_pickle("(" + bytes + "t"), HasSubstr("it repeats more than it has"));
}

TEST_F(PtMalformed, AKeyThatIsRepeatedCostsNoMemoryAndLittleTime) {
  const auto dicts = [](size_t length, int count) {
    std::string out = text(std::string(length, 'k')) + "q\1";
    for (int i = 0; i < count; ++i) out += "}h\1Ns";
    return "(" + out + "t";
  };
  const io::PtValue value = load_pickle(dicts(100, 2000));
  EXPECT_TRUE(value.at(2000).at(std::string(100, 'k')).is(io::PtValue::Kind::none));
  EXPECT_THAT(refusal_of_pickle(dicts(1'000'000, 20'000)), HasSubstr("it repeats more than it has"));
  std::string deep = text(std::string(100'000, 'k')) + "q\1";
  for (int i = 0; i < 200; ++i) deep += "}h\1";
  deep += tensor(storage(6), 0, {7}, {1}) + std::string(200, 's') + "\x86";
  EXPECT_LT(refusal_of_pickle(deep).size(), 600u);
  const std::string stored = storage(6, "FloatStorage", std::string(256, '0'));
  EXPECT_THAT(refusal_of_pickle(tensor(stored, 0, {6}, {1})), HasSubstr("BINPERSID names no storage"));
}

TEST_F(PtMalformed, TensorsThatLeaveTheirStorage) {
  constexpr int64_t huge = int64_t{1} << 62, most = INT64_MAX;
  const std::pair<std::string, const char*> wrong[] = {
      {tensor(storage(6), 0, {7}, {1}), "leaves its storage"},
      {tensor(storage(6), 1, {6}, {1}), "leaves its storage"},
      {tensor(storage(6), 0, {2, 3}, {4, 1}), "leaves its storage"},
      {tensor(storage(6), 0, {2}, {most}), "stride beyond"},
      {tensor(storage(6), 0, {huge, huge}, {huge / 8, 1}), "leaves its storage"},
      {tensor(storage(6), most, {2}, {1}), "leaves its storage"},
      {tensor(storage(6), 0, {huge, 8}, {0, 0}), "more than 2^63 - 1 bytes"},
      {tensor(storage(6), 0, {huge}, {0}), "more than 2^63 - 1 bytes"},
      {tensor(storage(6), 0, {-1}, {1}), "negative size or stride"},
      {tensor(storage(6), 5, {2}, {-1}), "negative size or stride"},
      {tensor(storage(6), 0, {0, -1}, {1, 1}), "negative size or stride"},
      {tensor(storage(6), -1, {2}, {1}), "starts before its storage"},
      {tensor(storage(6), -1, {0}, {1}), "starts before its storage"},
      {tensor(storage(6), 0, {2, 3}, {1}), "not one stride for each size"},
      {tensor(storage(0), 0, {}, {}), "is in a storage of 0 bytes"},
      {tensor(storage(5), 0, {2}, {1}), "a storage of 20 bytes, its entry has 24"},
      {tensor(storage(7), 0, {2}, {1}), "a storage of 28 bytes, its entry has 24"},
      {tensor(storage(-1), 0, {2}, {1}), "a storage of -1 elements"},
      {tensor(storage(most), 0, {2}, {1}), "more than 2^63 - 1 bytes"},
      {tensor(storage(6, "FloatStorage", "1"), 0, {2}, {1}), "the storage \"1\", which is missing"},
      {tensor(storage(6, "FloatStorage", "../data.pkl"), 0, {2}, {1}), "which is missing"}};
  for (const auto& [pickle, words] : wrong) {
    EXPECT_THAT(refusal_of_pickle(pickle), HasSubstr(words));
    EXPECT_THAT(refusal_of_pickle(dict(text("a") + tensor(storage(6), 0, {6}, {1}) + text("b") + pickle)),
                HasSubstr(words));
  }
  EXPECT_THAT(refusal_of_pickle(dict(text("net") + dict(text("w") + wrong[0].first))), HasSubstr("\"net.w\" leaves"));
}

TEST_F(PtMalformed, OneStorageUnderTwoDtypes) {
  const std::string ones = little(1.0f) + little(1.0f), whole_pair = typed_tensor(8, "float32", {2}, {1});
  const auto pair = [&](const std::string& other) { return "](" + whole_pair + other + "e"; };
  const io::PtValue both = load_pickle(pair(typed_tensor(8, "uint32", {2}, {1})), ones);
  EXPECT_EQ(both.at(1).tensor().to_vector<uint64_t>(), (std::vector<uint64_t>{0x3f800000, 0x3f800000}));
  both.at(0).tensor().fill_(0.0);
  EXPECT_EQ(both.at(1).tensor().to_vector<uint64_t>(), (std::vector<uint64_t>{0, 0}));
  EXPECT_EQ(load_pickle(pair(typed_tensor(8, "uint16", {2, 2}, {2, 1})), ones).at(1).tensor().numel(), 4);
  EXPECT_THAT(refusal_of_pickle(pair(typed_tensor(8, "uint16", {5}, {1})), ones), HasSubstr("leaves its storage"));
  EXPECT_THAT(refusal_of_pickle(pair(typed_tensor(8, "bool", {8}, {1})), ones), HasSubstr("memory of another dtype"));
  EXPECT_THAT(refusal_of_pickle(typed_tensor(7, "float32", {1}, {1}), ones.substr(1)),
              HasSubstr("a part of an element"));
  const RawEntry big = {"archive/byteorder", "big"};
  const std::string swapped = pt_of(whole(pair(typed_tensor(8, "uint16", {4}, {1}))), ones, {big});
  EXPECT_THAT(refusal_of(swapped), HasSubstr("memory of another dtype"));
  EXPECT_EQ(
      load(pt_of(whole(typed_tensor(8, "uint16", {4}, {1})), "\1\2\3\4\5\6\7\x08", {big})).tensor().to_vector<int>(),
      (std::vector<int>{0x102, 0x304, 0x506, 0x708}));
}

TEST_F(PtMalformed, TensorsWithOtherArguments) {
  const std::string v2 = global("torch._utils", "_rebuild_tensor_v2"), s = storage(6),
                    sizes = numbers({6}) + numbers({1});
  const std::pair<std::string, const char*> wrong[] = {
      {v2 + ")R", "the wrong arguments"},
      {v2 + tuple("NK" + std::string(1, '\0') + sizes + "\x89" + no_hooks) + "R", "the wrong arguments"},
      {v2 + tuple(s + number(0) + sizes + "\x89") + "R", "the wrong arguments"},
      {v2 + tuple(s + number(0) + sizes + "\x89" + no_hooks + "NN") + "R", "the wrong arguments"},
      {v2 + tuple(s + text("0") + sizes + "\x89" + no_hooks) + "R", "an offset is no integer"},
      {v2 + tuple(s + number(0) + sizes + "N" + no_hooks) + "R", "requires_grad is no bool"},
      {v2 + tuple(s + number(0) + sizes + "\x89" + dict("NN")) + "R", "a tensor has hooks"},
      {v2 + tuple(s + number(0) + sizes + "\x89" + no_hooks + dict(text("neg") + "\x88")) + "R", "has metadata"},
      {v2 + tuple(s + number(0) + "]" + numbers({1}) + "\x89" + no_hooks) + "R", "sizes and strides are a list"},
      {v2 + tuple(s + number(0) + tuple(text("6")) + numbers({1}) + "\x89" + no_hooks) + "R", "is a string"},
      {tensor(storage(3, "LongStorage"), 0, {3}, {1}, "\x88"), "requires_grad of int64"},
      {tensor(text("0"), 0, {3}, {1}), "the wrong arguments"},
      {tensor(tuple(text("storage")) + "Q", 0, {3}, {1}), "BINPERSID names no storage"},
      {tensor(text("storage") + "Q", 0, {3}, {1}), "BINPERSID names no storage"},
      {tensor(storage(6, "float32"), 0, {3}, {1}), "float32 is no class of storages"},
      {global("torch._utils", "_rebuild_parameter") + tuple("N\x88" + no_hooks) + "R", "a parameter has the wrong"},
      {global("torch._utils", "_rebuild_parameter") + tuple(global("torch", "Size") + ")\x85R\x88" + no_hooks) + "R",
       "a parameter is no tensor"}};
  for (const auto& [pickle, words] : wrong) EXPECT_THAT(refusal_of_pickle(pickle), HasSubstr(words));
  EXPECT_THAT(refusal_of_pickle(tensor(storage(24, "BoolStorage"), 0, {24}, {1}), std::string(23, '\1') + '\2'),
              HasSubstr("bools other than 0 and 1"));
}

TEST_F(PtMalformed, DictsWithOtherKeys) {
  EXPECT_THAT(refusal_of_pickle(dict("]N")), HasSubstr("neither a text nor a number"));
  EXPECT_THAT(refusal_of_pickle(dict("K\1\x85N")), HasSubstr("neither a text nor a number"));
  EXPECT_THAT(refusal_of_pickle(dict(tensor(storage(6), 0, {6}, {1}) + "N")), HasSubstr("neither a text nor a number"));
  const io::PtValue twice = load_pickle(dict(text("a") + "K\1" + text("b") + "K\2" + text("a") + "K\3"));
  EXPECT_EQ(twice.size(), 2u);
  EXPECT_EQ(twice.entries()[0].value.integer(), 3);
}

TEST_F(PtMalformed, Archives) {
  const std::string pickle = whole("N");
  const auto with = [&](RawEntry more) { return refusal_of(pt_of(pickle, "", {std::move(more)})); };
  EXPECT_EQ(load(pt_of(pickle, "", {{"archive/byteorder", "little"}})).kind(), io::PtValue::Kind::none);
  EXPECT_THAT(with({"archive/data.pkl", pickle}), HasSubstr("have one name"));
  EXPECT_THAT(with({"other/data.pkl", pickle}), HasSubstr("two entries data.pkl"));
  EXPECT_THAT(with({"archive/constants.pkl", pickle}), HasSubstr("TorchScript"));
  EXPECT_THAT(with({"archive/byteorder", "middle"}), HasSubstr("byteorder says neither"));
  EXPECT_THAT(with({"archive/byteorder", std::string(100000, 'l')}), HasSubstr("byteorder says neither"));
  EXPECT_THAT(with({.name = "x", .bytes = "abc", .method = 12}), HasSubstr("neither stored nor deflated"));
  EXPECT_THAT(with({.name = "x", .bytes = "abc", .flags = 1}), HasSubstr("is encrypted"));
  EXPECT_THAT(with({.name = "x", .bytes = "abc", .unpacked = 4}), HasSubstr("stored with two sizes"));
  EXPECT_THAT(with({.name = "x", .bytes = "abc", .unpacked = 1000000, .method = 8}), HasSubstr("claims to be larger"));
  EXPECT_THAT(with({.name = "x", .bytes = "abc", .packed = 100000, .unpacked = 100000}), HasSubstr("f.pt"));
  EXPECT_THAT(refusal_of(zip_of({{"archive/version", "3"}})), HasSubstr("no data.pkl"));
  EXPECT_THAT(refusal_of(zip_of({{"a/b/data.pkl", pickle}})), HasSubstr("no data.pkl"));
  EXPECT_THAT(refusal_of(zip_of({{.name = "archive/data.pkl", .bytes = pickle, .crc = 1}})), HasSubstr("CRC error"));
  const std::string wrong_sum =
      zip_of({{"a/data.pkl", whole(tensor(storage(1), 0, {1}, {1}))}, {.name = "a/data/0", .bytes = "abcd", .crc = 1}});
  EXPECT_THAT(refusal_of(wrong_sum), HasSubstr("\"a/data/0\" is damaged: CRC error"));
}

TEST_F(PtMalformed, DeflatedBytesThatAreNoStream) {
  const std::string noise = "\xff\xff\xff\xff\xff\xff";
  EXPECT_THAT(refusal_of(zip_of({{.name = "a/data.pkl", .bytes = noise, .method = 8}})), HasSubstr("is damaged"));
  // The stream of one stored block "N.", which claims to have one byte, or three.
  const std::string block = std::string("\1\2\0\xfd\xff", 5) + "N.";
  const auto claims = [&](uint32_t size) {
    const uint32_t unpacked = size - static_cast<uint32_t>(block.size());
    return zip_of({{.name = "a/data.pkl",
                    .bytes = block,
                    .crc = crc_of("N.") - crc_of(block),
                    .unpacked = unpacked,
                    .method = 8}});
  };
  EXPECT_TRUE(load(claims(2)).is(io::PtValue::Kind::none));
  EXPECT_THAT(refusal_of(claims(1)), HasSubstr("is damaged"));
  EXPECT_THAT(refusal_of(claims(3)), HasSubstr("is damaged"));
}

}  // namespace
}  // namespace weft

#endif
