// Cases from the library `tokenizers` (cases/make_cases.py), and further guarantees of the class.
#include <algorithm>
#include <atomic>
#include <map>
#include <random>
#include <thread>

#include <regex.h>

#include <gtest/gtest.h>

#include <weft/data/json_lines.hpp>
#include <weft/data/tokenizer.hpp>
#include <weft/weft.hpp>

#include "../message_of.hpp"
#include "../temporary_folder.hpp"

namespace weft {
namespace {

using data::Tokenizer;
using data::WordPattern;
using Ids = std::vector<int64_t>;
const std::string cases = WEFT_SOURCE_DIR "/tests/data/cases/";

Ids ids_of(const data::Json& list) {
  Ids out;
  for (int64_t i = 0; i < list.size(); ++i) out.push_back(list[i].integer());
  return out;
}

std::vector<std::string> corpus() {
  const data::Json texts = data::Json::parse(read_bytes(cases + "corpus.json"));
  std::vector<std::string> out;
  for (int64_t i = 0; i < texts.size(); ++i) out.push_back(texts[i].text());
  return out;
}

WordPattern pattern_of(const std::string& name) {
  return name == "gpt4" ? WordPattern::gpt4 : name == "qwen2" ? WordPattern::qwen2 : WordPattern::gpt2;
}

class RecordedTokenizer : public testing::TestWithParam<const char*> {
 protected:
  std::string name = GetParam();
  Tokenizer tokenizer = Tokenizer::load(cases + name + ".json");

