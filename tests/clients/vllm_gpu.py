#!/usr/bin/env python3
"""Runs exports in vLLM, which wants a GPU: by hand, in two steps that need not be on one machine.

    python tests/clients/vllm_gpu.py prepare DIR [--nibble FILE]     # quantizes and exports into DIR, which is emptied first; needs torch and transformers
    python tests/clients/vllm_gpu.py check DIR [--only REGEX]        # where vLLM and a GPU are

Each export is compared with the float32 dequantized reference, which transformers runs on the CPU (programs/hugging_face.py):
log-probabilities of every token of the vocabulary along a window, greedy tokens, perplexity over 20 windows. vLLM multiplies in
float16, and its kernels repack the codes, so weights are compared through what they do alone.

Exit status: 0 all hold, or SKIPPED (the line says why); 1 something does not; 2 wrong usage."""

import argparse
import json
import os
import pathlib
import re
import shutil
import sys
import time
import traceback

import cases as table
import compare
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
# Four times what float checkpoints have here, whose activations vLLM rounds to float16 as well: 1.2e-4 to 2.4e-4.
LIMIT = 1e-3
POSITIVE = ["--preset", "compressed-tensors-4bit"]  # blocks of 128, scales above zero, where INT4 has blocks of 32 and either sign
RANDOM = {
    "qwen2": {"use_sliding_window": False},
    "qwen3": {"head_dim": 32},
    "mistral": {"head_dim": 32, "sliding_window": 24},
    "phi3": {"pad_token_id": 0, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 1.0}},
    "olmo2": {},
}
# q, k and v, and gate and up, are one matrix in vLLM, so that they have the same width here.
RECIPES = {
    "mixed.yaml": "defaults: {format: uniform, bits: 4, group_size: 32}\nlayers: [{match: 'down_proj', bits: 8}]\n",
    "head.yaml": "defaults: {format: uniform, bits: 4, group_size: 32}\nlayers: [{match: 'lm_head', bits: 4}]\n",
}
MODELS = {
    **{name: table.MODELS[name] for name in ("llama", "llama-zeros", "llama-8", "gpt2")},
    "llama-positive": (f"{table.DEMO}/llama-demo", POSITIVE),
    "llama-rows": (f"{table.DEMO}/llama-demo", ["--set", "format=uniform", "--set", "bits=4", "--set", "group_size=0"]),
    "llama-mixed": (f"{table.DEMO}/llama-demo", ["--recipe", "mixed.yaml"]),
    "llama-partly": (f"{table.DEMO}/llama-demo", ["--recipe", "down_proj.yaml"]),
    "llama-head": (f"{table.DEMO}/llama-demo", ["--recipe", "head.yaml"]),
    **{name: (name, POSITIVE) for name in RANDOM},
}
EXPORTS = [
    *(("dequantized", model) for model in ("llama", "gpt2", *RANDOM)),
    *(("compressed-tensors", model) for model in ("llama", "llama-positive", "llama-zeros", "llama-8", "llama-rows", "llama-mixed", "llama-partly", *RANDOM)),  # not llama-head: vLLM 0.24 knows no coded head there
    # not with zero points: vLLM 0.24 takes symmetric GPTQ of 4 and 8 bits only
    *(("gptq", model) for model in ("llama", "llama-positive", "llama-8", "llama-rows", "llama-mixed", "llama-partly", "llama-head", "gpt2", *RANDOM)),
    *(("awq", model) for model in ("llama", "llama-positive", "llama-zeros", "llama-partly", *RANDOM)),
]


def random_model(kind, target):
    """A network of family `kind` with random weights, wide enough for the kernels of GPUs (the golden families' are not)."""
    import torch
    import transformers

    torch.manual_seed(1)
    size = {"hidden_size": 128, "intermediate_size": 256, "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 320}
    config = transformers.AutoConfig.for_model(
        kind, **size, max_position_embeddings=256, tie_word_embeddings=False,
        initializer_range=0.08, bos_token_id=319, eos_token_id=319, **RANDOM[kind])  # fmt: skip
    transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float16).save_pretrained(target)


