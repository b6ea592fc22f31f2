# `cmake --install` gives headers, library and a package for find_package(weft).
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
set(weft_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/weft")

# A header is public where it lies in a room itself; folders of a single backend and *-inl.hpp are not.
set(header_patterns weft.hpp backends/*.hpp backends/functors/*.hpp backends/*.h)
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

set_target_properties(weft PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS weft EXPORT weftTargets)
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION "${weft_package_dir}")

configure_package_config_file(cmake/weftConfig.cmake.in "${CMAKE_CURRENT_BINARY_DIR}/weftConfig.cmake"
  INSTALL_DESTINATION "${weft_package_dir}")
write_basic_package_version_file("${CMAKE_CURRENT_BINARY_DIR}/weftConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/weftConfig.cmake" "${CMAKE_CURRENT_BINARY_DIR}/weftConfigVersion.cmake"
  cmake/find.cmake DESTINATION "${weft_package_dir}")
