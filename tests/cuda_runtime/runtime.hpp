// A CUDA runtime for tests: the CUDA functions that Weft calls, on the devices of the Level Zero test driver. A program
// linked with it runs Weft's CUDA backend, compiled by nvcc and the host compiler, without a GPU; a kernel is the one
// of its name that was compiled for HPU.
//
// It is stricter than CUDA: what CUDA leaves undefined, or forbids only in its documentation, is an error here.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

#include "../../backends/hpu/queue.hpp"
#include "../../tensor/error.hpp"

namespace weft::testing::cuda {

/// The GPUs that there are; none without the test driver.
const std::vector<hpu::HpuDevice*>& gpus();
/// The calling thread's current one.
int current_gpu();
/// Switched on by WEFT_TEST_CUDA_LOG=1.
bool tells();

// ---- errors ---------------------------------------------------------------------------------------------------------

/// Keeps an error for cudaGetLastError; returns `code`.
cudaError_t keep(cudaError_t code);
/// The error of `function`, if any: a sticky error, an injected one (WEFT_TEST_CUDA_FAIL=function:code:before[:once] or
/// weft_test_cuda_fail), or a call from cudaLaunchHostFunc, in a forked child or while this thread captures.
cudaError_t refusal(const char* function);
/// Of a failure on a device; one that lost the device lasts.
cudaError_t code_of(const DeviceError& failure);

/// The caller notes its own commands, not those by which they are served.
class UnnotedScope {
 public:
  UnnotedScope() : outer_(std::exchange(portable::host::command_notes, nullptr)) {}
  ~UnnotedScope() { portable::host::command_notes = outer_; }
  UnnotedScope(const UnnotedScope&) = delete;

 private:
  portable::host::CommandNotes* const outer_;
};

template <class F>
cudaError_t serve(const char* function, F body) {
  if (const cudaError_t code = refusal(function); code != cudaSuccess) return keep(code);
  const UnnotedScope unnoted;
  try {
    return keep(body());
  } catch (const DeviceError& failure) {
    return keep(code_of(failure));
  } catch (const std::bad_alloc&) {
    return keep(cudaErrorMemoryAllocation);
  }
}

/// Whether a function of cudaLaunchHostFunc runs on this thread.
extern thread_local bool in_host_function;
/// How many streams this thread captures.
extern thread_local int capturing;
/// The call of `function` after `before` others gives `code`, once. Tests look for it by its name.
extern "C" void weft_test_cuda_fail(const char* function, int code, long before);

// ---- memory ---------------------------------------------------------------------------------------------------------

struct Memory {
  char* base;
  size_t bytes;
  int gpu;  ///< -1 for pinned memory
};
/// The allocation around a pointer; none for the program's own memory.
std::optional<Memory> memory_around(const void* pointer);

// ---- streams and graphs ---------------------------------------------------------------------------------------------

using Command = std::function<void(hpu::HpuQueue&)>;

struct Stream {
  Stream(int gpu, int number) : gpu(gpu), queue(*gpus()[static_cast<size_t>(gpu)], number) {}

  const int gpu;
  hpu::HpuQueue queue;
  std::unique_ptr<std::vector<Command>> captured;  ///< not null while it is being captured

  /// Queues the command, or keeps it for a graph.
  void add(Command command) {
    if (captured != nullptr) captured->push_back(std::move(command));
    else command(queue);
  }
};
/// Null for invalid streams and the default one.
Stream* stream_of(cudaStream_t handle);
/// All of a GPU are waited for.
void drain(int gpu);

}  // namespace weft::testing::cuda
