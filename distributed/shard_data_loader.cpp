#include "shard_data_loader.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/index.hpp"
#include "../ops/pointwise.hpp"
#include "../tensor/error.hpp"
#include "collectives.hpp"

namespace weft::distributed::detail {

namespace {

/// x repeated along the axis up to `length` elements.
Tensor wrapped(const Tensor& x, int axis, int64_t length) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < length; ++i) places.push_back(i % x.size(axis));
  return index_select(x, axis, tensor(places).to(x.device()));
}

/// Every rank's text, in rank order.
std::vector<std::string> gathered(const std::string& text, const Group& group) {
  const Tensor bytes = tensor(std::vector<uint8_t>(text.begin(), text.end()));
  const std::vector<int64_t> sizes = all_gather(tensor(std::vector{bytes.numel()}), group).to_vector<int64_t>();
  const std::vector<uint8_t> all = all_gather(bytes, sizes, group).to_vector<uint8_t>();
  std::vector<std::string> texts;
  auto at = all.begin();
  for (const int64_t size : sizes) {
    texts.emplace_back(at, at + size);
    at += size;
  }
  return texts;
}

}  // namespace

BatchParts::BatchParts(std::vector<Mesh> meshes, ShardDataLoaderOptions options, Location where)
    : meshes_(std::move(meshes)), options_(std::move(options)) {
  const CallScope call("ShardDataLoader", where);
  if (options_.shard_dims.empty()) options_.shard_dims.emplace_back();
  const size_t dims = options_.shard_dims.size(), keys = options_.input_keys.size();
  const size_t count = std::max(meshes_.size(), dims);
  if (meshes_.empty() || (meshes_.size() != 1 && meshes_.size() != count) || (dims != 1 && dims != count) ||
      (keys != 0 && count != 1 && keys != count)) {
    raise<ValueError>({.problem = fmt::format("{} meshes, {} shard_dims and {} input_keys", meshes_.size(), dims, keys),
                       .remedy = "there is one mesh, and one of shard_dims, for all inputs, or as many as inputs"});
  }
  for (size_t i = 0; i < count; ++i) {
    inputs_.push_back(described_by(options_.shard_dims[dims == 1 ? 0 : i], meshes_.size() == 1 ? 0 : i));
  }
}

BatchParts::Input BatchParts::described_by(const ShardDims& shard_dims, size_t number) const {
  const Mesh& mesh = meshes_[number];
  Input input{.mesh = number};
  for (const ShardDim& cut : shard_dims.cuts) {
    if (cut.axis < 0) raise<IndexError>({.problem = fmt::format("there is no axis {} to cut", cut.axis)});
    const int dim = mesh.dim(cut.dim);
    if (std::ranges::find(input.cuts, dim, &Cut::dim) != input.cuts.end()) {
      raise<ValueError>({.problem = fmt::format("the ranks along '{}' are to cut two axes of one input", cut.dim)});
    }
    input.cuts.push_back({dim, cut.axis});
  }
  std::ranges::sort(input.cuts, {}, &Cut::dim);
  return input;
}

std::vector<int> BatchParts::cut_axes(const Input& input) {
  std::set<int> axes;
  for (const Cut& cut : input.cuts) axes.insert(cut.axis);
  return {axes.begin(), axes.end()};
}

int64_t BatchParts::ranks_along(const Input& input, int axis) const {
  int64_t ranks = 1;
  for (const Cut& cut : input.cuts) ranks *= cut.axis == axis ? meshes_[input.mesh].shape()[cut.dim] : 1;
  return ranks;
}

int64_t BatchParts::rank_along(const Input& input, int axis) const {
  const Mesh& mesh = meshes_[input.mesh];
  int64_t rank = 0;
  for (const Cut& cut : input.cuts) {
    if (cut.axis == axis) rank = rank * mesh.shape()[cut.dim] + mesh.coordinate()[cut.dim];
  }
  return rank;
}

void BatchParts::check_loader(int64_t rank, int64_t world) const {
  if (world == 1) return;
  if (!options_.already_split) {
    raise<ValueError>({.problem = fmt::format("the loader gives samples of rank {} of {} alone", rank, world),
                       .remedy = "say already_split, or take a loader of all samples"});
  }
  for (const Input& input : inputs_) {
    const Mesh& mesh = meshes_[input.mesh];
    if (input.cuts.empty() || mesh.coordinate().empty()) continue;
    const int axis = cut_axes(input)[0];
    if (world == ranks_along(input, axis) && rank == rank_along(input, axis)) continue;
    std::vector<std::string> names;
    for (const Cut& cut : input.cuts) {
      if (cut.axis == axis) names.push_back(mesh.names()[static_cast<size_t>(cut.dim)]);
    }
    raise<ValueError>(
        {.problem =
             fmt::format("the loader is that of rank {} of {}, and along '{}' of the mesh this is rank {} of {}", rank,
                         world, fmt::join(names, "' and '"), rank_along(input, axis), ranks_along(input, axis))});
  }
}

