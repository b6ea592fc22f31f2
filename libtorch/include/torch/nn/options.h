#pragma once

#include <torch/nn/options/activation.h>
#include <torch/nn/options/common.h>
#include <torch/nn/options/convolution.h>
#include <torch/nn/options/loss.h>
