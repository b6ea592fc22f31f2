// User-defined ops, registered by a program, by a library that it loads, or by Python, and called by name. Like
// built-in ops they have a record with a signature, gradients and shape inference, and their name appears in errors,
// graphs, profiles and the support matrix. See docs/own_ops.md.
//
//   const auto cube = OpBuilder("my::cube")
//                         .schema("(x, scale: float = 1.0)")
//                         .composite([](const Tensor& x, double scale) { return scale * x * x * x; })
//                         .register_();
//   Tensor y = call_op("my::cube", x, 2.0);
#pragma once

#include <initializer_list>
#include <tuple>

#include "record.hpp"
#include "../tensor/version.hpp"
#include "../tensor/callback.hpp"

namespace weft {

/// A set of dtypes: {f32, f64}.
class DTypes {
 public:
  constexpr DTypes(DType one) : bits_(uint32_t{1} << static_cast<int>(one)) {}
  constexpr DTypes(std::initializer_list<DType> list) {
    for (const DType t : list) bits_ |= DTypes(t).bits_;
  }
  constexpr DTypes operator|(DTypes other) const {
    other.bits_ |= bits_;
    return other;
  }
  constexpr bool contains(DType t) const { return (bits_ & DTypes(t).bits_) != 0; }
  constexpr bool operator==(const DTypes&) const = default;

 private:
  uint32_t bits_ = 0;
};
/// The dtypes of arithmetic: all but the 8-bit floats.
inline constexpr DTypes floating_dtypes = {f16, bf16, f32, f64};
inline constexpr DTypes integer_dtypes = {u8, i8, u16, i16, u32, i32, u64, i64};
inline constexpr DTypes all_dtypes = {boolean, u8,        i8,      u16,         i16,         u32,
                                      i32,     u64,       i64,     f16,         bf16,        f32,
                                      f64,     f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu};

/// The action if the name is already registered. `error` raises ValueError with both locations. `override` uses the new
/// definition for later calls by name; running calls finish with the old one. `keep` registers nothing.
enum class OpPolicy : uint8_t { error, override, keep };

namespace detail {
struct RegisteredOp;
struct RegisteredKernel;
struct OpSlot;
struct OpDraft;

/// A user's function in the calling convention of records, and its argument types; none if it takes boxed values.
struct OpBody {
  Callback<Value(std::span<const Value>)> run;
  std::span<const ArgumentType> types = {};
  bool takes_values = false;
};
}  // namespace detail

class OpBuilder;

/// A registered op. The destructor unregisters it and restores the previous definition. Running calls finish.
class WEFT_API Registration {
 public:
  Registration() = default;
  Registration(Registration&& other) noexcept : op_(std::exchange(other.op_, nullptr)) {}
  Registration& operator=(Registration&& other) noexcept {
    std::swap(op_, other.op_);
    return *this;
  }
  ~Registration() { unregister(); }

  /// False where nothing was registered, and once it is unregistered.
  bool active() const;
  /// Its own record, even if overridden. nullptr if the op is not active.
  const OpRecord* record() const;
  /// The definition that it overrides: a registered op, a built-in one, or nullptr.
  const OpRecord* previous() const;
  void unregister() noexcept;
  /// Puts another definition of the same name in its place, in one step: for pieces that come later. ValueError where
  /// it is not active, and as OpBuilder::register_.
  void replace(const OpBuilder& op, Location where = {});
  /// Leaves it registered for the rest of the process.
  void keep() noexcept { op_ = nullptr; }

 private:
  friend class OpBuilder;
  explicit Registration(detail::RegisteredOp* op) : op_(op) {}
  detail::RegisteredOp* op_ = nullptr;
};

/// The same for one kernel.
class WEFT_API KernelRegistration {
 public:
  KernelRegistration() = default;
  explicit KernelRegistration(detail::RegisteredKernel* kernel) : kernel_(kernel) {}
  KernelRegistration(KernelRegistration&& other) noexcept : kernel_(std::exchange(other.kernel_, nullptr)) {}
  KernelRegistration& operator=(KernelRegistration&& other) noexcept {
    std::swap(kernel_, other.kernel_);
    return *this;
  }
  ~KernelRegistration() { unregister(); }
  void unregister() noexcept;
  void keep() noexcept { kernel_ = nullptr; }

