// Records of ops that create tensors.
#include "../create.hpp"
#include "../detail/records.hpp"
#include "../detail/parts.hpp"

namespace weft {

TensorOptions options_of(std::optional<DType> dtype, std::optional<Device> device, bool requires_grad) {
  return {dtype, device.value_or(Device()), requires_grad};
}
TensorOptions options_like(const Tensor& x, std::optional<DType> dtype, std::optional<Device> device,
                           bool requires_grad) {
  return {dtype.value_or(x.dtype()), device.value_or(x.device()), requires_grad};
}

namespace {

using MaybeType = std::optional<DType>;
using MaybeDevice = std::optional<Device>;
using Make = Tensor (*)(const Dims&, TensorOptions, Location);

template <Make make>
Tensor filled(const Dims& size, MaybeType dtype, MaybeDevice device, bool grad) {
  return make(size, options_of(dtype, device, grad), {});
}
template <Make make>
Tensor filled_like(const Tensor& x, MaybeType dtype, MaybeDevice device, bool grad) {
  return make(x.shape(), options_like(x, dtype, device, grad), {});
}
Tensor call_full(const Dims& size, Scalar value, MaybeType dtype, MaybeDevice device, bool grad) {
  return full(size, value, options_of(dtype, device, grad));
}
Tensor call_full_like(const Tensor& x, Scalar value, MaybeType dtype, MaybeDevice device, bool grad) {
  return full(x.shape(), value, options_like(x, dtype, device, grad));
}
Tensor call_arange(Scalar start, std::optional<Scalar> end, Scalar step, MaybeType dtype, MaybeDevice device,
                   bool grad) {
  return arange(end ? start : Scalar(0), end.value_or(start), step, options_of(dtype, device, grad));
}
Tensor call_linspace(Scalar start, Scalar end, int64_t steps, MaybeType dtype, MaybeDevice device, bool grad) {
  return linspace(start, end, steps, options_of(dtype, device, grad));
}
Tensor call_eye(int64_t n, std::optional<int64_t> m, MaybeType dtype, MaybeDevice device, bool grad) {
  return eye(n, m, options_of(dtype, device, grad));
}

std::vector<Values> size_samples(SampleMaker& make) {
  const std::string device = make.device().name();
  return {{Dims{2, 3}, make.dtype(), device}, {Dims(), make.dtype(), device}, {Dims{0, 2}, make.dtype(), device}};
}
std::vector<Values> like_samples(SampleMaker& make) {
  return {{make.tensor({2, 3})}, {make.tensor({})}, {make.tensor({0, 2})}, {make.tensor({3}), DType::i32}};
}
std::vector<Values> full_samples(SampleMaker& make) {
  const std::string device = make.device().name();
  return {{Dims{2, 3}, int64_t{1}, make.dtype(), device},
          {Dims(), true, make.dtype(), device},
          {Dims{0, 2}, 0.5, DType::f32, device}};
}
std::vector<Values> full_like_samples(SampleMaker& make) {
  return {{make.tensor({2, 3}), int64_t{1}}, {make.tensor({}), int64_t{0}}, {make.tensor({0, 2}), int64_t{1}}};
}
std::vector<Values> arange_samples(SampleMaker& make) {
  const std::string device = make.device().name();
  const std::monostate none;
  return {{int64_t{5}, none, int64_t{1}, make.dtype(), device},
          {int64_t{2}, int64_t{9}, int64_t{3}, make.dtype(), device},
          {int64_t{3}, int64_t{1}, int64_t{1} - 2, make.dtype(), device},
          {0.5, 2.0, 0.25, DType::f32, device},
          {int64_t{0}, none, int64_t{1}, make.dtype(), device}};
}
std::vector<Values> linspace_samples(SampleMaker& make) {
  const std::string device = make.device().name();
  return {{-1.0, 1.0, int64_t{5}, make.dtype(), device},
          {2.0, 0.0, int64_t{1}, make.dtype(), device},
          {0.0, 1.0, int64_t{0}, make.dtype(), device}};
}
std::vector<Values> eye_samples(SampleMaker& make) {
  const std::string device = make.device().name();
  const std::monostate none;
  return {{int64_t{3}, none, make.dtype(), device},
          {int64_t{2}, int64_t{4}, make.dtype(), device},
          {int64_t{0}, none, make.dtype(), device}};
}

#define WEFT_OPTIONS "dtype=None, device=None, requires_grad=False)"
#define WEFT_FILLED(op, document)                                                                          \
  {#op,          #op "(*size|shape, " WEFT_OPTIONS, document, false, any, size_samples,                    \
   parts::whole, detail::boxed<filled<weft::op>>},                                                         \
  {                                                                                                        \
#op "_like", #op "_like(x, *, " WEFT_OPTIONS, document " Of x's shape, dtype and device.", false, any, \
        like_samples, parts::pointwise, detail::boxed < filled_like < weft::op>>                           \
  }

using enum OpRecord::Domain;
constexpr OpRecord records[] = {
    WEFT_FILLED(empty, "A tensor whose elements are not set."),
    WEFT_FILLED(zeros, "Zeros."),
    WEFT_FILLED(ones, "Ones."),
    {"full", "full(size|shape, fill_value, *, " WEFT_OPTIONS,
     "One value everywhere; the dtype follows it (bool, int64 or float32) unless given.", false, any, full_samples,
     parts::whole, detail::boxed<call_full>},
    {"full_like", "full_like(x, fill_value, *, " WEFT_OPTIONS, "One value everywhere. Of x's shape, dtype and device.",
     false, any, full_like_samples, parts::pointwise, detail::boxed<call_full_like>},
    {"arange", "arange(start, end=None, step=1, *, " WEFT_OPTIONS,
     "start, start + step, ... before end; one argument counts from 0. int64 where all are integers, else float32.",
     false, numeric, arange_samples, parts::whole, detail::boxed<call_arange>},
    {"linspace", "linspace(start, end, steps, *, " WEFT_OPTIONS, "`steps` values from start to end, both included.",
     false, floating, linspace_samples, parts::whole, detail::boxed<call_linspace>},
    {"eye", "eye(n, m=None, *, " WEFT_OPTIONS, "Ones on the diagonal.", false, any, eye_samples, parts::whole,
     detail::boxed<call_eye>},
};
#undef WEFT_FILLED
#undef WEFT_OPTIONS

}  // namespace

std::span<const OpRecord> create_records() { return records; }

}  // namespace weft
