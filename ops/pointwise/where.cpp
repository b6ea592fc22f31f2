// Choosing between two tensors by a mask. Nothing is multiplied, so NaN in elements that are not chosen does not
// spread.
#include "../detail/common.hpp"
#include "../detail/fits.hpp"
#include "../detail/reuse.hpp"
#include "../detail/masked.hpp"
#include "../detail/write.hpp"
#include "../masked.hpp"
#include "../pointwise.hpp"
#include "../detail/promote.hpp"
#include "../detail/records.hpp"
#include "../detail/parts.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft {

namespace {

// The operands of one choice, in one dtype and shape; casts are recorded.
struct Choice {
  Tensor condition, a, b;
  View views[3];
  alignas(max_item) unsigned char scalars[3][max_item];
  Dims shape;
  DType dtype;
  Device device;
};

bool is_host_scalar(const Tensor& t) { return t.device().is_cpu() && t.dim() == 0; }

// Host scalars of devices' kernels have 8 bytes.
bool takes_host_scalar(DType dtype, Device device) { return dtype != DType::c128 || device.is_cpu(); }

View operand_view(const Choice& c, Tensor& t, DType dtype, unsigned char* buffer) {
  if (t.impl()->wrapped_number || t.device() != c.device) {
    if (takes_host_scalar(dtype, c.device)) return scalar_view(t.impl(), dtype, buffer);
    t = t.to(dtype).to(c.device);
  }
  if (t.dtype() != dtype) t = t.to(dtype);
  return t.raw_view();
}

// Finds the device and brings the operands to `c.shape` and `c.dtype`, which are set.
void prepare_choice(Choice& c) {
  const Tensor* leader = &c.condition;
  for (const Tensor* t : {&c.a, &c.b}) {
    if (is_host_scalar(*leader)) leader = t;
  }
  c.device = leader->device();
  for (const Tensor* t : {&c.condition, &c.a, &c.b}) {
    if (t->device() != c.device && !is_host_scalar(*t)) check_same_device({leader, t});
  }
  const auto prepared = [&](Tensor& t, int i, DType dtype) {
    broadcast_view(c.views[i], operand_view(c, t, dtype, c.scalars[i]), c.shape);
  };
  prepared(c.condition, 0, DType::boolean);
  prepared(c.a, 1, c.dtype);
  prepared(c.b, 2, c.dtype);
}

struct Origin {
  Dims shape;
  DType dtype;
  Device device;

  explicit Origin(const Tensor& t) : shape(t.shape()), dtype(t.dtype()), device(t.device()) {}
};

// g where an operand was chosen, 0 elsewhere, brought back to that operand.
struct ChoiceBackward {
  Saved condition;
  Origin origins[2];

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Tensor& mask = condition.get(self);
    for (int i = 0; i < 2; ++i) {
      if (!self.wants(i)) continue;
      Tensor g = i == 0 && self.wants(1) ? incoming[0] : std::move(incoming[0]);
      Tensor part = i == 0 ? where(mask, std::move(g), 0) : where(mask, 0, std::move(g));
      outgoing[i] = unbroadcast(std::move(part), origins[i].shape, origins[i].dtype, origins[i].device);
    }
  }
};

// The memory of a temporary operand that nobody reads any more, or fresh memory.
Tensor reuse_or_make(const Choice& c, std::initializer_list<const Operand*> operands) {
  for (const Operand* o : operands) {
    const Tensor& t = o->tensor();
    // The choice itself holds a second handle.
    if (!o->temporary || t.dtype() != c.dtype || !can_reuse_as_result(t, 2)) continue;
    if (t.device() == c.device && t.shape() == c.shape) return as_result(*o);
  }
  return make(c.shape, c.dtype, c.device);
}

