#!/usr/bin/env python3
"""Checks that includes follow the layers of docs/architecture.md, and that no files include each other in a circle.

The repository root is on the include path, so a forbidden #include compiles; this table is what keeps the picture true.
A file and its header of one name are one room (plan.h and plan.cc); rooms that include each other, however far around,
cannot be understood, tested or replaced one by one.
"""
import pathlib
import re
import sys

# folder -> folders it may include from, besides itself
CORE = {"core"}
NETWORK = CORE | {"model/architecture", "model/checkpoint", "model/transformer"}
MODEL = NETWORK | {"model/tokenizer"}
CALIB = MODEL | {"datasets", "calib/stats", "calib/collect"}
STORE = NETWORK | {"quant/format", "quant/kernels", "quant/recipe", "quant/store"}
JOB = CALIB | STORE | {"quant/algo", "quant/tuning", "quant/tensor", "quant/job"}
ALLOWED = {
    "core": set(),
    "model/architecture": CORE,
    "model/checkpoint": CORE | {"model/architecture"},
    "model/tokenizer": CORE,
    "model/transformer": NETWORK,
    "model/synthesize": NETWORK,
    "datasets": CORE | {"model/tokenizer"},
    "calib/stats": CORE,
    "calib/collect": CALIB,
    "quant/format": CORE,
    "quant/kernels": CORE | {"quant/format"},
    "quant/algo": CORE | {"quant/format", "calib/stats"},
    "quant/tuning": NETWORK | {"quant/format", "quant/algo"},
    "quant/recipe": CORE | {"calib/stats", "quant/format"},
    "quant/store": STORE,
    "quant/tensor": CORE | {"quant/format", "quant/algo", "quant/recipe", "quant/store"},
    "quant/job": JOB,
    "export": JOB,
    "eval/inspect": STORE,
    "eval/quality": MODEL | {"datasets"},
    "eval/speed": NETWORK,
    "eval/sweep": JOB | {"eval/quality", "eval/speed"},
    "eval/report": CORE | {"eval/sweep"},
    "eval/storage": CORE | {"model/checkpoint", "quant/format", "quant/store"},
    "cli": None,    # the composition root: everything
    "tests": None,
}

# Circles of rooms that still stand, each with its reason; an entry that is no circle any more must go.
CIRCLES = {
    ("model/checkpoint/checkpoint", "model/checkpoint/safetensors_file", "model/checkpoint/safetensors_header",
     "model/checkpoint/shard_index"): "TensorView is declared in checkpoint.h; goes to a header of its own",
    ("model/tokenizer/added_tokens", "model/tokenizer/bpe", "model/tokenizer/decoder", "model/tokenizer/gpt2_files",
     "model/tokenizer/merge_table", "model/tokenizer/safe_cuts", "model/tokenizer/spec", "model/tokenizer/tokenizer",
     "model/tokenizer/tokenizer_config", "model/tokenizer/tokenizer_json", "model/tokenizer/tokenizer_json_parts",
     "model/tokenizer/vocabulary", "model/tokenizer/word_cache"): "parts take TokenId and more from tokenizer.h",
}

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def folder_of(path):
    """The entry of ALLOWED that holds this repository path, or None."""
    parts = path.split("/")
    for depth in (2, 1):
        if "/".join(parts[:depth]) in ALLOWED and len(parts) > depth:
            return "/".join(parts[:depth])
    return None


def room_of(path):
    """The room that a file belongs to: its path without .h or .cc."""
    return path.rsplit(".", 1)[0]


def circles_of(rooms):
    """The strongly connected components of more than one room (Tarjan), each sorted. rooms: room -> rooms it includes."""
    index, low, stack, on_stack, found = {}, {}, [], set(), []

    def visit(room):
        index[room] = low[room] = len(index)
        stack.append(room)
        on_stack.add(room)
        for other in sorted(rooms.get(room, ())):
            if other not in index:
                visit(other)
                low[room] = min(low[room], low[other])
            elif other in on_stack:
                low[room] = min(low[room], index[other])
        if low[room] == index[room]:
            circle = []
            while not circle or circle[-1] != room:
                circle.append(stack.pop())
                on_stack.discard(circle[-1])
            if len(circle) > 1:
                found.append(tuple(sorted(circle)))

    sys.setrecursionlimit(10_000)
    for room in sorted(rooms):
        if room not in index:
            visit(room)
    return sorted(found)


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    problems, rooms = [], {}
    for top in sorted({folder.split("/")[0] for folder in ALLOWED}):
        for path in sorted((root / top).rglob("*")):
            if path.suffix not in (".h", ".cc") or "downstream" in path.parts:
                continue
            name = path.relative_to(root).as_posix()
            text = path.read_text()
            folder = folder_of(name)
            if folder is None:
                problems.append(f"{name}: this folder is not in the table of {pathlib.Path(__file__).name}")
                continue
            for include in INCLUDE.findall(text):
                target = folder_of(include)
                if not (root / include).is_file():
                    problems.append(f'{name}: "{include}" does not exist from the repository root')
                elif ALLOWED[folder] is not None and target not in ALLOWED[folder] | {folder}:
                    problems.append(f"{name}: {folder} may not include {include}")
                elif room_of(include) != room_of(name):
                    rooms.setdefault(room_of(name), set()).add(room_of(include))
    circles = circles_of(rooms)
    problems += [f"these files include each other in a circle: {', '.join(circle)}" for circle in circles
                 if circle not in CIRCLES]
    problems += [f"CIRCLES lists what is no circle any more: {', '.join(circle)}" for circle in CIRCLES
                 if circle not in circles]
    print("\n".join(problems) or "layers: every include follows the table, and none goes in a circle")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
