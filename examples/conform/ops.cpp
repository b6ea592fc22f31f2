// Runs the samples of every op on the device and on the CPU, dense and with unusual layouts.
#include <algorithm>
#include <functional>
#include <optional>
#include <set>

#include <weft/autograd/engine.hpp>
#include <weft/backends/backend.hpp>
#include <weft/backends/watch/observe.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/tensor/error.hpp>

#include "checks.hpp"
#include "compare.hpp"

namespace weft::conform {

namespace {

using Tensors = std::vector<Tensor>;
using Change = std::function<Tensor(const Tensor&)>;

Values changed(const Values& values, const Change& change) {
  Values out = values;
  for (Value& value : out) {
    if (auto* t = std::get_if<Tensor>(&value)) {
      if (t->defined()) *t = change(*t);
    } else if (auto* list = std::get_if<Tensors>(&value)) {
      for (Tensor& t : *list) t = change(t);
    }
  }
  return out;
}

Tensors tensors_in(const Value& value) {
  if (auto* t = std::get_if<Tensor>(&value)) return {*t};
  if (auto* list = std::get_if<Tensors>(&value)) return *list;
  return {};
}

// ---- layouts --------------------------------------------------------------------------------------------------------

/// The same elements with gaps between neighbours in memory and the dimensions in reverse order.
Tensor strided(const Tensor& t) {
  Dims reversed, order;
  for (int i = t.dim() - 1; i >= 0; --i) {
    reversed.push_back(2 * t.size(i));
    order.push_back(i);
  }
  if (t.dim() == 0) reversed.push_back(2);
  Tensor view = zeros(reversed, {t.dtype(), t.device()});
  for (int i = 0; i < view.dim(); ++i) view = view.slice(i, 1, {}, 2);
  view = t.dim() == 0 ? view.select(0, 0) : view.permute(order);
  view.copy_(t);
  return view;
}

/// The same elements with a negative stride in each dimension.
Tensor backwards(const Tensor& t) {
  Tensor view = zeros(t.shape(), {t.dtype(), t.device()});
  for (int i = 0; i < t.dim(); ++i) view = view.slice(i, {}, {}, -1);
  view.copy_(t);
  return view;
}

/// The first slice of the first dimension, repeated with stride 0.
Tensor expanded(const Tensor& t) {
  return t.dim() == 0 || t.size(0) == 0 ? t : t.slice(0, 0, 1).clone().expand(t.shape());
}

Tensor emptied(const Tensor& t) { return t.dim() == 0 ? t : t.slice(0, 0, 0).clone(); }

struct Layout {
  const char* name;
  Tensor (*make)(const Tensor&);
};
constexpr Layout layouts[] = {{"dense", [](const Tensor& t) { return t; }},
                              {"strided", strided},
                              {"backwards", backwards},
                              {"expanded", expanded},
                              {"empty", emptied}};

// ---- one call -------------------------------------------------------------------------------------------------------

/// The result of a call: tensors, or an error.
struct Outcome {
  Tensors outputs = {}, gradients = {};
  std::string error_kind = {}, error = {};
};

bool is_unset(const OpRecord& record) {
  const std::string_view name = record.name;
  return name == "empty" || name == "empty_like";
}

// Eigenvectors are unique only up to a phase, so the loss must not depend on it.
Tensor seed_of(const OpRecord& record, const Tensor& out, uint64_t number) {
  const bool turned = is_complex(out.dtype()) && out.dim() >= 2 && std::string_view(record.name) == "linalg_eig";
  const Tensor weights = SampleMaker(turned ? real_type(out.dtype()) : out.dtype(), Device(), number)
                             .tensor(out.shape(), -1, 1)
                             .to(out.device());
  return turned ? weights * out.detach() : weights;
}

void run_backward(const OpRecord& record, const Tensors& outputs, const Tensors& inputs, Outcome& outcome) {
  Tensors results, seeds;
  for (const Tensor& out : outputs) {
    if (!out.requires_grad()) continue;
    results.push_back(out);
    seeds.push_back(seed_of(record, out, 99 + results.size()));
  }
  if (!results.empty()) outcome.gradients = grad(results, inputs, seeds, {.allow_unused = true});
}

// Lengths of packed sequences are on the CPU for any device, because the host reads them.
bool keeps_lengths_on_cpu(const OpRecord& record) {
  const std::string_view name = record.name;
  return name == "pack_padded_sequence" || name == "pad_packed_sequence";
}

/// Runs the op on `values`, with the same random numbers in every call.
Outcome outcome_of(const OpRecord& record, const Values& values, Device device, bool backward) {
  Outcome outcome;
  try {
    const RngForkGuard guard({Device(), device});
    manual_seed(1);
    Tensors inputs;
    const Values arguments = !backward ? values : changed(values, [&](const Tensor& t) {
      if (!is_floating(t.dtype())) return t;
      inputs.push_back(t.detach().requires_grad_());
      return inputs.back();
    });
    outcome.outputs = tensors_in(record.call(arguments));
    if (keeps_lengths_on_cpu(record)) outcome.outputs.pop_back();
    if (backward) run_backward(record, outcome.outputs, inputs, outcome);
    synchronize(device);
  } catch (const std::exception& error) {
    outcome.error_kind = kind_of(error);
    outcome.error = text_of(error);
  }
  return outcome;
}

struct KernelNames : KernelObserver {
  std::set<std::string> names;
  void before(const KernelCall& call) override { names.insert(call.kernel); }
};

std::set<std::string> kernels_of(const OpRecord& record, const Values& values, Device device) {
  KernelNames seen;
  const ObserverGuard guard(seen);
  outcome_of(record, values, device, false);
  return seen.names;
}

/// Gradients are sums with more cancellation.
constexpr double gradient_slack = 4;

// ---- the comparison -------------------------------------------------------------------------------------------------

/// Checks one op, dtype and layout; dense samples run twice.
class OpCheck {
 public:
  OpCheck(Report& report, const OpRecord& record, DType dtype, const Layout& layout)
      : report_(report), record_(record), dtype_(dtype), layout_(layout), device_(report.device()) {}

