# Precompiles the headers that all files of the library, or all programs of a folder, include first. Disabled with
# sanitizers, so that these builds detect missing includes, and in enclosing projects, where ccache would have to be
# configured.
function(weft_share_headers room program)
  if(WEFT_SANITIZE OR NOT PROJECT_IS_TOP_LEVEL OR NOT CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    return()
  endif()
  get_property(first GLOBAL PROPERTY weft_header_program_${room})
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
