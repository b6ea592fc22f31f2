// Losses with a margin.
#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/losses.hpp"
#include "../detail/records.hpp"
#include "../distance.hpp"
#include "../index.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../scan.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

constexpr double length_epsilon = 1e-12F;  // PyTorch's, a float

[[noreturn]] void raise_shapes(const Tensor& x, const Tensor& targets, const char* remedy) {
  raise<ShapeError>(
      {.problem = fmt::format("targets {} do not fit an input {}", targets.shape().text(), x.shape().text()),
       .remedy = remedy});
}

Tensor class_targets(const Tensor& targets) {
  expect_integers("targets", targets, "convert them with to(weft::i64)");
  return index_numbers(targets).to(DType::i64);
}

void check_targets(const Tensor& targets, int64_t least, int64_t classes) {
  if (targets.numel() == 0 || is_meta(targets)) return;
  check_elements([=, single = without_repeats(targets)] {
    const int64_t low = amin(single).item<int64_t>(), high = amax(single).item<int64_t>();
    if (low >= least && high < classes) return;
    raise_mismatch<IndexError>("targets", fmt::format("numbers of {} classes", classes), low < least ? low : high);
  });
}

Tensor class_numbers(int64_t classes, const Tensor& beside) {
  return arange(0, classes, 1, {DType::i64, beside.device()});
}

void check_ranks(const Tensor& a, const Tensor& b, const Tensor& c) {
  if (checked(a).dim() == checked(b).dim() && b.dim() == checked(c).dim()) return;
  raise<ShapeError>({.problem = fmt::format("shapes {}, {} and {} differ in rank", a.shape().text(), b.shape().text(),
                                            c.shape().text())});
}

}  // namespace

Tensor cosine_embedding_loss(const Operand& a, const Operand& b, const Operand& y, MarginOptions options,
                             Location where) {
  const CallScope call("cosine_embedding_loss", where);
  WEFT_IN_FULL(cosine_embedding_loss, a, b, y, options, where);
  const auto [left, right, dtype] = loss_pair(a.tensor(), b.tensor());
  const Tensor& wanted = checked(y.tensor());
  if (wanted.dim() > 1 || left.dim() != wanted.dim() + 1 || right.dim() != left.dim()) {
    raise<ShapeError>({.problem = fmt::format("targets {} for inputs {} and {}", wanted.shape().text(),
                                              left.shape().text(), right.shape().text()),
                       .remedy = "inputs are [N, D] with targets [N], or [D] with a 0-d target"});
  }
  const Tensor products = sum(left * right, -1);
  const Tensor squares = (sum(square(left), -1) + length_epsilon) * (sum(square(right), -1) + length_epsilon);
  const Tensor cosine = products / sqrt(squares);
  const Tensor alike = weft::where(wanted == 1, 1 - cosine, 0.0);
  const Tensor unlike = weft::where(wanted == -1, relu(cosine - options.margin), 0.0);
  return reduced_to(dtype, alike + unlike, options.reduction);
}

Tensor hinge_embedding_loss(const Operand& x, const Operand& y, HingeOptions options, Location where) {
  const CallScope call("hinge_embedding_loss", where);
  WEFT_IN_FULL(hinge_embedding_loss, x, y, options, where);
  const auto [distance, wanted, dtype] = loss_pair(x.tensor(), y.tensor());
  const Tensor unlike = weft::where(wanted != 1, relu(options.margin - distance), 0.0);
  const Tensor alike = weft::where(wanted != -1, distance, 0.0);
  return reduced_to(dtype, unlike + alike, options.reduction);
}

Tensor margin_ranking_loss(const Operand& a, const Operand& b, const Operand& y, MarginOptions options,
                           Location where) {
  const CallScope call("margin_ranking_loss", where);
  WEFT_IN_FULL(margin_ranking_loss, a, b, y, options, where);
  check_ranks(a.tensor(), b.tensor(), y.tensor());
  const auto [left, right, dtype] = loss_pair(a.tensor(), b.tensor());
  const Tensor wanted = y.tensor().to(left.dtype());
  return reduced_to(dtype, relu(options.margin - wanted * (left - right)), options.reduction);
}

