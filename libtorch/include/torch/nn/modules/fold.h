#pragma once

#include <torch/nn/modules/conv.h>
