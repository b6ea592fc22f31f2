// The world of processes, for files that do not include MPI's header.
#pragma once

#include <string>

#include "../detail/member.hpp"

namespace weft::distributed::mpi {

/// The world, with MPI initialised; empty if its library is missing, with the reason in `why`.
Shared<detail::Member> start_world(std::string& why);

}  // namespace weft::distributed::mpi