Tensor soft_margin_loss(const Operand& x, const Operand& y, LossOptions options, Location where) {
  const CallScope call("soft_margin_loss", where);
  WEFT_IN_FULL(soft_margin_loss, x, y, options, where);
  const auto [scores, wanted, dtype] = loss_pair(x.tensor(), y.tensor());
  const Tensor losses = softplus(-wanted * scores);
  warn_of_broadcast(x.tensor(), y.tensor(), losses);
  return reduced_to(dtype, losses, options.reduction);
}

Tensor multi_margin_loss(const Operand& x, const Operand& targets, MultiMarginOptions options, Location where) {
  const CallScope call("multi_margin_loss", where);
  WEFT_IN_FULL(multi_margin_loss, x, targets, options, where);
  const Tensor &given = checked(x.tensor()), &numbers = checked(targets.tensor());
  check_floating(given);
  check_same_device({&given, &numbers, &options.weight});
  const int64_t classes = given.dim() == 0 ? 1 : given.sizes()[static_cast<size_t>(given.dim() - 1)];
  const int64_t rows = given.dim() == 2 ? given.sizes()[0] : 1;
  if (given.dim() > 2 || classes == 0 || numbers.dim() > 1 || numbers.numel() != rows) {
    raise_shapes(given, numbers, "x is [N, C] with targets [N], or [C] with one target");
  }
  if (options.p != 1 && options.p != 2) raise_value("p", "1 or 2", options.p);
  const Tensor scores = to_compute_type(given).reshape({rows, classes});
  const Tensor target = class_targets(numbers).reshape({rows, 1});
  check_targets(target, 0, classes);
  const Tensor hit = class_numbers(classes, target) == target;
  const Tensor chosen = pick(scores, 1, target, {rows, 1});
  Tensor losses = masked_fill(relu(options.margin - chosen + scores), hit, 0);
  if (options.p == 2) losses = square(losses);
  if (const Tensor& weight = options.weight; weight.defined()) {
    check_floating(weight);
    if (weight.dim() != 1 || weight.numel() != classes) {
      raise<ShapeError>(
          {.problem = fmt::format("a weight of shape {} for {} classes", weight.shape().text(), classes)});
    }
    losses = losses * index_select(weight.to(scores.dtype()), 0, target.reshape({rows})).unsqueeze(1);
  }
  const Tensor of_rows = sum(losses, 1) / classes;
  return reduced_to(given.dtype(), of_rows.reshape(numbers.shape()), options.reduction);
}

Tensor multilabel_margin_loss(const Operand& x, const Operand& targets, LossOptions options, Location where) {
  const CallScope call("multilabel_margin_loss", where);
  WEFT_IN_FULL(multilabel_margin_loss, x, targets, options, where);
  const Tensor &given = checked(x.tensor()), &numbers = checked(targets.tensor());
  check_floating(given);
  check_same_device({&given, &numbers});
  if (given.dim() > 2 || !(numbers.shape() == given.shape())) {
    raise_shapes(given, numbers, "both are [N, C] or [C]");
  }
  const int64_t classes = given.dim() == 0 ? 1 : given.sizes()[static_cast<size_t>(given.dim() - 1)];
  if (classes == 0) raise_shapes(given, numbers, "there must be a class");
  const int64_t rows = given.dim() == 2 ? given.sizes()[0] : 1;
  const Tensor scores = to_compute_type(given).reshape({rows, classes});
  const Tensor target = class_targets(numbers).reshape({rows, classes});
  check_targets(target, -1, classes);
  const Tensor counts = cumsum(target == -1, 1) == 0;
  const bool known = !is_meta(target) && rows != 0;
  const int64_t max_targets = known ? amax(sum(counts, 1)).item<int64_t>() : 0;
  const Tensor every = class_numbers(classes, target);
  Tensor wanted = zeros({rows, classes}, {DType::boolean, target.device()});
  for (int64_t i = 0; i < max_targets; ++i)
    wanted = logical_or(wanted, every == weft::where(counts, target, -1).narrow(1, i, 1));
  const Tensor valid = masked_fill(target, logical_not(counts), 0);
  Tensor total = sum(scores.narrow(1, 0, 0), 1);
  for (int64_t i = 0; i < max_targets; ++i) {
    const Tensor chosen = pick(scores, 1, valid.narrow(1, i, 1), {rows, 1});
    const Tensor none = logical_or(wanted, logical_not(counts.narrow(1, i, 1)));
    total = total + sum(masked_fill(relu(1 - chosen + scores), none, 0), 1);
  }
  Dims shape = given.dim() == 2 ? Dims(rows) : Dims();
  return reduced_to(given.dtype(), (total / classes).reshape(shape), options.reduction);
}

