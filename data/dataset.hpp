// Datasets: any type with a size and a sample i, such as a tensor, a tuple or a struct.
//
//   struct Squares {
//     int64_t size() const { return 100; }
//     std::pair<Tensor, double> get(int64_t i) const { return {full({3}, i), i * i}; }
//   };
//   const auto [training, validation] = data::random_split(data::map(Squares{}, normalise), {0.9, 0.1});
//
// A loader with workers calls `get` from several threads at once. Dataset views own their underlying datasets. `get`
// raises IndexError for an index outside [0, size).
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
/// Returns the sample; an Indexed (x[i]) is converted to a Tensor.
template <class S>
decltype(auto) read_sample(S&& sample) {
  if constexpr (std::same_as<S, Indexed>) return Tensor(std::forward<S>(sample));
  else return std::forward<S>(sample);
}
}  // namespace detail

template <Dataset D>
using SampleOf = std::remove_cvref_t<decltype(detail::read_sample(std::declval<const D&>().get(int64_t{})))>;

/// A dataset that can build a whole batch faster than sample by sample. The batch must equal its collated samples.
template <class D>
concept BatchedDataset = Dataset<D> && requires(const D& dataset, std::span<const int64_t> indices) {
  dataset.get_batch(indices);
};

namespace detail {
WEFT_API void check_rows(std::span<const Tensor> tensors, Location where);
WEFT_API Tensor row(const Tensor& tensor, int64_t index);
/// Returns the rows at `indices` as a new tensor.
WEFT_API Tensor rows(const Tensor& tensor, std::span<const int64_t> indices);
WEFT_API void check_index(int64_t index, int64_t size);
WEFT_API void check_indices(std::span<const int64_t> indices, int64_t size, Location where);
/// Returns the sample indices of each split.
WEFT_API std::vector<std::vector<int64_t>> split_order(int64_t size, std::span<const double> fractions, uint64_t seed,
                                                       Location where);
WEFT_API std::vector<std::vector<int64_t>> split_order(int64_t size, std::span<const int64_t> counts, uint64_t seed,
                                                       Location where);
}  // namespace detail

/// Sample i is row i of each tensor: `TensorDataset(x, y)`. Samples and batches are arrays of tensors, one for each
/// argument. Samples are views, batches are copies. Raises ShapeError unless the tensors have the same number of rows.
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

/// Applies `function` to every sample, on each access. In a loader, the CPU's default generator has a separate state
/// for each sample (<weft/data/loader.hpp>).
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

/// Selected samples of a dataset, in the given order.
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

/// The samples of one dataset, followed by those of another with the same sample type.
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

/// The dataset with `function` applied to each sample, when it is read.
template <Dataset D, class F>
Mapped<D, F> map(D dataset, F function) {
  return {std::move(dataset), std::move(function)};
}
/// The samples at `indices`, in this order. Raises IndexError for an index outside of the dataset.
template <Dataset D>
Subset<D> subset(D dataset, std::vector<int64_t> indices, Location where = {}) {
  return {Shared<D>::make(std::move(dataset)), std::move(indices), where};
}
/// Returns the samples that satisfy `predicate`, which is called here, once for each sample.
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

/// Splits a dataset at random, by `seed`, without overlap: `auto [training, validation] = random_split(all, {0.9,
/// 0.1})`, or with counts, `{900, 100}`. Fractions are rounded down; the remaining samples are added one by one to the
/// first splits, as in PyTorch. Raises ValueError unless the fractions add up to 1, or the counts to the size, and none
/// is negative.
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
