// Tokens between processes.
#include <fcntl.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <weft/generate/token_queue.hpp>
#include <weft/weft.hpp>

namespace weft::generate {
namespace {

/// A unique id; its pipe is removed with it.
struct Number {
  int id = 1000 + getpid() % 100000 * 10 + next++;
  ~Number() { TokenQueue::remove(id); }
  operator int() const { return id; }
  static inline std::atomic<int> next = 0;
};

Tensor tokens_of(int64_t n, int64_t first = 0) { return arange(first, first + n); }

TEST(TokenQueue, DeliversMessagesInOrder) {
  const Number number;
  TokenQueue sender(number), receiver(number);
  EXPECT_FALSE(receiver.receive(false).has_value());
  sender.send(tensor({5, 6, 7}), false);
  sender.send(tensor({8, 9}).to(i32).reshape({2, 1}), false);
  sender.send(tensor({-1, 3, 4, 5}).slice(0, 0, 4, 2), true);
  sender.send(zeros({0}, i64), true);
  const auto expect = [&](const std::vector<int64_t>& tokens, bool stop) {
    const std::optional<TokenMessage> message = receiver.receive(true);
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->tokens.dtype(), i64);
    EXPECT_EQ(message->tokens.shape(), Dims{std::ssize(tokens)});
    EXPECT_EQ(message->tokens.to_vector<int64_t>(), tokens);
    EXPECT_EQ(message->stop, stop);
  };
  expect({5, 6, 7}, false);
  expect({8, 9}, false);
  expect({-1, 4}, true);
  expect({}, true);
  EXPECT_FALSE(receiver.receive(false).has_value());
}

TEST(TokenQueue, TakesBatchesOfAnySize) {
  const Number number;
  TokenQueue sender(number), receiver(number);
  for (const int64_t n : {1, 507, 508, 509, 512, 513, 1016, 1017, 5000, 100000}) {
    std::thread other([&] { sender.send(tokens_of(n, n), n % 2 == 0); });
    const std::optional<TokenMessage> message = receiver.receive(true);
    other.join();
    ASSERT_TRUE(message.has_value());
    EXPECT_TRUE(equal(message->tokens, tokens_of(n, n))) << n;
    EXPECT_EQ(message->stop, n % 2 == 0);
  }
}

TEST(TokenQueue, QueuesAreIndependentAndOnlyRank0Sends) {
  const Number one, two;
  TokenQueue a(one), b(two);
  a.send(tensor({1}), false);
  b.send(tensor({2}), false);
  a.send(tensor({3}), false, 1);
  EXPECT_EQ(b.receive(false)->tokens.item<int64_t>(), 2);
  EXPECT_EQ(a.receive(false)->tokens.item<int64_t>(), 1);
  EXPECT_FALSE(a.receive(false).has_value());
}

TEST(TokenQueue, TakesTokensOfDevices) {
  if (device_count(DeviceType::hpu) == 0) GTEST_SKIP() << "no HPU";
  const Number number;
  TokenQueue queue(number);
  queue.send(tensor({4, 5}).to("hpu"), false);
  EXPECT_EQ(queue.receive(false)->tokens.to_vector<int64_t>(), (std::vector<int64_t>{4, 5}));
}

TEST(TokenQueue, RejectsInvalidTokens) {
  const Number number;
  TokenQueue queue(number);
  EXPECT_THROW(queue.send(ones({2}), false), DTypeError);
  EXPECT_THROW(queue.send(tensor(1), false), ShapeError);
  EXPECT_THROW(queue.send(zeros({2, 2}, i64), false), ShapeError);
  EXPECT_THROW(queue.send(Tensor(), false), ValueError);
  EXPECT_THROW(TokenQueue(-1), ValueError);
  EXPECT_FALSE(queue.receive(false).has_value());
}

TEST(TokenQueue, AFullOneWaitsAndRaises) {
  const Number number;
  TokenQueue sender(number, {.send_seconds = 0.05, .capacity_bytes = 8192}),
      receiver(number, {.receive_seconds = 0.05, .capacity_bytes = 8192});
  int sent = 0;
  EXPECT_THROW(
      {
        for (; sent < 100000; ++sent) sender.send(tensor({sent}), false);
      },
      IoError);
  EXPECT_GT(sent, 50);
  for (int i = 0; i < sent; ++i) ASSERT_EQ(receiver.receive(true)->tokens.item<int64_t>(), i);
  EXPECT_FALSE(receiver.receive(true).has_value());

  // One that is larger than the queue, and nobody receives.
  EXPECT_THROW(sender.send(tokens_of(20000), false), IoError);
  EXPECT_FALSE(receiver.receive(true).has_value()) << "the rest may come yet";
  sender.send(tensor({1}), false);
  EXPECT_THROW(receiver.receive(true), FormatError);
  EXPECT_EQ(receiver.receive(true)->tokens.item<int64_t>(), 1);
}

TEST(TokenQueue, AMessageLargerThanTheQueuePassesWhereSomebodyReceives) {
  const Number number;
  TokenQueue sender(number, {.send_seconds = 30, .capacity_bytes = 8192}),
      receiver(number, {.receive_seconds = 30, .capacity_bytes = 8192});
  std::thread slow([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    EXPECT_TRUE(equal(receiver.receive(true)->tokens, tokens_of(20000)));
  });
  sender.send(tokens_of(20000), false);
  slow.join();
}

std::string path_of(int number) {
  return fmt::format("{}/weft-tokens-{}-{}", access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp", getuid(), number);
}

TEST(TokenQueue, BytesThatAreNoMessageAreReportedAndLeft) {
  const Number number;
  TokenQueue queue(number);
  const int file = open(path_of(number).c_str(), O_WRONLY | O_NONBLOCK);
  ASSERT_GE(file, 0);
  std::mt19937 random(1);
  const auto is_refused = [&](const std::string& bytes) {
    ASSERT_EQ(write(file, bytes.data(), bytes.size()), std::ssize(bytes));
    EXPECT_THROW(queue.receive(false), FormatError);
    queue.send(tensor({7}), false);
    EXPECT_EQ(queue.receive(false)->tokens.item<int64_t>(), 7);
  };
  is_refused("x");
  is_refused(std::string(300, 'x'));
  queue.send(tensor({1, 2, 3}), false);
  char whole[56];
  ASSERT_EQ(read(open(path_of(number).c_str(), O_RDONLY | O_NONBLOCK), whole, sizeof whole), 56);
  for (size_t place = 0; place < 32; ++place) {
    std::string changed(whole, sizeof whole);
    changed[place] = static_cast<char>(changed[place] ^ (1 << random() % 8));
    // The message's number and unused fields have no meaning on their own.
    if (place >= 12 && place < 24) continue;
    SCOPED_TRACE(place);
    is_refused(changed);
  }
  for (size_t length : {1u, 31u, 32u, 40u, 55u}) is_refused(std::string(whole, length));
  close(file);
}

TEST(TokenQueue, AKilledProcessLeavesWholeMessagesOrAnError) {
  const Number number;
  TokenQueue receiver(number, {.receive_seconds = 5});
  int whole = 0, cut = 0;
  for (int kill_number = 0; kill_number < 20; ++kill_number) {
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      TokenQueue sender(number);
      std::vector<int64_t> none;
      for (int64_t i = 1;; ++i) sender.send(full({3000}, i, i64), false);
    }
    std::mt19937 random(static_cast<unsigned>(kill_number));
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(5000 + random() % 20000);
    bool is_killed = false;
    for (;;) {
      if (!is_killed && std::chrono::steady_clock::now() > end) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
        is_killed = true;
      }
      try {
        const std::optional<TokenMessage> message = receiver.receive(false);
        if (!message && is_killed) break;
        if (!message) continue;
        ASSERT_EQ(message->tokens.numel(), 3000);
        ASSERT_TRUE(equal(message->tokens, message->tokens[0].expand({3000})));
        ++whole;
      } catch (const FormatError&) {
        ++cut;
      }
    }
    // The received part of a message is reported with the next one.
  }
  EXPECT_GT(whole, 20);
  EXPECT_LE(cut, 20);
}

