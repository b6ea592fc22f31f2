// Optimizers and learning-rate schedulers.
#pragma once

#include <torch/optim/optimizer.h>
#include <torch/optim/optimizers.h>
#include <torch/optim/schedulers.h>
