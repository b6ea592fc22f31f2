#include <torch/cuda.h>

#include <weft/backends/backend.hpp>
#include <weft/tensor/generator.hpp>
