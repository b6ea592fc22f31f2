// Shards a loader's batches over the ranks of a mesh.
//
//   data::DataLoader loader(training, {.batch_size = 64, .shuffle = true, .seed = 1});
//   ShardDataLoader batches(std::move(loader), mesh, {.shard_dims = {"dp"}});
//   for (auto& [x, y] : batches) {          // DTensors of the whole batch; local() is this rank's shard
//     loss(model(x.local()), y.local()).backward();
//   }
//
// A batch is a tensor, or a pair, tuple, array, struct, list or map of them; its members are the inputs. Tensors in it
// become DTensors, at any depth, and all other values are unchanged; a struct with tensors becomes a tuple. An input
// may have its own mesh, such as that of the pipeline stage that consumes it; on other ranks local() is undefined.
//
// Every rank runs a loader with the same dataset, options and seed, makes the same whole batches and keeps its shard.
// So ranks with the same position along the sharded dimensions have the same samples with the same random numbers.
// Epochs have the order of one process, and a saved position does not depend on the number of ranks. If reading is
// expensive, use `already_split`: each rank then reads only its own samples.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "../data/loader.hpp"
#include "../tensor/error.hpp"
#include "spmd/dtensor.hpp"

namespace weft::distributed {

/// Shards an input along `axis`, over the ranks along one dimension of its mesh.
struct ShardDim {
  ShardDim(const char* dim_, int axis_ = 0) : dim(dim_), axis(axis_) {}
  ShardDim(std::string dim_, int axis_ = 0) : dim(std::move(dim_)), axis(axis_) {}

  std::string dim;
  int axis = 0;
};

/// How an input is sharded: `none` keeps it whole, "dp" or {"dp", 1} is one cut, ShardDims({{"dp"}, {"sp", 1}}) has
/// several. Two cuts of one axis are nested; the mesh's earlier dimension cuts first.
struct ShardDims {
  ShardDims(NoneType = none) {}
  ShardDims(const char* dim, int axis = 0) : cuts{{dim, axis}} {}
  ShardDims(std::string dim, int axis = 0) : cuts{{std::move(dim), axis}} {}
  ShardDims(ShardDim cut) : cuts{std::move(cut)} {}
  explicit ShardDims(std::vector<ShardDim> cuts_) : cuts(std::move(cuts_)) {}

  std::vector<ShardDim> cuts;
};

struct ShardDataLoaderOptions {
  /// How to treat a batch in which the size of a cut axis is not a multiple of the ranks along it.
  enum class LastBatch : uint8_t {
    ragged,  // shards have the sizes of shard_size: the last ones are shorter, or empty
    pad,     // repeats elements from the start of the input at its end; masks() marks them
    drop,    // skips the batch; raises ValueError if it is not the last one of its epoch
  };

  /// Keys to use of batches that are maps, in the order of meshes and shard_dims; if empty, all keys.
  std::vector<std::string> input_keys = {};
  /// One entry for all inputs, or one for each. If empty, every rank has the whole batch.
  std::vector<ShardDims> shard_dims = {};
  /// The loader already returns this rank's shard, as with LoaderOptions::rank and world along the first cut axis, of
  /// the same size on all ranks. Its saved position depends on that number of ranks. last_batch is ignored.
  bool already_split = false;
  LastBatch last_batch = LastBatch::ragged;
};

namespace detail {

/// The part of ShardDataLoader that does not depend on the batch type: the mesh and cuts of each input.
class WEFT_API BatchParts {
 public:
  BatchParts(std::vector<Mesh> meshes, ShardDataLoaderOptions options, Location where);

  const ShardDataLoaderOptions& options() const { return options_; }
  void check_loader(int64_t rank, int64_t world) const;
  /// Raises ValueError unless this number of inputs is described, or all alike.
  void check_count(size_t inputs) const;
  /// `named`: whether batches are maps, whose inputs have names.
  void check_keys(bool named) const;
  [[noreturn]] void raise_missing(const std::string& key) const;
  [[noreturn]] void raise_not_last() const;
  /// Raises ValueError on every rank of a mesh whose ranks have different positions.
  void check_alike(const std::string& position) const;

  /// Starts the next batch.
  void begin() { pieces_.clear(), uneven_ = false; }
  DTensor cut(const Tensor& x, size_t input);
  /// Whether the last batch must be dropped.
  bool drops() const { return drops_uneven() && uneven_; }
  bool drops_uneven() const { return !options_.already_split && options_.last_batch == LastBatch::drop; }
  /// Whether every input with so many rows can be cut into equal parts.
  bool divides(int64_t rows) const;
  std::vector<DTensor> masks() const;