  void compare(const Tokenizer& with) {
    int texts = 0;
    for (const data::Json& row : data::read_json_lines(cases + name + "_texts.jsonl")) {
      const std::string& text = row["text"].text();
      EXPECT_EQ(with.encode(text), ids_of(row["ids"])) << text;
      EXPECT_EQ(with.encode(text, {.add_special_tokens = false}), ids_of(row["plain"])) << text;
      EXPECT_EQ(with.decode(ids_of(row["shuffled"])), row["decoded"].text()) << text;
      ++texts;
    }
    EXPECT_EQ(texts, 60);
  }
};

TEST_P(RecordedTokenizer, ReturnsTheRecordedIdsAndTexts) { compare(tokenizer); }

TEST_P(RecordedTokenizer, ReturnsTheSameAfterSavingAndLoading) {
  const TemporaryFolder folder;
  tokenizer.save(folder / "tokenizer.json");
  const Tokenizer again = Tokenizer::load(folder / "tokenizer.json");
  compare(again);
  EXPECT_EQ(again.to_json(), tokenizer.to_json());
}

TEST_P(RecordedTokenizer, LearnsTheRecordedMerges) {
  const Tokenizer trained = Tokenizer::train(corpus(), {.vocab_size = 500,
                                                        .special_tokens = {"<|end|>", "<pad>"},
                                                        .pattern = pattern_of(name),
                                                        .add_prefix_space = name == "spaced"});
  const data::Json merges = data::Json::parse(read_bytes(cases + name + "_merges.json"));
  const auto learned = trained.merges();
  ASSERT_EQ(std::ssize(learned), merges.size());
  EXPECT_GT(learned.size(), 200u);
  for (size_t i = 0; i < learned.size(); ++i) {
    const data::Json pair = merges[static_cast<int64_t>(i)];
    ASSERT_EQ(learned[i], std::pair(pair[0].text(), pair[1].text())) << i;
  }
  for (int64_t id = 0; id < trained.vocab_size(); ++id) ASSERT_EQ(trained.token(id), tokenizer.token(id));
}

TEST_P(RecordedTokenizer, EncodesABatchAsItsTexts) {
  std::vector<std::string> texts;
  for (const data::Json& row : data::read_json_lines(cases + name + "_texts.jsonl"))
    texts.push_back(row["text"].text());
  for (const std::string& text : corpus()) texts.push_back(text);
  const auto batch = tokenizer.encode_batch(texts);
  for (size_t i = 0; i < texts.size(); ++i) EXPECT_EQ(batch[i], tokenizer.encode(texts[i]));
  EXPECT_TRUE(tokenizer.encode_batch({}).empty());
}

INSTANTIATE_TEST_SUITE_P(Patterns, RecordedTokenizer, testing::Values("gpt2", "spaced", "gpt4", "qwen2"));

// Oniguruma has functions of the same names.
TEST(Tokenizer, LeavesPosixExpressionsToTheProgram) {
  regex_t expression;
  ASSERT_EQ(regcomp(&expression, "a+b", REG_EXTENDED), 0);
  regmatch_t place;
  ASSERT_EQ(regexec(&expression, "xaab", 1, &place, 0), 0);
  EXPECT_EQ(place.rm_so, 1);
  EXPECT_EQ(place.rm_eo, 4);
  regfree(&expression);
}

// Parts that files of well-known models have (cases/make_parts.py), around one vocabulary.
TEST(Tokenizer, ReturnsTheRecordedIdsOfWellKnownModels) {
#if !WEFT_HAS_UTF8PROC || !WEFT_HAS_ONIG
  GTEST_SKIP() << "built without utf8proc or Oniguruma";
#endif
  const std::string model = data::Json::parse(read_bytes(cases + "gpt4.json"))["model"].dump();
  int files = 0;
  for (const data::Json& row : data::read_json_lines(cases + "tokenizer_parts.jsonl")) {
    SCOPED_TRACE(row["name"].text());
    const Tokenizer read = Tokenizer::from_json("{\"model\": " + model + ", " + row["parts"].dump().substr(1));
    const Tokenizer again = Tokenizer::from_json(read.to_json());
    EXPECT_EQ(again.to_json(), read.to_json());
    const data::Json texts = row["texts"];
    for (int64_t i = 0; i < texts.size(); ++i) {
      const std::string text = texts[i][0].text();
      const Ids ids = ids_of(texts[i][1]);
      EXPECT_EQ(read.encode(text), ids) << text;
      EXPECT_EQ(again.encode(text), ids) << text;
      EXPECT_EQ(read.encode(text, {.add_special_tokens = false}), ids_of(texts[i][2])) << text;
      EXPECT_EQ(read.decode(ids), texts[i][3].text()) << text;
      const data::Encoding encoding = read.encode_with_offsets(text);
      EXPECT_EQ(encoding.ids, ids) << text;
      for (const auto& [begin, end] : encoding.offsets) {
        EXPECT_TRUE(0 <= begin && begin <= end && end <= std::ssize(text)) << text << ' ' << begin << ' ' << end;
      }
    }
    ++files;
  }
  EXPECT_EQ(files, 43);
}

TEST(Tokenizer, ReturnsOffsetsOfNormalizedTokens) {
#if WEFT_HAS_UTF8PROC
  const std::string with =
      R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"},
    {"type": "Strip"}, {"type": "Prepend", "prepend": "> "}]})";
  std::string json = Tokenizer::train(corpus(), {.vocab_size = 256}).to_json();
  json.replace(json.find("\"normalizer\": null"), 18, with);
  const Tokenizer tokenizer = Tokenizer::from_json(json);
  const std::string text = " Ae\u0301\uFB01 ";  // "> a", "é", "fi"
  const data::Encoding encoding = tokenizer.encode_with_offsets(text);
  EXPECT_EQ(tokenizer.decode(encoding.ids), "> a\u00E9fi");
  using Span = std::pair<int64_t, int64_t>;
  EXPECT_EQ(encoding.offsets, (std::vector<Span>{{1, 1}, {1, 1}, {1, 2}, {2, 5}, {2, 5}, {5, 8}, {5, 8}}));
#endif
}

// Bytes that are no UTF-8 pass through every step.
TEST(Tokenizer, TakesAnyBytesThroughEveryPart) {
#if !WEFT_HAS_UTF8PROC || !WEFT_HAS_ONIG
  GTEST_SKIP() << "built without utf8proc or Oniguruma";
#endif
  const std::string model = data::Json::parse(read_bytes(cases + "gpt4.json"))["model"].dump();
  std::mt19937_64 random(9);
  for (const data::Json& row : data::read_json_lines(cases + "tokenizer_parts.jsonl")) {
    const std::string name = row["name"].text();
    const Tokenizer read = Tokenizer::from_json("{\"model\": " + model + ", " + row["parts"].dump().substr(1));
    const bool changes = row["parts"]["normalizer"].dump().find("type") != std::string::npos;
    const bool drops = name.find("Removed") != name.npos || name.find("whitespace") == 0 || name == "delimiter" ||
                       name == "roberta" || name == "digits_and_prefix" ||
                       row["parts"]["normalizer"].dump().find("normalizers") == std::string::npos;
    for (int i = 0; i < 40; ++i) {
      std::string bytes(random() % 60, 0);
      for (char& byte : bytes) byte = static_cast<char>(random() % 2 == 0 ? random() : " 'e1\n\xCC\x81"[random() % 7]);
      const data::Encoding encoding =
          read.encode_with_offsets(bytes, {.special = data::SpecialTokens::plain, .add_special_tokens = false});
      EXPECT_TRUE(changes || drops || read.decode_bytes(encoding.ids) == bytes) << name;
      for (const auto& [begin, end] : encoding.offsets) {
        EXPECT_TRUE(0 <= begin && begin <= end && end <= std::ssize(bytes)) << name;
      }
    }
  }
}

