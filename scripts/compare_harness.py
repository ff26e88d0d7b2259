#!/usr/bin/env python3
"""Runs lm-evaluation-harness over checkpoints with its own model `hf` and with `nibble`, and compares them item by item.

    compare_harness.py CHECKPOINT … --text FILE … [--items 300] [--packed DIR=FLOAT …] [--work DIR] [--json FILE]

Tasks are made of the texts, and need no network: the last word of a passage (log-likelihood), the right one of four
endings (multiple choice), whole passages (rolling log-likelihood), and a line to be continued (generate_until).
A checkpoint without a tokenizer gets one of 256 bytes and a few words. --packed compares a quantized checkpoint in
`nibble` with its dequantized export FLOAT in `hf`.

Ends with 1 unless every item's answer is the same: `greedy` flags, chosen endings, generated texts; and log-likelihoods
to --tolerance, the rounding of float32 networks of this depth.
"""
import argparse
import json
import math
import os
import pathlib
import random
import re
import shutil
import sys
import tempfile
import time

os.environ.update(HF_HUB_OFFLINE="1", HF_DATASETS_OFFLINE="1", TRANSFORMERS_OFFLINE="1", TOKENIZERS_PARALLELISM="false")

COMMON = """
task: {name}
dataset_path: json
dataset_kwargs: {{data_files: {{test: {file}}}}}
test_split: test
output_type: {kind}
num_fewshot: 0
metadata: {{version: 1}}
"""
TASKS = {
    "nibble_last_word": ("loglikelihood", """
doc_to_text: "{{context}}"
doc_to_target: " {{word}}"
metric_list: [{metric: acc}, {metric: perplexity}]
"""),
    "nibble_endings": ("multiple_choice", """
doc_to_text: "{{context}}"
doc_to_target: "{{answer}}"
doc_to_choice: "{{endings}}"
target_delimiter: " "
metric_list: [{metric: acc}, {metric: acc_norm}]
"""),
    "nibble_rolling": ("loglikelihood_rolling", """
doc_to_text: ""
doc_to_target: "{{text}}"
metric_list: [{metric: word_perplexity}, {metric: byte_perplexity}, {metric: bits_per_byte}]
"""),
    "nibble_continue": ("generate_until", """
doc_to_text: "{{context}}"
doc_to_target: "{{line}}"
generation_kwargs: {until: ["\\n", "."], max_gen_toks: 16, do_sample: false}
metric_list: [{metric: exact_match}]
"""),
}


def passages(files, words, count, seed):
    """`count` passages of `words` words from anywhere in the texts, and what follows each."""
    text = " ".join(re.sub(r"\s+", " ", pathlib.Path(file).read_text(encoding="utf-8", errors="replace")) for file in files)
    all_words = [word for word in text.split(" ") if word.isascii()]
    pick = random.Random(seed)
    for _ in range(count):
        begin = pick.randrange(len(all_words) - words - 24)
        yield all_words[begin:begin + words], all_words[begin + words:begin + words + 24]


