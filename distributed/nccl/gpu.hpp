// NCCL between the GPUs of ranks.
#pragma once

#include "../detail/wire.hpp"

namespace weft::distributed::nccl {

/// The wire between the ranks' GPUs, of which this rank's is `gpu`; null for all ranks where NCCL cannot connect them.
Shared<detail::Wire> connect_gpus(Device gpu, const Shared<detail::Wire>& host, int rank, int ranks,
                                  const detail::CallRecord& call, detail::Clock::time_point deadline);

}  // namespace weft::distributed::nccl
