// A run leaves the page of its gradients however its process ends.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <weft/weft.hpp>

#include <temporary_folder.hpp>

namespace weft {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// A folder that the process of a death test shares with the test.
class LastPage : public testing::Test {
 protected:
  LastPage() {
    testing::FLAGS_gtest_death_test_style = "threadsafe";
    if (const char* given = std::getenv("WEFT_TEST_LAST_PAGE")) folder_ = given;
    else ::setenv("WEFT_TEST_LAST_PAGE", (folder_ = own_.path().string()).c_str(), 1);
  }
  ~LastPage() override { ::unsetenv("WEFT_TEST_LAST_PAGE"); }

  /// The data of the page, where it is whole.
  std::string page() const {
    const std::string all = read_bytes(folder_ + "/run/gradients.html");
    const size_t begin = all.find("{\"title\""), end = all.find("</script>", begin);
    return all.ends_with("</html>\n") && end != all.npos ? all.substr(begin, end - begin) : "";
  }
  std::string lines() const { return read_bytes(folder_ + "/run/gradients.jsonl"); }

  /// Six steps of a layer without a gradient, then the end of the process.
  template <class End>
  void train(End end, io::GradientLogOptions options = {}) const {
    const Tensor used = ones({4}).requires_grad_(), unused = ones({4}).requires_grad_();
    GradientRecorder recorder(NamedTensors{{"used", used}, {"unused", unused}});
    options.tensorboard = false;
    const io::GradientLog log(recorder, folder_ + "/run", options);
    for (int i = 0; i < 6; ++i) {
      (used * used).sum().backward();
      recorder.step(1.0);
    }
    end();
  }
  static bool ended_badly(int status) { return WIFSIGNALED(status) || WEXITSTATUS(status) != 0; }

  std::string folder_;

