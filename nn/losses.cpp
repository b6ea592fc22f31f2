#include "losses.hpp"

#include <cmath>
#include <type_traits>

#include "../ops/create.hpp"
#include "description-inl.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::nn {

namespace {

/// Calls `visit(name, value)` for each option that the struct has.
template <class Options, class Visitor>
void each_option(Options&& o, Visitor&& visit) {
  if constexpr (requires { o.weight; }) visit("weight", o.weight);
  if constexpr (requires { o.pos_weight; }) visit("pos_weight", o.pos_weight);
  if constexpr (requires { o.ignore_index; }) visit("ignore_index", o.ignore_index);
  if constexpr (requires { o.label_smoothing; }) visit("label_smoothing", o.label_smoothing);
  if constexpr (requires { o.delta; }) visit("delta", o.delta);
  if constexpr (requires { o.beta; }) visit("beta", o.beta);
  if constexpr (requires { o.log_target; }) visit("log_target", o.log_target);
  if constexpr (requires { o.log_input; }) visit("log_input", o.log_input);
  if constexpr (requires { o.full; }) visit("full", o.full);
  if constexpr (requires { o.eps; }) visit("eps", o.eps);
  if constexpr (requires { o.margin; }) visit("margin", o.margin);
  if constexpr (requires { o.p; }) visit("p", o.p);
  if constexpr (requires { o.swap; }) visit("swap", o.swap);
  if constexpr (requires { o.blank; }) visit("blank", o.blank);
  if constexpr (requires { o.zero_infinity; }) visit("zero_infinity", o.zero_infinity);
  visit("reduction", o.reduction);
}

constexpr std::string_view reductions[] = {"none", "mean", "sum"};

Attribute attribute_of(const Tensor& weight) { return weight.defined() ? Attribute(weight.shape()) : Attribute(); }
Attribute attribute_of(LossReduction reduction) { return reductions[static_cast<size_t>(reduction)]; }
template <class T>
Attribute attribute_of(const T& value) {
  return value;
}

template <class T>
void read_option(const Config& config, const char* name, T& value) {
  if constexpr (std::is_same_v<T, Tensor>) {
    if (const auto shape = config.get_or<std::optional<Dims>>(name, {})) value = ones(*shape, {});
  } else if constexpr (std::is_same_v<T, LossReduction>) {
    value = enumerator(config, name, reductions, value);
  } else {
    value = config.get_or<T>(name, value);
  }
}

template <class L, class Options>
AnyModule make_loss(const Config& config, Location where) {
  Options options;
  each_option(options, [&](const char* name, auto& value) { read_option(config, name, value); });
  return AnyModule::wrap(L(options, where));
}

/// In Python the options in `positional` may be given by position.
template <class L, class Options>
void add_loss(LayerList& list, const char* name, const char* function,
              const std::vector<std::string_view>& positional = {}) {
  LayerInfo loss{name, function, {}, make_loss<L, Options>, TypeId::of<L>()};
  each_option(Options(), [&]<class T>(const char* option, const T& value) {
    OptionFacts facts{option};
    if constexpr (std::is_enum_v<T>) facts.choices = reductions;
    const auto at = std::ranges::find(positional, option);
    facts.is_keyword_only = at == positional.end();
    if (!facts.is_keyword_only) facts.python_index = static_cast<int>(at - positional.begin());
    loss.options.push_back({facts, kind_of_option<T>(), attribute_of(value), OptionRole::member, false, true});
  });
  list.add(std::move(loss));
}

void check_option(bool allowed, const std::string& layer, const char* name, double value, const char* expected,
                  Location where) {
  if (allowed) return;
  raise<ValueError>({.op = ("nn::" + layer).c_str(), .problem = mismatch_text(name, expected, value)}, where);
}

template <class Options>
void check_options(const Options& o, const std::string& layer, Location where) {
  const auto check = [&](bool allowed, const char* name, auto value, const char* expected) {
    check_option(allowed, layer, name, static_cast<double>(value), expected, where);
  };
  if constexpr (requires { o.label_smoothing; }) {
    check(o.label_smoothing >= 0 && o.label_smoothing <= 1, "label_smoothing", o.label_smoothing, "a number in [0, 1]");
  }
  if constexpr (requires { o.delta; }) check(o.delta > 0, "delta", o.delta, "a number above 0");
  if constexpr (requires { o.beta; }) check(o.beta >= 0, "beta", o.beta, "at least 0");
  if constexpr (requires { o.blank; }) check(o.blank >= 0, "blank", o.blank, "at least 0");
  if constexpr (requires { o.swap; }) {
    check(o.margin > 0, "margin", o.margin, "a number above 0");
    check(!std::isnan(o.p), "p", o.p, "a number");
  }
  if constexpr (std::is_same_v<Options, MultiMarginOptions>) check(o.p == 1 || o.p == 2, "p", o.p, "1 or 2");
}

}  // namespace

