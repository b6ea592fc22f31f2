// Registered ops: calls, gradients, shapes, in-place writes and errors.
#include "registering.hpp"

#include <weft/ops/partition.hpp>

namespace weft::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = std::vector<Tensor>;

TEST(RegisteredOps, AreCalledByName) {
  const Registration op = cube("test::cube").register_();
  EXPECT_THAT(elements(call_op("test::cube", doubles({1, 2}))), ElementsAre(1, 8));
  EXPECT_THAT(elements(call_op("test::cube", doubles({1, 2}), 2.0)), ElementsAre(2, 16));
  EXPECT_THAT(elements(call_op("test::cube", doubles({1, 2}), 2)), ElementsAre(2, 16));
  const auto typed = find_op<Tensor(const Tensor&, double)>("test::cube");
  EXPECT_THAT(elements(typed(doubles({2}), 0.5)), ElementsAre(4));
  EXPECT_THAT(elements(call_op("add", doubles({1}), doubles({2}))), ElementsAre(3));
  EXPECT_TRUE(call_op<Value>("test::cube", doubles({1})).index() == Value(Tensor()).index());
}

TEST(RegisteredOps, HaveARecordAndASignature) {
  const size_t before = all_ops().size();
  const Registration op = cube("test::cube").document("x * x * x, times scale.").register_();
  const OpRecord* const record = find_record("test::cube");
  ASSERT_EQ(record, op.record());
  EXPECT_EQ(record->signature().text, "test::cube(x, scale=1.0)");
  EXPECT_EQ(record->signature().find("input"), record->signature().arguments.data());
  EXPECT_EQ(std::string(record->document), "x * x * x, times scale.");
  EXPECT_FALSE(record->facts.differentiable);
  EXPECT_THAT(all_ops(), ::testing::Contains(record));
  EXPECT_EQ(all_ops().size(), before + 1);
  const std::vector<TensorMeta> metas = record->infer(Values{zeros({3, 4})});
  EXPECT_EQ(metas, (std::vector<TensorMeta>{{{3, 4}, f32}}));
}

TEST(RegisteredOps, TakeSchemasInPieces) {
  const auto body = [](const Tensor& x, const Tensors& w, const Tensor& b, int64_t axis, const std::string& mode) {
    Tensor y = x + static_cast<double>(axis);
    for (const Tensor& t : w) y = y + t;
    return std::tuple(b.defined() ? y + b : y, full({}, static_cast<int64_t>(mode.size())));
  };
  const Registration op = OpBuilder("test::pieces")
                              .inputs({"x", "vec w", "opt b"})
                              .attrs({"axis:int=0", "mode: str = 'ab'"})
                              .outputs({"y", "length"})
                              .composite(body)
                              .register_();
  EXPECT_EQ(op.record()->signature().text, "test::pieces(x, w, b=None, axis=0, mode='ab')");
  EXPECT_THAT(op.record()->signature().results, ElementsAre("y", "length"));
  const auto results = call_op<Tensors>("test::pieces", doubles({1}), Tensors{doubles({2}), doubles({3})});
  EXPECT_THAT(elements(results[0]), ElementsAre(6));
  EXPECT_EQ(results[1].item<int64_t>(), 2);
  EXPECT_THAT(elements(call_op<Tensors>("test::pieces", doubles({1}), Tensors{}, doubles({5}), 7, "abc")[0]),
              ElementsAre(13));
}

// ---- gradients ----

TEST(RegisteredOps, WithoutBackwardRaiseInBackwardAndNameTheOpAndLine) {
  const Registration op = cube("test::cube").register_();
  const Tensor x = doubles({1, 2}).requires_grad_();
  const Tensor y = call_op("test::cube", x);
  EXPECT_TRUE(y.requires_grad());
  EXPECT_THAT(message_of<AutogradError>([&] { y.sum().backward(); }),
              AllOf(HasSubstr("[test::cube] it has no backward"), HasSubstr("call_test.cpp:")));
  EXPECT_FALSE(x.grad().defined());
}

TEST(RegisteredOps, HaveTheGradientOfTheirBackwardToAnyOrder) {
  const Registration op = cube("test::cube").backward(cube_gradient).saves({"x"}).register_();
  const auto f = [](std::span<const Tensor> x) { return call_op("test::cube", x[0], 2.0); };
  const Tensor x = SampleMaker(f64, {}).tensor({2, 3}).requires_grad_();
  EXPECT_NO_THROW(gradcheck(f, {x}));
  EXPECT_NO_THROW(gradgradcheck(f, {x}));
}

