#include <algorithm>
#include <mutex>

#include "indices.hpp"
#include "../kernels.hpp"
#include "../thread_pool.hpp"

namespace weft::cpu {
namespace {

/// Neighbours count in tables of their own, so that no increment waits for the one before it.
constexpr int64_t ways = 4;
/// Larger tables would not stay in the cache beside one another.
constexpr int64_t most_local = 8192;
constexpr int64_t chunk = 65536;

template <class I>
void count(int64_t* tables, int64_t distance, const char* x, int64_t step, int64_t n) {
  const auto number = [&](int64_t i) { return *reinterpret_cast<const I*>(x + i * step); };
  int64_t i = 0;
  for (; i + ways <= n; i += ways) {
    for (int64_t w = 0; w < ways; ++w) ++tables[w * distance + number(i + w)];
  }
  for (; i < n; ++i) ++tables[number(i)];
}

}  // namespace

void bincount(const View& counts, const View& x) {
  check_index_type("bincount", x);
  const auto count_numbers = x.layout.dtype == DType::i32 ? count<int32_t> : count<int64_t>;
  const int64_t size = counts.layout.numel, n = x.layout.numel;
  if (n == 0) return;
  const int64_t step = x.layout.strides[0];
  int64_t* const out = static_cast<int64_t*>(counts.data);
  if (n < chunk || size > most_local) return count_numbers(out, 0, bytes(x), step, n);
  std::mutex merging;
  parallel_for(n, chunk, [&](int64_t begin, int64_t end) {
    const Scratch memory(ways * size * static_cast<int64_t>(sizeof(int64_t)));
    int64_t* const tables = memory.as<int64_t>();
    std::fill_n(tables, ways * size, 0);
    count_numbers(tables, size, bytes(x) + begin * step, step, end - begin);
    const std::lock_guard lock(merging);
    for (int64_t i = 0; i < size; ++i) {
      for (int64_t w = 0; w < ways; ++w) out[i] += tables[w * size + i];
    }
  });
}

}  // namespace weft::cpu
