// Datasets: what has a size and gives sample i, of any type, such as a tensor, a tuple or a struct.
//
//   struct Squares {
//     int64_t size() const { return 100; }
//     std::pair<Tensor, double> get(int64_t i) const { return {full({3}, i), i * i}; }
//   };
//   const auto [training, validation] = data::random_split(data::map(Squares{}, normalise), {0.9, 0.1});
//
// `get` is called from several threads at once by a loader with workers. Views of datasets keep what they look into.
// IndexError for an index outside [0, size).
#pragma once

#include <array>
#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "../tensor/index.hpp"
#include "../tensor/shared.hpp"

namespace weft::data {

template <class D>
concept Dataset = requires(const D& dataset, int64_t index) {
  { dataset.size() } -> std::convertible_to<int64_t>;
  dataset.get(index);
};
namespace detail {
/// A sample as it is given, but for x[i], which becomes the Tensor that it reads.
template <class S>
decltype(auto) read_sample(S&& sample) {
  if constexpr (std::same_as<S, Indexed>) return Tensor(std::forward<S>(sample));
  else return std::forward<S>(sample);
}
}  // namespace detail

template <Dataset D>
using SampleOf = std::remove_cvref_t<decltype(detail::read_sample(std::declval<const D&>().get(int64_t{})))>;

/// A dataset that makes a whole batch faster than sample by sample. The batch is what collating its samples would give.
template <class D>
concept BatchedDataset = Dataset<D> && requires(const D& dataset, std::span<const int64_t> indices) {
  dataset.get_batch(indices);
};

namespace detail {
WEFT_API void check_rows(std::span<const Tensor> tensors, Location where);
WEFT_API Tensor row(const Tensor& tensor, int64_t index);
/// The rows at `indices`, a new tensor.
WEFT_API Tensor rows(const Tensor& tensor, std::span<const int64_t> indices);
WEFT_API void check_index(int64_t index, int64_t size);
WEFT_API void check_indices(std::span<const int64_t> indices, int64_t size, Location where);
/// Which samples each part of a random split has.
WEFT_API std::vector<std::vector<int64_t>> split_order(int64_t size, std::span<const double> fractions, uint64_t seed,
                                                       Location where);
WEFT_API std::vector<std::vector<int64_t>> split_order(int64_t size, std::span<const int64_t> counts, uint64_t seed,
                                                       Location where);
}  // namespace detail

/// Sample i is row i of each tensor: `TensorDataset(x, y)`, whose samples and batches are arrays of as many tensors.
/// Samples share the tensors' memory, batches are copies. ShapeError unless the tensors have equally many rows.
template <size_t count>
class TensorDataset {
 public:
  template <std::convertible_to<Tensor>... T>
  explicit TensorDataset(const Operand& first, T&&... others)
      : tensors_{first.tensor(), Tensor(std::forward<T>(others))...} {
    detail::check_rows(tensors_, first.where);
  }

  int64_t size() const { return tensors_[0].size(0); }
  std::array<Tensor, count> get(int64_t index) const {
    std::array<Tensor, count> sample;
    for (size_t i = 0; i < count; ++i) sample[i] = detail::row(tensors_[i], index);
    return sample;
  }
  std::array<Tensor, count> get_batch(std::span<const int64_t> indices) const {
    std::array<Tensor, count> batch;
    for (size_t i = 0; i < count; ++i) batch[i] = detail::rows(tensors_[i], indices);
    return batch;
  }
  const std::array<Tensor, count>& tensors() const { return tensors_; }

 private:
  std::array<Tensor, count> tensors_;
};
template <class... T>
TensorDataset(const Operand&, T&&...) -> TensorDataset<1 + sizeof...(T)>;

/// `function` of every sample, computed whenever one is asked for. Random numbers of the CPU's default generator are
/// the sample's own in a loader (<weft/data/loader.hpp>).
template <Dataset D, class F>
class Mapped {
 public:
  Mapped(D dataset, F function) : dataset_(std::move(dataset)), function_(std::move(function)) {}
  int64_t size() const { return dataset_.size(); }
  auto get(int64_t index) const { return detail::read_sample(function_(detail::read_sample(dataset_.get(index)))); }

