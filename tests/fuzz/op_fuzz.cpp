// Calls every op with arguments made from its record's samples and then spoilt: other dtypes, shapes, strides and
// devices, overlapping and huge expanded operands, NaN, infinities and integers at the ends of 64 bits.
//
//   op_fuzz                                 random calls for 3 seconds
//   op_fuzz --seconds 600 --seed 7          for longer, from another start
//   op_fuzz --seconds 0 --seed N            the call of one seed, as a failure names it; --op NAME keeps to one op
//
// Properties: only weft::Error is raised, in at most three lines; inputs keep their elements and versions; a strided
// operand and its contiguous copy give the same result; in-place and out= forms agree with the op, and leave the target
// unchanged after an error; the meta device gives the same shapes and dtypes. The sanitizers check the rest:
//   ./weft build asan op_fuzz && build/asan/tests/fuzz/op_fuzz --seconds 600
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <optional>
#include <stdexcept>

#include <weft/autograd/engine.hpp>
#include <weft/backends/backend.hpp>
#include <weft/ops/complex.hpp>
#include <weft/ops/random.hpp>
#include <weft/tensor/allocator.hpp>
#include <weft/tensor/threads.hpp>

#include "op_fuzz_more.hpp"
#include "op_fuzz_values.hpp"

namespace weft::fuzz {
namespace {

[[noreturn]] void fail(const std::string& what) { throw std::logic_error(what); }

struct {
  uint64_t done = 0, refused = 0, gradients = 0, in_place = 0, on_meta = 0, on_device = 0;
} counts;

/// The current call, for handlers of the process's end.
std::string current;

// ---- one call -------------------------------------------------------------------------------------------------------

/// Elements and version of every storage behind some tensors.
class Snapshot {
 public:
  explicit Snapshot(const Tensors& tensors) {
    for (const Tensor& t : tensors) {
      const Storage& s = *t.impl()->storage;
      const char* data = static_cast<const char*>(s.data);
      kept_.push_back({t, t.version(), s.device.is_cpu() && s.bytes != 0 ? std::string(data, s.bytes) : std::string()});
    }
  }
  void expect_unchanged(const std::string& by) const {
    for (const auto& [t, version, bytes] : kept_) {
      if (t.version() != version) fail(by + " raised the version of " + text(t));
      if (!bytes.empty() && std::memcmp(t.impl()->storage->data, bytes.data(), bytes.size()) != 0) {
        fail(by + " changed " + text(t));
      }
    }
  }

