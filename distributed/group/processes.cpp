// The world of the processes that mpirun started.
#include <cstdlib>

#include <fmt/format.h>

#include "../detail/member.hpp"
#include "../error.hpp"
#if WEFT_HAS_MPI
#include "../mpi/world.hpp"
#endif

namespace weft::distributed::detail {

namespace {

/// Number of processes according to the launcher; 0 if this process was not launched.
int started_processes() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const char* text = std::getenv(variable)) return std::atoi(text);
  }
  return 0;
}

}  // namespace

Shared<Member> mpi_world() {
  const int processes = started_processes();
  if (processes == 0) return {};
#if WEFT_HAS_MPI
  std::string why;
  if (Shared<Member> world = mpi::start_world(why); world != nullptr) {
    if (world->size() == processes) return world;
    why = fmt::format("MPI has {}; is it the mpirun of another MPI?", world->size());
  }
#else
  const std::string why = "this build of Weft has no MPI (WEFT_WITH_MPI)";
#endif
  if (processes == 1) return {};
  raise<DistributedError>({.problem = fmt::format("mpirun started {} processes, but {}", processes, why),
                           .remedy = "install libopenmpi-dev and build Weft anew, or use a LocalWorld"});
}

}  // namespace weft::distributed::detail
