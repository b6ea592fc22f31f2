#include "dtensor.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "../../tensor/error.hpp"
#include "reshard-inl.hpp"

namespace weft::distributed {

DTensor::DTensor(Tensor local, const Dims& shape, const Mesh& mesh, Placements placements, Location where)
    : local_(std::move(local)), shape_(shape), mesh_(mesh), placements_(std::move(placements)) {
  if (!mesh.coordinate().empty()) detail::check_part("DTensor", local_, shape, placements_, mesh, where);
}

DTensor DTensor::reshard(const Placements& placements, Location where) const {
  return {distributed::reshard(local_, shape_, placements_, placements, mesh_, where), shape_, mesh_, placements,
          where};
}

Tensor DTensor::full_tensor(Location where) const { return reshard(Placements(placements_.size()), where).local(); }

DTensor shard_tensor(const Tensor& whole, const Mesh& mesh, const Placements& placements, Location where) {
  const Tensor local =
      reshard(whole, whole.shape(), Placements(static_cast<size_t>(mesh.shape().size())), placements, mesh, where);
  return {local, whole.shape(), mesh, placements, where};
}

DTensor apply(const Notation& rule, const std::vector<DTensor>& inputs,
              const Callback<Tensor(std::span<const Tensor>)>& f, Location where) {
  if (inputs.empty() || rule.outputs().size() != 1) {
    raise<ValueError>({.op = "apply", .problem = "takes inputs, and a rule of one output"}, where);
  }
  const Mesh& mesh = inputs[0].mesh();
  std::vector<SpmdMeta> metas;
  for (const DTensor& x : inputs) {
    if (!(x.mesh().shape() == mesh.shape()) || !std::ranges::equal(x.mesh().ranks(), mesh.ranks())) {
      raise<ValueError>({.op = "apply", .problem = "the inputs are on different meshes"}, where);
    }
    metas.push_back({x.shape(), x.placements(), x.local().defined() ? itemsize(x.dtype()) : 4});
  }
  const SpmdInfo info = rule.infer(metas, mesh.shape(), where);
  const std::vector<Placements> gradients = rule.infer_gradients(metas, info);
  if (mesh.coordinate().empty()) return {Tensor(), rule.output_shape(metas, {}), mesh, info.outputs[0], where};
  const detail::MovedInputs moved(inputs, info, gradients, where);
  const Tensor local = moved.joined({f(moved.parts())})[0];
  return {local, rule.output_shape(metas, local.shape()), mesh, info.outputs[0], where};
}

}  // namespace weft::distributed
