// A program that uses MPI itself, before, between and after Weft's calls, and finalizes it.
#define OMPI_SKIP_MPICXX 1
#include <mpi.h>

#include <weft/distributed.hpp>
#include <weft/weft.hpp>

using namespace weft;
using namespace weft::distributed;

int main() {
  MPI_Init(nullptr, nullptr);
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  bool same = world_size() == ranks;
  for (int i = 0; i < 100; ++i) {
    const float mine = static_cast<float>(rank() + i);
    float sum = 0;
    MPI_Allreduce(&mine, &sum, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    same = same && all_reduce(tensor(mine)).item<float>() == sum;
  }
  MPI_Finalize();
  return same ? 0 : 1;
}
