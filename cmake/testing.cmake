find_package(GTest REQUIRED)

# What every test is compiled with; nibble_test_headers (tests/support) as well, whose precompiled headers they use. A library to
# link after nibble_options: options come in that order, and these undo some of those.
add_library(nibble_test_options INTERFACE)
if(NIBBLE_SANITIZE)
  # Are for the code under test: a quarter of the time that tests take to compile, each.
  target_compile_options(nibble_test_options INTERFACE -fno-sanitize=undefined -fno-sanitize-address-use-after-scope)
endif()
# Of release builds -O3 is for the code under test too; another quarter.
target_compile_options(nibble_test_options INTERFACE $<$<CONFIG:Release>:-Og>)
# GCC's usual linker takes four times as long: two minutes of some ninety programs, sanitizers and all.
include(CheckLinkerFlag)
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND NOT CMAKE_CROSSCOMPILING)
  foreach(linker lld gold)
    unset(NIBBLE_HAVE_${linker} CACHE)  # it may have been installed since
    check_linker_flag(CXX -fuse-ld=${linker} NIBBLE_HAVE_${linker})
    if(NIBBLE_HAVE_${linker})
      target_link_options(nibble_test_options INTERFACE -fuse-ld=${linker})
      break()
    endif()
  endforeach()
endif()
target_compile_options(nibble_test_options INTERFACE
  $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>         # for ccache
  $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)  # fixtures of unnamed namespaces, compiled together

# nibble_test_library(name SOURCES file… DEPS target…): what tests of several folders share, compiled as they are.
function(nibble_test_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;DEPS")
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC ${arg_DEPS} nibble_test_support PRIVATE nibble_options nibble_test_options)
  # As code of programs, which the headers were compiled for, not of libraries that may be shared.
  set_target_properties(${name} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${name} PRIVATE ${CMAKE_CXX_COMPILE_OPTIONS_PIE})
  target_precompile_headers(${name} REUSE_FROM nibble_test_headers)
endfunction()

# nibble_test(palette_test.cc DEPS nibble::quant_algo_kmeans [LABELS golden] [EACH_ISA] [APART]), called in tests/quant/algo/kmeans.
# The tests of a folder that agree in LABELS and EACH_ISA are one program (quant.algo.kmeans.isa_tests, cli.golden_tests, cli.tests),
# because compiled together they cost a fifth (cmake/library.cmake); APART makes one of a file alone (quant.algo.kmeans.palette_test), where
# its own names are those of another. A few suites are a CTest test: cases would be five thousand processes. EACH_ISA adds a
# run per tier of instructions with NIBBLE_FORCE_ISA (core/machine/isa.h); on a processor that lacks one, those runs show as skipped;
# all cases of a program then run in one process: some thousand processes less.
set(NIBBLE_TIERS scalar)
if(NIBBLE_ISA_FAMILY STREQUAL x86)
  list(APPEND NIBBLE_TIERS avx2 avx2-vnni avx512-base avx512-vnni avx512-vbmi amx)
elseif(NIBBLE_ISA_FAMILY STREQUAL arm)
  list(APPEND NIBBLE_TIERS neon neon-dotprod neon-i8mm)
