#!/usr/bin/env python3
"""Runs notebooks from the top, each in a scratch directory, and fails where a cell does or a picture is missing.

    run_notebook.py NOTEBOOK.ipynb … [--out DIR] [--write]

--out keeps the pictures as PNG, to be looked at; --write puts the outputs into the notebooks themselves.
NIBBLE_ROOT says where the repository is (default: the one this script lies in).
"""
import argparse
import base64
import os
import pathlib
import sys
import tempfile

import nbformat
from nbclient import NotebookClient


def pictures(notebook):
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            png = output.get("data", {}).get("image/png")
            if png:
                yield base64.b64decode(png)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("notebooks", nargs="+", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    os.environ.setdefault("NIBBLE_ROOT", str(pathlib.Path(__file__).resolve().parents[1]))
    for path in arguments.notebooks:
        notebook = nbformat.read(path, as_version=4)
        wanted = sum("# picture" in cell.source for cell in notebook.cells)
        with tempfile.TemporaryDirectory() as scratch:
            NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": scratch}}).execute()
        found = list(pictures(notebook))
        if len(found) != wanted:
            sys.exit(f"{path}: {wanted} cells say '# picture', but {len(found)} pictures came out")
        if arguments.out:
            arguments.out.mkdir(parents=True, exist_ok=True)
            for number, png in enumerate(found, 1):
                (arguments.out / f"{path.stem}-{number}.png").write_bytes(png)
        if arguments.write:
            for cell in notebook.cells:
                cell.get("metadata", {}).pop("execution", None)  # times, which differ run by run
            nbformat.write(notebook, path)
        print(f"{path.name}: {len(notebook.cells)} cells, {len(found)} pictures")


if __name__ == "__main__":
    main()
