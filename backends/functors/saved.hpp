// Operands and results that gradients read; nothing else is kept alive.
#if !defined(WEFT_FUNCTORS_SAVED) || defined(WEFT_SIMD_FUNCTORS)  // each SIMD target compiles the formulas again
#define WEFT_FUNCTORS_SAVED

#include "namespace.hpp"

namespace weft::WEFT_FUNCTORS {

/// Of one operand.
enum Saves { saves_nothing, saves_input, saves_output };
/// Of several, any of them; y is the output.
enum Reads { reads_nothing = 0, reads_a = 1, reads_b = 2, reads_c = 4, reads_y = 8 };

}  // namespace weft::WEFT_FUNCTORS

#endif
