#!/usr/bin/env python3
"""Whether a command of the program wrote the same bytes to two places, but for what must differ: quantization.json holds
seconds, the records of a sweep end with their own place and their timings. Usage: scripts/same_output.py COMMAND ONE OTHER
Exit code 0: the same; 1: a difference, named on standard error."""
import pathlib
import re
import sys


def contents(command, place):
    place = pathlib.Path(place)
    if place.is_file():
        return {"": place.read_bytes()}
    found = {}
    for path in sorted(place.rglob("*")):
        name = str(path.relative_to(place))
        if path.is_dir() or command == "sweep" and name.startswith(".sweep"):
            continue
        data = path.read_bytes()
        if command == "sweep" and path.suffix == ".json":
            data = data[:data.index(b'\n "command":')]
        if path.name == "quantization.json":
            data = re.sub(rb'"seconds":\s*[-+.eE0-9]+', b'"seconds":0', data)
        found[name] = data
    return found


def main(command, one, other):
    if not pathlib.Path(other).exists():
        sys.exit(f"{command}: '{other}' is missing")
    first, second = contents(command, one), contents(command, other)
    for name in sorted(first.keys() | second.keys()):
        if first.get(name) != second.get(name):
            sys.exit(f"{command}: '{name}' differs between {one} and {other}")


if __name__ == "__main__":
    main(*sys.argv[1:])
