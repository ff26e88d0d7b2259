#!/usr/bin/env python3
"""Checks that includes follow the layers of docs/architecture.md, that no files include each other in a circle, and that
tests lie where what they test lies.

The repository root is on the include path, so a forbidden #include compiles; this table is what keeps the picture true.
A file and its header of one name are one room (plan.h and plan.cc); rooms that include each other, however far around,
cannot be understood, tested or replaced one by one.
"""
import pathlib
import re
import sys

# folder -> folders it may include from, besides itself; a file belongs to the longest entry that holds it
CORE = {"core", "core/text", "core/files", "core/machine", "core/simd", "core/matrix"}
NETWORK = CORE | {"model/architecture", "model/checkpoint", "model/transformer"}
MODEL = NETWORK | {"model/tokenizer", "model/open"}
CALIB = MODEL | {"datasets", "calib/stats", "calib/collect"}
LINEAR = {"quant/kernels/packing", "quant/kernels/linear"}  # what others know of kernels
STORE = NETWORK | LINEAR | {"model/open", "quant/format", "quant/recipe", "quant/store"}
ROUNDING, KMEANS, PALETTES = ({f"quant/algo/{folder}"} for folder in ("rounding", "kmeans", "palettes"))
ALGO = ROUNDING | KMEANS | PALETTES | {f"quant/algo/{folder}" for folder in ("vectors", "blocks", "windows", "solve")}
WEIGHTS = CALIB | STORE | ALGO | {"quant/tuning", "quant/tensor"}  # all that one weight needs, of files and of methods
JOB_PLAN, JOB_STATISTICS, JOB_SHARDS, JOB_NETWORK, JOB_BUDGET = (
    {f"quant/job/{folder}"} for folder in ("plan", "statistics", "shards", "network", "budget"))
JOB = WEIGHTS | JOB_PLAN | JOB_STATISTICS | JOB_SHARDS | JOB_NETWORK | JOB_BUDGET | {"quant/job"}
ALLOWED = {
    "core": set(),
    "core/text": {"core"},
    "core/files": {"core"},
    "core/machine": {"core"},
    "core/simd": set(),
    "core/matrix": {"core", "core/machine", "core/simd"},
    "model/architecture": CORE,
    "model/checkpoint": CORE | {"model/architecture"},
    "model/tokenizer": CORE,
    "model/gguf/blocks": CORE,
    "model/gguf": CORE | {"model/architecture", "model/checkpoint", "model/gguf/blocks", "model/tokenizer"},
    "model/open": CORE | {"model/architecture", "model/checkpoint", "model/tokenizer", "model/gguf"},
    "model/transformer": NETWORK,
    "model/rotate": CORE | {"model/architecture", "model/checkpoint"},
    "model/synthesize": NETWORK,
    "datasets": CORE | {"model/tokenizer"},
    "calib/stats": CORE,
    "calib/collect": CALIB,
    "quant/format": CORE,
    "quant/kernels/packing": CORE | {"quant/format"},
    "quant/kernels/simd": CORE | {"quant/kernels/packing"},
    "quant/kernels/bf16": CORE | {"quant/kernels/packing", "quant/kernels/simd"},
    "quant/kernels/exact": CORE | {"quant/kernels/packing", "quant/kernels/simd"},
    "quant/kernels/windows": CORE | {"quant/kernels/packing", "quant/kernels/simd"},
    "quant/kernels/int8": CORE | {"quant/kernels/packing", "quant/kernels/simd", "quant/kernels/windows"},
    "quant/kernels/linear": CORE | {"quant/format", "quant/kernels/packing", "quant/kernels/exact", "quant/kernels/windows",
                                    "quant/kernels/bf16", "quant/kernels/int8"},
    "quant/algo/rounding": CORE,
    "quant/algo/kmeans": CORE | ROUNDING,
    "quant/algo/palettes": CORE | ROUNDING | KMEANS,
    "quant/algo/vectors": CORE | ROUNDING | PALETTES,
    "quant/algo/blocks": CORE | ROUNDING | KMEANS | PALETTES | {"quant/format"},
    "quant/algo/windows": CORE | ROUNDING | PALETTES | {"quant/format"},
    "quant/algo/solve": CORE | ROUNDING | PALETTES | {"quant/algo/windows"},
    "quant/tuning": NETWORK | PALETTES | {"quant/format"},
    "quant/recipe": CORE | {"calib/stats", "quant/format"},
    "quant/store": STORE,
    "quant/tensor": CORE | ALGO | {"quant/format", "quant/recipe", "quant/store"},
    "quant/job/plan": WEIGHTS,
    "quant/job/statistics": WEIGHTS | JOB_PLAN,
    "quant/job/shards": WEIGHTS | JOB_PLAN | JOB_STATISTICS,
    "quant/job/network": WEIGHTS | JOB_PLAN | JOB_STATISTICS | JOB_SHARDS,
    "quant/job/budget": WEIGHTS | JOB_PLAN | JOB_STATISTICS | JOB_SHARDS | JOB_NETWORK,
    "quant/job": JOB,
    "export": JOB | {"model/gguf", "model/gguf/blocks", "model/rotate"},
    "eval/bound": JOB | {"model/rotate", "eval/quality"},
    "eval/inspect": STORE,
    "eval/quality": MODEL | {"datasets"},
    "eval/speed": NETWORK,
    "eval/sweep": JOB | {"eval/quality", "eval/speed"},
    "eval/report": CORE | {"eval/sweep", "quant/recipe"},
    "eval/storage": CORE | {"model/architecture", "model/checkpoint", "model/open", "quant/format", "quant/store"},
    "cli": None,    # the composition root: everything
    "python": None,  # bindings of everything
    "tests": None,
}

