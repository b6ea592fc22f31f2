// Host functions for plug-ins. None of them throws.
#include <bit>
#include <cstdlib>
#include <cstring>
#include <exception>

#include <fmt/format.h>

#include "library.hpp"
#include "marshal.hpp"
#include "../queued/command_queue.hpp"
#include "../../tensor/error.hpp"

namespace weft::plugin {

namespace {

CallPlace place_of(const WeftKernelCall& call) {
  return {.op = reinterpret_cast<const char*>(call.origin[2]),
          .where = std::bit_cast<Location>(call.origin[1]),
          .entry = call.op};
}

void keep(const WeftKernelCall& call, std::exception_ptr failure) noexcept {
  auto* const queue = reinterpret_cast<CommandQueue*>(call.origin[0]);
  if (queue != nullptr) queue->keep_failure(std::move(failure));
}

int code_of(const std::exception_ptr& failure) noexcept {
  try {
    std::rethrow_exception(failure);
  } catch (const IndexError&) {
    return WEFT_INDEX_ERROR;
  } catch (const ShapeError&) {
    return WEFT_SHAPE_ERROR;
  } catch (const DTypeError&) {
    return WEFT_DTYPE_ERROR;
  } catch (const ValueError&) {
    return WEFT_VALUE_ERROR;
  } catch (const NotImplementedError&) {
    return WEFT_NOT_IMPLEMENTED;
  } catch (const OutOfMemoryError&) {
    return WEFT_OUT_OF_MEMORY;
  } catch (const std::bad_alloc&) {
    return WEFT_OUT_OF_MEMORY;
  } catch (...) {
    return WEFT_FAILED;
  }
}

int compute(const WeftKernelCall* call) noexcept {
  if (call == nullptr || call->size != sizeof *call) return WEFT_VALUE_ERROR;
  try {
    const CallScope scope(place_of(*call));
    run_on_host(*call);
    return WEFT_OK;
  } catch (...) {
    const std::exception_ptr failure = std::current_exception();
    keep(*call, failure);
    return code_of(failure);
  }
}

template <class E>
std::exception_ptr failure_of(const WeftKernelCall& call, int code, const char* message) {
  const CallPlace place = place_of(call);
  std::string problem = message != nullptr ? message : fmt::format("the kernel {} failed", call.kernel);
  if constexpr (std::is_same_v<E, DeviceError>) problem += fmt::format(" (code {})", code);
  return std::make_exception_ptr(
      E(format_error({.op = place.entry != nullptr ? place.entry : call.kernel, .problem = problem}, place.where)));
}

void fail(const WeftKernelCall* call, int code, const char* message) noexcept {
  if (call == nullptr || call->size != sizeof *call || code == WEFT_OK) return;
  try {
    switch (code) {
      case WEFT_INDEX_ERROR:
        return keep(*call, failure_of<IndexError>(*call, code, message));
      case WEFT_SHAPE_ERROR:
        return keep(*call, failure_of<ShapeError>(*call, code, message));
      case WEFT_DTYPE_ERROR:
      case WEFT_UNSUPPORTED:
        return keep(*call, failure_of<DTypeError>(*call, code, message));
      case WEFT_VALUE_ERROR:
        return keep(*call, failure_of<ValueError>(*call, code, message));
      case WEFT_NOT_IMPLEMENTED:
        return keep(*call, failure_of<NotImplementedError>(*call, code, message));
      default:
        return keep(*call, failure_of<DeviceError>(*call, code, message));
    }
  } catch (...) {
    keep(*call, std::current_exception());
  }
}

/// One block: the call, its views, its attributes, the numbers of lists, and an element for each number of the host.
const WeftKernelCall* keep_call(const WeftKernelCall* call) noexcept {
  if (call == nullptr || call->size != sizeof *call) return nullptr;
  const auto views = static_cast<size_t>(call->view_count), attributes = static_cast<size_t>(call->attribute_count);
  size_t numbers = 0;
  for (size_t i = 0; i < attributes; ++i) {
    if (call->attributes[i].kind >= WEFT_ATTRIBUTE_I64_LIST) numbers += static_cast<size_t>(call->attributes[i].count);
  }
  const size_t bytes = sizeof *call + views * (sizeof(WeftView) + 8) + attributes * sizeof(WeftAttribute) + numbers * 8;
  auto* const kept = static_cast<WeftKernelCall*>(std::malloc(bytes));
  if (kept == nullptr) return nullptr;
  auto* const own_views = reinterpret_cast<WeftView*>(kept + 1);
  auto* const own_attributes = reinterpret_cast<WeftAttribute*>(own_views + views);
  auto* number = reinterpret_cast<int64_t*>(own_attributes + attributes);
  *kept = *call;
  kept->views = own_views;
  kept->attributes = own_attributes;
  for (size_t i = 0; i < attributes; ++i) {
    WeftAttribute& a = own_attributes[i] = call->attributes[i];
    if (a.kind < WEFT_ATTRIBUTE_I64_LIST) continue;
    if (a.count > 0) std::memcpy(number, a.value.i64s, static_cast<size_t>(a.count) * 8);
    a.value.i64s = number;
    number += a.count;
  }
  for (size_t i = 0; i < views; ++i, ++number) {
    WeftView& v = own_views[i] = call->views[i];
    if (v.layout.host_scalar == 0 || v.data == nullptr || v.layout.dtype >= dtype_count) continue;
    std::memcpy(number, v.data, static_cast<size_t>(itemsize(static_cast<DType>(v.layout.dtype))));
    v.data = number;
  }
  return kept;
}

void release_call(const WeftKernelCall* kept) noexcept { std::free(const_cast<WeftKernelCall*>(kept)); }

}  // namespace

const WeftHost host_services = {sizeof(WeftHost), compute, keep_call, release_call, fail};

}  // namespace weft::plugin
