#include "marshal.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "parameters.hpp"
#include "../kernel_row.hpp"
#include "../../tensor/error.hpp"

namespace weft::plugin {

static_assert(sizeof(WeftLayout) == sizeof(Layout) && sizeof(WeftView) == sizeof(View));
#define WEFT_SAME(part) static_assert(offsetof(WeftLayout, part) == offsetof(Layout, part))
WEFT_SAME(dtype);
WEFT_SAME(rank);
WEFT_SAME(contiguous);
WEFT_SAME(device_type);
WEFT_SAME(device_index);
WEFT_SAME(host_scalar);
WEFT_SAME(numel);
WEFT_SAME(sizes);
WEFT_SAME(strides);
#undef WEFT_SAME
static_assert(offsetof(WeftView, data) == offsetof(View, data) && offsetof(WeftView, layout) == offsetof(View, layout));
static_assert(WEFT_MAX_RANK == max_rank && WEFT_C128 == static_cast<int>(DType::c128));
static_assert(WEFT_BOOL == static_cast<int>(DType::boolean) && WEFT_F16 == static_cast<int>(DType::f16));

// ---- writing --------------------------------------------------------------------------------------------------------

CallWriter::CallWriter(const char* kernel, int written, const char* const* names) : written_(written), names_(names) {
  call_.size = sizeof call_;
  call_.kernel = kernel;
  call_.variant = -1;
}

void CallWriter::view(const View& view) {
  WeftView& copy = call_.view_count < near ? views_[static_cast<size_t>(call_.view_count)] : [&]() -> WeftView& {
    if (many_views_.empty()) many_views_.assign(views_.begin(), views_.end());
    return many_views_.emplace_back();
  }();
  std::memcpy(&copy, &view, sizeof copy);
  ++call_.view_count;
}

WeftAttribute& CallWriter::attribute(const char* name, int kind) {
  if (call_.attribute_count == near) raise<ValueError>({.problem = "a kernel has more than 16 attributes"});
  WeftAttribute& next = attributes_[static_cast<size_t>(call_.attribute_count++)];
  next = {name, kind, 1, {}};
  return next;
}

void CallWriter::number(const char* name, Scalar value) {
  switch (value.held_as()) {
    case DType::boolean:
      return number(name, value.to<bool>());
    case DType::u64:
      return number(name, value.to<uint64_t>());
    case DType::f64:
      return number(name, value.to<double>());
    default:
      return number(name, value.to<int64_t>());
  }
}

void CallWriter::list(const char* name, const int64_t* values, int count) {
  if (number_count_ + count > near_numbers) raise<ValueError>({.problem = "the lists of a kernel are too long"});
  int64_t* const to = numbers_.data() + number_count_;
  std::copy_n(values, count, to);
  number_count_ += count;
  WeftAttribute& next = attribute(name, WEFT_ATTRIBUTE_I64_LIST);
  next.count = count;
  next.value.i64s = to;
}

void CallWriter::list(const char* name, std::span<const double> values) {
  WeftAttribute& next = attribute(name, WEFT_ATTRIBUTE_F64_LIST);
  next.count = static_cast<int32_t>(values.size());
  next.value.f64s = values.data();
}

void CallWriter::list(const char* name, std::span<const int64_t> values) {
  WeftAttribute& next = attribute(name, WEFT_ATTRIBUTE_I64_LIST);
  next.count = static_cast<int32_t>(values.size());
  next.value.i64s = values.data();
}

const char* CallWriter::next_name() { return *names_ == nullptr ? "" : *names_++; }

WeftKernelCall& CallWriter::finish() {
  call_.output_count = std::min(written_, call_.view_count);
  call_.views = many_views_.empty() ? views_.data() : many_views_.data();
  call_.attributes = attributes_.data();
  return call_;
}

// ---- reading --------------------------------------------------------------------------------------------------------

void CallReader::misfit(const char* what) const {
  raise<ValueError>({.problem = fmt::format("a call does not fit the kernel {}: {}", call_.kernel, what)});
}

void CallReader::view(View& view) {
  if (views_ >= call_.view_count) misfit("it has too few views");
  const WeftView& from = call_.views[views_++];
  if (from.layout.rank > max_rank || from.layout.dtype >= dtype_count) misfit("a view has no such rank or dtype");
  std::memcpy(static_cast<void*>(&view), &from, sizeof view);
}

int CallReader::views_left(int, int most) const {
  const int left = call_.view_count - views_;
  if (left > most) misfit("it has too many views");
  return left;
}

int CallReader::variant(int count) {
  if (call_.variant < 0 || call_.variant >= count) misfit("it has no such variant");
  return call_.variant;
}

const WeftAttribute& CallReader::attribute() {
  if (attributes_ >= call_.attribute_count) misfit("it has too few attributes");
  return call_.attributes[attributes_++];
}

int64_t CallReader::whole() {
  const WeftAttribute& a = attribute();
  if (a.kind != WEFT_ATTRIBUTE_I64 && a.kind != WEFT_ATTRIBUTE_U64 && a.kind != WEFT_ATTRIBUTE_BOOL) {
    misfit("an attribute is no whole number");
  }
  return a.value.i64;
}

void CallReader::number(const char*, int& value) {
  const int64_t wide = whole();
  value = static_cast<int>(wide);
  if (value != wide) misfit("an attribute is too large");
}

void CallReader::number(const char*, double& value) {
  const WeftAttribute& a = attribute();
  if (a.kind != WEFT_ATTRIBUTE_F64) misfit("an attribute is no double");
  value = a.value.f64;
}

void CallReader::number(const char*, Scalar& value) {
  const WeftAttribute& a = attribute();
  switch (a.kind) {
    case WEFT_ATTRIBUTE_I64:
      value = a.value.i64;
      break;
    case WEFT_ATTRIBUTE_U64:
      value = a.value.u64;
      break;
    case WEFT_ATTRIBUTE_BOOL:
      value = a.value.i64 != 0;
      break;
    case WEFT_ATTRIBUTE_F64:
      value = a.value.f64;
      break;
    default:
      misfit("an attribute is no number");
  }
}

void CallReader::list(const char*, int64_t* values, int count) {
  const WeftAttribute& a = attribute();
  if (a.kind != WEFT_ATTRIBUTE_I64_LIST || a.count != count) misfit("a list has another length");
  std::copy_n(a.value.i64s, count, values);
}

void CallReader::list(const char*, std::span<const double>& values) {
  const WeftAttribute& a = attribute();
  if (a.kind != WEFT_ATTRIBUTE_F64_LIST || a.count < 0) misfit("an attribute is no list of doubles");
  values = {a.value.f64s, static_cast<size_t>(a.count)};
}

void CallReader::list(const char*, std::span<const int64_t>& values) {
  const WeftAttribute& a = attribute();
  if (a.kind != WEFT_ATTRIBUTE_I64_LIST || a.count < 0) misfit("an attribute is no list of integers");
  values = {a.value.i64s, static_cast<size_t>(a.count)};
}

void CallReader::finish() const {
  if (views_ != call_.view_count || attributes_ != call_.attribute_count) misfit("it has too many parts");
}

// ---- both, for every kernel -----------------------------------------------------------------------------------------

namespace {

/// A parameter that has room of its own.
template <class T>
struct StoredAs {
  using Type = std::remove_cvref_t<T>;
};
template <class Slot>
struct StoredAs<std::span<const Slot>> {
  using Type = std::vector<Slot>;
};

// Receives a listed call.
constinit thread_local const Callback<void(const WeftKernelCall&)>* listener = nullptr;

template <auto slot>
constexpr KernelRow row_of = KernelRow("()");
#define WEFT_KERNEL_ROW(result, name, devices, examples, parameters) \
  template <>                                                        \
  constexpr KernelRow row_of<&KernelTable::name> = KernelRow(#parameters);
#include "../kernel_rows.hpp"

template <auto slot>
struct Kernel;
template <class R, class... A, R (*KernelTable::*slot)(A...)>
struct Kernel<slot> {
  static_assert(row_of<slot>.count == sizeof...(A), "the parameters of a row were not read");
  /// Those that are numbers, and null.
  static constexpr auto names = [] {
    std::array<const char*, sizeof...(A) + 1> out{};
    constexpr bool is_number[] = {Number<std::remove_cvref_t<A>>...};
    size_t count = 0;
    for (size_t i = 0; i < sizeof...(A); ++i) {
      if (is_number[i]) out[count++] = row_of<slot>.parameters[i].name;
    }
    return out;
  }();
  /// gradients_follow says how many slots there are.
  static constexpr int written = row_of<slot>.outputs(0);

  template <const char* const& name>
  static R queue(A... arguments) {
    CallWriter writer(name, written, names.data());
    (describe(writer, arguments), ...);
    WeftKernelCall& call = writer.finish();
    if constexpr (std::is_void_v<R>) {
      run_call(call);
    } else {
      auto result = std::make_unique<R>();
      call.result = result.get();
      try {
        run_call(call);
      } catch (const DeviceError&) {
        result.release();  // a device that failed may still write there
        throw;
      }
      return *result;
    }
  }

  template <const char* const& name>
  static R list(A... arguments) {
    CallWriter writer(name, written, names.data());
    (describe(writer, arguments), ...);
    (*listener)(writer.finish());
    return R();
  }

  static void run_in(const KernelTable& row, const WeftKernelCall& call) {
    CallReader reader(call);
    std::tuple<typename StoredAs<A>::Type...> parameters;
    std::apply(
        [&](auto&... parameter) {
          (describe(reader, parameter), ...);
          reader.finish();
          const auto kernel = row.*slot;
          if (kernel == nullptr) {
            raise<NotImplementedError>({.problem = fmt::format("the device has no kernel {}", call.kernel)});
          }
          if constexpr (std::is_void_v<R>) {
            kernel(parameter...);
          } else {
            const R result = kernel(parameter...);
            if (call.result != nullptr) *call.result = result;
          }
        },
        parameters);
  }
};

using RunIn = void (*)(const KernelTable&, const WeftKernelCall&);

#define WEFT_KERNEL_ROW(result, name, ...) constexpr const char* name_of_##name = #name;
#include "../kernel_rows.hpp"

const std::unordered_map<std::string_view, RunIn>& run_functions() {
  static const auto* functions = new std::unordered_map<std::string_view, RunIn>{
#define WEFT_KERNEL_ROW(result, name, ...) {#name, &Kernel<&KernelTable::name>::run_in},
#include "../kernel_rows.hpp"
  };
  return *functions;
}

}  // namespace

void run_in(const KernelTable& row, const WeftKernelCall& call) {
  const auto found = call.kernel == nullptr ? run_functions().end() : run_functions().find(call.kernel);
  if (found == run_functions().end()) {
    raise<ValueError>({.problem = fmt::format("there is no kernel {}", call.kernel == nullptr ? "null" : call.kernel)});
  }
  found->second(row, call);
}

bool list_call(const KernelCall& call, const Callback<void(const WeftKernelCall&)>& tell) {
  if (call.call_in == nullptr) return false;
  static const KernelTable listing = [] {
    KernelTable row;
#define WEFT_KERNEL_ROW(result, name, ...) row.name = &Kernel<&KernelTable::name>::template list<name_of_##name>;
#include "../kernel_rows.hpp"
    return row;
  }();
  const struct Listening {
    explicit Listening(const Callback<void(const WeftKernelCall&)>& l) : outer(std::exchange(listener, &l)) {}
    ~Listening() { listener = outer; }
    const Callback<void(const WeftKernelCall&)>* outer;
  } listening(tell);
  call.call_in(listing, call.parameters);
  return true;
}

void fill_row(KernelTable& row, int32_t (*has_kernel)(const char*)) {
#define WEFT_KERNEL_ROW(result, name, ...) \
  row.name = has_kernel(#name) != 0 ? &Kernel<&KernelTable::name>::template queue<name_of_##name> : nullptr;
#include "../kernel_rows.hpp"
}

}  // namespace weft::plugin
