#include "process.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <numeric>
#include <thread>

#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "../error.hpp"

namespace weft::distributed::mpi {

namespace {

/// MPI counts bytes in an int.
constexpr size_t largest_message = size_t{1} << 30;
constexpr size_t longest_notice = 600;
constexpr auto spin_time = std::chrono::milliseconds(1);
constexpr auto look_interval = std::chrono::milliseconds(20);
/// Messages of a rank that exited may still arrive within this time.
constexpr auto grace = std::chrono::milliseconds(200);

constinit Process* the_process = nullptr;
constinit std::terminate_handler outer_terminate = nullptr;

}  // namespace

Process::Process(const Library& library) : mpi_(library) {
  const CallPlace here = weft::detail::current_call;
  int running = 0, level = 0;
  check(mpi_.MPI_Initialized(&running), "MPI_Initialized", here);
  if (running != 0) check(mpi_.MPI_Query_thread(&level), "MPI_Query_thread", here);
  else check(mpi_.MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level), "MPI_Init_thread", here);
  finalizes_ = running == 0;
  if (level < MPI_THREAD_MULTIPLE) one_at_a_time_.emplace();
  for (MPI_Comm& comm : comms_) {
    check(mpi_.MPI_Comm_dup(mpi_.comm_world, &comm), "MPI_Comm_dup", here);
    check(mpi_.MPI_Comm_set_errhandler(comm, mpi_.errors_return), "MPI_Comm_set_errhandler", here);
  }
  check(mpi_.MPI_Comm_rank(comms_[0], &rank_), "MPI_Comm_rank", here);
  check(mpi_.MPI_Comm_size(comms_[0], &size_), "MPI_Comm_size", here);
  others_ = std::vector<Other>(static_cast<size_t>(size_));
  learn_where_others_run();
  the_process = this;
  std::atexit(at_exit);
  outer_terminate = std::set_terminate(at_terminate);
}

void Process::learn_where_others_run() {
  char name[256] = {};
  gethostname(name, sizeof(name) - 1);
  const int64_t own[2] = {static_cast<int64_t>(std::hash<std::string>()(name)), getpid()};
  std::vector<int64_t> all(2 * others_.size());
  check(mpi_.MPI_Allgather(own, sizeof(own), mpi_.byte, all.data(), sizeof(own), mpi_.byte, comms_[0]), "MPI_Allgather",
        weft::detail::current_call);
  int here = 0;
  for (size_t r = 0; r < others_.size(); ++r) {
    others_[r].host = all[2 * r];
    others_[r].process = all[2 * r + 1];
    here += others_[r].host == own[0] ? 1 : 0;
  }
  crowded_ = here > static_cast<int>(std::thread::hardware_concurrency());
}

std::optional<std::unique_lock<std::mutex>> Process::lock() {
  if (!one_at_a_time_) return {};
  return std::unique_lock(*one_at_a_time_);
}

void Process::check(int code, const char* function, const CallPlace& place) {
  if (code == MPI_SUCCESS) [[likely]]
    return;
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  mpi_.MPI_Error_string(code, text, &length);
  throw DistributedError(
      format_error({.op = place.op, .problem = fmt::format("{} failed: {}", function, text)}, place.where));
}

void Process::send(std::vector<Request>& requests, Channel channel, int to, int tag, const void* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += largest_message) {
    const size_t n = std::min(bytes - at, largest_message);
    Request request{mpi_.request_null, to, false, n};
    const auto guard = lock();
    check(mpi_.MPI_Isend(static_cast<const char*>(data) + at, static_cast<int>(n), mpi_.byte, to, tag, comm(channel),
                         &request.handle),
          "MPI_Isend", weft::detail::current_call);
    requests.push_back(request);
  }
}

void Process::receive(std::vector<Request>& requests, Channel channel, int from, int tag, void* data, size_t bytes) {
  for (size_t at = 0; at < bytes; at += largest_message) {
    const size_t n = std::min(bytes - at, largest_message);
    Request request{mpi_.request_null, from, true, n};
    const auto guard = lock();
    check(mpi_.MPI_Irecv(static_cast<char*>(data) + at, static_cast<int>(n), mpi_.byte, from, tag, comm(channel),
                         &request.handle),
          "MPI_Irecv", weft::detail::current_call);
    requests.push_back(request);
  }
}

