"""A Core ML package that `nibble export --format coreml` wrote, run by Core ML: for check_package.py and time_package.py. Needs macOS 15 and
coremltools 8 or later (`pip install coremltools`)."""
import pathlib

import coremltools as ct
import numpy as np

UNITS = {"cpu": ct.ComputeUnit.CPU_ONLY, "gpu": ct.ComputeUnit.CPU_AND_GPU, "ane": ct.ComputeUnit.CPU_AND_NE, "all": ct.ComputeUnit.ALL}


class Package:
    """One text over a package of either layout: extend() gives the logits of the next tokens, reset() forgets all."""

    def __init__(self, path, units=None):
        spec = ct.utils.load_spec(str(path))
        self.window = len(spec.description.functions) > 0
        units = UNITS[units or ("ane" if self.window else "gpu")]
        load = lambda function: ct.models.MLModel(str(path), compute_units=units, function_name=function)
        if self.window:  # two functions over the same states
            self.functions = {f.name: load(f.name) for f in spec.description.functions}
            shape = lambda name: next(i.type.multiArrayType.shape[-1] for f in spec.description.functions if f.name == name for i in f.input if i.name == "inputIds")
            self.chunk = int(shape("prompt"))
        else:
            self.functions = {"main": ct.models.MLModel(str(path), compute_units=units)}
            self.chunk = None
        self.reset()

    def reset(self):
        self.past = 0
        self.state = next(iter(self.functions.values())).make_state()

    def extend(self, ids, chunk=None):
        """Logits (tokens, vocabulary) of the next tokens. `chunk`: tokens of a call (GPU layout)."""
        return self._window(ids) if self.window else self._flexible(ids, chunk or len(ids))

    def _flexible(self, ids, chunk):
        out = []
        for begin in range(0, len(ids), chunk):
            part = ids[begin : begin + chunk]
            t, s = len(part), self.past + len(part)
            # 0 where a token sees a position, -inf where not; its last extent tells the program where to write
            mask = np.where(np.arange(s)[None, :] <= self.past + np.arange(t)[:, None], 0, -np.inf).astype(np.float16)
            inputs = {"inputIds": np.array([part], np.int32), "causalMask": mask[None, None]}
            out.append(self.functions["main"].predict(inputs, state=self.state)["logits"][0])
            self.past = s
        return np.concatenate(out).astype(np.float32)

    def _call(self, function, ids, position):
        inputs = {"inputIds": np.array([ids], np.int32), "cachePosition": np.array([position], np.int32)}
        return self.functions[function].predict(inputs, state=self.state)["logits"][0]

    def _window(self, ids):
        """A text begins with padding at negative positions, so that its chunks are full; later tokens go one by one."""
        out, n = [], self.chunk
        if self.past == 0 and len(ids) >= 1:
            whole = (len(ids) + n - 1) // n * n
            padded, padding = [0] * (whole - len(ids)) + list(ids), whole - len(ids)
            for begin in range(0, whole, n):
                rows = self._call("prompt", padded[begin : begin + n], begin - padding)
                out.append(rows[padding:] if begin == 0 else rows)
        else:
            for i, token in enumerate(ids):
                out.append(self._call("extend", [token], self.past + i))
        self.past += len(ids)
        return np.concatenate(out).astype(np.float32)


def golden(path):
    """Tokens and logits that `--golden` wrote beside the package."""
    import json

    base = pathlib.Path(str(path).rstrip("/") + ".golden")
    facts = json.loads(pathlib.Path(str(base) + ".json").read_text())
    logits = np.fromfile(base.with_name(facts["logits"]), "<f4").reshape(facts["rows"], facts["vocabulary"])
    return facts["tokens"], logits