 private:
  struct Kept {
    Tensor tensor;
    uint32_t version;
    std::string bytes;
  };
  std::vector<Kept> kept_;
};

void check_message(const std::string& message) {
  if (std::ranges::count(message, '\n') > 2) fail("an error of more than three lines: " + message);
  if (message.size() > 1500) fail("an error of " + std::to_string(message.size()) + " characters: " + message);
}

struct Outcome {
  Tensors tensors;
  std::string error;  ///< empty where there was none
  enum { no_error, refused, wrong_kind, out_of_memory, unknown_on_meta } kind = no_error;
};

/// Random numbers are the same in every call.
template <class F>
Outcome outcome_of(F&& f) {
  Outcome out;
  try {
    manual_seed(1);
    out.tensors = tensors_in({f()});
    return out;
  } catch (const OutOfMemoryError& e) {
    out.error = e.what();
    out.kind = Outcome::out_of_memory;
  } catch (const NotImplementedError& e) {
    out.error = e.what();
    out.kind = Outcome::unknown_on_meta;
  } catch (const DTypeError& e) {
    out.error = e.what();
    out.kind = Outcome::wrong_kind;
  } catch (const Error& e) {
    out.error = e.what();
    out.kind = Outcome::refused;
  } catch (const BadArgument&) {
    out.error = "a value of another kind";
    out.kind = Outcome::wrong_kind;
  } catch (const std::exception& e) {
    fail(std::string("an exception that is no weft::Error: ") + e.what());
  }
  check_message(out.error);
  return out;
}
Outcome call(const OpRecord& record, const Values& values) {
  return outcome_of([&] { return record.call(values); });
}

/// A result is inside its storage, and its flags are correct.
void check_layout(const Tensor& t) {
  const Layout& layout = t.raw_view().layout;
  Layout anew = layout;
  finish_layout(anew);
  if (anew.numel != layout.numel || (layout.contiguous && !anew.contiguous)) fail("a wrong layout: " + text(t));
  if (!t.device().is_cpu() || layout.numel == 0) return;
  const ByteSpan span = byte_span(layout);
  const Storage& s = *t.impl()->storage;
  const int64_t start = static_cast<char*>(t.data_ptr()) - static_cast<char*>(s.data);
  if (start + span.low < 0 || start + span.high > static_cast<int64_t>(s.bytes))
    fail("outside its storage: " + text(t));
}

// ---- comparing ------------------------------------------------------------------------------------------------------

double tolerance_of(DType dtype) {
  switch (compute_type(real_type(dtype))) {
    case DType::f32:
      return itemsize(dtype) < 4 ? 4e-2 : 1e-3;
    case DType::f64:
      return 1e-7;
    default:
      return 0;
  }
}

/// Equal up to the rounding of sums in another order, or up to one step of e4m3 for ops that round to it.
enum class Agreement { exact, last_bits, close, eight_bits };

double tolerance_of(DType dtype, Agreement agreement) {
  switch (agreement) {
    case Agreement::exact:
      return 0;
    case Agreement::last_bits:
      return itemsize(real_type(dtype)) == 8 ? 0x1p-51 : itemsize(real_type(dtype)) == 4 ? 0x1p-22 : 0x1p-6;
    case Agreement::close:
      return tolerance_of(dtype);
    default:
      return 0.125;
  }
}

std::string difference(const Tensor& actual, const Tensor& expected, Agreement agreement) {
  if (actual.dtype() != expected.dtype()) return std::string("dtype ") + name(actual.dtype());
  if (!(actual.shape() == expected.shape())) return "shape " + actual.shape().text();
  if (actual.numel() == 0 || actual.numel() > 100000) return "";
  if (!is_inexact(actual.dtype()) && actual.numel() != 0) {
    const Tensor a = actual.to(Device()).contiguous(), e = expected.to(Device()).contiguous();
    return std::memcmp(a.data_ptr(), e.data_ptr(), static_cast<size_t>(a.nbytes())) == 0 ? "" : text(actual);
  }
  const auto numbers = [](const Tensor& t) {
    const Tensor host = t.detach().to(Device());
    std::vector<double> all = real(host).to(f64).to_vector<double>();
    if (!is_complex(t.dtype())) return all;
    const std::vector<double> second = imag(host).to(f64).to_vector<double>();
    all.insert(all.end(), second.begin(), second.end());
    return all;
  };
  const std::vector<double> a = numbers(actual), e = numbers(expected);
  double largest = 1;
  for (const double v : e) {
    if (std::isfinite(v)) largest = std::max(largest, std::fabs(v));
  }
  const double most = tolerance_of(expected.dtype(), agreement) * largest;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == e[i] || (std::isnan(a[i]) && std::isnan(e[i])) || std::fabs(a[i] - e[i]) <= most) continue;
    return "element " + std::to_string(i) + " is " + std::to_string(a[i]) + ", not " + std::to_string(e[i]);
  }
  return "";
}

void expect_same(const std::string& what, const Tensors& actual, const Tensors& expected, Agreement agreement) {
  if (actual.size() != expected.size()) fail(what + ": " + std::to_string(actual.size()) + " results");
  for (size_t i = 0; i < actual.size(); ++i) {
    if (!actual[i].defined() || !expected[i].defined()) {
      if (actual[i].defined() != expected[i].defined()) fail(what + ": a result is undefined");
      continue;
    }
    const std::string found = difference(actual[i], expected[i], agreement);
    if (!found.empty())
      fail(what + ": " + found + "\n  expected " + text(expected[i]) + "\n  actual " + text(actual[i]));
  }
}

