#include "../../ops/pointwise.hpp"
#include "../description-inl.hpp"
#include "../transformer.hpp"

namespace weft::nn {

static auto describe(Of<TransformerBlock>) {
  using O = TransformerOptions;
  return described("TransformerBlock", "", required<int64_t>("width").hidden(), required<int64_t>("heads").hidden(),
                   option("hidden", &O::hidden).at_least(0).hidden(), option("causal", &O::causal).hidden(),
                   option("dropout", &O::dropout).hidden(), option("bias", &O::bias).hidden());
}
void detail::describe_transformer_block(LayerList& list) { list.add<TransformerBlock>(); }

TransformerBlock::TransformerBlock(int64_t width, int64_t heads, TransformerOptions options, Location where)
    : norm1(width, 1e-5, true, true, where),
      attention(width, heads, {options.causal, options.dropout, options.bias}, where),
      norm2(width, 1e-5, true, true, where),
      up(width, options.hidden > 0 ? options.hidden : 4 * width, options.bias, where),
      down(options.hidden > 0 ? options.hidden : 4 * width, width, options.bias, where),
      dropout(options.dropout, where) {
  register_module("norm1", norm1);
  register_module("attention", attention);
  register_module("norm2", norm2);
  register_module("up", up);
  register_module("down", down);
  register_module("dropout", dropout);
  set_options(*this, where, width, heads, options);
}

Tensor TransformerBlock::forward(const Tensor& x, Location where) const {
  const Tensor mixed = add(Operand(x, where), Operand(attention(Input(norm1(Input(x, where)), where)), where));
  const Tensor hidden = gelu(Operand(up(Input(norm2(Input(mixed, where)), where)), where));
  return add(Operand(mixed, where), Operand(dropout(Input(down(Input(hidden, where)), where)), where));
}

}  // namespace weft::nn
