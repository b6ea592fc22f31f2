#include "token_queue.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "../ops/create.hpp"
#include "../ops/detail/common.hpp"
#include "../tensor/expect-inl.hpp"

namespace weft::generate {

namespace {

using clock = std::chrono::steady_clock;

/// A message consists of one or more packets, which the system writes atomically.
struct Header {
  char name[4] = {'W', 'T', 'Q', 'u'};
  uint8_t version = 1;
  uint8_t stop = 0;
  uint16_t tokens = 0;  ///< in this packet
  uint32_t packet = 0, unused = 0;
  uint64_t message = 0;
  int64_t batch = 0;
};
static_assert(sizeof(Header) == 32);

constexpr int64_t packet_tokens = (PIPE_BUF - static_cast<int64_t>(sizeof(Header))) / 8;
constexpr int64_t most_tokens = int64_t{1} << 40;

struct Packet {
  Header header;
  int64_t tokens[packet_tokens];
};

std::string path_of(int id) {
  static const bool has_memory = access("/dev/shm", W_OK) == 0;
  return fmt::format("{}/weft-tokens-{}-{}", has_memory ? "/dev/shm" : "/tmp", getuid(), id);
}

[[noreturn]] void refuse(int id, std::string problem, Location where) {
  raise<IoError>({.op = "TokenQueue", .problem = fmt::format("queue {}: {}", id, problem)}, where);
}

/// Waits until the pipe is ready or the deadline passes; returns whether it is ready.
bool wait_for(int file, short what, clock::time_point deadline) {
  for (;;) {
    int milliseconds = -1;
    if (deadline != clock::time_point::max()) {
      const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - clock::now()).count();
      milliseconds = static_cast<int>(std::clamp<int64_t>(left, 0, INT_MAX));
    }
    pollfd ready{file, what, 0};
    const int count = poll(&ready, 1, milliseconds);
    if (count > 0) return true;
    if (count == 0 && milliseconds < INT_MAX) return false;
    if (count < 0 && errno != EINTR) return false;
  }
}

constexpr auto glance = std::chrono::milliseconds(20);

/// A lock of the pipe, which the system releases when the process ends. It opens its own descriptor, because forked
/// processes share the locks of inherited ones.
class PipeLock {
 public:
  explicit PipeLock(int pipe) : file_(open(fmt::format("/proc/self/fd/{}", pipe).c_str(), flags)) {}
  ~PipeLock() {
    if (file_ >= 0) close(file_);
  }
  PipeLock(const PipeLock&) = delete;

  bool can_take(int kind) const { return flock(file_, kind | LOCK_NB) == 0; }
  void take(clock::time_point deadline) const {
    while (!can_take(LOCK_EX) && errno == EWOULDBLOCK && clock::now() < deadline) poll(nullptr, 0, 1);
  }

 private:
  static constexpr int flags = O_RDWR | O_NONBLOCK | O_CLOEXEC;
  int file_;
};

clock::time_point deadline_in(double seconds) {
  constexpr double century = 3e9;
  if (!(seconds < century)) return clock::time_point::max();
  return clock::now() +
         std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(std::max(seconds, 0.0)));
}

}  // namespace

struct TokenQueue::Impl {
  int id;
  TokenQueueOptions options;
  int file = -1;
  uint64_t next_message = 0;
  /// Held while a message of several packets is incomplete.
  std::optional<PipeLock> sending;

  ~Impl() {
    if (file >= 0) close(file);
  }

