# Everything the product links. scripts/setup.sh installs the Debian packages of the same names.
set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)
find_package(fmt 9 REQUIRED)
find_package(Eigen3 3.4 REQUIRED NO_MODULE)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(yaml-cpp 0.7 REQUIRED)
find_package(CLI11 2.1 REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS iostreams)
find_package(HDF5 REQUIRED COMPONENTS C)
if(CMAKE_CXX_COMPILER_ID MATCHES "Clang")  # oneDNN's threads are those of GCC's runtime; Clang's own would be a second one beside it
  find_library(NIBBLE_LIBGOMP NAMES libgomp.so.1 REQUIRED)
  add_library(OpenMP::OpenMP_CXX UNKNOWN IMPORTED)
  set_target_properties(OpenMP::OpenMP_CXX PROPERTIES IMPORTED_LOCATION ${NIBBLE_LIBGOMP})
else()
  find_package(OpenMP REQUIRED COMPONENTS CXX)
endif()

# Optional: calibration over the processes of an mpirun.
find_package(MPI QUIET COMPONENTS CXX)
find_package(Boost 1.74 QUIET OPTIONAL_COMPONENTS mpi)
option(NIBBLE_MPI "Build calibration over several processes (Boost.MPI)" ${Boost_MPI_FOUND})
if(NIBBLE_MPI)
  find_package(MPI REQUIRED COMPONENTS CXX)
  find_package(Boost 1.74 REQUIRED COMPONENTS mpi)
endif()

find_package(PkgConfig REQUIRED)
pkg_check_modules(PCRE2 REQUIRED IMPORTED_TARGET libpcre2-8)
pkg_check_modules(UTF8PROC REQUIRED IMPORTED_TARGET libutf8proc)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(BROTLI REQUIRED IMPORTED_TARGET libbrotlienc libbrotlidec)

if(NOT TARGET yaml-cpp::yaml-cpp)  # yaml-cpp 0.7 exports the plain name only
  add_library(yaml-cpp::yaml-cpp ALIAS yaml-cpp)
endif()

# oneDNN, 2.6 (Debian 12) or 3.x (Ubuntu 24.04). Debian's own package file demands OpenCL headers, which we do not use.
if(NOT TARGET nibble_onednn::onednn)
  find_path(ONEDNN_INCLUDE_DIR dnnl.h REQUIRED)
  find_library(ONEDNN_LIBRARY dnnl REQUIRED)
  add_library(nibble_onednn::onednn UNKNOWN IMPORTED)
  set_target_properties(nibble_onednn::onednn PROPERTIES
    IMPORTED_LOCATION ${ONEDNN_LIBRARY} INTERFACE_INCLUDE_DIRECTORIES ${ONEDNN_INCLUDE_DIR})
endif()
