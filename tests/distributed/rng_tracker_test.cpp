// Random streams of ranks: which draws use which stream, and draws repeated in backward.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include <message_of.hpp>
#include <temporary_folder.hpp>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

using ::testing::HasSubstr;

Tensor drawn() { return rand({8}); }
Tensor drawn_from(uint64_t seed, int skipped = 0) {
  Generator generator(seed);
  const GeneratorGuard guard(generator);
  for (int i = 0; i < skipped; ++i) drawn();
  return drawn();
}

TEST(RngTracker, AGuardSwapsTheStreamInAndTheDefaultGeneratorBackIn) {
  manual_seed(1);
  const RngTracker tracker(1);
  tracker.add("a", 5);
  const GeneratorState before = default_generator().state();
  {
    const auto guard = tracker.use("a");
    EXPECT_TRUE(same_bits(drawn(), drawn_from(5)));
  }
  EXPECT_EQ(default_generator().state(), before);
  const auto guard = tracker.use("a");
  EXPECT_TRUE(same_bits(drawn(), drawn_from(5, 1))) << "a stream goes on where it was left";
}
TEST(RngTracker, AnExceptionRestoresTheDefaultGenerator) {
  const RngTracker tracker;
  tracker.add("a", 5);
  Generator* const outer = &default_generator();
  const GeneratorState before = outer->state();
  try {
    const auto guard = tracker.use("a");
    drawn();
    throw std::runtime_error("inside");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(&default_generator(), outer);
  EXPECT_EQ(outer->state(), before);
}
TEST(RngTracker, GuardsNest) {
  const RngTracker tracker;
  tracker.add("a", 5);
  tracker.add("b", 6);
  const auto a = tracker.use("a");
  {
    const auto b = tracker.use("b");
    EXPECT_TRUE(same_bits(drawn(), drawn_from(6)));
    const auto again = tracker.use("a");
    EXPECT_TRUE(same_bits(drawn(), drawn_from(5)));
  }
  EXPECT_TRUE(same_bits(drawn(), drawn_from(5, 1)));
}
TEST(RngTracker, ADevicesGeneratorIsExchangedByItsNumbers) {
  const Device device("hpu");
  Generator& target = default_generator(device);
  const GeneratorState before = target.state();
  const RngTracker tracker;
  tracker.add("a", 5);
  tracker.add("b", 6);
  {
    const auto a = tracker.use("a", device);
    EXPECT_EQ(target.state(), Generator(5).state());
    target.reserve(3);
    const auto b = tracker.use("b", device);
    EXPECT_EQ(target.state(), Generator(6).state());
    EXPECT_THAT(message_of<ValueError>([&] { (void)tracker.use("b"); }), HasSubstr("stream 'b' is in use on hpu"));
  }
  EXPECT_EQ(target.state(), before);
  EXPECT_EQ(tracker.state().at("a").offset, 3u);
  const auto a = tracker.use("a");
  EXPECT_EQ(default_generator().state().offset, 3u);
}

TEST(RngTracker, NamesAndSeedsAreGivenOnce) {
  const RngTracker tracker(7);
  tracker.add("a", 5);
  EXPECT_THAT(message_of<ValueError>([&] { tracker.add("a", 6); }), HasSubstr("a stream is named 'a' already"));
  EXPECT_THAT(message_of<ValueError>([&] { tracker.add("b", 5); }), HasSubstr("stream 'a' has the seed 5 already"));
  EXPECT_THAT(message_of<ValueError>([&] { tracker.add("b", 7); }),
              HasSubstr("the default generators have the seed 7"));
  EXPECT_THAT(message_of<KeyError>([&] { (void)tracker.use("b"); }), HasSubstr("no stream is named 'b'"));
  const RngTracker of_zero(0);
  EXPECT_THROW(of_zero.add("a", 0), ValueError);
  const RngTracker free;
  free.add("a", 0);
  const auto guard = free.use("a");
  EXPECT_TRUE(same_bits(drawn(), drawn_from(0)));
}

TEST(RngTracker, AStateIsAValueThatIsRestoredExactly) {
  const RngTracker tracker;
  tracker.add("a", 5);
  tracker.add("b", 6);
  const auto draw = [&](const char* name) {
    const auto guard = tracker.use(name);
    return drawn();
  };
  draw("a");
  const RngTracker::State state = tracker.state();
  const Tensor a = draw("a"), b = draw("b");
  tracker.set_state(state);
  EXPECT_TRUE(same_bits(draw("a"), a));
  EXPECT_TRUE(same_bits(draw("b"), b));
  const RngTracker::State after = tracker.state();
  EXPECT_THROW(tracker.set_state({{"a", {}}}), KeyError);
  EXPECT_THROW(tracker.set_state({{"a", {}}, {"b", {}}, {"c", {}}}), KeyError);
  EXPECT_EQ(tracker.state(), after);
}
TEST(RngTracker, StreamsAreSavedWithATrainingState) {
  const TemporaryFolder folder;
  nn::Linear net(2, 2);
  optim::SGD optimizer(net.parameters(), {.lr = 0.1});
  const RngTracker tracker;
  tracker.add("a", 5);
  const auto draw = [&] {
    const auto guard = tracker.use("a");
    return drawn();
  };
  draw();
  io::save_training_state(folder / "state",
                          {.module = net, .optimizer = &optimizer, .generators = tracker.generators()}, {});
  const Tensor expected = draw();
  tracker.set_state({{"a", {}}});
  io::load_training_state(folder / "state",
                          {.module = net, .optimizer = &optimizer, .generators = tracker.generators()});
  EXPECT_TRUE(same_bits(draw(), expected));
}

// ---- checkpointed functions ----
/// The gradient of x has the draws of the second run.
void expect_replayed(const std::function<Tensor(const Tensor&)>& f) {
  const Tensor x = ones({32}).requires_grad_();
  const Tensor y = checkpoint(f, x);
  y.sum().backward();
  EXPECT_TRUE(allclose(x.grad(), y.detach(), 1e-6, 0));
}

TEST(RngTracker, ACheckpointDrawsTheSameMasksAgain) {
  const RngTracker tracker;
  tracker.add("a", 5);
  tracker.add("b", 6);
  const auto dropped = [&](const char* name, const Tensor& x) {
    const auto guard = tracker.use(name);
    return dropout(x, 0.5);
  };
  const auto f = [&](const Tensor& x) {
    return dropout(dropped("a", dropped("b", dropped("a", dropout(x, 0.1)))), 0.1) * rand({32});
  };
  for (int i = 0; i < 3; ++i) expect_replayed(f);
  const auto in_stream = [&] {
    const auto guard = tracker.use("a");
    for (int i = 0; i < 3; ++i) expect_replayed(f);
  };
  in_stream();
  const Tensor x = ones({32}).requires_grad_();
  Tensor y = checkpoint(f, x);
  {
    const auto guard = tracker.use("a");  // backward in a stream, of a call outside of it
    drawn();
    y.sum().backward();
  }
  EXPECT_TRUE(allclose(x.grad(), y.detach(), 1e-6, 0));
  const Tensor z = ones({32}).requires_grad_();
  {
    const auto guard = tracker.use("b");
    y = checkpoint(f, z);
  }
  y.sum().backward();
  EXPECT_TRUE(allclose(z.grad(), y.detach(), 1e-6, 0));
}
TEST(RngTracker, NestedCheckpointsDrawTheSameMasksAgain) {
  const RngTracker tracker;
  tracker.add("a", 5);
  const std::function<Tensor(const Tensor&)> inner = [&](const Tensor& x) {
    const auto guard = tracker.use("a");
    return dropout(x, 0.5) * rand({32});
  };
  for (int i = 0; i < 3; ++i) {
    expect_replayed([&](const Tensor& x) { return checkpoint(inner, dropout(inner(x), 0.2)) * rand({32}); });
  }
}
TEST(RngTracker, ABackwardInsideACheckpointIsNoPartOfIt) {
  const RngTracker tracker;
  tracker.add("a", 5);
  const std::function<Tensor(const Tensor&)> f = [&](const Tensor& x) {
    const auto guard = tracker.use("a");
    return x * rand({32});
  };
  const Tensor x = ones({32}).requires_grad_(), earlier = checkpoint(f, x).sum();
  expect_replayed([&](const Tensor& v) {
    grad({earlier}, {x}, {}, {.retain_graph = true});  // draws again what was drawn before
    return f(v);
  });
}
TEST(RngTracker, RecomputationDoesNotAdvanceTheStreams) {
  const RngTracker tracker;
  tracker.add("a", 5);
  const Tensor x = ones({8}).requires_grad_();
  const std::function<Tensor(const Tensor&)> f = [&](const Tensor& v) {
    const auto guard = tracker.use("a");
    return v * drawn();
  };
  checkpoint(f, x).sum().backward();
  EXPECT_TRUE(same_bits(f(ones({8})), drawn_from(5, 1)));
}

// ---- model_parallel_seed ----
TEST(RngTracker, RanksHaveOneDefaultStreamAndLocalStreamsOfTheirOwn) {
  for (const uint64_t seed : {0, 41}) {
    LocalWorld(6).run([&](const Group& group) {
      const Mesh mesh({3, 2}, {"tp", "pp"}, group);
      const RngTracker tracker = model_parallel_seed(seed, mesh.group("tp"), mesh.group("pp"));
      EXPECT_TRUE(same_bits(drawn(), drawn_from(seed)));
      const auto guard = tracker.use("local");
      const auto t = static_cast<uint64_t>(mesh.coordinate()[0]), p = static_cast<uint64_t>(mesh.coordinate()[1]);
      EXPECT_TRUE(same_bits(drawn(), drawn_from(seed + 1 + t * 2 + p)));
      EXPECT_THROW(tracker.add("default", seed), ValueError);
    });
  }
}
TEST(RngTracker, MasksAreAlikeOnWholeActivationsAndDifferOnParts) {
  on_all_ranks([](const Group& group) {
    const RngTracker tracker = model_parallel_seed(3, group);
    const Tensor x = ones({64});
    const Tensor whole = all_gather(dropout(x, 0.5).unsqueeze(0), group);
    const Tensor parts = [&] {
      const auto guard = tracker.use("local");
      return all_gather(dropout(x, 0.5).unsqueeze(0), group);
    }();
    for (int r = 1; r < group.size(); ++r) {
      EXPECT_TRUE(same_bits(whole[r], whole[0]));
      EXPECT_FALSE(same_bits(parts[r].clone(), parts[0].clone()));
    }
  });
}

}  // namespace
}  // namespace weft::distributed