Tensor multilabel_soft_margin_loss(const Operand& x, const Operand& y, PlainBinaryOptions options, Location where) {
  const CallScope call("multilabel_soft_margin_loss", where);
  WEFT_IN_FULL(multilabel_soft_margin_loss, x, y, options, where);
  const auto [scores, wanted, dtype] = loss_pair(x.tensor(), y.tensor());
  if (scores.dim() == 0) raise<ShapeError>({.problem = "a 0-d input has no dimension of classes"});
  Tensor losses = -(wanted * logsigmoid(scores) + (1 - wanted) * logsigmoid(-scores));
  warn_of_broadcast(x.tensor(), y.tensor(), losses);
  if (options.weight.defined()) losses = losses * options.weight.to(losses.dtype());
  const int64_t classes = scores.sizes()[static_cast<size_t>(scores.dim() - 1)];
  return reduced_to(dtype, sum(losses, scores.dim() - 1) / classes, options.reduction);
}

Tensor triplet_margin_with_distance_loss(const Operand& anchor, const Operand& positive, const Operand& negative,
                                         const DistanceFunction& distance, TripletDistanceOptions options,
                                         Location where) {
  const CallScope call("triplet_margin_with_distance_loss", where);
  const Tensor &a = anchor.tensor(), &near = positive.tensor(), &far = negative.tensor();
  check_ranks(a, near, far);
  if (!(options.margin > 0)) {
    raise_value("margin", "a number above 0", options.margin);
  }
  const DistanceFunction usual = [](const Tensor& u, const Tensor& v) { return pairwise_distance(u, v); };
  const DistanceFunction& d = distance ? distance : usual;
  const Tensor good = d(a, near);
  Tensor bad = d(a, far);
  if (options.swap) bad = minimum(bad, d(near, far));
  return reduce_losses(relu(options.margin + good - bad), options.reduction);
}

Tensor triplet_margin_loss(const Operand& anchor, const Operand& positive, const Operand& negative,
                           TripletOptions options, Location where) {
  const CallScope call("triplet_margin_loss", where);
  WEFT_IN_FULL(triplet_margin_loss, anchor, positive, negative, options, where);
  const auto [a, near, common] = loss_pair(anchor.tensor(), positive.tensor());
  const auto [same, far, dtype] = loss_pair(a.to(common), negative.tensor());
  const DistanceFunction distance = [&](const Tensor& u, const Tensor& v) {
    return pairwise_distance(u, v, options.p, options.eps);
  };
  const TripletDistanceOptions rest{LossReduction::none, options.margin, options.swap};
  const Tensor losses = triplet_margin_with_distance_loss(same, near.to(same.dtype()), far, distance, rest);
  return reduced_to(dtype, losses, options.reduction);
}

