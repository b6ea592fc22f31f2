// Writing a page allocates memory, which a signal handler may not do. So the handler forks with `_Fork`, waits for
// at most five seconds and then lets the signal take its normal effect. The child has a snapshot of the memory and
// no other threads. If it blocks on a lock that the interrupted code held, an alarm ends it and the previous page
// remains. Nothing can catch SIGKILL, so the log is also written step by step.
#include "last_words-inl.hpp"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <exception>
#include <mutex>

#include "mapped_ranges-inl.hpp"

namespace weft::io {

namespace {

using Leave = Callback<void(const char*)>;

constexpr unsigned seconds_to_leave = 5;

struct Watched {
  int signal;
  const char* why;
  /// Signals sent by other processes, which many programs ignore or handle.
  bool is_request;
};
constexpr Watched watched[] = {
    {SIGSEGV, "ended by SIGSEGV, an access to memory that is not there", false},
    {SIGBUS, "ended by SIGBUS, an access to memory that is not there", false},
    {SIGFPE, "ended by SIGFPE, an integer division by zero", false},
    {SIGILL, "ended by SIGILL, an instruction that the processor lacks", false},
    {SIGABRT, "ended by SIGABRT, as abort() or a failed assertion sends it", false},
    {SIGINT, "ended by SIGINT, as Ctrl-C sends it", true},
    {SIGTERM, "ended by SIGTERM", true},
    {SIGHUP, "ended by SIGHUP, as a terminal that closes sends it", true},
    {SIGQUIT, "ended by SIGQUIT", true},
    {SIGPIPE, "ended by SIGPIPE, a write to a closed pipe", true},
    {SIGXCPU, "ended by SIGXCPU, the limit of processor time", true},
};
constexpr size_t signals = std::size(watched);

using Slot = std::atomic<const Leave*>;
/// Registered functions. Blocks are appended and never freed, so that the signal handler can read them without locks.
struct Block {
  std::array<Slot, 64> slots{};
  std::atomic<Block*> next = nullptr;
};

// State of the signal handler, accessed without locks.
constinit Block registered{};
constinit std::atomic<bool> has_left = false;
constinit std::atomic<pid_t> leaving_thread = 0;
/// The process that registered; forked children write nothing.
constinit std::atomic<pid_t> owner = 0;
struct sigaction before[signals];
std::terminate_handler terminate_before = nullptr;

// ---- writing --------------------------------------------------------------------------------------------------------

void leave_all(const char* why) {
  for (Block* block = &registered; block != nullptr; block = block->next.load(std::memory_order_acquire)) {
    for (const Slot& slot : block->slots) {
      const Leave* const leave = slot.load(std::memory_order_acquire);
      if (leave == nullptr) continue;
      try {
        (*leave)(why);
      } catch (...) {
      }
    }
  }
}

pid_t fork_alone() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 34)
  return ::_Fork();  // fork() takes the allocator's locks, which the interrupted code may hold
#else
  return ::fork();
#endif
}

constinit const char* reason = "";

[[noreturn]] void leave_as_child() {
  ::alarm(seconds_to_leave);
  leave_all(reason);
  ::_exit(0);
}

