#include "paged_kv_cache.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "../autograd/mode.hpp"
#include "../ops/detail/kv_rows.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft {

using detail::raise_no_sequence;

PagedKvCache::PagedKvCache(int64_t blocks, int64_t block_size, int64_t heads, int64_t depth, TensorOptions options,
                           int64_t width, Location where) {
  const CallScope call("PagedKvCache", where);
  expect_at_least("block_size", block_size, 1);
  std::tie(k_, v_) = detail::make_cache(blocks, block_size, heads, depth, width, options);
  users_.assign(static_cast<size_t>(blocks), 0);
  for (int64_t i = blocks - 1; i >= 0; --i) free_.push_back(i);
}

const PagedKvCache::Sequence& PagedKvCache::find(int64_t sequence) const {
  if (sequence < 0 || sequence >= std::ssize(sequences_)) raise_no_sequence(sequence);
  const Sequence& found = sequences_[static_cast<size_t>(sequence)];
  if (!found.present) raise_no_sequence(sequence);
  return found;
}

int64_t PagedKvCache::add_sequence() {
  sequences_.emplace_back();
  return std::ssize(sequences_) - 1;
}

int64_t PagedKvCache::fork(int64_t sequence, Location where) {
  const CallScope call("PagedKvCache.fork", where);
  Sequence copy = find(sequence);
  sequences_.push_back(std::move(copy));
  for (const int64_t block : sequences_.back().blocks) ++users_[static_cast<size_t>(block)];
  return std::ssize(sequences_) - 1;
}

void PagedKvCache::remove(int64_t sequence, Location where) {
  const CallScope call("PagedKvCache.remove", where);
  find(sequence);
  Sequence& gone = sequences_[static_cast<size_t>(sequence)];
  free_.reserve(free_.size() + gone.blocks.size());
  for (const int64_t block : gone.blocks) {
    if (--users_[static_cast<size_t>(block)] == 0) free_.push_back(block);
  }
  gone = {};
  gone.present = false;
}

int64_t PagedKvCache::length(int64_t sequence, Location where) const {
  const CallScope call("PagedKvCache.length", where);
  return find(sequence).length;
}

const std::vector<int64_t>& PagedKvCache::blocks(int64_t sequence, Location where) const {
  const CallScope call("PagedKvCache.blocks", where);
  return find(sequence).blocks;
}

namespace {

/// The planned changes of a sequence's blocks by an append.
struct Growth {
  std::vector<int64_t> taken;  ///< free blocks; if `copies`, the first replaces the last block of the sequence
  bool copies = false;
};

}  // namespace

void PagedKvCache::append(std::span<const int64_t> sequences, const Tensor& k, const Tensor& v,
                          std::span<const int64_t> counts, Location where) {
  const CallScope call("PagedKvCache.append", where);
  const NoGradGuard unrecorded;
  detail::check_rows(k, v, k_, v_, detail::checked_total(counts, sequences.size()));
  const int64_t size = block_size();
  std::vector<int64_t> sorted(sequences.begin(), sequences.end());
  std::sort(sorted.begin(), sorted.end());
  if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
    raise<ValueError>({.problem = "a sequence is named twice"});
  }
  std::vector<Growth> growths(sequences.size());
  std::unordered_map<int64_t, int64_t> left;  // users of shared blocks that were copied
  std::vector<int64_t> rows;
  size_t free_left = free_.size();
  for (size_t i = 0; i < sequences.size(); ++i) {
    const Sequence& s = find(sequences[i]);
    if (counts[i] == 0) continue;
    Growth& growth = growths[i];
    if (s.length % size != 0) {
      int64_t& users = left.try_emplace(s.blocks.back(), users_[static_cast<size_t>(s.blocks.back())]).first->second;
      growth.copies = users > 1;
      if (growth.copies) --users;
    }
    const int64_t all = (s.length + counts[i] + size - 1) / size;
    const int64_t wanted = all - std::ssize(s.blocks) + (growth.copies ? 1 : 0);
    if (wanted > static_cast<int64_t>(free_left)) {
      raise<IndexError>({.problem = fmt::format("{} more tokens of sequence {} need {} blocks, and {} are free",
                                                counts[i], sequences[i], wanted, free_left)});
    }
    for (int64_t n = 0; n < wanted; ++n) growth.taken.push_back(free_[--free_left]);
    const int64_t kept = std::ssize(s.blocks) - (growth.copies ? 1 : 0);
    for (int64_t n = s.length; n < s.length + counts[i]; ++n) {
      const int64_t at = n / size;
      const int64_t block =
          at < kept ? s.blocks[static_cast<size_t>(at)] : growth.taken[static_cast<size_t>(at - kept)];
      rows.push_back(block * size + n % size);
    }
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    if (!growths[i].copies) continue;
    const int64_t from = find(sequences[i]).blocks.back(), to = growths[i].taken.front();
    for (const Tensor* t : {&k_, &v_}) t->select(0, to).copy_(t->select(0, from));
  }
  for (size_t i = 0; i < sequences.size(); ++i) {
    std::vector<int64_t>& blocks = sequences_[static_cast<size_t>(sequences[i])].blocks;
    blocks.reserve(blocks.size() + growths[i].taken.size());
  }
  detail::write_rows(k_, v_, rows, k, v);
  for (size_t i = 0; i < sequences.size(); ++i) {
    Sequence& s = sequences_[static_cast<size_t>(sequences[i])];
    if (growths[i].copies) {
      --users_[static_cast<size_t>(s.blocks.back())];
      s.blocks.pop_back();
    }
    for (const int64_t block : growths[i].taken) {
      s.blocks.push_back(block);
      users_[static_cast<size_t>(block)] = 1;
    }
    s.length += counts[i];
  }
  free_.resize(free_left);
}

CacheBlocks PagedKvCache::of_sequences(std::span<const int64_t> sequences, Location where) const {
  const CallScope call("PagedKvCache.of_sequences", where);
  CacheBlocks out{k_, v_, {}, {}};
  for (const int64_t sequence : sequences) {
    const Sequence& s = find(sequence);
    out.lengths.push_back(s.length);
    out.blocks.push_back(s.blocks);
  }
  return out;
}

Tensor attention_varlen(const Tensor& q, std::span<const int64_t> counts, std::span<const int64_t> sequences,
                        const PagedKvCache& cache, const CachedAttentionArguments& arguments, Location where) {
  const CallScope call("attention_varlen", where);
  return attention_varlen(q, counts, cache.of_sequences(sequences, where), arguments, where);
}

}  // namespace weft
