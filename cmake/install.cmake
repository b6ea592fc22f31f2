# Installs headers, library and a CMake package for find_package(weft).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(weft_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/weft")

# Headers directly in a component's folder are public; those in folders of a single backend and *-inl.hpp are not.
# Files of the packages belong to the components weft_runtime, weft_development and weft_python3.
if(WEFT_PACKAGE)
  set(CMAKE_INSTALL_DEFAULT_COMPONENT_NAME weft_development)
endif()

set(header_patterns weft.hpp bench.hpp distributed.hpp distributed/spmd/*.hpp backends/*.hpp backends/functors/*.hpp backends/watch/*.hpp backends/*.h backends/plugin/*.h)
foreach(room IN LISTS rooms)
  list(APPEND header_patterns ${room}/*.hpp)
endforeach()
list(TRANSFORM header_patterns PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/")
file(GLOB WEFT_PUBLIC_HEADERS RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS ${header_patterns})
list(FILTER WEFT_PUBLIC_HEADERS EXCLUDE REGEX "-inl\\.hpp$")

foreach(header IN LISTS WEFT_PUBLIC_HEADERS)
  get_filename_component(folder "${header}" DIRECTORY)
  install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/weft/${folder}")
endforeach()

install(FILES hooks/weft_gdb.py DESTINATION "${CMAKE_INSTALL_DATADIR}/weft")

set_target_properties(weft PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
if(WEFT_PACKAGE)
  # An export of its own, so that users of the shared library need none of the libraries that the static one links.
  install(TARGETS weft EXPORT weftStaticTargets)
  install(EXPORT weftStaticTargets NAMESPACE weft:: DESTINATION "${weft_package_dir}")
  set_target_properties(weft_shared PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
  install(TARGETS weft_shared EXPORT weftTargets
    LIBRARY COMPONENT weft_runtime NAMELINK_COMPONENT weft_development)
else()
  install(TARGETS weft EXPORT weftTargets)
endif()
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION "${weft_package_dir}")

set(weft_library_dir "${CMAKE_INSTALL_LIBDIR}/weft")
if(WEFT_HAS_CUDA AND NOT BUILD_SHARED_LIBS)
  install(FILES "${CUDA_cudart_static_LIBRARY}" DESTINATION "${weft_library_dir}")
endif()
# For builds without CMake. A static library's users link what it links, and keep what they can reach. In a package these
# libraries are printed by `pkg-config --static`.
file(RELATIVE_PATH weft_prefix_from_pc "/prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig" "/prefix")
set(weft_pc_defines "")
set(weft_pc_libraries "")
if(BUILD_SHARED_LIBS OR WEFT_PACKAGE)
  set(weft_pc_defines " -DWEFT_SHARED")
endif()
if(NOT BUILD_SHARED_LIBS)
  set(weft_pc_libraries " -Wl,--gc-sections -lfmt")
  foreach(name IN ITEMS ONEDNN ZIP PNG JPEG UTF8PROC)
    if(WEFT_HAS_${name})
      get_filename_component(library "${WEFT_${name}_LIBRARY}" NAME_WE)
      string(REGEX REPLACE "^lib" " -l" library "${library}")
      string(APPEND weft_pc_libraries "${library}")
    endif()
  endforeach()
  if(WEFT_HAS_CUDA)
    string(APPEND weft_pc_libraries " \${libdir}/weft/libcudart_static.a -lrt")
  endif()
  if(WEFT_LINKS_HWY)
    string(APPEND weft_pc_libraries " -lhwy")
  endif()
  string(APPEND weft_pc_libraries " -ldl -lpthread")
endif()
if(WEFT_PACKAGE)
  string(PREPEND weft_pc_libraries "\nLibs.private:")
endif()
configure_file(cmake/weft.pc.in "${CMAKE_CURRENT_BINARY_DIR}/package/weft.pc" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/package/weft.pc" DESTINATION "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

configure_package_config_file(cmake/weftConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/package/weftConfig.cmake"
  INSTALL_DESTINATION "${weft_package_dir}" PATH_VARS weft_library_dir)
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/weftConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/package/weftConfig.cmake"
  "${CMAKE_CURRENT_BINARY_DIR}/weftConfigVersion.cmake" cmake/find.cmake DESTINATION "${weft_package_dir}")

# The build tree can be used as a package: -Dweft_DIR=<build tree>.
set(exported weft)
if(WEFT_PACKAGE)
  list(APPEND exported weft_shared)
endif()
foreach(target weft_flags weft_inside weft_hwy_headers weft_level_zero weft_cudnn_headers)
  if(TARGET ${target} AND NOT BUILD_SHARED_LIBS)
    list(APPEND exported ${target})
  endif()
endforeach()
export(TARGETS ${exported} NAMESPACE weft:: FILE "${CMAKE_CURRENT_BINARY_DIR}/weftTargets.cmake")
configure_file(cmake/find.cmake "${CMAKE_CURRENT_BINARY_DIR}/find.cmake" COPYONLY)
set(weft_library_dir "${CMAKE_CURRENT_BINARY_DIR}")
if(WEFT_HAS_CUDA)
  get_filename_component(weft_library_dir "${CUDA_cudart_static_LIBRARY}" DIRECTORY)
endif()
configure_package_config_file(cmake/weftConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/weftConfig.cmake"
  INSTALL_PREFIX "${CMAKE_CURRENT_BINARY_DIR}" INSTALL_DESTINATION "${CMAKE_CURRENT_BINARY_DIR}"
  PATH_VARS weft_library_dir)
