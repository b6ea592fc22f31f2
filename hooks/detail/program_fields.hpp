// The named fields of ProgramFacts, shared by the log's reader and writer. Not public.
#pragma once

#include <concepts>
#include <type_traits>

#include "../program_facts.hpp"

namespace weft::detail {

template <class T, class U>
concept Like = std::same_as<std::remove_const_t<T>, U>;

// Each function calls v(name, field), and v.tensor(name, field) for an index into `History::watched`.

void fields_of(auto& v, Like<Cut> auto& c) {
  v.tensor("which", c.index), v("kind", c.kind), v("op", c.op), v("place", c.place);
}
void fields_of(auto& v, Like<HookChange> auto& c) {
  v("place", c.place), v("op", c.op), v("at", c.at), v.tensor("which", c.index), v("step", c.step), v("times", c.times);
  v("steps", c.steps), v("factor", c.factor), v("cosine", c.cosine);
}
void fields_of(auto& v, Like<Clipping> auto& c) {
  v("step", c.step), v("place", c.place), v("norm", c.norm), v("limit", c.limit);
}
void fields_of(auto& v, Like<ParameterStep> auto& p) {
  v.tensor("which", p.index), v("rate", p.rate), v("decay", p.decay), v("decoupled", p.decoupled);
}
void fields_of(auto& v, Like<OptimizerSteps> auto& s) {
  v("step", s.step), v("optimizer", s.optimizer), v("place", s.place), v("zero_place", s.zero_place),
      v("of", s.parameters);
}
void fields_of(auto& v, Like<HalfCast> auto& c) { v("place", c.place), v("steps", c.steps), v("last", c.last); }
void fields_of(auto& v, Like<LossSeen> auto& l) {
  v("op", l.op), v("place", l.place), v("steps", l.steps), v("last", l.last), v("rows", l.rows);
  v("steps_of_equal_predictions", l.steps_of_equal_predictions), v("only_target", l.only_target);
  v("several_targets", l.several_targets), v("classes", l.classes), v("numbers", l.numbers), v("sums", l.sums);
  v("squares", l.squares), v("of_model", l.of_model), v("sized_as_model", l.sized_as_model);
}
void fields_of(auto& v, Like<SharedParts> auto& s) {
  v("first", s.first), v("second", s.second), v("kind", s.kind), v("is_module", s.is_module);
}
void fields_of(auto& v, Like<ModelCalls> auto& m) {
  v("active_part", m.active_part), v("trained", m.trained), v("trained_in_evaluation", m.trained_in_evaluation);
  v("place", m.place), v("unrecorded", m.unrecorded), v("unrecorded_steps", m.unrecorded_steps);
  v("last_unrecorded", m.last_unrecorded), v("unrecorded_feeds_loss", m.unrecorded_feeds_loss);
  v("unrecorded_was_followed", m.unrecorded_was_followed), v("unrecorded_place", m.unrecorded_place);
  v("same_inputs", m.same_inputs), v("inputs", m.inputs), v("rows", m.rows), v("same_tensor", m.same_tensor);
  v("equal_rows", m.equal_rows), v("equal_op", m.equal_op), v("equal_place", m.equal_place);
}
void fields_of(auto& v, Like<SingleBatches> auto& s) {
  v("name", s.name), v("place", s.place), v("single", s.single), v("steps", s.steps);
}
void fields_of(auto& v, Like<CallCourse> auto& c) {
  v.tensor("which", c.index), v("step", c.step), v("values", c.values), v("gradients", c.gradients);
}

}  // namespace weft::detail
