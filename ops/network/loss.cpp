#include "../loss.hpp"

#include "../complex.hpp"
#include "../create.hpp"
#include "../index.hpp"
#include "../pointwise.hpp"
#include "../detail/autocast.hpp"
#include "../detail/losses.hpp"
#include "../detail/records.hpp"
#include "../reduce.hpp"
#include "../detail/reducing.hpp"
#include "../softmax.hpp"
#include "../../tensor/warning.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

// ---- shared ---------------------------------------------------------------------------------------------------------

LossReduction reduction_named(const std::string& name) {
  if (name == "mean") return LossReduction::mean;
  if (name == "sum") return LossReduction::sum;
  if (name == "none") return LossReduction::none;
  raise_value("reduction", "mean, sum or none", in_quotes(name));
}

Tensor reduce_losses(const Tensor& losses, LossReduction reduction) {
  if (reduction == LossReduction::none) return losses;
  return reduction == LossReduction::mean ? mean(losses) : sum(losses);
}

LossPair loss_pair(const Tensor& x, const Tensor& y) {
  check_floating(checked(x));
  const DType dtype = result_type(x, checked(y)), wide = compute_type(dtype);
  return {x.to(wide), y.to(wide), dtype};
}

void warn_of_broadcast(const Tensor& x, const Tensor& y, const Tensor& both) {
  if (x.impl()->wrapped_number || y.impl()->wrapped_number || x.shape() == y.shape()) return;
  warn({.problem = fmt::format("input {} and target {} differ in shape and broadcast to {}", x.shape().text(),
                               y.shape().text(), both.shape().text()),
        .remedy = "this is rarely meant: bring one to the other's shape, as by view or squeeze"});
}

Tensor raised_to(const Tensor& x, double least) { return where(x < least, (x - x.detach()) + least, x); }

