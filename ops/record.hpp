// Op records: run-time data about each op. Tests, gradient checks, benchmarks, the Python binding, the documentation
// and the support matrix read them; calls from C++ never do.
//
// The schema is the only source of names and defaults. Types follow from the function, and a test rejects a schema
// that does not match it. PyTorch's argument names are listed beside Weft's in the schema of each op.
#pragma once

#include <algorithm>
#include <array>
#include <concepts>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "../tensor/generator.hpp"
#include "../tensor/index.hpp"

namespace weft {

/// An argument or result of an op called through its record. monostate is "not given"; a device is given by its name.
using Value = std::variant<std::monostate, Tensor, std::vector<Tensor>, bool, int64_t, double, Dims, DType, std::string,
                           Generator*>;
using Values = std::vector<Value>;

/// Makes the inputs of sample calls: deterministic, with one dtype, on one device. Functions that call it are compiled
/// for size, since it is marked as cold.
class WEFT_API SampleMaker {
 public:
  SampleMaker(DType dtype, Device device, uint64_t seed = 0) : dtype_(dtype), device_(device), state_(seed) {}
  /// Values spread over [low, high], away from ties; integers and bools where the dtype says so.
  [[gnu::cold]] Tensor tensor(const Dims& shape, double low = -2, double high = 2);
  /// i64 values in [0, bound).
  [[gnu::cold]] Tensor indices(const Dims& shape, int64_t bound);
  [[gnu::cold]] Tensor mask(const Dims& shape);
  DType dtype() const { return dtype_; }
  Device device() const { return device_; }

 private:
  DType dtype_;
  Device device_;
  uint64_t state_;
};

/// The type of an argument, from the parameter type of the op's function.
struct ArgumentType {
  enum class Kind : uint8_t {
    any,
    tensor,
    operand,  ///< a tensor or a number
    tensors,
    boolean,
    integer,
    number,
    dims,
    dtype,
    device,
    generator,
    text
  };
  Kind kind;
  /// The function takes "not given" and has its own default.
  bool optional = false;
};

/// A tensor without its elements.
struct TensorMeta {
  Dims shape;
  DType dtype;
  bool operator==(const TensorMeta&) const = default;
};

/// An op's function in a uniform calling convention. A missing argument, at the end or as monostate, is an error unless
/// it is optional; OpRecord::call inserts the defaults.
struct BoxedFunction {
  Value (*run)(std::span<const Value> arguments, const void* state) = nullptr;
  /// Of each argument that the function takes, except the place of the call.
  std::span<const ArgumentType> types = {};
  /// The argument of `run`: the registered op; null for built-in functions.
  const void* state = nullptr;
  Value operator()(std::span<const Value> arguments) const {
    const char* const op = detail::current_call.op;
    const CallScope call(op != nullptr ? op : "op", Location::none());
    return run(arguments, state);
  }
};

/// Makes small argument lists that exercise an op; there may be none.
class SampleFunction {
 public:
  using Plain = std::vector<Values> (*)(SampleMaker&);
  SampleFunction() = default;
  template <class F>
    requires std::convertible_to<F, Plain>
  constexpr SampleFunction(F function) : plain_(function) {}
  /// `run` gets `state`: that of a registered op.
  constexpr SampleFunction(std::vector<Values> (*run)(SampleMaker&, const void*), const void* state)
      : run_(run), state_(state) {}
  std::vector<Values> operator()(SampleMaker& make) const {
    if (run_ != nullptr) return run_(make, state_);
    return plain_ != nullptr ? plain_(make) : std::vector<Values>();
  }

 private:
  Plain plain_ = nullptr;
  std::vector<Values> (*run_)(SampleMaker&, const void*) = nullptr;
  const void* state_ = nullptr;
};

/// One argument of an op.
struct Argument {
  std::string name;
  /// Other names that a keyword may have: PyTorch's and the array API's.
  std::vector<std::string> aliases;
  ArgumentType type;
  /// It must be given.
  bool required = true;
  /// The default, and its text in the schema.
  Value default_value = {};
  std::string default_text;
  bool keyword_only = false;
  /// The rest of the positional arguments, or one list: reshape(2, 3) and reshape((2, 3)).
  bool variadic = false;
  /// The op may write into it.
  bool written = false;

