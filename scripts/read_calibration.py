#!/usr/bin/env python3
"""Reads a calibration file (docs/formats.md, calib.h5) with h5py: what it holds, and the means made of its sums.

    pip install h5py
    scripts/read_calibration.py calib.h5             settings and a line per layer
    scripts/read_calibration.py calib.h5 LAYER       every data set of one layer, with its meaning and unit
"""
import sys

import h5py
import numpy as np


def text(value):
    """Text attributes are stored with a fixed length, which h5py gives as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def show_file(file):
    for name, value in sorted(file.attrs.items()):
        print(f"{name:16} {text(value)}")
    print()
    for name, layer in file["layers"].items():
        tokens, samples = layer["tokens"][()], layer["samples"][()]
        line = f"{name:40} ({layer.attrs['out']}, {layer.attrs['in']})"
        if "sum_x2" in layer:  # sums and counts: the division is the reader's
            rms = np.sqrt(np.mean(layer["sum_x2"][:] / tokens))
            line += f"  rms(x) {rms:.4g}"
        if "fisher" in layer:
            mass = np.sum(layer["fisher"][:], dtype=np.float64) / samples
            line += f"  Fisher mass {mass:.4g}"
        if "sum_dydyt" in layer:  # of gradients, weighed or not (attribute guide); the head has none
            gradients = np.diag(layer["sum_dydyt"][:]).astype(np.float64)
            line += f"  outputs without gradients {np.sum(gradients == 0)}"
        print(line)


def show_layer(layer):
    for name, dataset in sorted(layer.items()):
        print(f"{name}  {dataset.dtype} {dataset.shape}")
        print(f"    meaning: {text(dataset.attrs['meaning'])}")
        print(f"    unit:    {text(dataset.attrs['unit'])}")
        if dataset.size > 0:
            values = dataset[()]
            print(f"    from {np.min(values):.6g} to {np.max(values):.6g}")


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    with h5py.File(sys.argv[1], "r") as file:
        if text(file.attrs.get("format", "")) != "nibble.calib":
            sys.exit(f"{sys.argv[1]}: not a calibration file of Nibble")
        if len(sys.argv) == 2:
            show_file(file)
        elif sys.argv[2] in file["layers"]:
            show_layer(file["layers"][sys.argv[2]])
        else:
            sys.exit(f"{sys.argv[1]}: holds no layer '{sys.argv[2]}'")


if __name__ == "__main__":
    main()