namespace {

Tensor call_cosine(const Tensor& a, const Tensor& b, const Tensor& y, double margin, const std::string& reduction) {
  return cosine_embedding_loss(a, b, y, {reduction_named(reduction), margin});
}
Tensor call_hinge(const Tensor& x, const Tensor& y, double margin, const std::string& reduction) {
  return hinge_embedding_loss(x, y, {reduction_named(reduction), margin});
}
Tensor call_ranking(const Tensor& a, const Tensor& b, const Tensor& y, double margin, const std::string& reduction) {
  return margin_ranking_loss(a, b, y, {reduction_named(reduction), margin});
}
Tensor call_soft(const Tensor& x, const Tensor& y, const std::string& reduction) {
  return soft_margin_loss(x, y, {reduction_named(reduction)});
}
Tensor call_multi(const Tensor& x, const Tensor& targets, int p, double margin, const Tensor& weight,
                  const std::string& reduction) {
  return multi_margin_loss(x, targets,
                           {.weight = weight, .reduction = reduction_named(reduction), .p = p, .margin = margin});
}
Tensor call_labels(const Tensor& x, const Tensor& targets, const std::string& reduction) {
  return multilabel_margin_loss(x, targets, {reduction_named(reduction)});
}
Tensor call_soft_labels(const Tensor& x, const Tensor& y, const Tensor& weight, const std::string& reduction) {
  return multilabel_soft_margin_loss(x, y, {.weight = weight, .reduction = reduction_named(reduction)});
}
Tensor call_triplet(const Tensor& anchor, const Tensor& positive, const Tensor& negative, double margin, double p,
                    double eps, bool swap, const std::string& reduction) {
  return triplet_margin_loss(
      anchor, positive, negative,
      {.reduction = reduction_named(reduction), .margin = margin, .p = p, .eps = eps, .swap = swap});
}

// 1 and -1.
Tensor signs(SampleMaker& make, const Dims& shape) {
  return weft::where(make.mask(shape), full({}, 1, {make.dtype(), make.device()}), -1);
}
Tensor label_lists(SampleMaker& make) {
  const std::vector<int64_t> numbers = {3, 0, -1, 1, 2, 2, 1, -1};
  return tensor(std::span<const int64_t>(numbers), {2, 4}).to(make.device());
}

std::vector<Values> cosine_samples(SampleMaker& make) {
  return {{make.tensor({3, 4}), make.tensor({3, 4}), signs(make, {3}), -0.9},
          {make.tensor({2, 3}), make.tensor({2, 3}), signs(make, {2}), -0.95, "none"},
          {make.tensor({4}), make.tensor({4}), signs(make, {}), 0.0, "sum"},
          {make.tensor({0, 3}), make.tensor({0, 3}), signs(make, {0}), 0.0, "sum"}};
}
std::vector<Values> hinge_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), signs(make, {2, 3})},
          {make.tensor({2, 3}), signs(make, {3}), 0.3, "none"},
          {make.tensor({}), signs(make, {}), 1.0, "sum"},
          {make.tensor({0, 3}), signs(make, {0, 3}), 1.0, "sum"}};
}
std::vector<Values> ranking_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({2, 3}, -1.1, 1.3), signs(make, {2, 3}), 0.13},
          {make.tensor({2, 3}), make.tensor({1, 3}, 3, 4), signs(make, {2, 1}), 0.3, "none"},
          {make.tensor({}), make.tensor({}, 3, 5), signs(make, {}), 0.0, "sum"},
          {make.tensor({0, 3}), make.tensor({0, 3}), signs(make, {0, 3}), 0.0, "sum"}};
}
std::vector<Values> soft_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), signs(make, {2, 3})},
          {make.tensor({2, 3}), signs(make, {3}), "none"},
          {make.tensor({}), signs(make, {}), "sum"},
          {make.tensor({0, 3}), signs(make, {0, 3}), "sum"}};
}
std::vector<Values> multi_samples(SampleMaker& make) {
  const std::monostate none;
  return {{make.tensor({4, 3}), make.indices({4}, 3)},
          {make.tensor({4, 3}), make.indices({4}, 3), int64_t{2}, 0.7, make.tensor({3}, 0.5, 2), "none"},
          {make.tensor({5}), make.indices({}, 5), int64_t{1}, 0.5},
          {make.tensor({0, 3}), make.indices({0}, 3), int64_t{1}, 1.0, none, "sum"}};
}
std::vector<Values> label_samples(SampleMaker& make) {
  return {{make.tensor({2, 4}), label_lists(make)},
          {make.tensor({2, 4}), label_lists(make), "none"},
          {make.tensor({4}), label_lists(make).select(0, 0), "sum"},
          {make.tensor({0, 4}), make.indices({0, 4}, 4), "sum"}};
}
std::vector<Values> soft_label_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.tensor({2, 3}, 0, 1)},
          {make.tensor({2, 3}), make.tensor({2, 3}, 0, 1), make.tensor({3}, 0.5, 2), "none"},
          {make.tensor({3}), make.tensor({3}, 0, 1)},
          {make.tensor({0, 3}), make.tensor({0, 3}), std::monostate{}, "sum"}};
}
std::vector<Values> triplet_samples(SampleMaker& make) {
  const auto three = [&](const Dims& shape) {
    return Values{make.tensor(shape), make.tensor(shape, -1.5, 2.5), make.tensor(shape, -2.5, 1.5)};
  };
  const auto with = [](Values values, const Values& rest) {
    values.insert(values.end(), rest.begin(), rest.end());
    return values;
  };
  return {with(three({3, 4}), {4.0}), with(three({3, 4}), {5.0, 3.0, 1e-6, true, "none"}),
          with(three({4}), {6.0, 1.0, 1e-3, false, "sum"}), with(three({0, 4}), {1.0, 2.0, 1e-6, false, "sum"})};
}

