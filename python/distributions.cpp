// Distributions for Python; weft/distributions.py gives them PyTorch's classes.
#include "../distributions/distribution.hpp"

#include "caster.hpp"

namespace weft::python {

namespace {

using namespace distributions;

/// A parameter or value from Python: a tensor or a number.
class Given {
 public:
  explicit Given(nb::handle object) {
    if (!operand_.set(object.ptr(), here())) {
      throw_type_error("parameter of a distribution: expected a tensor or a number, got " + type_name(object.ptr()));
    }
  }
  operator const Operand&() const { return operand_.get(); }
  const Tensor& tensor() const { return operand_.get().tensor(); }

 private:
  OperandOf operand_;
};

Options options_of(std::optional<bool> validate) { return {validate}; }

using OfOne = Distribution (*)(const Operand&, Options);
using OfTwo = Distribution (*)(const Operand&, const Operand&, Options);
using OfChances = Distribution (*)(const Chances&, Options);

Chances chances_of(nb::handle values, bool are_logits) {
  const Given given(values);
  return are_logits ? Chances(Logits{given.tensor()}, here()) : Chances(given.tensor(), here());
}

void bind_kinds(nb::module_& m) {
  const auto one = [&](const char* name, OfOne make) {
    m.def(
        name, [make](nb::handle a, std::optional<bool> v) { return make(Given(a), options_of(v)); }, nb::arg().none(),
        nb::arg().none());
  };
  const auto two = [&](const char* name, OfTwo make) {
    m.def(
        name,
        [make](nb::handle a, nb::handle b, std::optional<bool> v) { return make(Given(a), Given(b), options_of(v)); },
        nb::arg().none(), nb::arg().none(), nb::arg().none());
  };
  const auto chances = [&](const char* name, OfChances make) {
    m.def(
        name,
        [make](nb::handle values, bool are_logits, std::optional<bool> v) {
          return make(chances_of(values, are_logits), options_of(v));
        },
        nb::arg(), nb::arg(), nb::arg().none());
  };
  two("Normal", Normal), two("LogNormal", LogNormal), one("HalfNormal", HalfNormal), two("Uniform", Uniform);
  two("Laplace", Laplace), two("Cauchy", Cauchy), two("Gumbel", Gumbel), one("Exponential", Exponential);
  two("Gamma", Gamma), one("Chi2", Chi2), two("Beta", Beta), one("Poisson", Poisson);
  chances("Bernoulli", Bernoulli), chances("Geometric", Geometric), chances("Categorical", Categorical);
  chances("OneHotCategorical", OneHotCategorical);
  m.def(
      "StudentT",
      [](nb::handle df, nb::handle loc, nb::handle scale, std::optional<bool> v) {
        return StudentT(Given(df), Given(loc), Given(scale), options_of(v));
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def(
      "Binomial",
      [](nb::handle count, nb::handle values, bool are_logits, std::optional<bool> v) {
        return Binomial(Given(count), chances_of(values, are_logits), options_of(v));
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def(
      "Multinomial",
      [](int64_t count, nb::handle values, bool are_logits, std::optional<bool> v) {
        return Multinomial(count, chances_of(values, are_logits), options_of(v));
      },
      nb::arg(), nb::arg(), nb::arg(), nb::arg().none());
  m.def(
      "Dirichlet",
      [](const Tensor& concentration, std::optional<bool> v) {
        return Dirichlet(concentration, options_of(v), here());
      },
      nb::arg(), nb::arg().none());
  m.def(
      "MultivariateNormal",
      [](const Tensor& loc, const std::optional<Tensor>& covariance, const std::optional<Tensor>& precision,
         const std::optional<Tensor>& factor, std::optional<bool> v) {
        const Spread spread{covariance.value_or(Tensor()), precision.value_or(Tensor()), factor.value_or(Tensor())};
        return MultivariateNormal(loc, spread, options_of(v), here());
      },
      nb::arg(), nb::arg().none(), nb::arg().none(), nb::arg().none(), nb::arg().none());
  m.def(
      "Independent",
      [](const Distribution& base, int64_t count, std::optional<bool> v) {
        return Independent(base, count, options_of(v), here());
      },
      nb::arg(), nb::arg(), nb::arg().none());
  m.def(
      "MixtureSameFamily",
      [](const Distribution& mixture, const Distribution& components, std::optional<bool> v) {
        return MixtureSameFamily(mixture, components, options_of(v), here());
      },
      nb::arg(), nb::arg(), nb::arg().none());
  m.def(
      "TransformedDistribution",
      [](const Distribution& base, const std::vector<Transform>& transforms, std::optional<bool> v) {
        return TransformedDistribution(base, transforms, options_of(v), here());
      },
      nb::arg(), nb::arg(), nb::arg().none());
}

nb::object shape_of(const Dims& shape) { return nb::steal(from_sizes(shape)); }

/// A member that gives a tensor, called without the GIL.
template <Tensor (Distribution::*member)(Location) const>
Tensor of_itself(const Distribution& d) {
  return without_gil([&](Location where) { return (d.*member)(where); });
}
template <Tensor (Distribution::*member)(const Operand&) const>
Tensor of_value(const Distribution& d, nb::handle value) {
  const Given given(value);
  const WithoutGil others;
  return (d.*member)(given);
}

void bind_values(nb::module_& m) {
  nb::class_<Transform>(m, "Transform", "An invertible function of single numbers.")
      .def("__call__",
           [](const Transform& t, const Tensor& x) { return without_gil([&](Location where) { return t(x, where); }); })
      .def("inverse", &Transform::inverse)
      .def("log_abs_det_jacobian",
           [](const Transform& t, const Tensor& x, const Tensor& y) {
             return without_gil([&](Location where) { return t.log_abs_det_jacobian(x, y, where); });
           })
      .def("__eq__", [](const Transform& a, const Transform& b) { return a == b; })
      .def("text", &Transform::text);
  m.def("ExpTransform", &ExpTransform);
  m.def("SigmoidTransform", &SigmoidTransform);
  m.def("TanhTransform", &TanhTransform);
  m.def("AffineTransform", [](nb::handle loc, nb::handle scale) { return AffineTransform(Given(loc), Given(scale)); });

  nb::class_<Distribution>(m, "Distribution", "A distribution, or a batch of them.")
      .def("sample",
           [](const Distribution& d, const std::vector<int64_t>& shape) {
             return without_gil([&](Location where) { return d.sample(shape, nullptr, where); });
           })
      .def("rsample",
           [](const Distribution& d, const std::vector<int64_t>& shape) {
             return without_gil([&](Location where) { return d.rsample(shape, nullptr, where); });
           })
      .def("has_rsample", &Distribution::has_rsample)
      .def("log_prob", &of_value<&Distribution::log_prob>)
      .def("cdf", &of_value<&Distribution::cdf>)
      .def("icdf", &of_value<&Distribution::icdf>)
      .def("in_support", &of_value<&Distribution::in_support>)
      .def("entropy", &of_itself<&Distribution::entropy>)
      .def("mean", &of_itself<&Distribution::mean>)
      .def("mode", &of_itself<&Distribution::mode>)
      .def("variance", &of_itself<&Distribution::variance>)
      .def("stddev", &of_itself<&Distribution::stddev>)
      .def("enumerate_support",
           [](const Distribution& d, bool expand) {
             return without_gil([&](Location where) { return d.enumerate_support(expand, where); });
           })
      .def("batch_shape", [](const Distribution& d) { return shape_of(d.batch_shape()); })
      .def("event_shape", [](const Distribution& d) { return shape_of(d.event_shape()); })
      .def("expand", [](const Distribution& d, const std::vector<int64_t>& batch) { return d.expand(batch, here()); })
      .def("name", &Distribution::name)
      .def("parts", &Distribution::parts)
      .def("transforms", &Distribution::transforms)
      .def("parameter", [](const Distribution& d, const std::string& name) { return d.parameter(name, here()); });
}

}  // namespace

void bind_distributions(nb::module_& m) {
  nb::module_ own = m.def_submodule("_distributions");
  bind_values(own);
  bind_kinds(own);
  own.def("kl", [](const Distribution& p, const Distribution& q) {
    return without_gil([&](Location where) { return kl(p, q, where); });
  });
  own.def("kl_pairs", &kl_pairs);
  own.def("set_default_validate_args", &set_default_validate_args);
}

}  // namespace weft::python
