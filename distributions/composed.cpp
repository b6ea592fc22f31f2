// Distributions composed of others.
#include "detail/kind.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/join.hpp"
#include "../ops/scatter.hpp"
#include "../ops/softmax.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::distributions {

namespace {

using detail::all_last;
using detail::Body;
using detail::finished;
using detail::joined;
using detail::Kind;
using detail::sum_last;
using detail::without_last;

/// A draw of `shape`, which ends with the part's batch and event.
Tensor draw_of(const Distribution& part, const Dims& shape, Generator* generator) {
  const Dims outer = without_last(shape, part.body().shape().size());
  return part.has_rsample() && grad_mode().enabled ? part.rsample(outer, generator) : part.sample(outer, generator);
}

// ---- Independent ----------------------------------------------------------------------------------------------------

int count_of(const Body& d) { return static_cast<int>(d.count); }
const Distribution& base_of(const Body& d) { return d.parts[0]; }

const Kind independent_kind = {
    .name = "Independent",
    .has_rsample = [](const Body& d) { return base_of(d).has_rsample(); },
    .draw = [](const Body& d, const Dims& shape, Generator* g) { return draw_of(base_of(d), shape, g); },
    .log_prob = [](const Body& d, const Tensor& x) { return sum_last(base_of(d).log_prob(x), count_of(d)); },
    .entropy = [](const Body& d) { return sum_last(base_of(d).entropy(), count_of(d)); },
    .mean = [](const Body& d) { return base_of(d).mean(); },
    .mode = [](const Body& d) { return base_of(d).mode(); },
    .variance = [](const Body& d) { return base_of(d).variance(); },
    .in_support = [](const Body& d, const Tensor& x) { return all_last(base_of(d).in_support(x), count_of(d)); },
    .derived = [](const Body& d, std::string_view name) { return base_of(d).parameter(name); },
    .expand =
        [](const Body& d, const Dims& batch) {
          const Dims base_batch = base_of(d).batch_shape();
          const Dims kept(
              std::span(base_batch.data(), static_cast<size_t>(base_batch.size())).last(static_cast<size_t>(d.count)));
          return Independent(base_of(d).expand(joined(batch, kept)), d.count, {d.validate});
        }};

// ---- MixtureSameFamily ----------------------------------------------------------------------------------------------

const Distribution& mixture_of(const Body& d) { return d.parts[0]; }
const Distribution& components_of(const Body& d) { return d.parts[1]; }
int choice_axis(const Body& d) { return -1 - d.event.size(); }
/// The mixture's probabilities, with dimensions of size 1 for the components' events.
Tensor weights_beside_event(const Body& d) {
  Tensor weights = mixture_of(d).parameter("probs");
  for (int i = 0; i < d.event.size(); ++i) weights = weights.unsqueeze(-1);
  return weights;
}
Tensor for_each_component(const Body& d, const Tensor& x) { return x.unsqueeze(choice_axis(d)); }

const Kind mixture_kind = {
    .name = "MixtureSameFamily",
    .has_rsample = detail::never,
    .draw =
        [](const Body& d, const Dims& shape, Generator* g) {
          const Dims outer = without_last(shape, d.shape().size());
          Tensor choice = mixture_of(d).sample(outer, g).unsqueeze(-1);
          const Tensor all_draws = components_of(d).sample(outer, g);
          for (int i = 0; i < d.event.size(); ++i) choice = choice.unsqueeze(-1);
          Dims picked = all_draws.shape();
          picked[picked.size() + choice_axis(d)] = 1;
          return all_draws.gather(choice_axis(d), choice.expand(picked)).squeeze(choice_axis(d));
        },
    .log_prob =
        [](const Body& d, const Tensor& x) {
          const Tensor each = components_of(d).log_prob(for_each_component(d, x));
          return logsumexp(each + log_softmax(mixture_of(d).parameter("logits"), -1), {-1});
        },
    .cdf =
        [](const Body& d, const Tensor& x) {
          const Tensor each = components_of(d).cdf(for_each_component(d, x));
          return sum(each * mixture_of(d).parameter("probs"), {-1});
        },
    .mean = [](const Body& d) { return sum(weights_beside_event(d) * components_of(d).mean(), {choice_axis(d)}); },
    .variance =
        [](const Body& d) {
          const Tensor weights = weights_beside_event(d), means = components_of(d).mean();
          const Tensor mean = sum(weights * means, {choice_axis(d)}, true);
          return sum(weights * (components_of(d).variance() + square(means - mean)), {choice_axis(d)});
        },
    .in_support = [](const Body& d,
                     const Tensor& x) { return any(components_of(d).in_support(for_each_component(d, x)), {-1}); },
    .expand =
        [](const Body& d, const Dims& batch) {
          const Dims own = components_of(d).batch_shape();
          return MixtureSameFamily(mixture_of(d).expand(batch),
                                   components_of(d).expand(joined(batch, {own[own.size() - 1]})), {d.validate});
        }};

// ---- TransformedDistribution ----------------------------------------------------------------------------------------

Tensor uniform_of(const Body& d, const Tensor& cdf) {
  Tensor sign = ones({}, d.transforms.empty() ? TensorOptions() : TensorOptions{cdf.dtype(), cdf.device()});
  for (const Transform& t : d.transforms) sign = sign * t.sign().to(cdf.device());
  return where(sign > 0, cdf, 1 - cdf);
}

const Kind transformed_kind = {
    .name = "TransformedDistribution",
    .has_rsample = [](const Body& d) { return base_of(d).has_rsample(); },
    .draw =
        [](const Body& d, const Dims& shape, Generator* g) {
          Tensor x = draw_of(base_of(d), shape, g);
          for (const Transform& t : d.transforms) x = t(x);
          return x;
        },
    .log_prob =
        [](const Body& d, const Tensor& value) {
          Tensor y = value, slopes;
          for (auto t = d.transforms.rbegin(); t != d.transforms.rend(); ++t) {
            const Tensor x = t->inverse()(y);
            const Tensor slope = sum_last(t->log_abs_det_jacobian(x, y), d.event.size());
            slopes = slopes.defined() ? slopes + slope : slope;
            y = x;
          }
          const Tensor of_base = base_of(d).log_prob(y);
          return slopes.defined() ? of_base - slopes : of_base;
        },
    .cdf =
        [](const Body& d, const Tensor& value) {
          Tensor x = value;
          for (auto t = d.transforms.rbegin(); t != d.transforms.rend(); ++t) x = t->inverse()(x);
          return uniform_of(d, base_of(d).cdf(x));
        },
    .icdf =
        [](const Body& d, const Tensor& p) {
          Tensor x = base_of(d).icdf(uniform_of(d, p));
          for (const Transform& t : d.transforms) x = t(x);
          return x;
        },
    .in_support =
        [](const Body& d, const Tensor& value) {
          Tensor y = value, possible;
          for (auto t = d.transforms.rbegin(); t != d.transforms.rend(); ++t) {
            const Tensor here = t->in_codomain(y);
            possible = possible.defined() ? logical_and(possible, here) : here;
            y = t->inverse()(y);
          }
          const Tensor of_base = base_of(d).in_support(y);
          return possible.defined() ? logical_and(all_last(possible, d.event.size()), of_base) : of_base;
        },
    .derived = [](const Body& d, std::string_view name) { return base_of(d).parameter(name); }};

}  // namespace

