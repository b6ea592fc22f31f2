# A project outside that uses Weft in one of the ways that README.md shows, word for word.
# Needs: way, root, build, work, generator, compiler, config, flags; shared: whether the build tree's library is.
#   install        an installed prefix that was moved since
#   build_tree     the build tree, unbuilt consumers of which find it by weft_DIR
#   subdirectory   add_subdirectory; fetch: FetchContent
#   shared         a build tree with BUILD_SHARED_LIBS, which asks for none of the libraries that Weft links
#   cuda           what an installed CUDA build asks its users to link; an empty archive stands for the library
#   tour           examples/tour.cpp by another compiler, linked to the build tree's library and run
#   bench          tests/package/outside/bench.cpp, linked to an installed prefix and run
#   missing        says which Debian package is missing
# What compiles Weft anew configures it and compiles a file, or with WEFT_TEST_LARGE everything, and runs the program.
cmake_minimum_required(VERSION 3.23)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " line)
    message(FATAL_ERROR "failed: ${line}")
  endif()
endfunction()
# refused(TEXT command...): the command fails and says TEXT
function(refused text)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE words ERROR_VARIABLE words)
  string(REGEX REPLACE "[ \n]+" " " words "${words}")
  string(FIND "${words}" "${text}" at)
  if(result EQUAL 0 OR at EQUAL -1)
    message(FATAL_ERROR "it should have failed with \"${text}\":\n${words}")
  endif()
endfunction()

# A project of modules that bear the names of Weft's own.
function(write_project snippet)
  file(READ "${CMAKE_CURRENT_LIST_DIR}/outside/${snippet}.cmake" lines)
  file(READ "${root}/README.md" readme)
  string(FIND "${readme}" "${lines}" at)
  if(at EQUAL -1)
    message(FATAL_ERROR "README.md does not show this:\n${lines}")
  endif()
  foreach(module options dependencies find install hpu)
    file(WRITE "${work}/cmake/${module}.cmake" "message(FATAL_ERROR \"the project's own ${module}.cmake was included\")")
  endforeach()
  file(COPY "${CMAKE_CURRENT_LIST_DIR}/outside/main.cpp" DESTINATION "${work}")
  file(WRITE "${work}/CMakeLists.txt" "cmake_minimum_required(VERSION 3.23)\nproject(outside LANGUAGES CXX)\n"
    "list(APPEND CMAKE_MODULE_PATH \"\${CMAKE_CURRENT_SOURCE_DIR}/cmake\")\nadd_executable(program main.cpp)\n${lines}")
endfunction()

# Who links Weft needs no CUDA toolkit, whatever Weft was built with.
set(configure ${CMAKE_COMMAND} -S "${work}" -B "${work}/build" -G "${generator}" "-DCMAKE_CXX_COMPILER=${compiler}"
  "-DCMAKE_CXX_FLAGS=${flags}" -DCMAKE_BUILD_TYPE=Release -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
set(plain -DWEFT_WITH_CUDA=OFF -DWEFT_WITH_HPU=OFF)
set(build_program ${CMAKE_COMMAND} --build "${work}/build")

# A program that links weft::whole and loads a library of ops, which links nothing.
function(load_a_library found_by)
  file(WRITE "${work}/loads/CMakeLists.txt" "cmake_minimum_required(VERSION 3.23)\nproject(loads LANGUAGES CXX)\n"
    "find_package(weft REQUIRED)\n"
    "add_executable(program loads.cpp)\ntarget_link_libraries(program PRIVATE weft::whole)\n"
    "add_library(ops MODULE ops.cpp)\ntarget_compile_features(ops PRIVATE cxx_std_20)\n"
    "target_include_directories(ops PRIVATE \$<TARGET_PROPERTY:weft::weft,INTERFACE_INCLUDE_DIRECTORIES>)\n"
    "target_compile_definitions(ops PRIVATE NAME=\"outside::times\" FACTOR=2)\n")
  file(COPY "${CMAKE_CURRENT_LIST_DIR}/outside/loads.cpp" "${root}/tests/library/plugins/ops.cpp"
    DESTINATION "${work}/loads")
  run(${CMAKE_COMMAND} -S "${work}/loads" -B "${work}/loads/build" -G "${generator}" "-DCMAKE_CXX_COMPILER=${compiler}"
    "-DCMAKE_CXX_FLAGS=${flags}" -DCMAKE_BUILD_TYPE=Release -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON "${found_by}")
  run(${CMAKE_COMMAND} --build "${work}/loads/build")
  run("${work}/loads/build/program" "${work}/loads/build/libops.so")
endfunction()

# A project that asks for two parts by name, and for one that does not exist.
function(find_parts found_by)
  file(WRITE "${work}/parts/CMakeLists.txt" "cmake_minimum_required(VERSION 3.23)\nproject(parts LANGUAGES CXX)\n"
    "find_package(weft REQUIRED COMPONENTS \${parts})\n"
    "add_executable(program ../main.cpp)\ntarget_link_libraries(program PRIVATE weft::nn weft::io)\n")
  set(parts_command ${CMAKE_COMMAND} -S "${work}/parts" -B "${work}/parts/build" -G "${generator}"
    "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_FLAGS=${flags}" -DCMAKE_BUILD_TYPE=Release
    -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON "${found_by}")
  refused("colours" ${parts_command} "-Dparts=nn\;colours")
  run(${parts_command} "-Dparts=nn\;io")
  run(${CMAKE_COMMAND} --build "${work}/parts/build")
  run("${work}/parts/build/program")
endfunction()

# examples/project, by CMake, make and Meson, against the installed prefix.
function(build_example_projects)
  file(COPY "${root}/examples/project" DESTINATION "${work}")
  set(project "${work}/project")
  file(GLOB_RECURSE file "${work}/prefix/weft.pc")
  get_filename_component(folder "${file}" DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} "${folder}")
  run(${CMAKE_COMMAND} -S "${project}" -B "${project}/build" -G "${generator}" "-DCMAKE_CXX_COMPILER=${compiler}"
    "-DCMAKE_CXX_FLAGS=${flags}" -DCMAKE_BUILD_TYPE=Release "-DCMAKE_PREFIX_PATH=${work}/prefix")
  run(${CMAKE_COMMAND} --build "${project}/build")
  run("${project}/build/line")
  find_program(make make REQUIRED)
  run(${make} -C "${project}" "CXX=${compiler}" "CXXFLAGS=${flags}" "LDFLAGS=${flags}")
  run("${project}/line")
  find_program(meson meson)
  if(meson)
    set(ENV{CXX} "${compiler}")
    run(${meson} setup "${project}/by_meson" "${project}" "-Dcpp_args=${flags}" "-Dcpp_link_args=${flags}")
    run(${meson} compile -C "${project}/by_meson")
    run("${project}/by_meson/line")
  else()
    message("there is no meson: its project was not built")
  endif()
