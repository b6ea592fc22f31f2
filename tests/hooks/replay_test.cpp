// Reproductions of NaN, and their replay.
#include "hooks/values.hpp"
#include "run_program.hpp"

#include <limits>

#include <weft/hooks/break_on.hpp>
#include <weft/io/file.hpp>
#include <weft/io/replay.hpp>
#include <weft/map/map.hpp>

namespace weft {
namespace {

constexpr double inf = std::numeric_limits<double>::infinity();

class Replay : public LiveCount {
 protected:
  TemporaryFolder folder;
  std::string repro = (folder / "repro").string();

  /// The guard's text.
  template <class F>
  std::string fails(const F& f) {
    return message_of<NonFiniteError>([&] {
      const AnomalyGuard guard({.repro = repro});
      f();
    });
  }
  bool left() const { return std::filesystem::exists(repro + "/call.json"); }
};

TEST_F(Replay, AForwardLeavesItsOperandsAndHappensAgain) {
  const Tensor x = tensor({-1.0, 1.0, 4.0});
  const std::string text = fails([&] { log(x); });
  EXPECT_NE(text.find("left in " + repro + ": ./weft replay " + repro), std::string::npos) << text;
  const io::Replayed call = io::replay(repro);
  EXPECT_TRUE(call.happens) << call.text;
  ASSERT_EQ(call.inputs.size(), 1u);
  EXPECT_EQ(values(call.inputs[0]), (Doubles{-1, 1, 4}));
  EXPECT_TRUE(std::isnan(values(call.outputs.at(0))[0]));
  EXPECT_NE(call.text.find("log, called at "), std::string::npos) << call.text;
  EXPECT_NE(call.text.find(": log(x) on cpu"), std::string::npos) << call.text;
}

TEST_F(Replay, ABackwardLeavesTheGradientThatArrived) {
  const Tensor x = tensor({0.0, 1.0, 4.0}).requires_grad_();
  const std::string text = fails([&] { (sqrt(x) * tensor({2.0, 3.0, 4.0})).sum().backward(); });
  EXPECT_NE(text.find("left in "), std::string::npos) << text;
  const io::Replayed call = io::replay(repro);
  EXPECT_TRUE(call.happens) << call.text;
  ASSERT_EQ(call.arrived.size(), 1u);
  EXPECT_EQ(values(call.arrived[0]), (Doubles{2, 3, 4}));
  EXPECT_EQ(values(call.outputs.at(0)), (Doubles{inf, 1.5, 1}));  // 3 / (2 sqrt 1), 4 / (2 sqrt 4)
  EXPECT_NE(call.text.find("sqrt in backward"), std::string::npos) << call.text;
}

TEST_F(Replay, ABreakOnLeavesOneToo) {
  std::string text;
  const Tensor x = tensor({0.0, 1.0}).requires_grad_();
  {
    const BreakOn stop({.non_finite = true, .repro = repro, .call = [&](const BreakEvent& e) { text = e.text(); }});
    sqrt(x).sum().backward();
  }
  EXPECT_NE(text.find("left in " + repro), std::string::npos) << text;
  EXPECT_TRUE(io::replay(repro).happens);
}

TEST_F(Replay, KeepsOverwrittenInputs) {
  const Tensor x = tensor({0.0, 2.0});
  fails([&] { log_(x); });
  const io::Replayed call = io::replay(repro);
  EXPECT_TRUE(call.happens) << call.text;
  EXPECT_EQ(values(call.inputs.at(0)), (Doubles{0, 2}));
  const Tensor sum = full({3}, 60000.0, f16);
  const std::string text = fails([&] { sum.index_add_(0, tensor({0, 0}, i64), full({2}, 60000.0, f16)); });
  EXPECT_NE(text.find("./weft replay"), std::string::npos) << text;
  EXPECT_TRUE(io::replay(repro).happens);
}

TEST_F(Replay, ParametersRandomDrawsAndRepeatedOperandsComeBack) {
  const Tensor rows = full({2, 3}, -inf);
  fails([&] { softmax(rows.t().clone(), 0); });
  EXPECT_TRUE(io::replay(repro).happens);
  fails([&] { avg_pool2d(full({1, 1, 4, 4}, 3e38), 2); });
  EXPECT_TRUE(io::replay(repro).happens);
  EXPECT_EQ(io::replay(repro).outputs.at(0).shape(), (Dims{1, 1, 2, 2}));
  const Tensor big = full({1, 1}, 1e38).expand({200, 300});
  fails([&] { big* tensor({1e38}); });
  EXPECT_TRUE(io::replay(repro).happens);
  EXPECT_LT(std::filesystem::file_size(repro + "/tensors.safetensors"), 2000u);  // one element, not 60,000
  manual_seed(7);
  fails([&] {
    const Tensor x = empty({64}, f16);
    x.normal_(0, 60000);
  });
  const io::Replayed call = io::replay(repro);
  EXPECT_TRUE(call.happens) << call.text;
  EXPECT_EQ(values(call.outputs[0]), values(io::replay(repro).outputs[0]));
}

TEST_F(Replay, AMatrixAndItsTransposeAreTwoOperands) {
  const Tensor x = tensor({{1.0, 1e30}, {1e-30, 1.0}});
  fails([&] { x / x.t(); });  // 1e30 / 1e-30; x / x is 1
  const io::Replayed call = io::replay(repro);
  EXPECT_TRUE(call.happens) << call.text;
  ASSERT_EQ(call.inputs.size(), 2u);
  EXPECT_EQ(values(call.inputs[1]), values(x.t().contiguous()));
  fails([&] { tensor({{0.0, 1.0}}) / tensor({{0.0, 1.0}}); });
  EXPECT_TRUE(io::replay(repro).happens);
  const Tensor same = tensor({{0.0, 1.0}});
  fails([&] { same / same; });
  EXPECT_TRUE(io::replay(repro).happens);
  EXPECT_EQ(io::replay(repro).inputs.size(), 2u);  // div(a, b)
}

TEST_F(Replay, HealthyInputsDoNotHappen) {
  const Tensor x = tensor({-1.0, 1.0});
  fails([&] { log(x); });
  io::TensorMap tensors = io::load_file(repro + "/tensors.safetensors");
  for (auto& [name, t] : tensors) t = t.abs() + 1.0;
  io::save_file(tensors, repro + "/tensors.safetensors");
  const io::Replayed call = io::replay(repro);
  EXPECT_FALSE(call.happens);
  EXPECT_NE(call.text.find("it does not happen here"), std::string::npos) << call.text;
}

TEST_F(Replay, NothingIsLeftWhereItIsNotWantedTooLargeOrInTheWay) {
  const Tensor x = tensor({-1.0});
  const std::string text = message_of<NonFiniteError>([&] {
    const AnomalyGuard guard({.repro = ""});
    log(x);
  });
  EXPECT_EQ(text.find("repro"), std::string::npos) << text;
  std::filesystem::create_directory(repro);
  write_bytes(repro + "/mine", "text");
  EXPECT_NE(fails([&] { log(x); }).find("holds something else"), std::string::npos);
  EXPECT_EQ(read_bytes(repro + "/mine"), "text");
  std::filesystem::remove_all(repro);
  const Tensor large = zeros({20'000'000});
  EXPECT_NE(fails([&] { log(large); }).find("no reproduction was left: its tensors have"), std::string::npos);
  EXPECT_FALSE(left());
  repro = "/proc/no/such";
  EXPECT_NE(fails([&] { log(x); }).find("no reproduction was left"), std::string::npos);
}

TEST_F(Replay, AnEarlierOneIsReplacedAndTheFirstOfAGuardStays) {
  const Tensor x = tensor({-1.0}), y = tensor({0.0});
  {
    const AnomalyGuard guard({.repro = repro});
    EXPECT_THROW(log(x), NonFiniteError);
    EXPECT_THROW(sqrt(x), NonFiniteError);
  }
  EXPECT_NE(io::replay(repro).text.find("log, called"), std::string::npos);
  fails([&] { sqrt(x); });
  EXPECT_NE(io::replay(repro).text.find("sqrt, called"), std::string::npos);
}

TEST_F(Replay, KernelsOfTheProgramsOwnAreSaidToLeaveNone) {
  const std::string text = fails([] { map([](auto x) { return log(x); }, tensor({-1.0})); });
  EXPECT_NE(text.find("no reproduction was left: the kernel is a function of the program's own"), std::string::npos)
      << text;
  EXPECT_FALSE(left());
}

TEST_F(Replay, OtherDevicesRunItAndLeaveTheirs) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "no HPU";
  const Tensor x = tensor({0.0, 1.0, 4.0}).requires_grad_();
  fails([&] { sqrt(x).sum().backward(); });
  const io::Replayed there = io::replay(repro, Device("hpu"));
  EXPECT_TRUE(there.happens) << there.text;
  EXPECT_EQ(values(there.outputs.at(0)), values(io::replay(repro).outputs.at(0)));
  const Tensor y = tensor({-1.0, 2.0}).to(Device("hpu"));
  fails([&] { log_(y); });
  EXPECT_NE(io::replay(repro).text.find("on hpu:0"), std::string::npos);
  EXPECT_TRUE(io::replay(repro).happens);
  EXPECT_TRUE(io::replay(repro, Device("cpu")).happens);
}

TEST_F(Replay, DamagedFoldersAreErrors) {
  EXPECT_THROW(io::replay(repro), IoError);
  const Tensor x = tensor({-1.0, 2.0});
  fails([&] { log(x); });
  std::string good = read_bytes(repro + "/call.json");
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    EXPECT_NE(text.find(from), std::string::npos) << from << good;
    text.replace(text.find(from), from.size(), to);
    write_bytes(repro + "/call.json", text);
  };
  with("\"tensor\": \"x\"", "\"tensor\": \"y\"");
  EXPECT_THROW(io::replay(repro), FormatError);
  with("\"op\": \"log\",\n  \"arguments\"", "\"op\": \"lag\",\n  \"arguments\"");
  EXPECT_THROW(io::replay(repro), FormatError);
  with("{\"tensor\": \"x\"}", "{\"tensor\": \"x\"}, {}");
  EXPECT_THROW(io::replay(repro), FormatError);
  with("{\"tensor\": \"x\"}", "{\"text\": \"x\"}");
  EXPECT_THROW(io::replay(repro), Error);
  // The kernel's call alone.
  with("\"call\"", "\"no_call\"");
  EXPECT_TRUE(io::replay(repro).happens);
  good = read_bytes(repro + "/call.json");
  with("\"unary\"", "\"nary\"");
  EXPECT_THROW(io::replay(repro), ValueError);
  with("\"float32\"", "\"float33\"");
  EXPECT_THROW(io::replay(repro), FormatError);
  with("\"elements\": \"x\"", "\"elements\": \"view9\"");
  EXPECT_THROW(io::replay(repro), FormatError);
  with("\"outputs\": 1", "\"outputs\": 5");
  EXPECT_THROW(io::replay(repro), FormatError);
  with("\"1.0\"", "\"2.0\"");
  EXPECT_THROW(io::replay(repro), VersionError);
  write_bytes(repro + "/call.json", good.substr(0, good.size() / 2));
  EXPECT_THROW(io::replay(repro), FormatError);
  write_bytes(repro + "/call.json", good);
  EXPECT_TRUE(io::replay(repro).happens);
  EXPECT_THROW(io::replay(repro, Device("meta")), Error);
}

