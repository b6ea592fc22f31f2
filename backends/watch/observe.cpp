#include "observe.hpp"
#include "recorded_kernel-inl.hpp"

#include <limits>
#include <mutex>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "../../tensor/atomic.hpp"

namespace weft {

KernelObserver::~KernelObserver() = default;

/// Installed observers, as lists of guards, newest first.
struct ObserverLists {
  static constinit thread_local ObserverGuard* thread;
  // A kernel that an observer calls is not observed.
  static constinit thread_local bool inside;
  static Atomic<ObserverGuard*> process;
  static std::mutex mutex;
  static int installed;

  static bool anybody() { return !inside && (thread != nullptr || process.load(MemoryOrder::acquire) != nullptr); }

  struct Inside {
    Inside() { inside = true; }
    ~Inside() { inside = false; }
  };

  template <class F>
  static void each(const F& tell) {
    const Inside scope;
    const OutsideCalls users_code;
    for (ObserverGuard* g = thread; g != nullptr; g = g->outer_) tell(*g->observer_);
    for (ObserverGuard* g = process.load(MemoryOrder::acquire); g != nullptr; g = g->outer_) tell(*g->observer_);
  }
};

constinit thread_local ObserverGuard* ObserverLists::thread = nullptr;
constinit thread_local bool ObserverLists::inside = false;
constinit Atomic<ObserverGuard*> ObserverLists::process = nullptr;
constinit std::mutex ObserverLists::mutex;
constinit int ObserverLists::installed = 0;

namespace {
constinit thread_local const KernelScope* current_scope = nullptr;
constinit thread_local int64_t scopes = 0;
}  // namespace

KernelScope::KernelScope(const char* op_, Location where_, bool recorded_)
    : op(op_), where(detail::place_of(where_)), recorded(recorded_), number(++scopes), outer_(current_scope) {
  current_scope = this;
}
KernelScope::~KernelScope() { current_scope = outer_; }

namespace {

// The views of a call in order, most of them on the stack.
struct Views {
  static constexpr int few = 16;
  const View* small[few];
  std::vector<const View*> many;
  int count = 0, outputs = 0;

  void add(const View& view, bool written) {
    if (view.data == nullptr && view.layout.device_type != DeviceType::meta) return;
    if (count < few) small[count] = &view;
    else {
      if (many.empty()) many.assign(small, small + few);
      many.push_back(&view);
    }
    ++count;
    outputs += written ? 1 : 0;
  }
  const View* const* data() const { return many.empty() ? small : many.data(); }
};

struct Collector {
  Views& views;
  int outputs_left;
  int variant = -1;
  const View* first = nullptr;

  void operator()(const View& view) {
    if (first == nullptr) first = &view;
    views.add(view, outputs_left-- > 0);
  }
  void operator()(const IndexPlan& plan) {
    for (int i = 0; i < plan.count; ++i) views.add(plan.indices[i], false);
  }
  void operator()(const AttentionPlan& plan) {
    for (const View* v : {&plan.slopes, &plan.sequences, &plan.blocks}) views.add(*v, false);
  }
  void operator()(std::span<const OptimizerSlot> slots) {
    for (const OptimizerSlot& s : slots) {
      (*this)(s.parameter);
      for (const View& v : s.state) (*this)(v);
    }
    outputs_left = 0;
    for (const OptimizerSlot& s : slots) (*this)(s.gradient);
  }
  template <class T>
  void operator()(const T& value) {
    if constexpr (std::is_enum_v<T>) {
      if (first == nullptr) variant = static_cast<int>(value);
    }
  }
};

// The view that says which device a call is for: the first that is there, as an absent one names the CPU.
struct Leader {
  const View* view = nullptr;

