// Reads and writes tokenizer.json.
#include <algorithm>
#include <cstdio>
#include <unordered_set>

#include <fmt/format.h>

#include "tables-inl.hpp"
#include "words-inl.hpp"
#include "../../io/file.hpp"
#include "../../io/json/json_tree-inl.hpp"
#include "../../io/json/utf8-inl.hpp"

namespace weft::data {

namespace {

using io::JsonNode;
using io::JsonTree;
using Kind = JsonTree::Kind;
using Tables = Tokenizer::Tables;

constexpr const char* op = "Tokenizer.load";

/// Reads a file, and rejects features that would change ids.
class Reader {
 public:
  Reader(Tables& tables, Location where) : tables_(tables), where_(where) {}

  void read(const JsonNode& file) {
    refuse_unless_null(file, "truncation");
    refuse_unless_null(file, "padding");
    read_model(file.at("model"));
    if (file.has("normalizer")) tables_.normalizers = read_normalizers(file.at("normalizer"), op, where_);
    tables_.pre_tokenizer = read_pre_tokenizer(file.at("pre_tokenizer"), op, where_);
    if (file.has("added_tokens")) file.at("added_tokens").each([&](const JsonNode& token) { read_added(token); });
    if (file.has("post_processor")) read_post_processor(file.at("post_processor"));
    if (!file.has("decoder") || is_null(file.at("decoder"))) refuse("a tokenizer without a decoder");
    bool bytes = false;
    read_decoder(file.at("decoder"), bytes);
    if (!bytes) refuse("a decoder without ByteLevel");
    const auto part = [&](const char* name) { return file.has(name) ? file.at(name).json() : JsonTree(); };
    tables_.normalizer_json = part("normalizer");
    tables_.pre_tokenizer_json = part("pre_tokenizer");
    tables_.post_processor_json = part("post_processor");
    tables_.decoder_json = part("decoder");
  }

  void read_vocabulary(const JsonNode& vocabulary) {
    const JsonTree& json = vocabulary.object().json();
    for (const auto& [name, id] : json.items) {
      if (!id.is(Kind::integer)) vocabulary.fail(fmt::format("the id of {} is no integer", io::quoted(name)));
      add(vocabulary, name, id.integer, json.items.size(), true);
    }
  }

  /// Both names and their concatenation must be tokens.
  void add_merge(std::string_view a, std::string_view b) {
    const auto id_of = [&](std::string_view name) {
      const auto found = tables_.ids.find(name);
      if (found != tables_.ids.end()) return found->second;
      malformed(
          fmt::format("merge {} has the token {}, which the vocabulary lacks", results_.size(), io::quoted(name)));
    };
    const uint32_t first = id_of(a), second = id_of(b);
    results_.push_back(id_of(std::string(a) + std::string(b)));
    tables_.merge_list.emplace_back(first, second);
  }
  void finish_merges() { tables_.index_merges(results_); }

