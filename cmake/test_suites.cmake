# Read by ctest, with `program`, `emulator`, `test` and `properties` (cmake/testing.cmake): adds a test of the name test:Suite for each
# suite of a GoogleTest program. The names of suites are kept beside the program, until that changes.
if(NOT EXISTS ${program})
  add_test(${test}_NOT_BUILT ${test}_NOT_BUILT)
  return()
endif()
set(list ${program}.suites)
if(NOT EXISTS ${list} OR NOT ${list} IS_NEWER_THAN ${program})
  execute_process(COMMAND ${emulator} ${program} --gtest_list_tests OUTPUT_VARIABLE listed RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${program} --gtest_list_tests: ${result}")
  endif()
  string(REGEX REPLACE "[^\n]*Running main[^\n]*\n" "" listed "${listed}")
  string(REGEX REPLACE " +#[^\n]*" "" listed "${listed}")   # of what type, or with what parameter
  string(REGEX REPLACE "\n +[^\n]*" "" listed "${listed}")  # its cases
  file(WRITE ${list} "${listed}")
endif()
file(STRINGS ${list} suites)
foreach(suite IN LISTS suites)
  string(REGEX REPLACE "[.]$" "" suite "${suite}")
  add_test("${test}:${suite}" ${emulator} ${program} "--gtest_filter=${suite}.*" --gtest_brief=1)
  set_tests_properties("${test}:${suite}" PROPERTIES ${properties})
endforeach()
