# Precompiles the headers that all files of the library, or all programs of a folder, include first. Disabled with
# sanitizers, so that these builds detect missing includes, and in enclosing projects, where ccache would have to be
# configured.
function(weft_share_headers room program)
  if(WEFT_SANITIZE OR NOT PROJECT_IS_TOP_LEVEL OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  get_property(first GLOBAL PROPERTY weft_header_program_${room})
  get_target_property(type ${program} TYPE)
  if(NOT first AND type STREQUAL "EXECUTABLE")
    # A library without code owns them: a program that reuses another one's would wait until that is linked.
    set(first weft_headers_${room})
    file(CONFIGURE OUTPUT "${CMAKE_CURRENT_BINARY_DIR}/headers_${room}.cpp" CONTENT "")
    add_library(${first} OBJECT EXCLUDE_FROM_ALL "${CMAKE_CURRENT_BINARY_DIR}/headers_${room}.cpp")
    foreach(property LINK_LIBRARIES COMPILE_OPTIONS)
      get_target_property(value ${program} ${property})
      set_target_properties(${first} PROPERTIES ${property} "${value}")
    endforeach()
    set_target_properties(${first} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_compile_options(${first} PRIVATE -fPIE)  # as programs are
    weft_share_headers(${room} ${first} ${ARGN})
  endif()
  if(first)
    target_precompile_headers(${program} REUSE_FROM ${first})
  else()
    target_precompile_headers(${program} PRIVATE ${ARGN})
    set_property(GLOBAL PROPERTY weft_header_program_${room} ${program})
  endif()
  target_compile_options(${program} PRIVATE -fpch-preprocess)
  # The compiler identifies a precompiled header by its bytes, so ccache must compare these, not the preprocessed
  # source. Otherwise, after a change of a comment, it would restore headers that the compiler then rejects and reads
  # again.
  if(WEFT_CCACHE)
    set_target_properties(${program} PROPERTIES
      CXX_COMPILER_LAUNCHER "env;CCACHE_DEPEND=1;CCACHE_SLOPPINESS=pch_defines,time_macros;${WEFT_CCACHE}")
  endif()
endfunction()
