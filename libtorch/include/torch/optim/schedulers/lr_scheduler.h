#pragma once

#include <torch/optim/schedulers.h>