// The receiver waits without a limit; a process that the sender forked still has the pipe.
TEST(TokenQueue, ASenderThatIsKilledWithinAMessageEndsTheWait) {
  const Tensor tokens = tokens_of(20000);  // more than the pipe holds
  for (const bool blocks : {true, false}) {
    const Number number;
    TokenQueue receiver(number, {.capacity_bytes = 4096});
    int ready[2];
    ASSERT_EQ(pipe(ready), 0);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      TokenQueue sender(number, {.capacity_bytes = 4096});
      const pid_t grandchild = fork();
      if (grandchild == 0) {
        for (;;) pause();
      }
      (void)!write(ready[1], &grandchild, sizeof grandchild);
      sender.send(tokens, false);
      _exit(0);
    }
    pid_t grandchild = 0;
    ASSERT_EQ(read(ready[0], &grandchild, sizeof grandchild), static_cast<ssize_t>(sizeof grandchild));
    const int pipe_end = open(path_of(number).c_str(), O_RDONLY | O_NONBLOCK);
    for (int bytes = 0; bytes < 4096; ioctl(pipe_end, FIONREAD, &bytes)) usleep(1000);
    close(pipe_end);
    kill(child, SIGSTOP);
    std::thread killer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(200));
      kill(child, SIGKILL);
    });
    const auto start = std::chrono::steady_clock::now();
    const auto receive_all = [&] {
      while (!receiver.receive(blocks)) continue;
    };
    EXPECT_THROW(receive_all(), FormatError);
    const auto waited = std::chrono::steady_clock::now() - start;
    EXPECT_GE(waited, std::chrono::milliseconds(190));  // not while the sender was there
    EXPECT_LT(waited, std::chrono::seconds(5));
    killer.join();
    waitpid(child, nullptr, 0);
    kill(grandchild, SIGKILL);
    TokenQueue(number).send(tensor({7}), false);
    const std::optional<TokenMessage> next = receiver.receive(true);
    ASSERT_TRUE(next.has_value());
    EXPECT_EQ(next->tokens.to_vector<int64_t>(), std::vector<int64_t>{7});
    close(ready[0]), close(ready[1]);
  }
}

}  // namespace
}  // namespace weft::generate
