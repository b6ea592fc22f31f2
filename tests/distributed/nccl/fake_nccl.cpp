// A library with NCCL's functions, with threads of one process as ranks and host memory. It guarantees only NCCL's
// documented behaviour: functions return before they are done, sends wait for their receives, sums are in another order
// than that of ranks, and a rank that aborts leaves the others waiting. What a caller may not do is counted as
// "misuse".
#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "fake_nccl.hpp"

namespace {

using fake_nccl::Fault;

enum Result : int {
  success,
  cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress
};
struct UniqueId {
  char internal[128];
};
struct Config {
  size_t size;
  unsigned magic, version;
  int blocking;
};

struct Message {
  const void* data;
  size_t bytes;
  bool taken = false;
};
/// The arguments of a rank for a collective.
struct Part {
  std::string kind;
  const void* in = nullptr;
  size_t count = 0;
  int type = 0, op = 0, root = 0;
};
struct Meeting {
  std::map<int, Part> parts;
  int left = 0;
};

struct World {
  std::mutex mutex;
  std::condition_variable changed;
  int ranks = 0, joined = 0;
  std::map<std::pair<int, int>, std::deque<Message*>> mail;
  std::map<uint64_t, Meeting> meetings;
};

struct Comm {
  std::shared_ptr<World> world;
  int rank = 0;
  // Under the world's mutex.
  bool aborted = false;
  Result failed = success;
  int under_way = 0;
  uint64_t met = 0;
  // The caller's.
  bool settled = false;
  bool taking = false;
};

struct Call {
  std::string kind;
  const void* in = nullptr;
  void* out = nullptr;
  size_t count = 0;
  int type = 0, op = 0, peer = 0;
  Comm* comm = nullptr;
  fake_nccl::Stream* stream = nullptr;
};

std::mutex registry_mutex;
std::map<std::string, std::shared_ptr<World>> worlds;
std::map<std::string, int> counts;
std::map<std::pair<Fault, int>, int> faults;
std::atomic<int> ids{0};
thread_local int depth = 0;
thread_local std::vector<Call> group;
thread_local Result group_failed = success;

void count(const std::string& what) {
  const std::lock_guard lock(registry_mutex);
  ++counts[what];
}
Result misuse() {
  count("misuse");
  return invalid_usage;
}
bool strikes(Fault fault, int rank) {
  const std::lock_guard lock(registry_mutex);
  return faults.erase({fault, rank}) != 0;
}

size_t size_of(int type) {
  constexpr size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return sizes[type];
}

template <class T>
T combine(int op, T a, T b) {
  switch (op) {
    case 1:
      return static_cast<T>(a * b);
    case 2:
      return std::max(a, b);
    case 3:
      return std::min(a, b);
    default:
      return static_cast<T>(a + b);
  }
}

float from_bf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float out;
  std::memcpy(&out, &wide, sizeof(out));
  return out;
}
uint16_t to_bf16(float x) {
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/// From the last rank down, rounded at each step.
template <class T>
void combine_all(const std::vector<const void*>& parts, void* out, size_t first, size_t n, int op) {
  for (size_t i = 0; i < n; ++i) {
    T total = static_cast<const T*>(parts.back())[first + i];
    for (size_t r = parts.size() - 1; r-- > 0;) total = combine(op, total, static_cast<const T*>(parts[r])[first + i]);
    if (op == 4) total = static_cast<T>(total / static_cast<T>(parts.size()));
    static_cast<T*>(out)[i] = total;
  }
}
void combine_bf16(const std::vector<const void*>& parts, void* out, size_t first, size_t n, int op) {
  for (size_t i = 0; i < n; ++i) {
    const auto at = [&](size_t r) { return from_bf16(static_cast<const uint16_t*>(parts[r])[first + i]); };
    float total = at(parts.size() - 1);
    for (size_t r = parts.size() - 1; r-- > 0;) total = from_bf16(to_bf16(combine(op, total, at(r))));
    if (op == 4) total /= static_cast<float>(parts.size());
    static_cast<uint16_t*>(out)[i] = to_bf16(total);
  }
}
bool combine_typed(int type, const std::vector<const void*>& parts, void* out, size_t first, size_t n, int op) {
  switch (type) {
    case 0:
      return combine_all<int8_t>(parts, out, first, n, op), true;
    case 1:
      return combine_all<uint8_t>(parts, out, first, n, op), true;
    case 2:
      return combine_all<int32_t>(parts, out, first, n, op), true;
    case 3:
      return combine_all<uint32_t>(parts, out, first, n, op), true;
    case 4:
      return combine_all<int64_t>(parts, out, first, n, op), true;
    case 5:
      return combine_all<uint64_t>(parts, out, first, n, op), true;
    case 7:
      return combine_all<float>(parts, out, first, n, op), true;
    case 8:
      return combine_all<double>(parts, out, first, n, op), true;
    case 9:
      return combine_bf16(parts, out, first, n, op), true;
    default:
      return false;
  }
}

/// On the stream. Waits end by the rank's own abort alone.
class Batch {
 public:
  explicit Batch(std::vector<Call> calls) : calls_(std::move(calls)), comm_(*calls_[0].comm) {}

  void run() {
    const std::shared_ptr<World> world = comm_.world;
    std::unique_lock lock(world->mutex);
    if (strikes(Fault::hangs, comm_.rank)) wait(lock, [] { return false; });
    std::deque<Message> sent;
    for (const Call& call : calls_) {
      if (call.kind != "Send") continue;
      sent.push_back({call.in, call.count * size_of(call.type)});
      world->mail[{comm_.rank, call.peer}].push_back(&sent.back());
    }
    world->changed.notify_all();
    for (const Call& call : calls_) {
      if (call.kind == "Recv") receive(lock, call);
      else if (call.kind != "Send") meet(lock, call);
    }
    wait(lock, [&] { return std::all_of(sent.begin(), sent.end(), [](const Message& m) { return m.taken; }); });
    for (auto& [ends, waiting] : world->mail) {  // of an aborted rank
      std::erase_if(waiting, [&](Message* m) {
        return std::any_of(sent.begin(), sent.end(), [&](const Message& mine) { return &mine == m; });
      });
    }
    --comm_.under_way;
    world->changed.notify_all();
  }

 private:
  template <class Done>
  bool wait(std::unique_lock<std::mutex>& lock, Done done) {
    comm_.world->changed.wait(lock, [&] { return comm_.aborted || done(); });
    return !comm_.aborted;
  }
  void receive(std::unique_lock<std::mutex>& lock, const Call& call) {
    auto& waiting = comm_.world->mail[{call.peer, comm_.rank}];
    if (!wait(lock, [&] { return !waiting.empty(); })) return;
    Message& message = *waiting.front();
    waiting.pop_front();
    if (message.bytes != call.count * size_of(call.type)) comm_.failed = internal_error;
    else std::memcpy(call.out, message.data, message.bytes);
    message.taken = true;
    comm_.world->changed.notify_all();
  }
  void meet(std::unique_lock<std::mutex>& lock, const Call& call) {
    World& world = *comm_.world;
    Meeting& meeting = world.meetings[comm_.met++];
    meeting.parts[comm_.rank] = {call.kind, call.in, call.count, call.type, call.op, call.peer};
    world.changed.notify_all();
    const auto ranks = static_cast<size_t>(world.ranks);
    if (!wait(lock, [&] { return meeting.parts.size() == ranks; })) return;
    std::vector<const void*> in;
    for (const auto& [rank, part] : meeting.parts) {
      const Part& first = meeting.parts.at(0);
      const bool same = part.kind == first.kind && part.count == first.count && part.type == first.type &&
                        part.op == first.op && part.root == first.root;
      if (!same) comm_.failed = internal_error;
      in.push_back(part.in);
    }
    const size_t item = size_of(call.type), bytes = call.count * item;
    const auto me = static_cast<size_t>(comm_.rank);
    std::vector<char> out;
    if (call.kind == "Broadcast") {
      const char* const root = static_cast<const char*>(in[static_cast<size_t>(call.peer)]);
      out.assign(root, root + bytes);
    } else if (call.kind == "AllGather") {
      for (const void* part : in)
        out.insert(out.end(), static_cast<const char*>(part), static_cast<const char*>(part) + bytes);
    } else if (call.kind != "Reduce" || comm_.rank == call.peer) {
      out.resize(bytes);
      const size_t first = call.kind == "ReduceScatter" ? me * call.count : 0;
      if (!combine_typed(call.type, in, out.data(), first, call.count, call.op)) comm_.failed = invalid_argument;
    }
    ++meeting.left;
    world.changed.notify_all();
    if (!wait(lock, [&] { return meeting.left == world.ranks; })) return;
    std::memcpy(call.out, out.data(), out.size());
  }

  const std::vector<Call> calls_;
  Comm& comm_;
};

/// A call outside of a group is a group of one.
Result add(Call call) {
  count(call.kind);
  if (call.comm == nullptr || call.stream == nullptr || !call.comm->settled || call.comm->taking) return misuse();
  if (call.count == 0 || call.type < 0 || call.type > 9) return misuse();
  if (call.kind == "Send" && strikes(Fault::send_fails, call.comm->rank)) return group_failed = system_error;
  if (depth == 0) return misuse();
  group.push_back(std::move(call));
  return success;
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

void fake_nccl_fault(Fault fault, int rank) {
  const std::lock_guard lock(registry_mutex);
  faults[{fault, rank}] = 1;
}
int fake_nccl_count(const char* what) {
  const std::lock_guard lock(registry_mutex);
  return counts[what];
}
void fake_nccl_reset() {
  const std::lock_guard lock(registry_mutex);
  counts.clear();
  faults.clear();
}

Result ncclGetVersion(int* version) { return *version = 22809, success; }
const char* ncclGetErrorString(Result result) {
  constexpr const char* texts[] = {
      "no error",         "unhandled cuda error", "unhandled system error", "internal error",
      "invalid argument", "invalid usage",        "remote process exited",  "in progress"};
  return texts[result];
}
const char* ncclGetLastError(Comm*) { return "fake NCCL says so"; }
Result ncclGetUniqueId(UniqueId* id) {
  if (strikes(Fault::no_id, 0)) return system_error;
  *id = {};
  const std::string text = "world " + std::to_string(++ids);
  text.copy(id->internal, text.size());
  return success;
}

Result ncclCommInitRankConfig(Comm** made, int ranks, UniqueId id, int rank, Config* config) {
  count("CommInitRankConfig");
  if (config->magic != 0xcafebeef || config->version < 21400 || config->size < 20 || config->blocking != 0)
    return misuse();
  if (strikes(Fault::init_fails, rank)) return *made = nullptr, system_error;
  std::shared_ptr<World> world;
  {
    const std::lock_guard lock(registry_mutex);
    std::shared_ptr<World>& known = worlds[id.internal];
    if (known == nullptr) known = std::make_shared<World>();
    world = known;
  }
  const std::lock_guard lock(world->mutex);
  world->ranks = ranks;
  ++world->joined;
  *made = new Comm{world, rank};
  return in_progress;
}

Result ncclCommGetAsyncError(Comm* comm, Result* result) {
  if (comm == nullptr) return misuse();
  if (strikes(Fault::async_error, comm->rank)) return *result = remote_error, success;
  const std::lock_guard lock(comm->world->mutex);
  *result = comm->failed != success ? comm->failed : comm->world->joined < comm->world->ranks ? in_progress : success;
  if (comm->taking && *result == success) {  // a moment later
    comm->taking = false;
    *result = in_progress;
  } else if (*result == success) {
    comm->settled = true;
  }
  return success;
}

Result ncclCommAbort(Comm* comm) {
  count("CommAbort");
  {
    std::unique_lock lock(comm->world->mutex);
    comm->aborted = true;
    comm->world->changed.notify_all();
    comm->world->changed.wait(lock, [&] { return comm->under_way == 0; });
  }
  delete comm;
  return success;
}

Result ncclGroupStart() { return ++depth, success; }
Result ncclGroupEnd() {
  if (depth == 0) return misuse();
  if (--depth != 0) return success;
  if (group.empty()) return std::exchange(group_failed, success);
  std::vector<Call> calls;
  std::swap(calls, group);
  if (group_failed != success) return std::exchange(group_failed, success);
  Comm& comm = *calls[0].comm;
  {
    const std::lock_guard lock(comm.world->mutex);
    ++comm.under_way;
  }
  comm.taking = true;
  fake_nccl::Stream& stream = *calls[0].stream;
  stream.push([batch = std::make_shared<Batch>(std::move(calls))] { batch->run(); });
  return in_progress;
}

Result ncclSend(const void* data, size_t n, int type, int to, Comm* comm, void* stream) {
  return add({"Send", data, nullptr, n, type, 0, to, comm, static_cast<fake_nccl::Stream*>(stream)});
}
Result ncclRecv(void* data, size_t n, int type, int from, Comm* comm, void* stream) {
  return add({"Recv", nullptr, data, n, type, 0, from, comm, static_cast<fake_nccl::Stream*>(stream)});
}
Result ncclBroadcast(const void* in, void* out, size_t n, int type, int root, Comm* comm, void* stream) {
  return add({"Broadcast", in, out, n, type, 0, root, comm, static_cast<fake_nccl::Stream*>(stream)});
}
Result ncclAllGather(const void* in, void* out, size_t n, int type, Comm* comm, void* stream) {
  return add({"AllGather", in, out, n, type, 0, 0, comm, static_cast<fake_nccl::Stream*>(stream)});
}
Result ncclAllReduce(const void* in, void* out, size_t n, int type, int op, Comm* comm, void* stream) {
  return add({"AllReduce", in, out, n, type, op, 0, comm, static_cast<fake_nccl::Stream*>(stream)});
}
Result ncclReduce(const void* in, void* out, size_t n, int type, int op, int root, Comm* comm, void* stream) {
  return add({"Reduce", in, out, n, type, op, root, comm, static_cast<fake_nccl::Stream*>(stream)});
}
Result ncclReduceScatter(const void* in, void* out, size_t n, int type, int op, Comm* comm, void* stream) {
  return add({"ReduceScatter", in, out, n, type, op, 0, comm, static_cast<fake_nccl::Stream*>(stream)});
}

}  // extern "C"
#pragma GCC visibility pop
