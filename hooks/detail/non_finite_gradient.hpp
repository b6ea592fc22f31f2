// Finds a node's outgoing gradient that is not finite. Not public.
#pragma once

#include <algorithm>
#include <optional>
#include <span>
#include <vector>

#include "../../autograd/node.hpp"
#include "../../backends/watch/nan_check.hpp"
#include "../../tensor/index.hpp"

namespace weft::detail {

struct NonFiniteGradient {
  /// Index of the node's edge.
  size_t input;
  cpu::NonFinite found;
};

/// Whether g shares memory with an incoming gradient, which was checked when it was produced.
inline bool passed_on(const Tensor& g, std::span<const Tensor> incoming) {
  return std::ranges::any_of(incoming, [&](const Tensor& in) {
    return in.defined() && (in.impl() == g.impl() || (in.shares_storage(g) && in.version() == 0));
  });
}

/// Returns the first of a node's `outgoing` gradients that is not finite and not just an incoming gradient.
inline std::optional<NonFiniteGradient> first_non_finite(std::span<const Tensor> incoming,
                                                         std::span<const Tensor> outgoing) {
  for (size_t i = 0; i < outgoing.size(); ++i) {
    if (!outgoing[i].defined() || passed_on(outgoing[i], incoming)) continue;
    const cpu::NonFinite found = find_non_finite(outgoing[i].raw_view());
    if (WEFT_UNLIKELY(found.any())) return NonFiniteGradient{i, found};
  }
  return {};
}

/// Runs a node's formula again, without recording, and notifies `observer` of its kernels. The saved tensors must
/// exist.
inline void run_observed_again(Node& node, std::span<const Tensor> incoming, KernelObserver& observer) {
  const ObserverGuard observing(observer);
  const GradModeGuard unrecorded({.enabled = false, .inference = false});
  std::vector<Tensor> gradients(incoming.begin(), incoming.end()), ignored(node.edge_count);
  node.functions->run(node, gradients.data(), ignored.data());
}

}  // namespace weft::detail
