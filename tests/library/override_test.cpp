// Repeated names: policies, the resulting definition, and concurrent calls.
#include <atomic>
#include <thread>

#include "collected_warnings.hpp"
#include "registering.hpp"

namespace weft::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Registration constant(const char* name, double value, OpPolicy policy = OpPolicy::override, Location where = {}) {
  return OpBuilder(name, where)
      .schema("(x)")
      .composite([value](const Tensor& x) { return full_like(x, value); })
      .register_(policy, where);
}
double called(const char* name) { return call_op(name, doubles({1})).item<double>(); }

TEST(Policies, ErrorNamesBothPlaces) {
  const int line = __LINE__ + 1;
  const Registration first = constant("test::a", 1);
  EXPECT_THAT(message_of<ValueError>([] { (void)constant("test::a", 2, OpPolicy::error, Location()); }),
              AllOf(HasSubstr("[test::a] there is an op of this name already"),
                    HasSubstr("registered at " + std::string(__FILE__) + ":" + std::to_string(line)),
                    HasSubstr("override_test.cpp:" + std::to_string(line + 1))));
  EXPECT_EQ(called("test::a"), 1);
}

TEST(Policies, KeepRegistersNothing) {
  const Registration first = constant("test::a", 1);
  const Registration second = constant("test::a", 2, OpPolicy::keep);
  EXPECT_FALSE(second.active());
  EXPECT_EQ(called("test::a"), 1);
}

TEST(Policies, OverridingWarnsAndIsUndone) {
  CollectedWarnings warnings;
  const Registration first = constant("test::a", 1);
  EXPECT_TRUE(warnings.texts.empty());
  const OpRecord* const old = find_record("test::a");
  {
    const Registration second = constant("test::a", 2);
    ASSERT_EQ(warnings.texts.size(), 1u);
    EXPECT_THAT(warnings.texts[0],
                AllOf(HasSubstr("test::a"), HasSubstr("replaces another definition"), HasSubstr("override_test.cpp")));
    EXPECT_EQ(called("test::a"), 2);
    EXPECT_EQ(second.previous(), old);
    EXPECT_EQ(std::get<Tensor>(second.previous()->call(Values{doubles({5})})).item<double>(), 1);
  }
  EXPECT_EQ(called("test::a"), 1);
  EXPECT_EQ(find_record("test::a"), old);
}

TEST(Policies, UnregisteringInAnyOrderKeepsTheOthers) {
  Registration a = constant("test::a", 1), b = constant("test::a", 2), c = constant("test::a", 3);
  const auto typed = find_op<Tensor(const Tensor&)>("test::a");
  b.unregister();
  EXPECT_EQ(called("test::a"), 3);
  EXPECT_EQ(c.previous(), a.record());
  c.unregister();
  EXPECT_EQ(typed(doubles({1})).item<double>(), 1);
  const OpRecord* const record = find_record("test::a");
  a.unregister();
  EXPECT_EQ(find_record("test::a"), nullptr);
  EXPECT_THROW(called("test::a"), ValueError);
  EXPECT_THROW(typed(doubles({1})), ValueError);
  EXPECT_THROW(record->call(Values{doubles({1})}), ValueError);
  SampleMaker make(f32, {});
  EXPECT_TRUE(record->samples(make).empty());
}

TEST(Policies, OldRecordsCallTheCurrentOp) {
  Registration first = constant("test::a", 1);
  const OpRecord* const old = find_record("test::a");
  Registration second = constant("test::a", 2);
  first.unregister();
  EXPECT_EQ(std::get<Tensor>(old->call(Values{doubles({1})})).item<double>(), 2);
}

