// Open MPI, loaded when the first world of processes is created; programs that run alone do not need it.
#pragma once

#include <string>

#define OMPI_SKIP_MPICXX 1  // its C++ classes, which ended with MPI 3
#include <mpi.h>

namespace weft::distributed::mpi {

// clang-format off
#define WEFT_MPI_FUNCTIONS(X) \
  X(MPI_Init_thread) X(MPI_Initialized) X(MPI_Query_thread) X(MPI_Finalize) X(MPI_Finalized) \
  X(MPI_Comm_dup) X(MPI_Comm_rank) X(MPI_Comm_size) X(MPI_Comm_set_errhandler) X(MPI_Error_string) X(MPI_Allgather) \
  X(MPI_Isend) X(MPI_Irecv) X(MPI_Recv) X(MPI_Iprobe) X(MPI_Test) X(MPI_Testall) X(MPI_Get_count) X(MPI_Cancel) \
  X(MPI_Request_free)
// clang-format on

/// Functions and handles of the library. The header's handles are addresses of the library's variables.
struct Library {
#define WEFT_MPI_POINTER(name) decltype(&::name) name;
  WEFT_MPI_FUNCTIONS(WEFT_MPI_POINTER)
#undef WEFT_MPI_POINTER
  MPI_Comm comm_world;
  MPI_Datatype byte;
  MPI_Errhandler errors_return;
  MPI_Request request_null;
};

/// Returns nullptr if it is missing or incomplete; `why` then has the reason. Loaded once.
const Library* find_library(std::string& why);

}  // namespace weft::distributed::mpi