def prepare(directory, nibble):
    from damage import damaged
    from run import Preparation, family_with_tokenizer

    if directory.exists():
        if any(directory.iterdir()) and not (directory / "cases.json").is_file():
            print(f"vllm: {directory} holds other things: remove it, or name another directory", file=sys.stderr)
            return 2
        shutil.rmtree(directory)
    directory.mkdir(parents=True)
    (directory / "cases.json").write_text("[]")
    sources = dict(MODELS)
    for kind in RANDOM:
        random_model(kind, directory / "random" / kind)
        family_with_tokenizer(directory / "random" / kind, directory / f"float-{kind}")
        sources[kind] = (directory / f"float-{kind}", MODELS[kind][1])
    table.MODELS = sources
    table.RECIPES.update(RECIPES)
    preparation = Preparation(nibble, directory)
    made, failures = [], 0  # what failed is among the cases, and fails there
    for form, model in EXPORTS:
        reference, failure = preparation.exported(model, "dequantized", ("--dtype", "float32"))
        path, why = preparation.exported(model, form, ("--dtype", "float16") if form == "dequantized" else ())
        if failure or why:
            print(f"FAIL {model} {form}: {failure or why}")
            failures += 1
            made.append({"name": f"{model} {form}", "failed": failure or why})
            continue
        coded = form != "dequantized"
        size = {"characters": 4000, "window": 40} if model in RANDOM else {"characters": 12000, "window": 64}  # as run.py's
        made.append({"name": f"{model} {form}", "model": model, "coded": coded, "damage": False, **size, "path": str(path.relative_to(directory)), "reference": str(reference.relative_to(directory))})
        if coded and model == table.DAMAGED:
            copy = directory / "damaged" / path.name
            copy.parent.mkdir(exist_ok=True)
            damaged(path, copy)
            made.append({**made[-1], "name": f"{model} {form} with faults", "damage": True, "path": str(copy.relative_to(directory))})
    text = (HERE.parent.parent / table.DEMO / "eval.txt").read_text(encoding="utf-8")
    (directory / "text.txt").write_text(text[:12000], encoding="utf-8")
    (directory / "cases.json").write_text(json.dumps(made, indent=1))
    for unneeded in ("quantized", "random", *(f"float-{kind}" for kind in RANDOM)):
        shutil.rmtree(directory / unneeded)
    print(f"{len(made) - failures} exports in {directory}, {failures} failures")
    return 1 if failures else 0


def verdicts_of(model, judge):
    """{check: (holds, detail)} of a loaded vLLM model"""
    from vllm import SamplingParams

    def run(tokens, **how):
        how = {"temperature": 0.0, "max_tokens": 1, "ignore_eos": True, "detokenize": False, **how}
        prompts = [{"prompt_token_ids": [int(t) for t in ids]} for ids in tokens]
        return model.generate(prompts, SamplingParams(**how), use_tqdm=False)

    # Of the first token nothing predicts the probability: entry t + 1 is what position t gives.
    want = compare.log_softmax(judge["logits"][:-1])
    first = run(judge["windows"][:1], prompt_logprobs=-1)[0].prompt_logprobs[1:]
    have = np.array([[entry[i].logprob for i in range(want.shape[1])] for entry in first])
    verdicts = {"log-probabilities": compare.compare_logits(have, want, LIMIT)}
    losses = []
    for ids, output in zip(judge["windows"], run(judge["windows"], prompt_logprobs=0)):
        losses.append(-np.mean([entry[int(token)].logprob for token, entry in zip(ids[1:], output.prompt_logprobs[1:])]))
    verdicts["perplexity"] = compare.compare_perplexity(losses, judge["losses"], table.PERPLEXITY_LIMIT)
    greedy = list(run([judge["prompt"]], max_tokens=len(judge["greedy"]))[0].outputs[0].token_ids)
    tie = min(8 * LIMIT * float(np.sqrt((want**2).mean())), 4 * float(np.abs(have - want).max()))
    verdicts["greedy"] = compare.compare_greedy(greedy, judge["greedy"].tolist(), judge["margins"], tie)
    return verdicts


