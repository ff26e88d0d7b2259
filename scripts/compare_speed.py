#!/usr/bin/env python3
"""Runs nibble and llama-bench programs of other projects in turn, and prints tokens/s side by side.

    scripts/compare_speed.py --nibble build/release/cli/nibble \\
        --ours 'int4, int8=build/speed/int4 --compute int8' \\
        --peer 'ik_llama.cpp Q4_0=PATH/llama-bench MODEL.gguf' --rounds 3 --log build/speed/peers.jsonl

Every round runs each program once: a prompt, then generated tokens behind nothing, the same numbers and threads for all,
keys and values in f16 as theirs are. So whatever else the machine does meets all of them. Rounds add to the log, and the
table is made from all of it: medians, slowest and fastest, and of each round the ratio to each peer.
"""

import argparse
import json
import pathlib
import shlex
import statistics
import subprocess


def ours(nibble, command, options):
    model, *more = shlex.split(command)
    run = [nibble, "speed", model, *more, "--cache-type", "f16", "--threads", options.threads, "--warm-up", 1,
           "--repeat", 1, "--skip-limits", "--quiet", "--json"]
    # Two runs, as theirs: a prompt alone, and tokens behind next to nothing.
    prompt = speeds(run + ["--prompt", options.prompt, "--generate", 1])
    generate = speeds(run + ["--prompt", 1, "--generate", options.generate])
    return prompt["prompt_tokens_per_second"], generate["extend_tokens_per_second"]["median"]


def speeds(command):
    return json.loads(output(command))["speeds"][0]


def peer(command, options):
    program, model, *more = shlex.split(command)
    text = output([program, "-m", model, *more, "-p", options.prompt, "-n", options.generate, "-t", options.threads,
                   "-r", 1, "-o", "json"])
    text = "\n".join(line for line in text.splitlines() if not line.startswith("WARNING"))
    tests = json.loads(text)
    return (next(t["avg_ts"] for t in tests if t["n_prompt"] > 0 and t["n_gen"] == 0),
            next(t["avg_ts"] for t in tests if t["n_prompt"] == 0 and t["n_gen"] > 0))


def output(command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          text=True).stdout


def named(text):
    name, _, command = text.partition("=")
    return name, command


def spread(values):
    return f"{statistics.median(values):.1f} ({min(values):.1f}-{max(values):.1f})"


def ratios(rounds, a, b, figure):
    both = [r[a][figure] / r[b][figure] for r in rounds if a in r and b in r]
    return f"{statistics.median(both):.2f} ({min(both):.2f}-{max(both):.2f})" if both else "-"


def table(rounds, our_names, peer_names):
    names = [n for n in our_names + peer_names if any(n in r for r in rounds)]
    print(f"{len(rounds)} rounds; tokens/s, median (slowest-fastest)\n\n| | prompt | generate |\n|---|---|---|")
    for name in names:
        print(f"| {name} | {spread([r[name]['prompt'] for r in rounds if name in r])} "
              f"| {spread([r[name]['generate'] for r in rounds if name in r])} |")
    print("\n| ratio, median of rounds | prompt | generate |\n|---|---|---|")
    for a in our_names:
        for b in peer_names:
            print(f"| {a} / {b} | {ratios(rounds, a, b, 'prompt')} | {ratios(rounds, a, b, 'generate')} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nibble", default="build/release/cli/nibble")
    parser.add_argument("--ours", action="append", default=[], metavar="NAME=MODEL OPTIONS")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=LLAMA_BENCH GGUF OPTIONS")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--prompt", type=int, default=512)
    parser.add_argument("--generate", type=int, default=128)
    parser.add_argument("--log", type=pathlib.Path, required=True)
    options = parser.parse_args()
    our_commands, peer_commands = dict(map(named, options.ours)), dict(map(named, options.peer))
    for _ in range(options.rounds):
        results = {}
        for name, command in [*our_commands.items(), *peer_commands.items()]:
            run = (lambda: ours(options.nibble, command, options)) if name in our_commands else (
                lambda: peer(command, options))
            prompt, generate = run()
            results[name] = {"prompt": prompt, "generate": generate}
        with options.log.open("a") as log:
            log.write(json.dumps(results) + "\n")
    table([json.loads(line) for line in options.log.read_text().splitlines()], list(our_commands), list(peer_commands))


if __name__ == "__main__":
    main()
