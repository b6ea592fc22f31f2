#include "../kv_cache.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../create.hpp"
#include "../detail/attention.hpp"
#include "../detail/common.hpp"
#include "../detail/kv_rows.hpp"
#include "../detail/reducing.hpp"
#include "../index.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

Tensor row_numbers(const std::vector<int64_t>& rows, Device device) { return tensor(rows).to(device); }

/// [blocks, block size, heads, width] as rows.
Tensor flat(const Tensor& t) { return t.view({t.size(0) * t.size(1), t.size(2), t.size(3)}); }

}  // namespace

namespace detail {

std::pair<Tensor, Tensor> make_cache(int64_t outer, int64_t inner, int64_t heads, int64_t depth, int64_t width,
                                     const TensorOptions& options) {
  const Tensor k = empty({outer, inner, heads, depth}, options);
  check_floating(k);
  return {k, empty({outer, inner, heads, width < 0 ? depth : width}, options)};
}

void check_rows(const Tensor& k, const Tensor& v, const Tensor& cache_k, const Tensor& cache_v, int64_t rows) {
  for (const auto& [what, t, cache] : {std::tuple{"k", &k, &cache_k}, {"v", &v, &cache_v}}) {
    check_floating(checked(*t));
    check_same_device({t, cache});
    expect_shape(what, *t, {rows, cache->size(2), cache->size(3)});
  }
}

int64_t checked_total(std::span<const int64_t> counts, size_t sequences) {
  if (counts.size() != sequences) {
    raise<ValueError>({.problem = fmt::format("{} counts for {} sequences", counts.size(), sequences)});
  }
  int64_t total = 0;
  for (const int64_t n : counts) {
    expect_at_least("counts", n, 0);
    if (__builtin_add_overflow(total, n, &total)) raise<ValueError>({.problem = "the counts are too large"});
  }
  return total;
}

void write_rows(const Tensor& cache_k, const Tensor& cache_v, const std::vector<int64_t>& rows, const Tensor& k,
                const Tensor& v) {
  if (rows.empty()) return;
  const Tensor at = row_numbers(rows, cache_k.device());
  const Tensor new_k = k.detach().to(cache_k.dtype()), new_v = v.detach().to(cache_v.dtype());
  index_copy_(flat(cache_k), 0, at, new_k);
  index_copy_(flat(cache_v), 0, at, new_v);
}

void raise_no_sequence(int64_t sequence) {
  raise<IndexError>({.problem = fmt::format("the cache has no sequence {}", sequence)});
}

}  // namespace detail

using detail::check_rows, detail::checked_total, detail::make_cache, detail::raise_no_sequence, detail::write_rows;

// ---- contiguous -----------------------------------------------------------------------------------------------------

KvCache::KvCache(int64_t batch, int64_t capacity, int64_t heads, int64_t depth, TensorOptions options, int64_t width,
                 Location where) {
  const CallScope call("KvCache", where);
  std::tie(k_, v_) = make_cache(batch, capacity, heads, depth, width, options);
  lengths_.assign(static_cast<size_t>(batch), 0);
}

void KvCache::append(const Tensor& k, const Tensor& v, std::span<const int64_t> counts, Location where) {
  const CallScope call("KvCache.append", where);
  const NoGradGuard unrecorded;
  check_rows(k, v, k_, v_, checked_total(counts, lengths_.size()));
  std::vector<int64_t> rows;
  for (size_t i = 0; i < counts.size(); ++i) {
    if (counts[i] > capacity() - lengths_[i]) {
      raise<IndexError>({.problem = fmt::format("sequence {} has {} tokens of at most {}, and no room for {} more", i,
                                                lengths_[i], capacity(), counts[i])});
    }
    const int64_t first = static_cast<int64_t>(i) * capacity() + lengths_[i];
    for (int64_t n = 0; n < counts[i]; ++n) rows.push_back(first + n);
  }
  write_rows(k_, v_, rows, k, v);
  for (size_t i = 0; i < counts.size(); ++i) lengths_[i] += counts[i];
}

void KvCache::append(const Tensor& k, const Tensor& v, Location where) {
  const CallScope call("KvCache.append", where);
  for (const auto& [what, t] : {std::pair{"k", &k}, {"v", &v}}) {
    const bool fits = checked(*t).dim() == 4 && t->size(0) == k_.size(0);
    expect_shape(what, *t, fits, "[{}, n, heads, width]", k_.size(0));
  }
  const NoGradGuard unrecorded;
  const std::vector<int64_t> counts(lengths_.size(), k.size(1));
  const auto rows = [](const Tensor& t) { return t.reshape({t.size(0) * t.size(1), t.size(2), t.size(3)}); };
  append(rows(k), rows(v), counts, where);
}

