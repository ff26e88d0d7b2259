#!/usr/bin/env bash
# Sourced by scripts/torment.sh and scripts/torment_full_disk.sh: the commands that they disturb. `nibble`, `model`, `sweep` and
# `directory` are set by then; what a command reads, an undisturbed run of an earlier one has written below $directory/whole.

# run COMMAND OUT [OPTION…]: one command of the program, into OUT; "${before[@]}" stands before the program's name.
before=()
run() {
  local command=$1 out=$2 whole=$directory/whole
  shift 2
  local text=(--text datasets/demo/calibration.txt --samples 4 --length 64)
  case $command in
    calibrate) set -- calibrate "$model" "${text[@]}" --collect activations,fisher,hessian,guided-hessian,output-hessian "$@" ;;
    quantize) set -- quantize "$model" --preset scalar --calib "$whole/calibrate" "${text[@]}" "$@" ;;
    windowed) set -- quantize "$model" --preset windowed-one-shot --calib "$whole/calibrate" "$@" ;;
    tuned) set -- quantize "$model" --preset scalar-tuned --calib "$whole/calibrate" "${text[@]}" "$@" ;;
    blocks) set -- quantize "$model" --preset int4-block "$@" ;;
    export) set -- export "$whole/quantize" "$@" ;;
    gguf) set -- export "$whole/blocks" --format gguf "$@" ;;
    rotate) set -- rotate "$model" "$@" ;;
    synthesize) set -- synthesize --like smollm2-135m --layers 1 "$@" ;;
    mapped) set -- quantize "$whole/synthesize" --preset palette --set scaling=std --memory 1M "$@" ;;
    sweep) set -- sweep "$sweep" "$@" ;;
  esac
  "${before[@]}" "$nibble" "$@" -o "$out" --quiet
}

# output COMMAND DIRECTORY: where it writes there.
output() { if [[ $1 == gguf ]]; then echo "$2/$1.gguf"; else echo "$2/$1"; fi; }

# nothing_left COMMAND OUT: neither unfinished files nor locks beside what it wrote.
nothing_left() {
  local left
  left=$(find "$(dirname "$2")" -mindepth 1 \( -name '*.partial' -o -name '*.unchecked' -o -name '*.replaced' \
    -o -name '*.lock' -o -name '*.work' \) -print)
  [[ -z $left ]] || { echo "$1: left behind: $left" >&2; return 1; }
}
