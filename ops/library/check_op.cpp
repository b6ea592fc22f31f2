#include "../check_op.hpp"

#include <algorithm>
#include <cmath>

#include "../gradcheck.hpp"
#include "../../backends/backend.hpp"
#include "../create.hpp"
#include "../detail/complex.hpp"
#include "../random.hpp"
#include "registry.hpp"

namespace weft::testing {

namespace {

using Tensors = std::vector<Tensor>;
using Change = Callback<Tensor(const Tensor&)>;

Values mapped(const Values& values, const Change& change) {
  Values out = values;
  for (Value& value : out) {
    if (auto* t = std::get_if<Tensor>(&value); t != nullptr && t->defined()) *t = change(*t);
    if (auto* list = std::get_if<Tensors>(&value)) {
      for (Tensor& t : *list) t = change(t);
    }
  }
  return out;
}
Tensors tensors_in(const Values& values) {
  Tensors found;
  mapped(values, [&](const Tensor& t) {
    found.push_back(t);
    return t;
  });
  return found;
}
Tensor copy_of(const Tensor& t) { return t.detach().clone(); }

// The same elements where no two neighbours are adjacent, the last dimension outermost.
Tensor with_gaps(const Tensor& t) {
  Dims sizes, order;
  for (int i = t.dim() - 1; i >= 0; --i) {
    sizes.push_back(2 * t.size(i));
    order.push_back(i);
  }
  if (t.dim() == 0) sizes.push_back(2);
  Tensor view = ones(sizes, {t.dtype(), t.device()});
  for (int i = 0; i < view.dim(); ++i) view = view.slice(i, 1, {}, 2);
  view = t.dim() == 0 ? view.select(0, 0) : view.permute(order);
  view.copy_(t.detach());
  return view;
}
// The same elements with negative strides.
Tensor backwards(const Tensor& t) {
  Tensor view = copy_of(t);
  for (int i = 0; i < t.dim(); ++i) view = view.slice(i, {}, {}, -1);
  view.copy_(t.detach());
  return view;
}
// The first slice, repeated to the sizes of all.
Tensor repeated(const Tensor& t) {
  if (t.dim() == 0 || t.size(0) == 0) return copy_of(t);
  return copy_of(t).narrow(0, 0, 1).expand(t.shape());
}
Tensor without_elements_of(const Tensor& t) { return t.dim() == 0 ? copy_of(t) : copy_of(t).narrow(0, 0, 0); }

std::string text_of(const Tensor& t) { return t.defined() ? describe(t) : "undefined"; }

class Checker {
 public:
  Checker(const OpRecord& record, const CheckOpOptions& options) : record_(record), options_(options) {
    report_.op = record.name;
    if (record.function.run == detail::run_registered) {
      op_ = static_cast<const detail::RegisteredOp*>(record.function.state);
      for (const auto& [argument, result] : op_->written) written_.push_back(argument);
    }
    for (size_t i = 0; i < record.signature().arguments.size(); ++i) {
      if (record.signature().arguments[i].written) written_.push_back(i);
    }
  }

  CheckOpReport run() {
    section("values", DType::f32, {}, [&](const Values& v) { values(v); });
    section("meta", DType::f32, {}, [&](const Values& v) { meta(v); });
    section("strides", DType::f32, {}, [&](const Values& v) { layouts(v); });
    section("no elements", DType::f32, {}, [&](const Values& v) { no_elements(v); });
    section("in place", DType::f32, {}, [&](const Values& v) { in_place(v); });
    section("gradient", DType::f64, {}, [&](const Values& v) { gradient(v); });
    for (const DeviceType type : {DeviceType::cuda, DeviceType::hpu}) {
      const Device device(type);
      const std::string check = "on " + device.name();
      if (device_count(type) == 0) skip(check + ": there is none");
      else section(check, DType::f32, device, [&](const Values& v) { agrees(v, device); });
    }
    return std::move(report_);
  }

