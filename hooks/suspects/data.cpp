// Inputs, targets and predictions from which the net cannot learn the task.
#include "finding.hpp"

#include <cmath>
#include <optional>

#include <fmt/format.h>

namespace weft::detail {

namespace {

constexpr int64_t least_steps = 8, repeated_steps = 20;
constexpr size_t settled_steps = 150;

bool is_two_classes(const LossSeen& l) { return l.op.starts_with("binary_cross_entropy"); }

/// Whether the loss compares the model's output with labels, not with a constant such as a residual of 0.
bool labels_the_model(const LossSeen& l) {
  return !l.classes.empty() || is_two_classes(l) ? l.sized_as_model : l.of_model;
}

// A discriminator has two losses with different targets, each constant over all rows.
std::optional<Suspect> constant_targets(const History& history) {
  const LossSeen* found = nullptr;
  for (const LossSeen& l : history.program.losses) {
    if (l.several_targets || !l.only_target) return {};
    if (found != nullptr && *found->only_target != *l.only_target) return {};
    if (l.steps >= 3 && l.rows > 1 && l.rows * l.steps >= 12 && labels_the_model(l)) found = &l;
  }
  if (found == nullptr) return {};
  return Suspect{Trouble::run, 0,
                 fmt::format("every target of {} at {} is {:.6g}, in all {} rows of all {} steps that were looked at: "
                             "are the labels those of the rows?",
                             found->op, found->place, *found->only_target, found->rows, found->steps)};
}

std::optional<double> entropy(const LossSeen& l) {
  double all = 0, sum = 0;
  for (const int64_t n : l.classes) all += static_cast<double>(n);
  if (!(all > 0)) return {};
  for (const int64_t n : l.classes) {
    const double share = static_cast<double>(n) / all;
    if (share > 0) sum -= share * std::log(share);
  }
  return sum;
}

std::optional<double> variance(const LossSeen& l) {
  if (l.numbers < 16) return {};
  const auto n = static_cast<double>(l.numbers);
  double sum = 0;
  for (size_t i = 0; i < l.sums.size(); ++i) sum += l.squares[i] / n - l.sums[i] / n * (l.sums[i] / n);
  return sum / static_cast<double>(l.sums.size());
}

/// The loss of the best constant prediction, which only uses the frequencies of the targets.
std::optional<double> blind_loss(const LossSeen& l) {
  if (l.op == "cross_entropy" || l.op == "nll_loss") return entropy(l);
  if (l.op == "mse_loss") return variance(l);
  return {};
}

double mean_of(const std::vector<double>& values, size_t from, size_t to) {
  double sum = 0;
  for (size_t i = from; i < to; ++i) sum += values[i];
  return sum / static_cast<double>(to - from);
}

/// Total movement of the parameters relative to their norm; the upper quartile.
double distance_gone(const Facts& facts) {
  const auto& steps = facts.history.steps;
  std::vector<double> ways;
  for (size_t i = 0; i < facts.courses.size(); ++i) {
    const auto& ratios = facts.courses[i].update_ratios;
    if (!facts.is_parameter(i) || ratios.empty()) continue;
    const double each = mean_of(ratios, 0, ratios.size());
    ways.push_back(each * static_cast<double>(steps.back().step - steps.front().step));
  }
  if (ways.empty()) return 0;
  const auto farther = ways.begin() + static_cast<ptrdiff_t>(ways.size() * 3 / 4);
  std::nth_element(ways.begin(), farther, ways.end());
  return *farther;
}

// A net that starts to learn late has the same loss, so report it only if the parameters have moved far.
std::optional<Suspect> settled_blind(const Facts& facts) {
  std::vector<double> losses;
  for (const HistoryStep& s : facts.history.steps) {
    if (!s.loss || !std::isfinite(*s.loss)) return {};
    losses.push_back(*s.loss);
  }
  const auto& seen = facts.history.program.losses;
  const auto judged = std::ranges::find_if(seen, [](const LossSeen& l) { return l.steps >= 8 && blind_loss(l); });
  if (judged == seen.end() || losses.size() < settled_steps) return {};
  const double blind = *blind_loss(*judged);
  const size_t third = losses.size() / 3;
  const double last = mean_of(losses, 2 * third, losses.size()), middle = mean_of(losses, third, 2 * third);
  const bool is_blind = last > 0.975 * blind && last < 1.1 * blind && std::abs(middle - last) < 0.05 * last;
  if (!(blind > 0.01) || !is_blind || !(distance_gone(facts) > 1)) return {};
  return Suspect{
      Trouble::run, 0,
      fmt::format("the loss has settled at {:.3g}, where guessing by the targets' frequencies comes to {:.3g}: "
                  "the predictions do not depend on the input; are the targets of {} at {} shifted against "
                  "the rows, or shuffled?",
                  last, blind, judged->op, judged->place)};
}

std::optional<Suspect> equal_rows(const History& history) {
  const ModelCalls& model = history.program.model;
  if (model.equal_rows < 3 || static_cast<int64_t>(history.steps.size()) < least_steps) return {};
  std::string text = fmt::format(
      "the model's result does not depend on its input: all rows are equal, though those of the input differ (it "
      "is called at {})",
      model.place);
  if (!model.equal_place.empty()) text += fmt::format("; {} at {} makes them so", model.equal_op, model.equal_place);
  return Suspect{Trouble::run, 0, std::move(text)};
}

// If the program holds the input tensor, the repetition is intended: a fixed batch or the whole data set.
std::optional<Suspect> same_batch(const History& history) {
  const ModelCalls& model = history.program.model;
  const bool always = model.same_inputs + 1 == model.inputs && model.inputs >= repeated_steps;
  if (!always || model.same_tensor || history.every > 1) return {};
  return Suspect{Trouble::run, 0,
                 fmt::format("the model got the same {} row{} in each of {} steps, each time in a tensor made anew (it "
                             "is called at {}): does the loader begin anew in every step? Where one batch is to be "
                             "learnt by heart, all is well",
                             model.rows, model.rows == 1 ? "" : "s", model.inputs, model.place)};
}

}  // namespace

std::vector<Suspect> find_data(const Facts& facts) {
  std::vector<Suspect> out;
  const auto add = [&](std::optional<Suspect> found) {
    if (found) out.push_back(std::move(*found));
    return !out.empty();
  };
  add(same_batch(facts.history));
  if (add(constant_targets(facts.history)) || add(equal_rows(facts.history))) return out;
  add(settled_blind(facts));
  return out;
}

}  // namespace weft::detail
