#include <functional>
#include <memory>

#include <gtest/gtest.h>

#include <weft/tensor/callback.hpp>

namespace weft {
namespace {

int twice(int x) { return 2 * x; }

TEST(Callback, CallsFunctionsPointersAndMoveOnlyObjects) {
  const Callback<int(int)> from_lambda([n = std::make_unique<int>(3)](int x) { return x + *n; });
  const Callback<int(int)> from_pointer(twice);
  const Callback<void(int)> ignores_the_result(twice);
  EXPECT_EQ(from_lambda(4), 7);
  EXPECT_EQ(from_pointer(4), 8);
  ignores_the_result(4);
  const std::function<int(int)> as_function = from_pointer;
  EXPECT_EQ(as_function(5), 10);
}

TEST(Callback, CopiesShareTheState) {
  Callback<int()> first([n = 0]() mutable { return ++n; });
  Callback<int()> second = first;
  first();
  EXPECT_EQ(second(), 2);
  first = nullptr;
  EXPECT_FALSE(first);
  EXPECT_EQ(second(), 3);
}

TEST(Callback, NothingToCallIsFalse) {
  EXPECT_FALSE(Callback<void()>());
  EXPECT_FALSE(Callback<void()>(nullptr));
  EXPECT_FALSE(Callback<void()>(std::function<void()>()));
  EXPECT_FALSE(Callback<int(int)>(static_cast<int (*)(int)>(nullptr)));
  EXPECT_TRUE(Callback<void()>([] {}));
}

TEST(Callback, PassesReferencesAndMovesArguments) {
  const Callback<void(std::unique_ptr<int>, int&)> take([](std::unique_ptr<int> owned, int& out) { out = *owned; });
  int out = 0;
  take(std::make_unique<int>(9), out);
  EXPECT_EQ(out, 9);
}

}  // namespace
}  // namespace weft
