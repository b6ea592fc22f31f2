# libtorch's interface (docs/libtorch.md): the library weft_torch over weft, with headers <torch/…>, <ATen/…> and
# <c10/…>. It is a library of its own: programs that use Weft alone neither compile nor link it.
#
# In a project that adds Weft as a folder: target_link_libraries(program PRIVATE weft::torch). It is not installed yet.
file(GLOB torch_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/libtorch/src/*.cpp")
add_library(weft_torch STATIC EXCLUDE_FROM_ALL ${torch_sources})
add_library(weft::torch ALIAS weft_torch)
set_target_properties(weft_torch PROPERTIES EXPORT_NAME torch)
target_include_directories(weft_torch PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/libtorch/include>
  $<INSTALL_INTERFACE:include/weft-torch>)
target_compile_features(weft_torch PUBLIC cxx_std_20)
target_link_libraries(weft_torch PUBLIC weft::weft PRIVATE $<BUILD_INTERFACE:weft_flags>)
target_compile_options(weft_torch PRIVATE -ffunction-sections -fdata-sections)

# Programs in the build tree find it as Torch, too: -DTorch_DIR=<build tree>/torch.
set(torch_package "${CMAKE_CURRENT_BINARY_DIR}/torch")
configure_file(cmake/TorchConfig.cmake.in "${torch_package}/TorchConfig.cmake" @ONLY)