 private:
  TemporaryFolder own_;
};
using LastPageDeathTest = LastPage;

void write_nowhere() { *reinterpret_cast<volatile int*>(8) = 1; }

int overflow_stack(int depth) {
  volatile char room[4096];
  room[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : overflow_stack(depth + 1) + room[0];
}

TEST_F(LastPageDeathTest, AfterAnAccessToNowhere) {
  EXPECT_EXIT(train(write_nowhere), ended_badly, "");
  EXPECT_THAT(page(), AllOf(HasSubstr(R"("note":"ended by SIGSEGV)"), HasSubstr(R"("recorded":6)")));
  EXPECT_THAT(page(), HasSubstr(R"("suspects":[{"trouble":"frozen")"));
}

TEST_F(LastPageDeathTest, AfterAnAccessInAnotherThread) {
  EXPECT_EXIT(train([] { std::thread(write_nowhere).join(); }), ended_badly, "");
  EXPECT_THAT(page(), HasSubstr(R"("note":"ended by SIGSEGV)"));
}

TEST_F(LastPageDeathTest, AfterAccessesInManyThreadsAtOnce) {
  const auto all_at_once = [] {
    std::atomic<int> ready = 0;
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        for (++ready; ready < 8;) {
        }
        write_nowhere();
      });
    }
    for (std::thread& t : threads) t.join();
  };
  EXPECT_EXIT(train(all_at_once), ended_badly, "");
  EXPECT_THAT(page(), HasSubstr(R"("note":"ended by SIGSEGV)"));
}

TEST_F(LastPageDeathTest, AfterTheStackIsExhausted) {
  EXPECT_EXIT(train([] { std::exit(overflow_stack(1)); }), ended_badly, "");
  EXPECT_THAT(page(), HasSubstr(R"("note":"ended by SIGSEGV)"));
}

TEST_F(LastPageDeathTest, AfterAbort) {
  EXPECT_EXIT(train([] { std::abort(); }), testing::KilledBySignal(SIGABRT), "");
  EXPECT_THAT(page(), HasSubstr(R"("note":"ended by SIGABRT)"));
}

TEST_F(LastPageDeathTest, AfterRequestsToEnd) {
  for (const auto& [signal, name] :
       {std::pair(SIGTERM, "SIGTERM"), {SIGINT, "SIGINT"}, {SIGHUP, "SIGHUP"}, {SIGPIPE, "SIGPIPE"}}) {
    EXPECT_EXIT(train([&, s = signal] { ::kill(::getpid(), s), ::pause(); }), testing::KilledBySignal(signal), "");
    EXPECT_THAT(page(), HasSubstr(std::string(R"("note":"ended by )") + name)) << name;
  }
}

TEST_F(LastPageDeathTest, NamesAnUncaughtError) {
  EXPECT_EXIT(train([]() noexcept { ones({2}) + ones({3}); }), testing::KilledBySignal(SIGABRT), "ShapeError");
  EXPECT_THAT(page(), AllOf(HasSubstr(R"("note":"ended by an uncaught exception: [add] shapes [2] and [3])"),
                            HasSubstr("last_page_test.cpp:")));
}

TEST_F(LastPageDeathTest, AfterExit) {
  EXPECT_EXIT(train([] { std::exit(3); }), testing::ExitedWithCode(3), "");
  EXPECT_THAT(page(), AllOf(HasSubstr(R"("note":"")"), HasSubstr(R"("recorded":6)")));
}

TEST_F(LastPageDeathTest, AKilledProcessLeavesLinesAndThePageOfBefore) {
  const auto kill = [] { ::kill(::getpid(), SIGKILL); };
  EXPECT_EXIT(train(kill), testing::KilledBySignal(SIGKILL), "");
  EXPECT_EQ(page(), "");
  const History history = io::load_history(folder_ + "/run");
  EXPECT_EQ(history.steps.size(), 6u);
  EXPECT_THAT(find_suspects(history)[0].text, HasSubstr("unused"));
  EXPECT_EXIT(train(kill, {.page_every = 1e-9}), testing::KilledBySignal(SIGKILL), "");
  EXPECT_THAT(page(), HasSubstr(R"("recorded":)"));
}

TEST_F(LastPageDeathTest, NoneWhereItIsNotWanted) {
  EXPECT_EXIT(train([] { std::abort(); }, {.at_any_end = false}), testing::KilledBySignal(SIGABRT), "");
  EXPECT_EXIT(train([] { std::abort(); }, {.page = false}), testing::KilledBySignal(SIGABRT), "");
  EXPECT_EQ(page(), "");
}

TEST_F(LastPageDeathTest, HandlersThatWereThereBeforeAreCalled) {
  const auto with_handlers = [&] {
    struct sigaction own {};
    own.sa_sigaction = [](int, siginfo_t* info, void*) {
      ::_exit(info->si_addr == reinterpret_cast<void*>(8) ? 42 : 1);
    };
    own.sa_flags = SA_SIGINFO;
    ::sigaction(SIGSEGV, &own, nullptr);
    train(write_nowhere);
  };
  EXPECT_EXIT(with_handlers(), testing::ExitedWithCode(42), "");
  EXPECT_THAT(page(), HasSubstr(R"("note":"ended by SIGSEGV)"));
  const auto with_terminate = [&] {
    std::set_terminate([] { ::_exit(43); });
    const auto raise = [] { throw 1; };
    train([&]() noexcept { raise(); });
  };
  EXPECT_EXIT(with_terminate(), testing::ExitedWithCode(43), "");
  EXPECT_THAT(page(), HasSubstr(R"("note":"ended by an uncaught exception")"));
}

TEST_F(LastPageDeathTest, RequestsThatTheProgramHandlesOrIgnoresAreItsOwn) {
  const auto handled = [&] {
    static volatile std::sig_atomic_t came = 0;
    std::signal(SIGTERM, [](int) { came = 1; });
    std::signal(SIGHUP, SIG_IGN);
    train([&] {
      ::kill(::getpid(), SIGHUP), ::kill(::getpid(), SIGTERM);
      ::_exit(came == 1 && page().empty() ? 5 : 6);
    });
  };
  EXPECT_EXIT(handled(), testing::ExitedWithCode(5), "");
}

TEST_F(LastPageDeathTest, ProcessesThatTheProgramForksLeaveNothing) {
  const auto with_child = [&] {
    train([&] {
      const pid_t child = ::fork();
      if (child == 0) std::abort();
      int status = 0;
      ::waitpid(child, &status, 0);
      ::_exit(WIFSIGNALED(status) && page().empty() ? 7 : 8);
    });
  };
  EXPECT_EXIT(with_child(), testing::ExitedWithCode(7), "");
}

TEST_F(LastPage, HandlersAreThereOnlyWhileALogLives) {
  const auto handler = [](int signal) {
    struct sigaction now {};
    ::sigaction(signal, nullptr, &now);
    return now.sa_flags & SA_SIGINFO ? reinterpret_cast<void*>(now.sa_sigaction)
                                     : reinterpret_cast<void*>(now.sa_handler);
  };
  const auto terminate = std::get_terminate();
  for (const int signal : {SIGSEGV, SIGTERM, SIGABRT}) {
    void* const before = handler(signal);
    train([&] { EXPECT_NE(handler(signal), before); });
    EXPECT_EQ(handler(signal), before);
  }
  train([&] { EXPECT_NE(std::get_terminate(), terminate); });
  EXPECT_EQ(std::get_terminate(), terminate);
}

TEST_F(LastPage, IntervalsThatAreNoneAreRefused) {
  GradientRecorder recorder{NamedTensors{}};
  EXPECT_THROW(io::GradientLog(recorder, folder_, {.page_every = -1}), ValueError);
  EXPECT_THROW(io::GradientLog(recorder, folder_, {.page_every = NAN}), ValueError);
}

}  // namespace
}  // namespace weft
