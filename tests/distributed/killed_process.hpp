// This program once more as a process of its own, which is killed while it works on a folder.
#pragma once

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include <gtest/gtest.h>

namespace weft::distributed {

/// In a process that `run_and_kill` started with this variable, calls work(folder), which does not return.
class WorkUntilKilled : public ::testing::Environment {
 public:
  using Work = void (*)(const std::string& folder);
  WorkUntilKilled(const char* variable, Work work) : variable_(variable), work_(work) {}

 private:
  void SetUp() override {
    if (const char* folder = std::getenv(variable_)) work_(folder);
  }
  const char* variable_;
  Work work_;
};

/// Starts it, and kills it after so many microseconds, at random between these.
inline void run_and_kill(const char* variable, const std::string& folder, std::pair<int, int> microseconds,
                         std::mt19937& random) {
  const std::string self = std::filesystem::read_symlink("/proc/self/exe").string();
  const pid_t child = ::fork();
  if (child == 0) {
    ::setenv(variable, folder.c_str(), 1);
    const int nowhere = ::open("/dev/null", O_WRONLY);
    ::dup2(nowhere, 1), ::dup2(nowhere, 2);
    ::execl(self.c_str(), self.c_str(), nullptr);
    ::_exit(1);
  }
  std::uniform_int_distribution<int> moment(microseconds.first, microseconds.second);
  std::this_thread::sleep_for(std::chrono::microseconds(moment(random)));
  ::kill(child, SIGKILL);
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFSIGNALED(status));
}

}  // namespace weft::distributed
