// The selection of x[index] by loops over coordinates: a model that shares no code with the library.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace weft::fuzz {

using Shape = std::vector<int64_t>;

inline int64_t product(const Shape& shape) {
  int64_t n = 1;
  for (const int64_t size : shape) n *= size;
  return n;
}

/// Row-major.
struct Array {
  Shape shape;
  std::vector<int64_t> values;
};

struct Item {
  enum Kind { integer, slice, none, ellipsis, boolean, indices, mask, floats };
  Kind kind = none;
  /// An integer or a bool, or a slice's first bound.
  std::optional<int64_t> start = {}, stop = {};
  int64_t step = 1;
  /// Of indices and masks.
  Array array = {};
};

/// The index or the value is an error.
struct Refused {};
/// The specification leaves the result open.
struct Open {};

/// The offsets in x of the elements of x[index], in row-major order.
struct Selected {
  Shape shape;
  std::vector<int64_t> places;
};

namespace detail {

inline int64_t consumed(const Item& item) {
  switch (item.kind) {
    case Item::integer:
    case Item::slice:
    case Item::indices:
    case Item::floats:
      return 1;
    case Item::mask:
      return static_cast<int64_t>(item.array.shape.size());
    default:
      return 0;
  }
}

/// One dimension of the result that walks along a dimension of x, or along none.
struct Axis {
  int64_t size;
  int source = -1;
  int64_t first = 0, step = 0;
};
/// Indices along a dimension of x, or along none.
struct Picks {
  Array array;
  int source = -1;
};

inline Axis sliced(const Item& item, int source, int64_t n) {
  if (item.step == 0) throw Refused();
  const bool forward = item.step > 0;
  const auto bound = [&](const std::optional<int64_t>& given, int64_t otherwise) {
    if (!given) return otherwise;
    const int64_t wrapped = *given < 0 ? *given + n : *given;
    return forward ? std::clamp<int64_t>(wrapped, 0, n) : std::clamp<int64_t>(wrapped, -1, n - 1);
  };
  const int64_t first = bound(item.start, forward ? 0 : n - 1), stop = bound(item.stop, forward ? n : -1);
  int64_t count = 0;
  for (int64_t at = first; forward ? at < stop : at > stop; at += item.step) ++count;
  return {count, source, first, item.step};
}

inline std::vector<int64_t> coordinates(int64_t k, const Shape& shape) {
  std::vector<int64_t> out(shape.size());
  for (size_t d = shape.size(); d-- > 0; k /= shape[d]) out[d] = k % shape[d];
  return out;
}
inline int64_t place(const std::vector<int64_t>& at, const Shape& shape) {
  int64_t k = 0;
  for (size_t d = 0; d < shape.size(); ++d) k = k * shape[d] + at[d];
  return k;
}

/// The offset in an array of `shape` of the coordinates `at` of a broadcast result.
inline int64_t broadcast_place(const int64_t* end, const Shape& shape) {
  int64_t k = 0;
  for (size_t d = 0; d < shape.size(); ++d) {
    k = k * shape[d] + (shape[d] == 1 ? 0 : *(end - shape.size() + d));
  }
  return k;
}

inline Shape joined(const std::vector<Picks>& picks) {
  Shape out;
  for (const Picks& p : picks) {
    const Shape& shape = p.array.shape;
    if (shape.size() > out.size()) out.insert(out.begin(), shape.size() - out.size(), 1);
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t& size = out[out.size() - shape.size() + d];
      if (size != shape[d] && size != 1 && shape[d] != 1) throw Refused();
      if (size == 1) size = shape[d];
    }
  }
  return out;
}

}  // namespace detail

