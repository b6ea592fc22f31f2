#include "generate.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/detail/common.hpp"
#include "sequences-inl.hpp"

namespace weft::generate {

namespace {

constexpr const char* op = "generate";

void check_prompts(const LanguageModel& model, const std::vector<Tokens>& prompts, Location where) {
  for (size_t i = 0; i < prompts.size(); ++i) {
    const auto refuse = [&](const std::string& problem) {
      raise<ValueError>({.op = op, .problem = fmt::format("prompt {} {}", i, problem)}, where);
    };
    if (prompts[i].empty()) refuse("is empty");
    for (const int64_t token : prompts[i]) {
      if (token < 0 || token >= model.vocabulary)
        refuse(fmt::format("has the token {} of {}", token, model.vocabulary));
    }
    if (model.context > 0 && std::ssize(prompts[i]) >= model.context) {
      refuse(fmt::format("has {} tokens, which fill the context of {}", prompts[i].size(), model.context));
    }
  }
}

void check_options(const LanguageModel& model, const GenerateOptions& o, Location where) {
  const auto refuse = [&](std::string problem) { raise<ValueError>({.op = op, .problem = std::move(problem)}, where); };
  check(o.sampling, where);
  if (o.max_new_tokens < 0) refuse(fmt::format("max_new_tokens is {}", o.max_new_tokens));
  const auto is_empty = [](const Tokens& t) { return t.empty(); };
  if (std::ranges::any_of(o.stop_sequences, is_empty)) refuse("a stop sequence is empty");
  if (o.beams < 1) refuse(fmt::format("{} beams", o.beams));
  if (o.draft && o.draft->vocabulary != model.vocabulary) {
    refuse(fmt::format("the draft has {} tokens, the model {}", o.draft->vocabulary, model.vocabulary));
  }
  if (o.draft_tokens < (o.draft ? 1 : 0)) refuse(fmt::format("draft_tokens is {}", o.draft_tokens));
  if (o.beams == 1) return;
  if (o.on_token || o.draft) refuse("beams have no on_token and no draft");
  const SamplingOptions& s = o.sampling;
  if (s.temperature != 1 || s.top_k != 0 || s.top_p != 1 || s.min_p != 0) refuse("beams draw nothing");
}

struct Sequence {
  int64_t number;
  Tokens all;
  Sampler draw;
  Generation made = {};
  /// Tokens proposed by the model's own draft heads.
  Tokens ahead = {};
};

/// Unfinished sequences; each is a row of the model's and the draft's decoding.
class Run {
 public:
  Run(const LanguageModel& model, const std::vector<Tokens>& prompts, const GenerateOptions& options, Location where)
      : model_(model), options_(options), where_(where) {
    int64_t longest = 0;
    for (const Tokens& prompt : prompts) {
      const auto number = std::ssize(rows_);
      rows_.push_back({number, prompt, Sampler(options.sampling, options.seed, static_cast<uint64_t>(number), where)});
      longest = std::max(longest, std::ssize(prompt));
    }
    finished_.resize(rows_.size());
    const auto rows = std::ssize(rows_);
    int64_t capacity = longest + options.max_new_tokens;
    if (model.context > 0) capacity = std::min(capacity, model.context);
    decoding_.emplace(model.begin(rows, capacity), rows);
    if (options.draft) {
      if (options.draft->context > 0) capacity = std::min(capacity, options.draft->context);
      draft_.emplace(options.draft->begin(rows, capacity), rows);
    }
  }

  std::vector<Generation> operator()() {
    if (options_.max_new_tokens == 0) rows_.clear();
    while (!rows_.empty()) {
      const int64_t ahead = draft_ || has_heads() ? tokens_ahead() : 0;
      std::vector<Tokens> proposals(rows_.size());
      if (ahead > 0) proposals = draft_ ? proposed(ahead) : proposed_by_heads(ahead);
      read_and_draw(proposals);
      drop_finished();
    }
    return std::move(finished_);
  }

 private:
  int64_t left(const Sequence& s) const {
    const int64_t by_length = options_.max_new_tokens - std::ssize(s.made.tokens);
    return model_.context > 0 ? std::min(by_length, model_.context - std::ssize(s.all)) : by_length;
  }

  bool has_heads() const { return !draft_ && model_.draft_heads > 0 && options_.draft_tokens > 0; }

  /// The number of tokens that the draft may propose for every row, so that no token beyond a limit is read. 0 directly
  /// after a prompt, which returns logits for its last token only.
  int64_t tokens_ahead() const {
    int64_t ahead = options_.draft_tokens;
    for (const Sequence& s : rows_) {
      if (s.made.tokens.empty()) return 0;
      ahead = std::min(ahead, left(s) - 1);
      if (!draft_) ahead = std::min(ahead, std::ssize(s.ahead));
      else if (options_.draft->context > 0) ahead = std::min(ahead, options_.draft->context - std::ssize(s.all));
    }
    return std::max<int64_t>(ahead, 0);
  }

  std::vector<Tokens> proposed(int64_t ahead) {
    std::vector<Tokens> texts, out(rows_.size());
    std::vector<Sampler> draws;
    for (const Sequence& s : rows_) texts.push_back(s.all), draws.push_back(s.draw);
    for (int64_t i = 0; i < ahead; ++i) {
      const Logits logits = draft_->read_rest(texts, true);
      for (size_t r = 0; r < rows_.size(); ++r) {
        const int64_t token = draws[r](logits.row(r, 0), texts[r], where_).token;
        texts[r].push_back(token);
        out[r].push_back(token);
      }
    }
    return out;
  }

