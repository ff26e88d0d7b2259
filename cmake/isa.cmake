# Tiers of instructions, as core/machine/isa.h lists them, and the files each one adds: *_avx2.cc, *_avx2_vnni.cc, *_avx512.cc (avx512-base),
# *_avx512_vnni.cc, *_avx512_vbmi.cc, *_amx.cc; *_neon.cc, *_neon_dotprod.cc, *_neon_i8mm.cc. A kernel has those that its instructions make faster; choose_variant() finds the best one.
# nibble_isa_sources(core x86_avx512 convert_avx512.cc …) adds sources compiled with the flags of one tier, and defines NIBBLE_HAVE_X86_AVX512 for the target. Such a file holds intrinsics and plain types only: an inline function of a
# shared header, compiled here, could be the copy that the linker keeps for the whole program.
set(NIBBLE_FLAGS_x86_avx2 -mavx2 -mfma -mf16c)
set(NIBBLE_FLAGS_x86_avx2_vnni ${NIBBLE_FLAGS_x86_avx2} -mavxvnni)
set(NIBBLE_FLAGS_x86_avx512
  -mavx2 -mfma -mf16c -mavx512f -mavx512bw -mavx512vl -mavx512dq -mprefer-vector-width=512
  -Wno-uninitialized $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)  # GCC 12 warns about its own intrinsics (GCC bug 105593)
set(NIBBLE_FLAGS_x86_avx512_vnni ${NIBBLE_FLAGS_x86_avx512} -mavx512vnni)
set(NIBBLE_FLAGS_x86_avx512_vbmi ${NIBBLE_FLAGS_x86_avx512_vnni} -mavx512vbmi -mavx512vbmi2)
set(NIBBLE_FLAGS_x86_amx ${NIBBLE_FLAGS_x86_avx512_vbmi} -mavx512bf16 -mamx-tile -mamx-int8 -mamx-bf16)
set(NIBBLE_FLAGS_arm_neon -ffp-contract=off)  # the compiler's baseline has it
set(NIBBLE_FLAGS_arm_neon_dotprod -march=armv8.2-a+dotprod)
set(NIBBLE_FLAGS_arm_neon_i8mm -march=armv8.2-a+dotprod+i8mm)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  set(NIBBLE_ISA_FAMILY x86)
elseif(CMAKE_SYSTEM_PROCESSOR MATCHES "aarch64|arm64|ARM64")
  set(NIBBLE_ISA_FAMILY arm)
else()
  set(NIBBLE_ISA_FAMILY none)
endif()
function(nibble_isa_sources name isa)
  if(NOT isa MATCHES "^${NIBBLE_ISA_FAMILY}_")
    return()
  endif()
  target_sources(nibble_${name} PRIVATE ${ARGN})
  set(flags ${NIBBLE_FLAGS_${isa}})
  if(NIBBLE_SANITIZE)
    list(APPEND flags -fno-sanitize-address-use-after-scope)  # register tiles: four times the compile time, nothing to find
  endif()
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "${flags}" SKIP_PRECOMPILE_HEADERS ON)
  string(TOUPPER ${isa} upper)
  target_compile_definitions(nibble_${name} PRIVATE NIBBLE_HAVE_${upper}=1)
endfunction()
