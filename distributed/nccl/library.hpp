// NCCL, loaded at the first collective on GPU tensors. It is needed neither to build nor to run without such
// collectives. This file declares the part of its header that is used, as of version 2.14.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "../../tensor/config.hpp"

namespace weft::distributed::nccl {

struct Communicator;

struct UniqueId {
  char internal[128];
};

enum class Result : int {
  success,
  cuda_error,
  system_error,
  internal_error,
  invalid_argument,
  invalid_usage,
  remote_error,
  in_progress
};
enum class DataType : int { i8, u8, i32, u32, i64, u64, f16, f32, f64, bf16 };
enum class Reduction : int { sum, prod, max, min, avg };

/// ncclConfig_t: non-blocking communicators, whose functions return before they are done.
struct Config {
  size_t size = sizeof(Config);
  unsigned magic = 0xcafebeef;
  unsigned version = 21400;
  int blocking = 0;
};

// clang-format off
#define WEFT_NCCL_FUNCTIONS(X) \
  X(Result, GetVersion, (int* version)) \
  X(Result, GetUniqueId, (UniqueId* id)) \
  X(const char*, GetErrorString, (Result result)) \
  X(const char*, GetLastError, (Communicator* comm)) \
  X(Result, CommInitRankConfig, (Communicator** comm, int ranks, UniqueId id, int rank, Config* config)) \
  X(Result, CommAbort, (Communicator* comm)) \
  X(Result, CommGetAsyncError, (Communicator* comm, Result* result)) \
  X(Result, GroupStart, ()) \
  X(Result, GroupEnd, ()) \
  X(Result, Send, (const void* data, size_t count, DataType type, int to, Communicator* comm, void* stream)) \
  X(Result, Recv, (void* data, size_t count, DataType type, int from, Communicator* comm, void* stream)) \
  X(Result, Broadcast, (const void* in, void* out, size_t count, DataType type, int root, Communicator* comm, void* stream)) \
  X(Result, AllGather, (const void* in, void* out, size_t count, DataType type, Communicator* comm, void* stream)) \
  X(Result, AllReduce, (const void* in, void* out, size_t count, DataType type, Reduction op, Communicator* comm, void* stream)) \
  X(Result, Reduce, (const void* in, void* out, size_t count, DataType type, Reduction op, int root, Communicator* comm, void* stream)) \
  X(Result, ReduceScatter, (const void* in, void* out, size_t count, DataType type, Reduction op, Communicator* comm, void* stream))
// clang-format on

struct Library {
#define WEFT_NCCL_POINTER(result, name, arguments) result(*name) arguments;
  WEFT_NCCL_FUNCTIONS(WEFT_NCCL_POINTER)
#undef WEFT_NCCL_POINTER
  int version = 0;
};

/// Returns nullptr if the file is missing, incomplete, or older than 2.14; `why` then has the reason.
WEFT_API const Library* open_library(const char* file, std::string& why);
/// libnccl.so.2, where the system or the build's CUDA has it. Loaded once.
WEFT_API const Library* find_library(std::string& why);

}  // namespace weft::distributed::nccl