  std::vector<Tokens> proposed_by_heads(int64_t ahead) const {
    std::vector<Tokens> out;
    for (const Sequence& s : rows_) out.emplace_back(s.ahead.begin(), s.ahead.begin() + ahead);
    return out;
  }

  /// Asks the draft heads for proposals. back[r]: number of tokens read after the one from which row r was last drawn.
  void ask_heads(const std::vector<int64_t>& back) {
    const Logits logits = decoding_->draft(back);
    const int64_t heads = std::min(model_.draft_heads, options_.draft_tokens);
    for (size_t r = 0; r < rows_.size(); ++r) {
      Sequence& s = rows_[r];
      s.ahead.clear();
      if (s.number < 0) continue;
      Tokens text = s.all;
      Sampler draw = s.draw;
      for (int64_t i = 0; i < heads; ++i) {
        text.push_back(draw(logits.row(r, static_cast<size_t>(i)), text, where_).token);
        s.ahead.push_back(text.back());
      }
    }
  }

  void read_and_draw(const std::vector<Tokens>& proposals) {
    std::vector<Tokens> texts;
    for (size_t r = 0; r < rows_.size(); ++r) {
      texts.push_back(rows_[r].all);
      texts[r].insert(texts[r].end(), proposals[r].begin(), proposals[r].end());
    }
    const size_t ahead = proposals[0].size();
    const Logits logits = decoding_->read_rest(texts, ahead == 0);
    std::vector<int64_t> back;
    for (size_t r = 0; r < rows_.size(); ++r) {
      Sequence& s = rows_[r];
      s.made.proposed += static_cast<int64_t>(ahead);
      size_t i = 0;
      while (draw_next(s, logits.row(r, i), i < ahead ? &proposals[r][i] : nullptr)) ++i;
      back.push_back(static_cast<int64_t>(ahead - i));
    }
    if (has_heads()) ask_heads(back);
    if (ahead == 0) return;
    // Discards tokens that were proposed but not drawn.
    decoding_->keep_common(texts_of_rows());
    if (draft_) draft_->keep_common(texts_of_rows());
  }

  std::vector<Tokens> texts_of_rows() const {
    std::vector<Tokens> out;
    for (const Sequence& s : rows_) out.push_back(s.all);
    return out;
  }

  /// Draws the next token. Returns true if it equals the proposed one and the sequence continues.
  bool draw_next(Sequence& s, std::span<const float> logits, const int64_t* proposed) {
    const Sampler::Drawn drawn = s.draw(logits, s.all, where_);
    const bool same = proposed != nullptr && drawn.token == *proposed;
    if (same) ++s.made.accepted;
    return take(s, drawn) && same;
  }

  /// Appends a drawn token. Returns whether the sequence continues.
  bool take(Sequence& s, const Sampler::Drawn& drawn) {
    s.all.push_back(drawn.token);
    s.made.tokens.push_back(drawn.token);
    s.made.log_probability += drawn.log_probability;
    std::optional<Finish> finish = finish_of(s.made.tokens, options_);
    if (!finish && left(s) <= 0) finish = Finish::length;
    if (options_.on_token && !options_.on_token({s.number, drawn.token, drawn.log_probability, finish}) && !finish) {
      finish = Finish::stopped;
    }
    if (finish) {
      s.made.finish = *finish;
      s.draw = Sampler();
      finished_[static_cast<size_t>(s.number)] = std::move(s.made);
      s.number = -1;
    }
    return !finish;
  }

  void drop_finished() {
    std::vector<int64_t> stay;
    for (size_t r = 0; r < rows_.size(); ++r) {
      if (rows_[r].number >= 0) stay.push_back(static_cast<int64_t>(r));
    }
    if (stay.size() == rows_.size()) return;
    std::erase_if(rows_, [](const Sequence& s) { return s.number < 0; });
    if (rows_.empty()) return;
    decoding_->take_rows(stay);
    if (draft_) draft_->take_rows(stay);
  }

  const LanguageModel& model_;
  const GenerateOptions& options_;
  const Location where_;
  std::vector<Sequence> rows_;
  std::vector<Generation> finished_;
  std::optional<Reader> decoding_, draft_;
};

}  // namespace

std::optional<Finish> finish_of(const Tokens& made, const GenerateOptions& options) {
  if (std::ranges::find(options.end_tokens, made.back()) != options.end_tokens.end()) return Finish::end_token;
  for (const Tokens& stop : options.stop_sequences) {
    if (stop.size() <= made.size() && std::equal(stop.rbegin(), stop.rend(), made.rbegin())) {
      return Finish::stop_sequence;
    }
  }
  return {};
}

std::vector<Generation> generate(const LanguageModel& model, const std::vector<Tokens>& prompts,
                                 const GenerateOptions& options, Location where) {
  const CallScope call(op, where);
  check_prompts(model, prompts, where);
  check_options(model, options, where);
  const NoGradGuard unrecorded;
  if (prompts.empty()) return {};
  if (options.beams == 1) return Run(model, prompts, options, where)();
  std::vector<Generation> out;
  for (const Tokens& prompt : prompts) out.push_back(best_of_beams(model, prompt, options, where));
  return out;
}

}  // namespace weft::generate
