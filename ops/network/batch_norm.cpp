#include "../batch_norm.hpp"

#include "../detail/autocast.hpp"
#include "../detail/records.hpp"
#include "../detail/reducing.hpp"
#include "../detail/write.hpp"
#include "../norm.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

/// Shorter lines are normalised by ops on the CPU, which go along the channels.
constexpr int64_t shortest_line = 8;

void check_channels(const char* what, const Tensor& x, const Tensor& parameter) {
  if (!parameter.defined()) return;
  check_floating(parameter);
  check_same_device({&x, &parameter});
  expect_shape(what, parameter, Dims(x.size(1)));
}

void check_operands(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                    const Tensor& bias) {
  check_floating(checked(x));
  if (x.dim() < 2) {
    raise<ShapeError>(
        {.problem = fmt::format("x {} has no dimension of channels: it is [N, C, ...]", x.shape().text())});
  }
  check_channels("running_mean", x, running_mean);
  check_channels("running_var", x, running_var);
  check_channels("weight", x, weight);
  check_channels("bias", x, bias);
}

/// [N, C, L]
Tensor with_lines(const Tensor& x) {
  return x.reshape({x.size(0), x.size(1), x.size(1) == 0 || x.size(0) == 0 ? 0 : x.numel() / x.size(0) / x.size(1)});
}
/// [C] as it broadcasts with that.
Tensor by_channel(const Tensor& t) { return t.unsqueeze(-1); }

Tensor affine(const Tensor& y, const Tensor& weight, const Tensor& bias) {
  if (weight.defined() && bias.defined()) return addcmul(by_channel(bias), y, by_channel(weight));
  if (weight.defined()) return y * by_channel(weight);
  return bias.defined() ? y + by_channel(bias) : y;
}

/// Before either is moved.
void check_running(const Tensor& running_mean, const Tensor& running_var) {
  for (const Tensor* running : {&running_mean, &running_var}) {
    if (running->defined()) check_target(*running);
  }
}
/// Moves a running statistic to this batch's, times `factor`.
void move_to(const Tensor& running, const Tensor& batch, double momentum, double factor = 1) {
  if (!running.defined() || recomputing()) return;
  const NoGradGuard unrecorded;
  running.mul_(1 - momentum).add_((batch.detach() * (momentum * factor)).to(running.dtype()));
}

struct Normalised {
  Tensor values, mean, variance;
};
Normalised normalised_by_ops(const Tensor& x, double eps) {
  check_room(x.sizes(), x.dtype(), x.device());
  const Tensor wide = to_compute_type(x), average = mean(wide, {0, 2}, true), centered = wide - average;
  const Tensor variance = mean(square(centered), {0, 2}, true);
  return {centered * rsqrt(variance + eps), average.reshape({-1}), variance.reshape({-1})};
}

// dx = w rstd (g - mean(g) - xhat mean(g xhat)), dw = sum(g xhat), db = sum(g)
struct BatchNormBackward {
  Saved x, weight;
  Tensor mean, rstd;
  double eps;

  void by_ops(Node& self, const Tensor& gradient, Tensor* outgoing) const {
    const Tensor g = to_compute_type(gradient);
    const auto [hat, average, variance] = normalised_by_ops(x.get(self), eps);
    if (self.wants(0)) {
      const Tensor inverse = by_channel(rsqrt(variance + eps)), dot = weft::mean(g * hat, {0, 2}, true);
      const Tensor scale = weight.defined() ? by_channel(weight.get(self)) * inverse : inverse;
      outgoing[0] = ((g - weft::mean(g, {0, 2}, true) - hat * dot) * scale).to(x.get(self).dtype());
    }
    if (self.wants(1)) outgoing[1] = sum(g * hat, {0, 2});
    if (self.wants(2)) outgoing[2] = sum(g, {0, 2});
  }

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor& g = incoming[0];
    const auto kernel = kernels(g.raw_view()).batch_norm_gradient;
    if (recording() || kernel == nullptr) return by_ops(self, g, outgoing);
    const Tensor& data = x.get(self);
    const Tensor factors = weight.defined() ? weight.get(self).contiguous() : Tensor();
    const auto fresh = [&](int i, const Tensor& like) {
      if (self.wants(i)) outgoing[i] = make_like(like);
      return self.wants(i) ? outgoing[i].raw_view() : View();
    };
    const View dx = fresh(0, data), dweight = fresh(1, mean), dbias = fresh(2, mean);
    kernel(dx, dweight, dbias, g.raw_view(), data.raw_view(), mean.raw_view(), rstd.raw_view(),
           factors.defined() ? factors.raw_view() : View());
  }
};

