# Compile options of every target of ours. They stay inside the build: installed targets do not carry them.
add_library(nibble_options INTERFACE)
target_compile_options(nibble_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wsign-conversion
  $<$<CXX_COMPILER_ID:GNU>:-Wdouble-promotion>  # Clang's also minds a double that begins as a float
  -Wnon-virtual-dtor -Woverloaded-virtual -Wcast-align -Wformat=2
  -ffp-contract=off  # a product and a sum stay two roundings, except where an intrinsic says FMA
  $<$<BOOL:${NIBBLE_WERROR}>:-Werror>)
# GCC collects garbage from 128 MB on, a sixth of the time where many files of a folder are compiled together; from 1 GB on the
# largest takes 1.2 GB, not 0.9. Only where the machine (a container's limit is not seen) has 1.8 GB a processor.
cmake_host_system_information(RESULT megabytes QUERY TOTAL_PHYSICAL_MEMORY)
cmake_host_system_information(RESULT processors QUERY NUMBER_OF_LOGICAL_CORES)
math(EXPR megabytes_wanted "1800 * ${processors}")
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND megabytes GREATER_EQUAL megabytes_wanted)
  target_compile_options(nibble_options INTERFACE --param=ggc-min-heapsize=1048576)
endif()
target_link_options(nibble_options INTERFACE -Wl,--build-id=sha1)  # for build_id()
if(NIBBLE_SANITIZE)
  target_compile_options(nibble_options INTERFACE
    -fsanitize=${NIBBLE_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  # Beside ASan, which reports the access itself, a quarter of the time that code takes to compile. Clang's, in the builds for fuzzing,
  # has all of them.
  if(NIBBLE_SANITIZE MATCHES "address,undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    target_compile_options(nibble_options INTERFACE -fno-sanitize=null,object-size,pointer-overflow,vptr)
  endif()
  target_link_options(nibble_options INTERFACE -fsanitize=${NIBBLE_SANITIZE})
  target_compile_definitions(nibble_options INTERFACE _GLIBCXX_ASSERTIONS)
  if(NIBBLE_SANITIZE MATCHES "address")
    # Three million places that name an address, nearly all in descriptions of checks, are filled in by the linker, not by each
    # process that starts: half of its start, and tests start thousands.
    target_link_options(nibble_options INTERFACE -no-pie)
  endif()
endif()
