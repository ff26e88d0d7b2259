# Headers of others that most files read, read once: they cost half a second a file, a sixth of what the demo takes to compile. With
# GCC, which wants them compiled by the options of the files that use them (of another -O it dies or does not): those of
# nibble_compile_quickly() have their own, and those of nibble_run_quickly() and files with options of their own read them as
# ever (SKIP_PRECOMPILE_HEADERS). A file must still include what it uses: scripts/check_alone.sh.
function(nibble_make_headers name)
  file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/headers.cc CONTENT "// Stands for libraries when their headers are compiled.\n")
  add_library(${name} OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_BINARY_DIR}/headers.cc)
  target_link_libraries(${name} PRIVATE fmt::fmt nlohmann_json::nlohmann_json nibble_options)
  target_precompile_headers(${name} PRIVATE <fmt/format.h> <algorithm> <array> <cmath> <cstdint> <filesystem> <functional> <map>
    <memory> <numeric> <optional> <set> <span> <string> <string_view> <utility> <vector> <nlohmann/json.hpp>)
endfunction()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  nibble_make_headers(nibble_headers)
  nibble_make_headers(nibble_quick_headers)
endif()
function(nibble_use_headers target headers)
  if(TARGET ${headers})
    set_target_properties(${target} PROPERTIES PRECOMPILE_HEADERS_REUSE_FROM ${headers})
    target_compile_options(${target} PRIVATE -fpch-preprocess)  # for ccache
  endif()
endfunction()