void BatchParts::check_count(size_t inputs) const {
  if (inputs_.size() == 1 || inputs_.size() == inputs) return;
  raise<ValueError>({.problem = fmt::format("{} inputs are described, and a batch has {}", inputs_.size(), inputs)});
}

void BatchParts::check_keys(bool named) const {
  if (!named && !options_.input_keys.empty()) {
    raise<ValueError>({.problem = "input_keys are given, and a batch is no map"});
  }
  if (named && options_.input_keys.empty() && inputs_.size() != 1) {
    raise<ValueError>({.problem = fmt::format("{} inputs are described, and none is named", inputs_.size()),
                       .remedy = "give their keys, in this order, as input_keys"});
  }
}

void BatchParts::raise_missing(const std::string& key) const {
  raise<KeyError>({.problem = fmt::format("the batch has no '{}'", key)});
}
void BatchParts::raise_not_last() const {
  raise<ValueError>({.problem = "a batch that is not the last one cannot be cut into equal parts, and would be dropped",
                     .remedy = "take a multiple of the ranks as batch_size, or LastBatch::ragged or pad"});
}

void BatchParts::check_alike(const std::string& position) const {
  for (const Mesh& mesh : meshes_) {
    if (mesh.coordinate().empty() || mesh.size() == 1) continue;
    const std::vector<std::string> all = gathered(position, mesh.group());
    const auto other = std::ranges::find_if(all, [&](const std::string& text) { return text != all[0]; });
    if (other == all.end()) continue;
    raise<ValueError>(
        {.problem = fmt::format("the loaders of ranks 0 and {} differ: {} and {}", other - all.begin(), all[0], *other),
         .remedy = "make them alike, and name LoaderOptions::seed"});
  }
}

DTensor BatchParts::cut(const Tensor& x, size_t number) {
  const Input& input = inputs_[described(number)];
  const Mesh& mesh = meshes_[input.mesh];
  Placements to(static_cast<size_t>(mesh.shape().size()));
  Piece piece{.input = described(number), .device = checked(x).device()};
  if (input.cuts.empty() || x.dim() == 0) {
    pieces_.push_back(piece);
    return shard_tensor(x, mesh, to);
  }
  for (const Cut& cut : input.cuts) {
    if (cut.axis >= x.dim()) {
      raise<IndexError>({.problem = fmt::format("axis {} of a tensor {} is to be cut", cut.axis, x.shape().text())});
    }
    to[static_cast<size_t>(cut.dim)] = Shard(cut.axis);
  }
  Tensor padded = x;
  Dims shape = x.shape();
  for (const int axis : cut_axes(input)) {
    const int64_t n = x.size(axis), ranks = ranks_along(input, axis), left = n % ranks;
    uneven_ |= left != 0;
    if (options_.already_split) {
      shape[axis] = n * ranks;
    } else if (options_.last_batch == LastBatch::pad && left != 0) {
      shape[axis] = n + ranks - left;
      padded = wrapped(padded, axis, shape[axis]);
    }
    piece.lengths.push_back(shape[axis]);
    piece.own.push_back(options_.already_split ? shape[axis] : n);
  }
  pieces_.push_back(piece);
  if (options_.already_split) return {mesh.coordinate().empty() ? Tensor() : x, shape, mesh, to};
  return shard_tensor(padded, mesh, to);
}

bool BatchParts::divides(int64_t rows) const {
  return std::ranges::all_of(inputs_, [&](const Input& i) { return rows % ranks_along(i, 0) == 0; });
}

std::vector<DTensor> BatchParts::masks() const {
  std::vector<DTensor> out;
  for (const Piece& piece : pieces_) {
    const Input& input = inputs_[piece.input];
    const Mesh& mesh = meshes_[input.mesh];
    Placements to(static_cast<size_t>(mesh.shape().size()));
    Tensor mask = tensor(true);
    for (int i = 0; i < piece.lengths.size(); ++i) {
      mask = logical_and(mask.unsqueeze(-1), lt(arange(piece.lengths[i]), piece.own[i]));
    }
    if (mask.dim() != 0) {
      const std::vector<int> axes = cut_axes(input);
      for (const Cut& cut : input.cuts) {
        to[static_cast<size_t>(cut.dim)] = Shard(static_cast<int>(std::ranges::find(axes, cut.axis) - axes.begin()));
      }
    }
    out.push_back(shard_tensor(mask.to(piece.device), mesh, to));
  }
  return out;
}

}  // namespace weft::distributed::detail
