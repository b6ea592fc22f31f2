#include "../local_world.hpp"

#include <exception>
#include <numeric>
#include <thread>
#include <vector>

#include <fmt/format.h>

#include "../../tensor/generator.hpp"
#include "../../tensor/threads.hpp"
#include "../detail/member.hpp"
#include "../local/hub.hpp"
#include "../../tensor/expect-inl.hpp"

namespace weft::distributed {

namespace {

using detail::Member;
using detail::Threads;

/// Message for the other ranks: a Weft error names its op and line; for other errors, adds the rank's last call.
std::string what_failed(const Threads& threads, int rank, const char* what) {
  const std::string text = detail::one_line(what);
  if (text.starts_with('[')) return text;
  const CallPlace last = threads.last_calls[static_cast<size_t>(rank)].get();
  if (last.op == nullptr) return text;
  return fmt::format("{}, after {} at {}", text, last.op, last.where.text());
}

struct Rank {
  GeneratorState random;
  std::exception_ptr error;
};

void run_rank(const Shared<Threads>& threads, std::span<const int> ranks, int rank, double timeout,
              const Callback<void(const Group&)>& body, Rank& state) {
  Generator generator;
  generator.set_state(state.random);
  const GeneratorGuard own_random(generator);
  const OneThreadGuard alone;
  try {
    const Shared<Member> member =
        Shared<Member>::make(detail::make_local_wire(threads, threads->next_hub(ranks, rank), rank),
                             std::vector<int>(ranks.begin(), ranks.end()), rank, timeout);
    struct InWorld {
      explicit InWorld(const Shared<Member>& world) { detail::thread_world = &world; }
      ~InWorld() { detail::thread_world = nullptr; }
    } const in_world(member);
    body(Group(member));
  } catch (const std::exception& error) {
    state.error = std::current_exception();
    threads->fail(rank, what_failed(*threads, rank, error.what()));
  } catch (...) {
    state.error = std::current_exception();
    threads->fail(rank, what_failed(*threads, rank, "it threw something that is no std::exception"));
  }
  threads->wait_for_works(rank);
  threads->end(rank);
}

}  // namespace

LocalWorld::LocalWorld(int ranks, LocalWorldOptions options, Location where) : size_(ranks), options_(options) {
  const CallScope call("LocalWorld", where);
  expect_at_least("ranks", ranks, 1);
}

void LocalWorld::run(const Callback<void(const Group&)>& body, Location where) const {
  const CallScope call("LocalWorld::run", where);
  const double timeout = options_.timeout_seconds > 0 ? options_.timeout_seconds : detail::default_timeout();
  const Shared<Threads> threads = Shared<Threads>::make(static_cast<size_t>(size_));
  std::vector<int> ranks(static_cast<size_t>(size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  std::vector<Rank> states(ranks.size(), {default_generator().state(), nullptr});
  std::vector<std::thread> running;
  try {
    for (int r = 0; r < size_; ++r) {
      running.emplace_back([&, r] { run_rank(threads, ranks, r, timeout, body, states[static_cast<size_t>(r)]); });
    }
  } catch (const std::exception& error) {  // the system is out of threads
    threads->fail(static_cast<int>(running.size()), error.what());
    for (std::thread& thread : running) thread.join();
    throw;
  }
  for (std::thread& thread : running) thread.join();
  if (threads->failed_rank >= 0) {
    const std::exception_ptr first = states[static_cast<size_t>(threads->failed_rank)].error;
    if (first != nullptr) std::rethrow_exception(first);
  }
  for (const Rank& state : states) {
    if (state.error != nullptr) std::rethrow_exception(state.error);
  }
}

}  // namespace weft::distributed
