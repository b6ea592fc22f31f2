// The checks find ops that differ between a device and the CPU.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sstream>

#include <nlohmann/json.hpp>

#include <weft/backends/backend.hpp>
#include <weft/ops/pointwise.hpp>
#include <weft/ops/record.hpp>
#include <weft/ops/reduce.hpp>
#include <weft/tensor/error.hpp>

#include "conform/checks.hpp"
#include "conform/print.hpp"

namespace weft::conform {
namespace {

using ::testing::HasSubstr;

bool elsewhere(const Tensor& x) { return !x.device().is_cpu(); }

Tensor right(const Tensor& x) { return x * 2; }
Tensor other_values(const Tensor& x) { return x * (elsewhere(x) ? 3 : 2); }
Tensor other_shape(const Tensor& x) { return elsewhere(x) ? x.unsqueeze(0) * 2 : x * 2; }
Tensor other_dtype(const Tensor& x) { return elsewhere(x) ? (x * 2).to(f64) : x * 2; }
Tensor on_the_cpu(const Tensor& x) { return x.device().type == DeviceType::hpu ? (x * 2).to(Device()) : x * 2; }
Tensor other_gradient(const Tensor& x) { return elsewhere(x) ? x.detach() * 2 + x - x.detach() : x * 2; }
Tensor without_strides(const Tensor& x) {
  return elsewhere(x) && !x.is_contiguous() ? x.as_strided(x.shape(), Dims::filled(x.dim(), 1)) * 2 : x * 2;
}
Tensor without_kernel(const Tensor& x) {
  if (elsewhere(x)) raise<NotImplementedError>({.op = "broken", .problem = "no kernel"});
  return x * 2;
}
Tensor without_empty(const Tensor& x) {
  if (elsewhere(x) && x.numel() == 0) raise<ShapeError>({.op = "broken", .problem = "no elements"});
  return x * 2;
}
Tensor refused_by_the_cpu(const Tensor& x) {
  if (!elsewhere(x)) raise<ValueError>({.op = "broken", .problem = "not these"});
  return x * 2;
}

std::vector<Values> two_by_three(SampleMaker& make) { return {{make.tensor({2, 3}, 1, 2)}}; }

/// The findings for such an op, as text.
template <auto function>
std::string found(Device device, const std::string& only = "float32") {
  const OpRecord record = {"broken",     "broken(x)", "for this test",        true, OpRecord::Domain::floating,
                           two_by_three, nullptr,     detail::boxed<function>};
  DeviceResult result{{device, only, false}, "for this test"};
  result.ops.push_back(check_op(result.report, record));
  std::ostringstream text;
  print(text, result);
  EXPECT_EQ(as_json(result).at("deviations").empty(), result.report.deviations().empty());
  return text.str();
}

TEST(Conform, MetaIsComparedByShapesAndDtypes) {
  const Device meta("meta");
  EXPECT_THAT(found<right>(meta), HasSubstr("0 of them deviate"));
  EXPECT_THAT(found<other_values>(meta), HasSubstr("0 of them deviate"));
  EXPECT_THAT(found<other_shape>(meta),
              HasSubstr("expected sample 0, output 0: [2, 3] float32, came [1, 2, 3] float32"));
  EXPECT_THAT(found<other_dtype>(meta), HasSubstr("came [2, 3] float64"));
  EXPECT_THAT(found<without_kernel>(meta), HasSubstr("came NotImplementedError [broken] no kernel"));
  EXPECT_THAT(found<without_empty>(meta), HasSubstr("DEVIATION ops.broken.float32.empty"));
}

TEST(Conform, ADeviceIsComparedByValuesGradientsAndErrors) {
  const Device hpu("hpu");
  if (device_count(hpu.type) == 0) GTEST_SKIP() << "there is no HPU";
  EXPECT_THAT(found<right>(hpu), HasSubstr("0 of them deviate"));
  EXPECT_THAT(found<other_values>(hpu), HasSubstr("at element 0 of [2, 3] float32, came"));
  EXPECT_THAT(found<other_shape>(hpu), HasSubstr("came [1, 2, 3] float32"));
  EXPECT_THAT(found<on_the_cpu>(hpu), HasSubstr("output 0: hpu:0, came cpu"));
  EXPECT_THAT(found<other_gradient>(hpu), HasSubstr("sample 0, gradient 0: "));
  EXPECT_THAT(found<without_kernel>(hpu), HasSubstr("expected sample 0: a result, came NotImplementedError"));
  EXPECT_THAT(found<refused_by_the_cpu>(hpu), HasSubstr("ValueError [broken] not these, came a result"));
  const std::string strides = found<without_strides>(hpu);
  EXPECT_THAT(strides, HasSubstr("DEVIATION ops.broken.float32.strided"));
  EXPECT_THAT(strides, Not(HasSubstr("DEVIATION ops.broken.float32.dense")));
}

/// The findings of checks on a device that must fail them.
std::string found_on(Device device, void (*checks)(Report&), const std::string& only) {
  Report report(device, only, false);
  checks(report);
  EXPECT_EQ(report.finished().size(), 1u) << only;
  return report.deviations().empty() ? "nothing" : report.line_of(report.deviations()[0]);
}

TEST(Conform, FindsFaultsThatNoDriverHas) {
  EXPECT_THAT(found_on("cpu", check_errors, "errors.two_devices"), HasSubstr("operands of two devices, came a result"));
  EXPECT_THAT(found_on("meta", check_memory, "memory.absent_device"), HasSubstr("came figures"));
  EXPECT_THAT(found_on("cpu", check_meta, "meta.elements"), HasSubstr("no memory behind a tensor, came an address"));
  EXPECT_THAT(found_on("cpu", check_meta, "meta.memory"), HasSubstr("came OutOfMemoryError"));
}

TEST(Conform, OneCheckIsPickedByItsName) {
  const Device meta("meta");
  EXPECT_THAT(found<other_shape>(meta, "ops.broken.float64.dense"), HasSubstr("1 checks, 1 of them deviate"));
  EXPECT_THAT(found<other_shape>(meta, "ops.other"), HasSubstr("0 checks"));
}

TEST(Conform, ExceptionsOfChecksAreDeviations) {
  Report report(Device("meta"), "", false);
  EXPECT_FALSE(report.run("one", [] { raise<DeviceError>({.op = "x", .problem = "lost"}, Location::none()); }));
  EXPECT_TRUE(report.run("two", [] { throw NotHere{"it has none"}; }));
  ASSERT_EQ(report.deviations().size(), 1u);
  EXPECT_EQ(report.line_of(report.deviations()[0]),
            "one: expected no error, came DeviceError [x] lost; again by ./weft conform --device meta --only one");
  EXPECT_EQ(report.notes(), std::vector<std::string>{"two: it has none"});
}

}  // namespace
}  // namespace weft::conform