namespace {

/// Class scores as a matrix with one target per row.
struct ClassRows {
  Tensor scores;   ///< [rows, classes]
  Tensor targets;  ///< [rows], i64
  Dims shape;      ///< the targets' own
};

Tensor scores_by_row(const Tensor& scores, int64_t rows) {
  const int rank = scores.dim();
  if (rank == 2) return scores;
  if (rank == 1) return scores.unsqueeze(0);
  Dims order(0);
  for (int i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  return scores.permute(order).reshape({rows, scores.sizes()[1]});
}

ClassRows class_rows(const Tensor& scores, const Tensor& targets) {
  check_floating(checked(scores));
  check_same_device({&scores, &checked(targets)});
  Dims shape = scores.shape();
  if (scores.dim() > 0) shape.erase(scores.dim() == 1 ? 0 : 1);
  if (scores.dim() == 0 || !(targets.shape() == shape)) {
    raise<ShapeError>(
        {.problem = fmt::format("targets {} do not fit scores {}", targets.shape().text(), scores.shape().text()),
         .remedy = "scores are [C], [N, C] or [N, C, d1, ...]; targets have that shape without C"});
  }
  expect_integers("targets", targets, "convert them with to(weft::i64)");
  const int64_t rows = shape.product();
  return {scores_by_row(scores, rows), targets.to(DType::i64).reshape({rows}), shape};
}

// The number of targets that count, as a 0-d tensor.
Tensor count_targets(const Tensor& targets, int64_t ignore_index, DType dtype) {
  return sum(targets != ignore_index).to(dtype);
}

// One loss per row brought to the result; `count` only where the mean is asked for.
Tensor reduce_rows(const Tensor& losses, const Tensor& count, LossReduction reduction, const Dims& shape) {
  if (reduction == LossReduction::none) return losses.reshape(shape);
  const Tensor total = sum(losses);
  return reduction == LossReduction::sum ? total : total / count;
}

Tensor column(const Tensor& row_values) { return row_values.unsqueeze(1); }

// The target of the softmax: smoothed indicators [rows, classes].
Tensor wanted_probabilities(const Tensor& targets, int64_t classes, DType dtype, double smoothing) {
  const Tensor numbers = arange(0, classes, 1, {DType::i64, targets.device()});
  const Tensor hit = numbers == column(targets);
  const double share = smoothing / static_cast<double>(classes);
  const Tensor none = full({}, share, {dtype, targets.device()});
  return weft::where(hit, 1 - smoothing + share, none);
}

struct CrossEntropyBackward {
  Saved logits, targets;
  Tensor log_sum_exp, count;
  CrossEntropyOptions options;

  Tensor gradient_by_ops(const Tensor& x, const Tensor& target, const Tensor& g) const {
    const Tensor wide = to_compute_type(x);
    const Tensor wanted = wanted_probabilities(target, x.sizes()[1], wide.dtype(), options.label_smoothing);
    const Tensor ignored = column(target == options.ignore_index);
    return masked_fill((softmax(wide, 1) - wanted) * column(g), ignored, 0).to(x.dtype());
  }

  Tensor operator()(Node& self, Tensor&& gradient) {
    const Tensor& x = logits.get(self);
    const Tensor& target = targets.get(self);
    Tensor g = gradient.to(compute_type(x.dtype()));
    if (options.reduction == LossReduction::mean) g = g / count;
    const int64_t rows = x.sizes()[0];
    g = options.reduction == LossReduction::none ? g.reshape({rows}) : g.expand({rows});
    const auto kernel = kernels(x.raw_view()).cross_entropy_gradient;
    if (recording() || kernel == nullptr) return gradient_by_ops(x, target, g);
    Tensor dx = make_like(x);
    kernel(dx.raw_view(), g.raw_view(), x.raw_view(), log_sum_exp.raw_view(), target.raw_view(), options.ignore_index,
           options.label_smoothing);
    return dx;
  }
};

// The weight of each target's loss: its class's weight, 0 if it is ignored.
Tensor target_weights(const Tensor& weight, const Tensor& targets, int64_t ignore_index, DType dtype) {
  const Tensor ignored = targets == ignore_index;
  const Tensor safe = masked_fill(targets, ignored, 0);
  return masked_fill(index_select(weight.to(dtype), 0, safe), ignored, 0);
}

void check_weight(const Tensor& weight, const Tensor& scores, int64_t classes) {
  if (!weight.defined()) return;
  check_floating(weight);
  check_same_device({&scores, &weight});
  if (weight.dim() == 1 && weight.numel() == classes) return;
  raise<ShapeError>({.problem = fmt::format("a weight of shape {} for {} classes", weight.shape().text(), classes)});
}

// Targets are distributions over the classes.
Tensor distribution_cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options) {
  if (options.ignore_index >= 0) {
    raise<ValueError>({.problem = "ignore_index is for class indices alone, the targets are distributions"});
  }
  const int dim = logits.dim() == 1 ? 0 : 1;
  const int64_t classes = logits.sizes()[static_cast<size_t>(dim)];
  const Tensor x = to_compute_type(logits);
  Tensor wanted = targets.to(x.dtype());
  if (const double s = options.label_smoothing; s != 0) wanted = wanted * (1 - s) + s / static_cast<double>(classes);
  Tensor products = log_softmax(x, dim) * wanted;
  const Tensor& weight = options.weight;
  check_weight(weight, logits, classes);
  if (weight.defined()) {
    Dims shape = Dims::filled(logits.dim(), 1);
    shape[dim] = classes;
    products = products * weight.to(x.dtype()).reshape(shape);
  }
  return reduced_to(logits.dtype(), -sum(products, dim), options.reduction);
}

// Where no kernel of the loss itself looks at the targets, which would match nothing.
void check_classes(const Tensor& targets, int64_t ignore_index, int64_t classes) {
  if (is_meta(targets)) return;
  check_elements([=] {
    const Tensor outside = logical_or(targets < 0, targets >= classes);
    const Tensor wrong = logical_and(outside, targets != ignore_index);
    if (!any(wrong).item<bool>()) return;
    const int64_t first = argmax(wrong.to(DType::u8), 0, false).item<int64_t>();
    target_out_of_range(targets.select(0, first).item<int64_t>(), classes);
  });
}

Tensor cross_entropy_by_ops(const ClassRows& rows, const CrossEntropyOptions& options) {
  const int64_t classes = rows.scores.sizes()[1];
  const double smoothing = options.label_smoothing;
  check_classes(rows.targets, options.ignore_index, classes);
  const Tensor lp = log_softmax(to_compute_type(rows.scores), 1);
  const Tensor ignored = rows.targets == options.ignore_index;
  const Tensor safe = masked_fill(rows.targets, ignored, 0);
  Tensor losses = -pick(lp, 1, column(safe), safe.shape());
  Tensor count, weighted = lp;
  if (options.weight.defined()) {
    const Tensor weights = target_weights(options.weight, rows.targets, options.ignore_index, lp.dtype());
    losses = losses * weights;
    weighted = lp * options.weight.to(lp.dtype());
    count = sum(weights);
  } else {
    count = count_targets(rows.targets, options.ignore_index, lp.dtype());
  }
  if (smoothing != 0) losses = (1 - smoothing) * losses - sum(weighted, 1) * (smoothing / static_cast<double>(classes));
  return reduce_rows(masked_fill(losses, ignored, 0), count, options.reduction, rows.shape).to(rows.scores.dtype());
}

}  // namespace

