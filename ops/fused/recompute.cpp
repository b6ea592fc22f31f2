#include "recompute-inl.hpp"

#include "../../autograd/autocast.hpp"
#include "../../autograd/engine.hpp"
#include "../../autograd/mode.hpp"
#include "../../tensor/index.hpp"

namespace weft {

Recomputed Recomputed::of(std::span<const Tensor> inputs, Callback<Tensor(std::span<const Tensor>)> compose) {
  Recomputed out{{}, std::move(compose)};
  for (const Tensor& t : inputs) out.inputs.push_back(t.defined() ? Saved(t) : Saved());
  return out;
}

void Recomputed::operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
  const bool recorded = recording();
  const EnableGradGuard enabled;
  const detail::AutocastModeGuard off({});
  std::vector<Tensor> given, wanted;
  std::vector<int> edges;
  for (size_t i = 0; i < inputs.size(); ++i) {
    Tensor t = inputs[i].defined() ? inputs[i].get(self) : Tensor();
    if (t.defined() && self.wants(static_cast<int>(i))) {
      // A tensor of its own, so that one that was given twice has two gradients.
      t = recorded ? t.view(t.shape()) : t.detach().requires_grad_();
      wanted.push_back(t);
      edges.push_back(static_cast<int>(i));
    } else if (t.defined()) {
      t = t.detach();
    }
    given.push_back(std::move(t));
  }
  if (wanted.empty()) return;
  const Tensor output = compose(given);
  std::vector<Tensor> gradients =
      grad(std::span(&output, 1), wanted, std::span(incoming, 1), {.create_graph = recorded, .allow_unused = true});
  for (size_t i = 0; i < edges.size(); ++i) outgoing[edges[i]] = std::move(gradients[i]);
}

}  // namespace weft
