// A build without MPI: this file replaces the only one of the library that differs.
#include <cstdlib>
#include <iostream>
#include <string>

#undef WEFT_HAS_MPI
#define WEFT_HAS_MPI 0
#include "../../../distributed/group/processes.cpp"

#include <weft/distributed.hpp>

int main() {
  setenv("OMPI_COMM_WORLD_SIZE", "2", 1);
  try {
    weft::distributed::world();
  } catch (const weft::distributed::DistributedError& error) {
    const std::string text = error.what();
    const bool told = text.find("mpirun started 2 processes") != text.npos && text.find("WEFT_WITH_MPI") != text.npos &&
                      text.find("without.cpp:") != text.npos;
    std::cout << text << '\n';
    if (!told) return 1;
  }
  unsetenv("OMPI_COMM_WORLD_SIZE");
  return weft::distributed::world_size() == 1 ? 0 : 1;
}
