// The stub's profiler, which logs the host's events and measures work.
#pragma once

#include <weft/backends/plugin/plugin.h>

namespace stub {

const WeftProfiler* vendor_profiler();

uint64_t now_ns();
/// A kernel that ran on the stream since `begin`.
void note_run(const WeftKernelCall& call, WeftStream stream, uint64_t begin);

}  // namespace stub
