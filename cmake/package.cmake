# CPack's settings: a .deb for each component, and a tarball of all but the Python module. `./weft package` runs CPack;
# docs/packages.md describes the packages.
set(library_package libweft${weft_abi})
set(weft_package_files "${CMAKE_CURRENT_BINARY_DIR}/package")

# ---- licences ---------------------------------------------------------------------------------------------------
# Writes licences/NAME.txt for each library whose code is compiled into Weft: from the Debian package that has its
# headers, or from a file, of which an expression picks the notice.
set(weft_licences "${weft_package_files}/licences")
function(weft_add_licence name file)
  if(NOT EXISTS "${file}")
    message(FATAL_ERROR "a package of Weft contains ${name}, whose licence was not found: expected ${file}")
  endif()
  file(READ "${file}" text)
  if(ARGN)
    string(REGEX MATCH "${ARGN}" text "${text}")
  endif()
  if(text STREQUAL "")
    message(FATAL_ERROR "${file} does not start with a notice")
  endif()
  file(WRITE "${weft_licences}/${name}.txt" "${text}")
endfunction()
file(REMOVE_RECURSE "${weft_licences}")
weft_add_licence(highway /usr/share/doc/libhwy-dev/copyright)
weft_add_licence(nlohmann-json /usr/share/doc/nlohmann-json3-dev/copyright)
weft_add_licence(fmt /usr/share/doc/libfmt-dev/copyright)
set(library_licences highway nlohmann-json fmt)
set(module_licences ${library_licences})
if(WEFT_HAS_PYTHON)
  file(GLOB nanobind_licence "${nanobind_DIR}/../../nanobind-*.dist-info/licenses/LICENSE"
    "${nanobind_DIR}/../LICENSE")
  list(APPEND nanobind_licence "${nanobind_DIR}/LICENSE")
  list(GET nanobind_licence 0 nanobind_licence)
  weft_add_licence(nanobind "${nanobind_licence}")
  weft_add_licence(robin-map "${nanobind_DIR}/../ext/robin_map/include/tsl/robin_map.h" "^/[*]([^*]|[*][^/])*[*]/")
  list(APPEND module_licences nanobind robin-map)
endif()

# weft_copyright(FILE NAME...): Weft's notice and the licences of the code compiled into it.
function(weft_copyright file)
  list(JOIN ARGN ", " names)
  set(text "Weft ${PROJECT_VERSION}, an eager C++20 tensor library with autograd.\nCopyright: Weft's authors.\n")
  string(APPEND text "Licence: Apache License 2.0; on Debian its text is /usr/share/common-licenses/Apache-2.0.\n\n"
    "The binaries contain code of these libraries, whose notices follow: ${names}.\n")
  foreach(name IN LISTS ARGN)
    file(READ "${weft_licences}/${name}.txt" licence)
    string(APPEND text "\n======== ${name} ========\n${licence}")
  endforeach()
  file(WRITE "${file}" "${text}")
endfunction()

# ---- documents of each Debian package ---------------------------------------------------------------------------
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_PACKAGE_CONTACT "Weft's authors <weft@example.org>")
find_program(WEFT_GZIP gzip)
mark_as_advanced(WEFT_GZIP)
function(weft_add_documents component package)
  set(folder "${weft_package_files}/${package}")
  file(MAKE_DIRECTORY "${folder}")
  weft_copyright("${folder}/copyright" ${ARGN})
  string(TIMESTAMP date "%a, %d %b %Y 00:00:00 +0000" UTC)
  file(WRITE "${folder}/changelog.Debian" "weft (${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) bookworm; "
    "urgency=medium\n\n  * Package of Weft ${PROJECT_VERSION}, made by ./weft package.\n\n -- ${CPACK_PACKAGE_CONTACT}  ${date}\n")
  execute_process(COMMAND "${WEFT_GZIP}" -9nf "${folder}/changelog.Debian" COMMAND_ERROR_IS_FATAL ANY)
  install(FILES "${folder}/copyright" "${folder}/changelog.Debian.gz" DESTINATION share/doc/${package}
    COMPONENT ${component} EXCLUDE_FROM_ALL)
endfunction()
weft_add_documents(weft_runtime ${library_package} ${library_licences})
weft_add_documents(weft_development libweft-dev ${library_licences})
weft_add_documents(weft_python3 python3-weft ${module_licences})

# The tarball has the licences as files.
list(TRANSFORM library_licences REPLACE "(.+)" "${weft_licences}/\\1.txt" OUTPUT_VARIABLE licence_files)
install(FILES LICENSE DESTINATION share/doc/weft COMPONENT weft_tarball)
install(FILES ${licence_files} DESTINATION share/doc/weft/licences COMPONENT weft_tarball)