def kernels_of(model):
    """The kernels that multiply codes, as vLLM chose them"""
    module = model.llm_engine.model_executor.driver_worker.model_runner.model
    kinds = set()
    for layer in module.modules():
        method = getattr(layer, "quant_method", None)
        scheme = getattr(layer, "scheme", None)
        kernel = getattr(scheme, "kernel", None) or getattr(method, "kernel", None)
        if kernel or scheme or "Unquantized" not in type(method).__name__:
            kinds.add(type(kernel or scheme or method).__name__)
    return ", ".join(sorted(kinds - {"NoneType", "LogitsProcessor"}))


KERNELS = ("Marlin", "Machete")


def check(directory, only):
    if not (directory / "cases.json").is_file():
        print(f"vllm: {directory} was not made by `prepare`", file=sys.stderr)
        return 2
    cases = [case for case in json.loads((directory / "cases.json").read_text()) if re.search(only, case["name"])]
    if not cases:
        print(f"vllm: no case matches {only!r}", file=sys.stderr)
        return 2
    os.environ.update(VLLM_ENABLE_V1_MULTIPROCESSING="0", VLLM_USE_FLASHINFER_SAMPLER="0", HF_HUB_OFFLINE="1", TOKENIZERS_PARALLELISM="false")
    try:
        import torch
        import vllm
    except ModuleNotFoundError as error:
        if error.name not in ("torch", "vllm"):
            raise
        print(f"SKIPPED vllm: {error}")
        return 0
    if not torch.cuda.is_available():
        print("SKIPPED vllm: no GPU")
        return 0
    from programs.hugging_face import judge

    print(f"vLLM {vllm.__version__}, torch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    text = (directory / "text.txt").read_text(encoding="utf-8")
    judged, failures = {}, 0
    for case in cases:
        start, verdicts = time.time(), {}
        try:
            if "failed" in case:
                raise RuntimeError(case["failed"])
            if case["model"] not in judged:
                made = judge(directory / case["reference"], text[: case["characters"]], 20, case["window"], prompt=8, count=24)
                judged[case["model"]] = {name: np.array(value) for name, value in made.items()}
            model = vllm.LLM(
                str(directory / case["path"]), dtype="float16", enforce_eager=True, max_model_len=128, max_logprobs=-1,
                max_num_seqs=20, max_num_batched_tokens=2048, kv_cache_memory_bytes=1 << 28, gpu_memory_utilization=0.05,
                disable_log_stats=True, enable_prefix_caching=False, attention_config={"backend": "TRITON_ATTN"})  # fmt: skip
            verdicts["loads"] = (True, f"{time.time() - start:.1f} s")
            if case["coded"]:
                kernels = kernels_of(model)
                verdicts["kernels"] = (any(name in kernels for name in KERNELS), kernels or "none: no layer was taken for a coded one")
            verdicts.update(verdicts_of(model, judged[case["model"]]))
            del model
        except Exception as error:  # a refusal is a result
            traceback.print_exc()
            verdicts["runs" if "loads" in verdicts else "loads"] = (False, f"{type(error).__name__}: {str(error)[:600]}")
        if case.get("damage"):
            ok = not any(verdicts.get(name, (True,))[0] for name in ("log-probabilities", "perplexity"))
        else:
            ok = all(good for good, _ in verdicts.values())
        failures += not ok
        print(f"{'ok  ' if ok else 'FAIL'} {case['name']:40} {time.time() - start:5.1f} s")
        for name, (good, detail) in verdicts.items():
            print(f"       {'+' if good else '-'} {name}: {detail}", flush=True)
    print(f"{len(cases)} cases, {failures} failures")
    return 1 if failures else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("step", choices=["prepare", "check"])
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--nibble", type=pathlib.Path, default=HERE.parent.parent / "build/release/cli/nibble")
    parser.add_argument("--only", default="", help='cases whose name ("llama gptq") matches')
    a = parser.parse_args()
    directory = a.directory.absolute()
    if a.step == "check":
        return check(directory, a.only)
    if a.only or not a.nibble.is_file():
        print("vllm: --only is of check" if a.only else f"vllm: {a.nibble} is not there: build it, or give --nibble", file=sys.stderr)
        return 2
    return prepare(directory, a.nibble.absolute())


if __name__ == "__main__":
    sys.exit(main())
