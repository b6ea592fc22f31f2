// Functions that run at the end of the process, in any number.
#include <signal.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <weft/io/files/last_words-inl.hpp>

namespace weft::io {
namespace {

using Words = std::vector<std::unique_ptr<LastWords>>;

/// Adds `count` functions, each of which writes one letter.
void add(Words& words, int count, char letter) {
  for (int i = 0; i < count; ++i) {
    words.push_back(std::make_unique<LastWords>([letter](const char*) {
      if (::write(STDERR_FILENO, &letter, 1) != 1) ::_exit(9);
    }));
  }
}

/// Matches exactly `count` letters.
std::string exactly(int count, const std::string& letter) {
  const std::string other = "[^" + letter + "]";
  return "(^|" + other + ")" + letter + "{" + std::to_string(count) + "}(" + other + "|$)";
}

struct LastWordsDeathTest : testing::Test {
  LastWordsDeathTest() { testing::FLAGS_gtest_death_test_style = "threadsafe"; }
};

TEST_F(LastWordsDeathTest, AllRunHoweverManyThereAre) {
  for (const int count : {1, 64, 65, 200}) {
    const auto ends_by = [&](auto end) {
      Words words;
      add(words, count, 'x');
      end();
    };
    EXPECT_EXIT(ends_by([] { std::exit(3); }), testing::ExitedWithCode(3), exactly(count, "x"));
    EXPECT_EXIT(ends_by([] { ::kill(::getpid(), SIGTERM), ::pause(); }), testing::KilledBySignal(SIGTERM),
                exactly(count, "x"));
  }
}

TEST_F(LastWordsDeathTest, ThoseThatEndedDoNotRun) {
  const auto some_end = [] {
    Words words;
    add(words, 150, 'x');
    words.erase(words.begin() + 10, words.begin() + 100);
    add(words, 120, 'y');
    std::exit(4);
  };
  EXPECT_EXIT(some_end(), testing::ExitedWithCode(4), "x{10}y{90}x{50}y{30}");
}

}  // namespace
}  // namespace weft::io