Tensor choose(Choice& c, std::initializer_list<const Operand*> operands) {
  prepare_choice(c);
  const bool recorded = should_record(c.a, c.b);
  Tensor out = recorded ? make(c.shape, c.dtype, c.device) : reuse_or_make(c, operands);
  WEFT_KERNEL(where, out)(out.raw_view(), c.views[0], c.views[1], c.views[2]);
  if (recorded) record(out, ChoiceBackward{Saved(c.condition), {Origin(c.a), Origin(c.b)}}, c.a, c.b);
  return out;
}

// Tensors that the write would change while the kernel reads them are copied first.
void separate(Choice& c, Tensor& t, int i) {
  const Tensor& target = c.b;
  if (!t.shares_storage(target) || t.impl() == target.impl()) return;
  t = t.clone();
  c.views[i] = broadcast_view(t.raw_view(), c.shape);
}

std::vector<Values> where_samples(SampleMaker& make) {
  return {{make.mask({2, 3}), make.tensor({2, 3}), make.tensor({2, 3})},
          {make.mask({3}), make.tensor({2, 1}), make.tensor({})},
          {make.mask({}), make.tensor({}), make.tensor({})},
          {make.mask({2, 1}), make.tensor({3}), int64_t{1}},
          {make.mask({2, 3})},
          {make.mask({0, 2}), make.tensor({2}), make.tensor({0, 1})}};
}

std::vector<Values> masked_fill_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.mask({2, 3}), make.tensor({})},
          {make.tensor({2, 1}), make.mask({3}), int64_t{1}},
          {make.tensor({2, 3}), make.mask({2, 1}), make.tensor({})},
          {make.tensor({}), make.mask({}), make.tensor({})},
          {make.tensor({0, 2}), make.mask({2}), make.tensor({})}};
}

Value call_where(const Operand& condition, const Value& a, const Value& b) {
  const bool alone = std::holds_alternative<std::monostate>(a) && std::holds_alternative<std::monostate>(b);
  if (alone) return where(condition.tensor());
  return where(condition, detail::unboxed<Operand>(a, 1), detail::unboxed<Operand>(b, 2));
}

void check_one_value(const Operand& value) {
  if (checked(value.tensor()).dim() == 0) return;
  raise_rank("value", "a number or a 0-d tensor", value.tensor(), "use where(mask, value, x)");
}

Partition chosen(const WholeCall& call) {
  return std::holds_alternative<std::monostate>(call["a"]) ? parts::whole(call) : parts::pointwise(call);
}

constexpr OpRecord where_op_records[] = {
    {"where", "where(condition, a|input=None, b|other=None)",
     "a where condition (bool) holds, else b; all three broadcast. What was not chosen never leaks, nor does it into "
     "gradients. condition alone gives the coordinates where it holds, a list for each dimension.",
     OpFacts(true, OpFacts::reads_values), OpRecord::Domain::any, where_samples, chosen, detail::boxed<&call_where>},
    {"masked_fill",
     "masked_fill(x, mask, value)",
     "x with value, a number or 0-d tensor that is converted to x's dtype, where mask (bool) holds; x and mask "
     "broadcast.",
     true,
     OpRecord::Domain::any,
     masked_fill_samples,
     parts::pointwise,
     detail::boxed<weft::masked_fill>,
     {},
     detail::boxed<weft::masked_fill_>}};

}  // namespace

std::span<const OpRecord> where_records() { return where_op_records; }

std::vector<Tensor> where(const Tensor& condition, Location place) {
  const CallScope call("where", place);
  const Tensor& x = checked(condition);
  return nonzero(x.dim() == 0 ? x.reshape({1}) : x).unbind(1);
}

bool fills_directly(const Tensor& x, const Tensor& mask, const Operand& value) {
  return value.impl()->wrapped_number && takes_host_scalar(x.dtype(), x.device()) && mask.dtype() == DType::boolean &&
         mask.device() == x.device() && same_sizes(mask.raw_view().layout, x.raw_view().layout) && !should_record(x);
}

