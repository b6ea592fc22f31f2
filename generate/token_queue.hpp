// Tokens from the process that generates them to the one that shows them.
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
  /// Whether nothing follows.
  bool stop = false;
};

struct TokenQueueOptions {
  /// How long `send` waits where the queue is full.
  double send_seconds = 60;
  /// How long `receive` waits for a message.
  double receive_seconds = std::numeric_limits<double>::infinity();
  /// How much the queue holds at least, where the system allows it; unread messages count.
  int64_t capacity_bytes = int64_t{1} << 20;
};

/// A queue of messages between processes of one user, found by its number; queues of other numbers are others. It is a
/// named pipe, whose messages last as long as one process has it. One thread sends at a time and one receives; ends may
/// come and go, and be killed.
class WEFT_API TokenQueue {
 public:
  /// ValueError for a negative number; IoError where no pipe can be made.
  explicit TokenQueue(int queue_id, TokenQueueOptions options = {}, Location where = {});
  ~TokenQueue();
  TokenQueue(TokenQueue&&) noexcept;

  /// Rank 0 sends, other ranks return at once. `tokens` are [batch] or [batch, 1] integers of 64 or 32 bits, on any
  /// device, of any number. IoError where the queue stays full: the message is not sent then, or its receiver is told
  /// that it is not whole. ShapeError, DTypeError.
  void send(const Tensor& tokens, bool stop, int rank = 0, Location where = {});
  /// The next message; none where there is none, or with `block` none came in time. FormatError for a message that is
  /// not whole, as soon as the process that was sending it has ended, and for bytes that are none: they are dropped,
  /// and the next call goes on behind them.
  std::optional<TokenMessage> receive(bool block, Location where = {});

  /// Removes the pipe; processes that have it go on among themselves.
  static void remove(int queue_id);

 private:
  struct Impl;
  weft::detail::Pimpl<Impl> impl_;
};

}  // namespace weft::generate
