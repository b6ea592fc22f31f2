// From a kernel's host side to its launch: entry, plan and grid.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <initializer_list>
#include <string>
#include <utility>

#include "../../../tensor/atomic.hpp"
#include "accelerator.hpp"
#include "../plan.hpp"
#include "../../../tensor/dtype.hpp"
#include "../../../tensor/index_checks.hpp"
#include "../../../tensor/layout.hpp"

namespace weft::portable::host {

/// The number types that kernels compute in; u64 where order or division tells it from i64.
enum class Compute : uint8_t { f32, f64, i64, u64 };
inline constexpr int compute_count = 4;
inline Compute compute_of(DType t) {
  if (t == DType::f64) return Compute::f64;
  if (t == DType::u64) return Compute::u64;
  return is_floating(t) ? Compute::f32 : Compute::i64;
}
/// For kernels that only add and multiply.
inline Compute ring_of(DType t) { return t == DType::u64 ? Compute::i64 : compute_of(t); }
inline DType dtype_of(Compute c) {
  constexpr DType types[compute_count] = {DType::f32, DType::f64, DType::i64, DType::u64};
  return types[static_cast<int>(c)];
}

/// A kernel's name in each module that has it; handles are made at first use, for each device.
class Entry {
 public:
  constexpr Entry(KernelName name) : name_(name.name), first_(name.first) {}  // NOLINT: converts implicitly

  Kernel& on(Accelerator& device, Compute compute = Compute::f32) {
    Atomic<Kernel*>& known = known_[device.number() % remembered][static_cast<int>(compute)];
    Kernel* kernel = known.load(MemoryOrder::acquire);
    if (kernel != nullptr && device.number() < remembered) return *kernel;
    kernel = &device.find_kernel(module(compute), full_name(compute));
    if (device.number() < remembered) known.store(kernel, MemoryOrder::release);
    return *kernel;
  }

 private:
  static constexpr int remembered = 8;  // devices; a kernel for one beyond is looked up each time
  bool serves_any() const { return first_ >= Module::move_any; }
  Module module(Compute c) const {
    return serves_any() ? first_ : static_cast<Module>(static_cast<int>(first_) + static_cast<int>(c));
  }
  std::string full_name(Compute c) const {
    constexpr const char* suffixes[] = {"_f32", "_f64", "_i64", "_u64"};
    return std::string(name_) + (serves_any() ? "_any" : suffixes[static_cast<int>(c)]);
  }

  const char* name_;
  Module first_;
  Atomic<Kernel*> known_[remembered][compute_count] = {};
};

/// For a kernel's argument: a view of nothing may have any address.
inline void* address(const View& view) { return view.layout.numel == 0 ? nullptr : view.data; }

/// Arguments go by their bytes: pointers, plans and numbers as the kernel declares them.
template <class... A>
void launch(Accelerator& device, Kernel& kernel, const Grid& grid, const A&... arguments) {
  const Argument list[] = {{sizeof(A), &arguments}...};
  device.launch(kernel, grid, list, sizeof...(A));
}

/// For a kernel that reports indices out of range: with index_checks() they are raised here.
template <class... A>
void launch_indexing(Accelerator& device, Kernel& kernel, const Grid& grid, const A&... arguments) {
  launch(device, kernel, grid, arguments...);
  if (index_checks()) device.queue().synchronize();
}

/// Calls f(epsilon or the like) in the type that the kernel takes; integers stay as they are.
template <class F>
void in_compute_type(Compute compute, double value, F&& f) {
  if (compute == Compute::f64) f(value);
  else f(static_cast<float>(value));
}
template <class F>
void in_compute_type(Compute, int32_t value, F&& f) {
  f(value);
}

inline uint32_t groups_for(int64_t items, int64_t group) { return static_cast<uint32_t>((items + group - 1) / group); }

/// A work-item for each of `items`.
inline Grid item_grid(int64_t items) {
  constexpr uint32_t group = 256;
  return {{groups_for(items, group), 1, 1}, {group, 1, 1}};
}

/// Groups of 16 x 16 work-items, one for each of `tiles` and of `columns`; z continues x beyond its limit.
inline Grid tile_grid(int64_t tiles, int64_t columns = 1) {
  constexpr int64_t most = int64_t{1} << 30;
  return {{static_cast<uint32_t>(std::min(tiles, most)), static_cast<uint32_t>(columns), groups_for(tiles, most)},
          {16, 16, 1}};
}

/// Teams of work-items, several to a work-group: `lanes` of them share one row of `length` elements.
inline constexpr int max_team = 256;
inline Grid team_grid(const Accelerator& device, int64_t teams, int64_t length, bool by_columns = false) {
  const bool wide = device.simd_width() > 1;
  const int64_t per_lane = wide ? 4 : 64;
  // Lanes that run together must read neighbouring columns.
  const int64_t most = wide && by_columns ? std::max(max_team / device.simd_width(), 1) : max_team;
  const int64_t lanes = std::clamp<int64_t>(
      static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(length / per_lane, 1)))), 1, most);
  const int64_t wanted = !wide ? 1 : (by_columns ? max_team : 64);
  const int64_t together = std::max<int64_t>(wanted / lanes, 1);
  Grid grid;
  grid.groups = {groups_for(teams, together), 1, 1};
  const auto a = static_cast<uint32_t>(lanes), b = static_cast<uint32_t>(together);
  grid.group_size = by_columns ? std::array<uint32_t, 3>{b, a, 1} : std::array<uint32_t, 3>{a, b, 1};
  return grid;
}

