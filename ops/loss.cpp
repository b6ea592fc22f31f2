#include <weft/ops/loss.hpp>

#include <weft/ops/create.hpp>
#include <weft/ops/index.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/detail/records.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/ops/detail/reducing.hpp>
#include <weft/ops/softmax.hpp>
#include <weft/tensor/warning.hpp>

namespace weft {

namespace {

/// Class scores as a matrix with one target per row.
struct ClassRows {
  Tensor scores;   ///< [rows, classes]
  Tensor targets;  ///< [rows], i64
  Dims shape;      ///< the targets' own
};

Tensor scores_by_row(const Tensor& scores, int64_t rows, Location where) {
  const int rank = scores.dim();
  if (rank == 2) return scores;
  if (rank == 1) return scores.unsqueeze(0, where);
  Dims order(0);
  for (int i = 2; i < rank; ++i) order.push_back(i);
  order.push_back(1);
  return scores.permute(order, where).reshape({rows, scores.sizes()[1]}, where);
}

ClassRows class_rows(const char* op, const Tensor& scores, const Tensor& targets, Location where) {
  check_floating(op, checked(scores, op, where), where);
  check_same_device(op, where, {&scores, &checked(targets, op, where)});
  Dims shape = scores.shape();
  if (scores.dim() > 0) shape.erase(scores.dim() == 1 ? 0 : 1);
  if (scores.dim() == 0 || !(targets.shape() == shape)) {
    raise<ShapeError>(
        {.op = op,
         .problem = fmt::format("targets {} do not fit scores {}", targets.shape().text(), scores.shape().text()),
         .remedy = "scores are [C], [N, C] or [N, C, d1, ...]; targets have that shape without C"},
        where);
  }
  if (!is_integer(targets.dtype())) {
    raise<DTypeError>({.op = op,
                       .problem = fmt::format("targets are class numbers, not {}", name(targets.dtype())),
                       .remedy = "convert them with to(weft::i64)"},
                      where);
  }
  const int64_t rows = shape.product();
  return {scores_by_row(scores, rows, where), targets.to(DType::i64, where).reshape({rows}, where), shape};
}

Tensor reduce_losses(const Tensor& losses, LossReduction reduction, Location where) {
  if (reduction == LossReduction::none) return losses;
  return reduction == LossReduction::mean ? mean(losses, where) : sum(losses, where);
}

// The number of targets that count, as a 0-d tensor.
Tensor count_targets(const Tensor& targets, int64_t ignore_index, DType dtype, Location where) {
  return sum(ne(Operand(targets, where), Operand(ignore_index, where)), where).to(dtype, where);
}

// One loss per row brought to the result; `count` only where the mean is asked for.
Tensor reduce_rows(const Tensor& losses, const Tensor& count, LossReduction reduction, const Dims& shape,
                   Location where) {
  if (reduction == LossReduction::none) return losses.reshape(shape, where);
  const Tensor total = sum(losses, where);
  return reduction == LossReduction::sum ? total : div(Operand(total, where), Operand(count, where));
}

// What the softmax should have been: smoothed indicators [rows, classes].
Tensor wanted_probabilities(const Tensor& targets, int64_t classes, DType dtype, double smoothing, Location where) {
  const Tensor numbers = arange(0, classes, 1, {DType::i64, targets.device()}, where);
  const Tensor hit = eq(Operand(numbers, where), Operand(targets.unsqueeze(1, where), where));
  const double share = smoothing / static_cast<double>(classes);
  const Tensor none = full({}, share, {dtype, targets.device()}, where);
  return weft::where(Operand(hit, where), Operand(1 - smoothing + share, where), Operand(none, where));
}

Tensor column(const Tensor& row_values, Location where) { return row_values.unsqueeze(1, where); }

struct CrossEntropyFormula {
  Saved logits, targets;
  Tensor log_sum_exp, count;
  CrossEntropyOptions options;

  Tensor gradient_by_ops(const Tensor& x, const Tensor& target, const Tensor& g, Location where) const {
    const Tensor wide = widened(x, where);
    const Tensor wanted = wanted_probabilities(target, x.sizes()[1], wide.dtype(), options.label_smoothing, where);
    const Tensor error = sub(Operand(softmax(wide, 1, {}, where), where), Operand(wanted, where));
    const Tensor ignored = column(eq(Operand(target, where), Operand(options.ignore_index, where)), where);
    const Tensor dx = mul(Operand(error, where), Operand(column(g, where), where));
    return masked_fill(Operand(dx, where), Operand(ignored, where), Operand(0, where)).to(x.dtype(), where);
  }