TEST(Policies, OverridesAreCalledLikeTheReplacedOp) {
  const Registration first = cube("test::cube").register_();
  const auto override_by = [](const char* schema, auto body) {
    return OpBuilder("test::cube").schema(schema).composite(body);
  };
  const auto one = [](const Tensor& x) { return x; };
  const auto problem = [](const OpBuilder& op) {
    return message_of<ValueError>([&] { (void)op.register_(OpPolicy::override); });
  };
  EXPECT_THAT(problem(override_by("(x)", one)), HasSubstr("does not take argument 'scale'"));
  EXPECT_THAT(problem(override_by("(y, scale: float = 1.0)", [](const Tensor& x, double) { return x; })),
              HasSubstr("'y'"));
  EXPECT_THAT(problem(override_by("(x, scale: float)", [](const Tensor& x, double) { return x; })),
              HasSubstr("must be given"));
  EXPECT_THAT(problem(override_by("(x, scale: str = 'a')", [](const Tensor& x, const std::string&) { return x; })),
              HasSubstr("is a string, and was float"));
  EXPECT_NO_THROW((void)override_by("(x)", one).allow_schema_change().register_(OpPolicy::override));
  const Registration more =
      override_by("(x, scale: float = 1.0, power: int = 3)", [](const Tensor& x, double, int64_t) {
        return x;
      }).register_(OpPolicy::override);
  EXPECT_THAT(elements(call_op("test::cube", doubles({2}), 1.0, 5)), ElementsAre(2));
}

TEST(Policies, BackwardIsDroppedUnlessItIsInherited) {
  const Registration first = cube("test::cube").backward(cube_gradient).register_();
  const Tensor x = doubles({2}).requires_grad_();
  {
    const Registration second = cube("test::cube").register_(OpPolicy::override);
    EXPECT_THROW(call_op("test::cube", x).sum().backward(), AutogradError);
  }
  const Registration third = cube("test::cube").inherit_backward().register_(OpPolicy::override);
  call_op("test::cube", x, 2.0).sum().backward();
  EXPECT_THAT(elements(x.grad()), ElementsAre(24));
}

TEST(Policies, BackwardOfACompositeBodyAndOfTheLibrarysOwnIsComputedAgain) {
  const Registration first =
      OpBuilder("test::sq").schema("(x)").composite([](const Tensor& x) { return x * x; }).register_();
  const auto kernel = [](const Tensor& x) { return square(x); };
  const auto f = [](const char* name) { return [name](std::span<const Tensor> x) { return call_op(name, x[0]); }; };
  const std::vector<Tensor> inputs = {doubles({1, 2}).requires_grad_()};
  const Registration second =
      OpBuilder("test::sq").kernel(DeviceType::cpu, {f64}, kernel).inherit_backward().register_(OpPolicy::override);
  EXPECT_NO_THROW(gradcheck(f("test::sq"), inputs));
  EXPECT_NO_THROW(gradgradcheck(f("test::sq"), inputs));
  const Registration own =
      OpBuilder("square").kernel(DeviceType::cpu, {f64}, kernel).inherit_backward().register_(OpPolicy::override);
  EXPECT_NO_THROW(gradcheck(f("square"), inputs));
  EXPECT_NO_THROW(gradgradcheck(f("square"), inputs));
  EXPECT_THAT(message_of<ValueError>([] {
                (void)OpBuilder("isnan")
                    .composite([](const Tensor& x) { return x; })
                    .inherit_backward()
                    .register_(OpPolicy::override);
              }),
              HasSubstr("no backward to inherit"));
}

// ---- the library's own ops ----

TEST(OwnOps, AreOverriddenForCallsByNameAndStayForCallsOfTheFunction) {
  const OpRecord* const own = find_record("exp");
  const size_t before = all_ops().size();
  {
    const Registration op =
        OpBuilder("exp").composite([](const Tensor& x) { return x * 0 + 7; }).register_(OpPolicy::override);
    EXPECT_EQ(op.previous(), own);
    EXPECT_EQ(called("exp"), 7);
    EXPECT_EQ(std::get<Tensor>(find_record("exp")->call(Values{doubles({1})})).item<double>(), 7);
    EXPECT_NE(exp(doubles({1})).item<double>(), 7);
    EXPECT_EQ(all_ops().size(), before);
    EXPECT_EQ(find_record("exp")->signature().text, own->signature().text);
  }
  EXPECT_EQ(find_record("exp"), own);
  EXPECT_NE(called("exp"), 7);
}

