#pragma once

#include <torch/csrc/autograd/function.h>
#include <ATen/ATen.h>
