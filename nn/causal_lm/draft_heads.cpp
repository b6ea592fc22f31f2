#include "../draft_heads.hpp"

#include <fmt/format.h>

#include "../../autograd/mode.hpp"
#include "../../ops/create.hpp"
#include "../../ops/detail/common.hpp"
#include "../../ops/index.hpp"
#include "../../ops/join.hpp"
#include "../../ops/loss.hpp"
#include "../../ops/pointwise.hpp"
#include "../layer-inl.hpp"

namespace weft::nn {

DraftHeads::DraftHeads(int64_t width, int64_t count, Location where) {
  if (width < 1 || count < 1) {
    raise<ValueError>({.op = "nn::DraftHeads", .problem = fmt::format("{} heads of width {}", count, width)}, where);
  }
  for (int64_t i = 0; i < count; ++i) {
    const Linear head(width, width, true, where);
    const NoGradGuard unrecorded;
    head.weight.fill_(0);
    head.bias.fill_(0);
    heads.append(head, where);
  }
  WEFT_REGISTER(heads);
  set_config({{"width", width}, {"heads", count}});
}

Tensor DraftHeads::forward(const Tensor& hidden, Location where) const {
  std::vector<Tensor> each;
  for (const Linear& head : heads) each.push_back(hidden + silu(head(Input(hidden, where))));
  return stack(each, -2);
}

Tensor draft_loss(const CausalLM& model, const DraftHeads& heads, const Tensor& tokens, Location where) {
  const CallScope call("draft_loss", where);
  const auto count = static_cast<int64_t>(heads.heads.size());
  if (checked(tokens).dim() != 2 || tokens.size(1) < count + 2) {
    raise<ValueError>({.problem = fmt::format("tokens {} for {} heads", tokens.shape().text(), count),
                       .remedy = "they are [batch, length], of at least two tokens more than heads"});
  }
  Tensor hidden;
  {
    const NoGradGuard unrecorded;
    hidden = model.hidden(tokens, where);
  }
  const Tensor all = model.logits(heads(Input(hidden, where)), where);
  Tensor sum;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t known = tokens.size(1) - i - 2;
    const Tensor said = all.select(2, i).narrow(1, 0, known).flatten(0, 1);
    const Tensor loss = cross_entropy(said, tokens.narrow(1, i + 2, known).flatten());
    sum = i == 0 ? loss : sum + loss;
  }
  return sum / count;
}

}  // namespace weft::nn