TEST_F(Replay, TheProgramRepeatsACaseAndReportsTheResult) {
  if (!std::filesystem::exists(examples + "weft-replay")) GTEST_SKIP() << "the examples were not built";
  const Tensor x = tensor({-1.0, 2.0});
  fails([&] { log(x); });
  const Outcome there = run(folder, "weft-replay repro cpu");
  EXPECT_EQ(there.code, 1) << there.words;
  EXPECT_NE(there.words.find("NaN again: it still happens"), std::string::npos) << there.words;
  EXPECT_EQ(run(folder, "weft-replay nowhere").code, 2);
}

TEST_F(Replay, ItsProgramCompiles) {
  if (std::system("c++ --version >/dev/null 2>&1") != 0) GTEST_SKIP() << "no compiler";
  const std::string command = "c++ -std=c++20 -fsyntax-only -Wall -Wextra -Werror -I" WEFT_BINARY_DIR "/include ";
  const auto compiles = [&] { return std::system((command + repro + "/program.cpp").c_str()) == 0; };
  const Tensor x = tensor({-1.0, 2.0});
  fails([&] { log(x); });
  EXPECT_TRUE(compiles());
  const Tensor rows = tensor({{-inf, -inf}, {0.0, 1.0}}).requires_grad_();
  fails([&] { softmax(rows, 1); });
  EXPECT_TRUE(compiles());
  EXPECT_NE(read_bytes(repro + "/program.cpp").find("call_op(\"softmax\", x, 1)"), std::string::npos);
  fails([&] { sqrt(tensor({0.0, 1.0}).requires_grad_()).sum().backward(); });
  EXPECT_TRUE(compiles());
  fails([&] { full({4}, 60000.0, f16).uniform_(0, 1e30); });  // the kernel's call alone
  EXPECT_TRUE(compiles());
}

