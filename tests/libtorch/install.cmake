# examples/torch_project against an installed prefix that was moved since: by find_package(Torch) with Torch_DIR, and by
# find_package(weft COMPONENTS torch). Without Torch_DIR the prefix is no Torch.
# Needs: root, build, work, generator, compiler, config, flags.
cmake_minimum_required(VERSION 3.23)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " line)
    message(FATAL_ERROR "failed: ${line}")
  endif()
endfunction()

set(configure_options -G "${generator}" "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_FLAGS=${flags}"
  -DCMAKE_BUILD_TYPE=Debug -DCMAKE_DISABLE_FIND_PACKAGE_CUDAToolkit=ON)
# build_and_run(FOLDER OPTION...) configures and builds the project of the folder, and runs its program.
function(build_and_run folder)
  run(${CMAKE_COMMAND} -S "${folder}" -B "${folder}/build" ${configure_options} ${ARGN})
  run(${CMAKE_COMMAND} --build "${folder}/build")
  run("${folder}/build/curve")
endfunction()

file(REMOVE_RECURSE "${work}")
run(${CMAKE_COMMAND} --install "${build}" --prefix "${work}/first" --config "${config}")
file(RENAME "${work}/first" "${work}/prefix")
file(GLOB_RECURSE torch_config "${work}/prefix/TorchConfig.cmake")
get_filename_component(torch_dir "${torch_config}" DIRECTORY)

file(COPY "${root}/examples/torch_project" DESTINATION "${work}")
build_and_run("${work}/torch_project" "-DTorch_DIR=${torch_dir}")

file(COPY "${root}/examples/torch_project/" DESTINATION "${work}/by_component" FILES_MATCHING PATTERN "*.cpp" PATTERN "*.h")
file(WRITE "${work}/by_component/CMakeLists.txt" "cmake_minimum_required(VERSION 3.23)\nproject(curve LANGUAGES CXX)\n"
  "find_package(weft REQUIRED COMPONENTS torch)\nadd_executable(curve curve.cpp net.cpp)\n"
  "target_link_libraries(curve PRIVATE weft::torch)\n")
build_and_run("${work}/by_component" "-DCMAKE_PREFIX_PATH=${work}/prefix")

file(WRITE "${work}/unasked/CMakeLists.txt" "cmake_minimum_required(VERSION 3.23)\nproject(unasked LANGUAGES NONE)\n"
  "find_package(Torch QUIET)\nif(\"\${Torch_DIR}\" MATCHES \"${work}\")\n  message(FATAL_ERROR \"found \${Torch_DIR}\")\nendif()\n")
run(${CMAKE_COMMAND} -S "${work}/unasked" -B "${work}/unasked/build" -G "${generator}" "-DCMAKE_PREFIX_PATH=${work}/prefix")
file(REMOVE_RECURSE "${work}")
