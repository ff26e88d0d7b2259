"""llama.cpp through its C interface (the shared library of the xllamacpp wheel), and its project's gguf package for the weights."""

import ctypes
import importlib.util
import pathlib

import numpy as np

from . import Model
from .gguf_names import file_tensors, reference_tensors

VERSIONS = ["xllamacpp", "gguf"]
CONTEXT = 512  # tokens
WARNING, ERROR = 3, 4


class Opaque(ctypes.Structure):
    """llama_model_params and llama_context_params as 32-bit words; both are shorter than this, and what they hold is copied as it is."""

    _fields_ = [("words", ctypes.c_int32 * 128)]


# Words of llama_context_params in the pinned version; checked against the documented defaults before they are trusted.
CONTEXT_WORDS = {"n_ctx": (0, 512), "n_batch": (1, 2048), "n_ubatch": (2, 512), "outputs": (5, 0), "outputs_per_sequence": (6, 1), "threads": (7, 4),
                 "batch_threads": (8, 4), "flash_attention": (13, -1), "type_k": (26, 1), "type_v": (27, 1)}


class Batch(ctypes.Structure):
    _fields_ = [("n_tokens", ctypes.c_int32), ("token", ctypes.POINTER(ctypes.c_int32)), ("embd", ctypes.c_void_p), ("pos", ctypes.POINTER(ctypes.c_int32)),
                ("n_seq_id", ctypes.POINTER(ctypes.c_int32)), ("seq_id", ctypes.POINTER(ctypes.POINTER(ctypes.c_int32))), ("logits", ctypes.POINTER(ctypes.c_int8))]


def open_library():
    import xllamacpp  # noqa: F401  (brings the libraries that its own needs)

    folder = pathlib.Path(importlib.util.find_spec("xllamacpp").submodule_search_locations[0])
    library = ctypes.CDLL(str(next(folder.glob("xllamacpp*.so"))))
    pointer, integer, text, flag = ctypes.c_void_p, ctypes.c_int32, ctypes.c_char_p, ctypes.c_bool
    for name, result, arguments in (
        ("llama_backend_init", None, []),
        ("llama_log_set", None, [pointer, pointer]),
        ("llama_model_default_params", Opaque, []),
        ("llama_context_default_params", Opaque, []),
        ("llama_model_load_from_file", pointer, [text, Opaque]),
        ("llama_model_free", None, [pointer]),
        ("llama_model_desc", integer, [pointer, text, ctypes.c_size_t]),
        ("llama_init_from_model", pointer, [pointer, Opaque]),
        ("llama_free", None, [pointer]),
        ("llama_model_get_vocab", pointer, [pointer]),
        ("llama_vocab_n_tokens", integer, [pointer]),
        ("llama_tokenize", integer, [pointer, text, integer, ctypes.POINTER(integer), integer, flag, flag]),
        ("llama_batch_init", Batch, [integer, integer, integer]),
        ("llama_decode", integer, [pointer, Batch]),
        ("llama_get_logits", ctypes.POINTER(ctypes.c_float), [pointer]),
        ("llama_get_memory", pointer, [pointer]),
        ("llama_memory_clear", None, [pointer, flag]),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


MESSAGES = []


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
def keep_message(level, text, _):
    if level in (WARNING, ERROR) and text.strip():
        MESSAGES.append(text.decode("utf-8", "replace").strip())


LIBRARY = open_library()
LIBRARY.llama_log_set(ctypes.cast(keep_message, ctypes.c_void_p), None)
LIBRARY.llama_backend_init()
BATCH = LIBRARY.llama_batch_init(CONTEXT, 0, 1)


class Loaded(Model):
    def __init__(self, path):
        self.path = path
        MESSAGES.clear()
        self.model = LIBRARY.llama_model_load_from_file(str(path).encode(), LIBRARY.llama_model_default_params())
        if not self.model:
            raise ValueError("llama.cpp refuses the file: " + " | ".join(MESSAGES[-3:]))
        parameters = LIBRARY.llama_context_default_params()
        # float32 cache and attention in separate steps: what is left of the difference is how llama.cpp multiplies
        wanted = {"n_ctx": CONTEXT, "n_batch": CONTEXT, "n_ubatch": CONTEXT, "outputs": 0, "outputs_per_sequence": 0, "threads": 1, "batch_threads": 1,
                  "flash_attention": 0, "type_k": 0, "type_v": 0}
        for name, (word, default) in CONTEXT_WORDS.items():
            if parameters.words[word] != default:
                raise RuntimeError(f"llama_context_params is another than expected: {name} is {parameters.words[word]}, not {default}")
            parameters.words[word] = wanted[name]
        self.context = LIBRARY.llama_init_from_model(self.model, parameters)
        if not self.context:
            raise ValueError("llama.cpp makes no context: " + " | ".join(MESSAGES[-3:]))
        self.vocabulary = LIBRARY.llama_model_get_vocab(self.model)
        self.size = LIBRARY.llama_vocab_n_tokens(self.vocabulary)
        description = ctypes.create_string_buffer(128)
        LIBRARY.llama_model_desc(self.model, description, 128)
        self.notes = description.value.decode() + "".join(f"; {m}" for m in MESSAGES[:2])

    def __del__(self):
        if getattr(self, "context", None):
            LIBRARY.llama_free(self.context)
        if getattr(self, "model", None):
            LIBRARY.llama_model_free(self.model)

    def feed(self, ids, start):
        BATCH.n_tokens = len(ids)
        for i, token in enumerate(ids):
            BATCH.token[i], BATCH.pos[i], BATCH.n_seq_id[i], BATCH.logits[i] = int(token), start + i, 1, 1
            BATCH.seq_id[i][0] = 0
        if status := LIBRARY.llama_decode(self.context, BATCH):
            raise RuntimeError(f"llama_decode gives {status}: " + " | ".join(MESSAGES[-2:]))
        return np.ctypeslib.as_array(LIBRARY.llama_get_logits(self.context), (len(ids), self.size)).copy()

    def logits(self, ids):
        LIBRARY.llama_memory_clear(LIBRARY.llama_get_memory(self.context), True)
        return self.feed(ids, 0)

    def greedy(self, ids, count):
        last, out = self.logits(ids)[-1], []
        for position in range(len(ids), len(ids) + count):
            out.append(int(last.argmax()))
            last = self.feed(out[-1:], position)[-1]
        return out

    def weights(self, reference):
        return file_tensors(self.path), reference_tensors(reference)

    def ids_of(self, text, special):
        raw = text.encode()
        out = (ctypes.c_int32 * (len(raw) + 8))()
        count = LIBRARY.llama_tokenize(self.vocabulary, raw, len(raw), out, len(out), special, True)
        return list(out[: max(count, 0)])


def open_model(path):
    return Loaded(path)