  bool answers_to(std::string_view keyword) const;
};

/// A record's schema, parsed.
struct Signature {
  std::vector<Argument> arguments;
  /// Names of the results, where there are several.
  std::vector<std::string> results;
  /// "name(x, dim=-1, *, keepdim=False)"
  std::string text;

  /// The argument that the keyword names, or nullptr.
  const Argument* find(std::string_view keyword) const;
};

/// A pointwise op's plain functions, null where there is none; the comparisons have only `binary`.
struct PointwiseFunctions {
  Tensor (*unary)(const Operand& x) = nullptr;
  Tensor (*binary)(const Operand& a, const Operand& b) = nullptr;
  const Tensor& (*unary_in_place)(const Tensor& x, Location where) = nullptr;
  const Tensor& (*binary_in_place)(const Tensor& a, const Operand& b) = nullptr;
  const Tensor& (*unary_out)(const Tensor& out, const Operand& x) = nullptr;
  const Tensor& (*binary_out)(const Tensor& out, const Operand& a, const Operand& b) = nullptr;
};

/// The type in which an op computes in an autocast scope (autograd/autocast.hpp).
enum class Autocast : uint8_t {
  /// That of its operands.
  as_given,
  /// The 16-bit type.
  lower,
  /// f32, if an operand is f16 or bf16.
  full
};

/// Facts of an op, each of which a test compares with its behaviour. In a record `true` is an op with a gradient and no
/// other fact.
struct OpFacts {
  enum Reads { nothing, reads_values };
  constexpr OpFacts(bool differentiable_ = false, Autocast autocast_ = Autocast::as_given, Reads reads_ = nothing)
      : differentiable(differentiable_), autocast(autocast_), reads(reads_) {}
  constexpr OpFacts(bool differentiable_, Reads reads_) : OpFacts(differentiable_, Autocast::as_given, reads_) {}

  /// False for ops without a gradient: backward raises.
  bool differentiable;
  Autocast autocast;
  /// reads_values: shapes, numbers or the algorithm depend on elements, or elements are drawn on the host. Captured
  /// steps refuse some of its samples, and vmap calls it for each example.
  Reads reads;
};

class WholeCall;
struct Partition;
/// The inputs and results of a call on ranks that hold shards of the tensors.
using PartitionRule = Partition (*)(const WholeCall& call);

struct OpRecord {
  /// Public name: weft::name in C++ and in Python.
  const char* name;
  /// The only place where its names and defaults are given: "name(x, y|target, *sizes, *, keepdim=False) -> (values,
  /// indices)". `|` adds a second name, defaults are Python literals, `*sizes` takes the remaining positional
  /// arguments, `&weight` may be written, arguments after `*` are keyword-only, and multiple results have names. By
  /// convention the first tensor is also named `input` and `self`, `dim` and `dims` also `axis`, `dims` also `axes`,
  /// and `keepdim` also `keepdims`, unless another argument has the name. Types follow from the function's; where there
  /// is no function yet, as in schemas of registered ops (library.hpp), they are annotations: "axis: int = 0".
  const char* schema;
  /// Shapes, dtypes, aliasing and source, in sentences.
  const char* document;
  OpFacts facts;
  /// Dtypes of the tensor arguments that carry data: "floating", "numeric" (and integers), "any" (and bool).
  enum class Domain : uint8_t { floating, numeric, any } domain;
  /// Small argument lists that exercise the op, also used as cases by the parametrised tests and benchmarks.
  SampleFunction samples;
  /// How the op works on parts of its tensors (partition.hpp); null for registered ops that do not say.
  PartitionRule partition;
  BoxedFunction function;
  PointwiseFunctions pointwise = {};
  /// The function name_, which takes all or the first of the arguments and writes into the first; pointwise ops have
  /// theirs above.
  BoxedFunction in_place = {};
  /// The function name_out, which takes the target before the arguments; pointwise ops have theirs above. Python's
  /// `out` of the other ops is a copy of the result.
  BoxedFunction out = {};

