// Images read between their elements: each place takes from the corners of the cell around it.
#include "../simd/simd_targets.hpp"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "weft/backends/cpu/index/sample.cpp"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "crowd.hpp"
#include "../kernels.hpp"
#include "../lines.hpp"
#include "../simd/lanes-inl.hpp"
#include "../thread_pool.hpp"

HWY_BEFORE_NAMESPACE();
namespace weft::cpu::HWY_NAMESPACE {
namespace {

constexpr int64_t block = 512;
constexpr int most_corners = 8;

/// The corners around up to `block` places: index -1 is outside.
template <class T>
struct Corners {
  using Index = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;
  alignas(64) Index index[most_corners][block];
  alignas(64) T weight[most_corners][block];
  /// How each weight changes with the place along each dimension.
  alignas(64) T slope[3][most_corners][block];
};

struct Image {
  int rank;
  int64_t images, channels, places, size = 1, sizes[3];

  Image(const View& x, const View& at) : rank(static_cast<int>(at.layout.sizes[0])) {
    images = x.layout.sizes[0];
    channels = x.layout.sizes[1];
    places = at.layout.sizes[2];
    for (int d = 0; d < rank; ++d) size *= sizes[d] = x.layout.sizes[2 + d];
  }
  int corners() const { return 1 << rank; }
};

template <class D>
HWY_INLINE hn::Vec<D> times(D d, hn::Vec<D> x, hn::TFromD<D> factor) {
  if constexpr (sizeof(hn::TFromD<D>) == 4) {
    return hn::Mul(x, hn::Set(d, factor));
  } else {  // of numbers below 2^31, which f64 multiplies exactly
    const hn::RebindToFloat<D> real;
    return hn::ConvertTo(d, hn::Mul(hn::ConvertTo(real, x), hn::Set(real, static_cast<double>(factor))));
  }
}

/// Places behind the last one are outside.
template <int rank, bool with_slopes, class T>
HWY_ATTR void find_corners_of(const Image& s, const T* at, int64_t image, int64_t first, int64_t count, Corners<T>& c) {
  const hn::ScalableTag<T> d;
  const hn::RebindToSigned<decltype(d)> di;
  using Index = typename Corners<T>::Index;
  const int64_t width = static_cast<int64_t>(hn::Lanes(d));
  const auto one = hn::Set(d, T(1));
  for (int64_t p = 0; p < count; p += width) {
    hn::Vec<decltype(di)> low[rank];
    hn::Vec<decltype(d)> part[rank][2];
    hn::Mask<decltype(di)> in[rank][2];
    for (int i = 0; i < rank; ++i) {
      const T* const from = at + (i * s.images + image) * s.places + first + p;
      auto place = hn::Set(d, T(-2));
      if (p + width <= count) {
        place = hn::LoadU(d, from);
      } else {
        alignas(64) T rest[64 / sizeof(T)];
        hn::Store(place, d, rest);
        std::copy_n(from, count - p, rest);
        place = hn::Load(d, rest);
      }
      const auto size = hn::Set(di, static_cast<Index>(s.sizes[i]));
      const auto near = hn::And(hn::Ge(place, hn::Set(d, T(-1))), hn::Lt(place, hn::ConvertTo(d, size)));
      const auto floor = hn::IfThenElse(near, hn::Floor(place), hn::Set(d, T(-2)));
      low[i] = hn::ConvertTo(di, floor);
      part[i][1] = hn::IfThenElseZero(near, hn::Sub(place, floor));
      part[i][0] = hn::Sub(one, part[i][1]);
      in[i][0] = hn::And(hn::Gt(low[i], hn::Set(di, -1)), hn::Lt(low[i], size));
      in[i][1] = hn::And(hn::Gt(low[i], hn::Set(di, -2)), hn::Lt(hn::Add(low[i], hn::Set(di, 1)), size));
    }
    for (int k = 0; k < 1 << rank; ++k) {
      auto index = hn::Zero(di);
      auto weight = one;
      auto inside = in[0][k & 1];
      Index apart = 1;
      for (int i = rank - 1; i >= 0; --i) {
        const int high = k >> i & 1;
        const auto here = hn::Add(low[i], hn::Set(di, static_cast<Index>(high)));
        index = hn::Add(index, times(di, here, apart));
        apart = static_cast<Index>(apart * s.sizes[i]);
        inside = hn::And(inside, in[i][high]);
      }
      for (int i = 0; i < rank; ++i) weight = hn::Mul(weight, part[i][k >> i & 1]);
      hn::Store(hn::IfThenElse(inside, index, hn::Set(di, -1)), di, c.index[k] + p);
      hn::Store(weight, d, c.weight[k] + p);
      for (int i = 0; with_slopes && i < rank; ++i) {
        auto slope = hn::Set(d, (k >> i & 1) != 0 ? T(1) : T(-1));
        for (int j = 0; j < rank; ++j) {
          if (j != i) slope = hn::Mul(slope, part[j][k >> j & 1]);
        }
        hn::Store(slope, d, c.slope[i][k] + p);
      }
    }
  }
}
template <bool with_slopes, class T>
void find_corners(const Image& s, const T* at, int64_t image, int64_t first, int64_t count, Corners<T>& c) {
  if (s.rank == 2) find_corners_of<2, with_slopes>(s, at, image, first, count, c);
  else find_corners_of<3, with_slopes>(s, at, image, first, count, c);
}

template <class T>
void sample(const View& out, const View& x, const View& at) {
  const Image s(x, at);
  const int64_t blocks = (s.places + block - 1) / block;
  parallel_for(s.images * blocks, 1, [&](int64_t from, int64_t to) HWY_ATTR {
    const Scratch memory(sizeof(Corners<T>));
    auto& c = *memory.as<Corners<T>>();
    using D = hn::ScalableTag<T>;
    const D d;
    const hn::RebindToSigned<D> di;
    const int64_t width = static_cast<int64_t>(hn::Lanes(d));
    for (int64_t task = from; task < to; ++task) {
      const int64_t image = task / blocks, first = task % blocks * block, count = std::min(block, s.places - first);
      find_corners<false>(s, static_cast<const T*>(at.data), image, first, count, c);
      for (int64_t channel = 0; channel < s.channels; ++channel) {
        const T* const plane = static_cast<const T*>(x.data) + (image * s.channels + channel) * s.size;
        T* const line = static_cast<T*>(out.data) + (image * s.channels + channel) * s.places + first;
        for (int64_t p = 0; p < count; p += width) {
          auto sum = hn::Zero(d);
          for (int k = 0; k < s.corners(); ++k) {
            const auto index = hn::Load(di, c.index[k] + p);
            const auto inside = hn::RebindMask(d, hn::Gt(index, hn::Set(di, -1)));
            const auto found = hn::GatherIndex(d, plane, hn::Max(index, hn::Zero(di)));
            sum = hn::Add(sum, hn::IfThenElseZero(inside, hn::Mul(found, hn::Load(d, c.weight[k] + p))));
          }
          if (p + width <= count) {
            hn::StoreU(sum, d, line + p);
          } else {
            alignas(64) T rest[64 / sizeof(T)];
            hn::Store(sum, d, rest);
            std::copy_n(rest, count - p, line + p);
          }
        }
      }
    }
  });
}

/// Whether an element may get many terms.
template <class T>
bool is_crowded(const Image& s, const T* at, int64_t image) {
  if (s.places <= few_terms) return false;
  CrowdSample sample(s.places);
  while (sample.next() < s.places) {
    const int64_t place = sample.next();
    int64_t element = 0;
    bool inside = true;
    for (int d = 0; d < s.rank; ++d) {
      const T x = at[(d * s.images + image) * s.places + place];
      inside = inside && x > T(-1) && x < static_cast<T>(s.sizes[d]);
      element = element * s.sizes[d] + (inside ? static_cast<int64_t>(std::floor(x)) : 0);
    }
    sample.count(inside ? element : ~place);
  }
  return sample.is_crowded();
}

/// sums[index[p]] += incoming[p] * weight[p].
template <class T, class Sum, class Index>
void add_corner(Sum* sums, const Index* index, const T* incoming, const T* weight, int64_t count) {
  for (int64_t p = 0; p < count; ++p) {
    if (index[p] >= 0) sums[index[p]] += static_cast<Sum>(incoming[p] * weight[p]);
  }
}

/// An image's channels are added in a fixed order. Sums of many terms are carried in double.
template <class T>
void sample_gradient(const View& dx, const View& dat, const View& g, const View& x, const View& at) {
  const Image s(x, at);
  parallel_for(s.images, 1, [&](int64_t from, int64_t to) {
    const Scratch memory(sizeof(Corners<T>));
    auto& c = *memory.as<Corners<T>>();
    for (int64_t image = from; image < to; ++image) {
      T* const to_image = static_cast<T*>(dx.data) + image * s.channels * s.size;
      const int64_t elements = s.channels * s.size;
      const bool crowded = sizeof(T) == 4 && dx.data != nullptr && is_crowded(s, static_cast<const T*>(at.data), image);
      const Scratch wide(elements * static_cast<int64_t>(sizeof(double)), crowded);
      if (crowded) std::fill_n(wide.as<double>(), elements, 0.0);
      else if (dx.data != nullptr) std::fill_n(to_image, elements, T(0));
      for (int64_t first = 0; first < s.places; first += block) {
        const int64_t count = std::min(block, s.places - first);
        find_corners<true>(s, static_cast<const T*>(at.data), image, first, count, c);
        for (int d = 0; d < s.rank && dat.data != nullptr; ++d) {
          std::fill_n(static_cast<T*>(dat.data) + (d * s.images + image) * s.places + first, count, T(0));
        }
        for (int64_t channel = 0; channel < s.channels; ++channel) {
          const int64_t plane = image * s.channels + channel;
          const T* const incoming = static_cast<const T*>(g.data) + plane * s.places + first;
          const T* const values = static_cast<const T*>(x.data) + plane * s.size;
          for (int k = 0; k < s.corners(); ++k) {
            const int64_t start = channel * s.size;
            if (crowded) add_corner(wide.as<double>() + start, c.index[k], incoming, c.weight[k], count);
            else if (dx.data != nullptr) add_corner(to_image + start, c.index[k], incoming, c.weight[k], count);
            for (int64_t p = 0; p < count && dat.data != nullptr; ++p) {
              const int64_t index = c.index[k][p];
              if (index < 0) continue;
              for (int d = 0; d < s.rank; ++d) {
                static_cast<T*>(dat.data)[(d * s.images + image) * s.places + first + p] +=
                    incoming[p] * values[index] * c.slope[d][k][p];
              }
            }
          }
        }
      }
      for (int64_t i = 0; crowded && i < elements; ++i) to_image[i] = static_cast<T>(wide.as<double>()[i]);
    }
  });
}

void sample_any(const View& out, const View& x, const View& at) {
  if (x.layout.dtype == DType::f32) sample<float>(out, x, at);
  else sample<double>(out, x, at);
}
void sample_gradient_any(const View& dx, const View& dat, const View& g, const View& x, const View& at) {
  if (x.layout.dtype == DType::f32) sample_gradient<float>(dx, dat, g, x, at);
  else sample_gradient<double>(dx, dat, g, x, at);
}

}  // namespace
}  // namespace weft::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace weft::cpu {
HWY_EXPORT(sample_any);
HWY_EXPORT(sample_gradient_any);

void sample_linear(const View& out, const View& x, const View& places) {
  if (x.layout.dtype != DType::f32 && x.layout.dtype != DType::f64) unsupported("sample_linear", x);
  HWY_DYNAMIC_DISPATCH(sample_any)(out, x, places);
}
void sample_linear_gradient(const View& dx, const View& dplaces, const View& g, const View& x, const View& places) {
  if (x.layout.dtype != DType::f32 && x.layout.dtype != DType::f64) unsupported("sample_linear_gradient", x);
  HWY_DYNAMIC_DISPATCH(sample_gradient_any)(dx, dplaces, g, x, places);
}

}  // namespace weft::cpu
#endif
