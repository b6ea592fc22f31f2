// Recomputes the running statistics of batch norms, for a model with averaged weights. In nn/, because optim/ does not
// depend on modules.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "../autograd/program_watch.hpp"
#include "module.hpp"

namespace weft {
namespace nn::detail {

/// Resets the batch norms of a model and makes them average their batches on this thread equally, with the model in
/// training mode. The destructor restores modes and momenta, and after an exception also the statistics.
class WEFT_API RenewedStatistics {
 public:
  explicit RenewedStatistics(const Module& model);
  ~RenewedStatistics();
  RenewedStatistics(const RenewedStatistics&) = delete;

  bool has_norms() const { return !norms_.empty(); }
  /// Whether this module's momentum is ignored on this thread.
  static bool covers(const Module& module);

 private:
  static thread_local const RenewedStatistics* running;
  const RenewedStatistics* outer_ = nullptr;
  const weft::detail::UnwatchedScope unwatched_;  // these calls are no evaluation
  std::vector<std::pair<Module, bool>> training_;
  std::vector<Module> norms_;
  /// Buffers with their previous values.
  std::vector<std::pair<Tensor, Tensor>> before_;
  int exceptions_;
};

/// The first tensor of a batch. Raises ValueError if there is none.
WEFT_API Tensor first_input(std::vector<Tensor*> tensors, std::optional<Device> device, Location where);

}  // namespace nn::detail

namespace optim {

/// Resets the running statistics of all batch norms in the model and computes them from the batches of a loader,
/// equally weighted (torch.optim.swa_utils.update_bn). Calls model(x) in training mode, without gradients, where x is
/// the first tensor of a batch, moved to `device` if given. Afterwards momenta and modes are restored, and statistics
/// too if a call throws. The loader is any range; it is not read if the model has no batch norms. Raises ValueError for
/// a batch without tensors.
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