TripletMarginWithDistanceLoss::TripletMarginWithDistanceLoss(DistanceFunction distance, TripletDistanceOptions options,
                                                             Location where)
    : distance_(std::move(distance)), options_(options) {
  check_option(options.margin > 0, "TripletMarginWithDistanceLoss", "margin", options.margin, "a number above 0",
               where);
}

namespace detail {

template <class Options>
Config loss_config(const Options& options, const std::string& layer, Location where) {
  check_options(options, layer, where);
  Config config;
  each_option(options, [&](const char* name, const auto& value) { config.set(name, attribute_of(value)); });
  return config;
}

template Config loss_config(const LossOptions&, const std::string&, Location);
template Config loss_config(const CrossEntropyOptions&, const std::string&, Location);
template Config loss_config(const NllOptions&, const std::string&, Location);
template Config loss_config(const HuberOptions&, const std::string&, Location);
template Config loss_config(const SmoothL1Options&, const std::string&, Location);
template Config loss_config(const BinaryCrossEntropyOptions&, const std::string&, Location);
template Config loss_config(const PlainBinaryOptions&, const std::string&, Location);
template Config loss_config(const KlOptions&, const std::string&, Location);
template Config loss_config(const GaussianNllOptions&, const std::string&, Location);
template Config loss_config(const PoissonNllOptions&, const std::string&, Location);
template Config loss_config(const MarginOptions&, const std::string&, Location);
template Config loss_config(const HingeOptions&, const std::string&, Location);
template Config loss_config(const MultiMarginOptions&, const std::string&, Location);
template Config loss_config(const TripletOptions&, const std::string&, Location);
template Config loss_config(const CtcOptions&, const std::string&, Location);

void describe_losses(LayerList& list) {
  add_loss<CrossEntropyLoss, CrossEntropyOptions>(list, "CrossEntropyLoss", "cross_entropy", {"weight"});
  add_loss<NLLLoss, NllOptions>(list, "NLLLoss", "nll_loss", {"weight"});
  add_loss<MSELoss, LossOptions>(list, "MSELoss", "mse_loss");
  add_loss<L1Loss, LossOptions>(list, "L1Loss", "l1_loss");
  add_loss<HuberLoss, HuberOptions>(list, "HuberLoss", "huber_loss");
  add_loss<SmoothL1Loss, SmoothL1Options>(list, "SmoothL1Loss", "smooth_l1_loss");
  add_loss<BCEWithLogitsLoss, BinaryCrossEntropyOptions>(list, "BCEWithLogitsLoss", "binary_cross_entropy_with_logits",
                                                         {"weight"});
  add_loss<BCELoss, PlainBinaryOptions>(list, "BCELoss", "binary_cross_entropy", {"weight"});
  add_loss<KLDivLoss, KlOptions>(list, "KLDivLoss", "kl_div");
  add_loss<GaussianNLLLoss, GaussianNllOptions>(list, "GaussianNLLLoss", "gaussian_nll_loss");
  add_loss<PoissonNLLLoss, PoissonNllOptions>(list, "PoissonNLLLoss", "poisson_nll_loss", {"log_input", "full"});
  add_loss<CosineEmbeddingLoss, MarginOptions>(list, "CosineEmbeddingLoss", "cosine_embedding_loss", {"margin"});
  add_loss<HingeEmbeddingLoss, HingeOptions>(list, "HingeEmbeddingLoss", "hinge_embedding_loss", {"margin"});
  add_loss<MarginRankingLoss, MarginOptions>(list, "MarginRankingLoss", "margin_ranking_loss", {"margin"});
  add_loss<SoftMarginLoss, LossOptions>(list, "SoftMarginLoss", "soft_margin_loss");
  add_loss<MultiMarginLoss, MultiMarginOptions>(list, "MultiMarginLoss", "multi_margin_loss",
                                                {"p", "margin", "weight"});
  add_loss<MultiLabelMarginLoss, LossOptions>(list, "MultiLabelMarginLoss", "multilabel_margin_loss");
  add_loss<MultiLabelSoftMarginLoss, PlainBinaryOptions>(list, "MultiLabelSoftMarginLoss",
                                                         "multilabel_soft_margin_loss", {"weight"});
  add_loss<TripletMarginLoss, TripletOptions>(list, "TripletMarginLoss", "triplet_margin_loss",
                                              {"margin", "p", "eps", "swap"});
  add_loss<CTCLoss, CtcOptions>(list, "CTCLoss", "ctc_loss", {"blank"});
}

}  // namespace detail

}  // namespace weft::nn
