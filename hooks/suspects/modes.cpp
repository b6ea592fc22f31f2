// Dropout and batch norms in training mode during evaluation, or in evaluation mode during training.
#include "finding.hpp"

#include <optional>

#include <fmt/format.h>

namespace weft::detail {

namespace {

constexpr int64_t judged = 10;

std::optional<Suspect> trained_in_evaluation(const ModelCalls& model) {
  if (model.active_part.empty() || model.trained_in_evaluation < judged) return {};
  return Suspect{Trouble::run, 0,
                 fmt::format("the model is trained in evaluation mode: in the last {} steps {} worked as in evaluation "
                             "(the model is called at {}); call train() before training, and again after eval()",
                             model.trained_in_evaluation, model.active_part, model.place)};
}

// An unrecorded call is no evaluation if a loss uses its output, such as the samples for a discriminator.
std::optional<Suspect> evaluated_in_training(const ModelCalls& model) {
  if (model.active_part.empty() || model.trained == 0 || model.unrecorded_steps < 2) return {};
  const bool between_steps = model.unrecorded_steps * 2 <= model.trained;
  const bool no_loss = model.unrecorded_was_followed && !model.unrecorded_feeds_loss;
  if (model.unrecorded_feeds_loss || !(between_steps || no_loss)) return {};
  return Suspect{Trouble::run, 0,
                 fmt::format("the model is evaluated in training mode: in {} calls without gradients, as at {}, {} "
                             "worked as in training; call eval() before, and train() after",
                             model.unrecorded, model.unrecorded_place, model.active_part)};
}

}  // namespace

std::vector<Suspect> find_modes(const Facts& facts) {
  const ProgramFacts& program = facts.history.program;
  std::vector<Suspect> out;
  if (auto found = trained_in_evaluation(program.model)) out.push_back(std::move(*found));
  if (auto found = evaluated_in_training(program.model)) out.push_back(std::move(*found));
  std::vector<const SingleBatches*> single;
  for (const SingleBatches& b : program.single_batches) {
    if (b.steps >= static_cast<int64_t>(judged_steps) && b.single == b.steps) single.push_back(&b);
  }
  if (single.empty()) return out;
  std::string text = fmt::format(
      "the batch norm {} at {} gets a single row in every step of training, {} in all: it sets each row's mean to 0, "
      "and "
      "in evaluation it will do something else; take larger batches, or a group norm",
      single.front()->name, single.front()->place, single.front()->steps);
  if (single.size() > 1) text += fmt::format("; and {} more of them", single.size() - 1);
  out.push_back({Trouble::run, 0, std::move(text)});
  return out;
}

}  // namespace weft::detail
