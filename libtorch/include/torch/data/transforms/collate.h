// Part of <torch/data/transforms.h>.
#pragma once
#include <torch/data/transforms.h>
