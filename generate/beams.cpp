#include <algorithm>
#include <cmath>
#include <limits>

#include "sequences-inl.hpp"

namespace weft::generate {

namespace {

struct Beam {
  Tokens made;
  double score = 0;
};

double over_length(double score, size_t length, double penalty) {
  return score / std::pow(static_cast<double>(std::max<size_t>(length, 1)), penalty);
}

struct Step {
  size_t from;
  int64_t token;
  double score;
};

/// The n most likely steps from these beams; among equals the first.
std::vector<Step> best_steps(const std::vector<Beam>& beams, const Logits& logits, const Tokens& prompt, size_t n,
                             const SamplingOptions& sampling, Location where) {
  std::vector<Step> all;
  for (size_t b = 0; b < beams.size(); ++b) {
    Tokens text = prompt;
    text.insert(text.end(), beams[b].made.begin(), beams[b].made.end());
    std::vector<Candidate> likeliest = candidates(logits.row(b, 0), text, sampling, where);
    if (likeliest.size() > n) likeliest.resize(n);
    for (const auto& [token, probability] : likeliest) {
      all.push_back({b, token, beams[b].score + std::log(probability)});
    }
  }
  std::ranges::stable_sort(all, std::greater<>(), &Step::score);
  if (all.size() > n) all.resize(n);
  return all;
}

/// The best `most` finished continuations.
class Ended {
 public:
  Ended(size_t limit, double penalty) : limit_(limit), penalty_(penalty) {}
  void add(Beam beam, Finish finish) {
    const double value = over_length(beam.score, beam.made.size(), penalty_);
    const auto place = std::ranges::find_if(all_, [&](const auto& e) { return e.first < value; });
    all_.insert(place, {value, {std::move(beam.made), beam.score, finish}});
    if (all_.size() > limit_) all_.pop_back();
  }
  /// Whether no continuation of a beam with this score can still be among them, at any length.
  bool outdoes(double score, size_t now, size_t longest) const {
    if (all_.size() < limit_) return false;
    const double best = std::max(over_length(score, now + 1, penalty_), over_length(score, longest, penalty_));
    return all_.back().first >= best;
  }
  Generation best() const { return all_.front().second; }

 private:
  const size_t limit_;
  const double penalty_;
  std::vector<std::pair<double, Generation>> all_;
};

}  // namespace

Generation best_of_beams(const LanguageModel& model, const Tokens& prompt, const GenerateOptions& options,
                         Location where) {
  const auto count = static_cast<size_t>(options.beams);
  int64_t longest = options.max_new_tokens;
  if (model.context > 0) longest = std::min(longest, model.context - std::ssize(prompt));
  if (longest == 0) return {};
  Reader reader(model.begin(options.beams, std::ssize(prompt) + longest), 1);
  Ended ended(count, options.length_penalty);
  std::vector<Beam> beams(1);
  for (int64_t length = 1; !beams.empty(); ++length) {
    std::vector<Tokens> texts;
    for (const Beam& b : beams) {
      texts.push_back(prompt);
      texts.back().insert(texts.back().end(), b.made.begin(), b.made.end());
    }
    const Logits logits = reader.read_rest(texts, true);
    std::vector<Beam> next;
    std::vector<int64_t> rows;
    for (const Step& step : best_steps(beams, logits, prompt, 2 * count, options.sampling, where)) {
      Beam beam{beams[step.from].made, step.score};
      beam.made.push_back(step.token);
      const std::optional<Finish> finish = finish_of(beam.made, options);
      if (finish || length == longest) {
        ended.add(std::move(beam), finish.value_or(Finish::length));
      } else if (next.size() < count) {
        rows.push_back(static_cast<int64_t>(step.from));
        next.push_back(std::move(beam));
      }
    }
    beams = std::move(next);
    if (beams.empty() || ended.outdoes(beams[0].score, beams[0].made.size(), static_cast<size_t>(longest))) break;
    reader.take_rows(rows);
  }
  return ended.best();
}

}  // namespace weft::generate
