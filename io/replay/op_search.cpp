// Finds the op call that launched a kernel. The arguments are not recorded, so candidates are run until one launches
// the same kernel with the same sizes and parameters and produces the same bits. So nothing is recorded before a fault,
// and a match is exact.
#include "op_call-inl.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iterator>
#include <numeric>
#include <thread>

#include "call_file-inl.hpp"
#include "../../autograd/mode.hpp"
#include "../../ops/pointwise.hpp"
#include "../../tensor/layout.hpp"

namespace weft::io {

namespace {

using Kind = ArgumentType::Kind;

// ---- comparing a call -----------------------------------------------------------------------------------------------

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.dtype() != b.dtype() || !(a.shape() == b.shape())) return false;
  return a.numel() == 0 || std::memcmp(a.data_ptr(), b.data_ptr(), static_cast<size_t>(a.nbytes())) == 0;
}

bool same_call(const KeptCall& a, const KeptCall& b) {
  if (a.kernel != b.kernel || a.variant != b.variant || a.views.size() != b.views.size()) return false;
  for (size_t i = 0; i < a.views.size(); ++i) {
    const Layout &x = a.views[i].layout, &y = b.views[i].layout;
    if (a.views[i].absent != b.views[i].absent) return false;
    if (!a.views[i].absent && (x.dtype != y.dtype || !std::ranges::equal(sizes_of(x), sizes_of(y)))) return false;
  }
  return std::ranges::equal(a.attributes, b.attributes, [](const KeptAttribute& x, const KeptAttribute& y) {
    return x.name == y.name && x.whole == y.whole && x.real == y.real;
  });
}

class Matcher final : public KernelObserver {
 public:
  Matcher(const KeptCall& kept, const Tensor& output) : kept_(kept), output_(output) {}
  bool matched = false;

  void after(const KernelCall& call) override {
    if (matched || kept_.kernel != call.kernel) return;
    KeptCall now;
    std::vector<View> views;
    if (!plugin::list_call(call, [&](const WeftKernelCall& listed) { now = listed_call(listed, views); })) return;
    if (!same_call(now, kept_)) return;
    matched = same_bits(elements_of(views[static_cast<size_t>(kept_.bad)]).to(Device()), output_);
  }

 private:
  const KeptCall& kept_;
  const Tensor& output_;
};

// ---- candidates -----------------------------------------------------------------------------------------------------

// Returns a scalar operand as a number again, so that it takes the tensor's dtype.
Value operand_of(const KeptView& view) {
  if (view.layout.host_scalar == 0) return view.elements;
  if (is_floating(view.layout.dtype)) return view.elements.item<double>();
  return view.elements.item<int64_t>();
}

// Excludes counters of random numbers.
bool is_modest(int64_t v) { return v >= -4096 && v <= 4096; }

/// Candidate values of a non-tensor argument, most likely first.
std::vector<Value> values_for(const Argument& argument, const KeptCall& kept, int rank) {
  std::vector<Value> out;
  const auto add = [&](Value v) {
    const auto same = [&](const Value& other) { return same_value(other, v); };
    if (std::ranges::none_of(out, same)) out.push_back(std::move(v));
  };
  // Kernel parameters of the same name; of a list only the spatial sizes, [1, h, w] for images.
  for (const KeptAttribute& a : kept.attributes) {
    if (a.name != argument.name || a.whole.empty() || a.whole.size() > size_t{max_rank}) continue;
    const size_t spatial = std::min(a.whole.size(), static_cast<size_t>(std::max(rank - 2, 1)));
    const bool many = argument.type.kind == Kind::dims || argument.type.kind == Kind::any;
    if (many) add(Dims(std::span(a.whole).last(spatial)));
    if (argument.type.kind == Kind::integer) add(a.whole.front());
  }
  if (!argument.required) add(argument.default_value);
  std::vector<int64_t> whole;
  std::vector<double> real;
  for (const KeptAttribute& a : kept.attributes) {
    std::ranges::copy_if(a.whole, std::back_inserter(whole), is_modest);
    real.insert(real.end(), a.real.begin(), a.real.end());
    const bool many = argument.type.kind == Kind::dims && a.whole.size() > 1 && a.whole.size() <= size_t{max_rank};
    if (many && std::ranges::all_of(a.whole, is_modest)) add(Dims(a.whole));
  }
  switch (argument.type.kind) {
    case Kind::boolean:
      add(false), add(true);
      break;
    case Kind::integer:
    case Kind::dims:
      for (int d = rank - 1; d >= 0; --d) add(int64_t{d});
      for (const int64_t v : whole) add(v);
      if (argument.type.kind == Kind::dims && rank > 0) {
        const Layout& layout = kept.views[static_cast<size_t>(kept.outputs)].layout;
        add(Dims{layout.sizes[layout.rank - 1]});
      }
      break;
    case Kind::number:
    case Kind::operand:
      for (const double v : real) add(v);
      for (const int64_t v : whole) add(v);
      break;
    case Kind::text:
      for (const KeptAttribute& a : kept.attributes) add(a.name);
      add("none"), add("sum"), add("mean"), add("tanh");
      break;
    default:
      break;
  }
  return out;
}