  void open_pipe(Location where) {
    const std::string path = path_of(id);
    if (mkfifo(path.c_str(), 0600) != 0 && errno != EEXIST) refuse(id, std::strerror(errno), where);
    // Opened for reading and writing, so that neither end blocks in open or is notified when the other closes.
    file = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC | O_NOFOLLOW);
    if (file < 0) refuse(id, fmt::format("{}: {}", path, std::strerror(errno)), where);
    struct stat about {};
    if (fstat(file, &about) != 0 || !S_ISFIFO(about.st_mode) || about.st_uid != getuid()) {
      refuse(id, fmt::format("{} is not a pipe of this user", path), where);
    }
    const auto capacity = static_cast<int>(std::clamp<int64_t>(options.capacity_bytes, PIPE_BUF, INT_MAX));
    if (fcntl(file, F_GETPIPE_SZ) < capacity) fcntl(file, F_SETPIPE_SZ, capacity);
  }

  /// Writes a packet. Returns false if there was no room before the deadline.
  bool put(const Packet& packet, clock::time_point deadline, Location where) const {
    const size_t bytes = sizeof(Header) + size_t{8} * packet.header.tokens;
    for (;;) {
      const ssize_t written = write(file, &packet, bytes);
      if (written == static_cast<ssize_t>(bytes)) return true;
      if (written >= 0 || (errno != EAGAIN && errno != EINTR)) refuse(id, std::strerror(errno), where);
      if (errno == EAGAIN && !wait_for(file, POLLOUT, deadline)) return false;
    }
  }

  /// Reads up to `bytes` bytes, as available. Returns the number.
  size_t take(void* to, size_t bytes, Location where) const {
    size_t have = 0;
    while (have < bytes) {
      const ssize_t got = read(file, static_cast<char*>(to) + have, bytes - have);
      if (got > 0) have += static_cast<size_t>(got);
      else if (got < 0 && errno == EAGAIN) break;
      else if (got == 0 || errno != EINTR) refuse(id, std::strerror(errno), where);
    }
    return have;
  }

  [[noreturn]] void drop(const std::string& problem, Location where) {
    rest.reset();
    raise<FormatError>({.op = "TokenQueue::receive", .problem = fmt::format("queue {}: {}", id, problem)}, where);
  }
  [[noreturn]] void drop_all(const std::string& problem, Location where) {
    char bytes[PIPE_BUF];
    while (read(file, bytes, sizeof bytes) > 0) continue;
    drop(problem + "; the queue is dropped", where);
  }

  /// Reads the next packet. Returns false if there is none.
  bool take_packet(Packet& packet, Location where) {
    const size_t have = take(&packet.header, sizeof(Header), where);
    if (have == 0) return false;
    const Header& h = packet.header;
    if (have < sizeof(Header) || std::memcmp(h.name, Header().name, 4) != 0)
      drop_all("bytes that are no message", where);
    if (h.version != 1)
      drop_all(fmt::format("a message of version {}, which this program cannot read", h.version), where);
    if (h.batch < 0 || h.batch > most_tokens || h.stop > 1) drop_all("a message that was changed", where);
    const int64_t before = packet_tokens * h.packet;
    const int64_t expected = std::clamp<int64_t>(h.batch - before, 0, packet_tokens);
    if (h.tokens != expected || (expected == 0 && h.packet > 0)) drop_all("a message that was changed", where);
    const size_t bytes = size_t{8} * h.tokens;
    if (take(packet.tokens, bytes, where) < bytes) drop_all("a message that was cut off", where);
    return true;
  }

  bool has_packet() const { return waiting || wait_for(file, POLLIN, clock::now()); }
  /// Whether the rest of a message will not arrive. The sender locks the pipe until the message is complete or the
  /// process ends.
  bool is_abandoned() const { return rest && PipeLock(file).can_take(LOCK_SH) && !has_packet(); }

  /// A message that was received in part.
  struct Rest {
    Header first;
    uint32_t packets = 0;
    std::vector<int64_t> tokens;

    std::string missing(const char* why) const {
      return fmt::format("a message of {} tokens of which {} came: {}", first.batch, tokens.size(), why);
    }
  };
  std::optional<Rest> rest;
  /// The first packet of the next message, if the previous one was incomplete.
  std::optional<Packet> waiting;
};