// ---- the checks -----------------------------------------------------------------------------------------------------

struct Trial {
  const OpRecord& record;
  Values values;
  Changes changes;

  /// Layouts may not change a bit of most. A sine of more than 1e8 is found another way, and so are its neighbours',
  /// and powers where a row has one exponent.
  Agreement layouts() const {
    if (!pointwise() || !changes.tame) return devices();
    return is("pow") ? Agreement::last_bits : Agreement::exact;
  }
  Agreement devices() const { return is("fused_fp8_mlp") ? Agreement::eight_bits : Agreement::close; }
  bool is(const char* name) const { return std::strcmp(record.name, name) == 0; }
  bool pointwise() const { return record.pointwise.unary != nullptr || record.pointwise.binary != nullptr; }
};

bool is_empty_handed(const Outcome& o) { return o.kind != Outcome::no_error; }

void check_contiguous_copies(const Trial& t, const Outcome& strided) {
  const Outcome dense = call(t.record, mapped(t.values, [](const Tensor& x) {
                               const Tensor copy = x.clone();
                               copy.impl()->wrapped_number = x.impl()->wrapped_number;
                               return copy;
                             }));
  if (dense.kind == Outcome::out_of_memory) return;  // the first result still holds what there is
  if (is_empty_handed(dense)) fail("contiguous copies are refused: " + dense.error);
  if (t.pointwise() || t.changes.tame) {
    expect_same("contiguous copies", strided.tensors, dense.tensors, t.layouts());
    return;
  }
  for (size_t i = 0; i < dense.tensors.size(); ++i) {
    if (dense.tensors[i].dtype() != strided.tensors[i].dtype()) fail("contiguous copies give another dtype");
  }
}

Tensor on_meta(const Tensor& x) { return empty(x.shape(), {x.dtype(), Device("meta")}); }

/// The result on the meta device; the CPU must agree unless values matter.
Outcome meta_outcome(const Trial& t) { return call(t.record, mapped(t.values, on_meta)); }

void check_meta(const Outcome& meta, const Outcome& cpu) {
  if (meta.kind == Outcome::unknown_on_meta || cpu.kind == Outcome::out_of_memory) return;
  ++counts.on_meta;
  if (cpu.kind != Outcome::no_error) return;  // values decided
  if (is_empty_handed(meta)) fail("the meta device refuses what the CPU does: " + meta.error);
  if (meta.tensors.size() != cpu.tensors.size()) fail("another number of results on meta");
  for (size_t i = 0; i < cpu.tensors.size(); ++i) {
    const Tensor &m = meta.tensors[i], &c = cpu.tensors[i];
    if (!(m.shape() == c.shape()) || m.dtype() != c.dtype()) fail("on meta: " + text(m) + ", on the CPU: " + text(c));
  }
}

/// Gradients of the floating inputs for a gradient of ones; nothing where something is refused.
std::optional<Tensors> gradients(const OpRecord& record, const Values& values) {
  Tensors inputs, seeds;
  const Values leaves = mapped(values, [&](const Tensor& x) {
    if (!is_inexact(x.dtype()) || is_storage_only(x.dtype())) return x;
    inputs.push_back(x.detach().requires_grad_());
    return inputs.back();
  });
  Outcome out = call(record, leaves);
  std::erase_if(out.tensors, [](const Tensor& y) { return !y.defined() || !y.requires_grad(); });
  if (is_empty_handed(out) || out.tensors.empty()) return {};
  const Outcome found = outcome_of([&]() -> Value {
    for (const Tensor& y : out.tensors) seeds.push_back(ones(y.shape(), y.dtype()));  // a view may be huge
    return grad(out.tensors, inputs, seeds, {.allow_unused = true});
  });
  if (is_empty_handed(found)) return {};
  ++counts.gradients;
  return found.tensors;
}

bool writes_an_argument(const OpRecord& record) {
  return std::ranges::any_of(record.signature().arguments, &Argument::written);
}