/// By x's own statistics, which are returned too; x [N, C, L], weight and bias in the compute type.
Normalised normalise(const Tensor& x, const Tensor& weight, const Tensor& bias, double eps) {
  const auto kernel = kernels(x.raw_view()).batch_norm;
  const bool short_lines = x.device().is_cpu() && x.size(2) < shortest_line;
  if (kernel == nullptr || short_lines || x.numel() == 0) {
    Normalised n = normalised_by_ops(x, eps);
    n.values = affine(n.values, weight, bias).to(x.dtype());
    return n;
  }
  const DType wide = compute_type(x.dtype());
  const Dims channels(x.size(1));
  Normalised n{make(x.sizes(), x.dtype(), x.device()), make(channels, wide, x.device()),
               make(channels, wide, x.device())};
  const auto dense = [](const Tensor& t) { return t.defined() ? t.detach().contiguous() : t; };
  const Tensor factors = dense(weight), shifts = dense(bias);
  const auto view = [](const Tensor& t) { return t.defined() ? t.raw_view() : View(); };
  kernel(n.values.raw_view(), n.mean.raw_view(), n.variance.raw_view(), x.raw_view(), view(factors), view(shifts), eps);
  if (should_record(x, weight, bias)) {
    const NoGradGuard unrecorded;
    record(
        n.values,
        BatchNormBackward{Saved(x), weight.defined() ? Saved(weight) : Saved(), n.mean, rsqrt(n.variance + eps), eps},
        x, weight, bias);
  }
  return n;
}

Tensor by_running_statistics(const Tensor& x, const Tensor& running_mean, const Tensor& running_var,
                             const Tensor& weight, const Tensor& bias, double eps) {
  const Tensor wide = to_compute_type(x);
  const Tensor inverse = rsqrt(running_var.to(wide.dtype()) + eps);
  const Tensor scale = weight.defined() ? weight * inverse : inverse;
  const Tensor centre = running_mean.to(wide.dtype()) * scale;
  return addcmul(by_channel(bias.defined() ? bias - centre : -centre), wide, by_channel(scale)).to(x.dtype());
}

Tensor in_compute_type(const Tensor& parameter, const Tensor& x) {
  return parameter.defined() ? parameter.to(compute_type(x.dtype())) : parameter;
}

void require_running(const Tensor& running_mean, const Tensor& running_var) {
  if (running_mean.defined() && running_var.defined()) return;
  raise<ValueError>({.problem = "without x's own statistics a running mean and a running variance are needed"});
}

Tensor grouped(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps) {
  const Tensor wide = to_compute_type(x);
  if (x.numel() == 0) return affine(with_lines(wide), weight, bias).to(x.dtype()).reshape(x.shape());
  const int64_t rows = x.size(0) * groups, n = x.numel() / rows;  // no more groups than channels
  const Tensor y = layer_norm(wide.reshape({rows, n}), Dims(n), {}, {}, eps);
  return affine(y.reshape(with_lines(x).shape()), weight, bias).to(x.dtype()).reshape(x.shape());
}

}  // namespace

