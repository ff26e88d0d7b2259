find_package(GTest REQUIRED)
include(GoogleTest)

# What every test is compiled with; nibble_test_headers (tests/support) as well, whose precompiled headers they use.
function(nibble_test_options name)
  if(NIBBLE_SANITIZE)
    target_compile_options(${name} PRIVATE -fno-sanitize=undefined)  # is for the code under test; a third of the compile time
  endif()
  target_compile_options(${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess>)  # for ccache
endfunction()

# nibble_test(palette_test.cc DEPS nibble::quant_algo_kmeans [LABELS golden] [EACH_ISA]), called in tests/quant/algo/kmeans.
# One executable per test file, named after its path (quant.algo.kmeans.palette_test); its cases are CTest tests of their own, so that a case which needs
# ../shared shows as skipped, alone, where that is absent. EACH_ISA adds a run per tier of instructions with
# NIBBLE_FORCE_ISA (core/isa.h); on a processor that lacks one, those runs show as skipped. Tiers that few kernels tell apart run
# all cases of a file in one process: a thousand processes less; so do those of Arm, which mostly run under an emulator.
set(NIBBLE_TIERS scalar)
if(NIBBLE_ISA_FAMILY STREQUAL x86)
  set(NIBBLE_FINE_TIERS avx2-vnni avx512-base avx512-vnni)
  list(APPEND NIBBLE_TIERS avx2 ${NIBBLE_FINE_TIERS} avx512-vbmi)
elseif(NIBBLE_ISA_FAMILY STREQUAL arm)
  set(NIBBLE_FINE_TIERS ${NIBBLE_TIERS} neon neon-dotprod neon-i8mm)
  set(NIBBLE_TIERS ${NIBBLE_FINE_TIERS})
endif()
add_custom_target(isa_tests)  # those with EACH_ISA
function(nibble_test source)
  cmake_parse_arguments(PARSE_ARGV 1 arg "EACH_ISA" "" "DEPS;LABELS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "nibble_test(${source}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  string(REGEX REPLACE "\\.cc$" "" name "${name}")
  string(REPLACE "/" "." name "${name}")
  add_executable(${name} ${source})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} nibble_test_support nibble_options)
  nibble_test_options(${name})
  target_precompile_headers(${name} REUSE_FROM nibble_test_headers)
  set_property(GLOBAL APPEND PROPERTY NIBBLE_TEST_FILES ${CMAKE_CURRENT_SOURCE_DIR}/${source})
  set(labels unit)
  if(arg_LABELS)
    set(labels ${arg_LABELS})
  endif()
  gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}:
    PROPERTIES LABELS "${labels}" TIMEOUT 900 SKIP_RETURN_CODE 77)
  if(arg_EACH_ISA)
    add_dependencies(isa_tests ${name})
    foreach(isa ${NIBBLE_TIERS})
      if(isa IN_LIST NIBBLE_FINE_TIERS)
        add_test(NAME ${name}@${isa} COMMAND ${name} --gtest_brief=1)
        set_tests_properties(${name}@${isa} PROPERTIES LABELS "${labels};isa" TIMEOUT 900 SKIP_RETURN_CODE 77
          ENVIRONMENT NIBBLE_FORCE_ISA=${isa})
        continue()
      endif()
      gtest_discover_tests(${name} DISCOVERY_MODE PRE_TEST TEST_PREFIX ${name}@${isa}: TEST_LIST ${name}_${isa}
        PROPERTIES LABELS "${labels}" TIMEOUT 900 SKIP_RETURN_CODE 77 ENVIRONMENT NIBBLE_FORCE_ISA=${isa})
    endforeach()
  endif()
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
