"""The blocks of a float GGUF file in one of llama.cpp's types: requantize_gguf.py FLOAT.gguf TYPE OUT.gguf

Codes and scales are those of the package `gguf`, which llama.cpp keeps equal to its own program's to the bit;
embedding, head, norms and biases stay as they are. So types that no format of ours says can stand in a table beside ours.
"""

import os
import pathlib
import sys

import gguf
import numpy as np


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    source, kind, out = pathlib.Path(sys.argv[1]), gguf.GGMLQuantizationType[sys.argv[2]], pathlib.Path(sys.argv[3])
    reader = gguf.GGUFReader(source)
    partial = out.with_name(out.name + ".partial")
    writer = gguf.GGUFWriter(partial, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name.startswith("GGUF.") or name == "general.architecture":  # the writer's own
            continue
        writer.add_key_value(name, field.contents(), field.types[0], field.types[-1] if len(field.types) > 1 else None)
    changed = 0
    for tensor in reader.tensors:
        if tensor.name.startswith("blk.") and len(tensor.shape) == 2:
            if tensor.tensor_type not in (gguf.GGMLQuantizationType.F16, gguf.GGMLQuantizationType.F32):
                sys.exit(f"{source}: {tensor.name} is {tensor.tensor_type.name}, expected F16 or F32: begin from a float file")
            values = gguf.quants.quantize(np.asarray(tensor.data, np.float32), kind)
            writer.add_tensor(tensor.name, values, raw_dtype=kind)
            changed += 1
        else:
            writer.add_tensor(tensor.name, tensor.data, raw_dtype=tensor.tensor_type)
    if not changed:
        sys.exit(f"{source}: no tensors named blk.* to quantize")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    os.replace(partial, out)


if __name__ == "__main__":
    main()