  void operator()(const View& v) {
    const bool leads = v.data != nullptr && v.layout.host_scalar == 0;
    const bool led = view != nullptr && view->data != nullptr && view->layout.host_scalar == 0;
    if (view == nullptr || (leads && !led)) view = &v;
  }
  void operator()(std::span<const OptimizerSlot> slots) { (*this)(slots[0].parameter); }
  template <class T>
  void operator()(const T&) {}
};
template <class... A>
const Layout& leading_layout(const A&... arguments) {
  Leader leader;
  (leader(arguments), ...);
  return leader.view->layout;
}

template <auto slot>
constexpr const char* kernel_name = nullptr;
#define WEFT_KERNEL_ROW(result, name, ...) \
  template <>                              \
  constexpr const char* kernel_name<&KernelTable::name> = #name;
#include "../kernel_rows.hpp"

constinit thread_local bool failed_after = false;

void tell_after(const KernelCall& about) {
  failed_after = true;
  ObserverLists::each([&](KernelObserver& observer) { observer.after(about); });
  failed_after = false;
}

// The table's rows while observers are installed.
template <auto slot>
struct Watched;
template <class R, class... A, R (*KernelTable::*slot)(A...)>
struct Watched<slot> {
  static constexpr const char* kernel = kernel_name<slot>;

  static R call(A... arguments) {
    const DeviceType device = leading_layout(arguments...).device_type;
    const auto own = kernel_tables[static_cast<int>(device)].*slot;
    if (detail::capture_recorder != nullptr) return keep(device, own, arguments...);
    if (!ObserverLists::anybody()) return own(arguments...);
    return tell(own, arguments...);
  }

  [[gnu::noinline]] static R keep(DeviceType device, R (*own)(A...), A... arguments) {
    if constexpr (std::is_void_v<R>) {
      detail::kernel_recorder().record(std::make_unique<KeptCall<slot>>(kernel, device, arguments...));
    } else {
      detail::capture_recorder->refuse("a shape follows from values");
    }
    const detail::UnrecordedScope unrecorded;
    return ObserverLists::anybody() ? tell(own, arguments...) : own(arguments...);
  }

  static void call_in(const KernelTable& row, const void* parameters) {
    std::apply(row.*slot, *static_cast<const std::tuple<A&...>*>(parameters));
  }

