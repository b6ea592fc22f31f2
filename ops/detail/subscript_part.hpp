// Reading and writing the selected part, recorded. A part is a Region (read as a view), a Selection or a MaskSelection
// (read as copies); every backward is the same for all three. Not public.
#pragma once

#include "../../autograd/from_ops.hpp"
#include "promote.hpp"
#include "reuse.hpp"
#include "subscript.hpp"
#include "write.hpp"

namespace weft {

// ---- unrecorded: views and kernels ----
Tensor read_part(const Tensor& x, const Region& part);
Tensor read_part(const Tensor& x, const Selection& part);
Tensor read_part(const Tensor& x, const MaskSelection& part);
/// `values` broadcasts to the part, has x's dtype and device (a region also takes any dtype, and a 0-d CPU tensor), and
/// shares no memory with x.
void write_part(const Tensor& x, const Region& part, const Tensor& values, bool add);
void write_part(const Tensor& x, const Selection& part, const Tensor& values, bool add);
void write_part(const Tensor& x, const MaskSelection& part, const Tensor& values, bool add);

// ---- saved indices of a part: index tensors with their versions ----
struct SavedRegion {
  Region region;
  explicit SavedRegion(const Region& part) : region(part) {}
  const Region& get(const Node&) const { return region; }
  const Dims& whole() const { return region.whole; }
};
struct SavedSelection {
  Region region;
  AdvancedIndices advanced;
  Saved index[max_rank];
  explicit SavedSelection(const Selection& part) : region(part.region), advanced(part.advanced) {
    for (int k = 0; k < advanced.count; ++k) index[k] = Saved(part.index[k]);
  }
  Selection get(const Node& self) const {
    Selection part{region, advanced, {}};
    for (int k = 0; k < advanced.count; ++k) part.index[k] = index[k].get(self);
    return part;
  }
  const Dims& whole() const { return region.whole; }
};
struct SavedMask {
  Saved mask;
  Dims shape;
  int64_t count;
  explicit SavedMask(const MaskSelection& part) : mask(part.mask), shape(part.mask.shape()), count(part.count) {}
  MaskSelection get(const Node& self) const { return {mask.get(self), count}; }
  const Dims& whole() const { return shape; }
};
inline SavedRegion saved(const Region& part) { return SavedRegion(part); }
inline SavedSelection saved(const Selection& part) { return SavedSelection(part); }
inline SavedMask saved(const MaskSelection& part) { return SavedMask(part); }
template <class Part>
using SavedPart = decltype(saved(std::declval<const Part&>()));

inline Dims shape_of(const Selection& part) { return part.shape(); }
inline Dims shape_of(const MaskSelection& part) { return part.shape(); }

/// `values` of the part's shape, 0 where a later position is the same element. Recorded.
inline Tensor of_last_positions(Tensor&& values, const Region&) { return std::move(values); }
inline Tensor of_last_positions(Tensor&& values, const MaskSelection&) { return std::move(values); }
Tensor of_last_positions(Tensor&& values, const Selection& part);

/// x, or a contiguous copy where an index spans several dimensions that cannot be merged.
inline const Tensor& with_mergeable_dims(const Tensor& x, const Region&) { return x; }
inline const Tensor& with_mergeable_dims(const Tensor& x, const MaskSelection&) { return x; }
inline Tensor with_mergeable_dims(const Tensor& x, const Selection& part) {
  for (int k = 0; k < part.advanced.count; ++k) {
    if (!merged_stride(x.raw_view().layout, part.advanced.dim[k], part.advanced.span[k])) return x.contiguous();
  }
  return x;
}

// ---- recorded ----

template <class Part>
Tensor read_recorded(const Tensor& x, const Part& part);
/// Zeros with `values` added at the part.
template <class Part>
Tensor placed(const Part& part, const Dims& whole, const Tensor& values);
/// x with zeros at the part; may reuse x's memory.
template <class Part>
Tensor erased(const Part& part, Tensor&& x);

template <class Part>
struct ReadBackward {
  SavedPart<Part> part;
  Tensor operator()(Node& self, Tensor&& g) { return placed(part.get(self), part.whole(), g); }
  void add_to(Node& self, const Tensor& sum, Tensor&& g) { write_part(sum, part.get(self), g, true); }
};
template <class Part>
struct PlaceBackward {
  SavedPart<Part> part;
  Tensor operator()(Node& self, Tensor&& g) { return read_recorded(g, part.get(self)); }
};
template <class Part>
struct EraseBackward {
  SavedPart<Part> part;
  Tensor operator()(Node& self, Tensor&& g) { return erased(part.get(self), std::move(g)); }
};
/// The gradients of x and of the values after x[part] = values, or += with `add`.
template <class Part>
struct WriteBackward {
  SavedPart<Part> part;
  bool add;
  Dims shape;
  DType dtype;
  Device device;

  WriteBackward(const Part& part_, bool add_, const Tensor& values)
      : part(saved(part_)), add(add_), shape(values.shape()), dtype(values.dtype()), device(values.device()) {}

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const auto& now = part.get(self);
    Tensor g = std::move(incoming[0]);
    if (self.wants(1)) {  // before g is changed
      Tensor read = read_recorded(g, now);
      if (!add) read = of_last_positions(std::move(read), now);
      Tensor of_values = unbroadcast(std::move(read), shape, dtype, device);
      const bool shared = self.wants(0) && !add && of_values.shares_storage(g);
      outgoing[1] = shared ? of_values.clone() : std::move(of_values);
    }
    if (self.wants(0)) outgoing[0] = add ? std::move(g) : erased(now, std::move(g));
  }
};

template <class Part>
Tensor read_recorded(const Tensor& x, const Part& part) {
  const auto& from = with_mergeable_dims(x, part);
  Tensor out = read_part(from, part);
  if (should_record(from)) record(out, ReadBackward<Part>{saved(part)}, from);
  return out;
}

template <class Part>
Tensor placed(const Part& part, const Dims& whole, const Tensor& values) {
  Tensor out = make(whole, values.dtype(), values.device());
  WEFT_KERNEL(fill, out)(out.raw_view(), Scalar(0));
  constexpr bool repeats = std::is_same_v<Part, Selection>;
  write_part(out, part, values, repeats);
  if (should_record(values)) record(out, PlaceBackward<Part>{saved(part)}, values);
  return out;
}

template <class Part>
Tensor erased(const Part& part, Tensor&& x) {
  const bool recorded = should_record(x);
  const bool reuse = !recorded && can_reuse_as_result(x);
  Tensor out = reuse ? as_result(std::move(x)) : make_like(x);
  if (!reuse) WEFT_KERNEL(copy, out)(out.raw_view(), x.raw_view());
  const Tensor zero = detail::zeros_unrecorded({}, out.dtype(), out.device());
  write_part(out, part, zero, false);
  if (recorded) record(out, EraseBackward<Part>{saved(part)}, x);
  return out;
}

}  // namespace weft
