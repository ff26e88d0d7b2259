#!/bin/bash
# A sweep as a Slurm array: sbatch --array=1-8 scripts/sweep_array.sh SWEEP.yaml RESULTS
# Each task does its share of the cells into the same directory (or into one of its own: records merge by copying).
# Requeued or submitted again, it goes on where it was.
#SBATCH --job-name=nibble-sweep
#SBATCH --cpus-per-task=8
#SBATCH --mem=32G
#SBATCH --requeue
set -euo pipefail
sweep=${1:?usage: sbatch --array=1-N scripts/sweep_array.sh SWEEP.yaml RESULTS}
results=${2:?usage: sbatch --array=1-N scripts/sweep_array.sh SWEEP.yaml RESULTS}
exec nibble sweep "$sweep" -o "$results" --quiet \
  --shard "${SLURM_ARRAY_TASK_ID:?run by sbatch --array}/${SLURM_ARRAY_TASK_MAX:?}" \
  --threads "${SLURM_CPUS_PER_TASK:-0}" --memory "${SLURM_MEM_PER_NODE:-28672}M"
