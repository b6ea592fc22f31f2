// Faulty processes, one fault per word; faults.sh checks the visible effects.
#include <csignal>
#include <cstdlib>
#include <iostream>
#include <stdexcept>
#include <string>
#include <thread>

#include <unistd.h>

#include <weft/distributed.hpp>
#include <weft/weft.hpp>

using namespace weft;
using namespace weft::distributed;

namespace {

/// A stage throws during a step, and its process continues.
void run_pipeline(const Group& group, bool bad) {
  const nn::Linear part(4, 4);
  int calls = 0;
  const Pipeline pipeline({{[&](std::span<const Tensor> x) {
                            if (bad && ++calls == 3) throw std::runtime_error("the third micro-batch");
                            return std::vector<Tensor>{part(x[0])};
                          }}},
                          {.micro_batches = 6, .group = group});
  pipeline.run({.input =
                    [](int) {
                      return std::vector<Tensor>{ones({2, 4})};
                    },
                .loss = [](int, std::span<const Tensor> y) { return y[0].sum(); }});
}

ShardedRun run_of(const Tensor& rows, const Group& group) {
  return {.model = {{"w", {rows, Dims{rows.size(0) * group.size(), 8}, Dims{rows.size(0) * group.rank(), 0}}}}};
}

/// A process is killed in the midst of a save, the first of which are whole.
void save_until_killed(const Group& group, bool bad) {
  std::thread killer;
  for (int64_t step = 1;; ++step) {
    if (bad && step == 5) {
      killer = std::thread([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        std::raise(SIGKILL);
      });
    }
    save_training_state(std::getenv("WEFT_TEST_FOLDER"), run_of(full({100, 8}, static_cast<double>(step)), group),
                        {.step = step}, group, {.keep_last = 2});
  }
}

int load_what_was_saved(const Group& group) {
  const Tensor w = zeros({300, 8});
  const int64_t step = load_training_state(std::getenv("WEFT_TEST_FOLDER"), run_of(w, group), group).step;
  const bool whole = step >= 4 && equal(w, full({300, 8}, static_cast<double>(step)));
  std::cout << "step " << step << (whole ? " is whole\n" : " is broken\n");
  return whole ? 0 : 1;
}

/// The error on the healthy ranks. Whole lines, because processes share the output.
template <class F>
int report(F call) {
  try {
    call();
  } catch (const DistributedError& error) {
    const std::string text = "rank " + std::to_string(rank()) + " sees: " + error.what() + "\n";
    return write(STDOUT_FILENO, text.data(), text.size()) > 0 ? 3 : 4;
  }
  return 0;
}

int run(const std::string& fault) {
  const Group group = world();
  const bool bad = group.rank() == 1;
  const Tensor x = ones({1000});
  all_reduce_(x, group);
  if (fault == "throws") {
    if (bad) throw std::runtime_error("the disk is full");
  } else if (fault == "ends") {
    if (bad) return 0;
  } else if (fault == "killed") {
    for (int i = 0; i < 100 && !bad; ++i) {
      if (const int code = report([&] { all_reduce_(x, group); })) return code;
    }
    for (int i = 0; i < 10; ++i) all_reduce_(x, group);
    std::raise(SIGKILL);
  } else if (fault == "late") {
    if (bad) {
      std::this_thread::sleep_for(std::chrono::seconds(2));
      return report([&] { all_reduce(x, group); });
    }
  } else if (fault == "differs") {
    return report([&] {
      if (bad) all_reduce(x.to(f64), group);
      else all_reduce(x, group);
    });
  } else if (fault == "order") {
    return report([&] {
      if (bad) {
        all_gather(x, group);
        barrier(group);
      } else {
        barrier(group);
        all_gather(x, group);
      }
    });
  } else if (fault == "message") {
    return report([&] {
      if (bad) receive_(zeros({2, 3}), 0, group);
      else send(ones({3, 2}), 1, group);
      barrier(group);
    });
  } else if (fault == "again") {
    return report([&] {
      if (bad) report([&] { receive(0, group); });
      else report([&] { receive(1, group); });
      all_reduce(x, group);
    });
  } else if (fault == "saving") {
    return report([&] { save_until_killed(group, bad); });
  } else if (fault == "saved") {
    return load_what_was_saved(group);
  } else if (fault == "pipeline") {
    if (!bad) return report([&] { run_pipeline(group, bad); });
    try {
      run_pipeline(group, bad);
    } catch (const std::runtime_error&) {
      std::this_thread::sleep_for(std::chrono::seconds(1));
    }
  } else {
    std::cerr << "no such fault\n";
    return 2;
  }
  return report([&] { all_reduce(x, group); });
}

}  // namespace

int main(int argc, char** argv) { return argc == 2 ? run(argv[1]) : 2; }
