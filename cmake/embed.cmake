# weft_embed(FOLDER/STEM ENDING...) embeds the files FOLDER/STEM.ENDING into FOLDER/STEM.cpp. The build writes the header
# <weft_embedded/STEM.hpp> with a std::string_view of each file, such as weft::embedded::report_page_js. After a change of
# a file, only STEM.cpp is compiled again.
# Lines that hold only a comment are left out: // in .js, /* */ in .css, <!-- --> in .html.
if(NOT CMAKE_SCRIPT_MODE_FILE)
  set(weft_embed_script "${CMAKE_CURRENT_LIST_FILE}")
  function(weft_embed path)
    get_filename_component(stem "${path}" NAME)
    list(TRANSFORM ARGN PREPEND "${CMAKE_CURRENT_SOURCE_DIR}/${path}." OUTPUT_VARIABLE files)
    set(header "${weft_include}/weft_embedded/${stem}.hpp")
    add_custom_command(OUTPUT "${header}" DEPENDS ${files} "${weft_embed_script}" VERBATIM
      COMMAND "${CMAKE_COMMAND}" "-Dheader=${header}" "-Dfiles=${files}" -P "${weft_embed_script}"
      COMMENT "Embedding the page files of ${path}.cpp")
    set_property(SOURCE "${CMAKE_CURRENT_SOURCE_DIR}/${path}.cpp" APPEND PROPERTY OBJECT_DEPENDS "${header}")
  endfunction()
  return()
endif()

set(comment_js "//[^\n]*")
set(comment_css "/\\*[^\n]*\\*/")
set(comment_html "<!--[^\n]*-->")
set(literal_limit 16000)  # of bytes; compilers need to accept only literals of 65,535
set(text "// Written by cmake/embed.cmake.\n#pragma once\n\n#include <string_view>\n\nnamespace weft::embedded {\n\n")
foreach(file IN LISTS files)
  get_filename_component(name "${file}" NAME)
  string(REGEX MATCH "[a-z]+$" ending "${name}")
  string(MAKE_C_IDENTIFIER "${name}" variable)
  file(READ "${file}" rest)
  string(FIND "${rest}" ")weft\"" delimiter)
  if(NOT DEFINED comment_${ending} OR NOT delimiter EQUAL -1)
    message(FATAL_ERROR "${file}: only .js, .css and .html without the characters )weft\" can be embedded")
  endif()
  # The first line break is the one of the line before, so that every line starts with one.
  string(REGEX REPLACE "(\n *${comment_${ending}})+\n" "\n" rest "\n${rest}")
  string(SUBSTRING "${rest}" 1 -1 rest)
  string(APPEND text "constexpr std::string_view ${variable} =")
  string(LENGTH "${rest}" length)
  while(length GREATER literal_limit)  # split at the end of a line
    string(SUBSTRING "${rest}" 0 ${literal_limit} head)
    string(FIND "${head}" "\n" end REVERSE)
    math(EXPR end "${end} + 1")
    if(end EQUAL 0)
      message(FATAL_ERROR "${file}: a line has more than ${literal_limit} bytes")
    endif()
    string(SUBSTRING "${rest}" 0 ${end} head)
    string(SUBSTRING "${rest}" ${end} -1 rest)
    string(APPEND text "\n    R\"weft(${head})weft\"")
    string(LENGTH "${rest}" length)
  endwhile()
  string(APPEND text "\n    R\"weft(${rest})weft\";\n\n")
endforeach()
string(APPEND text "}  // namespace weft::embedded\n")
file(WRITE "${header}" "${text}")
