"""What is read in place, what is copied, what is refused."""
import os
import subprocess
import sys

import nibble
import numpy as np
import pytest
from nibble import _nibble


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize("view", [
    lambda a: a,
    lambda a: a[3:9],             # rows
    lambda a: a[::2],             # every other row: a larger stride
    lambda a: a[:, 8:24],         # columns
    lambda a: a[0],               # a vector
    lambda a: a.reshape(2, 8, 32),
], ids=["whole", "rows", "strided-rows", "columns", "vector", "three-dimensions"])
def test_reads_in_place(view):
    array = view(np.arange(512, dtype=np.float32).reshape(16, 32))
    if array.ndim == 3:  # only fit_palette() takes those
        nibble.fit_palette(array, centroids=4)
        return
    assert _nibble._view_facts(array) == (address(array), False)
    array.flags.writeable = False
    assert _nibble._view_facts(array) == (address(array), False)


def test_copies_what_lies_otherwise():
    array = np.arange(512, dtype=np.float32).reshape(16, 32)
    for other in (array.T, array[:, ::2], array[::-1], array.astype(np.float16)):
        assert _nibble._view_facts(other)[1]
        np.testing.assert_array_equal(nibble.palettize(other, bits=8, palette_dtype="float32").codes,
                                      nibble.palettize(np.ascontiguousarray(other, np.float32), bits=8,
                                                       palette_dtype="float32").codes)


@pytest.mark.parametrize("dtype", [np.float64, np.int32, np.uint8, np.complex64])
def test_refuses_to_round(dtype):
    with pytest.raises(nibble.InvalidArgument, match=f"w: expected float32 .* got {np.dtype(dtype).name}; convert it"):
        nibble.palettize(np.ones((2, 2), dtype))


@pytest.mark.parametrize("given, got", [
    ([[1.0, 2.0]], "list"),
    (np.ones((2, 2), ">f4"), "ndarray of >f4"),
    (np.ones((2, 2), object), "ndarray of object"),
    (np.array([["a", "b"]]), "ndarray of <U1"),
], ids=["list", "big-endian", "objects", "texts"])
def test_names_what_is_no_array(given, got):
    w = np.ones((2, 2), np.float32)
    for name, call in (("w", lambda: nibble.palettize(given)), ("hessian", lambda: nibble.factor_hessian(given)),
                       ("codes", lambda: nibble.pack_codes(given, 4)),
                       ("fisher", lambda: nibble.quantize_tensor(w, nibble.Recipe(), fisher=given))):
        with pytest.raises(nibble.InvalidArgument, match=f"{name}: expected an array .* got {got}$"):
            call()


def test_bfloat16_of_numpy():
    """ml_dtypes' arrays have neither __dlpack__ nor a buffer, and are seen as the 16 bits that they are."""
    array = np.random.default_rng(2).standard_normal((4, 32)).astype(np.float32)
    bits = (array.view(np.uint32) >> 16).astype(np.uint16)
    array = (bits.astype(np.uint32) << 16).view(np.float32)  # what is exact in bfloat16

    class Brain:
        """What is asked of such an array."""
        dtype = "bfloat16"

        def __init__(self, values):
            self._bits = values

        def view(self, dtype):
            return self._bits.view(dtype)

    forms = [Brain(bits)]
    try:
        import ml_dtypes
        forms += [array.astype(ml_dtypes.bfloat16), array.T.astype(ml_dtypes.bfloat16).T]
    except ImportError:
        pass
    for form in forms:
        assert _nibble._view_facts(form)[1]
        np.testing.assert_array_equal(nibble.palettize(form, bits=3).codes, nibble.palettize(array, bits=3).codes)


def test_a_dlpack_object_is_enough():
    class Tensor:
        """No numpy array: what another library's tensor shows of itself."""

        def __init__(self, array):
            self._array = array

        def __dlpack__(self, **options):
            return self._array.__dlpack__(**options)

        def __dlpack_device__(self):
            return self._array.__dlpack_device__()

    array = np.random.default_rng(1).standard_normal((4, 16)).astype(np.float32)
    assert _nibble._view_facts(Tensor(array)) == (address(array), False)
    np.testing.assert_array_equal(nibble.palettize(Tensor(array)).codes, nibble.palettize(array).codes)


def test_results_are_handed_over_not_copied():
    made = nibble.palettize(np.random.default_rng(1).standard_normal((64, 64)).astype(np.float32))
    assert address(made.codes) == address(made.codes)  # the same memory every time
    codes = made.codes
    kept = codes.copy()
    del made  # the array keeps it alive
    np.testing.assert_array_equal(codes, kept)
    with pytest.raises(ValueError):
        codes[0, 0] = 1


def test_a_large_array_takes_no_second_one():
    """fit, scale and cost over 128 MB: the process must not grow by half of that."""
    script = """
import numpy as np, nibble

def anonymous():
    return int(next(l for l in open("/proc/self/status") if l.startswith("RssAnon")).split()[1]) / 1024

w = np.zeros((8192, 4096), np.float32)
w += np.linspace(-1, 1, 4096, dtype=np.float32)
before = anonymous()
import threading
peak, stop = [before], threading.Event()
def watch():
    while not stop.wait(0.005): peak[0] = max(peak[0], anonymous())
thread = threading.Thread(target=watch); thread.start()
nibble.fit_palettes(w, centroids=2, group_rows=1, gap=0.5)
nibble.row_scales(w)
nibble.palette_cost(w, np.array([-1, 0, 1], np.float32))
stop.set(); thread.join()
print(peak[0] - before)
"""
    grown = float(subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout)
    assert grown < 64, f"{grown} MiB more for an array of 128 MiB"


def test_token_ids_of_any_integer_type(demo):
    tokenizer = nibble.Tokenizer(demo / "gpt2-demo")
    ids = tokenizer.encode("The door opened")
    for form in (list(map(int, ids)), ids.astype(np.int64), ids.astype(np.uint16), ids.astype(np.int32), ids.astype(np.int16)):
        assert tokenizer.decode(form) == "The door opened"
    for wrong, message in (([-1], "-1 at index 0"), (np.ones(2), "whole numbers, got float64")):
        with pytest.raises(nibble.InvalidArgument, match=message):
            tokenizer.decode(wrong)
    for wrong, message in (([1.5], "whole numbers, got float at index 0"), ("abc", "got text"), ({1, 2}, "got set")):
        with pytest.raises(nibble.InvalidArgument, match=message):
            tokenizer.decode(wrong)


def test_instruction_sets_agree():
    """The module dispatches as the program does: another set is another process."""
    script = "import nibble,numpy as np; r=np.random.default_rng(1); w=r.standard_normal((8,256)).astype('f');" \
             "p=nibble.palettize(w); print(nibble.build_info()['instruction_set'], p.cost.hex(), p.codes.sum())"
    run = lambda **more: subprocess.run([sys.executable, "-c", script], env={**os.environ, **more}, check=True,
                                        capture_output=True, text=True).stdout.split()
    best, scalar = run(), run(NIBBLE_FORCE_ISA="scalar")
    assert scalar[0] == "scalar" and scalar[1:] == best[1:]