struct Planted {
  const char* name;
  std::function<void()> fault;
  std::string call;  ///< what the replay says that it ran
};

TEST_F(Replay, TheOpRunsAgainWithItsArgumentsAndItsBackwardWithTheArrivingGradient) {
  const Tensor zero = tensor({0.0, 1.0, 4.0}).requires_grad_(), rows = tensor({{-inf, -inf}, {0.0, 1.0}});
  const Tensor large = full({2, 3}, 3e38), constant = full({4, 1}, 2.0).requires_grad_();
  const Planted all[] = {{"two operands",
                          [&] {
                            tensor({1.0, 0.0}) / tensor({1.0, 0.0});
                          },
                          "div(a, b)"},
                         {"a number",
                          [&] {
                            tensor({1.0, 0.0}) / 0.0;
                          },
                          "div(a, 0.0)"},
                         {"a dimension", [&] { softmax(rows, 1); }, "softmax(x, 1)"},
                         {"another dimension", [&] { sum(large, {0}); }, "sum(x, 0)"},
                         {"all dimensions", [&] { sum(large); }, "sum(x)"},
                         {"a layer",
                          [&] {
                            linear(large, ones({4, 3}), ones({4}));
                          },
                          "linear(x, weight, bias)"},
                         {"images",
                          [&] {
                            conv2d(full({1, 2, 5, 5}, 3e38), ones({3, 2, 3, 3}), {}, {.stride = 2, .padding = {0, 1}});
                          },
                          "conv2d(x, weight, Value(), Dims{2, 2}, Dims{0, 1}, Dims{1, 1})"},
                         {"matrices", [&] { matmul(large, large.t()); }, "matmul(a, b)"},
                         {"in place",
                          [&] {
                            tensor({-1.0, 1.0}).log_();
                          },
                          "log(x)"},
                         {"a result that was kept", [&] { sqrt(zero * 1.0).sum().backward(); }, "sqrt(x)"},
                         {"a leaf", [&] { sqrt(zero).sum().backward(); }, "sqrt(x)"},
                         {"an operand that was kept", [&] { log(zero * 1.0 + 0.0).sum().backward(); }, "log(x)"},
                         {"of two operands",
                          [&] {
                            pow(zero, tensor({0.5, 0.5, 0.5})).sum().backward();
                          },
                          "pow(a, b)"}};
  for (const Planted& planted : all) {
    std::filesystem::remove_all(repro);
    const bool backward = planted.call == "sqrt(x)" || planted.call == "pow(a, b)" || planted.call == "log(x)";
    const std::string text = message_of<NonFiniteError>([&] {
      const AnomalyGuard guard({.forward = !backward || planted.name == std::string("in place"), .repro = repro});
      planted.fault();
    });
    ASSERT_TRUE(left()) << planted.name << '\n' << text;
    const io::Replayed again = io::replay(repro);
    EXPECT_TRUE(again.happens) << planted.name << '\n' << again.text;
    EXPECT_NE(again.text.find(": " + planted.call + " on cpu"), std::string::npos) << planted.name << '\n'
                                                                                   << again.text;
  }
}

}  // namespace
}  // namespace weft
