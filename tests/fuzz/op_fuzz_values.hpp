// Arguments for ops that nobody would write: memory layouts, dtypes, sizes and numbers at their ends.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <sstream>
#include <string>

#include <weft/ops/complex.hpp>
#include <weft/ops/create.hpp>
#include <weft/ops/record.hpp>
#include <weft/tensor/layout.hpp>

namespace weft::fuzz {

/// SplitMix64.
class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed) {}
  uint64_t next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  int64_t below(int64_t n) { return static_cast<int64_t>(next() % static_cast<uint64_t>(n)); }
  bool one_in(int64_t n) { return below(n) == 0; }
  template <class List>
  auto pick(const List& list) {
    return std::data(list)[below(static_cast<int64_t>(std::size(list)))];
  }

 private:
  uint64_t state_;
};

using Tensors = std::vector<Tensor>;

/// Every tensor in `values`, lists included, in order, replaced by the result of `f`.
template <class F>
Values mapped(const Values& values, F&& f) {
  Values out = values;
  for (Value& v : out) {
    if (auto* t = std::get_if<Tensor>(&v)) {
      if (t->defined()) *t = f(*t);
    } else if (auto* list = std::get_if<Tensors>(&v)) {
      for (Tensor& t : *list) {
        if (t.defined()) t = f(t);
      }
    }
  }
  return out;
}
inline Tensors tensors_in(const Values& values) {
  Tensors found;
  mapped(values, [&](const Tensor& t) {
    found.push_back(t);
    return t;
  });
  return found;
}

// ---- numbers --------------------------------------------------------------------------------------------------------

inline int64_t random_integer(Random& r) {
  using Limits = std::numeric_limits<int64_t>;
  static constexpr int64_t extremes[] = {Limits::max(),
                                         Limits::min(),
                                         Limits::max() - 1,
                                         Limits::min() + 1,
                                         int64_t{1} << 62,
                                         -(int64_t{1} << 62),
                                         int64_t{1} << 61,
                                         int64_t{1} << 40,
                                         int64_t{1} << 33,
                                         int64_t{1} << 32,
                                         int64_t{1} << 31,
                                         (int64_t{1} << 31) - 1,
                                         -(int64_t{1} << 31),
                                         -(int64_t{1} << 32),
                                         65536,
                                         1000};
  return r.one_in(3) ? r.pick(extremes) : r.below(9) - 3;
}

inline double random_number(Random& r) {
  static constexpr double extremes[] = {0.0,
                                        -0.0,
                                        1.0,
                                        -1.0,
                                        0.5,
                                        2.0,
                                        3.0,
                                        __builtin_nan(""),
                                        __builtin_inf(),
                                        -__builtin_inf(),
                                        1e38,
                                        1e39,
                                        1e308,
                                        1e-45,
                                        1e18,
                                        -1e19,
                                        1 - 1e-9,
                                        0x1p63,
                                        0x1p-1074,
                                        -7.25};
  return r.pick(extremes);
}

inline Dims random_dims(Random& r, bool extreme) {
  Dims out;
  for (int64_t rank = r.below(r.one_in(8) ? 9 : 4); rank > 0; --rank) {
    out.push_back(extreme ? random_integer(r)
                          : r.pick(std::array<int64_t, 8>{1, 2, 3, 2, 1, 0, 5, out.size() < 3 ? 17 : 1}));
  }
  return out;
}

// ---- tensors --------------------------------------------------------------------------------------------------------

/// A copy in memory that ends where the elements end, so that the address sanitizer sees every access beside it.
inline Tensor in_exact_memory(const Tensor& t) {
  const size_t bytes = static_cast<size_t>(t.nbytes());
  const std::shared_ptr<void> memory(std::malloc(std::max<size_t>(bytes, 1)), std::free);
  const Tensor out = detail::wrap_memory(memory.get(), t.shape(), {}, {.dtype = t.dtype()}, memory, {});
  return out.copy_(t);
}

