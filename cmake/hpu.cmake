# HPU kernels (SPIR-V) and the Level Zero test driver that runs them on the CPU.
#
# include() looks for the tools and sets, without ever failing:
#   WEFT_HPU_TOOLS_FOUND     kernels can be compiled: clang-14, opt-14, llvm-spirv-14, Level Zero headers
#   WEFT_HPU_TOOLS_MISSING   what is missing for that
#   WEFT_HPU_DRIVER_FOUND    the test driver can be built: the above, LLVM 14 headers and library, x86-64 Linux
#   WEFT_HPU_DRIVER_MISSING  what is missing for that
#   WEFT_ZE_INCLUDE_DIR      folder of level_zero/ze_api.h
#   WEFT_ZE_LOADER           libze_loader, for tests that link it
# Option: WEFT_HPU_TRANSLATE_FLAGS, the flags of clang for translated kernels.
#
# weft_target_spirv(<target> NAME <name> SOURCE <file.clcpp> [INCLUDES <dir>...] [DEFINES <def>...])
#   Compiles the kernels to SPIR-V, again when an included header changes, and adds the bytes to <target>, from
#   whose sources `#include <weft_spirv/NAME.hpp>` declares
#     weft::spirv::NAME (const std::uint32_t[]) and weft::spirv::NAME_bytes (const std::size_t).
#   Call it in the directory that creates <target>. The .spv is ${WEFT_HPU_DIR}/NAME.spv.
#
# weft_add_ze_test_driver()
#   Adds the targets weft_ze_test_driver, weft_spv2so and weft_ze_cache, which translates every module that
#   weft_target_spirv() named before this call. All belong to the default build.
#
# weft_ze_test_environment(<variable>)
#   List of NAME=VALUE for the ENVIRONMENT property of tests that use the test driver.
#
# weft_add_ze_driver_test()
#   Adds the driver's own tests (GTest must have been found). Call it before weft_add_ze_test_driver().

include_guard(GLOBAL)

set(WEFT_HPU_TRANSLATE_FLAGS "-O2 -march=native" CACHE STRING "Flags of clang for kernels translated for the CPU")
set(WEFT_HPU_DIR "${CMAKE_BINARY_DIR}/hpu")
set(WEFT_ZE_CACHE_DIR "${WEFT_HPU_DIR}/cache")
set(WEFT_ZE_DRIVER_SOURCE_DIR "${CMAKE_CURRENT_LIST_DIR}/../tests/hpu_driver")
set(WEFT_ZE_DRIVER_FILE "${WEFT_HPU_DIR}/libze_weft_test_driver.so")

find_program(WEFT_CLANG14 NAMES clang-14)
find_program(WEFT_OPT14 NAMES opt-14)
find_program(WEFT_LLVM_SPIRV14 NAMES llvm-spirv-14)
find_program(WEFT_SPIRV_VAL NAMES spirv-val)
find_program(WEFT_LLVM_LINK14 NAMES llvm-link-14)
find_program(WEFT_LLVM_CONFIG14 NAMES llvm-config-14)
find_path(WEFT_ZE_INCLUDE_DIR level_zero/ze_api.h)
find_library(WEFT_ZE_LOADER NAMES ze_loader)
mark_as_advanced(WEFT_CLANG14 WEFT_OPT14 WEFT_LLVM_SPIRV14 WEFT_SPIRV_VAL WEFT_LLVM_LINK14 WEFT_LLVM_CONFIG14
                 WEFT_ZE_INCLUDE_DIR WEFT_ZE_LOADER)

set(WEFT_HPU_TOOLS_MISSING "")
foreach(tool IN ITEMS WEFT_CLANG14 WEFT_OPT14 WEFT_LLVM_SPIRV14 WEFT_ZE_INCLUDE_DIR)
  if(NOT ${tool})
    list(APPEND WEFT_HPU_TOOLS_MISSING ${tool})
  endif()
endforeach()
if(WEFT_HPU_TOOLS_MISSING)
  set(WEFT_HPU_TOOLS_FOUND FALSE)
