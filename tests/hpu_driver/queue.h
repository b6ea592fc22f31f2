// Commands, the worker thread that runs them in order, command queues and command lists.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "event.h"
#include "memory.h"

namespace weft::testing::ze {

struct Command {
  const char* name;
  std::vector<std::shared_ptr<Event>> waits;
  std::shared_ptr<Event> signal;
  std::vector<MemoryUse> memory;
  std::function<void()> body;
  bool is_launch = false;
};

class Worker {
 public:
  Worker();
  ~Worker();

  void submit(std::shared_ptr<const Command> command);
  ze_result_t synchronize(uint64_t timeout);

 private:
  void loop();
  // The number of executed commands; one may be held back as an injected fault.
  size_t step(std::shared_ptr<const Command> command);
  void execute(const Command& command);

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable idle_;
  std::deque<std::shared_ptr<const Command>> commands_;
  size_t unfinished_ = 0;
  std::shared_ptr<const Command> held_;
  bool sleeping_ = false;
  bool stop_ = false;
  std::minstd_rand random_;
  std::thread thread_;  // last: it uses all of the above
};

struct CommandQueue {
  Device* device = nullptr;
  bool synchronous = false;
  Worker worker;
};

struct CommandList {
  Device* device = nullptr;
  std::unique_ptr<CommandQueue> immediate;  // null for a list that is recorded and executed later
  bool closed = false;
  std::vector<std::shared_ptr<const Command>> recorded;
  std::mutex calls;
};

struct Fence {
  std::shared_ptr<Event> event = std::make_shared<Event>(nullptr);
};

// Queues a command on the list, or records it.
ze_result_t append(CommandList& list, Command command, ze_event_handle_t signal, uint32_t wait_count,
                   ze_event_handle_t* waits);

}  // namespace weft::testing::ze
