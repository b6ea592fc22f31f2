#include "saved_tensors.hpp"

#include <fmt/format.h>

namespace weft {

namespace {

struct Moved {
  Tensor kept;
  Device device;
  DType dtype;
};

// Parameters are kept alive anyway.
bool is_parameter(const Tensor& t) { return t.requires_grad() && t.is_leaf(); }

Tensor moved_back(const Moved& moved) {
  return moved.kept.to(moved.device, Location::none()).to(moved.dtype, Location::none());
}

DType checked_narrow(DType dtype, Location where) {
  if (dtype == DType::bf16 || dtype == DType::f16) return dtype;
  raise<DTypeError>({.op = "CompressSavedTensors",
                     .problem = fmt::format("saved tensors cannot be kept in {}", name(dtype)),
                     .remedy = "use bf16 or f16"},
                    where);
}

}  // namespace

OffloadSavedTensors::OffloadSavedTensors(OffloadOptions options)
    : SavedTensorHooks(
          [options](const Tensor& t) -> std::optional<Moved> {
            if (t.nbytes() < options.at_least_bytes || t.device() == options.to || is_parameter(t)) return {};
            return Moved{t.to(options.to, Location::none()), t.device(), t.dtype()};
          },
          moved_back) {}

CompressSavedTensors::CompressSavedTensors(DType dtype, Location where)
    : SavedTensorHooks(
          [narrow = checked_narrow(dtype, where)](const Tensor& t) -> std::optional<Moved> {
            const bool wide = t.dtype() == DType::f32 || t.dtype() == DType::f64;
            if (!wide || is_parameter(t)) return {};
            return Moved{t.to(narrow, Location::none()), t.device(), t.dtype()};
          },
          moved_back) {}

}  // namespace weft
