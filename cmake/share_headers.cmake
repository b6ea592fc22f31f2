# What every file of the library, or every program of a room, reads first is compiled once for all of them. Sanitizers
# build without it, and so find a header that a file forgot to name; so does a project around this one, whose ccache would
# have to be told.
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
  # The compiler knows a header that it has read by its bytes, so those, not what the preprocessor makes of them, are what
  # ccache must compare: otherwise a changed comment brings back headers that are then read twice.
  if(WEFT_CCACHE)
    set_target_properties(${program} PROPERTIES
      CXX_COMPILER_LAUNCHER "env;CCACHE_DEPEND=1;CCACHE_SLOPPINESS=pch_defines,time_macros;${WEFT_CCACHE}")
  endif()
endfunction()
