# Installs the built tree into a prefix of its own, then configures, builds and runs a program that knows only that prefix.
# Needs: build, source, work, generator, compiler, config, flags
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " line)
    message(FATAL_ERROR "failed: ${line}")
  endif()
endfunction()

file(REMOVE_RECURSE "${work}")
run(${CMAKE_COMMAND} --install "${build}" --prefix "${work}/prefix" --config "${config}")
run(${CMAKE_COMMAND} -S "${source}" -B "${work}/build" -G "${generator}" "-DCMAKE_PREFIX_PATH=${work}/prefix"
  "-DCMAKE_CXX_COMPILER=${compiler}" "-DCMAKE_CXX_FLAGS=${flags}" -DCMAKE_BUILD_TYPE=Release)
run(${CMAKE_COMMAND} --build "${work}/build")
run("${work}/build/outside")
file(REMOVE_RECURSE "${work}")
