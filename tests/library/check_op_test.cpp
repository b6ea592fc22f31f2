// check_op: its checks, and that it finds broken ops.
#include "registering.hpp"

namespace weft::testing {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::HasSubstr;

std::vector<std::string> checks_that_failed(const CheckOpReport& report) {
  std::vector<std::string> names;
  for (const CheckOpReport::Finding& finding : report.findings) names.push_back(finding.check);
  return names;
}

TEST(CheckOp, PassesTheLibrarysOwnOps) {
  for (const char* name : {"exp", "add", "softmax", "cat", "max", "argmax", "layer_norm", "cumsum"}) {
    const CheckOpReport report = check_op(name);
    EXPECT_TRUE(report.passed()) << report.text();
    EXPECT_GT(report.done.size(), 3u) << report.text();
  }
}

TEST(CheckOp, PassesARegisteredOpWithEverything) {
  const Registration op = cube("test::cube").backward(cube_gradient).register_();
  const CheckOpReport report = check_op("test::cube", {.reference = [](std::span<const Value> v) {
                                          const double scale = v.size() > 1 ? std::get<double>(v[1]) : 1.0;
                                          return std::vector<Tensor>{pow(std::get<Tensor>(v[0]), 3) * scale};
                                        }});
  EXPECT_TRUE(report.passed()) << report.text();
  EXPECT_THAT(report.done, Contains(HasSubstr("gradient")));
  EXPECT_THAT(report.done, Contains(HasSubstr("values")));
}

template <class Change>
CheckOpReport with(Change change) {
  OpBuilder op = cube("test::broken");
  change(op);
  const Registration registered = op.register_();
  return check_op("test::broken");
}

TEST(CheckOp, FindsAWrongGradient) {
  const CheckOpReport report =
      with([](OpBuilder& op) { op.backward([](const OpGradient& g) { return square(g.input("x")) * g.gradient(); }); });
  EXPECT_THAT(checks_that_failed(report), Contains("gradient")) << report.text();
}

TEST(CheckOp, FindsAKernelThatReadsMemoryAsIfItWereDense) {
  const CheckOpReport report = with([](OpBuilder& op) {
    op.kernel(DeviceType::cpu, {f16}, cube_of);
    op.composite([](const Tensor& x, double scale) {
      return x.as_strided(x.shape(), Dims::filled(x.dim(), x.dim() > 0 ? 1 : 0)).clone() * scale;
    });
  });
  EXPECT_FALSE(report.passed()) << report.text();
}

TEST(CheckOp, FindsWrongValuesWritesAndShapes) {
  EXPECT_THAT(checks_that_failed(with(
                  [](OpBuilder& op) { op.composite([](const Tensor& x, double scale) { return x * x * scale; }); })),
              Contains("values"));
  const Registration writes =
      OpBuilder("test::writes")
          .schema("(x)")
          .kernel(DeviceType::cpu, {f32}, [](const Tensor& x) { return neg_(x.detach()).clone(); })
          .samples([](SampleMaker& make) { return std::vector<Values>{{make.tensor({3})}}; })
          .register_();
  EXPECT_THAT(checks_that_failed(check_op("test::writes")), Contains("values"));
}

TEST(CheckOp, NeedsSamplesAndAnOp) {
  EXPECT_THROW(check_op("test::none"), ValueError);
  const Registration op =
      OpBuilder("test::bare").schema("(x)").composite([](const Tensor& x) { return x * 1; }).register_();
  EXPECT_THAT(message_of<ValueError>([] { check_op("test::bare"); }), HasSubstr("no samples"));
}

}  // namespace
}  // namespace weft::testing
