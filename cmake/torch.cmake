# libtorch's interface (docs/libtorch.md): the library weft_torch over weft, with headers <torch/…>, <ATen/…> and
# <c10/…>. It is a library of its own: programs that use Weft alone neither compile nor link it.
#
# In a project that adds Weft as a folder: target_link_libraries(program PRIVATE weft::torch). In one that finds an
# installed Weft: find_package(weft COMPONENTS torch), or find_package(Torch) with Torch_DIR.
file(GLOB torch_sources CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/libtorch/src/*.cpp")
add_library(weft_torch STATIC ${torch_sources})
add_library(weft::torch ALIAS weft_torch)
set_target_properties(weft_torch PROPERTIES EXPORT_NAME torch)
target_include_directories(weft_torch PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/libtorch/include>
  $<INSTALL_INTERFACE:include/weft-torch>)
target_compile_features(weft_torch PUBLIC cxx_std_20)
target_link_libraries(weft_torch PUBLIC weft::weft PRIVATE $<BUILD_INTERFACE:weft_flags>)
target_compile_options(weft_torch PRIVATE -ffunction-sections -fdata-sections)

# The build tree's package finds it, too. Its folder torch/ is Torch_DIR.
export(TARGETS weft_torch NAMESPACE weft:: FILE "${CMAKE_CURRENT_BINARY_DIR}/weftTorchTargets.cmake")
set(torch_config "${CMAKE_CURRENT_BINARY_DIR}/torch/TorchConfig.cmake")
configure_file(cmake/TorchConfig.cmake "${torch_config}" COPYONLY)

# Packages hold Weft alone.
if(NOT WEFT_PACKAGE)
  install(TARGETS weft_torch EXPORT weftTorchTargets)
  install(EXPORT weftTorchTargets NAMESPACE weft:: DESTINATION "${weft_package_dir}")
  install(DIRECTORY libtorch/include/ DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/weft-torch")
  # find_package(Torch) does not search this folder, so that a PyTorch on the same machine is not hidden.
  install(FILES "${torch_config}" DESTINATION "${weft_package_dir}/torch")
endif()