else()
  set(WEFT_HPU_TOOLS_FOUND TRUE)
endif()

set(WEFT_LLVM14_INCLUDE_DIR "")
set(WEFT_LLVM14_LIBRARY "")
if(WEFT_LLVM_CONFIG14)
  execute_process(COMMAND ${WEFT_LLVM_CONFIG14} --includedir
                  OUTPUT_VARIABLE WEFT_LLVM14_INCLUDE_DIR OUTPUT_STRIP_TRAILING_WHITESPACE)
  execute_process(COMMAND ${WEFT_LLVM_CONFIG14} --libdir
                  OUTPUT_VARIABLE weft_llvm14_libdir OUTPUT_STRIP_TRAILING_WHITESPACE)
  foreach(candidate IN ITEMS libLLVM-14.so libLLVM.so)
    if(NOT WEFT_LLVM14_LIBRARY AND EXISTS "${weft_llvm14_libdir}/${candidate}")
      set(WEFT_LLVM14_LIBRARY "${weft_llvm14_libdir}/${candidate}")
    endif()
  endforeach()
endif()

set(WEFT_HPU_DRIVER_MISSING ${WEFT_HPU_TOOLS_MISSING})
foreach(tool IN ITEMS WEFT_LLVM_LINK14 WEFT_LLVM_CONFIG14 WEFT_LLVM14_LIBRARY WEFT_ZE_LOADER)
  if(NOT ${tool})
    list(APPEND WEFT_HPU_DRIVER_MISSING ${tool})
  endif()
endforeach()
if(NOT EXISTS "${WEFT_LLVM14_INCLUDE_DIR}/llvm/IR/Module.h")
  list(APPEND WEFT_HPU_DRIVER_MISSING WEFT_LLVM14_INCLUDE_DIR)
