// What a ParallelModel holds. Not public.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "../parallelize.hpp"

namespace weft::distributed {

struct ParallelModel::State {
  State(ParallelLayers layers_, ParallelPlan plan_);

  /// Ranks that have other rows: along "dp" and "ep".
  const Group& replicas() const { return replicas_; }
  /// Those that have the same experts.
  const Group& dp() const { return mesh.group("dp"); }
  const Group& ep() const { return mesh.group("ep"); }
  const Group& pp() const { return mesh.group("pp"); }
  const Group& tp() const { return mesh.group("tp"); }

  /// The layers of this rank's chunk c, [first, last).
  std::pair<size_t, size_t> chunk(int c) const;
  std::vector<nn::Module> own_layers() const;
  /// Modules whose parameters come and go in stage 3.
  std::vector<nn::Module> units() const;

  ParallelLayers layers;
  ParallelPlan plan;
  /// Of all four dimensions.
  Mesh mesh;
  /// Where the stages begin, and the end.
  std::vector<size_t> bounds;
  std::vector<nn::NamedTensor> parameters, buffers;
  /// That other ranks along "tp" have as well.
  std::vector<Tensor> whole_on_all;
  /// Of which other ranks along "ep" have others.
  std::vector<Tensor> experts;
  std::vector<PipelineSharedWeight> shared;

 private:
  Group replicas_;
  void share_out();
  void apply(const ModuleSplit& split, const std::vector<std::pair<std::string, nn::Module>>& own);
  void apply_all();
};

}  // namespace weft::distributed
