// What a mask holds: counting, coordinates, compressing and expanding.
#include <cstring>

#include <weft/backends/cpu/kernels.hpp>
#include <weft/backends/cpu/lines.hpp>

namespace weft::cpu {
namespace {

template <class F>
void for_each_true(const View& x, F&& body) {
  const Layout* const layouts[] = {&x.layout};
  const Walk<1> walk = walk_of(layouts, 0, x.layout.rank);
  Cursor<1> at(walk, 0);
  for (int64_t i = 0; i < x.layout.numel; ++i, at.next()) {
    int32_t truth = 0;
    load_truth(&truth, bytes(x) + at.offset[0], 0, 1, x.layout.dtype);
    if (truth != 0) body(i);
  }
}

char* element(const View& x, int64_t position) {
  char* at = bytes(x);
  for (int d = x.layout.rank - 1; d >= 0; --d) {
    at += position % x.layout.sizes[d] * x.layout.strides[d];
    position /= x.layout.sizes[d];
  }
  return at;
}

}  // namespace

int64_t count_nonzero(const View& x) {
  int64_t count = 0;
  for_each_true(x, [&](int64_t) { ++count; });
  return count;
}

void nonzero(const View& out, const View& x) {
  int64_t row = 0;
  for_each_true(x, [&](int64_t position) {
    for (int d = x.layout.rank - 1; d >= 0; --d) {
      char* to = bytes(out) + row * out.layout.strides[0] + d * out.layout.strides[1];
      *reinterpret_cast<int64_t*>(to) = position % x.layout.sizes[d];
      position /= x.layout.sizes[d];
    }
    ++row;
  });
}

void masked_select(const View& out, const View& x, const View& mask) {
  const int64_t item = itemsize(out.layout.dtype);
  char* to = bytes(out);
  for_each_true(mask, [&](int64_t position) {
    memcpy(to, element(x, position), static_cast<size_t>(item));
    to += item;
  });
}

void masked_scatter(const View& out, const View& mask, const View& source) {
  const int64_t item = itemsize(out.layout.dtype);
  const char* from = bytes(source);
  for_each_true(mask, [&](int64_t position) {
    memcpy(element(out, position), from, static_cast<size_t>(item));
    from += item;
  });
}

}  // namespace weft::cpu
