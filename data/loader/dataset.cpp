#include "../dataset.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <numeric>

#include <fmt/format.h>

#include "../../ops/create.hpp"
#include "../../ops/index.hpp"
#include "../../ops/random.hpp"
#include "../../tensor/error.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::data::detail {

namespace {

constexpr const char* op = "dataset";

/// Whether rows are contiguous in host memory.
bool has_plain_rows(const Tensor& t) { return t.device().is_cpu() && t.is_contiguous() && !t.requires_grad(); }

std::vector<std::vector<int64_t>> cut(int64_t size, std::span<const int64_t> counts, uint64_t seed) {
  Generator generator(seed);
  const std::vector<int64_t> order = randperm(size, {}, &generator).to_vector<int64_t>();
  std::vector<std::vector<int64_t>> parts;
  auto from = order.begin();
  for (const int64_t count : counts) {
    parts.emplace_back(from, from + count);
    from += count;
  }
  return parts;
}

}  // namespace

void check_rows(std::span<const Tensor> tensors, Location where) {
  for (const Tensor& t : tensors) {
    if (t.dim(where) == 0) {
      raise<ShapeError>({.op = "TensorDataset", .problem = "a tensor without dimensions has no rows"}, where);
    }
    if (t.size(0) == tensors[0].size(0)) continue;
    raise<ShapeError>({.op = "TensorDataset",
                       .problem = fmt::format("the tensors have {} and {} rows", tensors[0].size(0), t.size(0)),
                       .details = fmt::format("{} and {}", tensors[0].shape().text(), t.shape().text()),
                       .remedy = "pass tensors whose first dimension counts the same samples"},
                      where);
  }
}

void check_index(int64_t index, int64_t size) {
  if (index >= 0 && index < size) return;
  raise<IndexError>({.op = op, .problem = fmt::format("there is no sample {} among {}", index, size)},
                    Location::none());
}

void check_indices(std::span<const int64_t> indices, int64_t size, Location where) {
  for (const int64_t i : indices) {
    if (i < 0 || i >= size) {
      raise<IndexError>({.op = "subset", .problem = fmt::format("there is no sample {} among {}", i, size)}, where);
    }
  }
}

Tensor row(const Tensor& tensor, int64_t index) {
  check_index(index, tensor.size(0));
  return tensor.select(0, index);
}

Tensor rows(const Tensor& tensor, std::span<const int64_t> indices) {
  const int64_t size = tensor.size(0);
  for (const int64_t i : indices) check_index(i, size);
  if (!has_plain_rows(tensor)) {
    return index_select(tensor, 0, weft::tensor(indices, TensorOptions{.device = tensor.device()}));
  }
  Dims shape = tensor.shape();
  shape[0] = static_cast<int64_t>(indices.size());
  Tensor out = empty(shape, tensor.dtype());
  if (out.numel() == 0) return out;
  const auto bytes = static_cast<size_t>(tensor.nbytes() / size);
  const auto* from = static_cast<const std::byte*>(tensor.data_ptr());
  auto* to = static_cast<std::byte*>(out.data_ptr());
  for (const int64_t i : indices) {
    std::memcpy(to, from + static_cast<size_t>(i) * bytes, bytes);
    to += bytes;
  }
  return out;
}

std::vector<std::vector<int64_t>> split_order(int64_t size, std::span<const double> fractions, uint64_t seed,
                                              Location where) {
  double sum = 0;
  for (const double f : fractions) {
    sum += f;
    if (!(f >= 0 && f <= 1)) {
      raise<ValueError>({.op = "random_split", .problem = mismatch_text("fractions", "numbers in [0, 1]", f)}, where);
    }
  }
  if (!(std::fabs(sum - 1) < 1e-9)) {
    raise<ValueError>({.op = "random_split", .problem = mismatch_text("sum of fractions", 1, sum)}, where);
  }
  std::vector<int64_t> counts;
  for (const double f : fractions) counts.push_back(static_cast<int64_t>(std::floor(static_cast<double>(size) * f)));
  int64_t left = size - std::accumulate(counts.begin(), counts.end(), int64_t{0});
  for (size_t i = 0; left > 0; i = (i + 1) % counts.size(), --left) ++counts[i];
  return cut(size, counts, seed);
}

std::vector<std::vector<int64_t>> split_order(int64_t size, std::span<const int64_t> counts, uint64_t seed,
                                              Location where) {
  int64_t left = size;
  for (const int64_t count : counts) {
    if (count < 0 || count > left) {
      raise<ValueError>(
          {.op = "random_split", .problem = fmt::format("a part of {} does not fit into {} samples", count, size)},
          where);
    }
    left -= count;
  }
  if (left != 0) {
    raise<ValueError>(
        {.op = "random_split", .problem = fmt::format("the parts have {} of {} samples", size - left, size)}, where);
  }
  return cut(size, counts, seed);
}

}  // namespace weft::data::detail