bool Process::test(std::vector<Request>& requests, const CallPlace& place) {
  const auto differs = [&](const Request& request, const std::string& what) {
    throw DistributedError(format_error(
        {.op = place.op,
         .problem =
             fmt::format("rank {} sent {} where rank {} expects {} bytes", request.other, what, rank_, request.bytes),
         .details = "the calls of the ranks do not agree; WEFT_CHECK_COLLECTIVES=1 names them"},
        place.where));
  };
  while (!requests.empty()) {
    Request& request = requests.back();
    int done = 0, bytes = 0;
    MPI_Status status;
    int code;
    {
      const auto guard = lock();
      code = mpi_.MPI_Test(&request.handle, &done, &status);
      if (code == MPI_SUCCESS && done != 0 && request.receives) mpi_.MPI_Get_count(&status, mpi_.byte, &bytes);
    }
    if (code != MPI_SUCCESS) {
      const Request failed = request;
      requests.pop_back();
      if (code == MPI_ERR_TRUNCATE) differs(failed, "more");
      check(code, "MPI_Test", place);
    }
    if (done == 0) return false;
    const Request complete = request;
    requests.pop_back();
    if (complete.receives && static_cast<size_t>(bytes) != complete.bytes) {
      differs(complete, fmt::format("{} bytes", bytes));
    }
  }
  return true;
}

template <class Done, class Late>
void Process::poll(Done done, Late late, const std::vector<Request>& requests, const CallPlace& place,
                   Clock::time_point deadline) {
  for (int i = 0; i < 64; ++i) {
    if (done()) return;
  }
  const auto start = Clock::now();
  auto next_look = start + look_interval;
  for (;;) {
    for (int i = 0; i < 32; ++i) {
      if (done()) return;
      if (crowded_) sched_yield();
    }
    const auto now = Clock::now();
    if (now - start > spin_time) {
      if (done()) return;
      sched_yield();
      if (now - start > 20 * spin_time) std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    if (now >= next_look) {
      look_around(requests, place);
      next_look = now + look_interval;
    }
    if (now >= deadline) late();
  }
}

void Process::wait(std::vector<Request>& requests, const CallPlace& place, Clock::time_point deadline) {
  try {
    poll([&] { return test(requests, place); },
         [&] { raise_absent(requests.back().other, "did not arrive in time", place); }, requests, place, deadline);
  } catch (...) {
    give_up(requests);
    throw;
  }
}

void Process::wait_for_message(Channel channel, int from, int tag, const CallPlace& place, Clock::time_point deadline) {
  const std::vector<Request> awaited = {{mpi_.request_null, from, true, 0}};
  const auto there = [&] {
    int found = 0;
    const auto guard = lock();
    check(mpi_.MPI_Iprobe(from, tag, comm(channel), &found, MPI_STATUS_IGNORE), "MPI_Iprobe", place);
    return found != 0;
  };
  poll(
      there, [&] { raise_absent(from, "did not arrive in time", place); }, awaited, place, deadline);
}

void Process::give_up(std::vector<Request>& requests) noexcept {
  const auto guard = lock();
  for (Request& request : requests) {
    if (request.receives) mpi_.MPI_Cancel(&request.handle);
    mpi_.MPI_Request_free(&request.handle);
  }
  requests.clear();
}

bool Process::is_dead(const Other& other) const {
  return other.host == others_[static_cast<size_t>(rank_)].host && kill(static_cast<pid_t>(other.process), 0) != 0 &&
         errno == ESRCH;
}

void Process::look_around(const std::vector<Request>& requests, const CallPlace& place) {
  take_notices();
  check_failed(place);
  for (const Request& request : requests) {
    Other& other = others_[static_cast<size_t>(request.other)];
    if (is_dead(other)) raise_absent(request.other, fmt::format("(process {}) has died", other.process).c_str(), place);
    if (!other.ended.load(std::memory_order_acquire)) continue;
    if (Clock::now() < other.ended_at + grace) return;
    raise_absent(request.other, "has ended its program", place);
  }
}

void Process::take_notices() {
  const auto guard = lock();
  for (;;) {
    int found = 0;
    MPI_Status status;
    if (mpi_.MPI_Iprobe(MPI_ANY_SOURCE, 0, comm(Channel::notices), &found, &status) != MPI_SUCCESS || found == 0)
      return;
    char text[longest_notice + 1] = {};
    if (mpi_.MPI_Recv(text, longest_notice, mpi_.byte, status.MPI_SOURCE, 0, comm(Channel::notices),
                      MPI_STATUS_IGNORE) != MPI_SUCCESS) {
      return;
    }
    if (text[0] == 'E') {
      Other& other = others_[static_cast<size_t>(status.MPI_SOURCE)];
      other.ended_at = Clock::now();
      other.ended.store(true, std::memory_order_release);
      continue;
    }
    const std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) continue;
    failure_ = fmt::format("rank {} failed\n{}", status.MPI_SOURCE, text + 1);
    failed_.store(true, std::memory_order_release);
  }
}

