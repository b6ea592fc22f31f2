// Checks that draws have the same bits as on the CPU, and that each device has its own generator.
#include <fmt/format.h>

#include <weft/ops/create.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/random.hpp>
#include <weft/tensor/generator.hpp>

#include "checks.hpp"
#include "compare.hpp"

namespace weft::conform {

namespace {

void draws_have_the_same_bits(Report& report) {
  const auto draws = [](Device device, DType dtype, int64_t n) {
    manual_seed(7);
    std::vector<Tensor> all = {rand({n}, {dtype, device}), bernoulli(full({n}, 0.3, {dtype, device})),
                               dropout(ones({n}, {dtype, device}), 0.5), uniform_(zeros({n}, {dtype, device}), -3, 5)};
    all.push_back(randint(-5, 1000, {n}, {i64, device}));
    all.push_back(randperm(n, {i64, device}));
    return all;
  };
  constexpr const char* names[] = {"rand", "bernoulli", "dropout", "uniform_", "randint", "randperm"};
  const RngForkGuard guard({Device(), report.device()});
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    for (const int64_t n : {int64_t{1}, int64_t{7}, int64_t{1000}, int64_t{70'001}}) {
      const std::vector<Tensor> right = draws(Device(), dtype, n), came = draws(report.device(), dtype, n);
      for (size_t i = 0; i < right.size(); ++i) {
        if (same_bits(came[i], right[i])) continue;
        report.deviation(fmt::format("the CPU's bits of {} {} of {}", n, names[i], name(dtype)), "others");
      }
    }
  }
}

void normal_draws_agree(Report& report) {
  const RngForkGuard guard({Device(), report.device()});
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    manual_seed(7);
    const Tensor right = randn({10'001}, dtype), came = randn({10'001}, {dtype, report.device()});
    // Tolerance: two units in the last place.
    const double unit = dtype == DType::f64   ? 0x1p-52
                        : dtype == DType::f32 ? 0x1p-23
                        : dtype == DType::f16 ? 0x1p-10
                                              : 0x1p-7;
    const Difference wrong = difference(came, right, report.device(), {2 * unit, unit});
    if (wrong) report.deviation(std::string("randn of ") + name(dtype) + ": " + wrong.expected, wrong.came);
  }
}

void generators_are_the_devices_own(Report& report) {
  const Device device = report.device();
  const RngForkGuard guard({Device(), device});
  manual_seed(5);
  const GeneratorState start = default_generator(device).state();
  report.expect(start == default_generator().state(), "one state on all devices after manual_seed", "two");
  const Tensor first = rand({100}, {f32, device});
  report.expect(default_generator().state() == start, "the CPU's generator where it was", "that it moved");
  report.expect(!(default_generator(device).state() == start), "the device's generator moved", "that it did not");
  const Tensor state = get_rng_state(device), second = rand({100}, {f32, device});
  set_rng_state(state, device);
  if (!same_bits(rand({100}, {f32, device}), second)) report.deviation("the same draws after set_rng_state", "others");
  manual_seed(5);
  if (!same_bits(rand({100}, {f32, device}), first)) report.deviation("the same draws after manual_seed", "others");
  Generator own(11), cpus(11);
  if (!same_bits(rand({100}, {f32, device}, &own), rand({100}, f32, &cpus))) {
    report.deviation("the same draws from a generator of the caller's", "others");
  }
  report.expect(own.state() == cpus.state(), "as many counters taken as on the CPU", "others");
}

}  // namespace

void check_random(Report& report) {
  report.run("random.draws", [&] { draws_have_the_same_bits(report); });
  report.run("random.normal", [&] { normal_draws_agree(report); });
  report.run("random.generator", [&] { generators_are_the_devices_own(report); });
}

}  // namespace weft::conform