/// The same elements in another order in memory, with gaps, some dimensions backward.
inline Tensor in_other_order(Random& r, const Tensor& t) {
  const int rank = t.dim();
  Dims order, back = Dims::filled(rank, 0), block;
  for (int d = 0; d < rank; ++d) order.insert(static_cast<int>(r.below(d + 1)), d);
  int64_t before[max_rank], step[max_rank];
  for (int i = 0; i < rank; ++i) {
    const int d = static_cast<int>(order[i]);
    back[d] = i;
    before[d] = r.below(2);
    step[d] = (r.one_in(3) ? 2 : 1) * (r.one_in(3) ? -1 : 1);
    block.push_back(before[d] + t.sizes()[static_cast<size_t>(d)] * std::abs(step[d]));
  }
  Tensor view = in_exact_memory(zeros(block, t.dtype())).permute(back);
  for (int d = 0; d < rank; ++d) {
    view = view.narrow(d, before[d], t.sizes()[static_cast<size_t>(d)] * std::abs(step[d])).slice(d, {}, {}, step[d]);
  }
  return view.copy_(t);
}

/// Elements that several positions share: expanded, or as overlapping windows.
inline Tensor overlapping(Random& r, const Tensor& t) {
  if (t.dim() == 0 || t.numel() == 0) return t;
  const int d = static_cast<int>(r.below(t.dim()));
  if (r.one_in(2)) return t.narrow(d, 0, 1).expand(t.shape());
  int64_t reach = 1;
  for (const int64_t n : t.sizes()) reach += n - 1;
  return in_exact_memory(t.reshape({-1}).narrow(0, 0, std::min(reach, t.numel())))
      .as_strided(t.shape(), Dims::filled(t.dim(), reach <= t.numel() ? 1 : 0));
}

inline void put_extremes(Random& r, const Tensor& t) {
  if (t.numel() == 0) return;
  const Tensor flat = t.view({-1});
  for (int64_t count = 1 + r.below(4); count > 0; --count) {
    const Tensor element = flat.select(0, r.below(t.numel()));
    if (is_floating(t.dtype())) element.fill_(random_number(r));
    else element.copy_(tensor(random_integer(r)));  // a conversion, which wraps
  }
}

/// The changes of the arguments, for the checks.
struct Changes {
  bool tame = true;        ///< elements as the samples have them
  bool huge = false;       ///< an operand repeats its element more often than there is memory
  bool elsewhere = false;  ///< an operand is on another device
};

constexpr DType all_dtypes[] = {boolean, u8,  i8,  u16,       i16,     u32,         i32,         u64,        i64, f16,
                                bf16,    f32, f64, f8_e4m3fn, f8_e5m2, f8_e4m3fnuz, f8_e5m2fnuz, f8_e8m0fnu, c64, c128};

inline Tensor huge_tensor(Random& r, const Tensor& like, bool with_shape) {
  static constexpr int64_t sizes[] = {int64_t{1} << 31, int64_t{1} << 32, int64_t{1} << 40, int64_t{1} << 59,
                                      (int64_t{1} << 60) - 1};
  Dims shape = with_shape ? like.shape() : random_dims(r, false);
  if (shape.empty()) shape.push_back(1);
  shape[static_cast<int>(r.below(shape.size()))] = r.pick(sizes);
  if (r.one_in(3)) shape[static_cast<int>(r.below(shape.size()))] = r.pick(sizes);
  try {
    return ones(Dims::filled(shape.size(), 1), like.dtype()).expand(shape);
  } catch (const ShapeError&) {
    return ones({1}, like.dtype()).expand({int64_t{1} << 58});
  }
}

