#!/usr/bin/env python3
"""Runs exports in one program: check.py PROGRAM CASES.json RESULTS.jsonl        (with the Python of the environment)

PROGRAM is a file of programs/, or `reference`, which prepares what the others compare with. For each case of that program a line
{"case": name, "begun": true} is appended to RESULTS, then one with the verdicts: a program that ends the process half-way through
is caught by whoever reads them (run.py), which starts this again for the cases that are left (--skip N).

A case says: name, program, path; model (of "models": its reference directory, the file of its judgement, a text and how much of
it); limit of the logits' relative RMSE, over the first `tokens` ids of the text (fewer than a window where the program takes the
network for another one beyond); perplexity: limit of its relative difference, null without; greedy: how many tokens; tokenizer:
whether to compare it; rounded: the type that the format rounds weights to; damage: where to put a copy of the export with faults
in it, all of which the checks have to find."""

import importlib
import importlib.metadata
import json
import os
import pathlib
import sys
import time
import traceback
import warnings

os.environ["CUDA_VISIBLE_DEVICES"] = ""
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["TORCH_COMPILE_DISABLE"] = "1"  # gptqmodel would have its kernels compiled, for half a minute
os.environ["GPTQMODEL_CPU_WORKERS"] = "2"  # gptqmodel 7.7 cannot load anything with the one that it gives two cores
os.environ["CXX"] = "false"  # and others compiled, for minutes, where torch's headers are; without, it takes kernels that torch has
warnings.filterwarnings("ignore")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import numpy as np  # noqa: E402

import compare  # noqa: E402
from damage import damaged  # noqa: E402


def make_reference(model):
    from programs.hugging_face import judge

    made = judge(model["reference"], text_of(model), model["windows"], model["window"], prompt=8, count=24)
    np.savez(model["judge"], **made)
    np.array(made["windows"], "<u2").tofile(model["tokens"])
    return float(np.exp(np.mean(made["losses"])))


def text_of(model):
    return pathlib.Path(model["text"]).read_text(encoding="utf-8")[: model["characters"]]


def check(program, case, model):
    """{check: (holds, detail)}; with "loads" alone where the program refuses the export"""
    judge = np.load(model["judge"])
    ids = judge["windows"][0][: case["tokens"] or None].tolist()
    want = judge["logits"][: len(ids)]
    if case["damage"]:
        damaged(case["path"], case["damage"])
    start = time.time()
    loaded = program.open_model(case["damage"] or case["path"])
    verdicts = {"loads": (True, f"{time.time() - start:.1f} s; {loaded.notes}")}
    have = loaded.logits(ids)
    if have is None:
        verdicts["loads"] = (True, verdicts["loads"][1] + "; SKIPPED logits: nothing here runs them")
        case = {**case, "greedy": 0, "perplexity": None}
    else:
        verdicts["logits"] = compare.compare_logits(have, want, case["limit"])
    have_weights, want_weights = loaded.weights(model["reference"])
    if case["rounded"]:
        want_weights = {n: w.astype(case["rounded"]).astype(np.float32) for n, w in want_weights.items()}
    values = have_weights, want_weights
    verdicts["weights"] = compare.compare_weights(*values)
    if case["damage"]:
        counts = sorted(n for n, _ in compare.differences(*values).values())
        found = len(counts) == 3 and counts[0] <= 8 and counts[1] <= 128 < counts[2]
        verdicts["weights"] = (not found, verdicts["weights"][1] + f" ({counts})")
    if case["greedy"]:
        # Errors of the size of the limit may turn round what is closer than this; what they are in this case, may in any case.
        tie = min(8 * case["limit"] * float(np.sqrt((want**2).mean())), 4 * float(np.abs(have - want).max()))
        prompt = judge["prompt"].tolist()
        verdicts["greedy"] = compare.compare_greedy(loaded.greedy(prompt, case["greedy"]), judge["greedy"].tolist()[: case["greedy"]], judge["margins"], tie)
    if case["perplexity"]:
        losses = [compare.window_loss(loaded.logits(w), w) for w in judge["windows"]]
        verdicts["perplexity"] = compare.compare_perplexity(losses, judge["losses"], case["perplexity"])
    if case["tokenizer"]:
        text = text_of(model)
        verdicts["tokenizer"] = compare.compare_ids(loaded.ids_of(text, False), judge["plain_ids"].tolist())
        if verdicts["tokenizer"][0]:
            verdicts["tokenizer"] = compare.compare_ids(loaded.ids_of(text, True), judge["special_ids"].tolist())
    return verdicts


def main():
    name, cases_file, results_file = sys.argv[1:4]
    skip = int(sys.argv[5]) if sys.argv[4:5] == ["--skip"] else 0
    everything = json.loads(pathlib.Path(cases_file).read_text())
    results = open(results_file, "a", encoding="utf-8")
    say = lambda record: print(json.dumps(record), file=results, flush=True)
    sys.stdout = sys.stderr  # the programs talk
    if name == "reference":
        for key, model in list(everything["models"].items())[skip:]:
            say({"case": f"reference of {key}", "begun": True})
            start, verdict, perplexity = time.time(), (True, "logits, losses, greedy tokens, ids"), None
            try:
                perplexity = make_reference(model)
            except Exception as error:
                traceback.print_exc()
                verdict = (False, f"{type(error).__name__}: {str(error)[:400]}")
            say({"case": f"reference of {key}", "model": key, "perplexity": perplexity, "verdicts": {"made": verdict}, "seconds": time.time() - start})
        return
    cases = [c for c in everything["cases"] if c["program"] == name][skip:]
    start = time.time()
    program = importlib.import_module(f"programs.{name}")
    say({"program": name, "versions": {p: importlib.metadata.version(p) for p in program.VERSIONS}, "seconds": time.time() - start})
    for case in cases:
        say({"case": case["name"], "begun": True})
        start = time.time()
        try:
            verdicts = check(program, case, everything["models"][case["model"]])
        except Exception as error:  # a refusal is a result
            traceback.print_exc()
            where = traceback.extract_tb(error.__traceback__)[-1]
            verdicts = {"loads": (False, f"{type(error).__name__}: {str(error)[:400]} ({pathlib.Path(where.filename).name}:{where.lineno})")}
        say({"case": case["name"], "verdicts": verdicts, "seconds": time.time() - start})


if __name__ == "__main__":
    main()
