#include <cstring>
#include <optional>

#include "fiber.h"
#include "kernel.h"

namespace weft::testing::ze {
namespace {

constexpr int poison_byte = 0xFF;

// Where the kernel finds each argument: values and pointers in the launch's own block.
struct BoundArguments {
  ArgumentBlock block;
  std::vector<std::vector<std::byte>> local_memory;
  std::vector<void*> pointers;
};

BoundArguments bind(const Launch& launch) {
  constexpr size_t alignment = 64;
  BoundArguments bound;
  bound.block = launch.arguments;
  const auto& parameters = launch.kernel->parameters;
  for (size_t i = 0; i < parameters.size(); ++i) {
    std::byte* place = bound.block.at(parameters[i].offset);
    if (parameters[i].kind == KernelParameter::Kind::local_pointer) {
      auto& memory = bound.local_memory.emplace_back(launch.local_sizes[i] + alignment);
      auto address = reinterpret_cast<uintptr_t>(memory.data());
      address = (address + alignment - 1) / alignment * alignment;
      std::memcpy(place, &address, sizeof address);
    }
    bound.pointers.push_back(place);
  }
  return bound;
}

// Local memory starts undefined in every group.
void poison_local_memory(const WeftKernelEntry& entry, BoundArguments& bound) {
  for (uint64_t i = 0; i < entry.local_block_count; ++i) {
    std::memset(entry.local_blocks[i].address, poison_byte, entry.local_blocks[i].size);
  }
  for (auto& memory : bound.local_memory) std::memset(memory.data(), poison_byte, memory.size());
}

void no_barrier(WeftWorkState*) {}

}  // namespace

void run_launch(const Launch& launch) {
  const WeftKernelEntry& entry = *launch.kernel->entry;
  BoundArguments bound = bind(launch);
  std::unique_lock<std::mutex> lock(launch.module->local_memory, std::defer_lock);
  if (entry.local_block_count != 0) lock.lock();

  WeftWorkState state{};
  state.work_dim = 3;
  state.barrier = no_barrier;
  size_t items = 1;
  for (int d = 0; d < 3; ++d) {
    state.local_size[d] = launch.group_size[d];
    state.num_groups[d] = launch.group_count[d];
    items *= launch.group_size[d];
  }
  std::optional<FiberGroup> fibers;
  if (entry.uses_barrier) fibers.emplace(items);

  uint64_t* group = state.group_id;
  for (group[2] = 0; group[2] < state.num_groups[2]; ++group[2]) {
    for (group[1] = 0; group[1] < state.num_groups[1]; ++group[1]) {
      for (group[0] = 0; group[0] < state.num_groups[0]; ++group[0]) {
        if (config().poison) poison_local_memory(entry, bound);
        if (!fibers) {
          entry.function(&state, bound.pointers.data());
        } else if (const char* problem = fibers->run(entry.function, state, bound.pointers.data())) {
          report("%s: %s", entry.name, problem);
          return lose_device();
        }
      }
    }
  }
}

}  // namespace weft::testing::ze