TEST(RegisteredOps, WithACompositeBodyHaveItsGradient) {
  const Registration op = OpBuilder("test::damped")
                              .schema("(x, rate)")
                              .composite([](const Tensor& x, double rate) { return x * exp(x * -rate); })
                              .register_();
  const auto f = [](std::span<const Tensor> x) { return call_op("test::damped", x[0], 0.5); };
  const Tensor x = SampleMaker(f64, {}).tensor({5}).requires_grad_();
  EXPECT_NO_THROW(gradgradcheck(f, {x}));
}

TEST(RegisteredOps, BackwardReadsOutputsListsAndNeededGradients) {
  const Registration op = OpBuilder("test::sum_exp")
                              .schema("(xs: Tensor[], w)")
                              .kernel(DeviceType::cpu, {f64},
                                      [](const Tensors& xs, const Tensor& w) {
                                        Tensor sum = zeros(w.shape(), {f64});
                                        for (const Tensor& x : xs) sum = sum + x;
                                        return exp(sum * w);
                                      })
                              .backward([](const OpGradient& g) {
                                const Tensor along = g.gradient() * g.output();
                                Tensors all;
                                Tensor sum = zeros_like(g.input("w"));
                                for (const Tensor& x : g.inputs("xs")) {
                                  all.push_back(g.wants("xs") ? along * g.input("w") : Tensor());
                                  sum = sum + x;
                                }
                                all.push_back(along * sum);
                                return all;
                              })
                              .register_();
  const auto f = [](std::span<const Tensor> x) { return call_op("test::sum_exp", Tensors{x[0], x[1]}, x[2]); };
  const Tensors x = {doubles({.1, .2}).requires_grad_(), doubles({.3, -.1}).requires_grad_(),
                     doubles({.5, 1}).requires_grad_()};
  EXPECT_NO_THROW(gradgradcheck(f, x));
  const Tensor y = call_op("test::sum_exp", Tensors{doubles({1}), doubles({1})}, doubles({1}).requires_grad_());
  EXPECT_NO_THROW(y.sum().backward());
}

TEST(RegisteredOps, BackwardMustReturnItsGradients) {
  const auto with = [](auto backward) { return cube("test::bad").backward(backward).register_(); };
  const auto run = [] { call_op("test::bad", doubles({1, 2}).requires_grad_()).sum().backward(); };
  {
    const Registration op = with([](const OpGradient&) { return Tensors(); });
    EXPECT_THAT(message_of<AutogradError>(run), HasSubstr("returned 0 gradients for 1 tensor arguments"));
  }
  {
    const Registration op = with([](const OpGradient&) { return doubles({1}); });
    EXPECT_THAT(message_of<ShapeError>(run), AllOf(HasSubstr("argument 'x'"), HasSubstr("call_test.cpp:")));
  }
  {
    const Registration op = with([](const OpGradient& g) { return g.input("y"); });
    EXPECT_THAT(message_of<ValueError>(run), HasSubstr("argument 'y'"));
  }
}

TEST(RegisteredOps, SavedTensorsThatWereWrittenSinceAreAnError) {
  const Registration op = cube("test::cube").backward(cube_gradient).register_();
  const Tensor x = doubles({1, 2}).requires_grad_() * 1;
  const Tensor y = call_op("test::cube", x);
  x.add_(1);
  EXPECT_THROW(y.sum().backward(), AutogradError);
}

TEST(RegisteredOps, AreOneNodeOneScopeAndOneKernelToWhoeverWatches) {
  struct Names : KernelObserver {
    std::vector<std::string> seen;
    void after(const KernelCall& call) override {
      seen.push_back(std::string(call.kernel) + " of " + call.op + " in " +
                     (call.within != nullptr ? call.within->op : "none") + " " + std::to_string(call.outputs.size()));
    }
  } names;
  const Registration op = cube("test::cube").backward(cube_gradient).register_();
  const Tensor x = doubles({1, 2}).requires_grad_();
  Tensor y;
  {
    const ObserverGuard guard(names);
    y = call_op("test::cube", x);
  }
  EXPECT_THAT(names.seen, ElementsAre("test::cube of test::cube in test::cube 1"));
  EXPECT_EQ(std::string(y.impl()->node->op), "test::cube");
}

TEST(RegisteredOps, NameTheOpOfANaN) {
  const Registration op = cube("test::cube").backward(cube_gradient).register_();
  const AnomalyGuard guard({.forward = true, .repro = ""});
  EXPECT_THAT(message_of<NonFiniteError>([] { call_op("test::cube", doubles({0}), INFINITY); }),
              HasSubstr("call_test.cpp"));
}

// ---- written in place ----