constexpr auto floating = OpRecord::Domain::floating;
constexpr OpRecord records[] = {
    {"cosine_embedding_loss", "cosine_embedding_loss(x1|input1, x2|input2, target, margin=0.0, *, reduction='mean')",
     "1 - cos(x1, x2) where target is 1, max(0, cos(x1, x2) - margin) where it is -1: [N, D] with target [N], or one "
     "pair.",
     OpFacts(true, Autocast::full), floating, cosine_samples, parts::row_loss, detail::boxed<call_cosine>},
    {"hinge_embedding_loss", "hinge_embedding_loss(x, y|target, margin=1.0, *, reduction='mean')",
     "x where the target is 1, max(0, margin - x) where it is -1, the sum of both elsewhere.",
     OpFacts(true, Autocast::full), floating, hinge_samples, parts::pointwise_loss, detail::boxed<call_hinge>},
    {"margin_ranking_loss", "margin_ranking_loss(x1|input1, x2|input2, target, margin=0.0, *, reduction='mean')",
     "max(0, margin - target * (x1 - x2)).", OpFacts(true, Autocast::full), floating, ranking_samples,
     parts::pointwise_loss, detail::boxed<call_ranking>},
    {"soft_margin_loss", "soft_margin_loss(x, y|target, *, reduction='mean')",
     "log(1 + exp(-y * x)) without overflow; y is 1 or -1.", OpFacts(true, Autocast::full), floating, soft_samples,
     parts::pointwise_loss, detail::boxed<call_soft>},
    {"multi_margin_loss", "multi_margin_loss(x, target, p=1, margin=1.0, weight=None, *, reduction='mean')",
     "The sum over the other classes j of max(0, margin - x[target] + x[j])^p * weight[target] / C; p is 1 or 2 "
     "(Crammer and Singer 2001). NaN stays NaN.",
     OpFacts(true, Autocast::full), floating, multi_samples, parts::row_loss, detail::boxed<call_multi>},
    {"multilabel_margin_loss", "multilabel_margin_loss(x, target, *, reduction='mean')",
     "The sum of max(0, 1 - x[t] + x[j]) / C over a row's targets t, which end at -1, and the other classes j. NaN "
     "stays NaN.",
     OpFacts(true, Autocast::full, OpFacts::reads_values), floating, label_samples, parts::row_loss,
     detail::boxed<call_labels>},
    {"multilabel_soft_margin_loss", "multilabel_soft_margin_loss(x, y|target, weight=None, *, reduction='mean')",
     "The mean over the last dimension of -weight * (y log s(x) + (1 - y) log s(-x)) with the sigmoid s.",
     OpFacts(true, Autocast::full), floating, soft_label_samples, parts::row_loss, detail::boxed<call_soft_labels>},
    {"triplet_margin_loss",
     "triplet_margin_loss(anchor, positive, negative, margin=1.0, p=2.0, eps=1e-6, swap=False, *, reduction='mean')",
     "max(0, margin + d(anchor, positive) - d(anchor, negative)) with pairwise_distance d (Schroff et al. 2015); with "
     "swap the smaller of d(anchor, negative) and d(positive, negative) counts (Balntas et al. 2016).",
     OpFacts(true, Autocast::full), floating, triplet_samples, parts::row_loss, detail::boxed<call_triplet>},
};

}  // namespace

std::span<const OpRecord> margin_loss_records() { return records; }

}  // namespace weft