 private:
  D dataset_;
  F function_;
};

/// Some samples of a dataset, in an order of their own.
template <Dataset D>
class Subset {
 public:
  Subset(Shared<const D> dataset, std::vector<int64_t> indices, Location where = {})
      : dataset_(std::move(dataset)), indices_(std::move(indices)) {
    detail::check_indices(indices_, dataset_->size(), where);
  }
  int64_t size() const { return static_cast<int64_t>(indices_.size()); }
  auto get(int64_t index) const {
    detail::check_index(index, size());
    return detail::read_sample(dataset_->get(indices_[static_cast<size_t>(index)]));
  }
  auto get_batch(std::span<const int64_t> indices) const requires BatchedDataset<D> {
    std::vector<int64_t> inner;
    inner.reserve(indices.size());
    for (const int64_t i : indices) {
      detail::check_index(i, size());
      inner.push_back(indices_[static_cast<size_t>(i)]);
    }
    return dataset_->get_batch(inner);
  }
  const std::vector<int64_t>& indices() const { return indices_; }

 private:
  Shared<const D> dataset_;
  std::vector<int64_t> indices_;
};

/// The samples of one dataset, then those of another with samples of the same type.
template <Dataset A, Dataset B>
  requires std::same_as<SampleOf<A>, SampleOf<B>>
class Concatenated {
 public:
  Concatenated(A first, B second) : first_(std::move(first)), second_(std::move(second)) {}
  int64_t size() const { return int64_t{first_.size()} + second_.size(); }
  SampleOf<A> get(int64_t index) const {
    detail::check_index(index, size());
    if (index < first_.size()) return detail::read_sample(first_.get(index));
    return detail::read_sample(second_.get(index - first_.size()));
  }

 private:
  A first_;
  B second_;
};

template <Dataset D, class F>
Mapped<D, F> map(D dataset, F function) {
  return {std::move(dataset), std::move(function)};
}
template <Dataset D>
Subset<D> subset(D dataset, std::vector<int64_t> indices, Location where = {}) {
  return {Shared<D>::make(std::move(dataset)), std::move(indices), where};
}
/// The samples for which `predicate` holds; it is asked once for each, here.
template <Dataset D, class F>
Subset<D> filter(D dataset, const F& predicate) {
  std::vector<int64_t> kept;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    if (predicate(detail::read_sample(dataset.get(i)))) kept.push_back(i);
  }
  return {Shared<D>::make(std::move(dataset)), std::move(kept)};
}
template <Dataset A, Dataset B, Dataset... More>
auto concat(A first, B second, More... more) {
  if constexpr (sizeof...(More) == 0) return Concatenated<A, B>(std::move(first), std::move(second));
  else return concat(Concatenated<A, B>(std::move(first), std::move(second)), std::move(more)...);
}

/// Parts with no sample in common, drawn by `seed`: `auto [training, validation] = random_split(all, {0.9, 0.1})`, or
/// with counts, `{900, 100}`. Fractions are rounded down, and what is left goes one by one to the first parts, as in
/// PyTorch. ValueError unless fractions add up to 1, or counts to the size, and none is negative.
template <Dataset D, class T, size_t count>
  requires std::is_arithmetic_v<T> std::array<Subset<D>, count> random_split(D dataset, const T (&parts)[count],
                                                                             uint64_t seed = 0, Location where = {}) {
    using Part = std::conditional_t<std::integral<T>, int64_t, double>;
    std::array<Part, count> wanted;
    for (size_t i = 0; i < count; ++i) wanted[i] = static_cast<Part>(parts[i]);
    std::vector<std::vector<int64_t>> order =
        detail::split_order(dataset.size(), std::span<const Part>(wanted), seed, where);
    const Shared<const D> whole = Shared<D>::make(std::move(dataset));
    return [&]<size_t... i>(std::index_sequence<i...>) {
      return std::array<Subset<D>, count>{Subset<D>(whole, std::move(order[i]))...};
    }
    (std::make_index_sequence<count>());
  }

}  // namespace weft::data
