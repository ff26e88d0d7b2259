#!/usr/bin/env python3
"""KL divergence of GGUF files from a float one as llama.cpp itself computes both, in millinats per token:

    build/clients/bin/python scripts/evidence/llama_cpp_divergence.py FLOAT.gguf TOKENS.u16 FILE.gguf …    (environment: tests/clients/setup.sh)

Windows of 512 tokens back to back, the first 48 (--windows) of the tokens (`nibble tokenize MODEL --text FILE -o TOKENS.u16`); mean over
positions with a next token, ± standard error from window means. llama.cpp rounds activations to 8 bits beside quantized weights, which
is in these figures and not in `nibble perplexity --reference`."""

import argparse
import pathlib
import sys

import numpy as np

from evidence_table import mean_and_error

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests/clients"))
from compare import log_softmax  # noqa: E402
from programs import llama_cpp  # noqa: E402

WINDOW = llama_cpp.CONTEXT


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("float", type=pathlib.Path)
    parser.add_argument("tokens", type=pathlib.Path)
    parser.add_argument("files", type=pathlib.Path, nargs="+")
    parser.add_argument("--windows", type=int, default=48)
    arguments = parser.parse_args()
    ids = np.fromfile(arguments.tokens, dtype="<u2" if arguments.tokens.suffix == ".u16" else "<u4")
    count = min(arguments.windows, len(ids) // WINDOW)
    if count < 2:
        sys.exit(f"{arguments.tokens}: expected at least two windows of {WINDOW} tokens, got {len(ids)} tokens")
    reference = llama_cpp.Loaded(arguments.float)
    quantized = {path: llama_cpp.Loaded(path) for path in arguments.files}
    means = {path: [] for path in arguments.files}
    for w in range(count):
        window = ids[w * WINDOW : (w + 1) * WINDOW]
        log_p = log_softmax(reference.logits(window)[:-1])
        p = np.exp(log_p)
        for path, loaded in quantized.items():
            means[path].append(float((p * (log_p - log_softmax(loaded.logits(window)[:-1]))).sum(axis=1).mean()))
    for path, values in means.items():
        mean, error = mean_and_error(values)
        print(f"{path.name}: {1e3 * mean:.3f} ± {1e3 * error:.3f} over {count} windows ({quantized[path].notes.split(';')[0]})")


if __name__ == "__main__":
    main()
