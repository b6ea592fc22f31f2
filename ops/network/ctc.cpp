// Connectionist temporal classification: the sum over all alignments by dynamic programming, in logarithms.
#include <algorithm>
#include <limits>

#include "../create.hpp"
#include "../detail/autocast.hpp"
#include "../detail/losses.hpp"
#include "../detail/records.hpp"
#include "../index.hpp"
#include "../join.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../scatter.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// A finite substitute for log 0, far below any sum of logarithms: differences of infinities would be NaN.
constexpr double log_zero = -1e30;

struct Lengths {
  std::vector<int64_t> inputs, targets;
  int64_t longest = 0;  ///< of the targets
};

std::vector<int64_t> lengths_of(const Tensor& lengths, int64_t count, int64_t limit, const char* what) {
  if (!is_integer(checked(lengths).dtype())) {
    raise_dtype(fmt::format("{}_lengths", what), "integers", lengths.dtype());
  }
  if (lengths.dim() > 1 || lengths.numel() != count) {
    raise<ShapeError>({.problem = fmt::format("{} {} lengths for {} sequences", lengths.numel(), what, count)});
  }
  std::vector<int64_t> numbers = index_numbers(lengths).to(DType::i64).to_vector<int64_t>();
  for (const int64_t n : numbers) {
    if (n >= 0 && n <= limit) continue;
    raise_value(fmt::format("{}_lengths", what), fmt::format("numbers in [0, {}]", limit), n);
  }
  return numbers;
}

Tensor on_device_of(const Tensor& like, std::span<const int64_t> numbers) {
  return tensor(numbers, Dims(static_cast<int64_t>(numbers.size()))).to(like.device());
}

// [N, longest], with `blank` after the end of each sequence.
Tensor labels_of(const Tensor& targets, const Lengths& lengths, int64_t blank) {
  const auto count = static_cast<int64_t>(lengths.targets.size());
  const Tensor numbers = index_numbers(targets).to(DType::i64);
  const Tensor places = arange(0, lengths.longest, 1, {DType::i64, targets.device()});
  const Tensor beyond = places >= on_device_of(targets, lengths.targets).unsqueeze(1);
  Tensor labels;
  if (targets.dim() == 2) {
    labels = numbers.narrow(1, 0, lengths.longest);
  } else if (numbers.numel() == 0) {
    return full({count, lengths.longest}, blank, {DType::i64, targets.device()});
  } else {
    std::vector<int64_t> starts(lengths.targets.size());
    for (size_t i = 1; i < starts.size(); ++i) starts[i] = starts[i - 1] + lengths.targets[i - 1];
    const Tensor index = masked_fill(on_device_of(targets, starts).unsqueeze(1) + places, beyond, 0);
    labels = take(numbers, index);
  }
  return masked_fill(labels, beyond, blank);
}

void check_labels(const Tensor& labels, int64_t classes) {
  if (labels.numel() == 0) return;
  const int64_t low = amin(labels).item<int64_t>(), high = amax(labels).item<int64_t>();
  if (low >= 0 && high < classes) return;
  raise_mismatch<IndexError>("targets", fmt::format("numbers of {} classes", classes), low < 0 ? low : high);
}

// The logarithm of a sum of exponentials. (The second derivative of logaddexp fails for operands so far apart.)
Tensor log_sum(std::initializer_list<Tensor> terms) { return logsumexp(stack(terms, 0), 0); }

