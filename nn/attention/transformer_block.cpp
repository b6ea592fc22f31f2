#include "../../ops/pointwise.hpp"
#include "../layer-inl.hpp"
#include "../transformer.hpp"

namespace weft::nn {

TransformerBlock::TransformerBlock(int64_t width, int64_t heads, TransformerOptions options, Location where)
    : norm1(width, 1e-5, true, true, where),
      attention(width, heads, {options.causal, options.dropout, options.bias}, where),
      norm2(width, 1e-5, true, true, where),
      up(width, options.hidden > 0 ? options.hidden : 4 * width, options.bias, where),
      down(options.hidden > 0 ? options.hidden : 4 * width, width, options.bias, where),
      dropout(options.dropout, where) {
  check_size("nn::TransformerBlock", "hidden", options.hidden, where);
  register_module("norm1", norm1);
  register_module("attention", attention);
  register_module("norm2", norm2);
  register_module("up", up);
  register_module("down", down);
  register_module("dropout", dropout);
  set_config({{"width", width},
              {"heads", heads},
              {"hidden", options.hidden},
              {"causal", options.causal},
              {"dropout", options.dropout},
              {"bias", options.bias}});
  set_extra_repr({});
}

Tensor TransformerBlock::forward(const Tensor& x, Location where) const {
  const Tensor mixed = add(Operand(x, where), Operand(attention(Input(norm1(Input(x, where)), where)), where));
  const Tensor hidden = gelu(Operand(up(Input(norm2(Input(mixed, where)), where)), where));
  return add(Operand(mixed, where), Operand(dropout(Input(down(Input(hidden, where)), where)), where));
}

}  // namespace weft::nn