endfunction()

# The program's own standard and options, which the library was not compiled with.
function(build_with_own_options)
  execute_process(COMMAND pkg-config --cflags --libs weft OUTPUT_VARIABLE options COMMAND_ERROR_IS_FATAL ANY
                  OUTPUT_STRIP_TRAILING_WHITESPACE)
  foreach(own "-std=c++23" "-std=c++20 -D_GLIBCXX_ASSERTIONS" "-std=c++20 -fsanitize=address,undefined"
      "-std=c++20 -fno-rtti -fvisibility=hidden")
    if(NOT flags MATCHES "sanitize" OR NOT own MATCHES "sanitize")
      foreach(source "${work}/project/main.cpp" "${CMAKE_CURRENT_FUNCTION_LIST_DIR}/outside/own_options.cpp")
        separate_arguments(all UNIX_COMMAND "${flags} ${own} -Wall -Wextra -Werror ${source} ${options}")
        run("${compiler}" ${all} -o "${work}/by_own_options")
        run("${work}/by_own_options")
      endforeach()
    endif()
  endforeach()
  separate_arguments(all UNIX_COMMAND "${flags} -std=c++20 -D_GLIBCXX_DEBUG ${work}/project/main.cpp ${options}")
  refused("compile_weft_with_GLIBCXX_DEBUG_or_use_GLIBCXX_ASSERTIONS" "${compiler}" ${all} -o "${work}/by_own_options")
endfunction()

function(compile_anew one_file)
  if(DEFINED ENV{WEFT_TEST_LARGE} OR NOT generator STREQUAL "Ninja")
    run(${build_program})
    run("${work}/build/program")
  else()
    run(${build_program} --target CMakeFiles/program.dir/main.cpp.o "${one_file}")
  endif()
endfunction()

file(REMOVE_RECURSE "${work}")
if(way STREQUAL "install")
  write_project(find)
  run(${CMAKE_COMMAND} --install "${build}" --prefix "${work}/first" --config "${config}")
  file(RENAME "${work}/first" "${work}/prefix")
  run(${configure} "-DCMAKE_PREFIX_PATH=${work}/prefix")
  run(${build_program})
  run("${work}/build/program")
  load_a_library("-DCMAKE_PREFIX_PATH=${work}/prefix")
  find_parts("-DCMAKE_PREFIX_PATH=${work}/prefix")
  build_example_projects()
  build_with_own_options()
elseif(way STREQUAL "build_tree")
  write_project(find)
  run(${configure} "-Dweft_DIR=${build}")
  run(${build_program})
  run("${work}/build/program")
  load_a_library("-Dweft_DIR=${build}")
elseif(way STREQUAL "tour")
  write_project(find)
  configure_file("${root}/examples/tour.cpp" "${work}/main.cpp" COPYONLY)
  run(${configure} "-Dweft_DIR=${build}")
  run(${build_program})
  run("${work}/build/program")