// -log of the probability of all alignments: [N]. x is [T, N, C].
Tensor alignment_losses(const Tensor& x, const Tensor& labels, const Lengths& lengths, int64_t blank) {
  const int64_t times = x.sizes()[0], count = x.sizes()[1], states = 2 * lengths.longest + 1;
  const TensorOptions numbers{DType::i64, x.device()};
  // Blanks around the labels: blank, label, blank, label, blank.
  const Tensor blanks = full({count, lengths.longest, 1}, blank, numbers);
  const Tensor pairs = cat({blanks, labels.unsqueeze(2)}, 2).reshape({count, states - 1});
  const Tensor last = full({count, 1}, blank, numbers), path = cat({pairs, last}, 1);
  // A label may follow another one without a blank between them.
  const Tensor before = states > 1 ? cat({last, last, path.narrow(1, 0, states - 2)}, 1) : last;
  const Tensor leaps = path != before;
  const Tensor index = path.unsqueeze(0).expand({times, count, states});
  const std::vector<Tensor> scores = weft::clip(gather(x, 2, index), log_zero, std::nullopt).unbind(0);
  const Tensor nothing = full({count, 2}, log_zero, {x.dtype(), x.device()});
  const Tensor start = full({count, 1}, 0, {x.dtype(), x.device()});
  Tensor sums = cat({start, nothing.narrow(1, 0, 1).expand({count, states - 1})}, 1);
  const Tensor ends = on_device_of(x, lengths.inputs).unsqueeze(1);
  const int64_t shortest = count == 0 ? 0 : std::ranges::min(lengths.inputs);
  const int64_t longest = count == 0 ? 0 : std::ranges::max(lengths.inputs);
  for (int64_t t = 0; t < longest; ++t) {
    const Tensor shifted = cat({nothing, sums}, 1);
    const Tensor leap = weft::where(leaps, shifted.narrow(1, 0, states), log_zero);
    const Tensor next = log_sum({sums, shifted.narrow(1, 1, states), leap}) + scores[static_cast<size_t>(t)];
    sums = t < shortest ? next : weft::where(ends > t, next, sums);
  }
  const Tensor labelled = on_device_of(x, lengths.targets).unsqueeze(1);
  const Tensor at_blank = gather(sums, 1, 2 * labelled);
  const Tensor at_label = gather(sums, 1, clip(2 * labelled - 1, 0, std::nullopt));
  const Tensor label = weft::where(labelled > 0, at_label, log_zero);
  const Tensor ending = log_sum({at_blank, label}).reshape({count});
  const Tensor none = sum(x.narrow(0, 0, 0), {0, 2});  // connects x's gradient where no length is above 0
  return weft::where(ending < log_zero / 2, std::numeric_limits<double>::infinity(), none - ending);
}

Tensor reduce_sequences(Tensor losses, const Tensor& target_lengths, LossReduction reduction) {
  if (reduction == LossReduction::mean) losses = losses / clip(target_lengths, 1, std::nullopt).to(losses.dtype());
  return reduce_losses(losses, reduction);
}

}  // namespace

Tensor ctc_loss(const Operand& log_probabilities, const Operand& targets, const Operand& input_lengths,
                const Operand& target_lengths, CtcOptions options, Location where) {
  const CallScope call("ctc_loss", where);
  WEFT_IN_FULL(ctc_loss, log_probabilities, targets, input_lengths, target_lengths, options, where);
  const Tensor &given = checked(log_probabilities.tensor()), &labels = checked(targets.tensor());
  check_floating(given);
  check_same_device({&given, &labels});
  expect_shape("log_probs", given, given.dim() == 2 || given.dim() == 3, "[T, N, C] or [T, C]");
  const bool batched = given.dim() == 3;
  const Tensor x = to_compute_type(batched ? given : given.unsqueeze(1));
  const int64_t times = x.sizes()[0], count = x.sizes()[1], classes = x.sizes()[2];
  expect_integers("targets", labels, "convert them with to(weft::i64)");
  const bool padded = labels.dim() == 2;
  if ((!padded && labels.dim() != 1) || (padded && labels.sizes()[0] != count)) {
    raise<ShapeError>({.problem = fmt::format("targets {} for {} sequences", labels.shape().text(), count),
                       .remedy = "targets are [N, S], or 1-d one after the other"});
  }
  if (options.blank < 0 || options.blank >= classes) {
    raise_value("blank", fmt::format("one of {} classes", classes), options.blank);
  }
  const Dims shape = batched ? Dims(count) : Dims();
  if (is_meta(given)) {
    const Tensor losses = sum(x, {0, 2}).reshape(shape);
    return reduce_losses(losses, options.reduction).to(given.dtype());
  }
  Lengths lengths;
  lengths.inputs = lengths_of(input_lengths.tensor(), count, times, "input");
  const int64_t limit = labels.sizes()[static_cast<size_t>(labels.dim() - 1)];
  lengths.targets = lengths_of(target_lengths.tensor(), count, limit, "target");
  int64_t total = 0;
  for (const int64_t n : lengths.targets) {
    lengths.longest = std::max(lengths.longest, n);
    if (__builtin_add_overflow(total, n, &total)) total = -1;
  }
  if (!padded && total != labels.numel()) {
    raise<ShapeError>({.problem = fmt::format("{} targets for sequences of {} in all", labels.numel(), total)});
  }
  const Tensor each = labels_of(labels, lengths, options.blank);
  check_labels(each, classes);
  Tensor losses = alignment_losses(x, each, lengths, options.blank);
  if (options.zero_infinity) losses = masked_fill(losses, isposinf(losses), 0);
  const Tensor divisors = on_device_of(x, lengths.targets);
  return reduce_sequences(losses.reshape(shape), batched ? divisors : divisors.reshape({}), options.reduction)
      .to(given.dtype());
}

