#pragma once

#include <torch/nn/modules/container.h>
