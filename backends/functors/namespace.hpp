// The namespace of the formulas; backends/cpu compiles them again in one for each SIMD target.
#pragma once

#define WEFT_FUNCTORS functors
