#!/usr/bin/env python3
"""Runs exports in the programs that they are for: tests/clients/run.py [--nibble FILE] [--only REGEX] …

Models are quantized, exported (cases.py), loaded in the real program, and compared with the float32 dequantized reference:
every weight, logits, greedy tokens, perplexity, tokenizer (compare.py). One process per program, two at a time; about two minutes
once the programs are there. They are in the virtual environment NIBBLE_CLIENTS (build/clients), which setup.sh makes if need be.

Exit status: 0 all hold, or SKIPPED (the line says why); 1 something does not; 2 wrong usage."""

import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

import cases as table

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nibble", type=pathlib.Path, default=ROOT / "build/release/cli/nibble")
    parser.add_argument("--environment", type=pathlib.Path, default=pathlib.Path(os.environ.get("NIBBLE_CLIENTS", ROOT / "build/clients")))
    parser.add_argument("--work", type=pathlib.Path, default=ROOT / "build/clients-work", help="exports and logs; emptied first")
    parser.add_argument("--only", default="", help='cases whose name ("llama gguf llama_cpp") matches')
    parser.add_argument("--jobs", type=int, default=2, help="programs at a time")
    parser.add_argument("--verbose", action="store_true", help="every verdict, not only of what fails")
    return parser.parse_args()


def drop_tensors(file, pattern):
    """Leaves the tensors whose names match out of a safetensors file."""
    raw = file.read_bytes()
    begin = 8 + int.from_bytes(raw[:8], "little")
    header, kept, data = json.loads(raw[8:begin]), {}, b""
    for name, entry in header.items():
        if name == "__metadata__" or re.search(pattern, name):
            continue
        first, last = entry["data_offsets"]
        kept[name] = {**entry, "data_offsets": [len(data), len(data) + last - first]}
        data += raw[begin + first : begin + last]
    text = json.dumps({"__metadata__": header.get("__metadata__", {}), **kept}).encode()
    file.write_bytes(len(text).to_bytes(8, "little") + text + data)


def family_with_tokenizer(source, target):
    """The families' checkpoints have 320 tokens and no tokenizer: the demo's, cut to its 256 bytes, first 63 merges and its special token."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("golden*"), copy_function=shutil.copyfile)
    demo = ROOT / table.DEMO / "gpt2-demo"
    tokenizer = json.loads((demo / "tokenizer.json").read_text(encoding="utf-8"))
    model, special = tokenizer["model"], tokenizer["added_tokens"]
    joined = lambda merge: merge if isinstance(merge, str) else " ".join(merge)
    model["merges"] = model["merges"][: 320 - 256 - len(special)]
    made = [joined(m).replace(" ", "") for m in model["merges"]]
    letters = sorted((t for t in model["vocab"] if len(t) == 1), key=model["vocab"].get)
    model["vocab"] = {t: i for i, t in enumerate([*letters, *made, *(s["content"] for s in special)])}
    for s in special:
        s["id"] = model["vocab"][s["content"]]
    if len(model["vocab"]) != 320:
        raise ValueError(f"the cut tokenizer has {len(model['vocab'])} tokens, not 320")
    name = target.name.removeprefix("float-")
    if name in table.WITHOUT:
        drop_tensors(target / "model.safetensors", table.WITHOUT[name])
    config = json.loads((target / "config.json").read_text())
    for key, value in table.CONFIGURATIONS.get(name, {}).items():
        *outer, key = key.split(".")
        (config[outer[0]] if outer else config)[key] = value
    (target / "config.json").write_text(json.dumps(config, indent=1))
    (target / "tokenizer.json").write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")
    shutil.copyfile(demo / "tokenizer_config.json", target / "tokenizer_config.json")


class Preparation:
    """Quantized models and exports, each made when it is first asked for."""

    def __init__(self, nibble, work):
        self.nibble, self.work, self.failures, self.seconds = nibble, work, {}, 0.0
        for name, text in table.RECIPES.items():
            (work / name).write_text(text)

    def run(self, *command):
        start = time.time()
        done = subprocess.run([self.nibble, *map(str, command), "--quiet"], cwd=ROOT, capture_output=True, text=True)
        self.seconds += time.time() - start
        return None if done.returncode == 0 else f"nibble {command[0]} ends with {done.returncode}: {done.stderr.strip()[:600]}"

    def perplexity(self, model, tokens, window):
        """Nibble's own of the quantized model, over windows cut back to back; None if it fails"""
        command = ["perplexity", self.quantized(model)[0], "--tokens", tokens, "--protocol", "blocks", "--context", window, "--json", "--quiet"]
        done = subprocess.run([self.nibble, *map(str, command)], cwd=ROOT, capture_output=True, text=True)
        return json.loads(done.stdout)["perplexity"] if done.returncode == 0 else None

    def quantized(self, model):
        """(path, None) or (None, why not)"""
        path = self.work / "quantized" / model
        if path.exists() or model in self.failures:
            return path, self.failures.get(model)
        source, how = table.MODELS[model]
        source = ROOT / source
        if table.is_family(source):
            path.parent.mkdir(exist_ok=True)
            family_with_tokenizer(source, self.work / f"float-{model}")
            source = self.work / f"float-{model}"
        how = [self.work / h if h in table.RECIPES else h for h in how]
        self.failures[model] = self.run("quantize", source, *how, "-o", path)
        return path, self.failures[model]

    def exported(self, model, form, options=()):
        """(path, None) or (None, why not)"""
        source, failure = None, None
        if form == "gguf-float32":
            source, failure = self.exported(model, "dequantized", ("--dtype", "float32"))
            form, model = "gguf", f"{model}-float32"
        suffix = {"gguf": ".gguf", "coreml": ".mlpackage"}.get(form, "")
        path = self.work / "exports" / ("-".join([model, form, *options[1::2]]) + suffix)
        key = path.name
        if path.exists() or key in self.failures:
            return path, self.failures.get(key)
        if source is None:
            source, failure = self.quantized(model)
        path.parent.mkdir(exist_ok=True)
        self.failures[key] = failure or self.run("export", source, "--format", form, *options, "-o", path)
        return path, self.failures[key]