 private:
  void find(std::string problem) { report_.findings.push_back({check_, std::move(problem)}); }
  void skip(std::string why) {
    if (std::ranges::find(report_.skipped, why) == report_.skipped.end()) report_.skipped.push_back(std::move(why));
  }

  // Calls `f` on every sample; unsupported dtypes and devices are skipped with the reason.
  template <class F>
  void section(const std::string& check, DType dtype, Device device, F&& f) {
    check_ = check;
    counted_ = 0;
    try {
      SampleMaker make(dtype, device);
      const std::vector<Values> samples = record_.samples(make);
      for (sample_ = 0; sample_ < samples.size(); ++sample_) {
        try {
          f(samples[sample_]);
        } catch (const NotImplementedError& e) {
          skip(check + ": " + e.what());
        } catch (const DTypeError& e) {
          skip(check + ": " + e.what());
        }
      }
    } catch (const std::exception& e) {
      find(fmt::format("sample {}: {}", sample_, e.what()));
    }
    if (counted_ > 0) report_.done.push_back(fmt::format("{} {}", check, counted_));
  }

  // An isolated call: its writes are not visible, and random numbers repeat.
  Tensors call(const Values& values) {
    const RngForkGuard guard({Device(), device_in(values)});
    manual_seed(1);
    return tensors_in({record_.call(values)});
  }
  static Device device_in(const Values& values) {
    for (const Tensor& t : tensors_in(values)) return t.device();
    return {};
  }
  bool writes(size_t argument) const { return std::ranges::find(written_, argument) != written_.end(); }

