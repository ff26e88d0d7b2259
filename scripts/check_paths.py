#!/usr/bin/env python3
"""Checks that files of the project which documents, comments and scripts name are there.

A path counts where it begins with one of the project's folders and ends like a file of ours, or is what a link of a document leads
to. Left out are records (CHANGELOG.md, docs/results/evidence/), names that stand for others (NAME.cc), what programs write, and what a document says was deleted (`git log -- PATH`).
"""
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("calib", "cli", "cmake", "core", "datasets", "docs", "eval", "export", "model", "python", "quant", "scripts", "tests")
KINDS = {".cc", ".cmake", ".h", ".md", ".py", ".sh", ".svg", ".txt", ".yaml"}
SUFFIX = "|".join(kind[1:] for kind in sorted(KINDS - {".txt"}))
RECORDS = ("CHANGELOG.md", "docs/results/evidence/")
WRITTEN = {"docs/results/checks.md"}  # by evidence.sh --check --record

NAMED = re.compile(rf"(?<![\w./-])((?:{'|'.join(FOLDERS)})/[\w./-]+\.(?:{SUFFIX}))(?![\w.])")
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
STANDS_FOR_OTHERS = re.compile(r"(^|/)(A|NAME)(/|\.)")


def named_in(path: pathlib.Path):
    """Paths from the root that the file names, with their lines."""
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        for match in NAMED.finditer(line):
            if not line[: match.start()].endswith("git log -- "):
                yield number, match.group(1)
        if path.suffix == ".md":
            for match in LINK.finditer(line):
                target = (path.parent / match.group(1)).resolve()
                if target.is_relative_to(ROOT):
                    yield number, target.relative_to(ROOT).as_posix()


def files():
    listed = subprocess.run(["git", "-C", ROOT, "ls-files", "-z"], check=True, capture_output=True, text=True).stdout
    for name in listed.split("\0"):
        path = ROOT / name
        if path.suffix in KINDS and path.is_file() and not name.startswith(RECORDS):
            yield name, path


def main() -> int:
    missing = [
        f"{name}:{line}: names {target}, which is not there"
        for name, path in files()
        for line, target in named_in(path)
        if target and target not in WRITTEN and not STANDS_FOR_OTHERS.search(target) and not (ROOT / target).exists()
    ]
    print("\n".join(missing) if missing else "paths: every file that documents, comments and scripts name is there")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