def prepare(preparation, only):
    """{"models": …, "cases": …} for check.py, and {name of a case: why it cannot be run}"""
    models, cases, broken, skipped = {}, [], {}, set()
    for form, model, programs in table.EXPORTS:
        for program in programs:
            name = f"{model} {form} {program}"
            if not re.search(only, name):
                continue
            if not (ROOT / table.MODELS[model][0]).is_dir():
                skipped.add(table.MODELS[model][0])
                continue
            reference, failure = preparation.exported(model, "dequantized", ("--dtype", "float32"))
            path, why = preparation.exported(model, form, ("--dtype", "float16") if form == "dequantized" else ())
            if failure or why:
                broken[name] = failure or why
                continue
            family = table.is_family(table.MODELS[model][0])
            models[model] = {"reference": str(reference), "judge": str(preparation.work / f"{model}.npz"), "tokens": str(preparation.work / f"{model}.u16"),
                             "text": str(ROOT / table.DEMO / "eval.txt"),
                             "characters": 12000 if not family else 4000, "windows": 20, "window": 64 if not family else 40}
            limit = table.LOGITS_LIMIT[program]
            if form == "gguf-float32":
                limit = table.FLOAT32_LIMIT
            elif form == "gguf" and family:
                limit = table.AMPLIFIED_LIMIT
            rounded = {"dequantized": "float16", "coreml": "float16"}.get(form)
            case = {"name": name, "program": program, "path": str(path), "model": model, "limit": table.ROUNDED_LIMIT if rounded else limit, "rounded": rounded,
                    "perplexity": table.PERPLEXITY_LIMIT if not family else None, "tokens": table.FULL_ATTENTION_ONLY.get((program, model), 0),
                    "greedy": 24 if (program, model) not in table.FULL_ATTENTION_ONLY and limit < table.AMPLIFIED_LIMIT else 0, "tokenizer": form != "coreml", "damage": None}
            cases.append(case)
            if model == table.DAMAGED:
                copy = preparation.work / "damaged" / f"{program}-{path.name}"
                copy.parent.mkdir(exist_ok=True)
                cases.append({**case, "name": f"{name} with faults", "damage": str(copy)})
    return {"models": models, "cases": cases}, broken, skipped


