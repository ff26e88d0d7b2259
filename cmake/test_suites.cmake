# Read by ctest, with `program`, `emulator`, `test`, `at_once` and `properties` (cmake/testing.cmake): adds tests of the names
# test:Suite,Suite,… for the suites of a GoogleTest program, that many each. The names of suites are kept beside the program, until that
# changes.
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
while(suites)
  list(SUBLIST suites 0 ${at_once} some)
  list(REMOVE_ITEM suites ${some})
  list(TRANSFORM some REPLACE "[.]$" "")
  list(JOIN some "," names)
  list(JOIN some ".*:" filter)
  add_test("${test}:${names}" ${emulator} ${program} "--gtest_filter=${filter}.*" --gtest_brief=1)
  set_tests_properties("${test}:${names}" PROPERTIES ${properties})
endwhile()
