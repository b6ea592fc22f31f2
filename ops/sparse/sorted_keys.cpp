#include "../detail/sorted_keys.hpp"

#include <array>
#include <bit>
#include <numeric>

#include "../create.hpp"
#include "../detail/bags.hpp"

namespace weft {

namespace {

struct Keyed {
  int64_t key, position;
};

// Digit by digit, from the lowest: stable, and as many passes as the bound has digits.
void sort_keys(std::vector<Keyed>& list, int64_t bound) {
  const int digit = list.size() < 4096 ? 8 : 11;
  const auto top = static_cast<uint64_t>(std::max<int64_t>(bound - 1, 0));
  std::vector<Keyed> other(list.size());
  std::array<size_t, 2048> next;
  for (int shift = 0; shift < 64 && top >> shift != 0; shift += digit) {
    const uint64_t mask = (uint64_t{1} << digit) - 1;
    const auto place = [&](const Keyed& k) { return static_cast<uint64_t>(k.key) >> shift & mask; };
    next.fill(0);
    for (const Keyed& k : list) ++next[place(k)];
    std::exclusive_scan(next.begin(), next.begin() + mask + 1, next.begin(), size_t{0});
    for (const Keyed& k : list) other[next[place(k)]++] = k;
    list.swap(other);
  }
}

const int64_t* numbers(const Tensor& t) { return static_cast<const int64_t*>(t.raw_view().data); }
int64_t* writable_numbers(const Tensor& t) { return static_cast<int64_t*>(t.raw_view().data); }

// Read by the host; a replay would not sort again.
Tensor on_host(const Tensor& list, int64_t bound) {
  detail::refuse_recording("indices are sorted on the host");
  const Tensor here = list.to(DType::i64).to(Device()).contiguous();
  for (int64_t i = 0; i < here.numel(); ++i) {
    if (WEFT_LIKELY(static_cast<uint64_t>(numbers(here)[i]) < static_cast<uint64_t>(bound))) continue;
    raise<IndexError>({.problem = fmt::format("index {} of element {} is none of {}", numbers(here)[i], i, bound)});
  }
  return here;
}
Tensor whole_numbers(int64_t n) { return make(Dims{n}, DType::i64, Device()); }

SortedKeys moved(SortedKeys sorted, Device device) {
  for (Tensor* t : {&sorted.keys, &sorted.starts, &sorted.order}) {
    if (t->defined()) *t = t->to(device);
  }
  return sorted;
}

}  // namespace

SortedKeys sorted_keys(const Tensor& list, int64_t bound) {
  const NoGradGuard unrecorded;
  const Tensor here = on_host(list, bound);
  const int64_t n = here.numel();
  std::vector<Keyed> keyed(static_cast<size_t>(n));
  bool ascends = true;
  for (int64_t i = 0; i < n; ++i) {
    keyed[static_cast<size_t>(i)] = {numbers(here)[i], i};
    ascends = ascends && (i == 0 || numbers(here)[i - 1] < numbers(here)[i]);
  }
  if (!ascends) sort_keys(keyed, bound);
  std::vector<int64_t> keys, starts;
  const Tensor order = whole_numbers(n);
  for (int64_t i = 0; i < n; ++i) {
    const Keyed& k = keyed[static_cast<size_t>(i)];
    writable_numbers(order)[i] = k.position;
    if (!keys.empty() && keys.back() == k.key) continue;
    keys.push_back(k.key);
    starts.push_back(i);
  }
  starts.push_back(n);
  return moved({tensor(keys), tensor(starts), order, ascends}, list.device());
}

SortedKeys grouped_keys(const Tensor& list, int64_t bound) {
  const NoGradGuard unrecorded;
  const Tensor here = on_host(list, bound);
  const int64_t n = here.numel();
  const Tensor starts = whole_numbers(bound + 1), order = whole_numbers(n);
  std::vector<int64_t> next(static_cast<size_t>(bound) + 1, 0);
  for (int64_t i = 0; i < n; ++i) ++next[static_cast<size_t>(numbers(here)[i]) + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  std::copy(next.begin(), next.end(), writable_numbers(starts));
  for (int64_t i = 0; i < n; ++i) writable_numbers(order)[next[static_cast<size_t>(numbers(here)[i])]++] = i;
  return moved({{}, starts, order}, list.device());
}

Tensor rows_of_elements(const Tensor& row_starts, int64_t n) {
  const NoGradGuard unrecorded;
  const int64_t rows = row_starts.numel() - 1;
  return Bags{rows, row_starts.narrow(0, 0, rows)}.of_indices(n);
}

}  // namespace weft