Tensor cross_entropy(const Operand& scores, const Operand& classes, CrossEntropyOptions options, Location where) {
  const CallScope call("cross_entropy", where);
  WEFT_IN_FULL(cross_entropy, scores, classes, options, where);
  const Tensor &logits = scores.tensor(), &targets = classes.tensor();
  check_floating(checked(logits));
  tell_watch_of_loss(logits, checked(targets));
  expect_range("label_smoothing", options.label_smoothing, 0, 1);
  if (is_floating(checked(targets).dtype()) && logits.dim() > 0 && logits.shape() == targets.shape()) {
    return distribution_cross_entropy(logits, targets, options);
  }
  const ClassRows rows = class_rows(logits, targets);
  const Tensor& x = rows.scores;
  const auto kernel = kernels(x.raw_view()).cross_entropy;
  check_weight(options.weight, x, x.sizes()[1]);
  if (kernel == nullptr || options.weight.defined()) return cross_entropy_by_ops(rows, options);
  const DType wide = compute_type(x.dtype());
  const Tensor losses = make(rows.targets.sizes(), wide, x.device());
  const Tensor log_sum_exp = make_like(losses);
  kernel(losses.raw_view(), log_sum_exp.raw_view(), x.raw_view(), rows.targets.raw_view(), options.ignore_index,
         options.label_smoothing);
  Tensor count, out;
  {
    NoGradGuard unrecorded;
    if (options.reduction == LossReduction::mean) count = count_targets(rows.targets, options.ignore_index, wide);
    out = options.reduction == LossReduction::none ? with_shape(losses, rows.shape)
                                                   : reduce_rows(losses, count, options.reduction, rows.shape);
    out = out.to(x.dtype());
  }
  if (should_record(x)) {
    record(out, CrossEntropyBackward{Saved(x), Saved(rows.targets), log_sum_exp, count, options}, x);
  }
  return out;
}

Tensor nll_loss(const Operand& log_probabilities, const Operand& targets, NllOptions options, Location where) {
  const CallScope call("nll_loss", where);
  WEFT_IN_FULL(nll_loss, log_probabilities, targets, options, where);
  const ClassRows rows = class_rows(log_probabilities.tensor(), targets.tensor());
  tell_watch_of_loss(log_probabilities.tensor(), targets.tensor());
  const Tensor scores = to_compute_type(rows.scores);
  check_classes(rows.targets, options.ignore_index, scores.sizes()[1]);
  check_weight(options.weight, scores, scores.sizes()[1]);
  const Tensor ignored = rows.targets == options.ignore_index;
  const Tensor safe = masked_fill(rows.targets, ignored, 0);
  Tensor losses = masked_fill(-pick(scores, 1, column(safe), safe.shape()), ignored, 0), count;
  if (options.weight.defined()) {
    const Tensor weights = target_weights(options.weight, rows.targets, options.ignore_index, losses.dtype());
    losses = losses * weights;
    count = sum(weights);
  } else {
    count = count_targets(rows.targets, options.ignore_index, losses.dtype());
  }
  return reduce_rows(losses, count, options.reduction, rows.shape).to(rows.scores.dtype());
}

