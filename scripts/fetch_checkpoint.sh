#!/usr/bin/env bash
# Fetches public checkpoints and texts from the Hugging Face hub, for users with a network. Downloads resume where they
# were cut off. Llama checkpoints need an account that has accepted their licence, and its token in HF_TOKEN.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: scripts/fetch_checkpoint.sh NAME [DIRECTORY]

Checkpoints (config, tokenizer and safetensors; DIRECTORY defaults to models/NAME):
  gpt2  gpt2-medium  gpt2-large  gpt2-xl          124 M to 1.5 B parameters
  llama-3.2-1b  llama-3.2-3b  llama-3.1-8b        need HF_TOKEN
  OWNER/NAME                                      any other repository of the hub with a model in safetensors

Texts (DIRECTORY defaults to data/NAME):
  wikitext-2-raw    the test split as wiki.test.raw: rows one a line, empty rows as " "
  c4                the first shard of C4's English training split, for calibration (319 MB, .jsonl.gz)
  c4-validation     1100 documents of C4's English validation split, joined by spaces: what GPTQ and others evaluate on

Example:
  scripts/fetch_checkpoint.sh gpt2
  scripts/fetch_checkpoint.sh wikitext-2-raw
  build/release/cli/nibble perplexity models/gpt2 --text data/wikitext-2-raw/wiki.test.raw --hf-join --stride 512
TEXT
}

hub=${HF_ENDPOINT:-https://huggingface.co}

# What curl reads besides its command line: the token, which other users of the machine could see there.
settings() { [[ -z ${HF_TOKEN:-} ]] || printf 'header = "Authorization: Bearer %s"\n' "$HF_TOKEN"; }

# fetch URL FILE: downloads to FILE.partial, resuming, and renames.
fetch() {
  local url=$1 file=$2
  [[ -e $file ]] && { echo "have $file"; return; }
  command -v curl >/dev/null || { echo "fetch_checkpoint: install curl first, to fetch $url" >&2; return 1; }
  mkdir -p "$(dirname "$file")"
  echo "fetching $file"
  local status=0
  curl --fail --location --continue-at - --retry 5 --retry-delay 2 --progress-bar --config <(settings) \
    --output "$file.partial" "$url" || status=$?
  if [[ $status -ne 0 ]]; then
    echo "cannot fetch $url (curl: $status)" >&2
    [[ $status -ne 22 ]] || echo "Is the name right? Gated models need HF_TOKEN and an accepted licence." >&2
    return 1
  fi
  mv "$file.partial" "$file"
}

# exists URL: whether the hub has that file for us. Whatever else goes wrong ends the script: a checkpoint would lack it.
exists() {
  local status
  status=$(curl --silent --location --head --retry 5 --retry-delay 2 --config <(settings) --output /dev/null --write-out '%{http_code}' "$1") || true
  case $status in
    200) return 0 ;;
    404) return 1 ;;
    *) echo "cannot look for $1 (HTTP status $status)" >&2; exit 1 ;;
  esac
}

shards_of() { grep -o '"[A-Za-z0-9._-]*\.safetensors"' "$1/model.safetensors.index.json" | tr -d '"' | sort -u; }

# is_complete DIRECTORY: whether a checkpoint is there. Its weights come last: a download that was cut off lacks some.
is_complete() {
  local file
  [[ -e $1/config.json ]] || return
  [[ -e $1/model.safetensors ]] && return
  [[ -e $1/model.safetensors.index.json ]] || return
  for file in $(shards_of "$1"); do
    [[ -e $1/$file ]] || return
  done
}

fetch_checkpoint() {
  local repository=$1 directory=$2 base=$hub/$1/resolve/main file
  if is_complete "$directory"; then  # needs no network
    echo "have $directory"
    return
  fi
  fetch "$base/config.json" "$directory/config.json"
  for file in tokenizer.json tokenizer_config.json special_tokens_map.json vocab.json merges.txt tekken.json tokenizer.model generation_config.json \
    chat_template.jinja; do
    if exists "$base/$file"; then fetch "$base/$file" "$directory/$file"; fi
  done
  if exists "$base/model.safetensors.index.json"; then
    fetch "$base/model.safetensors.index.json" "$directory/model.safetensors.index.json"
    for file in $(shards_of "$directory"); do fetch "$base/$file" "$directory/$file"; done
  else
    fetch "$base/model.safetensors" "$directory/model.safetensors"
  fi
  echo "$repository is in $directory"
}

# The public WikiText-2 raw rows come as a parquet file; this needs Python's pyarrow to be laid out as text.
fetch_wikitext() {
  local directory=$1 parquet=$1/test.parquet
  [[ -e $directory/wiki.test.raw ]] && { echo "have $directory/wiki.test.raw"; return; }
  python3 -c 'import pyarrow.parquet' 2>/dev/null || {
    echo "wikitext-2-raw is published as parquet: install pyarrow (python3 -m venv, pip install pyarrow) and try again" >&2
    return 1
  }
  fetch "$hub/datasets/Salesforce/wikitext/resolve/main/wikitext-2-raw-v1/test-00000-of-00001.parquet" "$parquet"
  python3 - "$parquet" "$directory/wiki.test.raw" <<'PYTHON'
import sys

import pyarrow.parquet

rows = pyarrow.parquet.read_table(sys.argv[1])["text"].to_pylist()
with open(sys.argv[2], "w", encoding="utf-8", newline="") as file:
    file.writelines(row if row else " \n" for row in rows)  # as in the file of the original release
PYTHON
  echo "wikitext-2-raw is in $directory"
}

# The first 1100 documents of the first shard of C4's validation split, joined by spaces.
fetch_c4_validation() {
  local directory=$1 shard=$1/c4-validation.00000-of-00008.jsonl.gz text=$1/c4-validation-1100.txt
  fetch "$hub/datasets/allenai/c4/resolve/main/en/c4-validation.00000-of-00008.json.gz" "$shard"
  python3 - "$shard" "$text" <<'PYTHON'
import gzip
import itertools
import json
import sys

with gzip.open(sys.argv[1], "rt", encoding="utf-8") as lines:
    documents = [json.loads(line)["text"] for line in itertools.islice(lines, 1100)]
with open(sys.argv[2], "w", encoding="utf-8", newline="") as file:
    file.write(" ".join(documents))
PYTHON
  echo "c4-validation is in $text"
}

case ${1:-} in
  "" | -h | --help) usage ;;
  gpt2 | gpt2-medium | gpt2-large | gpt2-xl) fetch_checkpoint "openai-community/$1" "${2:-models/$1}" ;;
  llama-3.2-1b) fetch_checkpoint meta-llama/Llama-3.2-1B "${2:-models/$1}" ;;
  llama-3.2-3b) fetch_checkpoint meta-llama/Llama-3.2-3B "${2:-models/$1}" ;;
  llama-3.1-8b) fetch_checkpoint meta-llama/Llama-3.1-8B "${2:-models/$1}" ;;
  wikitext-2-raw) fetch_wikitext "${2:-data/wikitext-2-raw}" ;;
  c4)
    fetch "$hub/datasets/allenai/c4/resolve/main/en/c4-train.00000-of-01024.json.gz" \
      "${2:-data/c4}/c4-train.00000-of-01024.jsonl.gz"
    ;;
  c4-validation) fetch_c4_validation "${2:-data/c4-validation}" ;;
  */*) fetch_checkpoint "$1" "${2:-models/${1##*/}}" ;;
  *)
    echo "fetch_checkpoint: unknown name '$1'" >&2
    usage >&2
    exit 2
    ;;
esac
