// Copies, fills, and captured graphs.
#include <cstring>
#include <vector>

#include "runtime.hpp"

namespace weft::testing::cuda {

namespace {

bool is_inside(const std::optional<Memory>& memory, const void* from, size_t bytes) {
  return !memory || static_cast<const char*>(from) + bytes <= memory->base + memory->bytes;
}

bool agrees(cudaMemcpyKind kind, bool to_gpu, bool from_gpu) {
  return kind == cudaMemcpyDefault || kind == static_cast<cudaMemcpyKind>((from_gpu ? 2 : 0) + (to_gpu ? 1 : 0));
}

/// Between GPUs that do not reach each other, by way of the host.
void copy_around(Stream& stream, void* to, int to_gpu, const void* from, int from_gpu, size_t bytes) {
  stream.queue.drain();
  std::vector<char> between(bytes);
  const auto across = [&](int gpu, const auto& copy) {
    hpu::HpuQueue queue(*gpus()[static_cast<size_t>(gpu)], 0);
    copy(queue);
    queue.drain();
    queue.close();
  };
  across(from_gpu, [&](hpu::HpuQueue& queue) { queue.copy(between.data(), from, bytes); });
  across(to_gpu, [&](hpu::HpuQueue& queue) { queue.upload(to, between.data(), bytes); });
}

cudaError_t copy(Stream& stream, void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const std::optional<Memory> target = memory_around(to), source = memory_around(from);
  if (!is_inside(target, to, bytes) || !is_inside(source, from, bytes)) return cudaErrorInvalidValue;
  const bool to_gpu = target && target->gpu >= 0, from_gpu = source && source->gpu >= 0;
  if (!agrees(kind, to_gpu, from_gpu)) return cudaErrorInvalidMemcpyDirection;
  if (target && source) {
    const bool crosses = to_gpu && from_gpu && target->gpu != source->gpu;
    if (crosses && !gpus()[static_cast<size_t>(target->gpu)]->reaches(*gpus()[static_cast<size_t>(source->gpu)])) {
      copy_around(stream, to, target->gpu, from, source->gpu, bytes);
    } else {
      stream.add([=](hpu::HpuQueue& queue) { queue.copy(to, from, bytes); });
    }
    return cudaSuccess;
  }
  // The program's own memory: a source is read before the call returns, a target written.
  if (stream.captured != nullptr) return cudaErrorStreamCaptureUnsupported;
  if (target) {
    stream.queue.upload(to, from, bytes);
    return cudaSuccess;
  }
  if (source) stream.queue.copy(to, from, bytes);
  stream.queue.drain();
  if (!source) std::memcpy(to, from, bytes);
  return cudaSuccess;
}

struct Graph {
  std::vector<Command> commands;
};

}  // namespace

}  // namespace weft::testing::cuda

using namespace weft;
using namespace weft::testing::cuda;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t handle) {
  return serve(__func__, [=] {
    Stream* const stream = stream_of(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : copy(*stream, to, from, bytes, kind);
  });
}

cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t handle) {
  return serve(__func__, [=] {
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    const std::optional<Memory> target = memory_around(to);
    if (!target || target->gpu != stream->gpu || !is_inside(target, to, bytes)) return cudaErrorInvalidValue;
    stream->add([=](hpu::HpuQueue& queue) {
      const auto byte = static_cast<unsigned char>(value);
      queue.fill(to, &byte, 1, bytes);
    });
    return cudaSuccess;
  });
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return serve(__func__, [=] {
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (mode != cudaStreamCaptureModeThreadLocal)
      return cudaErrorInvalidValue;  // others would forbid threads their work
    if (stream->captured != nullptr) return cudaErrorIllegalState;
    stream->captured = std::make_unique<std::vector<Command>>();
    ++capturing;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* graph) {
  Stream* const stream = stream_of(handle);
  if (stream == nullptr || stream->captured == nullptr) return keep(cudaErrorIllegalState);
  --capturing;  // also where it fails
  const auto captured = std::move(stream->captured);
  *graph = nullptr;
  return serve(__func__, [&] {
    *graph = reinterpret_cast<cudaGraph_t>(new Graph{std::move(*captured)});
    return cudaSuccess;
  });
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  return serve(__func__, [=] {
    *executable = reinterpret_cast<cudaGraphExec_t>(new Graph(*reinterpret_cast<Graph*>(graph)));
    return cudaSuccess;
  });
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  return serve(__func__, [=] {
    delete reinterpret_cast<Graph*>(graph);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  return serve(__func__, [=] {
    delete reinterpret_cast<Graph*>(executable);
    return cudaSuccess;
  });
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t handle) {
  return serve(__func__, [=] {
    Stream* const stream = stream_of(handle);
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    if (stream->captured != nullptr) return cudaErrorStreamCaptureUnsupported;
    for (const Command& command : reinterpret_cast<Graph*>(executable)->commands) command(stream->queue);
    return cudaSuccess;
  });
}

}  // extern "C"
