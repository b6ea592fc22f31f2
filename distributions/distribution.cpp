#include "distribution.hpp"

#include "detail/kind.hpp"
#include "../autograd/mode.hpp"
#include "../ops/detail/common.hpp"

namespace weft::distributions {

namespace {

using detail::Body;
using detail::joined;

[[noreturn]] void raise_missing(const Body& body, const char* what) {
  raise<NotImplementedError>({.problem = fmt::format("{} has no {}", body.kind->name, what)});
}

Tensor call(const Body& body, detail::Kind::OfBody function, const char* what) {
  if (function == nullptr) raise_missing(body, what);
  return function(body);
}

Tensor draw(const Body& body, const Dims& shape, Generator* generator) {
  for (const int64_t size : shape) {
    if (size < 0) raise<ShapeError>({.problem = "a shape of draws has no negative sizes, unlike " + shape.text()});
  }
  return body.kind->draw(body, joined(shape, body.shape()), generator);
}

/// Checks the shape of a value, and with `must_be_possible` that it is in the support.
Tensor value_for(const Body& body, const Tensor& given, bool must_be_possible) {
  const Tensor& value = checked(given);
  if (value.dim() < body.event.size()) {
    raise<ShapeError>({.problem = fmt::format("a value of {} ends in its event's shape {}, unlike {}", body.kind->name,
                                              body.event.text(), value.shape().text())});
  }
  const Dims own = value.shape();
  for (int i = 1; i <= body.event.size(); ++i) {
    if (own[own.size() - i] == body.event[body.event.size() - i]) continue;
    raise<ShapeError>({.problem = fmt::format("a value of {} ends in its event's shape {}, unlike {}", body.kind->name,
                                              body.event.text(), own.text())});
  }
  detail::broadcast_all({own, body.shape()});
  if (must_be_possible && body.validate && detail::has_elements(value) && body.kind->in_support != nullptr) {
    const NoGradGuard unrecorded;
    check_elements([body, value] {
      if (all(body.kind->in_support(body, value)).item<bool>()) return;
      raise<ValueError>({.problem = fmt::format("a value is outside of the support of {}", body.kind->name),
                         .details = fmt::format("values are {}", describe(value)),
                         .remedy = "in_support() says which; validate_args = false leaves them in"});
    });
  }
  return value;
}

/// Evaluates function(body, x), with `wide` in f64, and returns the dtype of the direct evaluation.
Tensor of_value(const Body& body, detail::Kind::OfValue function, const Tensor& x, bool wide) {
  if (!wide || body.parameters.empty()) return function(body, x);
  const DType own = body[0].dtype(), dtype = is_floating(x.dtype()) ? result_type(x, body[0]) : own;
  const bool widens = x.device().is_cpu() && dtype != DType::f64;
  if (!widens) return function(body, x);
  return function(detail::widened(body), is_floating(x.dtype()) ? x.to(DType::f64) : x).to(dtype);
}

Tensor of_value(const Body& body, detail::Kind::OfValue function, const Tensor& given, const char* what, bool wide,
                bool must_be_possible = true) {
  if (function == nullptr) raise_missing(body, what);
  return of_value(body, function, value_for(body, given, must_be_possible), wide);
}

Distribution expand_alike(const Body& body, const Dims& batch) {
  Body out = body;
  out.batch = batch;
  size_t i = 0;
  for (Tensor& t : out.parameters) {
    const int rank = body.kind->parameters[i++].event_rank;
    t = t.expand(joined(batch, Dims(t.sizes().last(static_cast<size_t>(rank)))));
  }
  for (Distribution& part : out.parts) part = part.expand(batch);
  return detail::finished(std::move(out));
}

}  // namespace

Tensor Distribution::sample(const Dims& shape, Generator* generator, Location where) const {
  const CallScope scope("distributions.sample", where);
  const NoGradGuard unrecorded;
  return draw(*body_, shape, generator);
}

Tensor Distribution::rsample(const Dims& shape, Generator* generator, Location where) const {
  const CallScope scope("distributions.rsample", where);
  if (!has_rsample()) raise_missing(*body_, "reparametrised draws: sample() gives some without gradients");
  return draw(*body_, shape, generator);
}

bool Distribution::has_rsample() const { return body_->kind->has_rsample(*body_); }

Tensor Distribution::log_prob(const Operand& value) const {
  const CallScope scope("distributions.log_prob", value.where);
  return of_value(*body_, body_->kind->log_prob, value.tensor(), "log_prob", body_->kind->cancels);
}
Tensor Distribution::cdf(const Operand& value) const {
  const CallScope scope("distributions.cdf", value.where);
  return of_value(*body_, body_->kind->cdf, value.tensor(), "cdf", true);
}
Tensor Distribution::icdf(const Operand& probability) const {
  const CallScope scope("distributions.icdf", probability.where);
  const Body& body = *body_;
  if (body.kind->icdf == nullptr) raise_missing(body, "icdf");
  const Tensor p = value_for(body, probability.tensor(), false);
  if (body.validate && detail::has_elements(p)) {
    const NoGradGuard unrecorded;
    check_elements([p] {
      if (all(logical_and(p >= 0, p <= 1)).item<bool>()) return;
      raise<ValueError>({.problem = "expected probabilities in [0, 1]"});
    });
  }
  return of_value(body, body.kind->icdf, p, true);
}
Tensor Distribution::entropy(Location where) const {
  const CallScope scope("distributions.entropy", where);
  const Body& body = *body_;
  if (!body.kind->cancels) return call(body, body.kind->entropy, "entropy");
  return call(detail::widened(body), body.kind->entropy, "entropy").to(body[0].dtype());
}
Tensor Distribution::mean(Location where) const {
  const CallScope scope("distributions.mean", where);
  return call(*body_, body_->kind->mean, "mean");
}
Tensor Distribution::mode(Location where) const {
  const CallScope scope("distributions.mode", where);
  return call(*body_, body_->kind->mode, "mode");
}
Tensor Distribution::variance(Location where) const {
  const CallScope scope("distributions.variance", where);
  return call(*body_, body_->kind->variance, "variance");
}
Tensor Distribution::stddev(Location where) const {
  const CallScope scope("distributions.stddev", where);
  return sqrt(call(*body_, body_->kind->variance, "variance"));
}

Tensor Distribution::in_support(const Operand& value) const {
  const CallScope scope("distributions.in_support", value.where);
  const NoGradGuard unrecorded;
  return of_value(*body_, body_->kind->in_support, value.tensor(), "support", false, false);
}

Tensor Distribution::enumerate_support(bool expand, Location where) const {
  const CallScope scope("distributions.enumerate_support", where);
  const Tensor values = call(*body_, body_->kind->enumerate, "values that can be counted");
  return expand ? values.expand(joined(Dims{values.size(0)}, body_->shape())) : values;
}

Dims Distribution::batch_shape() const { return body_->batch; }
Dims Distribution::event_shape() const { return body_->event; }
const char* Distribution::name() const { return body_->kind->name; }
const std::vector<Distribution>& Distribution::parts() const { return body_->parts; }
const std::vector<Transform>& Distribution::transforms() const { return body_->transforms; }

Distribution Distribution::expand(const Dims& batch_shape, Location where) const {
  const CallScope scope("distributions.expand", where);
  if (const auto both = broadcast(batch_shape, body_->batch); !both || *both != batch_shape) {
    raise<ShapeError>(
        {.problem = fmt::format("a batch {} does not expand to {}", body_->batch.text(), batch_shape.text())});
  }
  return body_->kind->expand != nullptr ? body_->kind->expand(*body_, batch_shape) : expand_alike(*body_, batch_shape);
}

Tensor Distribution::parameter(std::string_view wanted, Location where) const {
  const CallScope scope("distributions.parameter", where);
  const Body& body = *body_;
  if (body.kind->derived != nullptr) {
    if (Tensor t = body.kind->derived(body, wanted); t.defined()) return t;
  }
  for (size_t i = 0; i < body.parameters.size(); ++i) {
    if (body.kind->parameters[i].name == wanted) return body.parameters[i];
  }
  raise<KeyError>({.problem = fmt::format("{} has no parameter '{}'", body.kind->name, wanted)});
}

}  // namespace weft::distributions