elseif(way STREQUAL "bench")
  write_project(find)
  configure_file("${CMAKE_CURRENT_LIST_DIR}/outside/bench.cpp" "${work}/main.cpp" COPYONLY)
  run(${CMAKE_COMMAND} --install "${build}" --prefix "${work}/prefix" --config "${config}")
  run(${configure} "-DCMAKE_PREFIX_PATH=${work}/prefix")
  run(${build_program})
  run("${work}/build/program")
elseif(way STREQUAL "subdirectory")
  write_project(subdirectory)
  file(APPEND "${work}/CMakeLists.txt" "add_executable(small EXCLUDE_FROM_ALL main.cpp)\n"
    "target_link_libraries(small PRIVATE weft::nn)\n")
  file(CREATE_LINK "${root}" "${work}/weft" SYMBOLIC)
  run(${configure} ${plain})
  find_program(ninja ninja)
  if(ninja AND generator STREQUAL "Ninja")  # a program of one part waits for no object of the parts above it
    execute_process(COMMAND ${ninja} -C "${work}/build" -t inputs small OUTPUT_VARIABLE inputs)
    if(NOT inputs MATCHES "weft_nn_rare.dir/nn/module" OR inputs MATCHES "weft_(io|data|hooks|train|distributed)_")
      message(FATAL_ERROR "weft::nn compiles:\n${inputs}")
    endif()
  endif()
  compile_anew(weft/CMakeFiles/weft_core_frequent.dir/tensor/live.cpp.o)
elseif(way STREQUAL "fetch")
  write_project(fetch)
  run(${configure} ${plain} "-DFETCHCONTENT_SOURCE_DIR_WEFT=${root}")
  compile_anew(_deps/weft-build/CMakeFiles/weft_core_frequent.dir/tensor/live.cpp.o)
elseif(way STREQUAL "shared")
  write_project(find)
  run(${CMAKE_COMMAND} -S "${root}" -B "${work}/weft" -G "${generator}" "-DCMAKE_CXX_COMPILER=${compiler}" ${plain}
    -DBUILD_SHARED_LIBS=ON -DWEFT_BUILD_TESTS=OFF -DWEFT_BUILD_EXAMPLES=OFF -DWEFT_BUILD_BENCHMARKS=OFF)
  set(without -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON -DCMAKE_DISABLE_FIND_PACKAGE_Threads=ON
    -DCMAKE_DISABLE_FIND_PACKAGE_hwy=ON)
  run(${configure} ${without} "-Dweft_DIR=${work}/weft")
  if(DEFINED ENV{WEFT_TEST_LARGE})
    run(${CMAKE_COMMAND} --build "${work}/weft")
    run(${CMAKE_COMMAND} --install "${work}/weft" --prefix "${work}/prefix")
    file(REMOVE_RECURSE "${work}/weft" "${work}/build")
    run(${configure} ${without} "-DCMAKE_PREFIX_PATH=${work}/prefix")
    run(${build_program})
    run("${work}/build/program")
  endif()
elseif(way STREQUAL "cuda")
  find_program(nvcc nvcc HINTS $ENV{CUDA_HOME}/bin $ENV{CUDA_PATH}/bin /usr/local/cuda/bin)
  if(NOT nvcc OR NOT generator STREQUAL "Ninja")
    message(STATUS "SKIPPED: needs nvcc and Ninja")
    return()
  endif()
  write_project(find)
  run(${CMAKE_COMMAND} -S "${root}" -B "${work}/weft" -G "${generator}" "-DCMAKE_CXX_COMPILER=${compiler}"
    -DWEFT_WITH_CUDA=ON -DWEFT_WITH_HPU=OFF -DWEFT_BUILD_TESTS=OFF -DWEFT_BUILD_EXAMPLES=OFF -DWEFT_BUILD_BENCHMARKS=OFF)
  file(WRITE "${work}/weft/libweft.a" "!<arch>\n")
  run(${CMAKE_COMMAND} --install "${work}/weft" --prefix "${work}/first")
  file(RENAME "${work}/first" "${work}/prefix")
  run(${configure} "-DCMAKE_PREFIX_PATH=${work}/prefix")
  file(STRINGS "${work}/build/build.ninja" links REGEX "LINK_LIBRARIES = .*libcudart_static.a")
  if(NOT links MATCHES "${work}/prefix/[^ ]*/weft/libcudart_static.a")
    message(FATAL_ERROR "not linked to the runtime that was installed:\n${links}")
  endif()
elseif(way STREQUAL "missing")
  write_project(find)
  refused("weft needs Highway, which was not found. On Debian: apt-get install libhwy-dev"
    ${CMAKE_COMMAND} -S "${root}" -B "${work}/weft" -G "${generator}" ${plain} -DCMAKE_DISABLE_FIND_PACKAGE_hwy=ON)
  if(NOT shared)
    refused("it links fmt, which was not found. On Debian: apt-get install libfmt-dev"
      ${configure} "-Dweft_DIR=${build}" -DCMAKE_DISABLE_FIND_PACKAGE_fmt=ON)
  endif()
endif()
file(REMOVE_RECURSE "${work}")
