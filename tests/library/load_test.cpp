// Libraries that are built outside of the tree and loaded.
#include <atomic>
#include <thread>

#include "collected_warnings.hpp"
#include "registering.hpp"
#include "temporary_folder.hpp"

namespace weft::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// Builds plugins/ops.cpp with these macros, as a user does: with the headers and no library.
std::string built(const TemporaryFolder& folder, const std::string& name, const std::string& macros) {
  const std::string library = folder / (name + ".so");
  const std::string command = std::string(WEFT_CXX) + " -std=c++20 -O0 -shared -fPIC -I" WEFT_BINARY_DIR "/include " +
                              macros + " " WEFT_SOURCE_DIR "/tests/library/plugins/ops.cpp -o " + library;
  EXPECT_EQ(std::system(command.c_str()), 0) << command;
  return library;
}
std::string doubling(const std::string& more = "") { return "-DNAME='\"plug::times\"' -DFACTOR=2 " + more; }
double called() { return call_op("plug::times", doubles({1})).item<double>(); }

TEST(Libraries, OfAnotherVersionAreRefused) {
  const TemporaryFolder folder;
  const std::string path = built(folder, "other", doubling("-DOTHER_VERSION"));
  try {
    load_library(path);
    FAIL();
  } catch (const ValueError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("headers of Weft 7.3"), HasSubstr("compile it anew")));
  }
  EXPECT_EQ(find_record("plug::times"), nullptr);
}

TEST(Libraries, RegisterWhenLoadedAndRestoreWhenUnloaded) {
  const TemporaryFolder folder;
  const std::string path = built(folder, "times", doubling());
  EXPECT_THAT(load_library(path), ElementsAre("plug::times"));
  EXPECT_EQ(called(), 2);
  EXPECT_THAT(load_library(path), ElementsAre("plug::times")) << "twice is once";
  EXPECT_EQ(called(), 2);
  const CheckOpReport report = check_op("plug::times");
  EXPECT_TRUE(report.passed()) << report.text();
  unload_library(path);
  EXPECT_EQ(find_record("plug::times"), nullptr);
  EXPECT_THROW(unload_library(path), ValueError);
  EXPECT_THAT(load_library(path), ElementsAre("plug::times")) << "and again";
  EXPECT_EQ(called(), 2);
  unload_library(path);
}

TEST(Libraries, MayRegisterAtNamespaceScope) {
  const TemporaryFolder folder;
  const std::string path = built(folder, "times", doubling("-DSTATIC"));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(load_library(path), ElementsAre("plug::times"));
    EXPECT_EQ(called(), 2);
    unload_library(path);
    EXPECT_EQ(find_record("plug::times"), nullptr);
  }
}

TEST(Libraries, OfOneNameAreAnErrorThatLeavesTheFirst) {
  const TemporaryFolder folder;
  const std::string first = built(folder, "first", doubling());
  load_library(first);
  for (const char* how : {"", "-DSTATIC"}) {
    const std::string second =
        built(folder, std::string("second") + how, std::string("-DNAME='\"plug::times\"' -DFACTOR=3 ") + how);
    EXPECT_THAT(message_of<ValueError>([&] { load_library(second); }),
                AllOf(HasSubstr("there is an op of this name already"), HasSubstr("ops.cpp:")));
    EXPECT_EQ(called(), 2);
  }
  unload_library(first);
}

TEST(Libraries, MayOverrideAnotherAndTheLibrarysOwn) {
  CollectedWarnings warnings;
  const TemporaryFolder folder;
  const std::string first = built(folder, "first", doubling());
  const std::string second = built(folder, "second", "-DNAME='\"plug::times\"' -DFACTOR=3 -DPOLICY=override");
  const std::string own = built(folder, "own", "-DNAME='\"neg\"' -DFACTOR=4 -DPOLICY=override -DSTATIC");
  load_library(first);
  load_library(second);
  load_library(own);
  EXPECT_EQ(called(), 3);
  EXPECT_EQ(call_op("neg", doubles({1})).item<double>(), 4);
  EXPECT_EQ(warnings.texts.size(), 2u);
  unload_library(own);
  EXPECT_EQ(call_op("neg", doubles({1})).item<double>(), -1);
  unload_library(first);
  EXPECT_EQ(called(), 3);
  unload_library(second);
  EXPECT_THROW(called(), ValueError);
}

TEST(Libraries, AreNotUnloadedWhileAGraphNeedsThem) {
  const TemporaryFolder folder;
  const std::string path = built(folder, "times", doubling());
  load_library(path);
  const Tensor x = doubles({1}).requires_grad_();
  Tensor y = call_op("plug::times", x);
  EXPECT_THAT(message_of<ValueError>([&] { unload_library(path); }), HasSubstr("is in use"));
  EXPECT_EQ(called(), 2);
  y.sum().backward();
  EXPECT_THAT(elements(x.grad()), ElementsAre(2));
  y = Tensor();
  unload_library(path);
  EXPECT_THROW(called(), ValueError);
}

TEST(Libraries, AreUnloadedBetweenTheCallsOfOtherThreads) {
  const TemporaryFolder folder;
  const std::string path = built(folder, "times", doubling());
  std::atomic<bool> done = false;
  std::atomic<int> wrong = 0;
  const auto call = [&] {
    while (!done) {
      try {
        if (called() != 2) ++wrong;
      } catch (const ValueError&) {  // it is not loaded just now
      }
      std::this_thread::yield();
    }
  };
  std::thread caller(call);
  for (int i = 0; i < 20; ++i) {
    load_library(path);
    for (bool unloaded = false; !unloaded;) {
      try {
        unload_library(path);
        unloaded = true;
      } catch (const ValueError&) {  // a call is running
        std::this_thread::yield();
      }
    }
  }
  done = true;
  caller.join();
  EXPECT_EQ(wrong, 0);
}

TEST(Libraries, ThatCannotBeLoadedLeaveNothing) {
  const TemporaryFolder folder;
  EXPECT_THAT(message_of<IoError>([&] { load_library(folder / "none.so"); }), HasSubstr("none.so was not loaded"));
  write_bytes(folder / "text.so", "this is no library");
  EXPECT_THROW(load_library(folder / "text.so"), IoError);
  EXPECT_THAT(message_of<ValueError>([&] { load_library(built(folder, "empty", doubling("-DEMPTY"))); }),
              HasSubstr("registers no op"));
  EXPECT_THAT(message_of<ValueError>([&] { load_library(built(folder, "broken", doubling("-DBREAK"))); }),
              HasSubstr("does not want"));
  EXPECT_EQ(find_record("plug::times"), nullptr);
}

}  // namespace
}  // namespace weft::testing
