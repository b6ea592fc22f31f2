#include "thread_pool.hpp"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <exception>
#include <utility>

#include "../../tensor/settings.hpp"
#include "../../tensor/threads.hpp"

namespace weft {
namespace {

constexpr int max_threads = 256;

int allowed_cores() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return std::clamp(CPU_COUNT(&set), 1, max_threads);
  return static_cast<int>(std::clamp(sysconf(_SC_NPROCESSORS_ONLN), 1L, long{max_threads}));
}

int default_threads() {
  if (const char* text = detail::setting("WEFT_NUM_THREADS")) {
    const long count = std::strtol(text, nullptr, 10);
    if (count > 0) return static_cast<int>(std::min(count, long{max_threads}));
  }
  return allowed_cores();
}

constinit std::atomic<int> wanted_threads{0};
constinit thread_local bool alone = false;

}  // namespace

OneThreadGuard::OneThreadGuard() : outer_(std::exchange(alone, true)) {}
OneThreadGuard::~OneThreadGuard() { alone = outer_; }

int num_threads() {
  if (WEFT_UNLIKELY(alone)) return 1;
  const int count = wanted_threads.load(std::memory_order_relaxed);
  if (WEFT_LIKELY(count > 0)) return count;
  int unset = 0;
  wanted_threads.compare_exchange_strong(unset, default_threads(), std::memory_order_relaxed);
  return wanted_threads.load(std::memory_order_relaxed);
}

void set_num_threads(int count) { wanted_threads.store(std::clamp(count, 1, max_threads), std::memory_order_relaxed); }