class Search {
 public:
  using Clock = std::chrono::steady_clock;

  Search(const OpRecord& record, const KeptCall& kept, const Tensor& output, Clock::time_point until)
      : record_(record), kept_(kept), output_(output), device_(std::string_view(kept.device)), until_(until) {}

  static constexpr int most_changes = 3;

  /// Tries calls with these tensor arguments, in this order, and with up to `changes` other arguments that are not most
  /// likely.
  bool with(const std::vector<Value>& tensors, int changes) {
    const std::vector<Argument>& named = record_.signature().arguments;
    size_t next = 0;
    std::vector<std::vector<Value>> others(named.size());
    int rank = 0;
    for (size_t i = 0; i < named.size(); ++i) {
      const Kind kind = named[i].type.kind;
      const auto given = [&] { return next < tensors.size() ? tensors[next] : Value(); };
      if (kind == Kind::tensors) {
        std::vector<Tensor> many;
        for (; next < tensors.size(); ++next) {
          if (const auto* t = std::get_if<Tensor>(&tensors[next])) many.push_back(*t);
        }
        others[i] = {many};
      } else if ((kind == Kind::tensor || kind == Kind::operand) && next < tensors.size() &&
                 (kind == Kind::operand || std::holds_alternative<Tensor>(given()))) {
        if (const auto* t = std::get_if<Tensor>(&tensors[next])) rank = std::max(rank, static_cast<int>(t->dim()));
        others[i] = {tensors[next++]};
      } else {
        others[i] = values_for(named[i], kept_, rank);
        if (others[i].empty()) {
          if (named[i].required) return false;
          others[i].emplace_back();
        }
      }
    }
    if (next < tensors.size()) return false;
    Values arguments;
    for (const auto& choice : others) arguments.push_back(choice.front());
    return change(others, arguments, 0, changes);
  }
  OpCall take() { return std::move(*found_); }
  bool over() const { return tries_ >= most_tries || Clock::now() > until_; }

 private:
  static constexpr int most_tries = 800;

  bool change(const std::vector<std::vector<Value>>& choices, Values& arguments, size_t from, int left) {
    if (left == 0) return is_it(arguments);
    for (size_t i = from; i < choices.size(); ++i) {
      for (size_t k = 1; k < choices[i].size(); ++k) {
        const Value before = std::exchange(arguments[i], choices[i][k]);
        if (change(choices, arguments, i + 1, left - 1)) return true;
        arguments[i] = before;
        if (over()) return false;
      }
    }
    return false;
  }

  bool is_it(const Values& arguments) {
    ++tries_;
    OpCall call{.op = record_.name, .arguments = arguments};
    Matcher matcher(kept_, output_);
    try {
      const ObserverGuard observing(matcher);
      const OpResult made = run(call, device_, kept_.backward ? kept_.arrived.at(0) : Tensor());
      if (!matcher.matched) return false;
      if (!has_fault(kept_.backward ? made.gradients : made.results, kept_.nan, kept_.inf)) return false;
    } catch (const std::exception&) {  // the op rejects these arguments
      return false;
    }
    found_ = std::move(call);
    return true;
  }

  const OpRecord& record_;
  const KeptCall& kept_;
  const Tensor& output_;
  const Device device_;
  const Clock::time_point until_;
  int tries_ = 0;
  std::optional<OpCall> found_;
};

/// Possible inputs of an op, if its node saved only the result.
std::vector<Tensor> inputs_behind(const Tensor& result) {
  if (!is_floating(result.dtype())) return {};
  return {result, square(result), log(result), reciprocal(result), reciprocal(square(result)), exp(result)};
}

