// Running statistics of batch norms anew, for a model whose weights were averaged. It stands here because optim/ knows
// no modules.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "../autograd/program_watch.hpp"
#include "module.hpp"

namespace weft {
namespace nn::detail {

/// While one lives the batch norms of a model start anew and take the equal average of what they see on this thread,
/// and the model is in training; then each module is as it was, statistics too where an exception ends it.
class WEFT_API RenewedStatistics {
 public:
  explicit RenewedStatistics(const Module& model);
  ~RenewedStatistics();
  RenewedStatistics(const RenewedStatistics&) = delete;

  bool has_norms() const { return !norms_.empty(); }
  /// Whether this module's momentum is left out on this thread.
  static bool covers(const Module& module);

 private:
  static thread_local const RenewedStatistics* running;
  const RenewedStatistics* outer_ = nullptr;
  const weft::detail::UnwatchedScope unwatched_;  // it is no evaluation
  std::vector<std::pair<Module, bool>> training_;
  std::vector<Module> norms_;
  /// Buffers, and what they held.
  std::vector<std::pair<Tensor, Tensor>> before_;
  int exceptions_;
};

/// The first tensor of a batch. ValueError where there is none.
WEFT_API Tensor first_input(std::vector<Tensor*> tensors, std::optional<Device> device, Location where);

}  // namespace nn::detail

namespace optim {

/// Resets the running statistics of every BatchNorm in the model and computes them from the batches of a loader, each
/// counted alike: model(x) in training, without gradients, where x is the first tensor of a batch, on `device` where
/// one is given. Momenta and training flags are as before then, and where a call throws the statistics too. A loader is
/// any range; a model without such layers leaves it alone (torch.optim.swa_utils.update_bn). ValueError for a batch
/// without tensors.
template <class Loader, class M>
void update_bn(Loader&& loader, M& model, std::optional<Device> device = {}, Location where = {}) {
  const nn::detail::RenewedStatistics scope(model);
  if (!scope.has_norms()) return;
  const NoGradGuard unrecorded;
  for (auto&& batch : loader) {
    std::vector<Tensor*> tensors;
    auto held = batch;
    nn::detail::collect_tensors(tensors, held);
    (void)model(nn::detail::first_input(std::move(tensors), device, where));
  }
}

}  // namespace optim
}  // namespace weft