TEST(Tokenizer, NormalizesManyMarksInTimeThatGrowsWithThem) {
#if WEFT_HAS_UTF8PROC
  std::string json = Tokenizer::train(corpus(), {.vocab_size = 256}).to_json();
  json.replace(json.find("\"normalizer\": null"), 18, R"("normalizer": {"type": "NFD"})");
  std::string marks = "e";
  for (int i = 0; i < 200000; ++i) marks += i % 2 == 0 ? "\u0301" : "\u0323";  // classes 230 and 220
  const std::string sorted = Tokenizer::from_json(json).decode(Tokenizer::from_json(json).encode(marks));
  EXPECT_EQ(sorted.size(), marks.size());
  EXPECT_EQ(sorted.substr(1, 2), "\u0323");
  EXPECT_EQ(sorted.substr(sorted.size() - 2), "\u0301");
#endif
}

TEST(Tokenizer, RoundTripsAnyBytes) {
  std::mt19937_64 random(3);
  for (const char* name : {"gpt2", "gpt4", "qwen2"}) {
    const Tokenizer tokenizer = Tokenizer::load(cases + name + ".json");
    for (int i = 0; i < 300; ++i) {
      std::string bytes(random() % 80, 0);
      for (char& byte : bytes) byte = static_cast<char>(random() % 3 == 0 ? random() : " 'sé\xF0\x9F"[random() % 7]);
      const data::EncodeOptions options = {.special = data::SpecialTokens::plain, .add_special_tokens = false};
      const data::Encoding encoding = tokenizer.encode_with_offsets(bytes, options);
      EXPECT_EQ(tokenizer.decode_bytes(encoding.ids), bytes);
      int64_t at = 0;
      for (size_t k = 0; k < encoding.ids.size(); ++k) {
        const auto [begin, end] = encoding.offsets[k];
        EXPECT_EQ(begin, at);
        EXPECT_EQ(tokenizer.decode_bytes(std::vector{encoding.ids[k]}),
                  bytes.substr(static_cast<size_t>(begin), static_cast<size_t>(end - begin)));
        at = end;
      }
      EXPECT_EQ(at, std::ssize(bytes));
    }
  }
}

