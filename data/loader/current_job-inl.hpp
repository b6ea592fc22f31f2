// The batch that a thread is making, for error messages. Internal to data/.
#pragma once

#include <string>

#include "../loader.hpp"

namespace weft::data::detail {

/// Null outside a loader.
extern constinit thread_local const Job* current_job;

/// "sample 17" for index i of the batch; outside a loader, "sample i of the batch".
std::string sample_name(size_t i);
std::string sample_name(const Job& job, size_t i);

}  // namespace weft::data::detail