 private:
  detail::RegisteredKernel* kernel_ = nullptr;
};

/// Tensors and values for the backward of a registered op. Raises AutogradError for a tensor that was written after the
/// call.
class WEFT_API OpGradient {
 public:
  /// The gradient that arrived for result i; zeros where none did.
  const Tensor& gradient(size_t i = 0) const;
  /// The tensor that the call got for the argument of this name, undefined where it got none. ValueError where there is
  /// no such argument, or where `saves` left it out.
  Tensor input(std::string_view name) const;
  /// The same of a list.
  std::vector<Tensor> inputs(std::string_view name) const;
  Tensor output(size_t i = 0) const;
  /// An argument that is no tensor: attribute<double>("scale").
  template <class T>
  T attribute(std::string_view name) const {
    return detail::unboxed<T>(attribute_value(name), 0);
  }
  const Value& attribute_value(std::string_view name) const;
  /// Whether a gradient for the argument of this name is wanted, or for one of its list.
  bool wants(std::string_view name) const;

  struct State;
  explicit OpGradient(const State& state) : state_(&state) {}

 private:
  const State* state_;
};
using OpBackward = Callback<std::vector<Tensor>(const OpGradient&)>;

namespace detail {
template <class F>
OpBody op_body(F function);
template <class F>
OpBackward op_backward(F function);
}  // namespace detail

/// Describes an op and registers it. Functions take C++ types: Tensor, double, int64_t, bool, std::string, Dims, DType,
/// Device, std::vector<Tensor>, std::optional of them, in the order of the schema, or std::span<const Value>; and
/// return Tensor, a tuple or vector of tensors, or nothing where all that they make is written in place. They may
/// capture, and are called from several threads at once.
class WEFT_API OpBuilder {
 public:
  /// "ns::name", or the name of a built-in op to override it.
  explicit OpBuilder(std::string name, Location where = {})
      : OpBuilder(std::move(name), where, detail::header_version) {}

  /// As in OpRecord, with the name left out: "(x, w: Tensor[], b: Tensor = None, axis: int = 0) -> (y, index)". Types
  /// are Tensor, Tensor[], operand (a tensor or a number), bool, int, float, int[], str, dtype, device, Generator and
  /// any, with ? for optional arguments. Arguments without a type have the type of the first function's parameter.
  OpBuilder& schema(std::string schema);
  /// The same in pieces: inputs "x", "vec w", "opt b"; attributes "axis:int=0"; results "y".
  OpBuilder& inputs(std::initializer_list<const char*> names);
  OpBuilder& attrs(std::initializer_list<const char*> attributes);
  OpBuilder& outputs(std::initializer_list<const char*> names);
  /// {{"x", "y"}}: result y is x, which the kernel writes. x may be no leaf that requires a gradient, and its elements
  /// must not overlap; other operands that overlap x are copied before, unless they are exactly it.
  OpBuilder& inplace(std::initializer_list<std::pair<const char*, const char*>> pairs);
  OpBuilder& inplace(const std::string& argument, const std::string& result);