namespace {
void check_truncation(std::span<const int64_t> lengths, int64_t sequence, int64_t length) {
  if (sequence < 0 || sequence >= std::ssize(lengths)) raise_no_sequence(sequence);
  const int64_t own = lengths[static_cast<size_t>(sequence)];
  if (length >= 0 && length <= own) return;
  raise_value("length", fmt::format("0 to {} tokens of sequence {}", own, sequence), length);
}
}  // namespace

void KvCache::truncate(int64_t sequence, int64_t length, Location where) {
  const CallScope call("KvCache.truncate", where);
  check_truncation(lengths_, sequence, length);
  lengths_[static_cast<size_t>(sequence)] = length;
}

void KvCache::take_rows(std::span<const int64_t> rows, Location where) {
  const CallScope call("KvCache.take_rows", where);
  const NoGradGuard unrecorded;
  std::vector<int64_t> lengths;
  for (const int64_t row : rows) {
    if (row < 0 || row >= std::ssize(lengths_)) raise_no_sequence(row);
    lengths.push_back(lengths_[static_cast<size_t>(row)]);
  }
  const int64_t longest = lengths.empty() ? 0 : *std::ranges::max_element(lengths);
  const Tensor index = row_numbers({rows.begin(), rows.end()}, k_.device());
  const auto taken = [&](const Tensor& t) {
    Dims shape = t.shape();
    shape[0] = std::ssize(rows);
    const Tensor out = empty(shape, {t.dtype(), t.device()});
    out.narrow(1, 0, longest).copy_(index_select(t.narrow(1, 0, longest), 0, index));
    return out;
  };
  Tensor k = taken(k_), v = taken(v_);
  k_ = std::move(k), v_ = std::move(v);
  lengths_ = std::move(lengths);
}

// ---- of several layers ----------------------------------------------------------------------------------------------

LayeredKvCache::LayeredKvCache(int64_t layers, int64_t batch, int64_t capacity, int64_t heads, int64_t depth,
                               TensorOptions options, Location where) {
  const CallScope call("LayeredKvCache", where);
  expect_at_least("layers", layers, 1);
  for (int64_t i = 0; i < layers; ++i) layers_.emplace_back(batch, capacity, heads, depth, options, -1, where);
}

KvCache& LayeredKvCache::layer(int64_t i, Location where) {
  return const_cast<KvCache&>(std::as_const(*this).layer(i, where));
}

const KvCache& LayeredKvCache::layer(int64_t i, Location where) const {
  const CallScope call("LayeredKvCache.layer", where);
  if (i < 0 || i >= layers()) raise<IndexError>({.problem = fmt::format("the cache has no layer {}", i)});
  return layers_[static_cast<size_t>(i)];
}

void LayeredKvCache::truncate(std::span<const int64_t> lengths, Location where) {
  const CallScope call("KvCache.truncate", where);
  for (const KvCache& each : layers_) {  // a refused length leaves all layers as they were
    for (int64_t i = 0; i < std::ssize(lengths); ++i)
      check_truncation(each.lengths(), i, lengths[static_cast<size_t>(i)]);
  }
  for (KvCache& each : layers_) {
    for (int64_t i = 0; i < std::ssize(lengths); ++i) each.truncate(i, lengths[static_cast<size_t>(i)], where);
  }
}

void LayeredKvCache::take_rows(std::span<const int64_t> rows, Location where) {
  for (KvCache& each : layers_) each.take_rows(rows, where);
}

// ---- attention ------------------------------------------------------------------------------------------------------

