// Faults between ranks: no hang, and an error with the rank, the op and the line.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>

#include <message_of.hpp>

#include "ranks.hpp"

namespace weft::distributed {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// The exception of each rank's body; `run` rethrows the first one.
std::vector<std::string> errors_of(int ranks, const std::function<void(const Group&)>& body, double timeout = 30) {
  std::vector<std::string> errors(static_cast<size_t>(ranks));
  try {
    LocalWorld(ranks, {.timeout_seconds = timeout}).run([&](const Group& group) {
      try {
        body(group);
      } catch (const std::exception& error) {
        errors[static_cast<size_t>(group.rank())] = error.what();
        throw;
      }
    });
  } catch (const std::exception&) {
  }
  return errors;
}

std::string line(int number) { return "faults_test.cpp:" + std::to_string(number); }

TEST(Faults, ARankThatThrowsEndsTheOthersWithItsNameAndPlace) {
  std::atomic<int> reduced = 0;
  const auto errors = errors_of(3, [&](const Group& group) {
    if (group.rank() == 1) throw ShapeError("[matmul] shapes do not fit\n  at net.cpp:7");
    reduced = __LINE__ + 1;
    all_reduce(ones({2}), group);
  });
  for (const size_t r : {0, 2}) {
    EXPECT_THAT(errors[r], AllOf(HasSubstr("[all_reduce] rank 1 failed"), HasSubstr("matmul"), HasSubstr("net.cpp:7"),
                                 HasSubstr(line(reduced))));
  }
}

TEST(Faults, OfOtherErrorsTheRanksLastCallIsNamed) {
  std::atomic<int> last = 0;
  const auto errors = errors_of(2, [&](const Group& group) {
    last = __LINE__ + 1;
    barrier(group);
    if (group.rank() == 0) throw std::runtime_error("no such file");
    broadcast(ones({2}), 0, group);
  });
  EXPECT_THAT(errors[1], AllOf(HasSubstr("[broadcast] rank 0 failed"), HasSubstr("no such file, after barrier at"),
                               HasSubstr(line(last))));
}

TEST(Faults, RunRethrowsTheErrorOfTheFirstRank) {
  const LocalWorld world(4);
  const auto body = [](const Group& group) {
    if (group.rank() == 2) throw IndexError("the first");
    barrier(group);
  };
  EXPECT_EQ(message_of<IndexError>([&] { world.run(body); }), "the first");
  EXPECT_THROW(world.run([](const Group&) { throw 7; }), int);
  // The world can be used again.
  world.run([](const Group& group) { EXPECT_EQ(all_reduce(ones({}), group).item<float>(), 4); });
}

TEST(Faults, ARankThatEndsIsNamed) {
  const auto errors = errors_of(3, [](const Group& group) {
    barrier(group);
    if (group.rank() == 2) return;
    all_gather(ones({2}), group);
  });
  EXPECT_THAT(errors[0], HasSubstr("[all_gather] rank 2"));
  EXPECT_THAT(errors[0] + errors[1], AllOf(HasSubstr("rank 2 has ended"), HasSubstr("its last call was barrier")));
}

TEST(Faults, ARankThatNeverArrivesIsNamedInTime) {
  std::atomic<bool> over{false};
  const auto begin = std::chrono::steady_clock::now();
  const auto errors = errors_of(
      3,
      [&](const Group& group) {
        if (group.rank() == 1) {
          while (!over) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return;
        }
        try {
          reduce_scatter(ones({6}), group);
        } catch (...) {
          over = true;
          throw;
        }
      },
      0.2);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
  EXPECT_THAT(errors[0] + errors[2], AllOf(HasSubstr("[reduce_scatter] rank 1 did not arrive in time"),
                                           HasSubstr("it has called no collective")));
}

TEST(Faults, AWorldThatFailedRefusesLaterCalls) {
  LocalWorld(2, {.timeout_seconds = 0.1}).run([](const Group& group) {
    if (group.rank() == 1) {
      while (message_of<DistributedError>([&] { send(ones({2}), 0, group, 3); }) == "nothing was thrown") continue;
      return;
    }
    const Group pair = group;
    pair.set_timeout(0.05);
    EXPECT_THROW(receive(1, pair), DistributedError);
    EXPECT_THAT(message_of<DistributedError>([&] { all_reduce(ones({2}), group); }),
                AllOf(HasSubstr("[all_reduce] rank 0 failed"), HasSubstr("receive")));
    EXPECT_THROW(send(ones({2}), 1, group), DistributedError);
  });
}

struct Differing {
  const char* name;
  std::function<void(const Group&, bool)> call;
  const char* first;
  const char* second;
};
class Disagreement : public ::testing::TestWithParam<Differing> {};
INSTANTIATE_TEST_SUITE_P(
    Faults, Disagreement,
    ::testing::Values(
        Differing{"shapes",
                  [](const Group& g, bool other) {
                    all_reduce(ones({other ? 3 : 2, 4}), g);
                  },
                  "all_reduce of float32 [2, 4] by sum", "all_reduce of float32 [3, 4] by sum"},
        Differing{"dtypes", [](const Group& g, bool other) { all_reduce(ones({2}, other ? f64 : f32), g); },
                  "all_reduce of float32 [2] by sum", "all_reduce of float64 [2] by sum"},
        Differing{"reductions",
                  [](const Group& g, bool other) { all_reduce(ones({2}), g, other ? ReduceOp::max : ReduceOp::sum); },
                  "by sum", "by max"},
        Differing{"roots", [](const Group& g, bool other) { broadcast(ones({2}), other ? 1 : 0, g); }, "from rank 0",
                  "from rank 1"},
        Differing{"functions",
                  [](const Group& g, bool other) {
                    if (other) barrier(g);
                    else all_gather(ones({2}), g);
                  },
                  "all_gather of float32 [*]", "barrier"},
        Differing{"recording", [](const Group& g, bool other) { all_reduce(ones({2}).requires_grad_(other), g); },
                  "by sum", "by sum, recorded"}),
    [](const auto& info) { return info.param.name; });

TEST_P(Disagreement, IsFoundAndBothPlacesAreNamed) {
  const auto errors = errors_of(2, [](const Group& group) { GetParam().call(group, group.rank() == 1); });
  EXPECT_THAT(errors[0] + errors[1],
              AllOf(HasSubstr(GetParam().first), HasSubstr(GetParam().second), HasSubstr("rank 0"), HasSubstr("rank 1"),
                    HasSubstr("is at"), HasSubstr("faults_test.cpp:")));
  EXPECT_FALSE(errors[0].empty() || errors[1].empty());
}

TEST(Faults, AnotherOrderOfCallsIsFoundWithBothLines) {
  int first = 0, second = 0;
  const auto errors = errors_of(2, [&](const Group& group) {
    const Tensor x = ones({2});
    if (group.rank() == 0) {
      first = __LINE__ + 1;
      all_reduce(x, group);
      all_gather(x, group);
    } else {
      second = __LINE__ + 1;
      all_gather(x, group);
      all_reduce(x, group);
    }
  });
  EXPECT_THAT(errors[0] + errors[1], AllOf(HasSubstr(line(first)), HasSubstr(line(second))));
}

TEST(Faults, SizesThatDoNotMatchAreFound) {
  const auto errors = errors_of(2, [](const Group& group) {
    const int64_t wrong[] = {1, group.rank() == 0 ? 3 : 2};
    all_gather(ones({group.rank() == 0 ? 1 : 2}), wrong, group);
  });
  EXPECT_THAT(errors[0] + errors[1], HasSubstr("sends 8 bytes where rank 0 expects 12"));
}

TEST(Faults, AsynchronousErrorsAreRaisedByEachWait) {
  const auto errors = errors_of(2, [](const Group& group) {
    if (group.rank() == 1) throw ValueError("gone");
    const Work work = all_reduce_async(ones({2}), group), next = barrier_async(group);
    const std::string first = message_of<DistributedError>([&] { work.wait(); });
    EXPECT_THAT(first, HasSubstr("[all_reduce] rank 1 failed"));
    EXPECT_EQ(message_of<DistributedError>([&] { work.wait(); }), first);
    EXPECT_THAT(message_of<DistributedError>([&] { next.wait(); }), HasSubstr("[barrier] rank 1 failed"));
    EXPECT_TRUE(work.is_done());
  });
  EXPECT_EQ(errors[1], "gone");
}

TEST(Faults, MessagesOfAnotherShapeOrDtypeAreRefused) {
  const auto errors = errors_of(2, [](const Group& group) {
    if (group.rank() == 0) send(ones({2, 3}), 1, group);
    else receive_(zeros({3, 2}), 0, group);
  });
  EXPECT_THAT(errors[1], HasSubstr("[receive_] tensor from rank 0: expected float32 [3, 2], got float32 [2, 3]"));
  EXPECT_THAT(errors[0], HasSubstr("rank 1 failed"));
}

TEST(Faults, OfMessagesAreRaisedByEachWait) {
  LocalWorld(2, {.timeout_seconds = 0.1}).run([](const Group& group) {
    if (group.rank() == 1) {
      EXPECT_THROW(receive(0, group, 9), DistributedError);
      return;
    }
    const Tensor x = zeros({2});
    const Work work = receive_async_(x, 1, group);
    EXPECT_FALSE(work.is_done());
    const std::string first = message_of<DistributedError>([&] { work.wait(); });
    EXPECT_THAT(first, HasSubstr("[receive_] rank 1"));
    EXPECT_EQ(message_of<DistributedError>([&] { work.wait(); }), first);
    EXPECT_TRUE(work.is_done());
  });
}

TEST(Faults, ArgumentsAreCheckedBeforeAnythingIsSent) {
  LocalWorld(2).run([](const Group& group) {
    const Tensor x = ones({4});
    EXPECT_THROW(broadcast(x, 2, group), IndexError);
    EXPECT_THROW(reduce(x, -1, group), IndexError);
    EXPECT_THROW(all_gather(x, group, 1), IndexError);
    EXPECT_THROW(send(x, group.rank(), group), ValueError);
    EXPECT_THROW(send(x, 1 - group.rank(), group, 4096), ValueError);
    EXPECT_THROW(receive(5, group), IndexError);
    EXPECT_THROW(all_reduce(Tensor(), group), ValueError);
    EXPECT_THROW(all_reduce(ones({2}, i32), group, ReduceOp::avg), DTypeError);
    EXPECT_THROW(all_reduce(ones({2}, boolean), group), DTypeError);
    EXPECT_THROW(all_reduce_(x, group, ReduceOp::any), DTypeError);
    EXPECT_THROW(all_reduce_(x.expand({3, 4}), group), ValueError);
    EXPECT_THROW(all_reduce(zeros({2}, Device("meta")), group), NotImplementedError);
    EXPECT_THROW(reduce_scatter(x, std::vector<int64_t>{1, 2}, group), ShapeError);
    EXPECT_THROW(reduce_scatter(x, std::vector<int64_t>{4}, group), ShapeError);
    EXPECT_THROW(all_gather(x, std::vector<int64_t>{3, 3}, group), ShapeError);
    EXPECT_THROW(all_to_all(x, group, {.send_sizes = {-1, 5}}), ShapeError);
    EXPECT_THROW(group.subgroup({0, 0}), ValueError);
    EXPECT_THROW(group.subgroup({2}), ValueError);
    EXPECT_THROW(group.set_timeout(0), ValueError);
    EXPECT_EQ(all_reduce(x, group).to_vector<float>()[0], 2) << "the world still works";
  });
}

TEST(Faults, AMeshThatDoesNotFitTheWorldIsRefused) {
  LocalWorld(4).run([](const Group& group) {
    const std::string text = message_of<ValueError>([&] { Mesh({2, 3}, {}, group); });
    EXPECT_THAT(text,
                AllOf(HasSubstr("[Mesh] mesh of shape [2, 3]: expected 6 ranks, got 4"), HasSubstr("faults_test")));
    EXPECT_THROW(Mesh({2, 2}, {"a"}, group), ValueError);
    EXPECT_THROW(Mesh({2, 2}, {"a", "a"}, group), ValueError);
    EXPECT_THROW(Mesh({2}, {}, group, {1, 1}), ValueError);
    EXPECT_THROW(Mesh({0}, {}, group), ValueError);
    // Two of four ranks: the others have no place.
    const Mesh part({2}, {"x"}, group, {1, 3});
    EXPECT_EQ(part.coordinate().empty(), group.rank() % 2 == 0);
    if (group.rank() % 2 == 0) EXPECT_THROW(part.group(0), ValueError);
    else EXPECT_EQ(all_reduce(ones({}), part.group("x")).item<float>(), 2);
  });
}

TEST(LocalWorlds, NeedARank) { EXPECT_THROW(LocalWorld(0), ValueError); }

TEST(LocalWorlds, EachRankHasItsWorldAndItsGenerator) {
  manual_seed(5);
  const Tensor expected = rand({4});
  manual_seed(5);
  LocalWorld(3).run([&](const Group& group) {
    EXPECT_EQ(world(), group);
    EXPECT_EQ(rank(), group.rank());
    EXPECT_EQ(world_size(), 3);
    EXPECT_TRUE(same_bits(rand({4}), expected));
    manual_seed(7 + static_cast<uint64_t>(group.rank()));
    const Tensor own = rand({4}), all = all_gather(own.unsqueeze(0), group);
    for (int r = 0; r < 3; ++r) EXPECT_EQ(all[r].equal(own), r == group.rank());
  });
  EXPECT_TRUE(same_bits(rand({4}), expected)) << "the caller's own was not drawn from";
}

TEST(LocalWorlds, MayBeNested) {
  LocalWorld(2).run([](const Group& outer) {
    LocalWorld(2).run([](const Group& inner) { EXPECT_EQ(all_reduce(ones({}), inner).item<float>(), 2); });
    EXPECT_EQ(world(), outer);
    barrier();
  });
}

TEST(World, OfAProgramThatNobodyStartedTwiceIsThisProcess) {
  if (under_mpirun()) GTEST_SKIP() << "started by mpirun";
  EXPECT_EQ(world_size(), 1);
  EXPECT_EQ(rank(), 0);
  EXPECT_EQ(all_reduce(full({2}, 3.f)).to_vector<float>()[1], 3);
  EXPECT_STREQ(world().wire(), "threads");
}

}  // namespace
}  // namespace weft::distributed