# Circles of rooms that still stand, each with its reason; an entry that is no circle any more must go.
CIRCLES = {}  # of files that may stay for now: a tuple of their names, sorted -> why

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def folder_of(path):
    """The longest entry of ALLOWED that holds this repository path, or None."""
    folder = path.rpartition("/")[0]
    while folder and folder not in ALLOWED:
        folder = folder.rpartition("/")[0]
    return folder or None


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


# Families and the names of their tensors are known in this folder alone; everybody else asks for roles. What other
# programs know and call them is data of one file of export/, and what one of them computes, of another.
FAMILIES = "model/architecture"
MAY_NAME_THEM = ("tests/", "model/architecture/", "model/gguf/", "export/program_families.", "export/mlx_network.")
TENSOR = re.compile(
    r"(?<![\w/])(model\.(layers|embed|norm|decoder)|transformer\.(h|w|ln)|gpt_neox\.|h\.\d|wte|wpe|lm_head|embed_(tokens|in|out)|c_attn"
    r"|c_proj|c_fc|fc[12]|[qkvo]_proj|(gate|up|down|out|qkv|gate_up)_proj|query_key_value|dense_(h_to_4h|4h_to_h)"
    r"|ln_[f12]|\w*layernorm|self_attn)\b")
STRING = re.compile(r'"((?:[^"\\\n]|\\.)*)"')
EXAMPLE = re.compile(r"\bnibble (?!\{)")  # a line of a command's help


def family_names(root):
    """model_type of every family, from the one list of them."""
    text = (root / FAMILIES / "family_list.h").read_text()
    return re.findall(r"^  FAMILY\((\w+)\)", text, re.MULTILINE)


def named_outside(name, text, families):
    """Strings of a source file, comments and includes aside, that name a family or a tensor."""
    code = re.sub(r"//[^\n]*|^\s*#\s*include[^\n]*", "", text, flags=re.MULTILINE)
    problems = []
    for literal in STRING.findall(code):
        if EXAMPLE.search(literal):
            continue
        tensor = TENSOR.search(literal)
        if tensor or any(re.search(rf"(?<![\w/-]){family}(?![\w-]|\.cpp)", literal) for family in families):
            problems.append(f'{name}: "{literal}" names a family or a tensor, which only {FAMILIES}/ may; ask for a role')
    return problems


def misplaced_tests(sources, tests):
    """tests/A/x_test.cc tests folder A: its file x where there is one, or what several of its files do together. So A must
    be a folder of the product, and where only another folder has an x, the test belongs there. A command, what shows
    its results, and a test of it may have the name of what it runs; a test beside folder A/x is about all of it."""
    folders = {source.rpartition("/")[0] for source in sources}
    of_name = {}
    for source in sources:
        folder, _, name = source.rpartition("/")
        if folder not in ("cli/commands", "cli/show"):
            of_name.setdefault(name, []).append(source)
    problems = []
    for test in tests:
        folder, _, name = test.removeprefix("tests/").removesuffix("_test.cc").rpartition("/")
        if folder == "support":
            continue
        if folder not in folders:
            problems.append(f"{test}: there is no folder {folder} that it could test")
        elif folder == "cli" or f"{folder}/{name}" in folders:  # of a command, of all of a folder
            continue
        elif f"{folder}/{name}" not in sources and name in of_name:
            problems.append(f"{test}: {' and '.join(of_name[name])} lies elsewhere; its test belongs into tests/ likewise")
    return problems


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    problems, rooms = [], {}
    families = family_names(root)
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
            if not name.startswith(MAY_NAME_THEM):
                problems += named_outside(name, text, families)
            for include in INCLUDE.findall(text):
                target = folder_of(include)
                if not (root / include).is_file():
                    problems.append(f'{name}: "{include}" does not exist from the repository root')
                elif ALLOWED[folder] is not None and target not in ALLOWED[folder] | {folder}:
                    problems.append(f"{name}: {folder} may not include {include}")
                elif room_of(include) != room_of(name):
                    rooms.setdefault(room_of(name), set()).add(room_of(include))
    files = [path.relative_to(root).as_posix() for top in {folder.split("/")[0] for folder in ALLOWED}
             for path in (root / top).rglob("*") if path.suffix in (".h", ".cc")]
    problems += misplaced_tests({name.rpartition(".")[0] for name in files if not name.startswith("tests/")},
                                sorted(name for name in files if name.startswith("tests/") and name.endswith("_test.cc")))
    circles = circles_of(rooms)
    problems += [f"these files include each other in a circle: {', '.join(circle)}" for circle in circles
                 if circle not in CIRCLES]
    problems += [f"CIRCLES lists what is no circle any more: {', '.join(circle)}" for circle in CIRCLES
                 if circle not in circles]
    print("\n".join(problems) or "layers: every include follows the table, and none goes in a circle; tests lie where what they test lies")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
