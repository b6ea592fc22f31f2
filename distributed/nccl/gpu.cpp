#include "gpu.hpp"

#include <fmt/format.h>

#include "../../backends/cuda/device.hpp"
#include "../../backends/stream.hpp"
#include "../../tensor/settings.hpp"
#include "wire.hpp"

namespace weft::distributed::nccl {

namespace {

class CurrentStream final : public Queue {
 public:
  explicit CurrentStream(Device gpu) : stream_(current_stream(gpu)) {}
  void* handle() override { return stream_.native_handle(); }
  void mark() override { marked_.record(stream_); }
  bool reached() override { return marked_.query(); }

 private:
  const Stream stream_;
  Event marked_;
};

/// UUID of the GPU, the same in all processes whatever index they use.
std::string identity_of(int index) {
  cudaDeviceProp properties;
  WEFT_CUDA(index, cudaGetDeviceProperties, &properties, index);
  std::string text;
  for (const char byte : properties.uuid.bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  return text;
}

}  // namespace

Shared<detail::Wire> connect_gpus(Device gpu, const Shared<detail::Wire>& host, int rank, int ranks,
                                  const detail::CallRecord& call, detail::Clock::time_point deadline) {
  std::string why;
  Site site;
  site.wanted = !weft::detail::is_switched_off("WEFT_NCCL");
  if (site.wanted) site.library = find_library(why);
  site.device = gpu;
  site.identity = identity_of(gpu.index);
  site.own_sums = weft::detail::is_switched_on("WEFT_NCCL_REDUCE");
  site.queue = [gpu] { return std::make_unique<CurrentStream>(gpu); };
  site.enter = [gpu](const Callback<void()>& act) {
    if (find_device(gpu)->closed()) return;
    const cuda::CurrentDevice current(gpu.index);
    act();
  };
  return connect(site, host, rank, ranks, call, deadline);
}

}  // namespace weft::distributed::nccl
