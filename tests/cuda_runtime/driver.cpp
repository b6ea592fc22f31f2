// A CUDA driver without a GPU, for cuDNN to compile plans with: it takes every kernel and runs none.
extern "C" {

namespace {
constexpr int success = 0, no_device = 100;
int nothing;
}  // namespace

int cuInit(unsigned) { return no_device; }
int cuDriverGetVersion(int* version) {
  *version = 13000;
  return success;
}
int cuGetErrorName(int, const char** name) {
  *name = "of the test driver";
  return success;
}
int cuGetErrorString(int, const char** text) { return cuGetErrorName(0, text); }
int cuLibraryLoadData(void** library, const void*) {
  *library = &nothing;
  return success;
}
int cuLibraryGetKernel(void** kernel, void*, const char*) { return cuLibraryLoadData(kernel, nullptr); }
int cuKernelGetAttribute(int* value, int, void*, int) {
  *value = 1024;
  return success;
}

// Other symbols that it looks up.
// clang-format off
#define WEFT_DRIVER_FUNCTIONS(X) \
  X(cuCtxGetCurrent) X(cuCtxGetDevice) X(cuCtxGetLimit) X(cuCtxPopCurrent) X(cuCtxPushCurrent) X(cuDeviceGet) \
  X(cuDeviceGetAttribute) X(cuDeviceGetCount) X(cuDevicePrimaryCtxRelease) X(cuDevicePrimaryCtxReset) \
  X(cuDevicePrimaryCtxRetain) X(cuFuncGetAttribute) X(cuFuncSetAttribute) X(cuKernelSetAttribute) \
  X(cuLaunchCooperativeKernel) X(cuLaunchKernel) X(cuLaunchKernelEx) X(cuLibraryLoadFromFile) X(cuLibraryUnload) \
  X(cuLinkAddData) X(cuLinkAddData_v2) X(cuLinkAddFile_v2) X(cuLinkComplete) X(cuLinkCreate) X(cuLinkCreate_v2) \
  X(cuLinkDestroy) X(cuMemcpyDtoH_v2) X(cuModuleGetFunction) X(cuModuleGetGlobal_v2) X(cuModuleLoadData) \
  X(cuModuleLoadDataEx) X(cuModuleLoadFatBinary) X(cuModuleUnload) X(cuOccupancyMaxActiveBlocksPerMultiprocessor) \
  X(cuOccupancyMaxPotentialClusterSize) X(cuStreamGetCtx) X(cuStreamSynchronize) X(cuTensorMapEncodeTiled)
// clang-format on
#define WEFT_DRIVER_FUNCTION(name) \
  int name() { return success; }
WEFT_DRIVER_FUNCTIONS(WEFT_DRIVER_FUNCTION)

}  // extern "C"