def write_tasks(directory, files, items, words):
    pick = random.Random(7)
    documents = {name: [] for name in TASKS}
    cut = list(passages(files, words, items, seed=1))
    for passage, following in cut:
        documents["nibble_last_word"].append({"context": " ".join(passage[:-1]), "word": passage[-1]})
        answer = pick.randrange(4)
        endings = [" ".join(cut[pick.randrange(len(cut))][1][:pick.randrange(3, 8)]) for _ in range(4)]
        endings[answer] = " ".join(following[:6])
        documents["nibble_endings"].append({"context": " ".join(passage), "endings": endings, "answer": answer})
    for passage, _ in passages(files, 6 * words, max(1, items // 6), seed=2):
        documents["nibble_rolling"].append({"text": " ".join(passage)})
    for passage, following in passages(files, words, max(1, items // 6), seed=3):
        documents["nibble_continue"].append({"context": " ".join(passage), "line": " ".join(following)})
    for name, (kind, text) in TASKS.items():
        file = directory / f"{name}.jsonl"
        file.write_text("".join(json.dumps(document) + "\n" for document in documents[name]), encoding="utf-8")
        (directory / f"{name}.yaml").write_text(COMMON.format(name=name, file=file, kind=kind) + text, encoding="utf-8")


def with_tokenizer(checkpoint, directory, vocabulary):
    """The checkpoint with a byte-level tokenizer of at most `vocabulary` ids, where it has none. Its end of text is the
    model's: `hf` would go on behind another one for as long as some text of its batch does."""
    if any((checkpoint / name).exists() for name in ("tokenizer.json", "vocab.json", "tokenizer.model")):
        return checkpoint
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers

    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    merges = [("t", "h"), ("th", "e"), ("a", "n"), ("an", "d"), ("i", "n"), ("Ġ", "the"), ("e", "r"), ("o", "u")]
    end = json.loads((checkpoint / "config.json").read_text()).get("eos_token_id") or 0
    tokens = [*alphabet, *(a + b for a, b in merges)]
    tokens.insert(min(end[0] if isinstance(end, list) else end, len(tokens)), "<|end|>")
    assert len(tokens) <= vocabulary, f"{len(tokens)} tokens for a vocabulary of {vocabulary}"
    tokenizer = Tokenizer(models.BPE(vocab={token: id for id, token in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|end|>"])
    copy = directory / checkpoint.name
    shutil.copytree(checkpoint, copy)
    os.chmod(copy, 0o755)
    tokenizer.save(str(copy / "tokenizer.json"))
    (copy / "tokenizer_config.json").write_text(json.dumps({
        "tokenizer_class": "PreTrainedTokenizerFast", "bos_token": "<|end|>", "eos_token": "<|end|>"}))
    return copy


def run(model, arguments, tasks):
    import lm_eval
    from lm_eval.tasks import TaskManager

    begin = time.monotonic()
    results = lm_eval.simple_evaluate(model=model, model_args=arguments, tasks=list(TASKS), bootstrap_iters=0,
                                      task_manager=TaskManager(include_path=str(tasks), include_defaults=False),
                                      log_samples=True, batch_size=8, verbosity="ERROR")
    return results, time.monotonic() - begin


def answers(sample):
    """The model's answers to one item, flat: numbers, flags and texts."""
    flat = []

    def collect(value):
        if isinstance(value, (list, tuple)):
            for part in value:
                collect(part)
        else:
            flat.append(value)

    collect(sample["filtered_resps"])
    return flat


def compare(ours, theirs, tolerance):
    """By task: items, items that differ, the largest difference of a log-likelihood (nats), both models' metrics."""
    table = {}
    for task in TASKS:
        a = sorted(ours["samples"][task], key=lambda sample: sample["doc_id"])
        b = sorted(theirs["samples"][task], key=lambda sample: sample["doc_id"])
        assert [s["doc_id"] for s in a] == [s["doc_id"] for s in b] and a
        different, largest, examples = 0, 0.0, []
        for mine, other in zip(a, b):
            same = True
            for x, y in zip(answers(mine), answers(other), strict=True):
                if isinstance(x, bool) or isinstance(x, str) or x in ("True", "False"):
                    same = same and str(x) == str(y)
                    continue
                gap = abs(float(x) - float(y))
                largest = max(largest, gap)
                same = same and gap <= tolerance * max(1.0, abs(float(y)))
            for key in ("acc", "acc_norm", "exact_match"):
                same = same and mine.get(key) == other.get(key)
            different += not same
            if not same and len(examples) < 3:
                examples.append({"item": mine["doc_id"], "nibble": answers(mine), "hf": answers(other)})
        metrics = lambda results: {key.split(",")[0]: value for key, value in results["results"][task].items()
                                   if isinstance(value, float) and "stderr" not in key}
        table[task] = {"items": len(a), "different": different, "largest_difference_nats": largest, "examples": examples,
                       "nibble": metrics(ours), "hf": metrics(theirs)}
    return table


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("checkpoints", nargs="*", type=pathlib.Path)
    parser.add_argument("--text", nargs="+", required=True, type=pathlib.Path)
    parser.add_argument("--packed", nargs="*", default=[], help="QUANTIZED=DEQUANTIZED")
    parser.add_argument("--items", type=int, default=300)
    parser.add_argument("--words", type=int, default=40, help="of a passage's context")
    parser.add_argument("--tolerance", type=float, default=1e-4, help="of log-likelihoods, relative above 1 nat")
    parser.add_argument("--work", type=pathlib.Path)
    parser.add_argument("--json", type=pathlib.Path)
    arguments = parser.parse_args()
    import nibble.lm_eval  # registers the model

    import nibble

    work = arguments.work or pathlib.Path(tempfile.mkdtemp(prefix="nibble-harness-"))
    work.mkdir(parents=True, exist_ok=True)
    (work / "tasks").mkdir(exist_ok=True)
    write_tasks(work / "tasks", arguments.text, arguments.items, arguments.words)
    pairs = [(path, path) for path in arguments.checkpoints]
    pairs += [tuple(pathlib.Path(side) for side in pair.split("=")) for pair in arguments.packed]
    report, failed = [], False
    for ours, theirs in pairs:
        if ours == theirs:
            ours = theirs = with_tokenizer(ours, work, nibble.Checkpoint(ours).vocabulary)
        length = nibble.Model(ours).max_positions
        # bloom says no maximum; the harness would then take 2048 here and nibble as much: the same for both.
        length = f",max_length={min(length, 1024)}"
        mine, my_seconds = run("nibble", f"path={ours}{length}", work / "tasks")
        other, their_seconds = run("hf", f"pretrained={theirs},dtype=float32,device=cpu{length}", work / "tasks")
        table = compare(mine, other, arguments.tolerance)
        report.append({"checkpoint": str(ours), "against": str(theirs), "tasks": table,
                       "seconds": {"nibble": my_seconds, "hf": their_seconds}})
        for task, row in table.items():
            failed = failed or row["different"] > 0
            for example in row["examples"]:
                print(f"  differs: {example}", flush=True)
            metrics = ", ".join(f"{key} {value:.6g}" + ("" if value == row["hf"][key] or math.isclose(value, row["hf"][key], rel_tol=1e-4) else f" against {row['hf'][key]:.6g}")
                                for key, value in row["nibble"].items())
            print(f"{ours.name:16} {task:18} {row['items']:4} items  {row['different']} differ  "
                  f"largest {row['largest_difference_nats']:.1e} nats  {metrics}", flush=True)
        print(f"{ours.name:16} {my_seconds:.1f} s with nibble, {their_seconds:.1f} s with hf", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
