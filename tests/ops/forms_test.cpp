// The forms of an op that write: name_ and name_out, of every record that has them.
#include "samples.hpp"

namespace weft::testing {
namespace {

const Tensor* only_tensor(const Value& value) { return std::get_if<Tensor>(&value); }

/// Runs name_ on a copy of the first argument; undefined where there is no such form of these arguments.
Tensor in_place(const OpRecord& record, const Values& values) {
  if (values.empty() || !std::holds_alternative<Tensor>(values[0])) return {};
  const PointwiseFunctions& p = record.pointwise;
  const Tensor target = std::get<Tensor>(values[0]).clone();
  if (p.unary_in_place != nullptr && values.size() == 1) return p.unary_in_place(target, {});
  if (p.binary_in_place != nullptr && values.size() == 2) {
    return p.binary_in_place(target, detail::unbox<Operand>(values, 1));
  }
  const size_t taken = record.in_place.types.size();
  if (record.in_place.run == nullptr || values.size() > taken) return {};
  Values all = values;
  all[0] = target;
  const auto& arguments = record.signature().arguments;
  for (size_t i = all.size(); i < taken; ++i) all.push_back(arguments[i].default_value);
  record.in_place(all);
  return target;
}

/// Runs name_out into `out`; false where there is no such form of these arguments.
bool write(const OpRecord& record, const Tensor& out, const Values& values) {
  const PointwiseFunctions& p = record.pointwise;
  if (p.unary_out != nullptr && values.size() == 1) {
    return p.unary_out(out, detail::unbox<Operand>(values, 0)).impl() == out.impl();
  }
  if (p.binary_out != nullptr && values.size() == 2) {
    return p.binary_out(out, detail::unbox<Operand>(values, 0), detail::unbox<Operand>(values, 1)).impl() == out.impl();
  }
  if (record.out.run == nullptr) return false;
  Values all = {out};
  all.insert(all.end(), values.begin(), values.end());
  record.out(all);
  return true;
}

template <class F>
void for_each_call(DType dtype, F&& f) {
  for (const OpRecord& record : op_records()) {
    SCOPED_TRACE(record.name);
    if (dtype == DType::i64 && record.domain == OpRecord::Domain::floating) continue;
    SampleMaker make(dtype, {});
    for (const Values& values : record.samples(make)) f(record, values);
  }
}

TEST(Forms, InPlaceEqualsTheOp) {
  int compared = 0;
  for (const DType dtype : {DType::f32, DType::f64, DType::i64}) {
    for_each_call(dtype, [&](const OpRecord& record, const Values& values) {
      Value value;
      Tensor written;
      try {
        value = record.call(values);
        written = in_place(record, values);
      } catch (const BadArgument&) {
        return;  // an argument that only the op may go without
      } catch (const Error&) {
        return;  // a result that the target does not hold
      }
      const Tensor* expected = only_tensor(value);
      if (expected == nullptr || !written.defined() || expected->dtype() != written.dtype()) return;
      EXPECT_TRUE(same(written, *expected));
      ++compared;
    });
  }
  EXPECT_GT(compared, 200);
}

TEST(Forms, OutEqualsTheOpInAnyLayout) {
  int compared = 0;
  for (const DType dtype : {DType::f32, DType::i64}) {
    for_each_call(dtype, [&](const OpRecord& record, const Values& values) {
      const Value value = record.call(values);
      const Tensor* expected = only_tensor(value);
      if (expected == nullptr) return;
      const Tensor dense = empty(Dims(expected->sizes()), expected->dtype());
      if (!write(record, dense, values)) return;
      EXPECT_TRUE(same(dense, *expected));
      const Tensor turned = empty_like(expected->dim() > 1 ? expected->transpose(0, -1) : *expected);
      const Tensor strided = expected->dim() > 1 ? turned.contiguous().transpose(0, -1) : turned;
      write(record, strided, values);
      EXPECT_TRUE(same(strided, *expected));
      const Tensor other = empty({7, 5, 3}, expected->dtype());
      EXPECT_THROW(write(record, other, values), ShapeError);
      ++compared;
    });
  }
  EXPECT_GT(compared, 100);
}

}  // namespace
}  // namespace weft::testing
