#pragma once

#include <torch/nn/options/common.h>
