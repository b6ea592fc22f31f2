// Part of <torch/data/samplers.h>.
#pragma once
#include <torch/data/samplers.h>