// ---- plans ---------------------------------------------------------------------------------------------------------

/// Builds a walk from the innermost dimension outwards.
template <int N>
class WalkBuilder {
 public:
  WalkBuilder() { walk_ = {}, walk_.count = 1; }
  void add(int64_t size, const int64_t (&strides)[N]) {
    walk_.count *= size;
    if (size == 1) return;
    const int last = walk_.rank - 1;
    bool merges = last >= 0;
    for (int k = 0; merges && k < N; ++k) merges = strides[k] == walk_.strides[k][last] * walk_.sizes[last];
    if (merges) {
      walk_.sizes[last] *= size;
      return;
    }
    for (int k = 0; k < N; ++k) walk_.strides[k][walk_.rank] = strides[k];
    walk_.sizes[walk_.rank++] = size;
  }
  const portable::Walk<N>& get() const { return walk_; }

 private:
  portable::Walk<N> walk_;
};

/// Dimensions [begin, end) but `skip` of layouts with equal sizes.
template <int N>
portable::Walk<N> walk_of(const Layout* const (&layouts)[N], int begin, int end, int skip = -1) {
  WalkBuilder<N> builder;
  for (int d = end - 1; d >= begin; --d) {
    if (d == skip) continue;
    int64_t strides[N];
    for (int k = 0; k < N; ++k) strides[k] = layouts[k]->strides[d];
    builder.add(layouts[0]->sizes[d], strides);
  }
  return builder.get();
}

/// The rows along `dim` of views with equal sizes; a 0-d view is a row of one.
template <int N>
portable::Rows<N> rows_of(const View* const (&views)[N], int dim) {
  portable::Rows<N> rows = {};
  const Layout* layouts[N];
  for (int k = 0; k < N; ++k) {
    layouts[k] = &views[k]->layout;
    rows.step[k] = layouts[k]->rank == 0 ? 0 : layouts[k]->strides[dim];
    rows.dtype[k] = layouts[k]->dtype;
  }
  rows.length = layouts[0]->rank == 0 ? 1 : layouts[0]->sizes[dim];
  rows.walk = walk_of(layouts, 0, layouts[0]->rank, dim);
  return rows;
}

/// One of rank 2, or none where it has no data.
inline portable::Matrix matrix_of(const View& view) {
  portable::Matrix m = {};
  m.present = view.data != nullptr;
  if (!m.present) return m;
  m.dtype = view.layout.dtype;
  m.row = view.layout.strides[0];
  m.column = view.layout.strides[1];
  return m;
}

/// A contiguous matrix on the device of another view.
inline View matrix_on(const View& like, void* data, int64_t rows, int64_t columns, DType type) {
  View view = {data, like.layout};
  view.layout.dtype = type;
  set_contiguous(view.layout, std::array{rows, columns}, itemsize(type));
  view.layout.contiguous = 1;
  return view;
}
inline View transposed(View matrix) {
  std::swap(matrix.layout.sizes[0], matrix.layout.sizes[1]);
  std::swap(matrix.layout.strides[0], matrix.layout.strides[1]);
  matrix.layout.contiguous = 0;
  return matrix;
}

/// Raises DTypeError for a number type that the device lacks.
void require(Accelerator& device, Compute compute, const char* kernel, const View& view);

/// Of a kernel that takes f32 and f64 alone; raises DTypeError for others.
inline Compute wide_float(const char* kernel, const View& view) {
  const DType t = view.layout.dtype;
  if (t != DType::f32 && t != DType::f64) unsupported(kernel, view);
  require(device_of(view), compute_of(t), kernel, view);
  return compute_of(t);
}

inline bool is_computable(DType t) { return !is_storage_only(t) && !is_complex(t); }
inline bool is_computable_float(DType t) { return is_floating(t) && !is_storage_only(t); }

}  // namespace weft::portable::host