def run_program(program, count, environment, work):
    """Records of check.py. A case during which the process ends becomes a failure, and the next process goes on behind it."""
    results, log, records, done = work / f"{program}.jsonl", work / f"{program}.log", [], 0
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONDONTWRITEBYTECODE", "PYTHONPATH", "PYTHONHOME")}
    while done < count:
        results.unlink(missing_ok=True)
        command = [environment / "bin/python", HERE / "check.py", program, work / "cases.json", results, "--skip", str(done)]
        with open(log, "a", encoding="utf-8") as output:
            status = subprocess.run(command, stdout=output, stderr=output, env=clean).returncode
        fresh = [json.loads(line) for line in results.read_text().splitlines()] if results.exists() else []
        records += [r for r in fresh if not r.get("begun")]
        finished = sum("verdicts" in r for r in fresh)
        done += finished
        if done < count:
            last = log.read_text(errors="replace").strip().splitlines()[-3:]
            begun = next((r["case"] for r in reversed(fresh) if r.get("begun")), None)
            if begun is None:  # the program itself does not start: no case will
                return [*records, {"case": program, "verdicts": {"starts": (False, f"status {status}: {' | '.join(last)[:600]}")}, "seconds": 0}]
            records.append({"case": begun, "verdicts": {"runs": (False, f"ended the process, status {status}: {' | '.join(last)[:600]}")}, "seconds": 0})
            done += 1
    return records


def holds(record):
    """A case with faults holds if the export still loads and every other check is red."""
    if record["case"].endswith("with faults"):
        return "loads" in record["verdicts"] and len(record["verdicts"]) > 1 and all(ok == (check == "loads") for check, (ok, _) in record["verdicts"].items())
    return all(ok for ok, _ in record["verdicts"].values())


def report(records, broken, verbose):
    failures = 0
    for record in records:
        if "versions" in record:
            print(f"\n{record['program']}: " + ", ".join(f"{p} {v}" for p, v in record["versions"].items()))
            continue
        ok = holds(record)
        failures += not ok
        print(f"  {'ok  ' if ok else 'FAIL'} {record['case']:44} {record['seconds']:5.1f} s")
        if verbose or not ok:
            for check, (good, detail) in record["verdicts"].items():
                print(f"         {'+' if good else '-'} {check}: {detail}")
    for name, why in broken.items():
        failures += 1
        print(f"  FAIL {name}\n         - {why}")
    return failures


def main():
    a = arguments()
    a.nibble, a.environment, a.work = (p.absolute() for p in (a.nibble, a.environment, a.work))  # absolute: resolving a python of a venv would leave it
    if not a.nibble.is_file():
        print(f"clients: {a.nibble} is not there: build it, or give --nibble", file=sys.stderr)
        return 2
    setup = subprocess.run([HERE / "setup.sh", a.environment], stdout=subprocess.PIPE, text=True)
    if setup.returncode == 3:
        print(f"SKIPPED clients: {setup.stdout.strip().splitlines()[-1]}")
        return 0
    if setup.returncode != 0:
        print("clients: setup.sh failed", file=sys.stderr)
        return 1
    start = time.time()
    shutil.rmtree(a.work, ignore_errors=True)
    a.work.mkdir(parents=True)
    preparation = Preparation(a.nibble, a.work)
    work, broken, skipped = prepare(preparation, a.only)
    if not work["cases"] and not broken:
        print(f"clients: no case matches {a.only!r}", file=sys.stderr)
        return 2
    (a.work / "cases.json").write_text(json.dumps(work, indent=1))
    print(f"quantized and exported in {preparation.seconds:.1f} s", flush=True)
    records = run_program("reference", len(work["models"]), a.environment, a.work) if work["models"] else []
    for record in records:
        if record.get("perplexity"):  # the reference itself is what Nibble computes with
            model, want = record["model"], record["perplexity"]
            have = preparation.perplexity(model, work["models"][model]["tokens"], work["models"][model]["window"])
            record["verdicts"]["as Nibble"] = (have is not None and abs(have / want - 1) <= 1e-5, f"perplexity {have} for {want:.6f} of transformers")
    failures = report(records, broken, a.verbose)
    counts = {}
    for case in work["cases"]:
        counts[case["program"]] = counts.get(case["program"], 0) + 1
    with concurrent.futures.ThreadPoolExecutor(a.jobs) as pool:
        runs = [pool.submit(run_program, program, count, a.environment, a.work) for program, count in counts.items()]
        for run in runs:
            failures += report(run.result(), {}, a.verbose)
            sys.stdout.flush()
    for missing in sorted(skipped):
        print(f"SKIPPED {missing} is not here")
    print(f"\n{len(work['cases']) + len(broken)} cases, {failures} failures, {time.time() - start:.0f} s; logs and exports: {a.work}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