 private:
  using LastBatch = ShardDataLoaderOptions::LastBatch;
  /// Cut of an axis by a dimension of the mesh.
  struct Cut {
    int dim = 0, axis = 0;
  };
  struct Input {
    size_t mesh = 0;
    /// By dimension of the mesh.
    std::vector<Cut> cuts = {};
  };
  /// A tensor of the batch: the lengths of its cut axes, and how many elements along them are not padding.
  struct Piece {
    size_t input = 0;
    Device device = {};
    Dims lengths = {}, own = {};
  };
  Input described_by(const ShardDims& cuts, size_t mesh) const;
  size_t described(size_t input) const { return inputs_.size() == 1 ? 0 : input; }
  static std::vector<int> cut_axes(const Input& input);
  /// Number of shards of an axis, and index of this rank's shard.
  int64_t ranks_along(const Input& input, int axis) const;
  int64_t rank_along(const Input& input, int axis) const;

  std::vector<Mesh> meshes_;
  ShardDataLoaderOptions options_;
  std::vector<Input> inputs_;
  std::vector<Piece> pieces_;
  bool uneven_ = false;
};

/// A map of the same template with other values.
template <class Map, class Value>
struct MapTo;
template <class K, class V, class Less, class A, class Value>
struct MapTo<std::map<K, V, Less, A>, Value> {
  using type = std::map<K, Value, Less>;
};
template <class K, class V, class Hash, class Equal, class A, class Value>
struct MapTo<std::unordered_map<K, V, Hash, Equal, A>, Value> {
  using type = std::unordered_map<K, Value, Hash, Equal>;
};
template <class T>
concept IsMap = requires {
  typename MapTo<T, int>::type;
};
template <class T>
concept IsList = data::detail::is_vector<T> && !data::detail::NumberList<T> && !std::same_as<T, std::vector<bool>>;

template <bool is_batch = false, class T>
auto cut_tensors(T x, BatchParts& parts, size_t input = 0);

template <class T>
using Cut = decltype(cut_tensors(std::declval<T>(), std::declval<BatchParts&>()));

template <bool is_batch, class T>
auto cut_map(T x, BatchParts& parts, size_t input) {
  typename MapTo<T, Cut<typename T::mapped_type>>::type out;
  const auto& keys = parts.options().input_keys;
  if constexpr (is_batch && std::constructible_from<typename T::key_type, const std::string&>) {
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto at = x.find(typename T::key_type(keys[i]));
      if (at == x.end()) parts.raise_missing(keys[i]);
      out.emplace(at->first, cut_tensors(std::move(at->second), parts, i));
    }
    if (!keys.empty()) return out;
  }
  for (auto& [key, value] : x) out.emplace(key, cut_tensors(std::move(value), parts, input));
  return out;
}

/// Evaluates in the order of the members; the order of function arguments is unspecified.
template <bool is_batch, class T>
auto cut_fields(T x, BatchParts& parts, size_t input) {
  return [&]<size_t... i>(std::index_sequence<i...>) {
    using Fields = std::tuple<Cut<std::remove_cvref_t<decltype(data::detail::field<i>(x))>>...>;
    Fields fields{cut_tensors(std::move(data::detail::field<i>(x)), parts, is_batch ? i : input)...};
    return data::detail::rebuilt<T>(std::move(std::get<i>(fields))...);
  }
  (std::make_index_sequence<data::detail::field_count<T>>());
}

/// x with its tensors sharded. The members of a batch are the inputs; all tensors of an input are cut alike.
template <bool is_batch, class T>
auto cut_tensors(T x, BatchParts& parts, size_t input) {
  if constexpr (std::same_as<T, Tensor>) {
    return parts.cut(x, input);
  } else if constexpr (IsMap<T>) {
    return cut_map<is_batch>(std::move(x), parts, input);
  } else if constexpr (IsList<T>) {
    if constexpr (is_batch) parts.check_count(x.size());
    std::vector<Cut<typename T::value_type>> out;
    for (size_t i = 0; i < x.size(); ++i) out.push_back(cut_tensors(std::move(x[i]), parts, is_batch ? i : input));
    return out;
  } else if constexpr (data::detail::HasFields<T>) {
    return cut_fields<is_batch>(std::move(x), parts, input);
  } else {
    return x;
  }
}

}  // namespace detail

/// Each loop is an epoch, as for DataLoader. Must not be moved during a loop.
template <class D, class C = data::Collate>
class ShardDataLoader {
 public:
  using Loader = data::DataLoader<D, C>;
  using Batch =
      decltype(detail::cut_tensors<true>(std::declval<typename Loader::Batch>(), std::declval<detail::BatchParts&>()));

