// Errors in the communication between ranks.
#pragma once

#include "../tensor/error.hpp"

namespace weft::distributed {

/// Raised if another rank failed, exited or did not arrive in time, if the ranks' calls do not agree, or if MPI failed.
/// what() names the op and its call site, the rank concerned, and that rank's last operation.
class WEFT_API DistributedError : public Error {
 public:
  using Error::Error;
};

}  // namespace weft::distributed
