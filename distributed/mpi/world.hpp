// The world of processes, for files that do not see MPI's header.
#pragma once

#include <string>

#include "../detail/member.hpp"

namespace weft::distributed::mpi {

/// The world, with MPI initialised; empty where its library is missing, and `why` says so.
Shared<detail::Member> start_world(std::string& why);

}  // namespace weft::distributed::mpi