Tensor batch_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                  const Tensor& bias, BatchNormOptions options, Location where) {
  const CallScope call("batch_norm", where);
  if (WEFT_UNLIKELY(checked(x).dim() == 1 && x.numel() == 0)) {  // no example, and no channel
    check_floating(x);
    for (const Tensor* t : {&running_mean, &running_var, &weight, &bias}) {
      if (t->defined() && t->numel() != 0) check_operands(x, running_mean, running_var, weight, bias);
    }
    return without_elements(x, x.sizes());
  }
  check_operands(x, running_mean, running_var, weight, bias);
  const Tensor lines = with_lines(x), w = in_compute_type(weight, x), b = in_compute_type(bias, x);
  if (!options.training) {
    require_running(running_mean, running_var);
    return by_running_statistics(lines, running_mean, running_var, w, b, options.eps).reshape(x.shape());
  }
  const int64_t count = x.size(1) == 0 ? 0 : x.numel() / x.size(1);
  if (count == 1) {
    raise_value("x", "more than one value for each channel in training", "shape " + x.shape().text());
  }
  check_running(running_mean, running_var);
  const Normalised n = normalise(lines, w, b, options.eps);
  if (count > 1) {
    move_to(running_mean, n.mean, options.momentum);
    move_to(running_var, n.variance, options.momentum, static_cast<double>(count) / static_cast<double>(count - 1));
  }
  return n.values.reshape(x.shape());
}

Tensor group_norm(const Tensor& x, int64_t groups, const Tensor& weight, const Tensor& bias, double eps,
                  Location where) {
  const CallScope call("group_norm", where);
  WEFT_IN_FULL(group_norm, x, groups, weight, bias, eps, where);
  check_operands(x, {}, {}, weight, bias);
  expect_at_least("groups", groups, 1);
  if (x.size(1) % groups != 0) {
    raise<ShapeError>({.problem = fmt::format("{} channels are not divisible into {} groups", x.size(1), groups)});
  }
  return grouped(x, groups, in_compute_type(weight, x), in_compute_type(bias, x), eps);
}

Tensor instance_norm(const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                     const Tensor& bias, InstanceNormOptions options, Location where) {
  const CallScope call("instance_norm", where);
  check_operands(x, running_mean, running_var, weight, bias);
  const Tensor w = in_compute_type(weight, x), b = in_compute_type(bias, x);
  if (!options.use_input_stats) {
    require_running(running_mean, running_var);
    return by_running_statistics(with_lines(x), running_mean, running_var, w, b, options.eps).reshape(x.shape());
  }
  const Tensor lines = with_lines(x);
  if (lines.size(2) == 1) {
    raise_value("x", "more than one value for each channel", "shape " + x.shape().text());
  }
  check_running(running_mean, running_var);
  const Tensor y = grouped(x, x.size(1), w, b, options.eps);
  if (x.numel() != 0 && (running_mean.defined() || running_var.defined())) {
    const NoGradGuard unrecorded;
    const Tensor wide = to_compute_type(lines);
    move_to(running_mean, mean(wide, {0, 2}), options.momentum);
    move_to(running_var, mean(var(wide, 2), 0), options.momentum);
  }
  return y;
}

