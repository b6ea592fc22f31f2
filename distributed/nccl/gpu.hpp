// NCCL between the ranks' GPUs.
#pragma once

#include "../detail/wire.hpp"

namespace weft::distributed::nccl {

/// The wire between the ranks' GPUs; `gpu` is this rank's. Null on all ranks if NCCL cannot connect them.
Shared<detail::Wire> connect_gpus(Device gpu, const Shared<detail::Wire>& host, int rank, int ranks,
                                  const detail::CallRecord& call, detail::Clock::time_point deadline);

}  // namespace weft::distributed::nccl