TokenQueue::TokenQueue(int queue_id, TokenQueueOptions options, Location where)
    : impl_(new Impl{.id = queue_id, .options = options, .sending = {}, .rest = {}, .waiting = {}}) {
  if (queue_id < 0) raise<ValueError>({.op = "TokenQueue", .problem = fmt::format("number {}", queue_id)}, where);
  impl_->open_pipe(where);
  impl_->next_message = static_cast<uint64_t>(getpid()) << 32;
}
TokenQueue::~TokenQueue() = default;
TokenQueue::TokenQueue(TokenQueue&&) noexcept = default;

void TokenQueue::send(const Tensor& tokens, bool stop, int rank, Location where) {
  const CallScope call("TokenQueue::send", where);
  if (rank != 0) return;
  const bool fits = checked(tokens).dtype() == DType::i64 || tokens.dtype() == DType::i32;
  expect_dtype("tokens", tokens, fits, "int64 or int32");
  const bool one_each = tokens.dim() == 1 || (tokens.dim() == 2 && tokens.size(1) == 1);
  expect_shape("tokens", tokens, one_each, "[batch] or [batch, 1]");
  const std::vector<int64_t> all = tokens.to_vector<int64_t>();
  const uint64_t message = ++impl_->next_message;
  const auto deadline = deadline_in(impl_->options.send_seconds);
  if (std::ssize(all) > packet_tokens && !impl_->sending) impl_->sending.emplace(impl_->file).take(deadline);
  Packet packet;
  int64_t sent = 0;
  for (uint32_t number = 0; number == 0 || sent < std::ssize(all); ++number) {
    const int64_t own = std::min<int64_t>(packet_tokens, std::ssize(all) - sent);
    packet.header = {.stop = stop,
                     .tokens = static_cast<uint16_t>(own),
                     .packet = number,
                     .message = message,
                     .batch = std::ssize(all)};
    std::copy_n(all.begin() + sent, own, packet.tokens);
    if (!impl_->put(packet, deadline, where)) {
      refuse(impl_->id, fmt::format("full for {} s: nobody receives", impl_->options.send_seconds), where);
    }
    sent += own;
  }
  impl_->sending.reset();
}

std::optional<TokenMessage> TokenQueue::receive(bool block, Location where) {
  const CallScope call("TokenQueue::receive", where);
  const auto deadline = deadline_in(impl_->options.receive_seconds);
  std::optional<Impl::Rest>& rest = impl_->rest;
  for (;;) {
    Packet packet;
    if (impl_->waiting) {
      packet = *std::exchange(impl_->waiting, {});
    } else if (!impl_->take_packet(packet, where)) {
      if (impl_->is_abandoned()) impl_->drop(rest->missing("its sender ended"), where);
      const auto until = rest ? std::min(deadline, clock::now() + glance) : deadline;
      if (!block || (!wait_for(impl_->file, POLLIN, until) && until == deadline)) return {};
      continue;
    }
    const Header& h = packet.header;
    const bool begins = h.packet == 0;
    const bool goes_on = rest && h.message == rest->first.message && h.packet == rest->packets &&
                         h.batch == rest->first.batch && h.stop == rest->first.stop;
    if (rest && !goes_on) {
      if (begins) impl_->waiting = packet;
      impl_->drop(rest->missing("another one follows"), where);
    }
    if (!rest && !begins) impl_->drop("the end of a message whose beginning is lost", where);
    if (!rest) rest.emplace(Impl::Rest{.first = h, .tokens = {}});
    ++rest->packets;
    rest->tokens.insert(rest->tokens.end(), packet.tokens, packet.tokens + h.tokens);
    if (std::ssize(rest->tokens) < h.batch) continue;
    TokenMessage out{tensor(rest->tokens), h.stop != 0};
    rest.reset();
    return out;
  }
}

void TokenQueue::remove(int queue_id) { unlink(path_of(queue_id).c_str()); }

}  // namespace weft::generate