  [[noreturn]] void malformed(const std::string& problem) const {
    raise<FormatError>({.op = op, .problem = problem}, where_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const { refuse_part(what, op, where_); }
  static bool is_null(const JsonNode& place) { return place.json().is(Kind::null); }
  static std::string type_of(const JsonNode& place) { return place.at("type").text(); }
  void refuse_unless_null(const JsonNode& place, const std::string& name) const {
    if (!place.has(name) || is_null(place.at(name))) return;
    const JsonNode field = place.at(name);
    const bool typed = field.json().is(Kind::object) && field.has("type");
    refuse("\"" + name + "\"" + (typed ? " of type " + io::quoted(type_of(field)) : ""));
  }
  static bool flag(const JsonNode& place, const std::string& name, bool otherwise = false) {
    return place.has(name) && !is_null(place.at(name)) ? place.at(name).boolean() : otherwise;
  }

  void add(const JsonNode& place, const std::string& name, int64_t id, size_t tokens, bool of_model) {
    // Ids may have gaps, but a short list of tokens must not cause a huge table.
    if (id < 0 || id >= 2 * static_cast<int64_t>(tokens) + 100000) {
      place.fail(fmt::format("{} has the id {} among {} tokens", io::quoted(name), id, tokens));
    }
    if (tables_.has(id)) place.fail(fmt::format("two tokens have the id {}", id));
    tables_.add_token(static_cast<uint32_t>(id), name, of_model);
  }

  void read_model(const JsonNode& model) {
    if (model.has("type") && model.at("type").text() != "BPE") refuse("the model " + type_of(model));
    if (model.has("dropout") && !is_null(model.at("dropout")) && model.at("dropout").number() != 0) refuse("dropout");
    for (const char* affix : {"continuing_subword_prefix", "end_of_word_suffix"}) {
      if (model.has(affix) && !is_null(model.at(affix)) && !model.at(affix).text().empty()) refuse(affix);
    }
    tables_.ignore_merges = flag(model, "ignore_merges");
    read_vocabulary(model.at("vocab"));
    const bool whole = std::ranges::find(tables_.byte_tokens, no_token) == tables_.byte_tokens.end();
    if (flag(model, "byte_fallback") && !whole) refuse("byte_fallback");
    const bool has_unknown = model.has("unk_token") && !is_null(model.at("unk_token"));
    if (has_unknown && !whole) refuse("unk_token in a vocabulary that lacks bytes");
    model.at("merges").each([&](const JsonNode& merge) { read_merge(merge); });
    finish_merges();
  }

  /// ["a", "b"], or "a b" in older files.
  void read_merge(const JsonNode& merge) {
    const JsonTree& json = merge.json();
    if (json.is(Kind::text)) {
      const size_t space = json.text.find(' ');
      if (space == std::string::npos || json.text.find(' ', space + 1) != std::string::npos) {
        merge.fail("a merge is two tokens with a space between them");
      }
      return add_merge(std::string_view(json.text).substr(0, space), std::string_view(json.text).substr(space + 1));
    }
    if (!json.is(Kind::list) || json.items.size() != 2 || !json.items[0].second.is(Kind::text) ||
        !json.items[1].second.is(Kind::text)) {
      merge.fail("a merge is two tokens");
    }
    add_merge(json.items[0].second.text, json.items[1].second.text);
  }

  void read_added(const JsonNode& place) {
    AddedToken token{.text = place.at("content").text(),
                     .special = flag(place, "special"),
                     .strips_left = flag(place, "lstrip"),
                     .strips_right = flag(place, "rstrip"),
                     .single_word = flag(place, "single_word")};
    if (token.text.empty()) place.fail("an added token without text");
    if (token.single_word && !unicode::is_there()) {
      refuse_without("single_word, of the token " + io::quoted(token.text), "utf8proc", op, where_);
    }
    const int64_t id = place.at("id").integer();
    const auto known = tables_.ids.find(token.text);
    if (known == tables_.ids.end()) add(place, token.text, id, tables_.ids.size() + 1, false);
    else if (known->second != id) place.fail(fmt::format("{} has two ids", io::quoted(token.text)));
    token.id = static_cast<uint32_t>(id);
    if (!added_.insert(token.id).second) place.fail(fmt::format("{} is added twice", io::quoted(token.text)));
    tables_.special[token.id] = token.special;
    tables_.added_json.add(place.json());
    if (!flag(place, "normalized")) return tables_.added.add(std::move(token));
    std::string text = tables_.normalized(token.text, 0, false, where_).text;
    if (text != token.text) tables_.changed.emplace(token.id, bytes_of_name(text));
    token.text = std::move(text);
    if (!token.text.empty()) tables_.added_normalized.add(std::move(token));
  }

  /// Rejects all decoders but ByteLevel and those that change nothing with it.
  void read_decoder(const JsonNode& place, bool& bytes) const {
    const std::string type = type_of(place);
    if (type == "Sequence") {
      return place.at("decoders").each([&](const JsonNode& each) { read_decoder(each, bytes); });
    }
    if (type != "ByteLevel" && type != "Fuse") refuse("the decoder " + type);
    bytes = bytes || type == "ByteLevel";
  }

  /// ["<s>", 0]
  uint32_t token_of(const JsonNode& place) const {
    const JsonTree& json = place.json();
    const bool is_pair = json.is(Kind::list) && json.items.size() == 2 && json.items[1].second.is(Kind::integer);
    if (!is_pair || !tables_.has(json.items[1].second.integer)) place.fail("it is no token with its id");
    return static_cast<uint32_t>(json.items[1].second.integer);
  }

  void read_post_processor(const JsonNode& place) {
    if (is_null(place)) return;
    const std::string type = type_of(place);
    if (type == "ByteLevel") return;  // its offset trimming does not apply here
    if (type == "Sequence") {
      place.at("processors").each([&](const JsonNode& each) { read_post_processor(each); });
      return;
    }
    if (!tables_.before.empty() || !tables_.behind.empty()) refuse("a template within a template");
    if (type == "RobertaProcessing" || type == "BertProcessing") {
      tables_.before.push_back(token_of(place.at("cls")));
      tables_.behind.push_back(token_of(place.at("sep")));
      return;
    }
    if (type != "TemplateProcessing") refuse("the post_processor " + type);
    std::vector<uint32_t>* side = &tables_.before;
    place.at("single").each([&](const JsonNode& item) {
      if (item.object().has("Sequence")) {
        if (side == &tables_.behind) refuse("a template that repeats the text");
        side = &tables_.behind;
        return;
      }
      const std::string name = item.at("SpecialToken").at("id").text();
      place.at("special_tokens").at(name).at("ids").each([&](const JsonNode& id) {
        if (!tables_.has(id.integer())) id.fail("no token has this id");
        side->push_back(static_cast<uint32_t>(id.integer()));
      });
    });
    if (side == &tables_.before) refuse("a template without the text");
  }

  Tables& tables_;
  Location where_;
  std::vector<uint32_t> results_;
  std::unordered_set<uint32_t> added_;
};

// ---- writing --------------------------------------------------------------------------------------------------------

JsonTree object_of(JsonTree::Items fields) { return {.kind = Kind::object, .items = std::move(fields)}; }
JsonTree whole(uint32_t number) { return JsonTree::of(static_cast<int64_t>(number)); }

JsonTree byte_level(bool add_prefix_space, bool use_regex) {
  return object_of({{"type", JsonTree::of("ByteLevel")},
                    {"add_prefix_space", JsonTree::of(add_prefix_space)},
                    {"trim_offsets", JsonTree::of(true)},
                    {"use_regex", JsonTree::of(use_regex)}});
}

JsonTree pre_tokenizer_of(WordPattern pattern, bool add_prefix_space) {
  if (pattern == WordPattern::none || pattern == WordPattern::gpt2) {
    return byte_level(add_prefix_space, pattern == WordPattern::gpt2);
  }
  JsonTree steps = JsonTree::list();
  steps.add(object_of({{"type", JsonTree::of("Split")},
                       {"pattern", object_of({{"Regex", JsonTree::of(std::string(expression_of(pattern)))}})},
                       {"behavior", JsonTree::of("Isolated")},
                       {"invert", JsonTree::of(false)}}));
  steps.add(byte_level(false, false));
  return object_of({{"type", JsonTree::of("Sequence")}, {"pretokenizers", std::move(steps)}});
}

JsonTree added_token_of(const std::string& text, uint32_t id) {
  return object_of({{"id", whole(id)},
                    {"content", JsonTree::of(text)},
                    {"single_word", JsonTree::of(false)},
                    {"lstrip", JsonTree::of(false)},
                    {"rstrip", JsonTree::of(false)},
                    {"normalized", JsonTree::of(false)},
                    {"special", JsonTree::of(true)}});
}

JsonTree model_of(const Tables& tables) {
  JsonTree vocabulary = JsonTree::object(), merges = JsonTree::list();
  for (uint32_t id = 0; id < tables.is_used.size(); ++id) {
    if (tables.in_model[id]) vocabulary.items.emplace_back(tables.names[id], whole(id));
  }
  for (const auto& [a, b] : tables.merge_list) {
    JsonTree merge = JsonTree::list();
    merge.add(JsonTree::of(tables.names[a]));
    merge.add(JsonTree::of(tables.names[b]));
    merges.add(std::move(merge));
  }
  return object_of({{"type", JsonTree::of("BPE")},
                    {"dropout", {}},
                    {"unk_token", {}},
                    {"continuing_subword_prefix", {}},
                    {"end_of_word_suffix", {}},
                    {"fuse_unk", JsonTree::of(false)},
                    {"byte_fallback", JsonTree::of(false)},
                    {"ignore_merges", JsonTree::of(tables.ignore_merges)},
                    {"vocab", std::move(vocabulary)},
                    {"merges", std::move(merges)}});
}

}  // namespace

void Tables::add_special(const std::string& name, uint32_t id) {
  added.add({.text = name, .id = id, .special = true});
  added_json.add(added_token_of(name, id));
  special[id] = true;
}

void Tables::set_words(WordPattern pattern, bool add_prefix_space) {
  pre_tokenizer = {.before = {}, .behind = {}, .words = pattern, .add_prefix_space = add_prefix_space};
  pre_tokenizer_json = pre_tokenizer_of(pattern, add_prefix_space);
  decoder_json = byte_level(true, true);
}

Tokenizer Tokenizer::from_json(std::string_view text, Location where) {
  const JsonTree json = io::parse_json(text, op, where);
  Tables tables;
  Reader(tables, where).read(JsonNode(json, op, where).object());
  return TokenizerBuilder::make(std::move(tables));
}

Tokenizer Tokenizer::load(const io::Path& path, Location where) {
  return from_json(io::read_file(path, op, where), where);
}

Tokenizer Tokenizer::load_gpt2(const io::Path& vocab_json, const io::Path& merges_txt, Location where) {
  const JsonTree json = io::parse_json(io::read_file(vocab_json, op, where), op, where);
  Tables tables;
  tables.set_words(WordPattern::gpt2, false);
  Reader reader(tables, where);
  reader.read_vocabulary(JsonNode(json, op, where));
  const std::string lines = io::read_file(merges_txt, op, where);
  int64_t number = 0;
  for (std::string_view rest = lines; !rest.empty();) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    std::string_view line = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    ++number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty() || line.starts_with("#version")) continue;
    const size_t space = line.find(' ');
    if (space == line.npos || line.find(' ', space + 1) != line.npos) {
      reader.malformed(fmt::format("{}: line {} is not two tokens", merges_txt.string(), number));
    }
    reader.add_merge(line.substr(0, space), line.substr(space + 1));
  }
  reader.finish_merges();
  const std::string end_of_text = "<|endoftext|>";
  if (const auto id = tables.ids.find(end_of_text); id != tables.ids.end()) tables.add_special(end_of_text, id->second);
  return TokenizerBuilder::make(std::move(tables));
}

std::string Tokenizer::to_json(Location where) const {
  const JsonTree file = object_of({{"version", JsonTree::of("1.0")},
                                   {"truncation", {}},
                                   {"padding", {}},
                                   {"added_tokens", tables_->added_json},
                                   {"normalizer", tables_->normalizer_json},
                                   {"pre_tokenizer", tables_->pre_tokenizer_json},
                                   {"post_processor", tables_->post_processor_json},
                                   {"decoder", tables_->decoder_json},
                                   {"model", model_of(*tables_)}});
  return io::json_text(file, "Tokenizer.save", where);
}

void Tokenizer::save(const io::Path& path, Location where) const {
  io::write_file(path, to_json(where), "Tokenizer.save", where);
}

}  // namespace weft::data
