# Compiling files of a folder together spares most of what their headers and templates cost; 0 compiles each alone.
set(NIBBLE_FILES_TOGETHER 64 CACHE STRING "How many files of a library are compiled as one, where it allows that")

# nibble_compile_together(target [APART file…]): all but those, which share names of their own with others (constants and
# helpers in an unnamed namespace), and files with compile options of their own.
function(nibble_compile_together target)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "APART")
  if(NIBBLE_FILES_TOGETHER GREATER 1)
    set_target_properties(${target} PROPERTIES NIBBLE_APART "${arg_APART}")
    nibble_write_together_at_end(${target} ${NIBBLE_FILES_TOGETHER})
    # Types of unnamed namespaces now stand in files that another includes, which the compiler takes for headers.
    target_compile_options(${target} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
endfunction()

# nibble_write_together_at_end(target most): at the end of the folder's CMakeLists.txt, when its sources and their options are known.
function(nibble_write_together_at_end target most)
  cmake_language(EVAL CODE "cmake_language(DEFER CALL nibble_write_together [[${target}]] [[${most}]])")
endfunction()

# nibble_write_together(target most): the files of a target, up to `most` in one, that are compiled in their place. They include
# what they hold from the repository root: CMake's own UNITY_BUILD names absolute paths, by which ccache never knew a file again in
# another checkout.
function(nibble_write_together target most)
  get_target_property(sources ${target} SOURCES)
  get_target_property(apart ${target} NIBBLE_APART)
  set(lines "")
  foreach(source IN LISTS sources)
    set(options "")
    foreach(name COMPILE_OPTIONS COMPILE_DEFINITIONS COMPILE_FLAGS INCLUDE_DIRECTORIES)
      get_property(own SOURCE ${source} PROPERTY ${name})
      list(APPEND options ${own})
    endforeach()
    get_property(taken SOURCE ${source} PROPERTY HEADER_FILE_ONLY)
    if(taken)
      message(FATAL_ERROR "${source} is in two targets of ${CMAKE_CURRENT_SOURCE_DIR}: which compiles it?")
    endif()
    cmake_path(ABSOLUTE_PATH source BASE_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR} NORMALIZE OUTPUT_VARIABLE file)
    if(source MATCHES "[.]cc$" AND NOT source IN_LIST apart AND options STREQUAL "")
      set_source_files_properties(${source} PROPERTIES HEADER_FILE_ONLY ON)
      cmake_path(RELATIVE_PATH file BASE_DIRECTORY ${PROJECT_SOURCE_DIR})
      list(APPEND lines "#include \"${file}\"")
    endif()
  endforeach()
  set(count 0)
  while(lines)
    list(LENGTH lines left)
    if(left GREATER most)
      list(SUBLIST lines ${most} -1 rest)
    else()
      set(rest "")
    endif()
    list(SUBLIST lines 0 ${most} some)
    list(JOIN some "\n" text)
    set(together ${CMAKE_CURRENT_BINARY_DIR}/${target}_together_${count}.cc)
    file(CONFIGURE OUTPUT ${together} CONTENT "${text}\n" @ONLY)
    target_sources(${target} PRIVATE ${together})
    math(EXPR count "${count} + 1")
    set(lines ${rest})
  endwhile()
endfunction()

# nibble_compile_quickly(target): -O1 in release builds. For what reads settings, lays out text and plans: a fifth less to compile,
# and nothing that takes time when it runs.
function(nibble_compile_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)
  if(CMAKE_BUILD_TYPE STREQUAL Release)
    get_target_property(headers ${target} PRECOMPILE_HEADERS_REUSE_FROM)
    if(headers)  # of a library, not a program
      nibble_use_headers(${target} nibble_quick_headers)
    endif()
  endif()
endfunction()
if(TARGET nibble_quick_headers)
  target_compile_options(nibble_quick_headers PRIVATE -O1)
endif()

# nibble_run_quickly(target): -O2 in debug builds, sanitizers and all. For what tests spend their time in.
function(nibble_run_quickly target)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Debug>:-O2>)
  if(CMAKE_BUILD_TYPE STREQUAL Debug)
    set_target_properties(${target} PROPERTIES DISABLE_PRECOMPILE_HEADERS ON)
  endif()
endfunction()

# nibble_library(quant_algo_kmeans SOURCES … HEADERS … [DEPS …] [PRIVATE_DEPS …]) makes the static library nibble::quant_algo_kmeans.
# Headers are named from the repository root in #includes and installed under include/nibble in the same tree.
function(nibble_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;HEADERS;DEPS;PRIVATE_DEPS")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "nibble_library(${name}): unknown ${arg_UNPARSED_ARGUMENTS}")
  endif()
  add_library(nibble_${name} STATIC ${arg_SOURCES})
  add_library(nibble::${name} ALIAS nibble_${name})
  target_compile_features(nibble_${name} PUBLIC cxx_std_20)
  target_sources(nibble_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
  target_link_libraries(nibble_${name}
    PUBLIC ${arg_DEPS}
    PRIVATE ${arg_PRIVATE_DEPS} $<BUILD_INTERFACE:nibble_options>)
  set_target_properties(nibble_${name} PROPERTIES EXPORT_NAME ${name})
  nibble_use_headers(nibble_${name} nibble_headers)
  set_property(GLOBAL APPEND PROPERTY NIBBLE_LIBRARIES nibble_${name})
endfunction()
