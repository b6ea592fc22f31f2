// Operands of different devices: an op serves them or refuses, and never reads memory that is not its device's. A meta
// tensor has no memory, so reading it crashes the program.
#include "samples.hpp"

namespace weft::testing {
namespace {

const Device meta("meta");

Tensor host_zero_d(const Tensor& t) {
  return t.dim() == 0 ? t : t.numel() == 0 ? zeros({}, t.dtype()) : t.flatten()[0];
}

// The arguments with the tensor of this number elsewhere, the first ones 0-d.
Values with_one_elsewhere(const Values& values, size_t number, size_t zero_d) {
  size_t next = 0;
  return mapped(values, [&](const Tensor& t) {
    const size_t i = next++;
    const Tensor given = i < zero_d ? host_zero_d(t) : t;
    return i == number ? given.to(meta) : given;
  });
}

template <class F>
void served_or_refused(F&& call) {
  try {
    call();
  } catch (const Error&) {
  }
}

TEST(Devices, AnOperandElsewhereIsServedOrRefused) {
  for (const OpRecord& record : op_records()) {
    SCOPED_TRACE(record.name);
    SampleMaker make(DType::f32, Device());
    for (const Values& values : record.samples(make)) {
      const size_t count = tensors_in(values).size();
      for (size_t i = 0; i < count; ++i) {
        for (size_t zero_d = 0; zero_d <= count; ++zero_d) {
          const Values mixed = with_one_elsewhere(values, i, zero_d);
          served_or_refused([&] { record.call(mixed); });
        }
      }
    }
  }
}

TEST(Devices, TheOperandThatDecidesIsComparedWithEveryOther) {
  const Tensor number = full({}, 2, f32), away = full({}, 2, {f32, meta}), host = ones(3), none = ones(0);
  for (const Tensor& x : {host, none}) {
    EXPECT_THROW(addcmul(number, away, x), DeviceError);
    EXPECT_THROW(addcmul(number, x, away), DeviceError);
    EXPECT_THROW(addcmul(away, x, number), DeviceError);
    EXPECT_THROW(addcmul(x, number, away), DeviceError);
  }
  EXPECT_EQ(addcmul(number, away, number).device(), meta);
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