namespace {

Tensor difference(const Operand& x, const Operand& y, bool complex_too = false) {
  const bool complex = is_complex(checked(x.tensor()).dtype()) || is_complex(checked(y.tensor()).dtype());
  if (!complex || !complex_too) check_floating(is_complex(y.tensor().dtype()) ? y.tensor() : x.tensor());
  Tensor d = x.tensor() - y.tensor();
  warn_of_broadcast(x.tensor(), y.tensor(), d);
  return d;
}

// |d|² of real and complex numbers.
Tensor squared_length(const Tensor& d) { return is_complex(d.dtype()) ? real(d * conj(d)) : square(d); }

// d² / 2 for |d| up to delta, then a line.
Tensor huber(const Tensor& d, double delta) {
  const Tensor length = abs(d);
  return weft::where(length < delta, square(d) * 0.5, (length - delta / 2) * delta);
}

}  // namespace

Tensor mse_loss(const Operand& x, const Operand& y, LossOptions options, Location where) {
  const CallScope call("mse_loss", where);
  WEFT_IN_FULL(mse_loss, x, y, options, where);
  tell_watch_of_loss(x.tensor(), y.tensor());
  return reduce_losses(squared_length(difference(x, y, true)), options.reduction);
}

Tensor l1_loss(const Operand& x, const Operand& y, LossOptions options, Location where) {
  const CallScope call("l1_loss", where);
  WEFT_IN_FULL(l1_loss, x, y, options, where);
  tell_watch_of_loss(x.tensor(), y.tensor());
  return reduce_losses(abs(difference(x, y, true)), options.reduction);
}

Tensor huber_loss(const Operand& x, const Operand& y, HuberOptions options, Location where) {
  const CallScope call("huber_loss", where);
  WEFT_IN_FULL(huber_loss, x, y, options, where);
  tell_watch_of_loss(x.tensor(), y.tensor());
  if (!(options.delta > 0)) raise_value("delta", "a number above 0", options.delta);
  return reduce_losses(huber(difference(x, y), options.delta), options.reduction);
}

Tensor smooth_l1_loss(const Operand& x, const Operand& y, SmoothL1Options options, Location where) {
  const CallScope call("smooth_l1_loss", where);
  WEFT_IN_FULL(smooth_l1_loss, x, y, options, where);
  tell_watch_of_loss(x.tensor(), y.tensor());
  const double beta = options.beta;
  expect_at_least("beta", beta, 0);
  const Tensor d = difference(x, y);
  if (beta == 0) return reduce_losses(abs(d), options.reduction);
  return reduce_losses(huber(d, beta), options.reduction) / beta;
}

Tensor binary_cross_entropy_with_logits(const Operand& x, const Operand& y, BinaryCrossEntropyOptions options,
                                        Location where) {
  const CallScope call("binary_cross_entropy_with_logits", where);
  WEFT_IN_FULL(binary_cross_entropy_with_logits, x, y, options, where);
  tell_watch_of_loss(x.tensor(), y.tensor());
  check_floating(checked(x.tensor()));
  const Tensor &logits = x.tensor(), &wanted = checked(y.tensor());
  const Tensor products = logits * wanted;
  warn_of_broadcast(logits, wanted, products);
  check_same_device({&logits, &options.weight, &options.pos_weight});
  Tensor losses;
  if (options.pos_weight.defined()) {
    const Tensor factor = addcmul(1, wanted, options.pos_weight - 1);
    losses = logits - products + factor * softplus(-logits);
  } else {
    losses = softplus(logits) - products;
  }
  if (options.weight.defined()) losses = losses * options.weight;
  return reduce_losses(losses, options.reduction);
}