/// Candidate operand lists of a backward: every subset of the node's saved tensors, in each order, and the possible
/// inputs of a saved result.
std::vector<std::vector<Value>> backward_operands(std::span<const Tensor> known) {
  std::vector<std::vector<Value>> out;
  constexpr size_t limit = 4;
  const size_t count = std::min(known.size(), limit);
  for (size_t mask = (size_t{1} << count) - 1; mask > 0; --mask) {
    std::vector<size_t> order;
    for (size_t i = 0; i < count; ++i) {
      if ((mask >> i & 1) != 0) order.push_back(i);
    }
    do {
      std::vector<Value> list;
      for (const size_t i : order) list.emplace_back(known[i]);
      out.push_back(std::move(list));
    } while (std::ranges::next_permutation(order).found);
  }
  for (size_t i = 0; i < count; ++i) {
    for (const Tensor& x : inputs_behind(known[i])) out.push_back({x});
  }
  return out;
}

/// Inverts transforms of operands before kernels: a transposed weight, a bias with an additional dimension, images and
/// lines with a depth dimension, heads moved before positions.
enum class Form : uint8_t { product, images, lines, heads };
Value in_form(const Value& v, Form form, bool first) {
  const auto* const t = std::get_if<Tensor>(&v);
  if (t == nullptr) return v;
  if (form == Form::product && t->dim() == 2 && !first) return t->size(0) == 1 ? t->squeeze(0) : t->t().contiguous();
  if (form == Form::images && t->dim() == 5 && t->size(2) == 1) return t->squeeze(2);
  if (form == Form::lines && t->dim() == 5 && t->size(2) == 1 && t->size(3) == 1) return t->squeeze(3).squeeze(2);
  if (form == Form::heads && t->dim() == 4) return t->transpose(1, 2).contiguous();
  return v;
}

std::vector<std::vector<Value>> forward_operands(const KeptCall& kept) {
  std::vector<Value> read;
  for (const KeptView& view : kept.views) {
    if (view.elements.defined()) read.push_back(operand_of(view));
  }
  // One tensor may be several operands, as in x / x.
  if (read.size() == 1) return {read, {read[0], read[0]}};
  std::vector<std::vector<Value>> out;
  for (const Form form : {Form::product, Form::images, Form::lines, Form::heads}) {
    std::vector<Value>& list = out.emplace_back();
    for (const Value& v : read) list.push_back(in_form(v, form, list.empty()));
  }
  std::vector<size_t> order(read.size());
  std::iota(order.begin(), order.end(), size_t{0});
  constexpr size_t limit = 3;
  do {
    std::vector<Value> list;
    for (const size_t i : order) list.push_back(read[i]);
    out.push_back(std::move(list));
  } while (read.size() <= limit && std::ranges::next_permutation(order).found);
  return out;
}

class Untouched {
 public:
  explicit Untouched(Generator& generator) : generator_(generator), state_(generator.state()) {}
  ~Untouched() { generator_.set_state(state_); }
  Untouched(const Untouched&) = delete;

 private:
  Generator& generator_;
  const GeneratorState state_;
};

std::optional<OpCall> search(const KeptCall& kept, const Tensor& output, std::span<const std::string> ops,
                             std::span<const Tensor> known) {
  const NoGradGuard unrecorded;
  // Leave the program's random numbers unchanged.
  Generator own;
  const GeneratorGuard drawing(own);
  const Untouched generator(default_generator(Device(std::string_view(kept.device))));
  const auto until = Search::Clock::now() + std::chrono::seconds(2);
  if (kept.backward && (kept.arrived.size() != 1 || !kept.arrived[0].defined())) return {};
  const auto operands = kept.backward ? backward_operands(known) : forward_operands(kept);
  for (const std::string& op : ops) {
    const bool in_place = op.size() > 1 && op.ends_with('_');
    const OpRecord* const record = find_record(in_place ? op.substr(0, op.size() - 1).c_str() : op.c_str());
    if (record == nullptr || record->function.state != nullptr || (kept.backward && !record->facts.differentiable))
      continue;
    Search calls(*record, kept, output, until);
    for (int changes = 0; changes <= Search::most_changes; ++changes) {
      for (const std::vector<Value>& tensors : operands) {
        if (calls.with(tensors, changes)) return calls.take();
        if (calls.over()) break;
      }
    }
  }
  return {};
}

}  // namespace

std::optional<OpCall> find_op_call(const KeptCall& kept, const Tensor& output, std::span<const std::string> ops,
                                   std::span<const Tensor> known) {
  // A separate thread has none of this thread's guards, modes and observers.
  std::optional<OpCall> found;
  std::thread([&] {
    try {
      found = search(kept, output, ops, known);
    } catch (const std::exception&) {  // the kernel's call is still available
    }
  }).join();
  return found;
}

}  // namespace weft::io
