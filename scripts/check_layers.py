#!/usr/bin/env python3
"""Checks that includes follow the layers of docs/architecture.md.

The repository root is on the include path, so a forbidden #include compiles; this table is what keeps the picture true.
"""
import pathlib
import re
import sys

# folder -> folders it may include from, besides itself
ALLOWED = {
    "core": set(),
    "model/architecture": {"core"},
    "model/checkpoint": {"core", "model/architecture"},
    "model/tokenizer": {"core"},
    "model/transformer": {"core", "model/architecture", "model/checkpoint"},
    "datasets": {"core", "model/tokenizer"},
    "calib/stats": {"core"},
    "calib/collect": {"core", "model/architecture", "model/checkpoint", "model/tokenizer", "model/transformer", "datasets", "calib/stats"},
    "quant/format": {"core"},
    "quant/kernels": {"core", "quant/format"},
    "quant/algo": {"core", "quant/format", "calib/stats"},
    "quant/tuning": {"core", "model/transformer", "quant/format", "quant/algo"},
    "quant/pipeline": {"core", "model/checkpoint", "model/tokenizer", "model/transformer", "datasets", "calib/stats",
                       "calib/collect", "quant/format", "quant/kernels", "quant/algo", "quant/tuning"},
    "eval/quality": {"core", "model/checkpoint", "model/tokenizer", "model/transformer", "datasets"},
    "eval/sweep": {"core", "model/checkpoint", "model/tokenizer", "model/transformer", "datasets", "calib/stats",
                   "calib/collect", "quant/format", "quant/kernels", "quant/algo", "quant/pipeline", "eval/quality",
                   "eval/speed"},
    "eval/speed": {"core", "model/checkpoint", "model/transformer"},
    "eval/report": {"core", "eval/sweep"},
    "eval/storage": {"core", "model/checkpoint", "quant/format", "quant/pipeline"},
    "cli": None,    # the composition root: everything
    "tests": None,
}
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def folder_of(path):
    """The entry of ALLOWED that holds this repository path, or None."""
    parts = path.split("/")
    for depth in (2, 1):
        if "/".join(parts[:depth]) in ALLOWED and len(parts) > depth:
            return "/".join(parts[:depth])
    return None


def main():
    root = pathlib.Path(__file__).resolve().parent.parent
    problems = []
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
    print("\n".join(problems) or "layers: every include follows the table")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