void Process::tell_others(char kind, const std::string& what) noexcept {
  const auto guard = lock();
  told_ = kind + what.substr(0, longest_notice - 1);
  for (int r = 0; r < size_; ++r) {
    if (r == rank_) continue;
    MPI_Request request;
    if (mpi_.MPI_Isend(told_.data(), static_cast<int>(told_.size()), mpi_.byte, r, 0, comm(Channel::notices),
                       &request) == MPI_SUCCESS) {
      mpi_.MPI_Request_free(&request);
    }
  }
}

void Process::check_failed(const CallPlace& place) {
  if (!failed_.load(std::memory_order_acquire)) [[likely]]
    return;
  const size_t end = failure_.find('\n');
  throw DistributedError(format_error({.op = place.op,
                                       .problem = failure_.substr(0, end),
                                       .details = end == failure_.npos ? "" : failure_.substr(end + 1)},
                                      place.where));
}

void Process::check_others(std::span<const int> ranks, const CallPlace& place) {
  take_notices();
  check_failed(place);
  for (const int rank : ranks) {
    const Other& other = others_[static_cast<size_t>(rank)];
    if (is_dead(other)) raise_absent(rank, fmt::format("(process {}) has died", other.process).c_str(), place);
  }
}

void Process::raise_absent(int other, const char* what, const CallPlace& place) {
  throw DistributedError(
      format_error({.op = place.op, .problem = fmt::format("rank {} {}", other, what)}, place.where));
}

void Process::fail(const std::string& what) noexcept {
  {
    const std::lock_guard lock(mutex_);
    if (failed_.load(std::memory_order_relaxed)) return;
    failure_ = fmt::format("rank {} failed\n{}", rank_, what);
    failed_.store(true, std::memory_order_release);
  }
  tell_others('F', what);
}

void Process::keep(std::vector<Tensor> memory) {
  const std::lock_guard lock(mutex_);
  for (Tensor& tensor : memory) kept_.push_back(std::move(tensor));
}

// MPI_Finalize waits for all ranks, and hangs if one is gone; so it is called only after all ranks are here.
void Process::finish() {
  if (getpid() != others_[static_cast<size_t>(rank_)].process) return;  // a forked child
  int finalized = 0;
  mpi_.MPI_Finalized(&finalized);
  if (finalized != 0 || failed_.load(std::memory_order_acquire)) return;
  while (works_.load(std::memory_order_acquire) != 0) std::this_thread::sleep_for(std::chrono::microseconds(100));
  if (failed_.load(std::memory_order_acquire)) return;
  tell_others('E', "");
  others_[static_cast<size_t>(rank_)].ended.store(true, std::memory_order_release);
  for (int64_t looks = 0;; ++looks) {
    take_notices();
    if (failed_.load(std::memory_order_acquire)) return;
    const auto absent = std::find_if(others_.begin(), others_.end(), [](const Other& other) { return !other.ended; });
    if (absent == others_.end()) break;
    if (is_dead(*absent)) return;
    if (looks > 1000) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (finalizes_) mpi_.MPI_Finalize();
}

void Process::at_exit() { the_process->finish(); }

// On an uncaught exception, notifies the other ranks before mpirun ends them.
void Process::at_terminate() {
  std::string what = "it was terminated";
  if (const std::exception_ptr error = std::current_exception()) {
    try {
      std::rethrow_exception(error);
    } catch (const std::exception& e) {
      what = detail::one_line(e.what());
    } catch (...) {
      what = "an exception that is no std::exception";
    }
  }
  the_process->fail(what);
  std::this_thread::sleep_for(grace);
  if (outer_terminate != nullptr) outer_terminate();
  std::abort();
}

Shared<detail::Member> start_world(std::string& why) {
  const Library* const library = find_library(why);
  if (library == nullptr) return {};
  static Process& process = *new Process(*library);
  std::vector<int> ranks(static_cast<size_t>(process.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  Shared<detail::Wire> wire = make_wire(process, ranks, process.rank(), 1);
  return Shared<detail::Member>::make(std::move(wire), std::move(ranks), process.rank(), detail::default_timeout());
}

}  // namespace weft::distributed::mpi
