// State of a ParallelModel. Not public.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "../parallelize.hpp"

namespace weft::distributed {

struct ParallelModel::State {
  State(ParallelLayers layers_, ParallelPlan plan_);

  /// Ranks with other rows of the batch: along "dp" and "ep".
  const Group& replicas() const { return replicas_; }
  /// Ranks with the same experts.
  const Group& dp() const { return mesh.group("dp"); }
  const Group& ep() const { return mesh.group("ep"); }
  const Group& pp() const { return mesh.group("pp"); }
  const Group& tp() const { return mesh.group("tp"); }

  /// The layers of this rank's chunk c, [first, last).
  std::pair<size_t, size_t> chunk(int c) const;
  std::vector<nn::Module> own_layers() const;
  /// Modules whose parameters are gathered for their calls in stage 3.
  std::vector<nn::Module> units() const;

  ParallelLayers layers;
  ParallelPlan plan;
  /// With all four dimensions.
  Mesh mesh;
  /// First layer of each stage, and the number of layers.
  std::vector<size_t> bounds;
  std::vector<nn::NamedTensor> parameters, buffers;
  /// Parameters that are equal on all ranks along "tp".
  std::vector<Tensor> whole_on_all;
  /// Parameters that differ between ranks along "ep".
  std::vector<Tensor> experts;
  std::vector<PipelineSharedWeight> shared;

 private:
  Group replicas_;
  void share_out();
  /// `mixtures` are those on shards of the sequence.
  void apply(const ModuleSplit& split, const std::vector<std::pair<std::string, nn::Module>>& own,
             const std::vector<nn::Module>& mixtures);
  void apply_all();
};

}  // namespace weft::distributed