// The queue for long words and the search for short ones are one rule.
TEST(Tokenizer, MergesLongWordsAsShortOnes) {
  const std::vector<std::string> texts(4, "abababab aaaa aaaaaaaa abcabcabc bcbcbc cacaca");
  const Tokenizer tokenizer = Tokenizer::train(texts, {.vocab_size = 280, .pattern = WordPattern::none});
  std::map<std::string, size_t> ranks;
  const auto merges = tokenizer.merges();
  for (size_t i = 0; i < merges.size(); ++i) ranks.emplace(merges[i].first + " " + merges[i].second, i);
  std::mt19937_64 random(5);
  for (const size_t length : {3, 40, 48, 49, 60, 500}) {
    std::string word;
    for (size_t i = 0; i < length; ++i) word += "abc"[random() % 3];
    std::vector<std::string> tokens;
    for (const char c : word) tokens.emplace_back(1, c);
    for (;;) {
      size_t best = tokens.size(), rank = merges.size();
      for (size_t i = 0; i + 1 < tokens.size(); ++i) {
        const auto found = ranks.find(tokens[i] + " " + tokens[i + 1]);
        if (found != ranks.end() && found->second < rank) best = i, rank = found->second;
      }
      if (best == tokens.size()) break;
      tokens[best] += tokens[best + 1];
      tokens.erase(tokens.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
    Ids expected;
    for (const std::string& token : tokens) expected.push_back(*tokenizer.id(token));
    EXPECT_EQ(tokenizer.encode(word), expected) << word;
  }
}

TEST(Tokenizer, TreatsSpecialTokensByOption) {
  const Tokenizer tokenizer = Tokenizer::load(cases + "gpt2.json");
  const int64_t end = *tokenizer.id("<|end|>");
  EXPECT_EQ(end, 0);
  EXPECT_TRUE(tokenizer.is_special(end));
  EXPECT_FALSE(tokenizer.is_special(*tokenizer.id("<b>")));
  EXPECT_EQ(tokenizer.encode("<|end|>"), Ids{end});
  const Ids plain = tokenizer.encode("a<|end|>", {.special = data::SpecialTokens::plain});
  EXPECT_EQ(std::ranges::count(plain, end), 0);
  EXPECT_EQ(tokenizer.decode(plain), "a<|end|>");
  const std::string message =
      message_of<ValueError>([&] { tokenizer.encode("a<|end|>", {.special = data::SpecialTokens::forbid}); });
  EXPECT_NE(message.find("special token \"<|end|>\""), std::string::npos) << message;
  EXPECT_EQ(tokenizer.decode(tokenizer.encode("a<|end|>b"), {.skip_special_tokens = true}), "ab");
  EXPECT_THROW(tokenizer.decode(Ids{tokenizer.vocab_size()}), IndexError);
  EXPECT_THROW(tokenizer.decode(Ids{-1}), IndexError);
  EXPECT_THROW(tokenizer.token(1 << 20), IndexError);
  EXPECT_FALSE(tokenizer.id("not there").has_value());
}

TEST(Tokenizer, ReadsTheFilesOfGpt2) {
  const TemporaryFolder folder;
  const Tokenizer trained = Tokenizer::train(corpus(), {.vocab_size = 400, .special_tokens = {"<|endoftext|>"}});
  const data::Json model = data::Json::parse(trained.to_json())["model"];
  write_bytes(folder / "vocab.json", model["vocab"].dump());
  std::string lines = "#version: 0.2\n";
  for (const auto& [a, b] : trained.merges()) lines += a + " " + b + "\n";
  write_bytes(folder / "merges.txt", lines);
  const Tokenizer read = Tokenizer::load_gpt2(folder / "vocab.json", folder / "merges.txt");
  for (const std::string& text : corpus()) EXPECT_EQ(read.encode(text), trained.encode(text));
  EXPECT_EQ(read.encode("x<|endoftext|>").back(), 0);
  write_bytes(folder / "merges.txt", "a b c\n");
  EXPECT_THROW(Tokenizer::load_gpt2(folder / "vocab.json", folder / "merges.txt"), FormatError);
  write_bytes(folder / "merges.txt", "a notthere\n");
  EXPECT_THROW(Tokenizer::load_gpt2(folder / "vocab.json", folder / "merges.txt"), FormatError);
}

TEST(Tokenizer, TakesMergesInBothForms) {
  std::string json = Tokenizer::train(corpus(), {.vocab_size = 300}).to_json();
  const Tokenizer lists = Tokenizer::from_json(json);
  const data::Json merges = data::Json::parse(json)["model"]["merges"];
  for (int64_t i = 0; i < merges.size(); ++i) {
    const data::Json pair = merges[i];
    const std::string list = "[\"" + pair[0].text() + "\", \"" + pair[1].text() + "\"]";
    const size_t at = json.find(list);
    ASSERT_NE(at, std::string::npos) << list;
    json.replace(at, list.size(), "\"" + pair[0].text() + " " + pair[1].text() + "\"");
  }
  EXPECT_EQ(Tokenizer::from_json(json).merges(), lists.merges());
}

TEST(Tokenizer, NamesUnsupportedParts) {
  const std::string json = Tokenizer::train(corpus(), {.vocab_size = 260}).to_json();
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = json;
    const size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return changed.replace(at, from.size(), to);
  };
  const auto refused = [&](const std::string& changed, const char* name) {
    const std::string message = message_of<NotImplementedError>([&] { Tokenizer::from_json(changed); });
    EXPECT_NE(message.find(name), std::string::npos) << message;
  };
  refused(with("\"normalizer\": null", R"("normalizer": {"type": "Precompiled"})"), "normalizer Precompiled");
  refused(with("\"normalizer\": null",
               R"("normalizer": {"type": "Sequence", "normalizers": [{"type": "BertNormalizer"}]})"),
          "normalizer BertNormalizer");
  refused(with("\"pre_tokenizer\": {", R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": []}, "unused": {)"),
          "without ByteLevel");
  refused(with("\"decoder\": {", R"("decoder": {"type": "WordPiece"}, "unused": {)"), "decoder WordPiece");
  refused(with("\"dropout\": null", "\"dropout\": 0.1"), "dropout");
  refused(with("\"end_of_word_suffix\": null", R"("end_of_word_suffix": "</w>")"), "end_of_word_suffix");
  refused(with("\"type\": \"BPE\"", "\"type\": \"Unigram\""), "Unigram");
  refused(with("\"truncation\": null", R"("truncation": {"max_length": 5})"), "truncation");
  refused(with("\"pre_tokenizer\": {\"type\": \"ByteLevel\"", "\"pre_tokenizer\": {\"type\": \"Metaspace\""),
          "Metaspace");
  refused(with("\"post_processor\": null", R"("post_processor": {"type": "Strange"})"), "Strange");
}

TEST(Tokenizer, RefusesMalformedFiles) {
  EXPECT_THROW(Tokenizer::from_json("{}"), FormatError);
  EXPECT_THROW(Tokenizer::from_json("[]"), FormatError);
  EXPECT_THROW(Tokenizer::load("/nowhere/tokenizer.json"), IoError);
  const char* const start =
      R"({"pre_tokenizer": {"type": "ByteLevel"}, "decoder": {"type": "ByteLevel"}, "model": {"vocab": )";
  for (const char* rest :
       {R"({"a": 1000000}, "merges": []}})", R"({"a": -1}, "merges": []}})", R"({"a": 0, "b": 0}, "merges": []}})",
        R"({"a": "x"}, "merges": []}})", R"({"a": 0, "b": 1}, "merges": [["a", "b"]]}})",
        R"({"a": 0}, "merges": ["a"]}})", R"({"a": 0}, "merges": [["a"]]}})"}) {
    EXPECT_THROW(Tokenizer::from_json(std::string(start) + rest), FormatError) << rest;
  }
  const Tokenizer little =
      Tokenizer::from_json(std::string(start) + R"({"a": 0, "b": 1, "ab": 2}, "merges": [["a", "b"]]}})");
  EXPECT_THROW(little.encode("ab"), ValueError);  // ByteLevel puts a space first, which has no token
}

TEST(Tokenizer, EndsTrainingOnRequest) {
  const std::vector<std::string> texts = {"low low low lower lowest newer newer"};
  EXPECT_EQ(Tokenizer::train(texts, {.vocab_size = 256}).merges().size(), 0u);
  EXPECT_EQ(Tokenizer::train(texts, {.vocab_size = 258}).merges().size(), 2u);
  for (const auto& [a, b] : Tokenizer::train(texts, {.min_frequency = 4}).merges()) EXPECT_NE(a + b, "er");
  const Tokenizer all = Tokenizer::train(texts, {});
  EXPECT_LT(all.vocab_size(), 300);
  EXPECT_EQ(all.encode("low").size(), 1u);
  std::vector<int64_t> told;
  Tokenizer::train(texts, {.vocab_size = 260, .progress = [&](int64_t tokens, int64_t) { told.push_back(tokens); }});
  EXPECT_EQ(told, (std::vector<int64_t>{256, 260}));
  EXPECT_THROW(Tokenizer::train(texts, {.vocab_size = 255}), ValueError);
  EXPECT_THROW(Tokenizer::train(texts, {.special_tokens = {"a", "a"}}), ValueError);
  EXPECT_THROW(Tokenizer::train(texts, {.special_tokens = {""}}), ValueError);
  EXPECT_EQ(Tokenizer::train({}, {}).vocab_size(), 256);
}

TEST(Tokenizer, ServesThreadsAtOnce) {
  const Tokenizer tokenizer = Tokenizer::load(cases + "gpt4.json");
  const std::vector<std::string> texts = corpus();
  std::vector<Ids> expected;
  for (const std::string& text : texts) expected.push_back(tokenizer.encode(text));
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, copy = tokenizer] {
      for (size_t i = 0; i < texts.size(); ++i) wrong += copy.encode(texts[i]) != expected[i];
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace weft