namespace {

using detail::AttentionOperands;
using detail::PackedSequence;

constexpr const char* op = "attention";
constexpr const char* varlen = "attention_varlen";

/// Where no kernel reads blocks: keys and values of all sequences, one after the other.
AttentionOperands gathered(AttentionOperands in, const std::vector<std::vector<int64_t>>& blocks) {
  std::vector<int64_t> rows;
  for (size_t i = 0; i < in.sequences.size(); ++i) {
    PackedSequence& s = in.sequences[i];
    const int64_t first = std::ssize(rows);
    for (int64_t j = 0; j < s.keys; ++j) {
      const auto block = static_cast<size_t>(j / in.plan.block_size);
      rows.push_back(blocks.empty() ? s.key + j : blocks[i][block] * in.plan.block_size + j % in.plan.block_size);
    }
    s.key = first;
  }
  const Tensor at = row_numbers(rows, in.k.device());
  in.k = index_select(in.k, 1, at);
  in.v = index_select(in.v, 1, at);
  return in;
}

Tensor block_table(const std::vector<std::vector<int64_t>>& blocks, Device device) {
  size_t longest = 1;
  for (const auto& own : blocks) longest = std::max(longest, own.size());
  std::vector<int64_t> numbers;
  for (const auto& own : blocks) {
    numbers.insert(numbers.end(), own.begin(), own.end());
    numbers.resize(numbers.size() + longest - own.size());
  }
  return tensor(numbers).reshape({std::ssize(blocks), static_cast<int64_t>(longest)}).to(device);
}

/// q [sum of queries, H, D] over rows [n, Hkv, D] of a cache; sequences are contiguous there or, if `blocks` is not
/// empty, in blocks.
Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, std::vector<PackedSequence> sequences,
              const std::vector<std::vector<int64_t>>& blocks, int64_t block_size, const CachedAttentionArguments& a) {
  check_floating(checked(q));
  check_same_device({&q, &k});
  if (compute_type(q.dtype()) != compute_type(k.dtype())) {
    raise_dtypes("q and cache", q.dtype(), k.dtype());
  }
  const detail::HeadSizes sizes = detail::check_heads(q, k, v, 3, "q is [Tq, H, D], the cache's heads are as wide");
  if (should_record(q)) {
    raise<ValueError>({.problem = "no gradient passes through a cache, and q requires one",
                       .remedy = "call it under a NoGradGuard, or with q.detach()"});
  }
  int64_t rows = 0;
  for (const PackedSequence& s : sequences) {
    rows += s.queries;
    if (s.queries <= s.keys) continue;
    raise<ValueError>({.problem = fmt::format("{} queries of a sequence of {} tokens", s.queries, s.keys),
                       .remedy = "append their keys and values first"});
  }
  if (rows != q.size(0)) {
    raise_rank("q", fmt::format("{} rows, the sum of counts", rows), q);
  }
  AttentionOperands in{q.unsqueeze(0), k.unsqueeze(0), v.unsqueeze(0)};
  in.heads_inside = true;
  in.slopes = detail::checked_slopes(a.alibi_slopes, q, std::ssize(sequences), sizes.heads);
  in.plan.scale = detail::attention_scale(a.scale, q.size(-1));
  in.plan.block_size = block_size;
  detail::set_band(in.plan, a.causal, a.window);
  detail::pack_sequences(in, std::move(sequences));
  const NoGradGuard unrecorded;
  if (!detail::takes_kernel(AttentionBackend::automatic, in, {})) {
    return detail::attention_by_ops(gathered(std::move(in), blocks), 0).output.squeeze(0).to(q.dtype());
  }
  if (!blocks.empty()) in.blocks = block_table(blocks, q.device());
  return detail::attention_by_kernel(in).squeeze(0).to(q.dtype());
}

}  // namespace

Tensor attention_varlen(const Tensor& q, std::span<const int64_t> counts, const KvCache& cache,
                        const CachedAttentionArguments& arguments, Location where) {
  const CallScope call(varlen, where);
  checked_total(counts, cache.lengths().size());
  std::vector<PackedSequence> sequences;
  int64_t query = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    sequences.push_back({query, counts[i], static_cast<int64_t>(i) * cache.capacity(), cache.lengths()[i]});
    query += counts[i];
  }
  return attend(q, flat(cache.k()), flat(cache.v()), std::move(sequences), {}, 1, arguments);
}

Tensor attention(const Tensor& q, const KvCache& cache, const CachedAttentionArguments& arguments, Location where) {
  const CallScope call(op, where);
  if (checked(q).dim() != 4 || q.size(0) != std::ssize(cache.lengths())) {
    raise_shape("q", fmt::format("[{}, Sq, H, D]", cache.lengths().size()), q);
  }
  const std::vector<int64_t> counts(cache.lengths().size(), q.size(1));
  const Tensor rows = q.reshape({q.size(0) * q.size(1), q.size(2), q.size(3)});
  const Tensor out = attention_varlen(rows, counts, cache, arguments, where);
  return out.view({q.size(0), q.size(1), q.size(2), cache.v().size(3)});
}

Tensor attention_varlen(const Tensor& q, std::span<const int64_t> counts, const CacheBlocks& cache,
                        const CachedAttentionArguments& arguments, Location where) {
  const CallScope call(varlen, where);
  checked_total(counts, cache.lengths.size());
  std::vector<PackedSequence> packed;
  int64_t query = 0;
  for (size_t i = 0; i < counts.size(); ++i) {
    packed.push_back({query, counts[i], 0, cache.lengths[i]});
    query += counts[i];
  }
  return attend(q, flat(cache.k), flat(cache.v), std::move(packed), cache.blocks, cache.k.size(1), arguments);
}

}  // namespace weft
