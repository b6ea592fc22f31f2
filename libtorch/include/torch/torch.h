// The whole interface: tensors, autograd, modules, optimizers, data and files.
#pragma once

#include <torch/types.h>
#include <torch/autograd.h>
#include <torch/cuda.h>
#include <torch/data.h>
#include <torch/enum.h>
#include <torch/fft.h>
#include <torch/linalg.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <torch/serialize.h>
#include <torch/special.h>
#include <torch/utils.h>
#include <torch/version.h>