endif()
# nibble_ctest(program test AT_ONCE n PROPERTIES …): the suites of a program as CTest tests of the names test:Suite,Suite,….
function(nibble_ctest program test)
  cmake_parse_arguments(PARSE_ARGV 2 arg "" "AT_ONCE" "PROPERTIES")
  set(suites ${CMAKE_CURRENT_BINARY_DIR}/${test}_suites.cmake)
  file(GENERATE OUTPUT ${suites} CONTENT "set(program [==[$<TARGET_FILE:${program}>]==])
set(emulator [==[${CMAKE_CROSSCOMPILING_EMULATOR}]==])
set(test [==[${test}]==])
set(at_once ${arg_AT_ONCE})
set(properties [==[${arg_PROPERTIES}]==])
include([==[${PROJECT_SOURCE_DIR}/cmake/test_suites.cmake]==])
")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${suites})
endfunction()

# nibble_test_properties(result labels): every test has a processor: of toy models half the time would go into threads that wait for
# one. Whole models take longest and begin first. Tests that are about threads ask for several.
function(nibble_test_properties result labels)
  set(properties LABELS "${labels}" TIMEOUT 900 SKIP_RETURN_CODE 77 PROCESSORS 1 PROCESSOR_AFFINITY ON)
  if(golden IN_LIST labels)
    list(APPEND properties COST 100 TIMEOUT 1800)
  endif()
  set(${result} "${properties}" PARENT_SCOPE)
endfunction()

# The program that `name` is, once: its tests, and those on each tier.
function(nibble_test_program name labels each_isa)
  if(TARGET ${name})
    return()
  endif()
  add_executable(${name})
  target_link_libraries(${name} PRIVATE nibble_test_support nibble_options nibble_test_options)
  target_precompile_headers(${name} REUSE_FROM nibble_test_headers)
  if(NIBBLE_FILES_TOGETHER GREATER 1)  # a few only: two processors compile two halves of a folder
    nibble_write_together_at_end(${name} 8)
  endif()
  if(each_isa AND labels STREQUAL unit)
    set(labels tiers)  # and each run of one tier: isa
  endif()
  nibble_test_properties(properties "${labels}")
  # A process with sanitizers takes 0.1 s to begin and end, as long as many a suite; whole models take minutes.
  set(at_once 8)
  if(golden IN_LIST labels)
    set(at_once 1)
  endif()
  nibble_ctest(${name} ${name} AT_ONCE ${at_once} PROPERTIES ${properties})
  if(golden IN_LIST labels)
    add_dependencies(golden_tests ${name})
  endif()
  if(NOT each_isa)
    return()
  endif()
  add_dependencies(isa_tests ${name})
  # A machine's best tier is what runs without NIBBLE_FORCE_ISA, but for Arm, where tiers alone run (presets).
  if(NOT NIBBLE_ISA_FAMILY STREQUAL arm)
    list(APPEND properties ENVIRONMENT_MODIFICATION NIBBLE_BESIDE_DEFAULT_ISA=set:1)
  endif()
  foreach(isa ${NIBBLE_TIERS})
    add_test(NAME ${name}@${isa} COMMAND ${name} --gtest_brief=1)
    set_tests_properties(${name}@${isa} PROPERTIES ${properties} COST 50 ENVIRONMENT NIBBLE_FORCE_ISA=${isa})
    set_property(TEST ${name}@${isa} APPEND PROPERTY LABELS isa)
  endforeach()
endfunction()

add_custom_target(isa_tests)     # those with EACH_ISA
add_custom_target(golden_tests)  # of label golden
function(nibble_test source)
  cmake_parse_arguments(PARSE_ARGV 1 arg "EACH_ISA;APART" "" "DEPS;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "nibble_test(${source}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  set(words ${arg_LABELS})
  if(arg_EACH_ISA)
    list(APPEND words isa)
  endif()
  list(JOIN words _ program)
  string(REGEX REPLACE "^_" "" program "${program}_tests")
  if(arg_APART)
    string(REGEX REPLACE "\\.cc$" "" program "${source}")
  endif()
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR}/${program})
  string(REPLACE "/" "." name "${name}")
  if(NOT arg_LABELS)
    set(arg_LABELS unit)
  endif()
  nibble_test_program(${name} "${arg_LABELS}" ${arg_EACH_ISA})
  target_sources(${name} PRIVATE ${source})
  target_link_libraries(${name} PRIVATE ${arg_DEPS})
  set_property(GLOBAL APPEND PROPERTY NIBBLE_TEST_FILES ${CMAKE_CURRENT_SOURCE_DIR}/${source})
endfunction()

# Configuring fails when a *_test.cc is not registered: a test that nobody runs is worse than none.
function(nibble_check_all_tests_are_registered)
  get_property(registered GLOBAL PROPERTY NIBBLE_TEST_FILES)
  file(GLOB_RECURSE found CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/*_test.cc)
  list(REMOVE_ITEM found ${registered})
  if(found)
    list(JOIN found "\n  " names)
    message(FATAL_ERROR "tests that no CMakeLists.txt registers:\n  ${names}")
  endif()
endfunction()
