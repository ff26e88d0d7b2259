# Run at every build: writes OUTPUT, the commit of the tree SOURCE as a line of C++, when that is another than it says.
#   cmake -DSOURCE=… -DOUTPUT=… -P build_commit.cmake
find_package(Git QUIET)
set(commit "")
if(Git_FOUND)
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} rev-parse --short=12 HEAD
    OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
  # What no commit can give again.
  execute_process(COMMAND ${GIT_EXECUTABLE} -C ${SOURCE} diff --quiet HEAD -- . ":(exclude)docs" ":(exclude)scripts" ":(exclude)tests" ":(exclude)*.md"
    RESULT_VARIABLE has_changes OUTPUT_QUIET ERROR_QUIET)
  if(commit AND NOT has_changes EQUAL 0)
    string(APPEND commit "-changed")
  endif()
endif()
file(CONFIGURE OUTPUT "${OUTPUT}" CONTENT "#define NIBBLE_GIT_COMMIT \"${commit}\"\n")