  Tensor operator()(Node& self, Tensor&& gradient) {
    const Location where = self.where;
    const Tensor& x = logits.get(self);
    const Tensor& target = targets.get(self);
    Tensor g = gradient.to(compute_type(x.dtype()), where);
    if (options.reduction == LossReduction::mean) g = div(Operand(g, where), Operand(count, where));
    const int64_t rows = x.sizes()[0];
    g = options.reduction == LossReduction::none ? g.reshape({rows}, where) : g.expand({rows}, where);
    const auto kernel = kernels(x.raw_view()).cross_entropy_gradient;
    if (recording() || kernel == nullptr) return gradient_by_ops(x, target, g, where);
    Tensor dx = make_like(x, self.op, where);
    kernel(dx.raw_view(), g.raw_view(), x.raw_view(), log_sum_exp.raw_view(), target.raw_view(), options.ignore_index,
           options.label_smoothing);
    return dx;
  }
};

// What each target's loss counts: its class's weight, 0 where it is ignored.
Tensor target_weights(const Tensor& weight, const Tensor& targets, int64_t ignore_index, DType dtype, Location where) {
  const Tensor ignored = eq(Operand(targets, where), Operand(ignore_index, where));
  const Tensor safe = masked_fill(Operand(targets, where), Operand(ignored, where), Operand(0, where));
  const Tensor chosen = index_select(weight.to(dtype, where), 0, safe, where);
  return masked_fill(Operand(chosen, where), Operand(ignored, where), Operand(0, where));
}

void check_weight(const char* op, const Tensor& weight, const Tensor& scores, int64_t classes, Location where) {
  if (!weight.defined()) return;
  check_floating(op, weight, where);
  check_same_device(op, where, {&scores, &weight});
  if (weight.dim() == 1 && weight.numel() == classes) return;
  raise<ShapeError>(
      {.op = op, .problem = fmt::format("a weight of shape {} for {} classes", weight.shape().text(), classes)}, where);
}

// Targets are distributions over the classes.
Tensor distribution_cross_entropy(const Tensor& logits, const Tensor& targets, const CrossEntropyOptions& options,
                                  Location where) {
  const int dim = logits.dim() == 1 ? 0 : 1;
  Tensor wanted = targets;
  if (const double s = options.label_smoothing; s != 0) {
    const double share = s / static_cast<double>(logits.sizes()[dim]);
    wanted = add(Operand(mul(Operand(targets, where), Operand(1 - s, where)), where), Operand(share, where));
  }
  Tensor products = mul(Operand(log_softmax(logits, dim, {}, where), where), Operand(wanted, where));
  const Tensor& weight = options.weight;
  check_weight("cross_entropy", weight, logits, logits.sizes()[static_cast<size_t>(dim)], where);
  if (weight.defined()) {
    Dims shape = Dims::filled(logits.dim(), 1);
    shape[dim] = weight.numel();
    products = mul(Operand(products, where), Operand(weight.reshape(shape, where), where)).to(logits.dtype(), where);
  }
  const Tensor losses = neg(Operand(sum(products, Dims(dim), false, {}, where), where));
  return reduce_losses(losses, options.reduction, where);
}

// Where no kernel of the loss itself looks at the targets: negative ones would count from the end, others match
// nothing.
void check_classes(const Tensor& targets, int64_t ignore_index, int64_t classes, const char* op, Location where) {
  if (targets.device().type == DeviceType::meta) return;
  const Tensor low = lt(Operand(targets, where), Operand(0, where));
  const Tensor outside =
      logical_or(Operand(low, where), Operand(ge(Operand(targets, where), Operand(classes, where)), where));
  const Tensor counts = ne(Operand(targets, where), Operand(ignore_index, where));
  const Tensor wrong = logical_and(Operand(outside, where), Operand(counts, where));
  if (!any(wrong, where).item<bool>(where)) return;
  const int64_t first = argmax(wrong.to(DType::u8, where), 0, false, where).item<int64_t>(where);
  const CallScope scope(op, where);
  target_out_of_range(targets.select(0, first, where).item<int64_t>(where), classes);
}

Tensor cross_entropy_by_ops(const ClassRows& rows, const CrossEntropyOptions& options, Location where) {
  check_classes(rows.targets, options.ignore_index, rows.scores.sizes()[1], "cross_entropy", where);
  const Tensor lp = log_softmax(widened(rows.scores, where), 1, {}, where);
  Tensor wanted = wanted_probabilities(rows.targets, lp.sizes()[1], lp.dtype(), options.label_smoothing, where);
  if (options.weight.defined()) {
    wanted = mul(Operand(wanted, where), Operand(options.weight.to(lp.dtype(), where), where));
  }
  const Tensor losses =
      neg(Operand(sum(mul(Operand(lp, where), Operand(wanted, where)), {1}, false, {}, where), where));
  const Tensor ignored = eq(Operand(rows.targets, where), Operand(options.ignore_index, where));
  const Tensor kept = masked_fill(Operand(losses, where), Operand(ignored, where), Operand(0, where));
  const Tensor count =
      options.weight.defined()
          ? sum(target_weights(options.weight, rows.targets, options.ignore_index, lp.dtype(), where), where)
          : count_targets(rows.targets, options.ignore_index, lp.dtype(), where);
  return reduce_rows(kept, count, options.reduction, rows.shape, where).to(rows.scores.dtype(), where);
}

}  // namespace

Tensor cross_entropy(const Operand& scores, const Operand& classes, CrossEntropyOptions options, Location where) {
  constexpr const char* op = "cross_entropy";
  const Tensor &logits = scores.tensor(), &targets = classes.tensor();
  check_floating(op, checked(logits, op, where), where);
  if (!(options.label_smoothing >= 0 && options.label_smoothing <= 1)) {
    raise<ValueError>(
        {.op = op, .problem = fmt::format("label_smoothing {} is not in [0, 1]", options.label_smoothing)}, where);
  }
  if (is_floating(checked(targets, op, where).dtype()) && logits.dim() > 0 && logits.shape() == targets.shape()) {
    return distribution_cross_entropy(logits, targets, options, where);
  }
  const ClassRows rows = class_rows(op, logits, targets, where);
  const Tensor& x = rows.scores;
  const auto kernel = kernels(x.raw_view()).cross_entropy;
  check_weight(op, options.weight, x, x.sizes()[1], where);
  if (kernel == nullptr || options.weight.defined()) return cross_entropy_by_ops(rows, options, where);
  const DType wide = compute_type(x.dtype());
  const Tensor losses = make(rows.targets.sizes(), wide, x.device(), op, where);
  const Tensor log_sum_exp = make_like(losses, op, where);
  {
    const CallScope scope(op, where);
    kernel(losses.raw_view(), log_sum_exp.raw_view(), x.raw_view(), rows.targets.raw_view(), options.ignore_index,
           options.label_smoothing);
  }
  Tensor count, out;
  {
    NoGradGuard unrecorded;
    if (options.reduction == LossReduction::mean)
      count = count_targets(rows.targets, options.ignore_index, wide, where);
    out = options.reduction == LossReduction::none ? relabelled(losses, rows.shape)
                                                   : reduce_rows(losses, count, options.reduction, rows.shape, where);
    out = out.to(x.dtype(), where);
  }
  if (should_record(x)) {
    record(out, op, where, CrossEntropyFormula{Saved(x), Saved(rows.targets), log_sum_exp, count, options}, x);
  }
  return out;
}

Tensor nll_loss(const Operand& log_probabilities, const Operand& targets, NllOptions options, Location where) {
  const ClassRows rows = class_rows("nll_loss", log_probabilities.tensor(), targets.tensor(), where);
  check_classes(rows.targets, options.ignore_index, rows.scores.sizes()[1], "nll_loss", where);
  const Tensor ignored = eq(Operand(rows.targets, where), Operand(options.ignore_index, where));
  const Tensor safe = masked_fill(Operand(rows.targets, where), Operand(ignored, where), Operand(0, where));
  const Tensor chosen = pick(rows.scores, 1, column(safe, where), rows.targets.shape(), "nll_loss", where);
  const Tensor losses =
      masked_fill(Operand(neg(Operand(chosen, where)), where), Operand(ignored, where), Operand(0, where));
  check_weight("nll_loss", options.weight, rows.scores, rows.scores.sizes()[1], where);
  if (options.weight.defined()) {
    const Tensor weights = target_weights(options.weight, rows.targets, options.ignore_index, losses.dtype(), where);
    return reduce_rows(mul(Operand(losses, where), Operand(weights, where)), sum(weights, where), options.reduction,
                       rows.shape, where);
  }
  const Tensor count = count_targets(rows.targets, options.ignore_index, losses.dtype(), where);
  return reduce_rows(losses, count, options.reduction, rows.shape, where);
}

namespace {

// [4, 1] against [4] is a matrix of losses, which still trains, to nonsense.
void warn_of_broadcast(const char* op, const Tensor& x, const Tensor& y, const Tensor& both, Location where) {
  if (x.impl()->wrapped_number || y.impl()->wrapped_number || x.shape() == y.shape()) return;
  warn({.op = op,
        .problem = fmt::format("input {} and target {} differ in shape and broadcast to {}", x.shape().text(),
                               y.shape().text(), both.shape().text()),
        .remedy = "this is rarely meant: bring one to the other's shape, as by view or squeeze"},
       where);
}

Tensor difference(const char* op, const Operand& x, const Operand& y, Location where) {
  check_floating(op, checked(x.tensor(), op, where), where);
  checked(y.tensor(), op, where);
  Tensor d = sub(Operand(x.tensor(), where), Operand(y.tensor(), where));
  warn_of_broadcast(op, x.tensor(), y.tensor(), d, where);
  return d;
}

Tensor distance(const char* op, const Operand& x, const Operand& y, Location where) {
  return abs(Operand(difference(op, x, y, where), where));
}

// d² / 2 up to delta, then a line.
Tensor huber(const Tensor& d, double delta, Location where) {
  const Tensor half_square = mul(Operand(square(Operand(d, where)), where), Operand(0.5, where));
  const Tensor line = mul(Operand(sub(Operand(d, where), Operand(delta / 2, where)), where), Operand(delta, where));
  const Tensor near = lt(Operand(d, where), Operand(delta, where));
  return weft::where(Operand(near, where), Operand(half_square, where), Operand(line, where));
}

}  // namespace

Tensor mse_loss(const Operand& x, const Operand& y, LossOptions options, Location where) {
  return reduce_losses(square(Operand(difference("mse_loss", x, y, where), where)), options.reduction, where);
}

Tensor l1_loss(const Operand& x, const Operand& y, LossOptions options, Location where) {
  return reduce_losses(distance("l1_loss", x, y, where), options.reduction, where);
}

Tensor huber_loss(const Operand& x, const Operand& y, HuberOptions options, Location where) {
  if (!(options.delta > 0))
    raise<ValueError>({.op = "huber_loss", .problem = fmt::format("delta {} is not above 0", options.delta)}, where);
  return reduce_losses(huber(distance("huber_loss", x, y, where), options.delta, where), options.reduction, where);
}

Tensor smooth_l1_loss(const Operand& x, const Operand& y, SmoothL1Options options, Location where) {
  const double beta = options.beta;
  if (!(beta >= 0))
    raise<ValueError>({.op = "smooth_l1_loss", .problem = fmt::format("beta {} is negative", beta)}, where);
  const Tensor d = distance("smooth_l1_loss", x, y, where);
  if (beta == 0) return reduce_losses(d, options.reduction, where);
  return div(Operand(reduce_losses(huber(d, beta, where), options.reduction, where), where), Operand(beta, where));
}

Tensor binary_cross_entropy_with_logits(const Operand& x, const Operand& y, BinaryCrossEntropyOptions options,
                                        Location where) {
  constexpr const char* op = "binary_cross_entropy_with_logits";
  check_floating(op, checked(x.tensor(), op, where), where);
  const Tensor &logits = x.tensor(), &wanted = checked(y.tensor(), op, where);
  const Tensor products = mul(Operand(logits, where), Operand(wanted, where));
  warn_of_broadcast(op, logits, wanted, products, where);
  const auto in = [&](const Tensor& t) { return Operand(t, where); };
  check_same_device(op, where, {&logits, &options.weight, &options.pos_weight});
  Tensor losses;
  if (options.pos_weight.defined()) {
    const Tensor more = sub(in(options.pos_weight), Operand(1, where));
    const Tensor factor = addcmul(Operand(1, where), in(wanted), in(more));
    const Tensor steep = mul(in(factor), in(softplus(in(neg(in(logits))))));
    losses = add(in(sub(in(logits), in(products))), in(steep));
  } else {
    losses = sub(in(softplus(in(logits))), in(products));
  }
  if (options.weight.defined()) losses = mul(in(losses), in(options.weight));
  return reduce_losses(losses, options.reduction, where);
}

namespace {

LossReduction reduction_named(const std::optional<std::string>& name) {
  if (!name || *name == "mean") return LossReduction::mean;
  if (*name == "sum") return LossReduction::sum;
  if (*name == "none") return LossReduction::none;
  raise<ValueError>(
      {.op = "loss", .problem = fmt::format("there is no reduction '{}'", *name), .remedy = "use mean, sum or none"},
      boxed_place());
}

Tensor call_cross_entropy(const Tensor& x, const Tensor& targets, const Tensor& weight,
                          std::optional<int64_t> ignore_index, std::optional<std::string> reduction,
                          std::optional<double> label_smoothing) {
  return cross_entropy(x, targets,
                       {.weight = weight,
                        .reduction = reduction_named(reduction),
                        .ignore_index = ignore_index.value_or(-100),
                        .label_smoothing = label_smoothing.value_or(0)},
                       boxed_place());
}
Tensor call_nll_loss(const Tensor& x, const Tensor& targets, const Tensor& weight, std::optional<int64_t> ignore_index,
                     std::optional<std::string> reduction) {
  return nll_loss(
      x, targets,
      {.weight = weight, .reduction = reduction_named(reduction), .ignore_index = ignore_index.value_or(-100)},
      boxed_place());
}
Tensor call_binary(const Tensor& x, const Tensor& y, const Tensor& weight, const Tensor& pos_weight,
                   std::optional<std::string> reduction) {
  return binary_cross_entropy_with_logits(
      x, y, {.weight = weight, .pos_weight = pos_weight, .reduction = reduction_named(reduction)}, boxed_place());
}
template <Tensor (*loss)(const Operand&, const Operand&, LossOptions, Location)>
Tensor call_plain(const Tensor& x, const Tensor& y, std::optional<std::string> reduction) {
  return loss(x, y, {reduction_named(reduction)}, boxed_place());
}
template <class Options, Tensor (*loss)(const Operand&, const Operand&, Options, Location)>
Tensor call_scaled(const Tensor& x, const Tensor& y, std::optional<std::string> reduction,
                   std::optional<double> scale) {
  return loss(x, y, {reduction_named(reduction), scale.value_or(1)}, boxed_place());
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

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"cross_entropy",
     "cross_entropy(logits, targets, weight=None, *, ignore_index=-100, reduction='mean', label_smoothing=0.0)",
     "Cross entropy between softmax(logits) and class numbers, or distributions of the logits' shape. logits are [C], "
     "[N, C] or [N, C, d1, ...]; targets have that shape without C. Targets equal to ignore_index do not count. weight "
     "is "
     "each class's share.",
     true, floating, cross_entropy_samples, detail::boxed<call_cross_entropy>},
    {"nll_loss", "nll_loss(log_probabilities, targets, weight=None, *, ignore_index=-100, reduction='mean')",
     "-log_probabilities[target]; shapes as cross_entropy.", true, floating, class_samples,
     detail::boxed<call_nll_loss>},
    {"mse_loss", "mse_loss(x, y, reduction='mean')", "(x - y)^2; x and y broadcast.", true, floating, plain_samples,
     detail::boxed<call_plain<mse_loss>>},
    {"l1_loss", "l1_loss(x, y, reduction='mean')", "|x - y|; x and y broadcast.", true, floating, plain_samples,
     detail::boxed<call_plain<l1_loss>>},
    {"huber_loss", "huber_loss(x, y, reduction='mean', delta=1.0)",
     "d^2 / 2 where d = |x - y| is below delta, else delta * (d - delta / 2) (Huber 1964).", true, floating,
     scaled_samples, detail::boxed<call_scaled<HuberOptions, huber_loss>>},
    {"smooth_l1_loss", "smooth_l1_loss(x, y, reduction='mean', beta=1.0)",
     "huber_loss / beta; l1_loss where beta is 0.", true, floating, scaled_samples,
     detail::boxed<call_scaled<SmoothL1Options, smooth_l1_loss>>},
    {"binary_cross_entropy_with_logits",
     "binary_cross_entropy_with_logits(x, y, weight=None, *, pos_weight=None, reduction='mean')",
     "-(pos_weight * y log s(x) + (1 - y) log(1 - s(x))) * weight with the sigmoid s, without overflow; all broadcast.",
     true, floating, binary_samples, detail::boxed<call_binary>},
};

}  // namespace

std::span<const OpRecord> loss_records() { return records; }

}  // namespace weft
