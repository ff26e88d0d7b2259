# shellcheck shell=bash
# To be sourced. tier_flags FILE: the compiler's flags for the instructions that a source's or header's name asks for, one a
# line; of Clang for Arm, of x86 for both compilers. Kernels for several tiers are listed in cmake/isa.cmake.
tier_flags() {
  case $1 in
    *_amx.cc | *amx_tiles.h | *_amx.h) printf '%s\n' -mavx2 -mfma -mf16c -mavx512{f,bw,vl,dq,vnni,vbmi,vbmi2,bf16} -mamx-{tile,int8,bf16} ;;
    *_avx512*.cc | *_avx512*.h | *_vbmi.h) printf '%s\n' -mavx2 -mfma -mf16c -mavx512{f,bw,vl,dq,vnni,vbmi,vbmi2,bf16} ;;
    *_avx2_vnni.cc | *_avx2_vnni.h) printf '%s\n' -mavx2 -mfma -mf16c -mavxvnni ;;
    *_avx2.cc | *_avx2.h) printf '%s\n' -mavx2 -mfma -mf16c ;;
    *_neon*.cc | *_neon*.h) printf '%s\n' --target=aarch64-linux-gnu -march=armv8.2-a+dotprod+i8mm ;;
  esac
}
export -f tier_flags
