#pragma once

#include <torch/nn/options/convolution.h>