Tensor add_one(const Tensor& x, const Tensor& by) {
  double* to = x.data<double>();
  const Tensor from = by.contiguous();
  EXPECT_TRUE(x.is_contiguous());
  for (int64_t i = 0; i < x.numel(); ++i) to[i] += from.data<double>()[i];
  return x;
}
OpBuilder adding(const char* name = "test::add_") {
  OpBuilder op(name);
  op.inputs({"x", "by"}).outputs({"y"}).inplace({{"x", "y"}}).kernel(DeviceType::cpu, {f64}, add_one);
  op.backward([](const OpGradient& g) { return Tensors{g.gradient(), g.gradient()}; });
  op.samples([](SampleMaker& make) { return std::vector<Values>{{make.tensor({3}), make.tensor({3})}}; });
  return op;
}

TEST(RegisteredOps, WriteInPlaceWithAVersionAndAHistory) {
  const Registration op = adding().register_();
  const Tensor x = doubles({1, 2});
  const uint32_t version = x.version();
  const Tensor y = call_op("test::add_", x, doubles({10, 20}));
  EXPECT_EQ(y.impl(), x.impl());
  EXPECT_THAT(elements(x), ElementsAre(11, 22));
  EXPECT_GT(x.version(), version);
  const auto f = [](std::span<const Tensor> in) {
    const Tensor t = in[0] * 2, view = t.slice(0, 1, 3);
    call_op("test::add_", view, in[1]);
    return t * t;
  };
  const Tensors inputs = {doubles({1, 2, 3, 4}).requires_grad_(), doubles({5, 6}).requires_grad_()};
  EXPECT_NO_THROW(gradcheck(f, inputs));
  EXPECT_NO_THROW(gradgradcheck(f, inputs));
}

TEST(RegisteredOps, ThatWriteInPlaceMakeSavedTensorsOutdated) {
  const Registration op = adding().register_();
  const Tensor x = doubles({1, 2}).requires_grad_(), y = x * 1, z = y * y;
  call_op("test::add_", y, doubles({1, 1}));
  EXPECT_THAT(message_of<AutogradError>([&] { z.sum().backward(); }), HasSubstr("test::add_"));
}

TEST(RegisteredOps, CopyOperandsThatOverlapOutputs) {
  const Registration op = adding().register_();
  const Tensor all = doubles({1, 2, 3, 4});
  call_op("test::add_", all.slice(0, 1, 4), all.slice(0, 0, 3));
  EXPECT_THAT(elements(all), ElementsAre(1, 3, 5, 7));
  call_op("test::add_", all, all);
  EXPECT_THAT(elements(all), ElementsAre(2, 6, 10, 14));
}

TEST(RegisteredOps, RefuseToWriteIntoLeavesRepetitionsAndMemoryTwice) {
  const Registration op = adding().register_();
  const Tensor leaf = doubles({1, 2}).requires_grad_();
  EXPECT_THAT(message_of<AutogradError>([&] {
                call_op("test::add_", leaf, doubles({1, 1}));
              }),
              HasSubstr("[test::add_]"));
  EXPECT_THAT(elements(leaf), ElementsAre(1, 2));
  EXPECT_THROW(call_op("test::add_", doubles({1}).expand({3}), doubles({1, 1, 1})), ValueError);
}

TEST(RegisteredOps, MustReturnTheirWrittenArguments) {
  const Registration op = adding("test::other")
                              .kernel(DeviceType::cpu, {f32}, [](const Tensor& x, const Tensor&) { return x.clone(); })
                              .register_();
  EXPECT_THAT(message_of<ValueError>([] { call_op("test::other", zeros({2}), zeros({2})); }),
              HasSubstr("returned another tensor"));
}

// ---- errors ----

TEST(RegisteredOps, RefuseWrongArgumentsWithNamesAndPlace) {
  const Registration op = cube("test::cube").register_();
  const auto at_this_file = HasSubstr("call_test.cpp:");
  EXPECT_THAT(message_of<ValueError>([] { call_op("test::none", 1); }), AllOf(HasSubstr("test::none"), at_this_file));
  EXPECT_THAT(message_of<ValueError>([] { call_op("test::cube"); }), AllOf(HasSubstr("'x' is missing"), at_this_file));
  EXPECT_THAT(message_of<ValueError>([] { call_op("test::cube", zeros({1}), 1, 2); }),
              AllOf(HasSubstr("takes 2 arguments, 3 were given"), at_this_file));
  EXPECT_THAT(message_of<ValueError>([] { call_op("test::cube", zeros({1}), "much"); }),
              AllOf(HasSubstr("argument 'scale' (position 2): expected float, got a string"), at_this_file));
  EXPECT_THAT(message_of<ValueError>([] { call_op<Tensors>("test::cube", zeros({1})); }), at_this_file);
  EXPECT_THAT(message_of<ValueError>([] { find_op<Tensor(const Tensor&, std::string)>("test::cube"); }), at_this_file);
  EXPECT_THROW(op.record()->call(Values{std::string("x")}), BadArgument);
  EXPECT_THROW(call_op("test::cube", Tensor()), ValueError);
}

