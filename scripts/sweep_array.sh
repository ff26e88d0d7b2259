#!/bin/bash
# A sweep as a Slurm array: sbatch --array=1-8 scripts/sweep_array.sh SWEEP.yaml RESULTS [N]
# Tasks that share the directory RESULTS take cells from each other's hands, however many there are. Requeued or submitted again, in
# any number, it goes on where it was. With N, task i does the i-th of N shares alone, for machines that share no directory: each into
# its own, and the records merge by copying.
#SBATCH --job-name=nibble-sweep
#SBATCH --cpus-per-task=8
#SBATCH --mem=32G
#SBATCH --requeue
set -euo pipefail
usage="usage: sbatch --array=1-N scripts/sweep_array.sh SWEEP.yaml RESULTS [N]"
sweep=${1:?$usage}
results=${2:?$usage}
task=${SLURM_ARRAY_TASK_ID:?run by sbatch --array}
share=()
[[ -z ${3:-} ]] || share=(--shard "$task/$3")
memory=${SLURM_MEM_PER_NODE:-28672}  # megabytes; 0 is all that the machine has
[[ $memory != 0 ]] || memory=$(awk '/^MemAvailable:/ {print int($2 / 1024 * 7 / 8)}' /proc/meminfo)
exec nibble sweep "$sweep" -o "$results" --quiet "${share[@]}" --threads "${SLURM_CPUS_PER_TASK:-0}" --memory "${memory}M"
