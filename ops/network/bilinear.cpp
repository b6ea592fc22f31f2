#include "../bilinear.hpp"

#include "../detail/autocast.hpp"
#include "../detail/records.hpp"
#include "../detail/common.hpp"
#include "../matmul.hpp"
#include "../pointwise.hpp"
#include "../detail/parts.hpp"

namespace weft {

Tensor bilinear(const Tensor& x1, const Tensor& x2, const Tensor& weight, const Tensor& bias, Location where) {
  const CallScope call("bilinear", where);
  WEFT_IN_LOWER(bilinear, x1, x2, weight, bias, where);
  for (const Tensor* t : {&x1, &x2, &weight}) check_floating(checked(*t));
  const auto last = [](const Tensor& t) { return t.dim() == 0 ? int64_t{-1} : t.size(-1); };
  const bool fits = weight.dim() == 3 && last(x1) == weight.size(1) && last(x2) == weight.size(2) &&
                    x1.dim() == x2.dim() && (!bias.defined() || bias.shape() == Dims(weight.size(0)));
  Dims leading = x1.shape(), other = x2.shape();
  if (fits) leading.erase(leading.size() - 1), other.erase(other.size() - 1);
  if (!fits || leading != other) {
    raise<ShapeError>(
        {.problem = "the inputs do not fit the weight, or each other",
         .details = fmt::format("x1 {}, x2 {}, weight {}", x1.shape().text(), x2.shape().text(), weight.shape().text()),
         .remedy = "x1 is [..., in1], x2 [..., in2], weight [out, in1, in2]"});
  }
  const auto differs = [&](const Tensor& t) { return t.defined() && t.dtype() != x1.dtype(); };
  if (x1.itemsize() == 2 && !differs(x2) && !differs(weight) && !differs(bias)) {  // rounded once
    const auto wide = [](const Tensor& t) { return t.defined() ? t.to(DType::f32) : t; };
    return bilinear(wide(x1), wide(x2), wide(weight), wide(bias)).to(x1.dtype());
  }
  const int64_t rows = leading.product(), out = weight.size(0), in1 = weight.size(1), in2 = weight.size(2);
  const Tensor columns = weight.permute({1, 0, 2}).reshape({in1, out * in2});
  const Tensor left = matmul(x1.reshape({rows, in1}), columns).view({rows, out, in2});
  leading.push_back(out);
  const Tensor result = matmul(left, x2.reshape({rows, in2, 1})).reshape(leading);
  return bias.defined() ? result + bias : result;
}

namespace {

std::vector<Values> samples(SampleMaker& make) {
  return {{make.tensor({2, 5, 3}), make.tensor({2, 5, 2}), make.tensor({4, 3, 2}), make.tensor({4})},
          {make.tensor({3}), make.tensor({2}), make.tensor({1, 3, 2})},
          {make.tensor({0, 3}), make.tensor({0, 2}), make.tensor({4, 3, 2})}};
}

Partition bilinear_product(const WholeCall& call) {
  const std::string rows = parts::letters(call.inputs()[0].dim() - 1);
  const bool has_bias = call.tensor("bias").defined();
  Partition rule{.letters = rows + "i," + rows + "j,oij" + (has_bias ? ",o->" : "->") + rows + "o",
                 .linearity = has_bias ? Linearity::none : Linearity::each};
  if (has_bias) {
    rule.on_parts = [](PartCall& part) {
      const int last = part.inputs[0].sizes.size() - 1;
      part["bias"] = parts::added_once(part, parts::added_once(part, part.tensor("bias"), 0, last), 1, last);
      return part.run();
    };
  }
  return rule;
}

constexpr OpRecord records[] = {
    {"bilinear", "bilinear(input1, input2, weight, bias=None)",
     "input1^T weight[k] input2 + bias[k] for each k, over the last dimensions; weight is [out, in1, in2].",
     OpFacts(true, Autocast::lower), OpRecord::Domain::floating, samples, bilinear_product, detail::boxed<bilinear>},
};

}  // namespace

std::span<const OpRecord> bilinear_records() { return records; }

}  // namespace weft
