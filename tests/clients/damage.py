"""Copies of exports with faults in them, which the checks must find: `damaged(export, copy)`.

Of three coded tensors, one gets a bit of one byte of codes flipped, one the sign of one scale, one the signs of all its scales;
and two token strings of equal length change places in the tokenizer. A case with such a copy passes when every check goes red and
the weights' says exactly which values: at most 8 of the first tensor, at most a group's in the second."""

import json
import pathlib
import re
import shutil
import struct


CODES = (".qweight", ".weight_packed", ".weight")
SCALES = (".scales", ".weight_scale")


def damaged(path, copy):
    path, copy = pathlib.Path(path), pathlib.Path(copy)
    if copy.is_dir():
        shutil.rmtree(copy)
    if path.is_dir():
        shutil.copytree(path, copy)
        (damage_package if copy.suffix == ".mlpackage" else damage_directory)(copy)
    else:
        shutil.copyfile(path, copy)
        damage_gguf(copy)


def flip(data, offset, mask):
    data[offset] ^= mask


def flip_signs(data, start, end):
    """of little-endian float16 or bfloat16 values"""
    for i in range(start + 1, end, 2):
        data[i] ^= 0x80


def damage_directory(directory):
    file = directory / "model.safetensors"
    data = bytearray(file.read_bytes())
    length = struct.unpack_from("<Q", data)[0]
    header = json.loads(data[8 : 8 + length])
    place = lambda name: tuple(8 + length + o for o in header[name]["data_offsets"])
    bases = sorted({n.removesuffix(s) for n in header for s in SCALES if n.endswith(s)})
    if bases:
        pick = lambda base, ends: next(base + e for e in ends if base + e in header)
        first, second, third = (bases[len(bases) * i // 4] for i in (0, 1, 2))
        flip(data, place(pick(first, CODES))[0] + 5, 0x10)
        start, end = place(pick(second, SCALES))
        flip_signs(data, start, start + 2)
        flip_signs(data, *place(pick(third, SCALES)))
    else:  # plain floats: a bit of the first value's fraction, a sign, all signs
        names = sorted(n for n, t in header.items() if n != "__metadata__" and len(t["shape"]) == 2 and re.search(r"(layers|h)\.\d+\.", n))
        size = {"F16": 2, "BF16": 2, "F32": 4}
        first, second, third = (names[len(names) * i // 4] for i in (0, 1, 2))
        at = lambda name, value: place(name)[0] + (value + 1) * size[header[name]["dtype"]]  # behind it: its sign is in the last byte
        value = next(i for i in range(1000) if data[at(first, i) - 1] & 0x7F)  # not a zero
        flip(data, at(first, value) - 2, 0x10)
        value = next(i for i in range(1000) if data[at(second, i) - 1] & 0x7F)
        flip(data, at(second, value) - 1, 0x80)
        start, end = place(third)
        for i in range(start + size[header[third]["dtype"]] - 1, end, size[header[third]["dtype"]]):
            data[i] ^= 0x80
    file.write_bytes(data)
    file = directory / "tokenizer.json"
    tokenizer = json.loads(file.read_text(encoding="utf-8"))
    vocabulary = tokenizer["model"]["vocab"]
    a, b = exchanged(vocabulary)
    vocabulary[a], vocabulary[b] = vocabulary[b], vocabulary[a]
    file.write_text(json.dumps(tokenizer, ensure_ascii=False), encoding="utf-8")


def exchanged(tokens):
    """Two frequent tokens of English, of one length: either as byte-level or as SentencePiece vocabularies spell them."""
    for space in ("\u0120", "\u2581"):
        for a, b in (("the", "and"), ("he", "of"), ("t", "a")):
            if space + a in tokens and space + b in tokens:
                return space + a, space + b
    raise ValueError("the vocabulary has no two tokens that this knows to exchange")


def damage_gguf(file):
    import gguf

    reader = gguf.GGUFReader(file)
    data = bytearray(file.read_bytes())
    coded = sorted((t for t in reader.tensors if t.tensor_type.name.startswith(("Q4_", "Q5_", "Q8_"))), key=lambda t: t.name)
    first, second, third = (coded[len(coded) * i // 4] for i in (0, 1, 2))
    block_bytes = lambda t: gguf.GGML_QUANT_SIZES[t.tensor_type][1]
    flip(data, int(first.data_offset) + block_bytes(first) - 1, 0x10)  # blocks begin with their scale and end with codes
    flip_signs(data, int(second.data_offset), int(second.data_offset) + 2)
    for block in range(int(third.data_offset), int(third.data_offset) + int(third.n_bytes), block_bytes(third)):
        flip_signs(data, block, block + 2)
    tokens = reader.fields["tokenizer.ggml.tokens"].contents()
    a, b = (t.encode() for t in exchanged(tokens))
    place = lambda t: bytes(data).index(struct.pack("<Q", len(t)) + t) + 8
    at, bt = place(a), place(b)
    data[at : at + len(a)], data[bt : bt + len(b)] = b, a
    file.write_bytes(data)


BLOB_MARK, INT4, UINT4, FLOAT16 = 0xDEADBEEF, 8, 11, 1


def damage_package(package):
    file = next(package.rglob("weight.bin"))
    data = bytearray(file.read_bytes())
    count = struct.unpack_from("<I", data)[0]
    blobs, offset = [], 64
    for _ in range(count):
        mark, kind, size, start = struct.unpack_from("<IIQQ", data, offset)
        if mark != BLOB_MARK:
            raise ValueError(f"no blob at {offset} of {file}")
        blobs.append((kind, start, size))
        offset = -(-(start + size) // 64) * 64
    # codes and the scales that are stored right behind or before them: any blob of codes, any larger one of float16
    codes = [b for b in blobs if b[0] in (INT4, UINT4)]
    scales = sorted((b for b in blobs if b[0] == FLOAT16 and b[2] * 8 in {c[2] for c in codes}), key=lambda b: b[1])
    flip(data, codes[0][1] + 5, 0x10)
    start = scales[len(scales) // 4][1]
    flip_signs(data, start, start + 2)
    start, size = scales[len(scales) // 2][1:]
    flip_signs(data, start, start + size)
    file.write_bytes(data)
