// Choosing between two tensors by a mask. Nothing is multiplied, so what was not chosen never leaks.
#include <weft/ops/detail/common.hpp>
#include <weft/ops/detail/masks.hpp>
#include <weft/ops/detail/write.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/detail/promote.hpp>
#include <weft/ops/detail/records.hpp>

namespace weft {

namespace {

// The operands of one choice, in one dtype and shape; casts are recorded.
struct Choice {
  Tensor condition, a, b;
  View views[3];
  alignas(8) unsigned char scalars[3][8];
  Dims shape;
  DType dtype;
  Device device;
};

bool is_host_scalar(const Tensor& t) { return t.device().is_cpu() && t.dim() == 0; }

View operand_view(const Choice& c, Tensor& t, DType dtype, unsigned char* buffer, Location where) {
  if (t.impl()->wrapped_number || t.device() != c.device) return scalar_view(t.impl(), dtype, buffer);
  if (t.dtype() != dtype) t = t.to(dtype, where);
  return t.raw_view();
}

// Finds the device and brings the operands to `c.shape` and `c.dtype`, which are set.
void prepare_choice(Choice& c, const char* op, Location where) {
  const Tensor* leader = &c.condition;
  for (const Tensor* t : {&c.a, &c.b}) {
    if (is_host_scalar(*leader)) leader = t;
  }
  c.device = leader->device();
  for (const Tensor* t : {&c.condition, &c.a, &c.b}) {
    if (t->device() != c.device && !is_host_scalar(*t)) check_same_device(op, where, {leader, t});
  }
  const auto prepared = [&](Tensor& t, int i, DType dtype) {
    c.views[i] = broadcast_view(operand_view(c, t, dtype, c.scalars[i], where), c.shape);
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
struct ChoiceFormula {
  Saved condition;
  Origin origins[2];

  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    const Location where = self.where;
    const Operand mask(condition.get(self), where);
    for (int i = 0; i < 2; ++i) {
      if (!self.wants(i)) continue;
      Tensor g = i == 0 && self.wants(1) ? incoming[0] : std::move(incoming[0]);
      const Operand gradient(std::move(g), where), zero(0, where);
      Tensor part = i == 0 ? weft::where(mask, gradient, zero) : weft::where(mask, zero, gradient);
      outgoing[i] = fit(std::move(part), origins[i].shape, origins[i].dtype, origins[i].device, where);
    }
  }
};

// The memory of a temporary operand that nobody reads any more, or fresh memory.
Tensor reuse_or_make(const Choice& c, std::initializer_list<const Operand*> operands, const char* op, Location where) {
  for (const Operand* o : operands) {
    if (!o->temporary || !detail::share_gradients || o->tensor().dtype() != c.dtype) continue;
    // The choice itself holds a second handle.
    const TensorImpl* impl = o->impl();
    if (impl->refs.value() == 2 && impl->storage->refs.value() == 1 && !impl->storage->external &&
        !impl->requires_grad && o->tensor().is_contiguous() && o->tensor().device() == c.device &&
        o->tensor().shape() == c.shape) {
      return std::move(const_cast<Tensor&>(o->tensor()));
    }
  }
  return make(c.shape, c.dtype, c.device, op, where);
}

Tensor choose(Choice& c, std::initializer_list<const Operand*> operands, const char* op, Location where) {
  prepare_choice(c, op, where);
  const bool recorded = should_record(c.a, c.b);
  Tensor out = recorded ? make(c.shape, c.dtype, c.device, op, where) : reuse_or_make(c, operands, op, where);
  WEFT_KERNEL_FOR(where, out, op, where)(out.raw_view(), c.views[0], c.views[1], c.views[2]);
  if (recorded) record(out, op, where, ChoiceFormula{Saved(c.condition), {Origin(c.a), Origin(c.b)}}, c.a, c.b);
  return out;
}

// Tensors that the write would change under the kernel's eyes are copied first.
void separate(Choice& c, Tensor& t, int i, Location where) {
  const Tensor& target = c.b;
  if (!t.shares_storage(target) || t.impl() == target.impl()) return;
  t = t.clone(where);
  c.views[i] = broadcast_view(t.raw_view(), c.shape);
}

std::vector<Values> where_samples(SampleMaker& make) {
  return {{make.mask({2, 3}), make.tensor({2, 3}), make.tensor({2, 3})},
          {make.mask({3}), make.tensor({2, 1}), make.tensor({})},
          {make.mask({}), make.tensor({}), make.tensor({})},
          {make.mask({2, 1}), make.tensor({3}), int64_t{1}},
          {make.mask({0, 2}), make.tensor({2}), make.tensor({0, 1})}};
}

std::vector<Values> masked_fill_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), make.mask({2, 3}), make.tensor({})},
          {make.tensor({2, 1}), make.mask({3}), int64_t{1}},
          {make.tensor({2, 3}), make.mask({2, 1}), make.tensor({3})},
          {make.tensor({}), make.mask({}), make.tensor({})},
          {make.tensor({0, 2}), make.mask({2}), make.tensor({})}};
}

