# Finders for libraries with CMake packages that are missing or have more requirements than Weft. Used by the build and,
# installed, by weftConfig.cmake. Each defines the imported target of its name, or nothing.

function(weft_import name library include)
  if(NOT TARGET weft::${name})
    add_library(weft::${name} UNKNOWN IMPORTED)
    set_target_properties(weft::${name} PROPERTIES
      IMPORTED_LOCATION "${library}" INTERFACE_INCLUDE_DIRECTORIES "${include}")
  endif()
endfunction()

# oneDNN's CMake package requires OpenCL headers.
function(weft_find_onednn)
  find_path(WEFT_ONEDNN_INCLUDE oneapi/dnnl/dnnl.hpp)
  find_library(WEFT_ONEDNN_LIBRARY dnnl)
  mark_as_advanced(WEFT_ONEDNN_INCLUDE WEFT_ONEDNN_LIBRARY)
  if(WEFT_ONEDNN_INCLUDE AND WEFT_ONEDNN_LIBRARY)
    weft_import(onednn "${WEFT_ONEDNN_LIBRARY}" "${WEFT_ONEDNN_INCLUDE}")
  endif()
endfunction()

# Defines weft::NAME from a header and a library, for libraries without a suitable CMake package.
function(weft_find_plain name header)
  string(TOUPPER "WEFT_${name}" prefix)
  find_path(${prefix}_INCLUDE ${header})
  find_library(${prefix}_LIBRARY NAMES ${ARGN})
  mark_as_advanced(${prefix}_INCLUDE ${prefix}_LIBRARY)
  if(${prefix}_INCLUDE AND ${prefix}_LIBRARY)
    weft_import(${name} "${${prefix}_LIBRARY}" "${${prefix}_INCLUDE}")
  endif()
endfunction()

# libzip's CMake package requires its command-line programs.
function(weft_find_zip)
  weft_find_plain(zip zip.h zip)
endfunction()

function(weft_find_png)
  weft_find_plain(png png.h png16 png)
endfunction()

function(weft_find_jpeg)
  weft_find_plain(jpeg jpeglib.h jpeg)
endfunction()

# Unicode normal forms, character classes and regular expressions, for tokenizers.
function(weft_find_utf8proc)
  weft_find_plain(utf8proc utf8proc.h utf8proc)
endfunction()

function(weft_find_onig)
  weft_find_plain(onig oniguruma.h onig)
endfunction()

# The runtime is installed with the library, so that users of the library need no toolkit.
function(weft_import_cuda_runtime library)
  if(NOT TARGET weft::cudart_static)
    add_library(weft::cudart_static STATIC IMPORTED)
    set_target_properties(weft::cudart_static PROPERTIES
      IMPORTED_LOCATION "${library}" INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};rt")
  endif()
endfunction()

# cuDNN 9; its library is opened on demand.
function(weft_find_cudnn)
  find_path(WEFT_CUDNN_INCLUDE cudnn_graph.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  find_library(WEFT_CUDNN_LIBRARY cudnn HINTS ${CUDAToolkit_LIBRARY_DIR})
  mark_as_advanced(WEFT_CUDNN_INCLUDE WEFT_CUDNN_LIBRARY)
endfunction()

# Open MPI 4; its header defines handles as addresses of variables in the library.
function(weft_find_mpi)
  find_path(WEFT_MPI_INCLUDE mpi.h
    HINTS $ENV{MPI_HOME}/include PATH_SUFFIXES openmpi openmpi-${CMAKE_SYSTEM_PROCESSOR}
    PATHS /usr/lib/${CMAKE_LIBRARY_ARCHITECTURE}/openmpi/include /usr/lib64/openmpi/include)
  mark_as_advanced(WEFT_MPI_INCLUDE)
  set(open_mpi "")
  if(EXISTS "${WEFT_MPI_INCLUDE}/mpi.h")
    file(STRINGS "${WEFT_MPI_INCLUDE}/mpi.h" open_mpi REGEX "define OMPI_MAJOR_VERSION +4")
  endif()
  set(WEFT_OPEN_MPI "${open_mpi}" PARENT_SCOPE)
endfunction()
