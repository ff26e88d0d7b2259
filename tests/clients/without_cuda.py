#!/usr/bin/env python3
"""Lets the torch of this environment run without CUDA's libraries.

The wheels of torch for Linux are linked to about ten CUDA libraries (2 GB), which are loaded with it even where there is no GPU.
For each one that is not here, this makes a shared library of the same name, which defines the functions that torch looks up in
it; whoever calls one ends the process, and on a CPU nobody does. Which functions are asked of which library is read from
torch's own files: a symbol version belongs to the library that the file's version section says, and a symbol without version
that nothing here defines goes into each of the new ones. (The driver's libcuda.so.1 is none of them: torch opens it later, and
only to look for a GPU.)

The GPU's machine code inside torch (a third of its size) is given back to the disk as well.

usage: python without_cuda.py        with the environment's Python; needs g++, readelf, nm
"""

import collections
import importlib.util
import pathlib
import re
import subprocess
import sys

LIBRARIES = pathlib.Path(importlib.util.find_spec("torch").origin).parent / "lib"
DRIVER = "libcuda.so.1"
FALLOCATE_PUNCH_HOLE_KEEP_SIZE = 3


def output(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def dynamic_symbols(path, which):
    """(name, version or "") of the undefined or defined dynamic symbols of a file; without weak ones, which may stay undefined."""
    for line in output("nm", "-D", which, str(path)).splitlines():
        *_, kind, symbol = line.split()
        if kind not in "wv":
            name, _, version = symbol.replace("@@", "@").partition("@")
            yield name, version


def needed_versions(path):
    """{version: library} of the version section: who has to define a symbol of that version."""
    owners, library = {}, None
    for line in output("readelf", "-VW", str(path)).splitlines():
        if found := re.search(r"Version: \d+\s+File: (\S+)", line):
            library = found[1]
        elif library and (found := re.search(r"Name: (\S+)\s+Flags:", line)):
            owners[found[1]] = library
        elif not line.strip():
            library = None
    return owners


def survey():
    """({missing library: {version: names}}, names that have no version and no definition)"""
    asked, unversioned, defined = collections.defaultdict(lambda: collections.defaultdict(set)), set(), set()
    torch = sorted(p for p in LIBRARIES.glob("*.so*") if not p.is_symlink())
    for path in [pathlib.Path(sys.executable).resolve(), *torch]:  # Python itself defines what its extensions look up
        absent = set()
        for line in output("ldd", str(path)).splitlines():
            name, _, where = line.strip().partition(" => ")
            if where.startswith("not found") and name != DRIVER:
                absent.add(name)
            elif where.startswith("/"):
                defined.update(n for n, _ in dynamic_symbols(where.split(" (")[0], "--defined-only"))
        for name in absent:
            asked[name]  # made even if nothing is looked up in it: the loader wants the file
        owners = needed_versions(path)
        defined.update(n for n, _ in dynamic_symbols(path, "--defined-only"))
        for name, version in dynamic_symbols(path, "--undefined-only"):
            if not version:
                unversioned.add(name)
            elif owners.get(version) in absent:
                asked[owners[version]][version].add(name)
    return asked, unversioned - defined


def make(library, versions, unversioned):
    """The source is assembly: a label per function, all at one instruction that traps."""
    names = sorted(unversioned.union(*versions.values()))
    source = ".text\n" + "".join(f".globl {n}\n.type {n}, @function\n{n}:\n" for n in names) + "ud2\n.section .note.GNU-stack\n"
    script = "".join(f"{version} {{ global: {' '.join(f'{n};' for n in sorted(members))} }};\n" for version, members in versions.items())
    (LIBRARIES / "stand_in.s").write_text(source)
    (LIBRARIES / "stand_in.map").write_text(script)
    flags = [f"-Wl,--version-script={LIBRARIES / 'stand_in.map'}"] if versions else []
    output("g++", "-shared", "-nostdlib", f"-Wl,-soname,{library}", *flags, "-o", str(LIBRARIES / library), str(LIBRARIES / "stand_in.s"))
    print(f"{library}: {len(names)} functions that nobody calls on a CPU")


def give_back_gpu_code():
    """Punches the GPU's code (section .nv_fatbin) out of the files; their lengths and everything else stay."""
    import ctypes

    fallocate = ctypes.CDLL(None, use_errno=True).fallocate
    fallocate.argtypes = [ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64]
    for path in LIBRARIES.glob("libtorch*.so"):
        if section := re.search(r"\.nv_fatbin\s+PROGBITS\s+\w+ (\w+) (\w+)", output("readelf", "-SW", str(path))):
            with open(path, "r+b") as file:  # a file system that cannot do this keeps the bytes, which is no error
                fallocate(file.fileno(), FALLOCATE_PUNCH_HOLE_KEEP_SIZE, int(section[1], 16), int(section[2], 16))


def main():
    asked, unversioned = survey()
    for library, versions in sorted(asked.items()):
        make(library, versions, unversioned)
    for leftover in ("stand_in.s", "stand_in.map"):
        (LIBRARIES / leftover).unlink(missing_ok=True)
    give_back_gpu_code()
    trial = "import torch; assert not torch.cuda.is_available(); assert float((torch.eye(8) @ torch.ones(8, 8)).sum()) == 64"
    sys.exit(subprocess.run([sys.executable, "-c", trial]).returncode)


if __name__ == "__main__":
    main()