  Support run() {
    const std::string check = std::string("ops.") + record_.name + "." + name(dtype_) + "." + layout_.name;
    if (!report_.wants(check)) return Support::none;
    Support support = Support::none;
    const bool agrees = report_.run(check, [&] { support = compare_samples(); });
    return agrees ? support : Support::deviates;
  }

 private:
  Support compare_samples() {
    bool served = false, with_gradient = record_.facts.differentiable && is_floating(dtype_);
    SampleMaker make_here(dtype_, Device()), make_there(dtype_, device_);
    const std::vector<Values> here = record_.samples(make_here), there = record_.samples(make_there);
    for (size_t i = 0; i < here.size(); ++i) {
      sample_ = "sample " + std::to_string(i);
      const Values right = changed(here[i], layout_.make), found = changed(there[i], layout_.make);
      const bool forward = compare(right, found, false);
      served = served || forward;
      if (forward && with_gradient) with_gradient = compare(right, found, true);
    }
    if (absent_) return Support::absent;
    return !served ? Support::none : with_gradient ? Support::gradient : Support::forward;
  }

  /// Returns false if the CPU raises an error, or the device does not support the dtype.
  bool compare(const Values& here, const Values& there, bool backward) {
    const Outcome right = outcome_of(record_, here, Device(), backward);
    const Outcome found = outcome_of(record_, there, device_, backward);
    if (!right.error.empty() || !found.error.empty()) return compare_errors(right, found, backward);
    compare_tensors(found.outputs, right.outputs, "output", 1);
    compare_tensors(found.gradients, right.gradients, "gradient", gradient_slack);
    if (&layout_ == layouts) repeat(found, there, backward);
    return true;
  }

  void repeat(const Outcome& first, const Values& there, bool backward) {
    if (device_.type == DeviceType::meta || is_unset(record_)) return;
    const Outcome second = outcome_of(record_, there, device_, backward);
    if (has_same_bits(first.outputs, second.outputs) && has_same_bits(first.gradients, second.gradients)) return;
    report_.deviation(sample_ + (backward ? ", gradient" : "") + ": the same bits in every run", "other bits");
  }
  static bool has_same_bits(const Tensors& a, const Tensors& b) {
    return std::ranges::equal(a, b, [](const Tensor& x, const Tensor& y) {
      return x.defined() && y.defined() ? same_bits(x, y) : x.defined() == y.defined();
    });
  }

