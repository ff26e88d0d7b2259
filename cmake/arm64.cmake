# Cross-compiling to 64-bit Arm: Debian's g++-aarch64-linux-gnu, libraries of build/arm64-root (scripts/arm64_root.sh makes it),
# tests under qemu-user. `cmake --preset arm64` uses it. `-cpu max` has every instruction that qemu knows.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_C_COMPILER aarch64-linux-gnu-gcc)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
get_filename_component(NIBBLE_ARM64_ROOT ${CMAKE_CURRENT_LIST_DIR}/../build/arm64-root ABSOLUTE)
set(CMAKE_SYSROOT ${NIBBLE_ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH ${NIBBLE_ARM64_ROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(ENV{PKG_CONFIG_SYSROOT_DIR} ${NIBBLE_ARM64_ROOT})
set(ENV{PKG_CONFIG_LIBDIR} ${NIBBLE_ARM64_ROOT}/usr/lib/aarch64-linux-gnu/pkgconfig:${NIBBLE_ARM64_ROOT}/usr/share/pkgconfig)
set(HDF5_ROOT ${NIBBLE_ARM64_ROOT}/usr/lib/aarch64-linux-gnu/hdf5/serial)  # or its wrapper compiler of this machine answers
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64 -cpu max -L ${NIBBLE_ARM64_ROOT})