// The signal handler's stack may be small, and the thread's stack exhausted.
[[noreturn]] void begin_child(const char* why) {
  for (const Watched& w : watched) std::signal(w.signal, SIG_DFL);
  std::signal(SIGALRM, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  constexpr size_t bytes = 8 << 20;
  void* const stack = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  static ucontext_t context;
  if (stack == MAP_FAILED || ::getcontext(&context) != 0) ::_exit(1);
  reason = why;
  context.uc_stack = {.ss_sp = stack, .ss_flags = 0, .ss_size = bytes};
  context.uc_link = nullptr;
  context.uc_sigmask = none;
  ::makecontext(&context, leave_as_child, 0);
  ::setcontext(&context);
  ::_exit(1);
}

// Async-signal-safe. Returns false if another thread has done it or the process is a forked child.
bool leave_by_child(const char* why) {
  // The thread is stored first, so that a second caller can wait for it.
  pid_t nobody = 0;
  if (::getpid() != owner || !leaving_thread.compare_exchange_strong(nobody, ::gettid())) return false;
  if (has_left.exchange(true)) {
    leaving_thread = 0;
    return false;
  }
  const int error = errno;
  const pid_t child = fork_alone();
  if (child == 0) begin_child(why);
  constexpr timespec moment{0, 1000000};
  for (unsigned waited = 0; child > 0; ++waited) {
    const pid_t ended = ::waitpid(child, nullptr, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
    if (waited == seconds_to_leave * 1000 + 500) ::kill(child, SIGKILL);
    ::nanosleep(&moment, nullptr);
  }
  errno = error;
  leaving_thread = 0;
  return true;
}

// Waits while another thread is writing.
void wait_for_leaving() {
  constexpr timespec moment{0, 1000000};
  for (unsigned waited = 0; leaving_thread != 0 && leaving_thread != ::gettid(); ++waited) {
    if (waited > (seconds_to_leave + 1) * 1000) break;
    ::nanosleep(&moment, nullptr);
  }
}

// ---- signals --------------------------------------------------------------------------------------------------------

size_t number_of(int signal) {
  size_t i = 0;
  while (i + 1 < signals && watched[i].signal != signal) ++i;
  return i;
}

void on_signal(int signal, siginfo_t* info, void*) {
  if (recover_range(signal, info)) return;
  const size_t i = number_of(signal);
  // A second request ends the process at once.
  if (watched[i].is_request) ::sigaction(signal, &before[i], nullptr);
  if (!leave_by_child(watched[i].why)) wait_for_leaving();
  ::sigaction(signal, &before[i], nullptr);
  // A fault is raised again when its instruction is repeated, so earlier handlers see the original context.
  const bool is_fault = !watched[i].is_request && signal != SIGABRT && info->si_code > 0;
  if (!is_fault) ::raise(signal);
}

// ---- uncaught exceptions, exit() ------------------------------------------------------------------------------------

[[noreturn]] void on_terminate() {
  static char why[2048] = "ended by std::terminate";
  if (const auto current = std::current_exception()) {
    try {
      std::rethrow_exception(current);
    } catch (const std::exception& error) {
      std::snprintf(why, sizeof(why), "ended by an uncaught exception: %s", error.what());
    } catch (...) {
      std::snprintf(why, sizeof(why), "ended by an uncaught exception");
    }
  }
  leave_by_child(why);
  if (terminate_before != nullptr) terminate_before();
  std::abort();
}

void on_exit() {
  if (::getpid() == owner && !has_left.exchange(true)) leave_all("");
}

// ---- registration ---------------------------------------------------------------------------------------------------

// A handler needs an alternate stack if the thread's stack is exhausted.
void prepare_stack() {
  constexpr size_t bytes = 64 << 10;
  stack_t now{};
  if (::sigaltstack(nullptr, &now) != 0 || !(now.ss_flags & SS_DISABLE)) return;
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  const stack_t stack{.ss_sp = memory, .ss_flags = 0, .ss_size = bytes};
  ::sigaltstack(&stack, nullptr);
}

void stand_by() {
  owner = ::getpid();
  for (size_t i = 0; i < signals; ++i) {
    struct sigaction now {};
    ::sigaction(watched[i].signal, nullptr, &now);
    const bool handled = (now.sa_flags & SA_SIGINFO) || now.sa_handler != SIG_DFL;
    const bool is_ours = (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal;
    const bool ignored = !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN;
    if (is_ours || ignored || (handled && watched[i].is_request)) continue;
    before[i] = now;
    struct sigaction ours {};
    ours.sa_sigaction = on_signal;
    ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ::sigaction(watched[i].signal, &ours, nullptr);
  }
  if (std::get_terminate() != on_terminate) terminate_before = std::set_terminate(on_terminate);
  prepare_stack();
  static const int at_exit = std::atexit(on_exit);
  (void)at_exit;
}

void stand_down() {
  for (size_t i = 0; i < signals; ++i) {
    struct sigaction now {};
    ::sigaction(watched[i].signal, nullptr, &now);
    if ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_signal) {
      ::sigaction(watched[i].signal, &before[i], nullptr);
    }
  }
  if (std::get_terminate() == on_terminate) std::set_terminate(terminate_before);
}

/// Protects the registration.
constinit std::mutex standing;
constinit int standing_by = 0;

/// The slot with this function, or for nullptr an unused one, in a new block if all are used.
Slot& slot_of(const Leave* leave) {
  Block* block = &registered;
  while (true) {
    const auto found = std::ranges::find_if(block->slots, [&](const Slot& slot) { return slot.load() == leave; });
    if (found != block->slots.end()) return *found;
    if (block->next == nullptr) block->next.store(new Block, std::memory_order_release);
    block = block->next;
  }
}

}  // namespace

LastWords::LastWords(Callback<void(const char*)> leave) : leave_(std::move(leave)) {
  const std::lock_guard lock(standing);
  Slot& slot = slot_of(nullptr);
  if (standing_by++ == 0) stand_by();
  slot.store(&leave_, std::memory_order_release);
}

LastWords::~LastWords() {
  const std::lock_guard lock(standing);
  slot_of(&leave_).store(nullptr);
  if (--standing_by == 0) stand_down();
}

}  // namespace weft::io