namespace {

// Lengths as a tensor, a number, or a short list.
Tensor lengths_in(const Value& lengths, int argument) {
  if (const auto* t = std::get_if<Tensor>(&lengths)) return *t;
  const Dims numbers = detail::unboxed<Dims>(lengths, static_cast<size_t>(argument));
  return tensor(std::span<const int64_t>(numbers), Dims(numbers.size()));
}

Tensor call_ctc(const Tensor& x, const Tensor& targets, const Value& input_lengths, const Value& target_lengths,
                int64_t blank, const std::string& reduction, bool zero_infinity) {
  return ctc_loss(x, targets, lengths_in(input_lengths, 2), lengths_in(target_lengths, 3),
                  {.blank = blank, .reduction = reduction_named(reduction), .zero_infinity = zero_infinity});
}

std::vector<Values> ctc_samples(SampleMaker& make) {
  const auto numbers = [&](const std::vector<int64_t>& list, const Dims& shape) {
    return tensor(std::span<const int64_t>(list), shape).to(make.device());
  };
  return {{make.tensor({5, 2, 3}, -3, -0.1), numbers({1, 2, 1, 1}, {2, 2}), Dims{5, 4}, Dims{2, 1}},
          {make.tensor({4, 2, 3}, -3, -0.1), numbers({2, 1, 1}, {3}), Dims{4, 4}, Dims{1, 2}, int64_t{0}, "none"},
          {make.tensor({4, 2, 3}, -3, -0.1), numbers({0, 0, 1, 0}, {2, 2}), Dims{2, 4}, Dims{2, 2}, int64_t{2}, "sum",
           true},
          {make.tensor({4, 3}, -3, -0.1), numbers({1, 2}, {2}), Dims(4), Dims(2)},
          {make.tensor({3, 1, 3}, -3, -0.1), numbers({}, {1, 0}), Dims(3), Dims(0)}};
}

/// Sequences by themselves, where each has its row of targets.
Partition aligned_by_sequence(const WholeCall& call) {
  const Tensor &x = call.inputs()[0], &targets = call.inputs()[1];
  if (x.dim() != 3 || targets.dim() != 2) return parts::whole(call);
  const std::string& reduction = std::get<std::string>(call["reduction"]);
  std::vector<std::string> in{"1n1", "n1"};
  for (size_t i = 2; i < call.inputs().size(); ++i) in.emplace_back("n");
  Partition rule{.letters = parts::notation(in, std::vector<std::string>{reduction == "none" ? "n" : ""})};
  rule.on_parts = [count = x.size(1), mean = reduction == "mean"](PartCall& part) -> Value {
    const int64_t begin = part.inputs[0].begin[1], here = part.inputs[0].sizes[1];
    for (const char* name : {"input_lengths", "target_lengths"}) {
      Value& lengths = part[name];
      if (std::holds_alternative<Tensor>(lengths)) continue;
      const Dims all = detail::dims_in(lengths);
      lengths = Dims(std::span(all.data() + begin, static_cast<size_t>(here)));
    }
    if (here == 0) part["reduction"] = std::string(mean ? "sum" : std::get<std::string>(part["reduction"]));
    const Tensor loss = std::get<Tensor>(part.run());
    return mean && here != count ? loss * (static_cast<double>(here) / static_cast<double>(count)) : loss;
  };
  return rule;
}

constexpr OpRecord records[] = {
    {"ctc_loss",
     "ctc_loss(log_probs, targets, input_lengths, target_lengths, blank=0, reduction='mean', zero_infinity=False)",
     "Connectionist temporal classification (Graves et al. 2006): -log of the probability of all alignments of targets "
     "[N, S], or 1-d one after the other, with log_probs [T, N, C]; or of one sequence with [T, C]. The gradient is "
     "that of the given log_probs; that of an infinite loss is 0. The mean divides each loss by its number of "
     "targets first.",
     OpFacts(true, Autocast::full, OpFacts::reads_values), OpRecord::Domain::floating, ctc_samples, aligned_by_sequence,
     detail::boxed<call_ctc>},
};

}  // namespace

std::span<const OpRecord> ctc_records() { return records; }

}  // namespace weft
