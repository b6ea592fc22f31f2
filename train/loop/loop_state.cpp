#include "loop_state-inl.hpp"

#include <cmath>

#include "../../io/json/json_tree-inl.hpp"

namespace weft::train {

namespace {

constexpr const char* op = "Trainer";

// The old form: all fields are numbers, and missing or not finite ones are 0.
LoopState parse_numbers(const io::JsonNode& node) {
  const auto number = [&](const char* name) {
    const double value = node.has(name) ? node.at(name).number() : 0;
    return std::isfinite(value) ? value : 0;
  };
  const auto count = [&](const char* name) { return static_cast<int64_t>(number(name)); };
  LoopState out{.batch = count("batch"),
                .since_best = count("bad"),
                .evaluated_step = count("evaluated_step"),
                .is_evaluation_due = number("owes_evaluation") != 0};
  if (node.has("loss_scale")) out.scaler = {number("loss_scale"), count("growth_tracker")};
  return out;
}

}  // namespace

std::string loop_text(const LoopState& state) {
  io::JsonTree out = io::JsonTree::object();
  out["batch"] = io::JsonTree::of(state.batch);
  out["since_best"] = io::JsonTree::of(state.since_best);
  out["evaluated_step"] = io::JsonTree::of(state.evaluated_step);
  out["is_evaluation_due"] = io::JsonTree::of(state.is_evaluation_due);
  if (state.scaler) {
    io::JsonTree& scaler = out["scaler"] = io::JsonTree::object();
    scaler["scale"] = io::JsonTree::of(state.scaler->scale);
    scaler["growth_tracker"] = io::JsonTree::of(state.scaler->growth_tracker);
  }
  return io::json_text(out, op, Location::none());
}

LoopState parse_loop(const std::string& text, Location where) {
  const io::JsonTree tree = io::parse_json(text, op, where, "loop: ");
  const io::JsonNode node(tree, op, where);
  if (!node.object().has("is_evaluation_due")) return parse_numbers(node);
  LoopState out{.batch = node.at("batch").integer(),
                .since_best = node.at("since_best").integer(),
                .evaluated_step = node.at("evaluated_step").integer(),
                .is_evaluation_due = node.at("is_evaluation_due").boolean()};
  if (node.has("scaler")) {
    const io::JsonNode scaler = node.at("scaler");
    out.scaler = {scaler.at("scale").number(), scaler.at("growth_tracker").integer()};
  }
  return out;
}

}  // namespace weft::train