namespace {

Tensor call_cross_entropy(const Tensor& x, const Tensor& targets, const Tensor& weight, int64_t ignore_index,
                          const std::string& reduction, double label_smoothing) {
  return cross_entropy(x, targets,
                       {.weight = weight,
                        .reduction = reduction_named(reduction),
                        .ignore_index = ignore_index,
                        .label_smoothing = label_smoothing});
}
Tensor call_nll_loss(const Tensor& x, const Tensor& targets, const Tensor& weight, int64_t ignore_index,
                     const std::string& reduction) {
  return nll_loss(x, targets,
                  {.weight = weight, .reduction = reduction_named(reduction), .ignore_index = ignore_index});
}
Tensor call_binary(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& pos_weight,
                   const std::string& reduction) {
  return binary_cross_entropy_with_logits(
      x, y, {.weight = weight, .pos_weight = pos_weight, .reduction = reduction_named(reduction)});
}
template <Tensor (*loss)(const Operand&, const Operand&, LossOptions, Location)>
Tensor call_plain(const Tensor& x, const Tensor& y, const std::string& reduction) {
  return loss(x, y, {reduction_named(reduction)}, {});
}
template <class Options, Tensor (*loss)(const Operand&, const Operand&, Options, Location)>
Tensor call_scaled(const Tensor& x, const Tensor& y, const std::string& reduction, double scale) {
  return loss(x, y, {reduction_named(reduction), scale}, {});
}

std::vector<Values> class_samples(SampleMaker& make) {
  return {{make.tensor({4, 3}), make.indices({4}, 3)},
          {make.tensor({5}), make.indices({}, 5)},
          {make.tensor({2, 3, 2}), make.indices({2, 2}, 3), std::monostate{}, int64_t{1}, "none"},
          {make.tensor({3, 4}), make.indices({3}, 4), std::monostate{}, int64_t{-100}, "sum"},
          {make.tensor({4, 3}), make.indices({4}, 3), make.tensor({3}, 0.5, 2), int64_t{1}},
          {make.tensor({2, 3, 2}), make.indices({2, 2}, 3), make.tensor({3}, 0.5, 2), int64_t{-100}, "none"},
          {make.tensor({0, 3}), make.indices({0}, 3), std::monostate{}, int64_t{-100}, "sum"}};
}
std::vector<Values> cross_entropy_samples(SampleMaker& make) {
  auto samples = class_samples(make);
  samples.push_back({make.tensor({3, 4}), make.indices({3}, 4), std::monostate{}, int64_t{-100}, "mean", 0.1});
  samples.push_back({make.tensor({3, 4}), make.indices({3}, 4), make.tensor({4}, 0.5, 2), int64_t{-100}, "mean", 0.1});
  samples.push_back({make.tensor({3, 4}), make.tensor({3, 4}, 0, 1), make.tensor({4}, 0.5, 2)});
  return samples;
}
std::vector<Values> plain_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({2, 3}, 3, 5)},
          {make.tensor({2, 3}), make.tensor({3}, -0.5, 0.5), "none"},
          {make.tensor({}), make.tensor({}, 3, 5), "sum"},
          {make.tensor({0, 2}), make.tensor({0, 2}), "sum"}};
}
std::vector<Values> scaled_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({2, 3}, 2.2, 5), "mean", 0.7},
          {make.tensor({2, 3}, -0.4, 0.4), make.tensor({3}, 0.5, 0.9), "none", 2.0},
          {make.tensor({}), make.tensor({}, 3, 5), "sum", 1.0},
          {make.tensor({0, 2}), make.tensor({0, 2}), "sum", 1.0}};
}
std::vector<Values> binary_samples(SampleMaker& make) {
  const std::monostate none;
  return {{make.tensor({2, 3}), make.tensor({2, 3}, 0, 1)},
          {make.tensor({2, 3}), make.tensor({3}, 0, 1), none, none, "none"},
          {make.tensor({2, 3}), make.tensor({2, 3}, 0, 1), make.tensor({2, 3}, 0.5, 2)},
          {make.tensor({2, 3}), make.tensor({2, 3}, 0, 1), none, make.tensor({3}, 0.5, 2), "sum"},
          {make.tensor({2, 3}), make.tensor({2, 3}, 0, 1), make.tensor({3}, 0.5, 2), make.tensor({}, 1, 3), "none"},
          {make.tensor({}), make.tensor({}, 0, 1), none, none, "sum"},
          {make.tensor({0, 2}), make.tensor({0, 2}), none, none, "sum"}};
}

/// The sum of the weights of the rows that count, on this rank.
Tensor weight_of_rows(const Tensor& scores, const Tensor& targets, const Tensor& weight, int64_t ignore_index) {
  return nll_loss(full_like(scores, -1), targets,
                  {.weight = weight, .reduction = LossReduction::sum, .ignore_index = ignore_index});
}

