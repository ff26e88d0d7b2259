"""coremltools: parses a package back into its own program, infers every type again, reads weight.bin with Apple's reader and expands
compressed constants. There is no Core ML runtime outside macOS. Logits are those of an interpreter of the parsed program in NumPy,
which is not part of the repository (../shared/tools/mil_interpreter.py): without it only weights are compared."""

import importlib.util
import json
import logging
import pathlib
import re

import coremltools as ct
import numpy as np
from coremltools.converters.mil.frontend.milproto.load import load
from safetensors.numpy import load_file

from . import Model

logging.disable(logging.WARNING)
VERSIONS = ["coremltools", "numpy"]
INTERPRETER = pathlib.Path(__file__).resolve().parents[4] / "shared/tools/mil_interpreter.py"


def interpreter():
    if not INTERPRETER.is_file():
        return None
    spec = importlib.util.spec_from_file_location("mil_interpreter", INTERPRETER)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(name):
    return re.sub(r"[^A-Za-z0-9]", "_", name)


class Loaded(Model):
    def __init__(self, path):
        path = pathlib.Path(path)
        manifest = json.loads((path / "Manifest.json").read_text())
        model = path / "Data" / manifest["itemInfoEntries"][manifest["rootModelIdentifier"]]["path"]
        spec = ct.proto.Model_pb2.Model()
        spec.ParseFromString(model.read_bytes())
        program = load(spec, spec.specificationVersion, str(model.parent / "weights"))
        self.functions = program.functions
        self.package = None
        if module := interpreter():
            self.package = module.Package(path)
            if problems := self.package.describe()["problems"]:
                raise ValueError(f"coremltools loads it, but: {problems[:3]}")
        self.notes = f"specification {spec.specificationVersion}, functions {', '.join(self.functions)}"

    def logits(self, ids):
        return None if self.package is None else self.package.run(ids)

    def greedy(self, ids, count):
        last, out = self.package.run(ids)[-1], []
        for _ in range(count):
            out.append(int(last.argmax()))
            last = self.package.extend(out[-1:])[-1]
        return out

    def constants(self):
        """{name: value} of what the first function multiplies with, as coremltools expands it"""
        out = {}
        for op in next(iter(self.functions.values())).operations:
            if op.op_type.startswith("constexpr_"):
                out[op.outputs[0].name] = np.asarray(op.materialized_val_inference()).astype(np.float32)
            elif op.op_type == "const" and isinstance(op.outputs[0].val, np.ndarray) and op.outputs[0].val.dtype == np.float16:
                out[op.outputs[0].name] = op.outputs[0].val.astype(np.float32)
        return out

    def weights(self, reference):
        """Every matrix of the reference by its name: whole, or in parts whose names go on behind the matrix's."""
        tensors = {n.removesuffix(".weight"): v for n, v in load_file(pathlib.Path(reference) / "model.safetensors").items() if v.ndim == 2}
        config = json.loads((pathlib.Path(reference) / "config.json").read_text())
        have, want = {}, {}
        constants = {plain(n): v for n, v in self.constants().items()}
        for name, value in tensors.items():
            if config["model_type"] == "gpt2" and ".c_" in name:
                value = value.T  # its checkpoints hold (in, out)
            part = re.compile(re.escape(plain(name)) + r"(_weight)?(_[qkv])?(_rows\d+)?")
            parts = sorted((n for n in constants if part.fullmatch(n) and constants[n].squeeze().ndim == 2), key=part_order)
            want[name] = value
            if parts:
                pieces = [constants[n].squeeze() for n in parts]
                have[name] = np.concatenate(pieces) if len(pieces) > 1 else pieces[0]
        return have, want


def part_order(name):
    """q, k, v of a fused matrix; else the number of the first row"""
    kind, row = re.search(r"(?:_([qkv]))?(?:_rows(\d+))?$", name).groups()
    return "qkv".index(kind) if kind else 0, int(row or 0)


def open_model(path):
    return Loaded(path)
