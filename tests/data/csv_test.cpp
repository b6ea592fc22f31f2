#include <cmath>

#include <gtest/gtest.h>

#include <weft/data/csv.hpp>
#include <weft/data/json_lines.hpp>
#include <weft/weft.hpp>

#include "../message_of.hpp"
#include "../temporary_folder.hpp"

namespace weft {
namespace {

using data::ColumnType;
using data::parse_csv;
using data::Table;
using Texts = std::vector<std::string>;

TEST(Csv, InfersTypesOfColumns) {
  const Table t = parse_csv("i,f,b,t,m\n1,0.5,true,x,1\n-2,1e3,False,2,\n 3 ,+4,TRUE,,3\n");
  EXPECT_EQ(t.names(), (Texts{"i", "f", "b", "t", "m"}));
  EXPECT_EQ(t["i"].dtype(), i64);
  EXPECT_EQ(t["i"].to_vector<int64_t>(), (std::vector<int64_t>{1, -2, 3}));
  EXPECT_EQ(t["f"].dtype(), f32);
  EXPECT_EQ(t["f"].to_vector<float>(), (std::vector<float>{0.5, 1000, 4}));
  EXPECT_EQ(t["b"].dtype(), boolean);
  EXPECT_EQ(t.texts("t"), (Texts{"x", "2", ""}));
  EXPECT_EQ(t["m"].dtype(), f32);
  EXPECT_TRUE(std::isnan(t["m"][1].item<float>()));
  EXPECT_EQ(t["m"][2].item<float>(), 3);
}

// A column that is widened keeps earlier values exactly.
TEST(Csv, WidensAColumnThatTurnsOutWider) {
  const Table t = parse_csv("a,b,c,d,e\n01,true,1,,NA\n1.50,no,9223372036854775808,true,x\nx,1,2,,NA\n");
  EXPECT_EQ(t.texts("a"), (Texts{"01", "1.50", "x"}));
  EXPECT_EQ(t.texts("b"), (Texts{"true", "no", "1"}));
  EXPECT_EQ(t["c"].to_vector<float>(), (std::vector<float>{1, 9223372036854775808.0f, 2}));
  EXPECT_EQ(t.texts("d"), (Texts{"", "true", ""}));
  EXPECT_EQ(t.texts("e"), (Texts{"NA", "x", "NA"}));
  const Table missing = parse_csv("a,b\n,1\n,2\n5,3\n");
  EXPECT_TRUE(std::isnan(missing["a"][0].item<float>()));
  EXPECT_EQ(missing["a"][2].item<float>(), 5);
  EXPECT_TRUE(std::isnan(parse_csv("a\nNA\n")["a"].item<float>()));
}

TEST(Csv, TakesTypesThatAreGiven) {
  const Table t =
      parse_csv("a,b,c,d,e\n1,2,red,7,q\n2,NA,blue,8,q\n3,4,red,9,q\n", {.types = {{"a", ColumnType::f64},
                                                                                   {"b", ColumnType::f32},
                                                                                   {"c", ColumnType::category},
                                                                                   {"d", ColumnType::text},
                                                                                   {"e", ColumnType::skip}}});
  EXPECT_EQ(t["a"].dtype(), f64);
  EXPECT_TRUE(std::isnan(t["b"][1].item<float>()));
  EXPECT_EQ(t["c"].to_vector<int64_t>(), (std::vector<int64_t>{0, 1, 0}));
  EXPECT_EQ(t.column("c").categories, (Texts{"red", "blue"}));
  EXPECT_EQ(t.texts("d"), (Texts{"7", "8", "9"}));
  EXPECT_FALSE(t.has("e"));
  EXPECT_EQ(parse_csv("a\n0.1\n", {.floating = DType::f64})["a"].item<double>(), 0.1);
  EXPECT_EQ(parse_csv("a\nx\nNA\n", {.type = ColumnType::category})["a"].to_vector<int64_t>(),
            (std::vector<int64_t>{0, -1}));
}

TEST(Csv, RoundsDecimalsOnce) {
  // Between two f32 numbers; by way of a double it would become the other one.
  const Table t = parse_csv("a\n1.00000005960464477540\n1e400\n-1e-400\n");
  EXPECT_EQ(t["a"][0].item<float>(), 1.00000011920928955f);
  EXPECT_TRUE(std::isinf(t["a"][1].item<float>()));
  EXPECT_EQ(t["a"][2].item<float>(), 0);
}

TEST(Csv, MakesOneTensorOfColumns) {
  const Table t = parse_csv("a,b,c\n1,2.5,x\n3,4.5,y\n");
  const Tensor both = t.tensor({"b", "a"});
  EXPECT_EQ(both.shape(), Dims({2, 2}));
  EXPECT_EQ(both.to_vector<float>(), (std::vector<float>{2.5, 1, 4.5, 3}));
  EXPECT_EQ(t.tensor({"a"}, DType::i64).dtype(), i64);
  EXPECT_THROW(t.tensor({"c"}), DTypeError);
  EXPECT_THROW(t.tensor({"d"}), KeyError);
  EXPECT_THROW(t.texts("a"), DTypeError);
}

TEST(Csv, TakesDelimitersCommentsMarksAndEnds) {
  const Table t = parse_csv(
      "\xEF\xBB\xBF"
      "first line\r\na;b\r\n# no row\r\n1;2\r\n\r\n3;4",
      {.delimiter = ';', .comment = '#', .skip_lines = 1});
  EXPECT_EQ(t["b"].to_vector<int64_t>(), (std::vector<int64_t>{2, 4}));
  const Table bare = parse_csv("1,2\n3,4\n5,6\n", {.header = false, .max_rows = 2});
  EXPECT_EQ(bare.names(), (Texts{"0", "1"}));
  EXPECT_EQ(bare.rows(), 2);
  EXPECT_EQ(parse_csv("a,b\n1,2\n", {.names = {"x", "y"}})["y"].item<int64_t>(), 2);
  EXPECT_EQ(parse_csv("a,b\n").rows(), 0);
  EXPECT_EQ(parse_csv("a,b\n")["a"].shape(), Dims(0));
  EXPECT_EQ(parse_csv("").columns().size(), 0u);
}

// Round trips of Python's module csv.
TEST(Csv, ReadsQuotesAsPythonDoes) {
  int cases = 0;
  for (const data::Json& row : data::read_json_lines(WEFT_SOURCE_DIR "/tests/data/cases/csv.jsonl")) {
    const Table t = parse_csv(row["csv"].text(), {.header = false, .type = ColumnType::text});
    const data::Json rows = row["rows"];
    ASSERT_EQ(t.rows(), rows.size()) << row["csv"].text();
    for (int64_t r = 0; r < rows.size(); ++r) {
      for (int64_t c = 0; c < rows[r].size(); ++c) {
        ASSERT_EQ(t.texts(std::to_string(c))[static_cast<size_t>(r)], rows[r][c].text()) << row["csv"].text();
      }
    }
    ++cases;
  }
  EXPECT_EQ(cases, 200);
}

TEST(Csv, ErrorsNameLineAndColumn) {
  const auto message = [](const char* text, data::CsvOptions options = {}) {
    return message_of<FormatError>([&] { parse_csv(text, options); });
  };
  const auto says = [](const std::string& text, const char* what) {
    EXPECT_NE(text.find(what), std::string::npos) << text;
  };
  says(message("a,b\n1,2\n\"x\ny\",2,3\n"), "line 3: 3 fields, and 2 columns");
  says(message("a,b\n1\n"), "line 2: 1 fields");
  says(message("a,b\n1,\"2\n3"), "line 2, column 2: a quote is not closed");
  says(message("a\n\"1\"2\n"), "line 2, column 1: something follows");
  says(message("a,a\n1,2\n"), "line 1, column 2: two columns are named \"a\"");
  says(message("a\n1\nx\n", {.type = ColumnType::i64}), "line 3, column 1: \"x\" in the column \"a\"");
  says(message("a\n\n", {.names = {"x", "y"}}), "there are 1 columns and 2 names");
  EXPECT_THROW(parse_csv("a\n", {.types = {{"b", ColumnType::f32}}}), KeyError);
  EXPECT_THROW(parse_csv("a\n", {.delimiter = '"'}), ValueError);
  EXPECT_THROW(parse_csv("a\n", {.comment = ','}), ValueError);
  EXPECT_THROW(parse_csv("a\n", {.floating = DType::f16}), ValueError);
}

TEST(Csv, IsWrittenAndReadAgain) {
  const TemporaryFolder folder;
  Table table;
  table.add({.name = "n", .values = tensor({0.1f, std::nanf(""), -3e20f})});
  table.add({.name = "d", .values = tensor({0.1, 1e-300, 2.0}, f64)});
  table.add({.name = "i", .values = tensor<int64_t>({1, INT64_MIN, INT64_MAX})});
  table.add({.name = "b", .values = tensor({1, 0, 1}).to(boolean)});
  table.add({.name = "a \"text\"", .texts = {"x,y", "line\r\nbreak", ""}});
  table.add({.name = "c", .values = tensor({1, -1, 0}).to(i64), .categories = {"p", "q"}});
  data::write_csv(table, folder / "t.csv");
  const Table read = data::read_csv(folder / "t.csv", {.types = {{"d", ColumnType::f64}, {"c", ColumnType::category}}});
  EXPECT_EQ(read["n"][0].item<float>(), 0.1f);
  EXPECT_TRUE(std::isnan(read["n"][1].item<float>()));
  EXPECT_EQ(read["d"].to_vector<double>(), table["d"].to_vector<double>());
  EXPECT_EQ(read["i"].to_vector<int64_t>(), table["i"].to_vector<int64_t>());
  EXPECT_EQ(read["b"].dtype(), boolean);
  EXPECT_EQ(read.texts("a \"text\""), table.texts("a \"text\""));
  EXPECT_EQ(read["c"].to_vector<int64_t>(), (std::vector<int64_t>{0, -1, 1}));
  EXPECT_THROW(data::read_csv(folder / "none.csv"), IoError);
}

TEST(Table, RefusesUnequalLengthsAndNamesThatAreTaken) {
  Table table;
  table.add({.name = "a", .values = arange(3)});
  EXPECT_THROW(table.add({.name = "b", .values = arange(4)}), ShapeError);
  EXPECT_THROW(table.add({.name = "b", .texts = {"x"}}), ShapeError);
  EXPECT_THROW(table.add({.name = "a", .values = arange(3)}), ValueError);
  EXPECT_THROW(Table().add({.name = "s", .values = tensor(1.0)}), ShapeError);
  EXPECT_EQ(table.columns().size(), 1u);
}

// ---- parts ----------------------------------------------------------------------------------------------------------

std::string as_text(const data::Table& table) {
  const TemporaryFolder folder;
  data::write_csv(table, folder / "t.csv");
  return read_bytes(folder / "t.csv");
}

void expect_same_types(const data::Table& part, const data::Table& whole) {
  EXPECT_EQ(part.names(), whole.names());
  for (const data::Column& column : whole.columns()) {
    EXPECT_EQ(part.column(column.name).is_text(), column.is_text()) << column.name;
    if (column.is_text()) continue;
    EXPECT_EQ(part[column.name].dtype(), column.values.dtype()) << column.name;
  }
}

/// Rows with columns that change late to fractions, texts or bools.
std::string many_rows(int64_t rows) {
  std::string out = "# of a machine\nwhole,late,text,truth,kind,missing,note\n";
  for (int64_t i = 0; i < rows; ++i) {
    out += std::to_string(i) + (i == rows - 2 ? ",0.5," : ",7,") + (i == rows - 1 ? "x" : "007") + ',';
    out += std::string(i % 3 == 0 ? "true" : "false") + ",k" + std::to_string(i * i % 11) + ',' +
           (i % 5 == 0 ? "NA" : "3");
    out += i % 4 == 0 ? ",\"two\nlines, \"\"quoted\"\"\"\r\n" : ",\n";
  }
  return out;
}

const data::CsvOptions part_options = {.comment = '#', .types = {{"kind", data::ColumnType::category}}};

TEST(CsvChunks, AreTheTableOneAfterTheOther) {
  const TemporaryFolder folder;
  for (const int64_t rows : {0, 1, 2, 7, 100}) {
    write_bytes(folder / "t.csv", many_rows(rows));
    const data::Table whole = data::read_csv(folder / "t.csv", part_options);
    for (const int64_t each : {1, 3, 7, 99, 100, 101, 5000}) {
      data::CsvChunks chunks(folder / "t.csv", each, part_options);
      std::string all;
      int64_t seen = 0;
      while (const auto part = chunks.next()) {
        expect_same_types(*part, whole);
        EXPECT_EQ(part->rows(), std::min(each, rows - seen));
        const std::string text = as_text(*part);
        all += all.empty() ? text : text.substr(text.find('\n') + 1);
        seen += part->rows();
        EXPECT_EQ(chunks.row(), seen);
      }
      EXPECT_FALSE(chunks.next().has_value());
      EXPECT_EQ(seen, rows);
      EXPECT_TRUE(rows == 0 || all == as_text(whole)) << each;
    }
  }
}

TEST(CsvChunks, ResumeAtTheirPosition) {
  const TemporaryFolder folder;
  write_bytes(folder / "t.csv", many_rows(50));
  for (int stop = 0; stop <= 8; ++stop) {
    data::CsvChunks first(folder / "t.csv", 7, part_options), again(folder / "t.csv", 5, part_options);
    for (int i = 0; i < stop; ++i) ASSERT_TRUE(first.next().has_value());
    again.restore(first.state());
    EXPECT_EQ(again.row(), first.row());
    EXPECT_TRUE(stop == 0 || again.state() == first.state());  // types are not known before the first part
    std::string left, left_again;
    const auto read_on = [](data::CsvChunks& chunks, std::string& out) {
      while (const auto part = chunks.next()) {
        const std::string text = as_text(*part);
        out += text.substr(text.find('\n') + 1);
      }
    };
    read_on(first, left);
    read_on(again, left_again);
    EXPECT_EQ(left, left_again) << stop;
    EXPECT_EQ(left.empty(), stop == 8);
  }
}

TEST(CsvChunks, NameTheLineOfAnErrorEachTime) {
  const TemporaryFolder folder;
  write_bytes(folder / "t.csv", "a,b\n1,x\n2,y\n3,z\nfour,z\n5,w\n");
  data::CsvChunks chunks(folder / "t.csv", 2, {.types = {{"a", data::ColumnType::i64}}});
  EXPECT_EQ(chunks.next()->rows(), 2);
  for (int i = 0; i < 2; ++i) {
    const std::string message = message_of<FormatError>([&] { chunks.next(); });
    EXPECT_NE(message.find("line 5, column 1"), std::string::npos) << message;
    EXPECT_EQ(chunks.row(), 2);
  }
  write_bytes(folder / "t.csv", "b,a\n1,1\n2,2\n3,three\n");
  data::CsvChunks second(folder / "t.csv", 5, {.types = {{"a", data::ColumnType::i64}}});  // when b has it already
  for (int i = 0; i < 2; ++i) EXPECT_THROW(second.next(), FormatError);
  write_bytes(folder / "t.csv", "a,b\n1,x\n2\n");
  data::CsvChunks ragged(folder / "t.csv", 1);
  EXPECT_THROW(ragged.next(), FormatError);  // it is met where types are looked for
  EXPECT_THROW(data::CsvChunks(folder / "t.csv", 0), ValueError);
  EXPECT_THROW(data::CsvChunks(folder / "none.csv", 1), IoError);
  EXPECT_THROW(data::CsvChunks(folder / "t.csv", 1, {.types = {{"c", data::ColumnType::i64}}}), KeyError);
}

TEST(CsvChunks, RefuseAPlaceOfAnotherFile) {
  const TemporaryFolder folder;
  write_bytes(folder / "t.csv", "a,b\n1,x\n2,y\n");
  write_bytes(folder / "u.csv", "a,c\n1,x\n2,y\n");
  data::CsvChunks t(folder / "t.csv", 1), u(folder / "u.csv", 1);
  t.next();
  EXPECT_THROW(u.restore(t.state()), ValueError);
  data::CsvChunks typed(folder / "t.csv", 1, {.type = data::ColumnType::text});
  EXPECT_THROW(typed.restore(t.state()), ValueError);
  const std::string state = t.state();
  const auto changed = [&](const std::string& from, const std::string& to) {
    std::string other = state;
    const size_t at = other.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return other.replace(at, from.size(), to);
  };
  for (const std::string& other : {std::string("{}"), std::string("[]"), changed("\"at\": 8", "\"at\": 7"),
                                   changed("\"at\": 8", "\"at\": -1"), changed("\"at\": 8", "\"at\": 1000000"),
                                   changed("\"i64\"", "\"i63\""), changed("\"line\": 3", "\"line\": 0")}) {
    EXPECT_THROW(t.restore(other), FormatError) << other;
  }
  EXPECT_THROW(t.restore(changed("\"bytes\": 12", "\"bytes\": 13")), ValueError);
  EXPECT_EQ(t.state(), state);
  EXPECT_EQ(t.next()->texts("b")[0], "y");
}

TEST(CsvChunks, AreAStream) {
  const TemporaryFolder folder;
  write_bytes(folder / "t.csv", many_rows(40));
  const auto rows_of = [](const data::Table& part) { return part["late"]; };
  std::vector<std::vector<float>> seen;
  for (const int workers : {0, 2}) {
    data::DataLoader loader(data::map(data::csv_stream(folder / "t.csv", 8, part_options), rows_of),
                            {.batch_size = 2, .workers = workers});
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<float> all;
      for (const Tensor& batch : loader) {
        for (const float value : batch.reshape({-1}).to_vector<float>()) all.push_back(value);
      }
      EXPECT_EQ(all.size(), 40u);
      EXPECT_EQ(all[38], 0.5f);
      seen.push_back(all);
    }
    std::vector<float> rest;
    for (const Tensor& batch : loader) {
      if (rest.empty()) rest = batch.reshape({-1}).to_vector<float>();
      break;
    }
    data::DataLoader again(data::map(data::csv_stream(folder / "t.csv", 8, part_options), rows_of), {.batch_size = 2});
    again.restore(loader.state());
    for (const Tensor& batch : again) {
      for (const float value : batch.reshape({-1}).to_vector<float>()) rest.push_back(value);
    }
    EXPECT_EQ(rest, seen[0]);
  }
  for (const auto& one : seen) EXPECT_EQ(one, seen[0]);
}

}  // namespace
}  // namespace weft