/// Rows by themselves; their mean is weighed by the rows of all ranks that count.
Partition classified(const WholeCall& call) {
  const Tensor &x = call.inputs()[0], targets = call.tensor("targets"), weight = call.tensor("weight");
  const std::string& reduction = std::get<std::string>(call["reduction"]);
  const bool by_probability = is_floating(targets.dtype());
  std::string word = parts::letters(x.dim()), rows = word;
  const size_t classes = x.dim() > 1 ? 1 : 0;
  word[classes] = '1';
  rows.erase(classes, 1);
  std::vector<std::string> in{word, by_probability ? word : rows};
  if (weight.defined()) in.emplace_back("1");
  Partition rule{.letters = parts::notation(in, std::vector<std::string>{reduction == "none" ? rows : ""})};
  if (reduction != "mean") return rule;
  const int64_t count = by_probability && x.numel() != 0 ? x.numel() / x.size(static_cast<int>(classes)) : 0;
  rule.on_parts = [=](PartCall& part) -> Value {
    part["reduction"] = std::string("sum");
    const Tensor sum = std::get<Tensor>(part.run());
    if (by_probability) return parts::share_of_mean(sum, count);
    const Tensor here = weight_of_rows(std::get<Tensor>(part.arguments[0]), part.tensor("targets"),
                                       part.tensor("weight"), detail::integer_in(part["ignore_index"]));
    return sum / part.sum(here, rows);
  };
  return rule;
}

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"cross_entropy",
     "cross_entropy(logits, targets|target, weight=None, *, ignore_index=-100, reduction='mean', label_smoothing=0.0)",
     "Cross entropy between softmax(logits) and class numbers, or distributions of the logits' shape. logits are [C], "
     "[N, C] or [N, C, d1, ...]; targets have that shape without C. Targets equal to ignore_index do not count. weight "
     "is "
     "each class's share.",
     OpFacts(true, Autocast::full), floating, cross_entropy_samples, classified, detail::boxed<call_cross_entropy>},
    {"nll_loss", "nll_loss(log_probabilities, targets|target, weight=None, *, ignore_index=-100, reduction='mean')",
     "-log_probabilities[target]; shapes as cross_entropy.", OpFacts(true, Autocast::full), floating, class_samples,
     classified, detail::boxed<call_nll_loss>},
    {"mse_loss", "mse_loss(x, y|target, reduction='mean')", "(x - y)^2; x and y broadcast.",
     OpFacts(true, Autocast::full), floating, plain_samples, parts::pointwise_loss,
     detail::boxed<call_plain<mse_loss>>},
    {"l1_loss", "l1_loss(x, y|target, reduction='mean')", "|x - y|; x and y broadcast.", OpFacts(true, Autocast::full),
     floating, plain_samples, parts::pointwise_loss, detail::boxed<call_plain<l1_loss>>},
    {"huber_loss", "huber_loss(x, y|target, reduction='mean', delta=1.0)",
     "d^2 / 2 where d = |x - y| is below delta, else delta * (d - delta / 2) (Huber 1964).",
     OpFacts(true, Autocast::full), floating, scaled_samples, parts::pointwise_loss,
     detail::boxed<call_scaled<HuberOptions, huber_loss>>},
    {"smooth_l1_loss", "smooth_l1_loss(x, y|target, reduction='mean', *, beta=1.0)",
     "huber_loss / beta; l1_loss where beta is 0.", OpFacts(true, Autocast::full), floating, scaled_samples,
     parts::pointwise_loss, detail::boxed<call_scaled<SmoothL1Options, smooth_l1_loss>>},
    {"binary_cross_entropy_with_logits",
     "binary_cross_entropy_with_logits(x, y|target, weight=None, *, pos_weight=None, reduction='mean')",
     "-(pos_weight * y log s(x) + (1 - y) log(1 - s(x))) * weight with the sigmoid s, without overflow; all broadcast.",
     OpFacts(true, Autocast::full), floating, binary_samples, parts::pointwise_loss, detail::boxed<call_binary>},
};

}  // namespace

std::span<const OpRecord> loss_records() { return records; }

}  // namespace weft
