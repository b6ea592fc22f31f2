#include <torch/cuda.h>

#include <weft/backends/backend.hpp>
#include <weft/tensor/generator.hpp>

namespace torch::cuda {

size_t device_count() { return static_cast<size_t>(weft::device_count(weft::DeviceType::cuda)); }
bool is_available() { return device_count() > 0; }
bool cudnn_is_available() { return is_available(); }
void manual_seed(uint64_t seed) { weft::manual_seed(seed); }
void manual_seed_all(uint64_t seed) { weft::manual_seed(seed); }
void synchronize(int64_t device_index) {
  weft::synchronize(weft::Device(weft::DeviceType::cuda, device_index < 0 ? 0 : static_cast<int>(device_index)));
}

}  // namespace torch::cuda