  /// Takes the loader, and one mesh for all inputs, or one for each. Raises KeyError for a dimension that a mesh lacks;
  /// IndexError for a negative axis; ValueError if the numbers of meshes, shard_dims, keys and inputs do not fit, and
  /// if a mesh dimension cuts an input twice. Also for keys of batches that are not maps, and if `already_split`
  /// contradicts the loader's rank and world.
  ShardDataLoader(Loader loader, std::vector<Mesh> meshes, ShardDataLoaderOptions options = {}, Location where = {})
      : loader_(std::move(loader)), parts_(std::move(meshes), std::move(options), where) {
    using Whole = typename Loader::Batch;
    const CallScope call(name, where);
    parts_.check_loader(loader_.options().rank, loader_.options().world);
    parts_.check_keys(detail::IsMap<Whole>);
    if constexpr (data::detail::HasFields<Whole>) parts_.check_count(data::detail::field_count<Whole>);
    else if constexpr (std::same_as<Whole, Tensor>) parts_.check_count(1);
  }
  ShardDataLoader(Loader loader, const Mesh& mesh, ShardDataLoaderOptions options = {}, Location where = {})
      : ShardDataLoader(std::move(loader), std::vector<Mesh>{mesh}, std::move(options), where) {}

  class Iterator {
   public:
    using value_type = Batch;
    using difference_type = std::ptrdiff_t;

    Batch& operator*() const { return *batch_; }
    Batch* operator->() const { return batch_.get(); }
    Iterator& operator++() {
      batch_ = {};  // free it before the next one is made
      ++at_;
      cut();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(data::detail::LoopEnd) const { return batch_ == nullptr; }

   private:
    friend ShardDataLoader;
    Iterator(ShardDataLoader& loader, Location where)
        : loader_(&loader), where_(where), at_(loader.loader_.begin(where)) {
      loader.check_alike(where);
      cut();
    }
    void cut() {
      if (at_ == data::detail::LoopEnd{}) return;
      const CallScope call(name, where_);
      detail::BatchParts& parts = loader_->parts_;
      parts.begin();
      batch_ = Shared<Batch>::make(detail::cut_tensors<true>(std::move(*at_), parts));
      if (!parts.drops()) return;
      batch_ = {};
      {
        const OutsideCalls loaders_own;
        ++at_;
      }
      if (!(at_ == data::detail::LoopEnd{})) parts.raise_not_last();
    }

    ShardDataLoader* loader_;
    Location where_;
    typename Loader::Iterator at_;
    Shared<Batch> batch_;
  };

  /// Starts the next epoch, whether or not the last loop was finished. Called by all ranks. Ranks of a mesh compare
  /// their positions by two small messages; all of them raise ValueError if seeds, datasets, options or positions
  /// differ. Batches raise KeyError for a key that a map lacks; IndexError for an axis that a tensor lacks (0-d tensors
  /// are kept whole); ValueError for another number of inputs than described, and for an undefined tensor.
  Iterator begin(Location where = {}) { return Iterator(*this, where); }
  data::detail::LoopEnd end() { return {}; }

  /// Padding masks of the last batch, one for each of its tensors in order: bool, with the shape of the tensor's cut
  /// axes, sharded like it, false at padding. For a tensor that is not cut: 0-d and true.
  std::vector<DTensor> masks(Location where = {}) const {
    const CallScope call("ShardDataLoader::masks", where);
    return parts_.masks();
  }

  /// Number of batches of an epoch, without the one that LastBatch::drop skips. Assumes one row per sample. Raises
  /// ValueError for a stream, and for `drop` with a batch sampler.
  int64_t size(Location where = {}) const {
    const int64_t all = loader_.size(where);
    if constexpr (data::Dataset<D>) {
      if (parts_.drops_uneven() && !parts_.divides(rows_of_last(where))) return all - 1;
    }
    return all;
  }
  const Loader& loader() const { return loader_; }
  uint64_t seed() const { return loader_.seed(); }
  /// As for DataLoader.
  int64_t epoch() const { return loader_.epoch(); }
  int64_t batch() const { return loader_.batch(); }
  void set_epoch(int64_t epoch, Location where = {}) { loader_.set_epoch(epoch, where); }

  /// The loader's position, the same text on every rank. Without already_split, any number of ranks can resume from it.
  std::string state() const { return loader_.state(); }
  void restore(const std::string& state, Location where = {}) { loader_.restore(state, where); }

 private:
  static constexpr const char* name = "ShardDataLoader";

  /// Rows of the last batch; 0 if it is as long as the others.
  int64_t rows_of_last(Location where) const {
    const data::LoaderOptions& o = loader_.options();
    if (o.batch_sampler) {
      raise<ValueError>({.op = name, .problem = "how many rows a batch sampler's last batch will have is not known"},
                        where);
    }
    const int64_t samples = o.sampler ? o.sampler.size() : loader_.dataset().size();
    return o.drop_last ? 0 : samples % o.batch_size;
  }
  void check_alike(Location where) {
    const CallScope call(name, where);
    if (!parts_.options().already_split) return parts_.check_alike(loader_.state());
    std::string position = "epoch " + std::to_string(loader_.epoch()) + ", batch " + std::to_string(loader_.batch());
    if constexpr (data::Dataset<D>) position += " of " + std::to_string(loader_.size(where));
    parts_.check_alike(position);
  }

  Loader loader_;
  detail::BatchParts parts_;
};

}  // namespace weft::distributed
