#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include <weft/ops/create.hpp>
#include <weft/tensor/shared.hpp>

namespace weft {
namespace {

struct Counted {
  explicit Counted(int& alive) : alive_(alive) { ++alive_; }
  ~Counted() { --alive_; }
  int& alive_;
};
struct Base {
  virtual ~Base() = default;
  int first = 1;
};
struct Other {
  int second = 2;
};
struct Both : Other, Base {};

TEST(Shared, DestroysItsValueWithTheLastOwner) {
  int alive = 0;
  Shared<Counted> a = Shared<Counted>::make(alive), b = a;
  EXPECT_FALSE(a.is_only_owner());
  a = nullptr;
  EXPECT_EQ(alive, 1);
  EXPECT_TRUE(b.is_only_owner());
  Shared<Counted>& same = b;
  b = same;
  EXPECT_EQ(alive, 1);
  Shared<const void> anything = std::move(b);
  EXPECT_TRUE(b == nullptr);
  EXPECT_EQ(alive, 1);
  anything = {};
  EXPECT_EQ(alive, 0);
}

TEST(Shared, IsAnOwnerOfABaseAtItsOwnAddress) {
  const auto both = Shared<Both>::make();
  const Shared<Base> base = both;
  EXPECT_EQ(base.get(), static_cast<Base*>(both.get()));
  EXPECT_EQ(base->first, 1);
}

TEST(Shared, OwnsTheWholeThroughAPart) {
  int alive = 0;
  struct Pair {
    explicit Pair(int& count) : counted(count) {}
    Counted counted;
    std::string text = "part";
  };
  auto whole = Shared<Pair>::make(alive);
  const Shared<std::string> part(whole, &whole->text);
  whole = nullptr;
  EXPECT_EQ(alive, 1);
  EXPECT_EQ(*part, "part");
}

TEST(Shared, AConstructorThatThrowsLeavesNothing) {
  struct Throwing {
    Throwing() { throw std::runtime_error("no"); }
  };
  EXPECT_THROW(Shared<Throwing>::make(), std::runtime_error);
}

TEST(Shared, ADestructorMayDropOtherOwnersOfTheSameKind) {
  struct Link {
    Shared<Link> next;
  };
  Shared<Link> head;
  for (int i = 0; i < 1000; ++i) {
    auto link = Shared<Link>::make();
    link->next = std::move(head);
    head = std::move(link);
  }
  head = head->next;
  EXPECT_TRUE(head.is_only_owner());
}

TEST(Weak, LocksOnlyWhileThereIsAnOwner) {
  int alive = 0;
  auto owner = Shared<Counted>::make(alive);
  const Weak<Counted> weak = owner;
  const Weak<const void> same = Shared<const void>(owner);
  EXPECT_FALSE(weak.expired());
  EXPECT_EQ(weak.lock(), owner);
  owner = nullptr;
  EXPECT_EQ(alive, 0);
  EXPECT_TRUE(weak.expired());
  EXPECT_FALSE(weak.lock());
  EXPECT_FALSE(same.lock());
  EXPECT_TRUE(Weak<Counted>().expired());
}

TEST(Weak, LocksFromOtherThreadsWhileTheOwnerGoes) {
  for (int round = 0; round < 200; ++round) {
    auto owner = Shared<std::string>::make("a value of some length, so that it is on the heap");
    std::atomic<int> wrong{0};
    std::vector<std::thread> threads;
    for (int t = 0; t < 3; ++t) {
      threads.emplace_back([weak = Weak(owner), &wrong] {
        while (const Shared<std::string> held = weak.lock()) wrong += held->size() != 49;
      });
    }
    owner = nullptr;
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(wrong, 0);
  }
}

TEST(Owner, KeepsTheObjectOfASmartPointer) {
  const auto standard = std::make_shared<std::vector<float>>(3, 2.0f);
  const auto own = Shared<std::vector<float>>::make(3, 5.0f);
  auto unique = std::make_unique<float[]>(3);
  {
    const Tensor a = from_blob(standard->data(), {3}, standard), b = from_blob(own->data(), {3}, own);
    float* memory = unique.get();
    const Tensor c = from_blob(memory, {3}, {1}, Shared<std::unique_ptr<float[]>>::make(std::move(unique)));
    EXPECT_EQ(standard.use_count(), 2);
    EXPECT_FALSE(own.is_only_owner());
    EXPECT_EQ(a.sum().item<float>() + b.sum().item<float>() + c.sum().item<float>(), 21.0f);
  }
  EXPECT_EQ(standard.use_count(), 1);
  EXPECT_TRUE(own.is_only_owner());
  EXPECT_FALSE(Owner(nullptr));
  EXPECT_FALSE(Owner(std::shared_ptr<void>()));
  EXPECT_FALSE(Owner(Shared<int>()));
}

}  // namespace
}  // namespace weft
