#!/usr/bin/env python3
"""Compares what Core ML computes with what `nibble export --format coreml --golden` wrote beside the package. On a Mac:

    python3 scripts/coreml/check_package.py model.mlpackage [--units cpu|gpu|ane|all] [--tolerance 0.02]

The text is run at once, token by token, in fours and in changing pieces: a row written to a wrong place of a state shows in
calls of more than one token behind others. Exit status 1 where the relative RMSE of the logits exceeds the tolerance."""
import argparse
import sys

import numpy as np

import mac_package as coreml


def pieces(count, sizes):
    done = 0
    while done < count:
        for size in sizes:
            if done < count:
                yield min(size, count - done)
                done += size


def cuts(count, window):
    """By name the sizes of calls, in turns, that a text of `count` tokens is cut into."""
    if window:  # a prompt, then single tokens
        return {"at once": [count], "a prompt, then one by one": [max(1, count // 2)] + [1] * count}
    return {"at once": [count], "one by one": [1], "in fours": [4], "mixed": [5, 1, 7, 1, 1, 3]}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("--units", choices=list(coreml.UNITS))
    parser.add_argument("--tolerance", type=float, default=0.02, help="relative RMSE of logits (float16 arithmetic: some 0.005)")
    a = parser.parse_args()
    tokens, wanted = coreml.golden(a.package)
    model = coreml.Package(a.package, a.units)
    bad = False
    for name, sizes in cuts(len(tokens), model.window).items():
        model.reset()
        rows, begin = [], 0
        for size in pieces(len(tokens), sizes):
            rows.append(model.extend(tokens[begin : begin + size]))
            begin += size
        have = np.concatenate(rows)
        error = float(np.sqrt(((have - wanted) ** 2).mean() / (wanted**2).mean()))
        same = float((have.argmax(-1) == wanted.argmax(-1)).mean())
        failed = not error <= a.tolerance
        bad |= failed
        print(f"{name:28} relative RMSE {error:.2e}, same first token {same:.1%}{'  FAILED' if failed else ''}")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