  bool compare_errors(const Outcome& right, const Outcome& found, bool backward) {
    const std::string part = sample_ + (backward ? ", gradient" : "");
    if (right.error_kind == found.error_kind) return false;
    const bool meta = device_.type == DeviceType::meta;
    if (meta && found.error_kind == "NotImplementedError" && found.error.find("follow") != std::string::npos) {
      report_.note(std::string(record_.name) + ": its shape follows from values");
      return false;
    }
    if (meta && found.error.empty()) return false;  // meta does not detect errors that depend on values
    if (found.error_kind == "DTypeError" && lacks_double()) {
      absent_ = true;
      return false;
    }
    report_.deviation(part + ": " + (right.error.empty() ? "a result" : right.error),
                      found.error.empty() ? "a result" : found.error);
    return false;
  }

  bool lacks_double() const {
    if (dtype_ != DType::f64) return false;
    try {
      const Tensor sum = ones({1}, {f64, device_}) + 1.0;
      synchronize(device_);
      return false;
    } catch (const DTypeError&) {
      report_.note("f64: the device has no doubles, and says so");
      return true;
    }
  }

  void compare_tensors(const Tensors& found, const Tensors& right, const char* what, double slack) {
    if (found.size() != right.size()) {
      return report_.deviation(sample_ + ": " + std::to_string(right.size()) + " times " + what,
                               std::to_string(found.size()));
    }
    for (size_t i = 0; i < right.size(); ++i) {
      const bool kind_alone = device_.type == DeviceType::meta || is_unset(record_) || !right[i].defined();
      const Difference wrong =
          kind_alone ? difference_of_kind(found[i], right[i], device_)
                     : difference(found[i], right[i].contiguous(), device_, tolerance_of(right[i].dtype()) * slack);
      if (wrong) report_.deviation(sample_ + ", " + what + " " + std::to_string(i) + ": " + wrong.expected, wrong.came);
    }
  }

  Report& report_;
  const OpRecord& record_;
  const DType dtype_;
  const Layout& layout_;
  const Device device_;
  std::string sample_;
  bool absent_ = false;
};

std::vector<std::string> missing_kernels(const OpRecord& record, Device device) {
  std::vector<std::string> missing;
  if (device.type == DeviceType::meta) return missing;
  SampleMaker make_here(DType::f32, Device()), make_there(DType::f32, device);
  const std::vector<Values> right = record.samples(make_here), found = record.samples(make_there);
  for (size_t i = 0; i < right.size(); ++i) {
    const std::set<std::string> here = kernels_of(record, right[i], Device());
    const std::set<std::string> there = kernels_of(record, found[i], device);
    for (const std::string& kernel : here) {
      const bool added = std::find(missing.begin(), missing.end(), kernel) != missing.end();
      // Copies and fills depend on the location of a tensor.
      if (kernel != "copy" && kernel != "fill" && there.count(kernel) == 0 && !added) missing.push_back(kernel);
    }
  }
  return missing;
}

}  // namespace

std::span<const DType> op_dtypes() {
  static constexpr DType all[] = {DType::boolean, DType::u8,  DType::u16, DType::u32, DType::u64,
                                  DType::i8,      DType::i16, DType::i32, DType::i64, DType::f16,
                                  DType::bf16,    DType::f32, DType::f64};
  return all;
}

OpSupport check_op(Report& report, const OpRecord& record) {
  OpSupport support{&record, {}, {}};
  for (const DType dtype : op_dtypes()) {
    const bool in_domain = is_floating(dtype) || (record.domain != OpRecord::Domain::floating &&
                                                  (dtype != DType::boolean || record.domain == OpRecord::Domain::any));
    Support worst = Support::none;
    for (const Layout& layout : layouts) {
      const bool dense = &layout == layouts;
      if (!in_domain || (!dense && dtype != DType::f32 && dtype != DType::i64)) continue;
      const Support found = OpCheck(report, record, dtype, layout).run();
      if (dense || found == Support::deviates) worst = std::max(worst, found);
    }
    support.by_dtype.push_back(worst);
  }
  if (report.wants(std::string("ops.") + record.name + ".float32.dense")) {
    support.missing_kernels = missing_kernels(record, report.device());
  }
  return support;
}

}  // namespace weft::conform
