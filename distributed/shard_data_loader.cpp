#include "shard_data_loader.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../ops/index.hpp"
#include "../ops/pointwise.hpp"
#include "../tensor/error.hpp"
#include "collectives.hpp"

namespace weft::distributed::detail {

namespace {

/// x with `length` elements along the axis: behind its end it begins again.
Tensor wrapped(const Tensor& x, int axis, int64_t length) {
  std::vector<int64_t> places;
  for (int64_t i = 0; i < length; ++i) places.push_back(i % x.size(axis));
  return index_select(x, axis, tensor(places).to(x.device()));
}

/// Every rank's text, in their order.
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
    const ShardDim& cut = options_.shard_dims[dims == 1 ? 0 : i];
    Input input{.mesh = meshes_.size() == 1 ? 0 : i, .axis = cut.axis};
    if (!cut.dim.empty()) {
      const Mesh& mesh = meshes_[input.mesh];
      input.dim = mesh.dim(cut.dim);
      input.ranks = mesh.shape()[input.dim];
    }
    if (cut.axis < 0) raise<IndexError>({.problem = fmt::format("there is no axis {} to cut", cut.axis)});
    inputs_.push_back(input);
  }
}

void BatchParts::check_loader(int64_t rank, int64_t world) const {
  if (world == 1) return;
  if (!options_.already_split) {
    raise<ValueError>({.problem = fmt::format("the loader gives samples of rank {} of {} alone", rank, world),
                       .remedy = "say already_split, or take a loader of all samples"});
  }
  for (const Input& input : inputs_) {
    const Mesh& mesh = meshes_[input.mesh];
    if (input.dim < 0 || mesh.coordinate().empty()) continue;
    if (world == input.ranks && rank == mesh.coordinate()[input.dim]) continue;
    raise<ValueError>(
        {.problem = fmt::format("the loader is that of rank {} of {}, and along '{}' of the mesh this is rank {} of {}",
                                rank, world, mesh.names()[static_cast<size_t>(input.dim)], mesh.coordinate()[input.dim],
                                input.ranks)});
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

Placements BatchParts::placements(const Input& input, int axis) const {
  Placements p(static_cast<size_t>(meshes_[input.mesh].shape().size()));
  if (input.dim >= 0 && axis >= 0) p[static_cast<size_t>(input.dim)] = Shard(axis);
  return p;
}

DTensor BatchParts::cut(const Tensor& x, size_t number) {
  const Input& input = inputs_[described(number)];
  const Mesh& mesh = meshes_[input.mesh];
  Piece piece{.input = described(number), .device = checked(x).device()};
  if (input.dim < 0 || x.dim() == 0) {
    pieces_.push_back(piece);
    return shard_tensor(x, mesh, placements(input, -1));
  }
  if (input.axis >= x.dim()) {
    raise<IndexError>({.problem = fmt::format("axis {} of a tensor {} is to be cut", input.axis, x.shape().text())});
  }
  const int64_t n = x.size(input.axis), left = n % input.ranks;
  const bool pads = !options_.already_split && options_.last_batch == LastBatch::pad && left != 0;
  Dims shape = x.shape();
  if (options_.already_split) shape[input.axis] *= input.ranks;
  if (pads) shape[input.axis] += input.ranks - left;
  piece.length = shape[input.axis];
  piece.own = options_.already_split ? piece.length : n;
  pieces_.push_back(piece);
  uneven_ |= left != 0;
  const Placements to = placements(input, input.axis);
  if (options_.already_split) return {mesh.coordinate().empty() ? Tensor() : x, shape, mesh, to};
  return shard_tensor(pads ? wrapped(x, input.axis, piece.length) : x, mesh, to);
}

bool BatchParts::divides(int64_t rows) const {
  return std::ranges::all_of(inputs_, [&](const Input& i) { return i.axis != 0 || rows % i.ranks == 0; });
}

std::vector<DTensor> BatchParts::masks() const {
  std::vector<DTensor> out;
  for (const Piece& piece : pieces_) {
    const Input& input = inputs_[piece.input];
    const bool is_cut = piece.own >= 0;
    const Tensor mask = is_cut ? lt(arange(piece.length), piece.own) : tensor(true);
    out.push_back(shard_tensor(mask.to(piece.device), meshes_[input.mesh], placements(input, is_cut ? 0 : -1)));
  }
  return out;
}

}  // namespace weft::distributed::detail
