// Plug-ins stay loaded until a process ends, so each test of one has a process of its own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <initializer_list>
#include <iostream>
#include <string>
#include <utility>

#include <weft/weft.hpp>

#include <weft/backends/plugin.hpp>

namespace weft {

inline const std::string stub_path = WEFT_STUB_FOLDER "/stub.so", stub2_path = WEFT_STUB_FOLDER "/stub2.so";

/// Environment variables that the stub reads.
using Settings = std::initializer_list<std::pair<const char*, const char*>>;

inline int known_parts = 0;  // of the test's result, from before the child

/// Prints a child's failures, which does not happen by itself, and gives the code to end with.
inline int tell_failures() {
  const ::testing::TestResult& result = *::testing::UnitTest::GetInstance()->current_test_info()->result();
  int failures = 0;
  for (int i = known_parts; i < result.total_part_count(); ++i) {
    const ::testing::TestPartResult& part = result.GetTestPartResult(i);
    if (!part.failed()) continue;
    std::cerr << part.file_name() << ":" << part.line_number() << ": " << part.message() << "\n";
    ++failures;
  }
  return failures > 0 ? 1 : 0;
}

template <class F>
[[noreturn]] void run_and_exit(Settings settings, const F& body) {
  known_parts = ::testing::UnitTest::GetInstance()->current_test_info()->result()->total_part_count();
  for (const auto& [name, value] : settings) ::setenv(name, value, 1);
  try {
    body();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  std::exit(tell_failures());
}

/// Runs `body` in a process, which has to end well: the plug-in's finalize, and the stub's checks there, included.
template <class F>
void in_child(Settings settings, const F& body) {
  EXPECT_EXIT(run_and_exit(settings, body), ::testing::ExitedWithCode(0), "");
}

}  // namespace weft
