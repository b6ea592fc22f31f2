// Sparse tensors and gradients.
#pragma once

#include "gradient.hpp"
#include "matrix.hpp"
