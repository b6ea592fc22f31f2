// What goes wrong between ranks.
#pragma once

#include "../tensor/error.hpp"

namespace weft::distributed {

/// Another rank failed, ended or did not arrive in time, calls of ranks do not agree, or MPI failed. what() has the op
/// and its place, the rank it is about, and what that rank did last.
class WEFT_API DistributedError : public Error {
 public:
  using Error::Error;
};

}  // namespace weft::distributed
