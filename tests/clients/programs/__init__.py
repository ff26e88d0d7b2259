"""One file per program that people run models with. Each has

    VERSIONS                packages whose versions are reported
    open_model(path)        loads an export as a user would, and gives an object with
        logits(ids)         float32 (len(ids), vocabulary), from an empty context
        greedy(ids, count)  the next `count` tokens
        weights(reference)  ({name: float32 array}, the same of the float reference directory), as the program holds them
        ids_of(text, special)   token ids, with or without the special tokens that the tokenizer adds; None: has no tokenizer
        notes               a line about what was loaded
"""


class Model:
    notes = ""

    def greedy(self, ids, count):
        """Without a cache: right for every program."""
        out = []
        for _ in range(count):
            out.append(int(self.logits([*ids, *out])[-1].argmax()))
        return out