namespace {

std::vector<Values> batch_norm_samples(SampleMaker& make) {
  const Value none = std::monostate{};
  return {{make.tensor({3, 2, 8}), none, none, make.tensor({2}), make.tensor({2}), true},
          {make.tensor({4, 3}), none, none, make.tensor({3}), none, true},
          {make.tensor({2, 2, 3, 3}), none, none, none, make.tensor({2}), true, 0.1, 1e-3},
          {make.tensor({2, 3, 2}), make.tensor({3}), make.tensor({3}, 0.5, 2), make.tensor({3}), make.tensor({3})},
          {make.tensor({0, 3, 2}), make.tensor({3}), make.tensor({3}, 0.5, 2)}};
}
std::vector<Values> group_norm_samples(SampleMaker& make) {
  return {{make.tensor({2, 4, 3}), int64_t{2}, make.tensor({4}), make.tensor({4})},
          {make.tensor({2, 2, 2, 2}), int64_t{2}, make.tensor({2})},
          {make.tensor({2, 6}), int64_t{3}, std::monostate{}, std::monostate{}, 1e-2},
          {make.tensor({0, 4, 3}), int64_t{2}}};
}
std::vector<Values> instance_norm_samples(SampleMaker& make) {
  const Value none = std::monostate{};
  return {{make.tensor({2, 2, 5}), none, none, make.tensor({2}), make.tensor({2})},
          {make.tensor({2, 3, 2, 2})},
          {make.tensor({2, 3, 2}), make.tensor({3}), make.tensor({3}, 0.5, 2), none, none, false}};
}

/// A word for x, and 'c' for tensors with one element per channel.
Partition of_channels(const WholeCall& call, const std::string& word) {
  std::vector<std::string> in{word};
  for (size_t i = 1; i < call.inputs().size(); ++i) in.emplace_back(1, 'c');
  return {.letters = parts::notation(in, std::vector{word})};
}
std::string channels_of(const Tensor& x, char examples) {
  std::string word = parts::uncut(x);
  word[0] = examples, word[1] = 'c';
  return word;
}

Partition batch_normalized(const WholeCall& call) {
  const Tensor& x = call.inputs()[0];
  const bool by_batch = call.flag("training") || !call.tensor("running_mean").defined();
  if (by_batch) return of_channels(call, channels_of(x, '1'));
  std::string word = parts::letters(x.dim(), 'd');
  word[1] = 'c';
  return of_channels(call, word);
}

Partition instance_normalized(const WholeCall& call) {
  // Running statistics are means over the batch.
  const bool runs = call.flag("use_input_stats") && call.tensor("running_mean").defined();
  return of_channels(call, channels_of(call.inputs()[0], runs ? '1' : 'n'));
}

Partition group_normalized(const WholeCall& call) {
  const int64_t groups = detail::integer_in(call["num_groups"]), channels = call.inputs()[0].size(1);
  Partition rule = of_channels(call, channels_of(call.inputs()[0], 'n'));
  rule.units.emplace_back('c', groups);
  rule.on_parts = [=](PartCall& part) {
    part["num_groups"] = channels == 0 ? groups : groups * part.inputs[0].sizes[1] / channels;
    return part.run();
  };
  return rule;
}

constexpr OpRecord records[] = {
    {"batch_norm",
     "batch_norm(x, &running_mean=None, &running_var=None, weight=None, bias=None, training=False, momentum=0.1, "
     "eps=1e-05)",
     "(x - mean) / sqrt(var + eps) * weight + bias for each channel of x [N, C, ...] (Ioffe and Szegedy 2015); in "
     "training by x's own statistics, to which the running ones move by momentum. 16-bit floats are computed in "
     "float32.",
     true, OpRecord::Domain::floating, batch_norm_samples, batch_normalized,
     detail::boxed<+[](const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                       const Tensor& bias, bool training, double momentum, double eps) {
       return batch_norm(x, running_mean, running_var, weight, bias, {training, momentum, eps},
                         detail::current_call.where);
     }>},
    {"group_norm", "group_norm(x, num_groups|groups, weight=None, bias=None, eps=1e-05)",
     "As batch_norm, over each group of channels of one example (Wu and He 2018).", OpFacts(true, Autocast::full),
     OpRecord::Domain::floating, group_norm_samples, group_normalized, detail::boxed<group_norm>},
    {"instance_norm",
     "instance_norm(x, &running_mean=None, &running_var=None, weight=None, bias=None, use_input_stats=True, "
     "momentum=0.1, "
     "eps=1e-05)",
     "As batch_norm, over each channel of one example (Ulyanov et al. 2016).", true, OpRecord::Domain::floating,
     instance_norm_samples, instance_normalized,
     detail::boxed<+[](const Tensor& x, const Tensor& running_mean, const Tensor& running_var, const Tensor& weight,
                       const Tensor& bias, bool use_input_stats, double momentum, double eps) {
       return instance_norm(x, running_mean, running_var, weight, bias, {use_input_stats, momentum, eps},
                            detail::current_call.where);
     }>},
};

}  // namespace

std::span<const OpRecord> batch_norm_records() { return records; }

}  // namespace weft
