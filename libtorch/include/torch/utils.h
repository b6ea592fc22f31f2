// Threads, seeds and grad modes.
#pragma once

#include <torch/types.h>

namespace torch {
using at::get_num_interop_threads;
using at::get_num_threads;
using at::init_num_threads;
using at::manual_seed;
using at::set_num_interop_threads;
using at::set_num_threads;
using c10::SourceLocation;
using c10::Warning;
using c10::WarningHandler;
}  // namespace torch
