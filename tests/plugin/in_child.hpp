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

/// A child's failures are not printed by themselves.
inline void tell_failures() {
  const ::testing::TestResult& result = *::testing::UnitTest::GetInstance()->current_test_info()->result();
  for (int i = 0; i < result.total_part_count(); ++i) {
    const ::testing::TestPartResult& part = result.GetTestPartResult(i);
    if (part.failed()) std::cerr << part.file_name() << ":" << part.line_number() << ": " << part.message() << "\n";
  }
}

template <class F>
[[noreturn]] void run_and_exit(Settings settings, const F& body) {
  for (const auto& [name, value] : settings) ::setenv(name, value, 1);
  try {
    body();
  } catch (const std::exception& error) {
    ADD_FAILURE() << error.what();
  }
  tell_failures();
  std::exit(::testing::Test::HasFailure() ? 1 : 0);
}

/// Runs `body` in a process, which has to end well: the plug-in's finalize, and the stub's checks there, included.
template <class F>
void in_child(Settings settings, const F& body) {
  EXPECT_EXIT(run_and_exit(settings, body), ::testing::ExitedWithCode(0), "");
}

}  // namespace weft
