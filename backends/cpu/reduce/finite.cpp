#include "../../watch/host_values.hpp"

#include <atomic>
#include <bit>
#include <cstdint>

#include "../../../tensor/layout.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {

namespace {

// A float is not finite where all bits of its exponent are set; a NaN has bits below them too.
template <class Bits>
struct Parts {
  Bits exponent, fraction;
};
template <class Bits>
bool any_non_finite(const Bits* p, int64_t n, Bits exponent) {
  constexpr int64_t block = 1024;  // a block is looked at without branches, so that the loop is a vector loop
  for (int64_t begin = 0; begin < n; begin += block) {
    const int64_t end = begin + block < n ? begin + block : n;
    Bits found = 0;
    for (int64_t i = begin; i < end; ++i) found |= static_cast<Bits>((p[i] & exponent) == exponent ? 1 : 0);
    if (found != 0) return true;
  }
  return false;
}

template <class Bits>
void classify(Bits bits, Parts<Bits> parts, NonFinite& found) {
  if ((bits & parts.exponent) != parts.exponent) return;
  if ((bits & parts.fraction) != 0) found.nan = true;
  else found.inf = true;
}

template <class Bits>
NonFinite scan_contiguous(const Bits* p, int64_t n, Parts<Bits> parts) {
  NonFinite found;
  if (!any_non_finite(p, n, parts.exponent)) return found;
  for (int64_t i = 0; i < n; ++i) classify(p[i], parts, found);
  return found;
}

template <class Bits>
void scan_strided(const Layout& layout, int dim, const char* p, Parts<Bits> parts, NonFinite& found) {
  if (dim == layout.rank) return classify(*reinterpret_cast<const Bits*>(p), parts, found);
  const int64_t n = layout.strides[dim] == 0 ? (layout.sizes[dim] != 0 ? 1 : 0) : layout.sizes[dim];
  for (int64_t i = 0; i < n; ++i) scan_strided(layout, dim + 1, p + i * layout.strides[dim], parts, found);
}

template <class Bits>
NonFinite find(const View& view, Parts<Bits> parts) {
  const Layout& layout = view.layout;
  NonFinite all;
  if (layout.host_scalar) {
    classify(*static_cast<const Bits*>(view.data), parts, all);
    return all;
  }
  if (!layout.contiguous) {
    scan_strided(layout, 0, static_cast<const char*>(view.data), parts, all);
    return all;
  }
  const auto* p = static_cast<const Bits*>(view.data);
  std::atomic<bool> nan = false, inf = false;
  parallel_for(layout.numel, 1 << 16, [&](int64_t begin, int64_t end) {
    const NonFinite part = scan_contiguous(p + begin, end - begin, parts);
    if (part.nan) nan.store(true, std::memory_order_relaxed);
    if (part.inf) inf.store(true, std::memory_order_relaxed);
  });
  return {nan, inf};
}

}  // namespace

NonFinite find_non_finite(const View& view) {
  switch (view.layout.dtype) {
    case DType::f16:
      return find<uint16_t>(view, {0x7C00, 0x03FF});
    case DType::bf16:
      return find<uint16_t>(view, {0x7F80, 0x007F});
    case DType::f32:
      return find<uint32_t>(view, {0x7F800000, 0x007FFFFF});
    case DType::f64:
      return find<uint64_t>(view, {0x7FF0000000000000, 0x000FFFFFFFFFFFFF});
    case DType::c64:
    case DType::c128: {
      const NonFinite re = find_non_finite(part_view(view, 0)), im = find_non_finite(part_view(view, 1));
      return {re.nan || im.nan, re.inf || im.inf};
    }
    default:
      return {};
  }
}

}  // namespace weft::cpu