Distribution Independent(const Distribution& base, int64_t count, Options options, Location where) {
  const CallScope call(independent_kind.name, where);
  const Dims batch = base.batch_shape();
  if (count < 0 || count > batch.size()) {
    raise<ShapeError>({.problem = fmt::format("{} dimensions of a batch {}", count, batch.text())});
  }
  const int outer = batch.size() - static_cast<int>(count);
  const Dims added(std::span(batch.data(), static_cast<size_t>(batch.size())).subspan(static_cast<size_t>(outer)));
  return finished({.kind = &independent_kind,
                   .batch = without_last(batch, static_cast<int>(count)),
                   .event = joined(added, base.event_shape()),
                   .validate = options.validate_args.value_or(default_validate_args()),
                   .parts = {base},
                   .count = count});
}

Distribution MixtureSameFamily(const Distribution& mixture, const Distribution& components, Options options,
                               Location where) {
  const CallScope call(mixture_kind.name, where);
  if (std::string_view(mixture.name()) != "Categorical") {
    raise_value("mixture", "Categorical", mixture.name());
  }
  const Dims each = components.batch_shape();
  if (each.empty() || each[each.size() - 1] != mixture.parameter("probs").size(-1)) {
    raise<ShapeError>({.problem = fmt::format("components of batch {} do not end in the {} of the mixture", each.text(),
                                              mixture.parameter("probs").size(-1))});
  }
  const Dims batch = detail::broadcast_all({mixture.batch_shape(), without_last(each, 1)});
  return finished({.kind = &mixture_kind,
                   .batch = batch,
                   .event = components.event_shape(),
                   .validate = options.validate_args.value_or(default_validate_args()),
                   .parts = {mixture.expand(batch), components.expand(joined(batch, {each[each.size() - 1]}))}});
}

Distribution TransformedDistribution(const Distribution& base, std::vector<Transform> transforms, Options options,
                                     Location where) {
  const CallScope call(transformed_kind.name, where);
  Dims shape = base.body().shape();
  for (const Transform& t : transforms) shape = t.shape_with(shape);
  const Dims batch = without_last(shape, base.event_shape().size());
  const Distribution wide = base.expand(batch);
  if (wide.body().shape() != shape) {
    raise<ShapeError>({.problem = fmt::format("transforms to shape {} do not fit events {}", shape.text(),
                                              base.event_shape().text())});
  }
  return finished({.kind = &transformed_kind,
                   .batch = batch,
                   .event = base.event_shape(),
                   .validate = options.validate_args.value_or(default_validate_args()),
                   .parts = {wide},
                   .transforms = std::move(transforms)});
}

}  // namespace weft::distributions
