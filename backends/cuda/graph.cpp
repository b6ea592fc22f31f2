// Commands that a GPU repeats by itself: a graph, captured from a stream that nothing else uses.
#include <utility>

#include "queue.hpp"

namespace weft::cuda {

using portable::host::NotedCall;
using portable::host::NotedCommand;
using portable::host::NotedCopy;
using portable::host::NotedFill;
using portable::host::NotedLaunch;

namespace {

/// Queues the recorded work on a stream of the thread's current device.
void queue_on(cudaStream_t stream, int device, const NotedCommand& command) {
  if (const auto* launch = std::get_if<NotedLaunch>(&command)) {
    const auto& arguments = launch->arguments.list();
    static_cast<CudaKernel*>(launch->kernel)
        ->launch_on(stream, device, launch->grid, arguments.data(), arguments.size());
  } else if (const auto* copy = std::get_if<NotedCopy>(&command)) {
    WEFT_CUDA(device, cudaMemcpyAsync, copy->to, copy->from, copy->bytes, cudaMemcpyDefault, stream);
  } else if (const auto* fill = std::get_if<NotedFill>(&command)) {
    WEFT_CUDA(device, cudaMemsetAsync, fill->to, static_cast<int>(fill->pattern & 0xff), fill->bytes, stream);
  } else {
    std::get<NotedCall>(command).queue(stream);
  }
}

/// A stream that is being captured.
class Capture {
 public:
  explicit Capture(int device) : device_(device) {
    WEFT_CUDA(device_, cudaStreamCreateWithFlags, &stream_, cudaStreamNonBlocking);
    // Other threads may use the device at the same time.
    const cudaError_t code = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
    if (code == cudaSuccess) return;
    cudaStreamDestroy(stream_);
    raise_failure("cudaStreamBeginCapture", code, device_);
  }
  ~Capture() {
    if (!ended_) cudaStreamEndCapture(stream_, &graph_);  // what failed is raised
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
    cudaStreamDestroy(stream_);
  }
  Capture(const Capture&) = delete;

  cudaStream_t stream() const { return stream_; }
  cudaGraphExec_t end() {
    ended_ = true;
    WEFT_CUDA(device_, cudaStreamEndCapture, stream_, &graph_);
    cudaGraphExec_t executable = nullptr;
    WEFT_CUDA(device_, cudaGraphInstantiate, &executable, graph_, 0);
    return executable;
  }

 private:
  const int device_;
  cudaStream_t stream_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  bool ended_ = false;
};

class CudaBatch final : public CommandBatch {
 public:
  CudaBatch(CudaQueue& queue, portable::host::CommandNotes notes)
      : queue_(queue), resources_(std::move(notes.resources)) {
    const int device = queue.device().index;
    const CurrentDevice current(device);
    Capture capture(device);
    for (const NotedCommand& command : notes.commands) queue_on(capture.stream(), device, command);
    executable_ = capture.end();
  }

  ~CudaBatch() override {
    if (queue_.cuda_device().closed()) return;
    try {
      queue_.drain();
    } catch (...) {  // the device is lost
    }
    cudaGraphExecDestroy(executable_);
  }

  void run() override {
    queue_.run_library(
        [this](cudaStream_t stream) { WEFT_CUDA(queue_.device().index, cudaGraphLaunch, executable_, stream); });
  }

 private:
  CudaQueue& queue_;
  std::unique_ptr<portable::host::CommandResources> resources_;
  cudaGraphExec_t executable_ = nullptr;
};

}  // namespace

std::unique_ptr<CommandBatch> CudaQueue::make_batch(portable::host::CommandNotes notes) {
  cuda_.require_open();
  return std::make_unique<CudaBatch>(*this, std::move(notes));
}

}  // namespace weft::cuda