  /// A body of public ops: it runs on every device, and its gradient comes by itself.
  template <class F>
  OpBuilder& composite(F function) {
    return set_composite(detail::op_body(std::move(function)));
  }
  /// Computes the results for tensors of one kind of device; the first tensor's dtype decides. It is not recorded.
  template <class F>
  OpBuilder& kernel(DeviceType device, DTypes dtypes, F function) {
    return add_kernel(device, dtypes, detail::op_body(std::move(function)));
  }
  /// Shapes and dtypes of the results, from tensors without elements: TensorMeta, several, or tensors on meta. Results
  /// of kernels are checked against it. Ops with a composite body do not need it.
  template <class F>
  OpBuilder& infer_meta(F function) {
    return set_infer_meta(detail::op_body(std::move(function)));
  }
  /// One gradient for each tensor argument, lists element by element; undefined where none flows. Written with public
  /// ops, it can be differentiated again. `function` takes an OpGradient and returns one tensor or a vector of them.
  /// Without it and without a composite body, backward raises AutogradError.
  template <class F>
  OpBuilder& backward(F function) {
    return set_backward(detail::op_backward(std::move(function)));
  }
  /// The tensors that `backward` reads, by the names of arguments and results; all of them where this is not called.
  OpBuilder& saves(std::initializer_list<const char*> names);

  /// It may give other bits in another run, by atomic additions of floats for example: deterministic mode refuses it.
  OpBuilder& nondeterministic();
  OpBuilder& document(std::string text);
  OpBuilder& domain(OpRecord::Domain domain);
  /// Argument lists that check_op, `./weft ops` and benchmarks call it with.
  OpBuilder& samples(Callback<std::vector<Values>(SampleMaker&)> samples);
  /// How it works on parts of tensors that ranks hold (<weft/ops/partition.hpp>). Without it they compute with whole
  /// tensors, and a warning says so.
  OpBuilder& partition(PartitionRule rule);

  /// For `override`: calls that the old definition takes need not be calls of the new one.
  OpBuilder& allow_schema_change();
  /// For `override`: keeps the backward of the old definition, applied to the new results. For a composite body or a
  /// built-in op it recomputes the old definition.
  OpBuilder& inherit_backward();

  /// Raises ValueError if it was compiled with headers of another version, for an invalid or registered name, and for
  /// an invalid schema. Raises ValueError also if a function does not match the schema, and if there is neither a
  /// composite body nor a kernel.
  [[nodiscard]] Registration register_(OpPolicy policy = OpPolicy::error, Location where = {}) const;

  // The same without C++ types, for bindings.
  OpBuilder& set_composite(detail::OpBody body);
  OpBuilder& add_kernel(DeviceType device, DTypes dtypes, detail::OpBody body);
  OpBuilder& set_infer_meta(detail::OpBody body);
  OpBuilder& set_backward(OpBackward backward);

 private:
  friend class Registration;
  OpBuilder(std::string name, Location where, int headers);

  Shared<detail::OpDraft> draft_;
};

/// Registers an op at namespace scope: before main, or while its library is loaded. An error of OpBuilder::register_ is
/// a warning before main, since it could not be caught there, and an error of load_library.
class WEFT_API RegisterOp {
 public:
  explicit RegisterOp(const OpBuilder& op, OpPolicy policy = OpPolicy::error, Location where = {}) noexcept;

