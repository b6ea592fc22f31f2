#include <gtest/gtest.h>

#include <weft/data/json_lines.hpp>
#include <weft/data/lines.hpp>
#include <weft/weft.hpp>

#include "../message_of.hpp"
#include "../temporary_folder.hpp"

namespace weft {
namespace {

using data::Json;

TEST(Json, ReturnsFieldsItemsAndValues) {
  const Json json = Json::parse(R"({"a": [1, 2.5, "x", true, null], "b": {"c": -3}})");
  EXPECT_EQ(json.names(), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(json["a"].size(), 5);
  EXPECT_EQ(json["a"][0].integer(), 1);
  EXPECT_EQ(json["a"][0].number(), 1.0);
  EXPECT_EQ(json["a"][1].number(), 2.5);
  EXPECT_EQ(json["a"][2].text(), "x");
  EXPECT_TRUE(json["a"][3].boolean());
  EXPECT_TRUE(json["a"][4].is_null());
  EXPECT_EQ(json["b"]["c"].integer(), -3);
  EXPECT_FALSE(json.has("z"));
  EXPECT_THROW(json["z"], KeyError);
  EXPECT_THROW(json["a"][5], IndexError);
  EXPECT_THROW(json["a"][-1], IndexError);
  EXPECT_THROW(json["a"][2].number(), FormatError);
  EXPECT_THROW(json["a"]["x"], FormatError);
}

TEST(Json, APartOutlivesTheWhole) {
  const Json part = Json::parse(R"({"deep": {"text": "a text that is longer than a small string"}})")["deep"]["text"];
  EXPECT_EQ(part.text(), "a text that is longer than a small string");
}

TEST(Json, MakesTensorsOfNestedLists) {
  const Tensor whole = Json::parse("[[1, 2, 3], [4, 5, 6]]").tensor();
  EXPECT_EQ(whole.dtype(), i64);
  EXPECT_EQ(whole.shape(), Dims({2, 3}));
  EXPECT_EQ(whole.to_vector<int64_t>(), (std::vector<int64_t>{1, 2, 3, 4, 5, 6}));
  EXPECT_EQ(Json::parse("[1, 0.5]").tensor().to_vector<float>(), (std::vector<float>{1, 0.5}));
  EXPECT_EQ(Json::parse("[true, false]").tensor().dtype(), boolean);
  EXPECT_EQ(Json::parse("7").tensor().shape(), Dims());
  EXPECT_EQ(Json::parse("[[], []]").tensor().shape(), Dims({2, 0}));
  EXPECT_EQ(Json::parse("[9007199254740993]").tensor()[0].item<int64_t>(), 9007199254740993);
  EXPECT_THROW(Json::parse("[[1, 2], [3]]").tensor(), ShapeError);
  EXPECT_THROW(Json::parse("[1, [2]]").tensor(), ShapeError);
  EXPECT_THROW(Json::parse("[1, true]").tensor(), FormatError);
  EXPECT_THROW(Json::parse("[\"x\"]").tensor(), FormatError);
  EXPECT_THROW(Json::parse("[[[[[[[[[1]]]]]]]]]").tensor(), ShapeError);
}

TEST(Json, RefusesMalformedTexts) {
  for (const char* text : {"", "{", "[1,]", "{\"a\": 1, \"a\": 2}", "nul", "\"\xFF\""}) {
    EXPECT_THROW(Json::parse(text), FormatError) << text;
  }
}

TEST(JsonLines, IteratesOverValuesAndNamesTheLineOfAnError) {
  const TemporaryFolder folder;
  write_bytes(folder / "rows.jsonl", "\xEF\xBB\xBF{\"n\": 1}\r\n\n  \n{\"n\": 2}\n{\"n\": 3}");
  int64_t sum = 0;
  for (const Json& row : data::read_json_lines(folder / "rows.jsonl")) sum = 10 * sum + row["n"].integer();
  EXPECT_EQ(sum, 123);
  write_bytes(folder / "bad.jsonl", "{\"n\": 1}\n\n{\"n\": }\n");
  const std::string message = message_of<FormatError>([&] {
    for (const Json& row : data::read_json_lines(folder / "bad.jsonl")) EXPECT_EQ(row["n"].integer(), 1);
  });
  EXPECT_NE(message.find("bad.jsonl: line 3: malformed JSON"), std::string::npos) << message;
  EXPECT_THROW(data::read_json_lines(folder / "none.jsonl"), IoError);
  write_bytes(folder / "empty.jsonl", "");
  const data::JsonLines empty = data::read_json_lines(folder / "empty.jsonl");
  EXPECT_EQ(empty.begin(), empty.end());
}

TEST(JsonTable, CollectsFieldsAsColumns) {
  const TemporaryFolder folder;
  write_bytes(
      folder / "rows.jsonl",
      "{\"text\": \"a\", \"x\": [1, 2], \"y\": 1, \"z\": 1}\n{\"text\": \"b\", \"x\": [3, 4.5], \"y\": 2, \"q\": 0}\n");
  const data::Table table = data::read_json_table(folder / "rows.jsonl", {"text", "x", "y"});
  EXPECT_EQ(table.rows(), 2);
  EXPECT_EQ(table.texts("text"), (std::vector<std::string>{"a", "b"}));
  EXPECT_EQ(table["x"].shape(), Dims({2, 2}));
  EXPECT_EQ(table["x"].to_vector<float>(), (std::vector<float>{1, 2, 3, 4.5}));
  EXPECT_EQ(table["y"].to_vector<int64_t>(), (std::vector<int64_t>{1, 2}));
  const std::string message = message_of<FormatError>([&] { data::read_json_table(folder / "rows.jsonl"); });
  EXPECT_NE(message.find("line 2: there is no field \"z\""), std::string::npos) << message;
}

TEST(JsonTable, RefusesUnequalLengthsAndKinds) {
  const TemporaryFolder folder;
  for (const char* rows : {"{\"x\": [1, 2]}\n{\"x\": [1]}\n", "{\"x\": [1, [2]]}\n", "{\"x\": 1}\n{\"x\": \"a\"}\n",
                           "{\"x\": true}\n{\"x\": 1}\n", "[1]\n", "{\"x\": null}\n"}) {
    write_bytes(folder / "rows.jsonl", rows);
    EXPECT_THROW(data::read_json_table(folder / "rows.jsonl"), FormatError) << rows;
  }
}

TEST(Lines, AreReadWithoutTheirEnds) {
  const TemporaryFolder folder;
  write_bytes(folder / "a.txt", "\xEF\xBB\xBFone\r\n\ntwo\rx\nlast");
  EXPECT_EQ(data::read_lines(folder / "a.txt"), (std::vector<std::string>{"one", "", "two\rx", "last"}));
  write_bytes(folder / "b.txt", "one\n");
  EXPECT_EQ(data::read_lines(folder / "b.txt"), (std::vector<std::string>{"one"}));
  write_bytes(folder / "c.txt", "");
  EXPECT_TRUE(data::read_lines(folder / "c.txt").empty());
  EXPECT_THROW(data::read_lines(folder / "none.txt"), IoError);
}

}  // namespace
}  // namespace weft