  /// Calls the function, with defaults for arguments that are left out, at the end or as monostate. BadArgument for a
  /// value of a wrong kind, and where a required one is missing; else the op's own errors.
  WEFT_API Value call(std::span<const Value> arguments) const;
  /// Shapes and dtypes of the results of `call`. Runs the op on the device `meta`, without reading or allocating
  /// elements, so the result agrees with `call`. Raises the errors of `call` that do not depend on values;
  /// NotImplementedError if a shape depends on values.
  WEFT_API std::vector<TensorMeta> infer(std::span<const Value> arguments) const;
  /// The schema, parsed once; lives as long as the process.
  WEFT_API const Signature& signature() const;
};

/// A boxed call got a value of a kind that its argument does not take; `argument` counts from 0.
class WEFT_API BadArgument : public std::bad_variant_access {
 public:
  explicit BadArgument(int argument_) : argument(argument_) {}
  int argument;
};

/// All built-in ops, by family. all_ops() in library.hpp also has registered ops.
WEFT_API std::span<const OpRecord> op_records();
/// The current definition for calls by this name: a registered op, which may override a built-in one, or a built-in op.
/// Valid until the process ends. nullptr if there is none.
WEFT_API const OpRecord* find_record(const char* name);

namespace detail {

/// bool, DType and std::string, which are values themselves.
template <class T>
struct Unbox {
  static constexpr ArgumentType type{std::is_same_v<T, bool>    ? ArgumentType::Kind::boolean
                                     : std::is_same_v<T, DType> ? ArgumentType::Kind::dtype
                                                                : ArgumentType::Kind::text};
  static T from(const Value& v) { return std::get<T>(v); }
};
template <>
struct Unbox<Operand> {
  static constexpr ArgumentType type{ArgumentType::Kind::operand};
  static Operand from(const Value& v) {
    if (auto* t = std::get_if<Tensor>(&v)) return Operand(*t, detail::current_call.where);
    if (auto* i = std::get_if<int64_t>(&v)) return Operand(*i, detail::current_call.where);
    if (auto* b = std::get_if<bool>(&v)) return Operand(*b, detail::current_call.where);
    return Operand(std::get<double>(v), detail::current_call.where);
  }
};
// A 0-d tensor is read as its number. Throws bad_variant_access for a value that is not a number, or not an integer.
WEFT_API int64_t integer_in(const Value& v);
WEFT_API Scalar number_in(const Value& v);
/// One integer, or a list of them; none is an empty list.
WEFT_API Dims dims_in(const Value& v);

template <>
struct Unbox<Value> {
  static constexpr ArgumentType type{ArgumentType::Kind::any};
  static Value from(const Value& v) { return v; }
};
template <>
struct Unbox<Scalar> {
  static constexpr ArgumentType type{ArgumentType::Kind::number};
  static Scalar from(const Value& v) { return number_in(v); }
};
template <>
struct Unbox<double> {
  static constexpr ArgumentType type{ArgumentType::Kind::number};
  static double from(const Value& v) { return number_in(v).to<double>(); }
};
template <>
struct Unbox<int64_t> {
  static constexpr ArgumentType type{ArgumentType::Kind::integer};
  static int64_t from(const Value& v) { return integer_in(v); }
};
template <>
struct Unbox<int> {
  static constexpr ArgumentType type{ArgumentType::Kind::integer};
  static int from(const Value& v) {
    constexpr int64_t limit = std::numeric_limits<int>::max();
    return static_cast<int>(std::clamp(integer_in(v), -limit, limit));
  }
};
template <>
struct Unbox<Dims> {
  static constexpr ArgumentType type{ArgumentType::Kind::dims};
  static Dims from(const Value& v) { return std::holds_alternative<std::monostate>(v) ? Dims() : dims_in(v); }
};
template <class T>
struct Unbox<std::optional<T>> {
  static constexpr ArgumentType type{Unbox<T>::type.kind, true};
  static std::optional<T> from(const Value& v) {
    if (std::holds_alternative<std::monostate>(v)) return {};
    return Unbox<T>::from(v);
  }
};
template <>
struct Unbox<Tensor> {
  static constexpr ArgumentType type{ArgumentType::Kind::tensor};
  static Tensor from(const Value& v) {
    return std::holds_alternative<std::monostate>(v) ? Tensor() : std::get<Tensor>(v);
  }
};
template <>
struct Unbox<std::span<const Tensor>> {
  static constexpr ArgumentType type{ArgumentType::Kind::tensors};
  static std::span<const Tensor> from(const Value& v) { return std::get<std::vector<Tensor>>(v); }
};
template <>
struct Unbox<std::vector<Tensor>> {
  static constexpr ArgumentType type{ArgumentType::Kind::tensors};
  static const std::vector<Tensor>& from(const Value& v) { return std::get<std::vector<Tensor>>(v); }
};

template <>
struct Unbox<Device> {
  static constexpr ArgumentType type{ArgumentType::Kind::device};
  static Device from(const Value& v) { return Device(std::string_view(std::get<std::string>(v))); }
};
template <>
struct Unbox<Generator*> {
  static constexpr ArgumentType type{ArgumentType::Kind::generator};
  static Generator* from(const Value& v) {
    return std::holds_alternative<std::monostate>(v) ? nullptr : std::get<Generator*>(v);
  }
};
template <>
struct Unbox<Location> {
  static Location from(const Value&) { return detail::current_call.where; }
};

inline Value box(Tensor t) { return t; }
inline Value box(std::vector<Tensor> t) { return t; }
inline Value box(bool b) { return b; }
inline Value box(Value v) { return v; }

/// Argument `i` as a T; BadArgument where it is none.
template <class T>
T unboxed(const Value& v, size_t i) {
  try {
    return Unbox<T>::from(v);
  } catch (const std::bad_variant_access&) {
    throw BadArgument(static_cast<int>(i));
  }
}

template <class T>
T unbox(std::span<const Value> values, size_t i) {
  static const Value missing;
  return unboxed<T>(i < values.size() ? values[i] : missing, i);
}

template <class R, class... A, size_t... I>
Value call_boxed(R (*function)(A...), std::span<const Value> values, std::index_sequence<I...>) {
  return box(function(unbox<std::remove_cvref_t<A>>(values, I)...));
}

template <auto function>
Value run_boxed(std::span<const Value> values, const void*) {
  return []<class R, class... A>(R (*f)(A...), std::span<const Value> v) {
    return call_boxed(f, v, std::index_sequence_for<A...>());
  }(function, values);
}

/// The types of a function's arguments, without the place of the call, which comes last.
template <class R, class... A>
constexpr auto argument_types(R (*)(A...)) {
  constexpr size_t count = (size_t{0} + ... + (std::is_same_v<A, Location> ? 0 : 1));
  std::array<ArgumentType, count> types{};
  size_t i = 0;
  const auto add = [&]<class T>(std::type_identity<T>) {
    if constexpr (!std::is_same_v<T, Location>) types[i++] = Unbox<T>::type;
  };
  (add(std::type_identity<std::remove_cvref_t<A>>()), ...);
  return types;
}
template <auto function>
inline constexpr auto types_of = argument_types(static_cast<decltype(+function)>(function));

template <auto function>
inline constexpr BoxedFunction boxed = {run_boxed<function>, types_of<function>};

}  // namespace detail
}  // namespace weft
