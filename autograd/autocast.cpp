#include "autocast.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "../tensor/index.hpp"
#include "autocast_cache-inl.hpp"
#include "node.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft {

namespace detail {

constinit thread_local AutocastMode autocast_mode = {};

namespace {

// The thread's autocast scopes and their cached casts; destroyed when it leaves the last scope.
constinit thread_local int scopes = 0;
constinit thread_local Casts* casts = nullptr;

bool is_converted(DType dtype) { return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16; }

DType lower_type(const Tensor& x) { return autocast_mode.dtypes[static_cast<int>(x.device().type)]; }

// Only recorded casts are cached, because a cast without a graph cannot be used in one.
bool is_kept(const Tensor& x) {
  return autocast_mode.caches && scopes > 0 && x.requires_grad() && x.is_leaf() && current_mode.enabled;
}

}  // namespace

OwnCasts::OwnCasts() : outer_(std::exchange(casts, nullptr)) {}
OwnCasts::~OwnCasts() { delete std::exchange(casts, outer_); }

Tensor lowered(const Tensor& x) {
  if (!x.defined() || !is_converted(x.dtype())) return x;
  const DType dtype = lower_type(x);
  if (dtype == DType::f32 || dtype == x.dtype()) return x;
  if (!is_kept(x)) return x.to(dtype);
  if (casts == nullptr) casts = new Casts;
  if (const auto found = casts->find(x.impl()); found != casts->end()) {
    const Cast& cast = found->second;
    if (cast.version == x.version() && cast.value.dtype() == dtype) return cast.value;
  }
  const Tensor value = x.to(dtype);
  casts->insert_or_assign(x.impl(), Cast{x, value, x.version()});
  return value;
}

Tensor raised(const Tensor& x) {
  const bool narrow = x.defined() && is_converted(x.dtype()) && x.dtype() != DType::f32;
  return narrow && lower_type(x) != DType::f32 ? x.to(DType::f32) : x;
}

AutocastMode enter_autocast(const AutocastOptions& options, Location where) {
  if (options.dtype != DType::bf16 && options.dtype != DType::f16) {
    raise<DTypeError>({.op = "autocast", .problem = mismatch_text("dtype", "float16 or bfloat16", options.dtype)},
                      where);
  }
  const AutocastMode before = autocast_mode;
  AutocastMode& mode = autocast_mode;
  const DType dtype = options.enabled ? options.dtype : DType::f32;
  if (options.device_type) mode.dtypes[static_cast<int>(*options.device_type)] = dtype;
  else std::ranges::fill(mode.dtypes, dtype);
  mode.on = std::ranges::any_of(mode.dtypes, [](DType t) { return t != DType::f32; });
  mode.caches = options.cache;
  ++scopes;
  return before;
}

void leave_autocast(const AutocastMode& before) {
  autocast_mode = before;
  if (scopes > 0 && --scopes > 0) return;
  delete std::exchange(casts, nullptr);
}

}  // namespace detail

std::optional<DType> autocast_dtype(DeviceType type) {
  const DType dtype = detail::autocast_mode.dtypes[static_cast<int>(type)];
  if (dtype == DType::f32) return {};
  return dtype;
}

}  // namespace weft
