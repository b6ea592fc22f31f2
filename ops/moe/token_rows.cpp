#include "token_rows-inl.hpp"

#include <algorithm>

#include "../create.hpp"
#include "../detail/bags.hpp"
#include "../detail/common.hpp"
#include "../detail/reducing.hpp"
#include "../index.hpp"
#include "../masked.hpp"
#include "../pointwise.hpp"
#include "../reduce.hpp"

namespace weft {

// Contiguous first: Weft's allocator refuses an expanded operand that no memory holds, where sanitizers' vectors end
// the process.
Sizes integers_of(const Tensor& t) { return t.to(DType::i64).contiguous().to_vector<int64_t>(); }

TokenRows token_rows(const Sizes& rows_of_token, int64_t tokens, int64_t rows, Device device) {
  const int64_t n = tokens == 0 ? 0 : std::ssize(rows_of_token) / tokens;
  Sizes token_of_row = table<int64_t>(rows, -1), filled = table<int64_t>(std::ssize(rows_of_token), rows);
  for (int64_t i = 0; i < std::ssize(rows_of_token); ++i) {
    const int64_t row = rows_of_token[static_cast<size_t>(i)];
    if (row < 0) continue;
    filled[static_cast<size_t>(i)] = row;
    token_of_row[static_cast<size_t>(row)] = i / n;
  }
  TokenRows map{.tokens = tokens, .rows = rows, .token_of_row = {}, .rows_of_token = {}, .gaps = {}};
  for (int64_t row = 0; row < rows; ++row) {
    int64_t& token = token_of_row[static_cast<size_t>(row)];
    if (token >= 0) continue;
    token = 0;
    if (map.gaps.empty() || map.gaps.back().begin + map.gaps.back().size != row) map.gaps.push_back({row, 0});
    ++map.gaps.back().size;
  }
  map.token_of_row = tensor(token_of_row).to(device);
  map.rows_of_token = tensor(filled).reshape({tokens, n}).to(device);
  return map;
}

TokenRows token_rows_on_meta(int64_t tokens, int64_t n, int64_t rows) {
  const Device meta(DeviceType::meta);
  return {tokens, rows, make(Dims{rows}, DType::i64, meta), make(Dims{tokens, n}, DType::i64, meta), {}};
}

Tensor to_rows(const Tensor& x, const TokenRows& map) {
  Tensor out = make(Dims{map.rows, x.size(1)}, x.dtype(), x.device());
  if (map.tokens > 0) {
    WEFT_KERNEL(index_select, x)(out.raw_view(), x.raw_view(), 0, map.token_of_row.raw_view());
  }
  {
    const NoGradGuard unrecorded;
    for (const auto& [begin, size] : map.gaps) {
      WEFT_KERNEL(fill, x)(out.narrow(0, begin, size).raw_view(), Scalar(0));
    }
  }
  if (should_record(x))
    record(
        out, [map](Tensor&& g) { return to_tokens(g, map); }, x);
  return out;
}

namespace {

/// The same sums where the device has no kernel for them.
Tensor sums_by_ops(const Tensor& y, const TokenRows& map) {
  const Tensor none = map.rows_of_token == map.rows;
  const Tensor gathered = index_select(y, 0, masked_fill(map.rows_of_token, none, 0).reshape({-1}));
  const Tensor each = gathered.reshape({map.tokens, map.rows_of_token.size(1), y.size(1)});
  return sum(masked_fill(each, none.unsqueeze(-1), 0), {1});
}

Tensor sums(const Tensor& y, const TokenRows& map) {
  const int64_t n = map.rows_of_token.size(1);
  if (map.rows == 0 || n == 0) return zeros({map.tokens, y.size(1)}, {y.dtype(), y.device()});
  const auto kernel = kernels(y.raw_view()).bag_sum;
  if (kernel == nullptr) return sums_by_ops(y, map);
  const Tensor out = make(Dims{map.tokens, y.size(1)}, y.dtype(), y.device());
  const Tensor counts = make(Dims{map.tokens, 1}, y.dtype(), y.device());
  const Tensor begins = arange(0, map.tokens, 1, {DType::i64, y.device()}) * n;
  kernel(out.raw_view(), counts.raw_view(), y.raw_view(), map.rows_of_token.reshape({-1}).raw_view(), begins.raw_view(),
         View(), map.rows, false);
  return out;
}

Tensor rounded_sums(const Tensor& y, TokenRows map) {
  const Tensor rows = map.rows_of_token;
  Tensor out = zeros({map.tokens, y.size(1)}, {y.dtype(), y.device()});
  for (int64_t i = 0; i < rows.size(1); ++i) {
    map.rows_of_token = rows.narrow(1, i, 1).contiguous();
    out = out + sums(to_compute_type(y).contiguous(), map).to(y.dtype());
  }
  return out;
}

}  // namespace

Tensor to_tokens(const Tensor& y, const TokenRows& map, bool rounds_each) {
  Tensor out;
  {
    const NoGradGuard unrecorded;
    out = rounds_each ? rounded_sums(y, map) : sums(to_compute_type(y).contiguous(), map).to(y.dtype());
  }
  if (should_record(y))
    record(
        out, [map](Tensor&& g) { return to_rows(g, map); }, y);
  return out;
}

}  // namespace weft