TEST(RegisteredOps, HoldTheKernelToInferMeta) {
  const auto with = [](auto kernel) {
    return OpBuilder("test::same")
        .schema("(x)")
        .kernel(DeviceType::cpu, all_dtypes, kernel)
        .infer_meta([](const Tensor& x) { return x; })
        .register_();
  };
  const auto run = [] { call_op("test::same", zeros({2, 3})); };
  {
    const Registration op = with([](const Tensor& x) { return x.t().contiguous(); });
    EXPECT_THAT(message_of<ShapeError>(run),
                AllOf(HasSubstr("infer_meta float32 [2, 3]"), HasSubstr("[3, 2]"), HasSubstr("call_test.cpp:")));
  }
  {
    const Registration op = with([](const Tensor& x) { return x.to(f64); });
    EXPECT_THROW(run(), DTypeError);
  }
  {
    const Registration op = with([](const Tensor& x) { return Tensors{x.clone(), x.clone()}; });
    EXPECT_THAT(message_of<ValueError>(run), HasSubstr("returned 2 tensors for 1 results"));
  }
  {
    const Registration op = with([](const Tensor&) { return Tensor(); });
    EXPECT_THAT(message_of<ValueError>(run), HasSubstr("undefined"));
  }
  {
    const Registration op = with([](const Tensor& x) { return x.t().t(); });
    EXPECT_THAT(message_of<ValueError>(run), HasSubstr("shares memory with argument 'x'"));
  }
}

TEST(RegisteredOps, WithoutInferMetaRaiseForUnknownShapes) {
  const Registration op = OpBuilder("test::kernel")
                              .schema("(x)")
                              .kernel(DeviceType::cpu, {f32}, [](const Tensor& x) { return x.clone(); })
                              .register_();
  EXPECT_THROW(find_record("test::kernel")->infer(Values{zeros({1})}), NotImplementedError);
  EXPECT_THROW(call_op("test::kernel", zeros({1}, {f32, Device("meta")})), NotImplementedError);
}

TEST(RegisteredOps, AreRefusedWhereTheyAreNone) {
  const auto problem = [](OpBuilder op) { return message_of<ValueError>([&] { (void)op.register_(); }); };
  const auto body = [](const Tensor& x) { return x; };
  EXPECT_THAT(problem(OpBuilder("cube").schema("(x)").composite(body)), HasSubstr("no name of an op"));
  EXPECT_THAT(problem(OpBuilder("a::b::c").schema("(x)").composite(body)), HasSubstr("no name of an op"));
  EXPECT_THAT(problem(OpBuilder("a::").schema("(x)").composite(body)), HasSubstr("no name of an op"));
  EXPECT_THAT(problem(OpBuilder("test::a").schema("(x)")), HasSubstr("neither a composite body nor a kernel"));
  EXPECT_THAT(problem(OpBuilder("test::a").schema("(x, y)").composite(body)), HasSubstr("takes 1 arguments"));
  EXPECT_THAT(problem(OpBuilder("test::a").schema("(x: int)").composite(body)), HasSubstr("takes a tensor"));
  EXPECT_THAT(problem(OpBuilder("test::a").schema("(x: matrix)").composite(body)), HasSubstr("matrix"));
  EXPECT_THAT(problem(OpBuilder("test::a").schema("x").composite(body)), HasSubstr("schema"));
  EXPECT_THAT(problem(OpBuilder("test::a").schema("(x").composite(body)), HasSubstr("schema"));
  EXPECT_THAT(problem(OpBuilder("test::a").schema("(x) -> y").composite(body)), HasSubstr("brackets"));
  EXPECT_THAT(problem(OpBuilder("test::a").schema("(x, x)").composite(body)), HasSubstr("'x' twice"));
  EXPECT_THAT(problem(OpBuilder("test::a").inputs({"opt x", "y"}).composite(body)), HasSubstr("'y' must be given"));
  EXPECT_THAT(problem(cube("test::a").inplace({{"z", "y"}})), HasSubstr("'z'"));
  EXPECT_THAT(problem(cube("test::a").saves({"z"})), HasSubstr("'z'"));
  EXPECT_EQ(find_record("test::a"), nullptr);
}

TEST(RegisteredOps, TellHowTheyWorkOnParts) {
  const Registration op = cube("test::cube")
                              .partition([](const WholeCall& call) {
                                return Partition{.letters = call.inputs()[0].dim() == 2 ? "ab->ab" : "a->a"};
                              })
                              .register_();
  const OpRecord* const record = find_record("test::cube");
  EXPECT_EQ(partition_of(WholeCall(*record, Values{ones({2, 3})})).letters, "ab->ab");
  const Registration other = cube("test::other").register_();
  EXPECT_TRUE(partition_of(WholeCall(*find_record("test::other"), Values{ones({2})})).whole);
}

}  // namespace
}  // namespace weft::testing
