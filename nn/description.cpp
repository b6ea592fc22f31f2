#include "description-inl.hpp"

namespace weft::nn {

namespace {

/// "expected at least 1", "expected a number in [0, 1]".
std::string range_text(const OptionFacts& facts) {
  if (facts.most < std::numeric_limits<double>::infinity()) {
    return fmt::format("a number in [{}, {}]", facts.least, facts.most);
  }
  return fmt::format("at least {}", facts.least);
}

std::string value_text(const Config& config, const OptionFacts& facts) {
  const Attribute* value = config.find(facts.name);
  if (value->type() == Attribute::Type::none && facts.otherwise != nullptr) value = config.find(facts.otherwise);
  if (facts.tuple_size == 0) return value->text();
  const auto sizes = value->to<Dims>();
  return python_tuple(sizes.size() == 1 ? Dims::filled(facts.tuple_size, sizes[0]) : sizes);
}

}  // namespace

void check_range(const std::string& layer, const OptionFacts& facts, double value, Location where) {
  const bool bounded = facts.least > -std::numeric_limits<double>::infinity();
  if (!bounded || (facts.least <= value && value <= facts.most)) return;
  raise<ValueError>({.op = ("nn::" + layer).c_str(), .problem = mismatch_text(facts.name, range_text(facts), value)},
                    where);
}

void set_options(const Module& layer, const std::string& name, Config config, std::span<const OptionFacts> facts) {
  std::vector<std::string> texts;
  for (const OptionFacts& option : facts) {
    if (option.is_hidden) continue;
    const std::string text = value_text(config, option);
    const auto at = option.printed_at < 0 ? texts.end() : texts.begin() + option.printed_at;
    texts.insert(at, option.is_bare ? text : fmt::format("{}={}", option.name, text));
  }
  detail::StateAccess::State& state = detail::StateAccess::state(layer);
  state.class_name = name;
  state.extra_repr = fmt::format("{}", fmt::join(texts, ", "));
  state.config = std::move(config);
}

const LayerInfo* LayerList::find(std::string_view name) const {
  const auto found = std::ranges::find(all_, name, &LayerInfo::name);
  return found == all_.end() ? nullptr : &*found;
}

const LayerList& detail::described_layers() {
  static const LayerList list = [] {
    LayerList all;
    describe_activations(all);
    describe_dropouts(all);
    describe_paddings(all);
    describe_pools(all);
    describe_rearrangements(all);
    describe_distances(all);
    describe_norms(all);
    describe_losses(all);
    describe_layers(all);
    describe_bilinear(all);
    describe_convolutions(all);
    describe_recurrent(all);
    describe_multihead_attention(all);
    describe_self_attention(all);
    describe_transformer_block(all);
    return all;
  }();
  return list;
}

}  // namespace weft::nn