inline Tensor changed(Random& r, Tensor t, Changes& changes) {
  switch (r.below(24)) {
    case 0:
      t = zeros(random_dims(r, false), t.dtype());
      break;
    case 1:
      t = r.one_in(2) ? zeros({}, t.dtype()) : zeros({0}, t.dtype());
      break;
    case 2:
    case 3:
      t = real(t).to(r.pick(all_dtypes));
      break;
    case 4:
      changes.huge = true;
      return huge_tensor(r, t, r.one_in(2));
    case 5:
      if (!r.one_in(4)) break;
      changes.elsewhere = true;
      return empty(t.shape(), {t.dtype(), Device("meta")});
    case 6:
      if (r.one_in(4)) return {};
      break;
    case 7:
    case 8:
    case 9:
      t = t.clone();
      put_extremes(r, t);
      changes.tame = false;
      break;
    default:
      break;
  }
  switch (r.below(6)) {
    case 0:
    case 1:
      return in_exact_memory(t);
    case 2:
    case 3:
      return in_other_order(r, t);
    case 4:
      return r.one_in(3) ? overlapping(r, t) : t;
    default:
      return t;
  }
}

inline Value changed(Random& r, const Value& v, Changes& changes) {
  if (auto* t = std::get_if<Tensor>(&v)) return t->defined() ? changed(r, *t, changes) : *t;
  if (auto* list = std::get_if<Tensors>(&v)) {
    Tensors out;
    for (const Tensor& t : *list) out.push_back(changed(r, t, changes));
    if (r.one_in(12)) out.resize(static_cast<size_t>(r.below(3)));
    return out;
  }
  if (!r.one_in(3)) return v;
  if (std::holds_alternative<bool>(v)) return r.one_in(2);
  if (std::holds_alternative<int64_t>(v)) return random_integer(r);
  if (std::holds_alternative<double>(v)) {
    changes.tame = false;
    return random_number(r);
  }
  if (std::holds_alternative<Dims>(v)) return random_dims(r, r.one_in(2));
  if (std::holds_alternative<DType>(v)) return r.pick(all_dtypes);
  if (std::holds_alternative<std::string>(v)) return std::string(r.pick(std::array{"mean", "sum", "none", "", "amax"}));
  return v;
}

/// A value of any kind where the record says there may be one.
inline Value any_value(Random& r) {
  switch (r.below(6)) {
    case 0:
      return random_integer(r);
    case 1:
      return random_number(r);
    case 2:
      return random_dims(r, r.one_in(3));
    case 3:
      return r.one_in(2);
    case 4:
      return r.pick(all_dtypes);
    default:
      return std::monostate{};
  }
}

// ---- in words -------------------------------------------------------------------------------------------------------

inline std::string text(const Tensor& t) {
  if (!t.defined()) return "undefined";
  std::ostringstream out;
  out << name(t.dtype()) << t.shape().text() << " strides " << t.strides().text() << " on " << t.device().name();
  if (t.device().is_cpu() && t.numel() <= 12 && t.numel() > 0) {
    out << " {";
    for (const double v : real(t.detach()).to(f64).to_vector<double>()) out << " " << v;
    if (is_complex(t.dtype())) {
      out << " i";
      for (const double v : imag(t.detach()).to(f64).to_vector<double>()) out << " " << v;
    }
    out << " }";
  }
  return out.str();
}
inline std::string text(const Value& v) {
  return std::visit(
      []<class T>(const T& value) -> std::string {
        std::ostringstream out;
        if constexpr (std::is_same_v<T, std::monostate>) out << "none";
        else if constexpr (std::is_same_v<T, Dims>) out << "Dims" << value.text();
        else if constexpr (std::is_same_v<T, DType>) out << name(value);
        else if constexpr (std::is_same_v<T, Tensor>) out << text(value);
        else if constexpr (std::is_same_v<T, Tensors>) {
          for (const Tensor& t : value) out << text(t) << "; ";
        } else out << std::boolalpha << value;
        return out.str();
      },
      v);
}
inline std::string text(const Values& values) {
  std::string out;
  for (const Value& v : values) out += "\n    " + text(v);
  return out;
}

}  // namespace weft::fuzz
