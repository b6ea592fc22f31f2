#include "library.hpp"

#include <dlfcn.h>

namespace weft::distributed::mpi {

namespace {

struct Loaded {
  Library library = {};
  std::string why;
};

Loaded load() {
  Loaded loaded;
  // RTLD_GLOBAL, since Open MPI's plug-ins look up its symbols.
  void* const file = dlopen("libmpi.so.40", RTLD_NOW | RTLD_GLOBAL);
  if (file == nullptr) {
    loaded.why = "libmpi.so.40 of Open MPI 4 was not found";
    return loaded;
  }
  Library& library = loaded.library;
  const auto find = [&](const char* name, void* where) {
    void* const symbol = dlsym(where, name);
    if (symbol == nullptr) loaded.why = std::string("libmpi.so.40 has no ") + name;
    return symbol;
  };
#define WEFT_MPI_LOAD(name) library.name = reinterpret_cast<decltype(&::name)>(find(#name, file));
  WEFT_MPI_FUNCTIONS(WEFT_MPI_LOAD)
#undef WEFT_MPI_LOAD
  // A program that also links MPI may have its own copies of these variables, which the library then uses.
  library.comm_world = static_cast<MPI_Comm>(find("ompi_mpi_comm_world", RTLD_DEFAULT));
  library.byte = static_cast<MPI_Datatype>(find("ompi_mpi_byte", RTLD_DEFAULT));
  library.errors_return = static_cast<MPI_Errhandler>(find("ompi_mpi_errors_return", RTLD_DEFAULT));
  library.request_null = static_cast<MPI_Request>(find("ompi_request_null", RTLD_DEFAULT));
  return loaded;
}

}  // namespace

const Library* find_library(std::string& why) {
  static const Loaded loaded = load();
  why = loaded.why;
  return why.empty() ? &loaded.library : nullptr;
}

}  // namespace weft::distributed::mpi