void check_gradients(const Trial& t) {
  if (!t.record.facts.differentiable || writes_an_argument(t.record)) return;
  const Snapshot before(tensors_in(t.values));
  const auto own = gradients(t.record, t.values);
  before.expect_unchanged("backward");
  if (!own || !t.changes.tame) return;
  const auto dense = gradients(t.record, mapped(t.values, [](const Tensor& x) { return x.clone(); }));
  if (!dense) fail("contiguous copies have no gradient");
  expect_same("gradients of contiguous copies", *own, *dense, Agreement::close);
}

/// A tensor with t's elements to write to.
Tensor target_like(Random& r, const Tensor& t) {
  switch (r.below(4)) {
    case 0:
      return in_exact_memory(t);
    case 1:
      return in_other_order(r, t);
    case 2:
      return overlapping(r, t.clone());
    default:
      return t.clone();
  }
}

Outcome run_in_place(const OpRecord& record, const Tensor& target, Values values) {
  return outcome_of([&]() -> Value {
    if (record.pointwise.unary_in_place != nullptr) return record.pointwise.unary_in_place(target, {});
    if (record.pointwise.binary_in_place != nullptr) {
      return record.pointwise.binary_in_place(target, detail::unbox<Operand>(values, 1));
    }
    values[0] = target;
    return find_in_place(record.name)->operator()(values);
  });
}

// Whether arguments are given that only the op itself has, not its form in place or with out=.
bool gives_more_than(size_t count, const Values& values) {
  for (size_t i = count; i < values.size(); ++i) {
    if (!std::holds_alternative<std::monostate>(values[i])) return true;
  }
  return false;
}

void check_in_place(Random& r, const Trial& t, const Outcome& expected) {
  const PointwiseFunctions& p = t.record.pointwise;
  const bool pointwise = p.unary_in_place != nullptr || p.binary_in_place != nullptr;
  const auto* first = t.values.empty() ? nullptr : std::get_if<Tensor>(&t.values[0]);
  if (first == nullptr || !first->defined() || (!pointwise && find_in_place(t.record.name) == nullptr)) return;
  if (p.binary_in_place != nullptr && t.values.size() < 2) return;
  const size_t taken = p.unary_in_place != nullptr    ? 1
                       : p.binary_in_place != nullptr ? 2
                                                      : static_cast<size_t>(find_in_place(t.record.name)->types.size());
  if (gives_more_than(taken, t.values)) return;
  const Tensor target = target_like(r, *first);
  Values values = t.values;
  const bool aliased = values.size() > 1 && std::holds_alternative<Tensor>(values[1]) && r.one_in(8) &&
                       target.dim() == 2 && target.sizes()[0] == target.sizes()[1];
  if (aliased) values[1] = target.t();
  const Outcome wanted = aliased ? call(t.record, mapped(values, [](const Tensor& x) { return x.clone(); })) : expected;
  values[0] = target;
  const Snapshot others(tensors_in(t.values)), before({target});
  const Outcome out = run_in_place(t.record, target, values);
  others.expect_unchanged("in place");
  ++counts.in_place;
  if (is_empty_handed(out)) return before.expect_unchanged("what was refused in place (" + out.error + ")");
  if (is_empty_handed(wanted)) {
    // In place, it is computed in the target's dtype.
    if (wanted.kind == Outcome::out_of_memory || wanted.kind == Outcome::wrong_kind) return;
    fail("in place does what the op refuses: " + wanted.error);
  }
  const Tensor& result = wanted.tensors[0];
  if (result.dtype() != target.dtype() || !(result.shape() == target.shape())) return;
  if (pointwise || t.changes.tame) expect_same("in place", {target}, {result}, t.layouts());
}