  bool close(const Tensor& actual, const Tensor& expected, const std::string& what) {
    ++counted_;
    if (!actual.defined() && !expected.defined()) return true;
    if (!actual.defined() || !expected.defined() || actual.shape() != expected.shape() ||
        actual.dtype() != expected.dtype()) {
      find(fmt::format("sample {}, {}: {} instead of {}", sample_, what, text_of(actual), text_of(expected)));
      return false;
    }
    const double part = expected.dtype() == DType::f64 ? 1e-3 : 1;
    const std::vector<double> a = detail::as_real(actual.detach().to(Device())).to_vector<double>();
    const std::vector<double> e = detail::as_real(expected.detach().to(Device())).to_vector<double>();
    for (size_t i = 0; i < a.size(); ++i) {
      if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i]))) continue;
      if (std::fabs(a[i] - e[i]) <= part * (options_.absolute + options_.relative * std::fabs(e[i]))) continue;
      find(fmt::format("sample {}, {}: element {} is {} instead of {}", sample_, what, i, a[i], e[i]));
      return false;
    }
    return true;
  }
  void close(const Tensors& actual, const Tensors& expected, const std::string& what) {
    if (actual.size() != expected.size()) {
      return find(
          fmt::format("sample {}, {}: {} results instead of {}", sample_, what, actual.size(), expected.size()));
    }
    for (size_t i = 0; i < actual.size(); ++i) close(actual[i], expected[i], fmt::format("{}, result {}", what, i));
  }

  void values(const Values& sample) {
    const Values given = mapped(sample, copy_of), again = mapped(sample, copy_of);
    const Tensors first = call(given);
    close(call(again), first, "called twice");
    for (size_t i = 0; i < given.size(); ++i) {
      if (!writes(i)) close(tensors_in({given[i]}), tensors_in({sample[i]}), "its argument afterwards");
    }
    if (options_.reference) {
      close(first, options_.reference(mapped(sample, copy_of)), "beside the reference");
    } else if (op_ != nullptr && op_->has_composite && detail::kernels_of(*op_) != "none") {
      Values complete = mapped(sample, copy_of);
      for (size_t i = complete.size(); i < op_->signature->arguments.size(); ++i) {
        complete.push_back(op_->signature->arguments[i].default_value);
      }
      close(first, tensors_in({op_->composite.run(complete)}), "beside its composite body");
    } else {
      skip("values: there is no reference to compare with");
    }
  }

  void meta(const Values& sample) {
    for (const Change& layout : {Change(copy_of), Change(with_gaps)}) {
      const Tensors results = call(mapped(sample, layout));
      const std::vector<TensorMeta> metas = record_.infer(mapped(sample, layout));
      ++counted_;
      if (metas.size() != results.size()) find(fmt::format("sample {}: another number of results", sample_));
      for (size_t i = 0; i < std::min(metas.size(), results.size()); ++i) {
        if (metas[i].shape == results[i].shape() && metas[i].dtype == results[i].dtype()) continue;
        find(fmt::format("sample {}, result {}: {} {}, and it is {}", sample_, i, name(metas[i].dtype),
                         metas[i].shape.text(), text_of(results[i])));
      }
    }
  }

  void layouts(const Values& sample) {
    const Tensors plain = call(mapped(sample, copy_of));
    close(call(mapped(sample, with_gaps)), plain, "operands with gaps");
    close(call(mapped(sample, backwards)), plain, "operands with negative strides");
    if (!written_.empty()) return;
    const Values expanded = mapped(sample, repeated);
    close(call(expanded), call(mapped(expanded, copy_of)), "expanded operands");
  }

  // A call on empty tensors may raise an error of Weft; otherwise its results agree with infer.
  void no_elements(const Values& sample) {
    const Values empty = mapped(sample, without_elements_of);
    Tensors results;
    try {
      results = call(empty);
    } catch (const Error&) {
      ++counted_;
      return;
    }
    const std::vector<TensorMeta> metas = record_.infer(empty);
    for (size_t i = 0; i < std::min(metas.size(), results.size()); ++i) {
      ++counted_;
      if (metas[i].shape == results[i].shape()) continue;
      find(fmt::format("sample {}, result {}: {} instead of {}", sample_, i, results[i].shape().text(),
                       metas[i].shape.text()));
    }
  }

  void in_place(const Values& sample) {
    if (op_ != nullptr) return written_by(sample);
    if (sample.empty() || !std::holds_alternative<Tensor>(sample[0])) return;
    const PointwiseFunctions& p = record_.pointwise;
    Values given = mapped(sample, copy_of);
    const Tensor target = std::get<Tensor>(given[0]);
    try {
      if (p.unary_in_place != nullptr && given.size() == 1) p.unary_in_place(target, {});
      else if (p.binary_in_place != nullptr && given.size() == 2)
        p.binary_in_place(target, detail::unbox<Operand>(given, 1));
      else return;
    } catch (const Error&) {
      return;  // a result that its first operand cannot hold
    }
    close({target}, call(mapped(sample, copy_of)), "its in-place form");
  }

  void written_by(const Values& sample) {
    for (const auto& [argument, result] : op_->written) {
      const Values given = mapped(sample, copy_of);
      const Tensor target = std::get<Tensor>(given[argument]);
      const uint32_t version = target.version();
      const Tensors results = call(given);
      ++counted_;
      if (result >= results.size() || results[result].data_ptr() != target.data_ptr()) {
        find(fmt::format("sample {}: result {} is not the tensor that it wrote", sample_, result));
      }
      if (target.version() == version) find(fmt::format("sample {}: the version did not rise", sample_));
      if (!is_inexact(target.dtype())) continue;
      Values leaf = mapped(sample, copy_of);
      std::get<Tensor>(leaf[argument]).requires_grad_();
      try {
        call(leaf);
        find(fmt::format("sample {}: it wrote into a leaf that requires a gradient", sample_));
      } catch (const AutogradError&) {
      }
    }
  }

  // The op as a function of its floating operands.
  GradcheckFunction function_of(const Values& sample) {
    return [this, sample](std::span<const Tensor> given) {
      size_t next = 0;
      Values replaced =
          mapped(sample, [&](const Tensor& t) { return is_inexact(t.dtype()) ? given[next++] : copy_of(t); });
      for (const size_t i : written_) {
        if (auto* t = i < replaced.size() ? std::get_if<Tensor>(&replaced[i]) : nullptr) *t = t->clone();
      }
      Tensors outputs = call(replaced);
      std::erase_if(outputs, [](const Tensor& t) { return !is_inexact(t.dtype()); });
      return outputs;
    };
  }

  void gradient(const Values& sample) {
    Tensors inputs;
    for (const Tensor& t : tensors_in(sample)) {
      if (is_inexact(t.dtype())) inputs.push_back(copy_of(t).requires_grad_());
    }
    if (inputs.empty()) return skip("gradient: it takes no floating-point tensor");
    const GradcheckFunction function = function_of(sample);
    if (!record_.facts.differentiable) {
      skip("gradient: the op is not differentiable");
      return is_refused(function, inputs);
    }
    const GradcheckOptions told = {.raise_exception = false};
    const GradcheckResult first = gradcheck(function, inputs, told);
    ++counted_;
    if (!first) find(fmt::format("sample {}: {}", sample_, first.message));
    const GradcheckResult second = gradgradcheck(function, inputs, told);
    ++counted_;
    if (!second) find(fmt::format("sample {}, second derivative: {}", sample_, second.message));
  }
  // No gradient is an error or a result that needs none, never zeros.
  void is_refused(const GradcheckFunction& function, const Tensors& inputs) {
    Tensors outputs = function(inputs);
    std::erase_if(outputs, [](const Tensor& t) { return !t.requires_grad(); });
    if (outputs.empty()) return;
    Tensors seeds;
    for (const Tensor& t : outputs) seeds.push_back(ones(t.shape(), {t.dtype(), t.device()}));
    ++counted_;
    try {
      grad(outputs, inputs, seeds, {.allow_unused = true});
      find(fmt::format("sample {}: backward went through an op without a gradient", sample_));
    } catch (const AutogradError&) {
    }
  }

  void agrees(const Values& sample, Device device) {
    const Values here = mapped(sample, [](const Tensor& t) { return copy_of(t).to(Device()); });
    const Tensors results = call(mapped(sample, copy_of)), expected = call(here);
    for (const Tensor& t : results) {
      if (t.device() != device) find(fmt::format("sample {}: a result is {}", sample_, text_of(t)));
    }
    close(results, expected, "beside the CPU");
  }

  const OpRecord& record_;
  const CheckOpOptions& options_;
  const detail::RegisteredOp* op_ = nullptr;
  /// Arguments that the op writes.
  std::vector<size_t> written_;
  CheckOpReport report_;
  std::string check_;
  size_t sample_ = 0;
  int counted_ = 0;
};

}  // namespace

std::string CheckOpReport::text() const {
  std::string out;
  for (const Finding& finding : findings) out += fmt::format("{}: {}: {}\n", op, finding.check, finding.problem);
  out += fmt::format("{}: {} problems; checked:", op, findings.size());
  for (const std::string& check : done) out += fmt::format(" {}{}", check, &check == &done.back() ? "" : ",");
  for (const std::string& why : skipped) out += fmt::format("\n  not checked: {}", why);
  return out + "\n";
}

CheckOpReport check_op(const char* name, const CheckOpOptions& options, Location where) {
  const OpRecord* const record = find_record(name);
  if (record == nullptr) {
    raise<ValueError>({.op = "check_op", .problem = fmt::format("there is no op '{}'", name)}, where);
  }
  SampleMaker make(DType::f32, {});
  if (record->samples(make).empty()) {
    raise<ValueError>({.op = "check_op",
                       .problem = fmt::format("'{}' has no samples", name),
                       .remedy = "register it with samples(f)"},
                      where);
  }
  detail::Held<detail::RegisteredOp> held;
  if (record->function.run == detail::run_registered) held = detail::hold(detail::find_slot(name)->current);
  return Checker(held ? held->record : *record, options).run();
}

}  // namespace weft::testing
