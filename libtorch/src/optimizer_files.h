// Archives of optimizers, with libtorch's entries.
#pragma once

#include <torch/optim/optimizer.h>

namespace torch::optim::detail {

using NewState = std::unique_ptr<OptimizerParamState> (*)();

/// Reads an archive of libtorch since 1.5. States are new ones, or without `new_state` the optimizer's.
void load(Optimizer& optimizer, serialize::InputArchive& archive, NewState new_state);

/// Whether libtorch before 1.5 wrote the archive. Warns if so.
bool is_old(serialize::InputArchive& archive);
/// The tensors of a list in an old archive.
std::vector<Tensor> old_list(serialize::InputArchive& archive, const std::string& key);

}  // namespace torch::optim::detail