TEST(OwnOps, AreNotShadowedByAnOpOfANamespace) {
  const Registration op = constant("test::add", 3);
  EXPECT_EQ(call_op("add", doubles({1}), doubles({1})).item<double>(), 2);
  EXPECT_EQ(called("test::add"), 3);
}

TEST(OwnOps, KeepTheirNameByDefault) {
  EXPECT_THAT(message_of<ValueError>([] {
                (void)OpBuilder("add").composite([](const Tensor& a, const Tensor&, double) { return a; }).register_();
              }),
              AllOf(HasSubstr("one of the library's own"), HasSubstr("override_test.cpp")));
}

// At namespace scope of this program: an op of a taken name once ended the program before main.
const RegisterOp at_start(OpBuilder("test::at_start").schema("(x)").composite([](const Tensor& x) { return x + 1; }));
const RegisterOp taken(OpBuilder("mul").schema("(a, b)").composite([](const Tensor& a, const Tensor&) { return a; }));

TEST(OwnOps, RegistrationsAtStartThatFailAreWarningsAndLeaveTheOthers) {
  EXPECT_EQ(called("test::at_start"), 2);
  EXPECT_EQ(call_op("mul", doubles({2}), doubles({3})).item<double>(), 6);
}

// ---- threads ----

TEST(Threads, CallsMeetOneDefinitionOrTheOther) {
  set_warning_handler([](const Warning&) {});
  const Registration first = constant("test::busy", 1);
  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0, calls = 0;
  const auto call = [&] {
    const auto typed = find_op<Tensor(const Tensor&)>("test::busy");
    const Tensor x = doubles({1});
    for (int i = 0; !done || i < 50; ++i) {
      const double value = (i % 2 == 0 ? typed(x) : call_op("test::busy", x)).item<double>();
      if (value != 1 && value != 2) ++wrong;
      ++calls;
    }
  };
  std::thread one(call), two(call);
  for (int i = 0; i < 100; ++i) {
    Registration second = constant("test::busy", 2);
    std::this_thread::yield();
  }
  done = true;
  one.join();
  two.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(calls, 0);
  set_warning_handler({});
}

TEST(Threads, RunningCallsFinishWithTheOldDefinition) {
  std::atomic<bool> entered = false, leave = false;
  const auto kept = std::make_shared<int>(5);
  const std::weak_ptr<int> watched = kept;
  Registration first = OpBuilder("test::slow")
                           .schema("(x)")
                           .composite([&, kept](const Tensor& x) {
                             entered = true;
                             while (!leave) std::this_thread::yield();
                             return x + *kept;
                           })
                           .register_();
  const_cast<std::shared_ptr<int>&>(kept).reset();
  Tensor result;
  std::thread caller([&] { result = call_op("test::slow", doubles({1})); });
  while (!entered) std::this_thread::yield();
  const Registration second = constant("test::slow", 2);
  first.unregister();
  EXPECT_FALSE(watched.expired());
  EXPECT_EQ(called("test::slow"), 2);
  leave = true;
  caller.join();
  EXPECT_EQ(result.item<double>(), 6);
  EXPECT_TRUE(watched.expired());
}

TEST(Threads, AGraphKeepsItsSavedTensors) {
  Registration op = cube("test::cube").backward(cube_gradient).register_();
  const Tensor x = doubles({2}).requires_grad_();
  const Tensor y = call_op("test::cube", x);
  op.unregister();
  y.sum().backward();
  EXPECT_THAT(elements(x.grad()), ElementsAre(12));
}

}  // namespace
}  // namespace weft::testing
