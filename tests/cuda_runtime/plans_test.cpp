// NVIDIA's cuDNN plans Weft's graphs for described GPUs, without a GPU: it reports whether it has engines for a graph,
// compiles their kernels, and states their requirements and rounding.
#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "../../backends/cuda/libraries/attention.hpp"
#include "../../backends/cuda/libraries/convolution.hpp"

namespace weft::cuda {
namespace {

struct Gpu {
  const char* name;
  int capability, processors, shared_memory;
};
constexpr Gpu gpus[] = {{"A100", 800, 108, 166912},
                        {"H100", 900, 132, 232448},
                        {"B200", 1000, 148, 232448},
                        {"RTX 5090", 1200, 170, 101376}};
void PrintTo(const Gpu& gpu, std::ostream* out) { *out << gpu.name; }

/// As cuDNN writes the properties of a GPU that it finds.
Descriptor described(const Gpu& gpu) {
  const auto number = [](const char* name, int64_t value) {
    return ",\"" + std::string(name) + "\":" + std::to_string(value);
  };
  const std::string text =
      "{\"cudaDeviceId\":0,\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64]" +
      number("deviceId", 0) + number("deviceVer", gpu.capability) + number("driverVer", 13000) +
      number("totalGlobalMem", int64_t{80} << 30) + number("regsPerBlock", 65536) +
      number("multiProcessorCount", gpu.processors) + number("warpSize", 32) +
      number("maxSharedMemoryPerBlock", 49152) + number("maxSharedMemoryPerBlockOptin", gpu.shared_memory) +
      number("reservedSharedMemoryPerBlock", 1024) + number("maxRegistersPerSM", 65536) + number("maxCtasPerSM", 32) +
      number("maxThreadsPerBlock", 1024) + number("maxThreadsPerSM", gpu.capability == 1200 ? 1536 : 2048) +
      number("pciDeviceId", 0) + number("isTccDriver", 0) + number("supportCoopLaunch", 1) +
      number("smClockRateKHz", 1700000) + number("memClockRateKHz", 2600000) + number("l2CacheSize", 50 << 20) +
      ",\"deviceName\":\"" + gpu.name + "\"}";
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, 0);
  properties.set(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, text.data(), text.size());
  return std::move(properties).finalize();
}

class CudnnPlans : public testing::TestWithParam<Gpu> {
 protected:
  void SetUp() override {
    constexpr size_t first_that_describes = 90800;
    if (find_dnn() == nullptr) GTEST_SKIP() << "cuDNN's library is not here";
    if (dnn().cudnnGetVersion() < first_that_describes) GTEST_SKIP() << "cuDNN is older than 9.8";
    properties_.emplace(described(GetParam()));
  }
  DnnTarget target() const { return {nullptr, &*properties_, 0}; }

 private:
  std::optional<Descriptor> properties_;
};

AttentionProblem attention_problem(DType dtype, bool causal, int64_t key_heads, int64_t queries, int64_t keys,
                                   int64_t depth) {
  using P = AttentionProblem;
  P p = {dtype, causal, 2, 8, key_heads, queries, keys, depth, depth, {}};
  for (int64_t id = 0; id < P::tensor_count; ++id) {
    const bool by_key = id == P::k || id == P::v || id == P::dk || id == P::dv;
    const int64_t heads = by_key ? p.key_heads : p.heads, length = by_key ? p.keys : p.queries;
    const int64_t columns = id == P::log_sum_exp ? 1 : depth;
    p.strides[id] = {heads * length * columns, columns, heads * columns, 1};  // [batch, length, heads, depth]
    if (id == P::log_sum_exp) p.strides[id] = {heads * length, length, 1, 1};
  }
  return p;
}

void expect_plans(const AttentionProblem& p, const DnnTarget& target) {
  for (const auto make_graph : {attention_graph, attention_gradient_graph}) {
    const DnnPlan plan = make_plan(make_graph(p, nullptr, 0), attention_wishes, target);
    EXPECT_TRUE(plan.execution) << (make_graph == attention_graph ? "attention" : "gradient") << " of " << p.queries
                                << " queries and " << p.keys << " keys";
  }
}

TEST_P(CudnnPlans, AttentionAndItsGradientHaveEnginesThatGiveTheSameBitsInEveryRun) {
  expect_plans(attention_problem(DType::bf16, true, 8, 512, 512, 64), target());
  expect_plans(attention_problem(DType::f16, false, 2, 500, 300, 128), target());
  if (GetParam().capability != 900) return;  // the kernels of others take as long to compile
  expect_plans(attention_problem(DType::bf16, true, 1, 77, 77, 32), target());
  expect_plans(attention_problem(DType::f16, false, 8, 17, 1024, 64), target());
}

struct Plane {
  int64_t channels, outputs, size, kernel, groups;
};
constexpr Plane planes[] = {{64, 64, 28, 3, 1}, {3, 32, 32, 3, 1},   {64, 64, 28, 3, 64}, {32, 64, 28, 3, 4},
                            {1, 8, 28, 5, 1},   {64, 128, 14, 1, 1}, {30, 50, 13, 5, 2},  {256, 256, 56, 3, 1}};

ConvolutionProblem convolution_problem(Convolution product, DType dtype, bool adds, const Plane& plane) {
  const auto& [channels, outputs, size, kernel, groups] = plane;
  ConvolutionProblem p = {};
  p.product = product;
  p.dtype = dtype;
  p.adds = adds;
  p.dims = 2;
  p.data = {8, channels, 1, size, size};
  p.weight = {outputs, channels / groups, 1, kernel, kernel};
  p.result = {8, outputs, 1, size, size};
  p.steps = {{1, 1, 1}, {0, kernel / 2, kernel / 2}, {1, 1, 1}, groups};
  p.alignment = 256;
  return p;
}

// A quarter of the problems, another one for each GPU; all with WEFT_TEST_LARGE.
TEST_P(CudnnPlans, ConvolutionsHaveExactEngines) {
  const bool takes_all = std::getenv("WEFT_TEST_LARGE") != nullptr;
  int number = GetParam().capability / 100;
  constexpr Convolution products[] = {Convolution::forward, Convolution::by_data, Convolution::by_weight};
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    for (const bool adds : {false, true}) {
      for (const Plane& plane : planes) {
        for (const Convolution product : products) {
          if (!takes_all && number++ % 4 != 0) continue;
          const ConvolutionProblem p = convolution_problem(product, dtype, adds, plane);
          const DnnPlan plan = make_plan(convolution_graph(p, nullptr, 0), wishes_of(p), target());
          EXPECT_TRUE(plan.execution) << "product " << static_cast<int>(product) << " of " << name(dtype) << ", "
                                      << plane.channels << " channels, " << plane.groups << " groups, adds " << adds;
        }
      }
    }
  }
}

TEST_P(CudnnPlans, AGraphThatHasNoEngineHasNoPlan) {
  AttentionProblem p = attention_problem(DType::bf16, true, 8, 512, 512, 64);
  p.depth = p.width = 60;  // no whole vectors
  EXPECT_FALSE(make_plan(attention_graph(p, nullptr, 0), attention_wishes, target()).execution);
}

INSTANTIATE_TEST_SUITE_P(Gpus, CudnnPlans, testing::ValuesIn(gpus));

}  // namespace
}  // namespace weft::cuda