  [[gnu::noinline]] static R tell(R (*own)(A...), A... arguments) {
    Views views;
    Collector collect{views, output_count(kernel)};
    (collect(arguments), ...);
    const Layout& layout = leading_layout(arguments...);
    const size_t outputs = static_cast<size_t>(views.outputs);
    const std::tuple<A&...> parameters(arguments...);
    const KernelCall about{kernel,
                           collect.variant,
                           detail::current_call.op,
                           detail::current_call.where,
                           {views.data(), outputs},
                           {views.data() + outputs, static_cast<size_t>(views.count) - outputs},
                           Device(layout.device_type, layout.device_index),
                           current_scope,
                           detail::current_call.entry,
                           call_in,
                           &parameters};
    failed_after = false;
    ObserverLists::each([&](KernelObserver& observer) { observer.before(about); });
    if constexpr (std::is_void_v<R>) {
      own(arguments...);
      tell_after(about);
    } else {
      const R result = own(arguments...);
      tell_after(about);
      return result;
    }
  }
};

KernelTable watched_tables[device_type_count];

// A pointer is written once, before anybody goes by its row: other threads may still be reading rows that were left.
void watch_kernels() {
  for (int device = 0; device < device_type_count; ++device) {
    KernelTable& row = watched_tables[device];
#define WEFT_KERNEL_ROW(result, name, ...) \
  if (row.name == nullptr && kernel_tables[device].name != nullptr) row.name = &Watched<&KernelTable::name>::call;
#include "../kernel_rows.hpp"
    detail::active_tables[device].store(&row, MemoryOrder::release);
  }
}

void unwatch_kernels() {
  for (int device = 0; device < device_type_count; ++device) {
    detail::active_tables[device].store(&kernel_tables[device], MemoryOrder::release);
  }
}

}  // namespace

RecordedKernel::~RecordedKernel() = default;

bool put_first(Layout& layout, int64_t size, int64_t stride) {
  if (layout.rank == max_rank) return false;
  std::copy_backward(layout.sizes, layout.sizes + layout.rank, layout.sizes + layout.rank + 1);
  std::copy_backward(layout.strides, layout.strides + layout.rank, layout.strides + layout.rank + 1);
  layout.sizes[0] = size;
  layout.strides[0] = stride;
  ++layout.rank;
  finish_layout(layout);
  return true;
}

bool put_along(Layout& layout, int dim, int64_t count, int64_t step) {
  if (layout.rank <= dim) return false;
  if (layout.sizes[dim] == 1) layout.strides[dim] = step;
  else if (step != layout.sizes[dim] * layout.strides[dim]) return false;
  layout.sizes[dim] *= count;
  finish_layout(layout);
  return true;
}

namespace detail {

RecordingScope::RecordingScope(KernelRecorder& recorder) {
  const std::lock_guard lock(ObserverLists::mutex);
  if (ObserverLists::installed++ == 0) watch_kernels();
  capture_recorder = &recorder;
}
RecordingScope::~RecordingScope() {
  capture_recorder = nullptr;
  const std::lock_guard lock(ObserverLists::mutex);
  if (--ObserverLists::installed == 0) unwatch_kernels();
}

void CallBytes::add(const Layout& layout) {
  add(layout.dtype), add(layout.rank), add(layout.device_type), add(layout.device_index), add(layout.host_scalar);
  for (int d = 0; d < layout.rank; ++d) add(layout.sizes[d]), add(layout.strides[d]);
}

}  // namespace detail

ObserverGuard::ObserverGuard(KernelObserver& observer, ObserverScope scope) : observer_(&observer), scope_(scope) {
  std::lock_guard lock(ObserverLists::mutex);
  if (ObserverLists::installed++ == 0) watch_kernels();
  if (scope == ObserverScope::thread) {
    outer_ = std::exchange(ObserverLists::thread, this);
  } else {
    outer_ = ObserverLists::process.load(MemoryOrder::relaxed);
    ObserverLists::process.store(this, MemoryOrder::release);
  }
}

ObserverGuard::~ObserverGuard() {
  std::lock_guard lock(ObserverLists::mutex);
  if (scope_ == ObserverScope::thread) {
    ObserverGuard** place = &ObserverLists::thread;
    while (*place != this) place = &(*place)->outer_;
    *place = outer_;
  } else if (ObserverGuard* newest = ObserverLists::process.load(MemoryOrder::relaxed); newest == this) {
    ObserverLists::process.store(outer_, MemoryOrder::release);
  } else {
    while (newest->outer_ != this) newest = newest->outer_;
    newest->outer_ = outer_;
  }
  if (--ObserverLists::installed == 0) unwatch_kernels();
}

bool detail::kernels_are_observed() { return ObserverLists::anybody(); }

namespace {

KernelCall about(const char* kernel, Device device, Views& views, std::span<const View* const> outputs,
                 std::span<const View* const> inputs) {
  for (const View* v : outputs) views.add(*v, true);
  for (const View* v : inputs) views.add(*v, false);
  const auto written = static_cast<size_t>(views.outputs);
  return {kernel,
          -1,
          detail::current_call.op,
          detail::current_call.where,
          {views.data(), written},
          {views.data() + written, static_cast<size_t>(views.count) - written},
          device,
          current_scope,
          detail::current_call.entry};
}

void tell_before(const KernelCall& call) {
  failed_after = false;
  ObserverLists::each([&](KernelObserver& observer) { observer.before(call); });
}

}  // namespace

void detail::run_observed(const char* kernel, std::span<const View* const> outputs, std::span<const View* const> inputs,
                          const Callback<void()>& run) {
  Views views;
  const Layout& layout = outputs[0]->layout;
  const KernelCall call = about(kernel, Device(layout.device_type, layout.device_index), views, outputs, inputs);
  tell_before(call);
  run();
  tell_after(call);
}

void detail::run_observed(const char* kernel, Device device, std::span<const View* const> inputs,
                          const Callback<std::span<const View* const>()>& run) {
  Views before, after;
  tell_before(about(kernel, device, before, {}, inputs));
  std::span<const View* const> outputs;
  {
    const ObserverLists::Inside unobserved;
    outputs = run();
  }
  tell_after(about(kernel, device, after, outputs, inputs));
}

bool detail::failed_after_kernel() { return std::exchange(failed_after, false); }

void detail::observe_new_kernels() {
  std::lock_guard lock(ObserverLists::mutex);
  if (ObserverLists::installed != 0) watch_kernels();
}

}  // namespace weft