void check_out(Random& r, const Trial& t, const Outcome& expected) {
  const PointwiseFunctions& p = t.record.pointwise;
  if (p.unary_out == nullptr && p.binary_out == nullptr) return;
  const auto arguments = static_cast<size_t>(p.unary_out != nullptr ? 1 : 2);
  if (t.values.size() < arguments || gives_more_than(arguments, t.values)) return;
  const bool fits = expected.kind == Outcome::no_error && !r.one_in(4);
  const Tensor out = fits ? target_like(r, expected.tensors[0]) : zeros(random_dims(r, false), r.pick(all_dtypes));
  const Snapshot others(tensors_in(t.values)), before({out});
  const Outcome found = outcome_of([&]() -> Value {
    if (arguments == 1) return p.unary_out(out, detail::unbox<Operand>(t.values, 0));
    return p.binary_out(out, detail::unbox<Operand>(t.values, 0), detail::unbox<Operand>(t.values, 1));
  });
  others.expect_unchanged("out=");
  if (is_empty_handed(found)) return before.expect_unchanged("what out= refused (" + found.error + ")");
  if (is_empty_handed(expected)) fail("out= does what the op refuses: " + expected.error);
  expect_same("out=", {out}, expected.tensors, t.layouts());
}

void check_device(const Trial& t, const Outcome& expected, Device device) {
  const Outcome out = outcome_of([&]() -> Value {
    Tensors home;
    for (const Tensor& y :
         tensors_in({t.record.call(mapped(t.values, [&](const Tensor& x) { return x.to(device); }))})) {
      home.push_back(y.to(Device()));
    }
    return home;
  });
  ++counts.on_device;
  if (is_empty_handed(out) || is_empty_handed(expected)) return;  // a device may lack dtypes, and skips bad indices
  if (t.changes.tame) expect_same("on " + device.name(), out.tensors, expected.tensors, t.devices());
}

// ---- trials ---------------------------------------------------------------------------------------------------------

/// Millions of views are no error, and no test.
bool makes_many_views(const OpRecord& record) {
  return std::ranges::any_of(std::array{"split", "chunk", "unbind"},
                             [&](const char* name) { return std::strcmp(record.name, name) == 0; });
}

/// A call on the CPU reads no huge operand where it must raise before, or cannot have memory for its results.
bool ends_early(const Outcome& meta, int64_t limit) {
  if (meta.kind == Outcome::unknown_on_meta) return false;
  if (is_empty_handed(meta)) return true;
  return std::ranges::any_of(meta.tensors, [&](const Tensor& t) { return t.nbytes() > limit; });
}

void check(const OpRecord& record, Random& r, int64_t limit) {
  SampleMaker make(r.one_in(2) ? f32 : r.pick(all_dtypes), {}, r.next());
  std::vector<Values> samples;
  try {
    samples = record.samples(make);
  } catch (const Error&) {  // there are none of this dtype
    return;
  }
  Trial t{record, samples[static_cast<size_t>(r.below(static_cast<int64_t>(samples.size())))], {}};
  const bool is_method = record.schema == record.name && std::holds_alternative<Tensor>(t.values[0]);
  try {
    for (Value& v : t.values) v = changed(r, v, t.changes);
  } catch (const OutOfMemoryError&) {  // gaps between its elements leave the limit
    return;
  }
  if (r.one_in(12) && !t.values.empty())
    t.values[static_cast<size_t>(r.below(static_cast<int64_t>(t.values.size())))] = any_value(r);
  if (r.one_in(12)) t.values.push_back(any_value(r));
  if (r.one_in(16) && t.values.size() > 1 && std::holds_alternative<Tensor>(t.values[0])) t.values[1] = t.values[0];
  if (t.values.size() > record.function.types.size()) t.values.resize(record.function.types.size());
  current = std::string(record.name) + text(t.values);

  const Tensors inputs = tensors_in(t.values);
  if (is_method && inputs.empty()) return;
  const Snapshot before(inputs);
  if (t.changes.huge && makes_many_views(record)) return;
  const Outcome meta = t.changes.elsewhere ? Outcome() : meta_outcome(t);
  if (t.changes.huge && !ends_early(meta, limit)) return;
  const Outcome out = call(record, t.values);
  if (is_empty_handed(out)) before.expect_unchanged("what was refused (" + out.error + ")");
  else if (!writes_an_argument(record)) before.expect_unchanged("the call");
  ++(is_empty_handed(out) ? counts.refused : counts.done);
  for (const Tensor& y : out.tensors) check_layout(y);
  if (t.changes.elsewhere) return;
  check_meta(meta, out);
  if (t.changes.huge) return;
  if (!is_empty_handed(out)) check_contiguous_copies(t, out);
  if (!is_empty_handed(out) && r.one_in(3)) check_gradients(t);
  if (r.one_in(2)) check_in_place(r, t, out);
  if (r.one_in(4)) check_out(r, t, out);
  const Device device(DeviceType::hpu);
  if (device_count(device.type) != 0 && r.one_in(4)) check_device(t, out, device);
}

