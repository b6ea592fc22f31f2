// The ABI between translated kernel libraries and the test driver. C and C++.
#pragma once

#include <stdint.h>

// Part of the cache key: change it whenever a struct below changes.
#define WEFT_KERNEL_ABI_VERSION 1
#define WEFT_KERNEL_TABLE_SYMBOL "weft_kernel_table"

// State of one work-item; the builtins read it.
typedef struct WeftWorkState {
  uint64_t local_id[3];
  uint64_t group_id[3];
  uint64_t local_size[3];
  uint64_t num_groups[3];
  uint64_t global_offset[3];
  uint64_t work_dim;
  void (*barrier)(struct WeftWorkState* state);
} WeftWorkState;

// One __local variable of a kernel.
typedef struct WeftLocalBlock {
  void* address;
  uint64_t size;
} WeftLocalBlock;

// Runs a whole work-group, or one work-item when the kernel uses barriers.
typedef void (*WeftKernelFunction)(WeftWorkState* state, void* const* arguments);

// `arguments` has a word per parameter: "p" global pointer, "l" local pointer, "v<bytes>" value.
typedef struct WeftKernelEntry {
  const char* name;
  const char* arguments;
  WeftKernelFunction function;
  const WeftLocalBlock* local_blocks;
  uint64_t local_block_count;
  uint64_t uses_barrier;
} WeftKernelEntry;

typedef struct WeftKernelTable {
  uint64_t kernel_count;
  const WeftKernelEntry* kernels;
} WeftKernelTable;