# ---- CPack ------------------------------------------------------------------------------------------------------
set(CPACK_PACKAGE_NAME weft)
set(CPACK_PACKAGE_VENDOR "Weft's authors")
# CPack puts any other summary before the first line of each component's description.
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "${CMAKE_PROJECT_NAME} built using CMake")
set(CPACK_PACKAGE_CHECKSUM SHA256)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_THREADS 0)
set(CPACK_COMPONENTS_ALL weft_runtime weft_development)
if(WEFT_HAS_PYTHON)
  list(APPEND CPACK_COMPONENTS_ALL weft_python3)
endif()
# The tarball has one folder. It links shared libraries of this system, so its name says which system that is.
set(system "${CMAKE_SYSTEM_NAME}")
if(EXISTS /etc/os-release)
  file(STRINGS /etc/os-release lines REGEX "^(ID|VERSION_ID)=")
  list(SORT lines)
  string(REGEX REPLACE "VERSION_ID=|ID=|\"|;" "" system "${lines}")
endif()
set(CPACK_PACKAGE_FILE_NAME "weft-${PROJECT_VERSION}-${system}-${CMAKE_SYSTEM_PROCESSOR}")

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(version "${PROJECT_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}")

# A library of another binary interface has another name, so that both can be installed.
set(CPACK_DEBIAN_WEFT_RUNTIME_PACKAGE_NAME ${library_package})
set(CPACK_DEBIAN_WEFT_RUNTIME_PACKAGE_SECTION libs)
set(CPACK_COMPONENT_WEFT_RUNTIME_DESCRIPTION "C++20 tensor library with autograd - shared library
Strided tensors, autograd, modules, optimizers and data loaders for C++20.
The vector instructions are chosen at run time. Regular expressions of
tokenizers, processes by MPI and Level Zero devices need the suggested
packages.")
set(CPACK_DEBIAN_WEFT_RUNTIME_PACKAGE_SUGGESTS "libonig5, libopenmpi3, libze1")
file(WRITE "${weft_package_files}/shlibs" "libweft ${weft_abi} ${library_package} (>= ${PROJECT_VERSION})\n")
file(WRITE "${weft_package_files}/triggers" "activate-noawait ldconfig\n")
set(CPACK_DEBIAN_WEFT_RUNTIME_PACKAGE_CONTROL_EXTRA "${weft_package_files}/shlibs;${weft_package_files}/triggers")

set(CPACK_DEBIAN_WEFT_DEVELOPMENT_PACKAGE_NAME libweft-dev)
set(CPACK_DEBIAN_WEFT_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(CPACK_COMPONENT_WEFT_DEVELOPMENT_DESCRIPTION "C++20 tensor library with autograd - headers and static library
find_package(weft) defines weft::weft, the shared library; with the component
static also weft::static, which needs the suggested packages.")
set(CPACK_DEBIAN_WEFT_DEVELOPMENT_PACKAGE_DEPENDS "${library_package} (= ${version})")
set(static_needs libfmt-dev)
set(features ONEDNN ZIP PNG JPEG UTF8PROC)
set(needed_packages libdnnl-dev libzip-dev libpng-dev libjpeg62-turbo-dev libutf8proc-dev)
foreach(feature needed IN ZIP_LISTS features needed_packages)
  if(WEFT_HAS_${feature})
    list(APPEND static_needs ${needed})
  endif()
endforeach()
list(JOIN static_needs ", " CPACK_DEBIAN_WEFT_DEVELOPMENT_PACKAGE_SUGGESTS)

# The module contains the library, as in the wheel.
set(CPACK_DEBIAN_WEFT_PYTHON3_PACKAGE_NAME python3-weft)
set(CPACK_DEBIAN_WEFT_PYTHON3_PACKAGE_SECTION python)
set(CPACK_COMPONENT_WEFT_PYTHON3_DESCRIPTION "tensor library with autograd - Python module
Tensors, autograd, modules and optimizers with the names and arguments of
PyTorch. Memory is shared with NumPy.")
math(EXPR next_python "${Python_VERSION_MINOR} + 1")
set(CPACK_DEBIAN_WEFT_PYTHON3_PACKAGE_DEPENDS
  "python3 (>= 3.${Python_VERSION_MINOR}), python3 (<< 3.${next_python}), python3-numpy")
set(CPACK_DEBIAN_WEFT_PYTHON3_PACKAGE_SUGGESTS "libonig5, libopenmpi3, libze1")
set(CPACK_DEBIAN_WEFT_PYTHON3_PACKAGE_CONTROL_EXTRA
  "${CMAKE_CURRENT_SOURCE_DIR}/cmake/package/postinst;${CMAKE_CURRENT_SOURCE_DIR}/cmake/package/prerm")
include(CPack)
