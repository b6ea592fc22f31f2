// Shapes and dtypes of an op's results, from the op itself on tensors without elements.
//
// Inference runs the op on the device `meta`, where kernels do nothing. A separate shape function per op could
// differ from the op; this one cannot.
#include <algorithm>

#include "create.hpp"
#include "random.hpp"
#include "record.hpp"
#include "detail/common.hpp"
#include "../autograd/mode.hpp"

namespace weft {

namespace {

const Device meta(DeviceType::meta);

// Tensors that are read as numbers or lists of numbers are not converted.
bool is_read(ArgumentType::Kind kind) {
  using Kind = ArgumentType::Kind;
  return kind == Kind::integer || kind == Kind::number || kind == Kind::dims;
}

}  // namespace

Tensor on_meta(const Tensor& x) {
  if (!x.defined()) return x;
  Layout layout = x.raw_view().layout;
  layout.device_type = DeviceType::meta;
  layout.device_index = 0;
  const Tensor nothing = empty(Dims(), {x.dtype(), meta});
  Tensor result = Tensor::adopt(detail::new_alias(nothing.impl(), layout, nullptr));
  result.impl()->wrapped_number = x.impl()->wrapped_number;
  return result;
}

std::vector<TensorMeta> OpRecord::infer(std::span<const Value> given) const {
  const std::vector<Argument>& arguments = signature().arguments;
  const RngForkGuard unchanged({meta});
  const NoGradGuard unrecorded;
  Values values(given.begin(), given.end());
  values.resize(arguments.size());
  for (size_t i = 0; i < values.size(); ++i) {
    if (arguments[i].type.kind == ArgumentType::Kind::device) values[i] = meta.name();
    if (is_read(arguments[i].type.kind)) continue;
    if (auto* tensor = std::get_if<Tensor>(&values[i])) *tensor = on_meta(*tensor);
    if (auto* list = std::get_if<std::vector<Tensor>>(&values[i])) {
      for (Tensor& tensor : *list) tensor = on_meta(tensor);
    }
  }
  const Value result = call(values);
  std::vector<TensorMeta> metas;
  const auto add = [&](const Tensor& t) { metas.push_back({t.shape(), t.dtype()}); };
  if (const auto* tensor = std::get_if<Tensor>(&result)) add(*tensor);
  if (const auto* list = std::get_if<std::vector<Tensor>>(&result)) std::ranges::for_each(*list, add);
  return metas;
}

}  // namespace weft
