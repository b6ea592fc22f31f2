#include "fiber.h"

#include <sys/mman.h>

#include <cstdint>
#include <mutex>

// Fibers leave and enter functions on other stacks, which confuses sanitizers.
#define WEFT_ZE_NO_SANITIZE __attribute__((no_sanitize("address", "thread", "undefined")))

#if defined(__x86_64__)

// weft_ze_switch(void** save, void* next): callee-saved registers live on the stack of each side.
// It leaves by a jump, since a return would always be mispredicted.
// weft_ze_start: first entry of a fiber, with its function in r12 and argument in rbx.
asm(R"(
.text
.globl weft_ze_switch
.hidden weft_ze_switch
weft_ze_switch:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  pop %rcx
  jmp *%rcx
.globl weft_ze_start
.hidden weft_ze_start
weft_ze_start:
  mov %rbx, %rdi
  jmp *%r12
)");

#else
#error "the test driver switches fibers on x86-64 only"
#endif

extern "C" void weft_ze_switch(void** save, void* next);
extern "C" void weft_ze_start();

namespace weft::testing::ze {
namespace {

constexpr size_t stack_bytes = 64 << 10;
constexpr uint64_t stack_canary = 0x5AFE57AC4B17E5A5;

}  // namespace

// One mapping with room for `count` stacks; only touched pages take memory.
class FiberStacks {
 public:
  explicit FiberStacks(size_t count) : count_(count) {
    void* memory =
        mmap(nullptr, count * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) throw std::bad_alloc();
    base_ = static_cast<char*>(memory);
    for (size_t i = 0; i < count; ++i) canary(i) = stack_canary;
  }

  ~FiberStacks() { munmap(base_, count_ * stack_bytes); }

  FiberStacks(const FiberStacks&) = delete;

  size_t count() const { return count_; }
  uint64_t& canary(size_t index) { return *reinterpret_cast<uint64_t*>(base_ + index * stack_bytes); }

  // Staggered, so that the stacks do not compete for the same cache sets.
  void** top(size_t index) {
    return reinterpret_cast<void**>(base_ + (index + 1) * stack_bytes - 64 - index % 61 * 192);
  }

  static std::unique_ptr<FiberStacks> borrow(size_t count) {
    Pool& pool = shared_pool();
    std::lock_guard lock(pool.mutex);
    while (!pool.free.empty()) {
      auto stacks = std::move(pool.free.back());
      pool.free.pop_back();
      if (stacks->count() >= count) return stacks;
    }
    return std::make_unique<FiberStacks>(count <= 256 ? 256 : 1024);
  }

  static void give_back(std::unique_ptr<FiberStacks> stacks) {
    Pool& pool = shared_pool();
    std::lock_guard lock(pool.mutex);
    pool.free.push_back(std::move(stacks));
  }

 private:
  struct Pool {
    std::mutex mutex;
    std::vector<std::unique_ptr<FiberStacks>> free;
  };

  static Pool& shared_pool() {
    static auto* pool = new Pool;
    return *pool;
  }

  char* base_;
  size_t count_;
};

FiberGroup::FiberGroup(size_t count) : stacks_(FiberStacks::borrow(count)), fibers_(count) {}

FiberGroup::~FiberGroup() { FiberStacks::give_back(std::move(stacks_)); }

WEFT_ZE_NO_SANITIZE void FiberGroup::enter(Fiber* fiber) {
  FiberGroup* group = fiber->group;
  group->function_(&fiber->state, group->arguments_);
  ++group->finished_;
  switch_to_next(fiber);
  __builtin_unreachable();
}

WEFT_ZE_NO_SANITIZE void FiberGroup::wait_at_barrier(WeftWorkState* state) {
  Fiber* fiber = reinterpret_cast<Fiber*>(state);
  if (fiber->group->fibers_.size() > 1) switch_to_next(fiber);  // alone, it would resume where it last was
}

// The fibers take turns in a fixed order. After the last one all wait at the same barrier, or some have finished.
WEFT_ZE_NO_SANITIZE inline void FiberGroup::switch_to_next(Fiber* fiber) {
  FiberGroup* group = fiber->group;
  Fiber* first = group->fibers_.data();
  Fiber* next = fiber + 1;
  if (next == first + group->fibers_.size()) next = first;
  void* target = next == first && group->finished_ != 0 ? group->caller_stack_pointer_ : next->stack_pointer;
  weft_ze_switch(&fiber->stack_pointer, target);
}

// Lays out the stack as weft_ze_switch leaves it.
void FiberGroup::prepare(Fiber& fiber, size_t index) {
  void** sp = stacks_->top(index);
  *--sp = nullptr;  // keeps the alignment of a called function
  *--sp = reinterpret_cast<void*>(weft_ze_start);
  *--sp = nullptr;                                      // rbp
  *--sp = &fiber;                                       // rbx
  *--sp = reinterpret_cast<void*>(&FiberGroup::enter);  // r12
  *--sp = nullptr;                                      // r13
  *--sp = nullptr;                                      // r14
  *--sp = nullptr;                                      // r15
  fiber.stack_pointer = sp;
  fiber.group = this;
}

const char* FiberGroup::run(WeftKernelFunction function, const WeftWorkState& state, void* const* arguments) {
  function_ = function;
  arguments_ = arguments;
  size_t index = 0;
  for (uint64_t z = 0; z < state.local_size[2]; ++z) {
    for (uint64_t y = 0; y < state.local_size[1]; ++y) {
      for (uint64_t x = 0; x < state.local_size[0]; ++x) {
        Fiber& fiber = fibers_[index];
        fiber.state = state;
        fiber.state.local_id[0] = x;
        fiber.state.local_id[1] = y;
        fiber.state.local_id[2] = z;
        fiber.state.barrier = wait_at_barrier;
        prepare(fiber, index++);
      }
    }
  }

  finished_ = 0;
  weft_ze_switch(&caller_stack_pointer_, fibers_[0].stack_pointer);
  if (finished_ != fibers_.size()) return "some work-items of a group skipped a barrier";
  for (size_t i = 0; i < fibers_.size(); ++i) {
    if (stacks_->canary(i) == stack_canary) continue;
    stacks_->canary(i) = stack_canary;
    return "a work-item overran its private memory";
  }
  return nullptr;
}

}  // namespace weft::testing::ze
