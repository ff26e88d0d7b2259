#!/usr/bin/env python3
"""Times a package on a Mac: the prompt, and tokens after it, under the caches of the README's table.

    python3 scripts/coreml/time_package.py model.mlpackage [--units cpu|gpu|ane|all] [--prompt 64] [--generate 32]

    none   no cache: every token runs the whole text again, from an empty state
    io     the states are copied out and in around every call, as a cache that is input and output of the program would be
    state  what the package is for: the state stays where it is

`io` needs coremltools 8.1 (MLState.read_state, write_state) and is left out where that is missing. Medians of --repeat runs."""
import argparse
import statistics
import time

import numpy as np

import mac_package as coreml


def copy_states(model):
    """Copies all states out and in again; False where this version of coremltools cannot."""
    state = model.state
    if not hasattr(state, "read_state"):
        return False
    function = next(iter(model.functions.values()))
    spec = function.get_spec().description
    described = list(spec.state) or [s for f in spec.functions[:1] for s in f.state]
    for feature in described:
        state.write_state(feature.name, state.read_state(feature.name).copy())
    return True


def run(model, cache, prompt, count):
    """Seconds to the first token, and per token after it."""
    model.reset()
    begin = time.perf_counter()
    text = list(prompt)
    token = int(model.extend(text)[-1].argmax())
    first = time.perf_counter() - begin
    begin = time.perf_counter()
    for _ in range(count):
        if cache == "none":
            text.append(token)
            model.reset()
            token = int(model.extend(text)[-1].argmax())
        else:
            if cache == "io" and not copy_states(model):
                return None
            token = int(model.extend([token])[-1].argmax())
    return first, (time.perf_counter() - begin) / count


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("package")
    parser.add_argument("--units", choices=list(coreml.UNITS))
    parser.add_argument("--prompt", type=int, default=64)
    parser.add_argument("--generate", type=int, default=32)
    parser.add_argument("--repeat", type=int, default=5)
    a = parser.parse_args()
    model = coreml.Package(a.package, a.units)
    prompt = np.random.default_rng(1).integers(1, 256, a.prompt).tolist()
    print("| cache | time to first token, ms | tokens/s |\n|---|---|---|")
    for cache in ("none", "io", "state"):
        run(model, cache, prompt, 2)  # warm up
        times = [run(model, cache, prompt, a.generate) for _ in range(a.repeat)]
        if None in times:
            print(f"| {cache} | – | – |")
            continue
        first, each = (statistics.median(t[i] for t in times) for i in (0, 1))
        print(f"| {cache} | {1000 * first:.1f} | {1 / each:.2f} |")


if __name__ == "__main__":
    main()