void fill_directly(const Tensor& out, const Tensor& x, const Tensor& mask, const Operand& value) {
  alignas(max_item) unsigned char buffer[max_item];
  View number = scalar_view(value.impl(), x.dtype(), buffer);
  const Layout& like = x.raw_view().layout;
  number.layout.rank = like.rank;
  number.layout.numel = like.numel;
  number.layout.contiguous = 0;
  for (int d = 0; d < like.rank; ++d) {
    number.layout.sizes[d] = like.sizes[d];
    number.layout.strides[d] = 0;
  }
  WEFT_KERNEL(where, x)(out.raw_view(), mask.raw_view(), number, x.raw_view());
}

Tensor where(const Operand& condition, const Operand& a, const Operand& b) {
  const CallScope call("where", condition.where);
  Choice c;
  c.condition = checked(condition.tensor());
  c.a = checked(a.tensor());
  c.b = checked(b.tensor());
  check_mask(c.condition);
  c.shape = broadcast_shape(c.a, c.b);
  if (!broadcast_in_place(c.shape, c.condition.sizes())) {
    raise<ShapeError>({.problem = fmt::format("a condition of shape {} does not broadcast with {} and {}",
                                              c.condition.shape().text(), c.a.shape().text(), c.b.shape().text()),
                       .remedy = "sizes must be equal or 1, counted from the last dimension"});
  }
  c.dtype = result_type(a, b);
  check_number_fits(a, c.dtype);
  check_number_fits(b, c.dtype);
  Tensor out = choose(c, {&a, &b});
  out.impl()->wrapped_number = false;
  return out;
}

Tensor masked_fill(const Operand& x, const Operand& mask, const Operand& value) {
  const CallScope call("masked_fill", x.where);
  check_one_value(value);
  return fill_by_mask(x, mask, value);
}
const Tensor& masked_fill_(const Tensor& x, const Tensor& mask, const Operand& value) {
  const CallScope call("masked_fill_", value.where);
  check_one_value(value);
  return fill_by_mask_(x, mask, value);
}

Tensor fill_by_mask(const Operand& x, const Operand& mask, const Operand& value) {
  const Tensor &from = checked(x.tensor()), &condition = checked(mask.tensor());
  checked(value.tensor());
  check_number_fits(value, from.dtype());
  if (!x.temporary && !from.impl()->wrapped_number && fills_directly(from, condition, value)) {
    Tensor out = make_like(from);
    fill_directly(out, from, condition, value);
    return out;
  }
  Choice c;
  c.condition = condition;
  c.a = value.tensor();
  c.b = from;
  check_mask(c.condition);
  c.shape = broadcast_shape(c.b, c.condition);
  check_broadcasts_to("value", c.a, c.shape);
  c.dtype = result_type(x, x);
  return choose(c, {&x});
}

const Tensor& fill_by_mask_(const Tensor& x, const Tensor& mask, const Operand& value) {
  checked(mask);
  checked(value.tensor());
  check_target(x);
  check_number_fits(value, x.dtype());
  if (fills_directly(x, mask, value) && !mask.shares_storage(x)) {
    write_unrecorded(x, [&] { fill_directly(x, x, mask, value); });
    return x;
  }
  Choice c;
  c.condition = mask;
  c.a = value.tensor();
  c.b = x;
  check_mask(mask);
  c.shape = x.shape();
  c.dtype = x.dtype();
  check_broadcasts_to("mask", mask, c.shape);
  check_broadcasts_to("value", c.a, c.shape);
  prepare_choice(c);
  if (x.device() != c.device) check_same_device({&x, &mask, &c.a});
  separate(c, c.condition, 0);
  separate(c, c.a, 1);
  const auto write = [&] { WEFT_KERNEL(where, x)(x.raw_view(), c.views[0], c.views[1], c.views[2]); };
  write_recorded(
      x, write,
      [&] {
        return ChoiceBackward{Saved(c.condition), {Origin(c.a), Origin(c.b)}};
      },
      c.a, x);
  return x;
}

}  // namespace weft
