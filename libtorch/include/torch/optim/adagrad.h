#pragma once

#include <torch/optim/optimizers.h>