 private:
  Registration registration_;
};

/// The name of an op with the place of the call.
struct OpName {
  OpName(const char* text, Location w = {}) : name(text), where(w) {}
  OpName(const std::string& text, Location w = {}) : name(text), where(w) {}
  std::string_view name;
  Location where;
};

namespace detail {
WEFT_API Value call_by_name(OpName op, std::span<const Value> arguments);
WEFT_API Value call_slot(const OpSlot& slot, std::span<const Value> arguments, Location where);
WEFT_API std::string_view name_of(const OpSlot& slot);
WEFT_API const OpSlot& slot_for(OpName op, std::span<const ArgumentType> types, size_t required);
[[noreturn]] WEFT_API void raise_other_result(std::string_view op, Location where);

template <class T>
Value to_value(const T& argument) {
  if constexpr (std::is_same_v<T, Value>) return argument;
  else if constexpr (std::is_same_v<T, bool>) return argument;
  else if constexpr (std::is_integral_v<T>) return static_cast<int64_t>(argument);
  else if constexpr (std::is_floating_point_v<T>) return static_cast<double>(argument);
  else if constexpr (std::is_same_v<T, Device>) return argument.name();
  else if constexpr (std::is_same_v<T, std::nullopt_t>) return std::monostate();
  else if constexpr (std::is_convertible_v<const T&, std::string_view>) return std::string(std::string_view(argument));
  else if constexpr (std::is_constructible_v<Value, std::in_place_type_t<T>, const T&>) return argument;
  else if constexpr (std::is_convertible_v<const T&, Tensor>) return Tensor(argument);
  else return std::vector<Tensor>(std::begin(argument), std::end(argument));
}
template <class T>
Value to_value(const std::optional<T>& argument) {
  return argument ? to_value(*argument) : Value();
}

template <class R>
R result_as(Value&& value, std::string_view op, Location where) {
  if constexpr (std::is_void_v<R>) return;
  else if constexpr (std::is_same_v<R, Value>) return std::move(value);
  else {
    if (auto* result = std::get_if<R>(&value)) return std::move(*result);
    raise_other_result(op, where);
  }
}
}  // namespace detail

/// Calls an op by its name, built-in ops included, with defaults for missing trailing arguments. The result is a Tensor
/// unless `R` is std::vector<Tensor> or Value. Raises ValueError for an unknown op, a wrong number of arguments, and an
/// argument of a wrong type. The lookup takes a lock; find_op does it once.
template <class R = Tensor, class... A>
R call_op(OpName op, const A&... arguments) {
  const Value values[] = {detail::to_value(arguments)..., Value()};
  return detail::result_as<R>(detail::call_by_name(op, std::span(values, sizeof...(A))), op.name, op.where);
}

/// An op with C++ types: `const auto cube = find_op<Tensor(const Tensor&, double)>("my::cube")`. It calls the
/// definition that the name has at the time of the call. It may outlive the op; then a call raises ValueError.
template <class Signature>
class OpFunction;
template <class R, class... A>
class OpFunction<R(A...)> {
 public:
  explicit OpFunction(const detail::OpSlot& slot) : slot_(&slot) {}
  R operator()(A... arguments, Location where = {}) const {
    const Value values[] = {detail::to_value(arguments)..., Value()};
    return detail::result_as<R>(detail::call_slot(*slot_, std::span(values, sizeof...(A)), where),
                                detail::name_of(*slot_), where);
  }

 private:
  const detail::OpSlot* slot_;
};

namespace detail {
template <class R, class... A>
OpFunction<R(A...)> function_of(OpName op, std::type_identity<R(A...)>) {
  static constexpr std::array<ArgumentType, sizeof...(A)> types{Unbox<std::remove_cvref_t<A>>::type...};
  return OpFunction<R(A...)>(slot_for(op, types, sizeof...(A)));
}
}  // namespace detail

/// ValueError where there is no such op, or where it does not take arguments of these types.
template <class Signature>
OpFunction<Signature> find_op(OpName op) {
  return detail::function_of(op, std::type_identity<Signature>());
}

/// All ops that can be called by name: built-in ops (or their overrides), then the others in order of their names.
WEFT_API std::vector<const OpRecord*> all_ops();

namespace detail {
WEFT_API void check_headers(OpName op, int version);
WEFT_API KernelRegistration register_kernel(OpName op, DeviceType device, DTypes dtypes, OpBody body, OpPolicy policy);
}  // namespace detail

/// Gives the present definition of a registered op a kernel for a kind of device and some dtypes. ValueError where one
/// of them has a kernel already, unless it is overridden; and for the library's own ops, which are overridden as a
/// whole, and where it was compiled with headers of another version.
template <class F>
[[nodiscard]] KernelRegistration register_kernel(OpName op, DeviceType device, DTypes dtypes, F function,
                                                 OpPolicy policy = OpPolicy::error) {
  detail::check_headers(op, detail::header_version);
  return detail::register_kernel(op, device, dtypes, detail::op_body(std::move(function)), policy);
}
/// Whether the op works on tensors of this dtype there: a registered op with a composite body, or a kernel for them.
/// One of the library's own is tried on its samples. False where there is no such device, and ValueError for an unknown
/// op.
WEFT_API bool has_kernel(OpName op, DeviceType device, DType dtype);

/// The ops that a library registers while it is loaded.
class WEFT_API OpLibrary {
 public:
  /// Leaves it registered until the library is unloaded.
  void keep(Registration registration);
  void keep(KernelRegistration registration);

