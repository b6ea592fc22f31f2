// The portable kernels as nvcc compiled them: a list for each family and number type. Included by .cu files too, so no
// header that nvcc cannot read may be included here.
#pragma once

namespace weft::cuda {

struct KernelEntry {
  const char* name;      ///< null at a list's end
  const void* function;  ///< as cudaLaunchKernel takes it
};

// For the .cu files, after a portable *.inc: a list's rows.
#define WEFT_TEXT_(x) #x
#define WEFT_TEXT(x) WEFT_TEXT_(x)
#define WEFT_ENTRY(name) {WEFT_TEXT(WEFT_NAMED(name)), reinterpret_cast<const void*>(portable::WEFT_NAMED(name))},
#define WEFT_LISTED(name, numbers) WEFT_NUMBERS_##numbers(WEFT_ENTRY(name))
#define WEFT_LIST(family) extern const KernelEntry WEFT_JOIN(WEFT_JOIN(family, WEFT_SUFFIX), kernels)[]

}  // namespace weft::cuda