namespace cpu {
namespace {

// The state word, which is also the futex: workers inside the current job, flags, and the job's number.
constexpr uint32_t joined_one = 1;
constexpr uint32_t joined_mask = 0xfff;
constexpr uint32_t open_flag = 1u << 12;      // the job may be joined
constexpr uint32_t sleepers_flag = 1u << 13;  // some worker sleeps
constexpr uint32_t waiter_flag = 1u << 14;    // the caller sleeps until the last worker has left
constexpr uint32_t job_one = 1u << 15;
constexpr uint32_t job_mask = ~(job_one - 1);

constexpr uint32_t worker_bit = 1, caller_bit = 2;
constexpr auto spin_time = std::chrono::microseconds(30);

void pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb" ::: "memory");
#endif
}

/// Adjacent chunks that one thread takes first: its cache has the data that it wrote in the previous call.
struct alignas(64) Share {
  std::atomic<int64_t> next;
  int64_t end;
};

struct Job {
  RangeBody body;
  void* context;
  int64_t n, chunk;
  int share_count;
  std::atomic<bool> failed;
  std::exception_ptr* error;
  Share shares[max_threads];
};

// Never destroyed: detached workers look at it until the process is gone.
struct Pool {
  alignas(64) std::atomic<uint32_t> state{0};
  alignas(64) std::atomic<bool> taken{false};
  std::atomic<bool> forked{false};
  std::atomic<int> workers_wanted{0};
  int workers = 0;  // guarded by `taken`
  bool fork_hook = false;
  alignas(64) Job job{};
};
constinit Pool pool;

void futex_wait(uint32_t expected, uint32_t bit) {
  syscall(SYS_futex, &pool.state, FUTEX_WAIT_BITSET_PRIVATE, expected, nullptr, nullptr, bit);
}
void futex_wake(int count, uint32_t bit) {
  syscall(SYS_futex, &pool.state, FUTEX_WAKE_BITSET_PRIVATE, count, nullptr, nullptr, bit);
}

/// Spins until `done(state)` holds or the time is over; the last state seen.
template <class Done>
uint32_t spin_until(Done done) {
  uint32_t state = pool.state.load(std::memory_order_acquire);
  if (done(state)) return state;
  const auto deadline = std::chrono::steady_clock::now() + spin_time;
  do {
    for (int i = 0; i < 16; ++i) {
      pause();
      state = pool.state.load(std::memory_order_acquire);
      if (done(state)) return state;
    }
  } while (std::chrono::steady_clock::now() < deadline);
  return state;
}

/// All chunks of the thread's own share, then remaining chunks of the others.
void work(Job& job, int own) {
  for (int i = 0; i < job.share_count; ++i) {
    Share& share = job.shares[(own + i) % job.share_count];
    while (!job.failed.load(std::memory_order_relaxed)) {
      const int64_t c = share.next.fetch_add(1, std::memory_order_relaxed);
      if (c >= share.end) break;
      try {
        job.body(job.context, c * job.chunk, std::min((c + 1) * job.chunk, job.n));
      } catch (...) {
        if (!job.failed.exchange(true, std::memory_order_relaxed)) *job.error = std::current_exception();
      }
    }
  }
}

bool try_join(uint32_t state) {
  const uint32_t limit = static_cast<uint32_t>(pool.workers_wanted.load(std::memory_order_relaxed));
  while ((state & open_flag) != 0 && (state & joined_mask) < limit) {
    if (pool.state.compare_exchange_weak(state, state + joined_one, std::memory_order_acquire)) return true;
  }
  return false;
}

void leave() {
  const uint32_t before = pool.state.fetch_sub(joined_one, std::memory_order_release);
  if ((before & joined_mask) == 1 && (before & waiter_flag) != 0) futex_wake(1, caller_bit);
}

void* worker_main(void* number) {
  const int own = static_cast<int>(reinterpret_cast<intptr_t>(number));
  uint32_t last_job = 0;
  for (;;) {
    const auto fresh = [&](uint32_t s) { return (s & open_flag) != 0 && (s & job_mask) != last_job; };
    uint32_t state = spin_until(fresh);
    if (fresh(state)) {
      last_job = state & job_mask;
      if (try_join(state)) {
        work(pool.job, own);
        leave();
      }
      continue;
    }
    const uint32_t asleep = state | sleepers_flag;
    if (state == asleep || pool.state.compare_exchange_strong(state, asleep, std::memory_order_relaxed)) {
      futex_wait(asleep, worker_bit);
    }
  }
  return nullptr;
}

void start_workers(int count) {
  if (!pool.fork_hook) {
    pool.fork_hook = true;
    pthread_atfork(nullptr, nullptr, [] { pool.forked.store(true, std::memory_order_relaxed); });
  }
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  // The program's signals are for the program's own threads.
  sigset_t every, before;
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, &before);
  while (pool.workers < count) {
    pthread_t thread;
    void* const number = reinterpret_cast<void*>(static_cast<intptr_t>(pool.workers + 1));
    if (pthread_create(&thread, &attributes, worker_main, number) != 0) break;
    ++pool.workers;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  pthread_attr_destroy(&attributes);
}

void publish(int helpers) {
  const uint32_t number = (pool.state.load(std::memory_order_relaxed) & job_mask) + job_one;
  const bool all = helpers >= pool.workers;
  uint32_t before = pool.state.load(std::memory_order_relaxed);
  // Where only some sleepers are woken, the flag stays for the others.
  while (!pool.state.compare_exchange_weak(before, number | open_flag | (all ? 0 : before & sleepers_flag),
                                           std::memory_order_acq_rel, std::memory_order_relaxed)) {
  }
  if ((before & sleepers_flag) != 0) futex_wake(all ? INT_MAX : helpers, worker_bit);
}

void close_and_wait() {
  uint32_t state = pool.state.fetch_and(~open_flag, std::memory_order_acq_rel) & ~open_flag;
  const auto empty = [](uint32_t s) { return (s & joined_mask) == 0; };
  if (empty(state)) return;
  state = spin_until(empty);
  while (!empty(state)) {
    const uint32_t waiting = state | waiter_flag;
    if (state == waiting || pool.state.compare_exchange_weak(state, waiting, std::memory_order_relaxed)) {
      futex_wait(waiting, caller_bit);
    }
    state = pool.state.load(std::memory_order_acquire);
  }
}

void run_inline(int64_t n, int64_t chunk, RangeBody body, void* context) {
  for (int64_t begin = 0; begin < n; begin += chunk) body(context, begin, std::min(begin + chunk, n));
}

}  // namespace

void run_chunks(int64_t n, int64_t chunk, RangeBody body, void* context) {
  if (n <= 0) return;
  chunk = std::max<int64_t>(chunk, 1);
  const int64_t chunks = (n - 1) / chunk + 1;
  const int helpers = static_cast<int>(std::min<int64_t>(num_threads(), chunks)) - 1;
  // A nested call and a second user thread find the pool taken.
  if (helpers <= 0 || pool.forked.load(std::memory_order_relaxed) ||
      pool.taken.exchange(true, std::memory_order_acquire)) {
    run_inline(n, chunk, body, context);
    return;
  }
  if (pool.workers < helpers) start_workers(num_threads() - 1);
  Job& job = pool.job;
  job.body = body;
  job.context = context;
  job.n = n;
  job.chunk = chunk;
  job.share_count = helpers + 1;
  for (int i = 0; i <= helpers; ++i) {
    job.shares[i].next.store(chunks * i / job.share_count, std::memory_order_relaxed);
    job.shares[i].end = chunks * (i + 1) / job.share_count;
  }
  std::exception_ptr error;
  job.error = &error;
  job.failed.store(false, std::memory_order_relaxed);
  pool.workers_wanted.store(helpers, std::memory_order_relaxed);
  publish(helpers);
  work(job, 0);
  close_and_wait();
  pool.taken.store(false, std::memory_order_release);
  if (error != nullptr) std::rethrow_exception(std::move(error));
}

}  // namespace cpu
}  // namespace weft