inline Selected select(const Shape& shape, const std::vector<Item>& items, int64_t limit) {
  using namespace detail;
  const auto rank = static_cast<int64_t>(shape.size());
  int64_t used = 0, dots = 0;
  for (const Item& item : items) {
    used += consumed(item);
    dots += item.kind == Item::ellipsis;
  }
  if (used > rank || dots > 1) throw Refused();

  std::vector<Axis> axes;
  std::vector<Picks> picks;
  std::vector<int64_t> base(shape.size());
  size_t first_pick = 0;
  bool separated = false;
  int d = 0;
  const auto pick = [&](Array array, int source) {
    if (picks.empty()) first_pick = axes.size();
    separated |= axes.size() != first_pick;
    picks.push_back({std::move(array), source});
  };
  const auto fill = [&](int64_t count) {
    for (; count > 0; --count, ++d) axes.push_back({shape[static_cast<size_t>(d)], d, 0, 1});
  };
  const auto wrapped = [&](int64_t i, int64_t n) {
    if (i < -n || i >= n) throw Refused();
    return i < 0 ? i + n : i;
  };
  bool out_of_range = false;
  for (const Item& item : items) {
    const size_t at = static_cast<size_t>(d);
    const bool scalar = item.array.shape.empty();
    switch (item.kind) {
      case Item::none:
        axes.push_back({1});
        break;
      case Item::ellipsis:
        fill(rank - used);
        break;
      case Item::floats:
        throw Refused();
      case Item::boolean:
        pick({{*item.start != 0}, Shape(*item.start != 0 ? 1 : 0)}, -1);
        break;
      case Item::integer:
        base[at] = wrapped(*item.start, shape[at]), ++d;
        break;
      case Item::slice:
        axes.push_back(sliced(item, d, shape[at])), ++d;
        break;
      case Item::indices:
        if (scalar) {
          base[at] = wrapped(item.array.values[0], shape[at]);
        } else {
          Array array = item.array;
          for (int64_t& i : array.values) {
            if (i < -shape[at] || i >= shape[at]) out_of_range = true;
            else i = i < 0 ? i + shape[at] : i;
          }
          pick(std::move(array), d);
        }
        ++d;
        break;
      case Item::mask: {
        if (scalar) {
          pick({{item.array.values[0] != 0}, Shape(item.array.values[0] != 0 ? 1 : 0)}, -1);
          break;
        }
        const Shape& sizes = item.array.shape;
        if (!std::equal(sizes.begin(), sizes.end(), shape.begin() + d)) throw Refused();
        std::vector<Array> columns(sizes.size());
        for (int64_t k = 0; k < product(sizes); ++k) {
          if (item.array.values[static_cast<size_t>(k)] == 0) continue;
          const auto where = coordinates(k, sizes);
          for (size_t c = 0; c < columns.size(); ++c) columns[c].values.push_back(where[c]);
        }
        for (Array& column : columns) {
          column.shape = {static_cast<int64_t>(column.values.size())};
          pick(std::move(column), d++);
        }
        break;
      }
    }
  }
  if (dots == 0) fill(rank - used);

  const Shape together = joined(picks);
  if (out_of_range) {
    if (product(together) == 0) throw Open();
    throw Refused();
  }
  const size_t begin = separated ? 0 : first_pick, end = begin + together.size();
  Selected out;
  for (const Axis& axis : axes) out.shape.push_back(axis.size);
  out.shape.insert(out.shape.begin() + static_cast<std::ptrdiff_t>(begin), together.begin(), together.end());
  if (out.shape.size() > 8) throw Refused();
  const int64_t count = product(out.shape);
  if (count > limit) throw Open();
  for (int64_t k = 0; k < count; ++k) {
    const auto at = coordinates(k, out.shape);
    std::vector<int64_t> from = base;
    for (size_t a = 0; a < axes.size(); ++a) {
      if (axes[a].source < 0) continue;
      from[static_cast<size_t>(axes[a].source)] =
          axes[a].first + axes[a].step * at[a < begin ? a : a + together.size()];
    }
    for (const Picks& p : picks) {
      if (p.source < 0) continue;
      const int64_t chosen = broadcast_place(at.data() + end, p.array.shape);
      from[static_cast<size_t>(p.source)] = p.array.values[static_cast<size_t>(chosen)];
    }
    out.places.push_back(place(from, shape));
  }
  return out;
}

/// For each selected element, which element of a value of `shape` is written there.
inline std::vector<int64_t> spread(Shape shape, const Shape& selected) {
  while (shape.size() > selected.size() && shape[0] == 1) shape.erase(shape.begin());
  if (shape.size() > selected.size()) throw Refused();
  for (size_t d = 0; d < shape.size(); ++d) {
    const int64_t size = selected[selected.size() - shape.size() + d];
    if (shape[d] != size && shape[d] != 1) throw Refused();
  }
  std::vector<int64_t> out;
  for (int64_t k = 0; k < product(selected); ++k) {
    const auto at = detail::coordinates(k, selected);
    out.push_back(detail::broadcast_place(at.data() + at.size(), shape));
  }
  return out;
}

}  // namespace weft::fuzz
