// Ranks that compute together: process groups over MPI or threads, and collectives with gradients.
#pragma once

#include "distributed/collectives.hpp"
#include "distributed/data_parallel.hpp"
#include "distributed/error.hpp"
#include "distributed/group.hpp"
#include "distributed/local_world.hpp"
#include "distributed/mesh.hpp"
#include "distributed/pipeline.hpp"
#include "distributed/reduce_op.hpp"
#include "distributed/rng_tracker.hpp"
#include "distributed/shard_data_loader.hpp"
#include "distributed/sharded_optimizer.hpp"
#include "distributed/spmd/call.hpp"
#include "distributed/spmd/dtensor.hpp"
#include "distributed/tensor_parallel.hpp"
#include "distributed/token_dispatcher.hpp"
#include "distributed/work.hpp"
