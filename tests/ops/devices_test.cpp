// Operands of different devices: an op serves them or refuses, and never reads memory that is not its device's. A meta
// tensor has none at all, so whoever reads it ends the program.
#include "samples.hpp"

namespace weft::testing {
namespace {

const Device meta("meta");

Tensor host_zero_d(const Tensor& t) {
  return t.dim() == 0 ? t : t.numel() == 0 ? zeros({}, t.dtype()) : t.flatten()[0];
}

// The arguments with the tensor of this number elsewhere.
Values with_one_elsewhere(const Values& values, size_t number, const std::function<Tensor(const Tensor&)>& others) {
  size_t next = 0;
  return mapped(values, [&](const Tensor& t) { return next++ == number ? others(t).to(meta) : others(t); });
}

template <class F>
void served_or_refused(F&& call) {
  try {
    call();
  } catch (const Error&) {
  }
}

TEST(Devices, AnOperandElsewhereIsServedOrRefused) {
  const auto same = [](const Tensor& t) { return t; };
  for (const OpRecord& record : op_records()) {
    SCOPED_TRACE(record.name);
    SampleMaker make(DType::f32, Device());
    for (const Values& values : record.samples(make)) {
      for (size_t i = 0; i < tensors_in(values).size(); ++i) {
        for (const auto& others : {std::function<Tensor(const Tensor&)>(same), {host_zero_d}}) {
          const Values mixed = with_one_elsewhere(values, i, others);
          served_or_refused([&] { record.call(mixed); });
        }
      }
    }
  }
}

TEST(Devices, AWriteFromElsewhereIsRefusedAndChangesNothing) {
  for (const OpRecord& record : op_records()) {
    if (record.pointwise.binary_in_place == nullptr) continue;
    SCOPED_TRACE(record.name);
    for (const Dims& shape : {Dims{}, Dims{1}, Dims{2, 3}}) {
      for (const Dims& other : {Dims{}, Dims{1}}) {
        const Tensor target = full(shape, 0.5, f32);
        EXPECT_THROW(record.pointwise.binary_in_place(target, full(other, 0.5, {f32, meta})), DeviceError);
        EXPECT_THROW(record.pointwise.binary_out(target, target, full(other, 0.5, {f32, meta})), Error);
        EXPECT_EQ(target.version(), 0u);
        EXPECT_TRUE(same(target, full(shape, 0.5, f32)));
      }
      const Tensor away = full(shape, 0.5, {f32, meta});
      EXPECT_NO_THROW(record.pointwise.binary_in_place(away, full({}, 0.5, f32)));
    }
  }
}

}  // namespace
}  // namespace weft::testing