// ---- the process ----------------------------------------------------------------------------------------------------

uint64_t current_seed = 0;

void say_what_ran() {
  const std::string text = "\nop_fuzz: seed " + std::to_string(current_seed) + ": " + current + "\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, text.data(), text.size());
}
void end_by_signal(int signal) {
  say_what_ran();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace
}  // namespace weft::fuzz

extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*)());
/// Findings of the undefined-behaviour sanitizer reach the signal handler, which prints the call.
extern "C" [[gnu::visibility("default")]] const char* __ubsan_default_options() {
  return "abort_on_error=1:print_stacktrace=1";
}

int main(int argc, char** argv) {
  using namespace weft;
  using namespace weft::fuzz;
  double seconds = 3;
  uint64_t seed = 1;
  std::string only;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    if (option == "--seconds") seconds = std::atof(argv[i + 1]);
    else if (option == "--seed") seed = std::strtoull(argv[i + 1], nullptr, 10);
    else if (option == "--op") only = argv[i + 1];
    else return std::fprintf(stderr, "unknown option %s\n", argv[i]), 2;
  }
  std::signal(SIGABRT, end_by_signal);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(say_what_ran);
  else
    for (const int signal : {SIGSEGV, SIGFPE, SIGBUS}) std::signal(signal, end_by_signal);
  std::signal(SIGALRM, end_by_signal);
  constexpr int64_t limit = int64_t{64} << 20;
  set_memory_limit({}, limit);
  set_num_threads(2);
  std::vector<OpRecord> records(op_records().begin(), op_records().end());
  for (const OpRecord& record : more_records()) records.push_back(record);
  std::erase_if(records, [](const OpRecord& record) {  // their elements are what memory held
    return std::string_view(record.name) == "empty" || std::string_view(record.name) == "empty_like";
  });
  if (!only.empty()) std::erase_if(records, [&](const OpRecord& record) { return record.name != only; });
  if (records.empty()) return std::fprintf(stderr, "there is no op %s\n", only.c_str()), 2;

  using clock = std::chrono::steady_clock;
  const auto end = clock::now() + std::chrono::duration<double>(seconds);
  int failures = 0;
  uint64_t runs = 0;
  do {
    current_seed = seed;
    Random r(seed++);
    const OpRecord& record = records[static_cast<size_t>(r.below(static_cast<int64_t>(records.size())))];
    alarm(60);
    try {
      check(record, r, limit);
    } catch (const std::exception& e) {
      std::printf("FAILED seed %llu: %s\n  %s\n", static_cast<unsigned long long>(current_seed), current.c_str(),
                  e.what());
      std::fflush(stdout);
      ++failures;
    }
    ++runs;
  } while (failures < 10 && clock::now() < end);
  const auto count = [](uint64_t n) { return static_cast<unsigned long long>(n); };
  std::printf(
      "%llu trials: %llu calls done and %llu refused, %llu compared on meta, %llu in place, %llu gradients, "
      "%llu on a device; %d failures\n",
      count(runs), count(counts.done), count(counts.refused), count(counts.on_meta), count(counts.in_place),
      count(counts.gradients), count(counts.on_device), failures);
  return failures != 0;
}