endif()
if(NOT (CMAKE_SYSTEM_NAME STREQUAL "Linux" AND CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64"))
  list(APPEND WEFT_HPU_DRIVER_MISSING "x86-64 Linux")
endif()
if(WEFT_HPU_DRIVER_MISSING)
  set(WEFT_HPU_DRIVER_FOUND FALSE)
else()
  set(WEFT_HPU_DRIVER_FOUND TRUE)
endif()

set(WEFT_HPU_EMBED_SCRIPT "${WEFT_HPU_DIR}/embed_spirv.cmake")
file(CONFIGURE OUTPUT "${WEFT_HPU_EMBED_SCRIPT}" @ONLY CONTENT [[
# cmake -DINPUT=x.spv -DOUTPUT=x.cpp -DNAME=x -P embed_spirv.cmake
file(READ "${INPUT}" hex HEX)
file(SIZE "${INPUT}" bytes)
string(REGEX REPLACE "(..)(..)(..)(..)" "0x\\4\\3\\2\\1," words "${hex}")
string(REGEX REPLACE "(0x........,0x........,0x........,0x........,0x........,0x........,0x........,0x........,)"
       "\\1\n" words "${words}")
file(WRITE "${OUTPUT}" "#include <weft_spirv/${NAME}.hpp>

namespace weft::spirv {
const std::uint32_t ${NAME}[] = {
${words}
};
const std::size_t ${NAME}_bytes = ${bytes};
}  // namespace weft::spirv
")
]])

function(weft_target_spirv target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "NAME;SOURCE" "INCLUDES;DEFINES")
  if(NOT arg_NAME OR NOT arg_SOURCE)
    message(FATAL_ERROR "weft_target_spirv: NAME and SOURCE are needed")
  endif()
  get_filename_component(source "${arg_SOURCE}" ABSOLUTE)
  set(base "${WEFT_HPU_DIR}/${arg_NAME}")
  list(TRANSFORM arg_INCLUDES PREPEND "-I")
  list(TRANSFORM arg_DEFINES PREPEND "-D")

  # No instcombine before the translation: it creates integers of odd widths, which SPIR-V does not support. The second
  # round removes structs that generic addresses kept alive, because variables must come first in SPIR-V.
  set(cleanup "sroa,early-cse,simplifycfg")
  set(passes "always-inline,inline,function(${cleanup},infer-address-spaces,${cleanup},dce),globaldce")
  set(validate)
  if(WEFT_SPIRV_VAL)
    set(validate COMMAND ${WEFT_SPIRV_VAL} "${base}.spv")
  endif()
  add_custom_command(
    OUTPUT "${base}.spv"
    COMMAND ${WEFT_CLANG14} -target spir64 -x clcpp -cl-std=clc++2021 -Xclang -finclude-default-header
            -O2 -Xclang -disable-llvm-passes -ffp-contract=off ${arg_INCLUDES} ${arg_DEFINES}
            -MD -MF "${base}.d" -MT "${base}.spv" -emit-llvm -c "${source}" -o "${base}.bc"
    COMMAND ${WEFT_OPT14} "-passes=${passes}" "${base}.bc" -o "${base}.opt.bc"
    COMMAND ${WEFT_LLVM_SPIRV14} --spirv-max-version=1.2 "${base}.opt.bc" -o "${base}.spv"
    ${validate}
    DEPENDS "${source}"
    DEPFILE "${base}.d"
    COMMENT "Compiling HPU kernels ${arg_NAME}"
    VERBATIM)
  add_custom_command(
    OUTPUT "${base}.cpp"
    COMMAND ${CMAKE_COMMAND} "-DINPUT=${base}.spv" "-DOUTPUT=${base}.cpp" -DNAME=${arg_NAME}
            -P "${WEFT_HPU_EMBED_SCRIPT}"
    DEPENDS "${base}.spv" "${WEFT_HPU_EMBED_SCRIPT}"
    COMMENT "Embedding HPU kernels ${arg_NAME}"
    VERBATIM)
  file(CONFIGURE OUTPUT "${WEFT_HPU_DIR}/include/weft_spirv/${arg_NAME}.hpp" @ONLY CONTENT
"#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::spirv {
extern const std::uint32_t @arg_NAME@[];
extern const std::size_t @arg_NAME@_bytes;
}  // namespace weft::spirv
")
  add_custom_target(weft_spirv_${arg_NAME} DEPENDS "${base}.spv" "${base}.cpp")
  add_dependencies(${target} weft_spirv_${arg_NAME})
  target_sources(${target} PRIVATE "${base}.cpp")
  target_include_directories(${target} PRIVATE "${WEFT_HPU_DIR}/include")
  set_property(GLOBAL APPEND PROPERTY WEFT_SPIRV_NAMES ${arg_NAME})
endfunction()

function(weft_add_ze_builtins)
  set(bitcode)
  foreach(part IN ITEMS work math int)
    set(source "${WEFT_ZE_DRIVER_SOURCE_DIR}/builtins_${part}.c")
    set(output "${WEFT_HPU_DIR}/builtins_${part}.bc")
    add_custom_command(
      OUTPUT "${output}"
      COMMAND ${WEFT_CLANG14} -O1 -ffp-contract=off -fPIC -MD -MF "${output}.d" -MT "${output}"
              -emit-llvm -c "${source}" -o "${output}"
      DEPENDS "${source}"
      DEPFILE "${output}.d"
      COMMENT "Compiling OpenCL builtins (${part})"
      VERBATIM)
    list(APPEND bitcode "${output}")
  endforeach()
  add_custom_command(
    OUTPUT "${WEFT_HPU_DIR}/builtins.bc"
    COMMAND ${WEFT_LLVM_LINK14} ${bitcode} -o "${WEFT_HPU_DIR}/builtins.bc"
    DEPENDS ${bitcode}
    VERBATIM)
  add_custom_target(weft_ze_builtins DEPENDS "${WEFT_HPU_DIR}/builtins.bc")
endfunction()

function(weft_add_spv2so)
  add_executable(weft_spv2so "${WEFT_ZE_DRIVER_SOURCE_DIR}/spv2so.cpp"
    "${WEFT_ZE_DRIVER_SOURCE_DIR}/../../backends/hpu/spirv.cpp")
  target_include_directories(weft_spv2so SYSTEM PRIVATE "${WEFT_LLVM14_INCLUDE_DIR}")
  target_link_libraries(weft_spv2so PRIVATE "${WEFT_LLVM14_LIBRARY}")
  target_compile_features(weft_spv2so PRIVATE cxx_std_20)
  # A build tool, built without the tests' sanitizers. LLVM's operator new triggers a false warning.
  target_compile_options(weft_spv2so PRIVATE -fno-sanitize=all -Wno-mismatched-new-delete)
  target_link_options(weft_spv2so PRIVATE -fno-sanitize=all)
  target_compile_definitions(weft_spv2so PRIVATE
    WEFT_CLANG="${WEFT_CLANG14}"
    WEFT_LLVM_SPIRV="${WEFT_LLVM_SPIRV14}"
    WEFT_TRANSLATE_FLAGS="${WEFT_HPU_TRANSLATE_FLAGS}")
  set_target_properties(weft_spv2so PROPERTIES RUNTIME_OUTPUT_DIRECTORY "$<1:${WEFT_HPU_DIR}>")
endfunction()

function(weft_add_ze_test_driver)
  find_package(Threads REQUIRED)
  weft_add_ze_builtins()
  weft_add_spv2so()

  set(sources)
  foreach(part IN ITEMS command_list config ddi device event executor fiber kernel memory module own_memory queue wrong)
    list(APPEND sources "${WEFT_ZE_DRIVER_SOURCE_DIR}/${part}.cpp")
  endforeach()
  add_library(weft_ze_test_driver MODULE ${sources})
  target_include_directories(weft_ze_test_driver SYSTEM PRIVATE "${WEFT_ZE_INCLUDE_DIR}")
  target_link_libraries(weft_ze_test_driver PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
  target_compile_features(weft_ze_test_driver PRIVATE cxx_std_20)
  # Exports only the table getters. Stays loaded, because worker threads may outlive the loader.
  target_link_options(weft_ze_test_driver PRIVATE
    "LINKER:--version-script=${WEFT_ZE_DRIVER_SOURCE_DIR}/exports.map" LINKER:-z,nodelete -static-libstdc++)
  if(WEFT_SANITIZE MATCHES "thread")
    target_compile_options(weft_ze_test_driver PRIVATE -fno-sanitize=thread)
    target_link_options(weft_ze_test_driver PRIVATE -fno-sanitize=thread)
  endif()
  target_compile_definitions(weft_ze_test_driver PRIVATE
    WEFT_ZE_DEFAULT_CACHE="${WEFT_ZE_CACHE_DIR}"
    WEFT_ZE_DEFAULT_SPV2SO="${WEFT_HPU_DIR}/weft_spv2so"
    WEFT_ZE_DEFAULT_BUILTINS="${WEFT_HPU_DIR}/builtins.bc")
  set_target_properties(weft_ze_test_driver PROPERTIES
    PREFIX "lib" OUTPUT_NAME ze_weft_test_driver
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LIBRARY_OUTPUT_DIRECTORY "$<1:${WEFT_HPU_DIR}>")

  set(stamps)
  get_property(names GLOBAL PROPERTY WEFT_SPIRV_NAMES)
  foreach(name IN LISTS names)
    set(stamp "${WEFT_HPU_DIR}/${name}.translated")
    add_custom_command(
      OUTPUT "${stamp}"
      COMMAND weft_spv2so "${WEFT_HPU_DIR}/builtins.bc" "${WEFT_HPU_DIR}/${name}.spv" --cache "${WEFT_ZE_CACHE_DIR}"
      COMMAND ${CMAKE_COMMAND} -E touch "${stamp}"
      DEPENDS weft_spv2so weft_ze_builtins weft_spirv_${name}
              "${WEFT_HPU_DIR}/builtins.bc" "${WEFT_HPU_DIR}/${name}.spv"
      COMMENT "Translating HPU kernels ${name} for the test driver"
      VERBATIM)
    list(APPEND stamps "${stamp}")
  endforeach()
  add_custom_target(weft_ze_cache ALL DEPENDS ${stamps})
  add_dependencies(weft_ze_cache weft_ze_test_driver)
endfunction()

function(weft_ze_test_environment variable)
  set(${variable}
    "ZE_ENABLE_ALT_DRIVERS=${WEFT_ZE_DRIVER_FILE}"
    "ZES_ENABLE_SYSMAN=1"
    "WEFT_CACHE_DIR="
    PARENT_SCOPE)
endfunction()

function(weft_add_ze_driver_test)
  add_executable(weft_ze_driver_test
    "${WEFT_ZE_DRIVER_SOURCE_DIR}/driver_test.cpp" "${WEFT_ZE_DRIVER_SOURCE_DIR}/spirv_test.cpp"
    "${WEFT_ZE_DRIVER_SOURCE_DIR}/../../backends/hpu/spirv.cpp")
  target_compile_definitions(weft_ze_driver_test PRIVATE WEFT_SPIRV_FOLDER="${WEFT_HPU_DIR}"
    WEFT_SPIRV_VALIDATOR="$<$<BOOL:${WEFT_SPIRV_VAL}>:${WEFT_SPIRV_VAL}>")
  target_include_directories(weft_ze_driver_test SYSTEM PRIVATE "${WEFT_ZE_INCLUDE_DIR}")
  target_link_libraries(weft_ze_driver_test PRIVATE "${WEFT_ZE_LOADER}" GTest::gtest GTest::gtest_main)
  target_compile_features(weft_ze_driver_test PRIVATE cxx_std_20)
  weft_target_spirv(weft_ze_driver_test NAME driver_test SOURCE "${WEFT_ZE_DRIVER_SOURCE_DIR}/driver_test.clcpp")

  weft_ze_test_environment(environment)
  list(APPEND environment WEFT_ZE_MEM_MB=256 WEFT_ZE_DEVICES=2)
  add_test(NAME hpu_spirv COMMAND weft_ze_driver_test "--gtest_filter=Spirv.*")
  set_tests_properties(hpu_spirv PROPERTIES LABELS hpu TIMEOUT 120)
  function(weft_ze_driver_run name filter)
    add_test(NAME ${name} COMMAND weft_ze_driver_test "--gtest_filter=${filter}")
    set_tests_properties(${name} PROPERTIES ENVIRONMENT "${environment};${ARGN}" TIMEOUT 120 LABELS hpu)
  endfunction()
  weft_ze_driver_run(hpu_driver "-*Lost*:Spirv.*")
  weft_ze_driver_run(hpu_driver_hostile "-*Lost*:*Timing*:Spirv.*" WEFT_ZE_JITTER_US=100 WEFT_ZE_POISON=1)
  weft_ze_driver_run(hpu_driver_validated "-*Lost*:*Timing*:Spirv.*"
    ZE_ENABLE_VALIDATION_LAYER=1 ZE_ENABLE_PARAMETER_VALIDATION=1)
  # Loader 1.8 does not wrap the build log of a failed module, and reads destroyed handles.
  weft_ze_driver_run(hpu_driver_intercepted "-*Lost*:*Timing*:*ModuleErrors*:*DestroyedTwice*:Spirv.*"
    ZE_ENABLE_LOADER_INTERCEPT=1)
  weft_ze_driver_run(hpu_driver_without_translator "*Module*:*Add*" WEFT_ZE_SPV2SO=)
  weft_ze_driver_run(hpu_driver_limits "*Queues:*Patterns*:*Timestamps*" WEFT_ZE_QUEUES=1 WEFT_ZE_FILL_PATTERN=1
    WEFT_ZE_TIMESTAMP_BITS=20)
  weft_ze_driver_run(hpu_driver_no_peer "*Peer*" WEFT_ZE_PEER=0)
  weft_ze_driver_run(hpu_driver_lost "*LostAfter*" WEFT_ZE_LOSE_AFTER=20)
  weft_ze_driver_run(hpu_driver_lost_use_after_free "*LostByUseAfterFree*" WEFT_ZE_JITTER_US=20000)
  weft_ze_driver_run(hpu_driver_lost_divergent_barrier "*LostByDivergentBarrier*")
endfunction()