 private:
  friend struct LoadedLibrary;
  std::vector<Registration> ops_;
  std::vector<KernelRegistration> kernels_;
};

/// Opens a shared library that registers ops: by RegisterOp at namespace scope, or by `extern "C" void
/// weft_register_ops(weft::OpLibrary&)`, which is called. Returns the names of its ops. A library that is loaded
/// already is left as it is. It finds Weft in the program: in libweft.so, in the Python module, or in a program that
/// links weft::whole. IoError where it cannot be opened; ValueError, with nothing left
/// registered, where it registers nothing or raises an error.
WEFT_API std::vector<std::string> load_library(const std::string& path, Location where = {});
/// Unregisters the library's ops, restores the definitions they replaced, and closes the library. Raises ValueError,
/// without any change, if it is not loaded or if a call, a graph or another definition still uses it.
WEFT_API void unload_library(const std::string& path, Location where = {});

namespace detail {

// ---- functions of C++ types as bodies ----

inline Value box_result(Value v) { return v; }
inline Value box_result(const TensorMeta& meta);
template <class... T>
Value box_result(const std::tuple<T...>& results) {
  return std::apply([](const auto&... each) { return Value(std::vector<Tensor>{each...}); }, results);
}
template <class A, class B>
Value box_result(const std::pair<A, B>& results) {
  return std::vector<Tensor>{results.first, results.second};
}
[[nodiscard]] WEFT_API Tensor meta_tensor(const TensorMeta& meta);
inline Value box_result(const TensorMeta& meta) { return meta_tensor(meta); }
inline Value box_result(const std::vector<TensorMeta>& metas) {
  std::vector<Tensor> tensors;
  for (const TensorMeta& meta : metas) tensors.push_back(meta_tensor(meta));
  return tensors;
}

template <class F, class R, class... A>
OpBody typed_body(F function, R (F::*)(A...) const) {
  static constexpr std::array<ArgumentType, sizeof...(A)> types{Unbox<std::remove_cvref_t<A>>::type...};
  const auto run = [f = std::move(function)](std::span<const Value> values) -> Value {
    return [&]<size_t... i>(std::index_sequence<i...>)->Value {
      if constexpr (std::is_void_v<R>) return f(unbox<std::remove_cvref_t<A>>(values, i)...), Value();
      else return box_result(f(unbox<std::remove_cvref_t<A>>(values, i)...));
    }
    (std::index_sequence_for<A...>());
  };
  return {run, types};
}

template <class F>
OpBody op_body(F function) {
  if constexpr (std::is_pointer_v<F>) {
    const auto call = []<class R, class... A>(R (*f)(A...)) {
      return op_body([f](A... arguments) -> R { return f(std::forward<A>(arguments)...); });
    };
    return call(function);
  } else if constexpr (std::is_invocable_v<F&, std::span<const Value>>) {
    return {[f = std::move(function)](std::span<const Value> values) -> Value {
              if constexpr (std::is_void_v<std::invoke_result_t<const F&, std::span<const Value>>>)
                return f(values), Value();
              else return box_result(f(values));
            },
            {},
            true};
  } else {
    return typed_body(std::move(function), &F::operator());
  }
}

template <class F>
OpBackward op_backward(F function) {
  return [f = std::move(function)](const OpGradient& g) -> std::vector<Tensor> {
    if constexpr (std::is_convertible_v<std::invoke_result_t<const F&, const OpGradient&>, Tensor>) return {f(g)};
    else return f(g);
  };
}

}  // namespace detail
}  // namespace weft
