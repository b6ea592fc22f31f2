#include "auxiliary_loss.hpp"

#include <fmt/format.h>

#include "../autograd/node.hpp"
#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::nn {

namespace {

thread_local double scale_now = 1;

struct AuxiliaryLossBackward {
  double weight;
  DType dtype;
  Device device;
  Dims shape;
  void operator()(Node& self, Tensor* incoming, Tensor* outgoing) {
    if (self.wants(1)) outgoing[1] = full(shape, weight * scale_now, {dtype, device});
    if (self.wants(0)) outgoing[0] = std::move(incoming[0]);
  }
};

}  // namespace

Tensor add_auxiliary_loss(const Tensor& y, const Tensor& loss, double weight, Location where) {
  const CallScope call("add_auxiliary_loss", where);
  checked(y);
  expect_dtype("loss", loss, is_floating(checked(loss).dtype()), "a floating-point tensor");
  if (loss.numel() != 1) raise_rank("loss", "one element", loss);
  if (!should_record(loss)) return y;
  const Tensor out = y.detach();
  record(out, AuxiliaryLossBackward{weight, loss.dtype(), loss.device(), Dims(loss.shape())}, y, loss);
  return out;
}

AuxiliaryLossScale::AuxiliaryLossScale(double scale) : outer_(scale_now) { scale_now *= scale; }
AuxiliaryLossScale::~AuxiliaryLossScale() { scale_now = outer_; }

}  // namespace weft::nn