constexpr OpRecord where_op_records[] = {
    {"where", "where(condition, a, b)",
     "a where condition (bool) holds, else b; all three broadcast. What was not chosen never leaks, nor does it into "
     "gradients.",
     true, OpRecord::Domain::any, where_samples,
     detail::boxed<static_cast<Tensor (*)(const Operand&, const Operand&, const Operand&)>(&weft::where)>},
    {"masked_fill", "masked_fill(x, mask, value)",
     "x with value, converted to x's dtype, where mask (bool) holds; x and mask broadcast, and value to both.", true,
     OpRecord::Domain::any, masked_fill_samples, detail::boxed<&weft::masked_fill>}};

}  // namespace

std::span<const OpRecord> where_records() { return where_op_records; }

Tensor where(const Operand& condition, const Operand& a, const Operand& b) {
  const Location place = condition.where;
  Choice c;
  c.condition = checked(condition.tensor(), "where", place);
  c.a = checked(a.tensor(), "where", place);
  c.b = checked(b.tensor(), "where", place);
  check_mask("where", c.condition, place);
  c.shape = joined_shape("where", c.a, c.b, place);
  const auto joined = broadcast(c.shape, c.condition.sizes());
  if (!joined) {
    raise<ShapeError>({.op = "where",
                       .problem = fmt::format("a condition of shape {} does not broadcast with {} and {}",
                                              c.condition.shape().text(), c.a.shape().text(), c.b.shape().text()),
                       .remedy = "sizes must be equal or 1, counted from the last dimension"},
                      place);
  }
  c.shape = *joined;
  c.dtype = result_type(a, b);
  Tensor out = choose(c, {&a, &b}, "where", place);
  out.impl()->wrapped_number = false;
  return out;
}

Tensor masked_fill(const Operand& x, const Operand& mask, const Operand& value) {
  const Location where = x.where;
  Choice c;
  c.condition = checked(mask.tensor(), "masked_fill", where);
  c.a = checked(value.tensor(), "masked_fill", where);
  c.b = checked(x.tensor(), "masked_fill", where);
  check_mask("masked_fill", c.condition, where);
  c.shape = joined_shape("masked_fill", c.b, c.condition, where);
  check_reaches("masked_fill", "value", c.a, c.shape, where);
  c.dtype = result_type(x, x);
  return choose(c, {&x}, "masked_fill", where);
}

const Tensor& masked_fill_(const Tensor& x, const Tensor& mask, const Operand& value) {
  constexpr const char* op = "masked_fill_";
  const Location where = value.where;
  Choice c;
  c.condition = checked(mask, op, where);
  c.a = checked(value.tensor(), op, where);
  c.b = checked(x, op, where);
  check_target(x, op, where);
  check_mask(op, mask, where);
  c.shape = x.shape();
  c.dtype = x.dtype();
  check_reaches(op, "mask", mask, c.shape, where);
  check_reaches(op, "value", c.a, c.shape, where);
  prepare_choice(c, op, where);
  if (x.device() != c.device) check_same_device(op, where, {&x, &mask, &c.a});
  separate(c, c.condition, 0, where);
  separate(c, c.a, 1, where);
  write_recorded(
      x, op, where,
      [&] {
        WEFT_KERNEL_FOR(where, x, op, where)
        (x.raw_view(), c.views[0], c.views[1], c.views[2]);
      },
      [&] {
        return ChoiceFormula{Saved(c.condition), {Origin(c.a), Origin(c.b)}};
      },
      c.a, x);
  return x;
}

}  // namespace weft
