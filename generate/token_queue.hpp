// Passes tokens from the process that generates them to a process that displays them.
//
//   generate::TokenQueue queue(3);                       // in both processes
//   queue.send(tokens, is_last, rank);                   // tokens [batch], step by step, in the first
//   while (auto message = queue.receive(true)) show(message->tokens, message->stop);   // in the second
#pragma once

#include <limits>
#include <optional>

#include "../tensor/index.hpp"
#include "../tensor/pimpl.hpp"

namespace weft::generate {

struct TokenMessage {
  /// [batch], i64, on the CPU.
  Tensor tokens;
  /// Whether this is the last message.
  bool stop = false;
};

struct TokenQueueOptions {
  /// Time that `send` waits if the queue is full.
  double send_seconds = 60;
  /// Time that `receive` waits for a message.
  double receive_seconds = std::numeric_limits<double>::infinity();
  /// Minimum capacity of the queue, if the system allows it. Unread messages use it.
  int64_t capacity_bytes = int64_t{1} << 20;
};

/// A message queue between processes of one user, identified by a number. It is a named pipe: messages are kept as long
/// as any process has it open. One thread may send and one receive at a time; both ends may be opened, closed and
/// killed at any time.
class WEFT_API TokenQueue {
 public:
  /// Raises ValueError for a negative number; IoError if the pipe cannot be created.
  explicit TokenQueue(int queue_id, TokenQueueOptions options = {}, Location where = {});
  ~TokenQueue();
  TokenQueue(TokenQueue&&) noexcept;

  /// Sends a message from rank 0; other ranks return at once. `tokens` are [batch] or [batch, 1] integers of 64 or 32
  /// bits, on any device, of any number. Raises ShapeError, DTypeError, and IoError if the queue stays full. The
  /// message is then not sent, or the receiver detects that it is incomplete.
  void send(const Tensor& tokens, bool stop, int rank = 0, Location where = {});
  /// Returns the next message. Returns nothing if there is none, or with `block` if none arrives in time. Raises
  /// FormatError for invalid bytes, and for an incomplete message as soon as its sender has ended. They are discarded,
  /// and the next call continues after them.
  std::optional<TokenMessage> receive(bool block, Location where = {});

  /// Removes the pipe. Processes that have it open can continue to use it.
  static void remove(int queue_id);

 private:
  struct Impl;
  weft::detail::Pimpl<Impl> impl_;
};

}  // namespace weft::generate
