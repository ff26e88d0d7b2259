"""The model `nibble` of lm-evaluation-harness: float and quantized checkpoints, packed, on the harness's tasks.

    import nibble.lm_eval                                    # registers it
    lm_eval.simple_evaluate(model="nibble", model_args="path=MODEL", tasks=[...])

or `nibble-lm-eval run --model nibble --model_args path=MODEL --tasks …`: the harness's own command line with this model.
Tokens, windows and stop strings follow the harness's `hf` model, so that the two can be compared item by item.
"""

import json
import pathlib
import random

from lm_eval import utils
from lm_eval.api.model import TemplateLM
from lm_eval.api.registry import register_model
from lm_eval.models.utils import handle_stop_sequences, normalize_gen_kwargs, postprocess_generated_text

import nibble


@register_model("nibble")
class NibbleLM(TemplateLM):
    """path: the checkpoint. compute: as nibble.Model. max_length: tokens at most, default the model's positions.
    batch_tokens: texts run together up to about this many tokens. threads: 0 for all processors. add_bos_token: True puts
    one before every text, False none, None as the tokenizer does. seed: of the draws of sampled generations, each of which
    has its own."""

    def __init__(self, path, compute="exact", max_length=None, batch_tokens=2048, threads=0, add_bos_token=None,
                 seed=0, batch_size=None, max_batch_size=None, device=None, **unknown):
        super().__init__()
        del batch_size, max_batch_size, device  # the harness gives them to every model
        if unknown:
            raise ValueError(f"nibble: unknown model arguments: {', '.join(sorted(unknown))}")
        if threads:
            nibble.set_threads(int(threads))
        self.path = pathlib.Path(path)
        self.model = nibble.Model(self.path, compute)
        self.tokenizer = nibble.Tokenizer(self.path)
        self.max_length = int(max_length or self.model.max_positions)
        self.max_gen_toks = 256
        self._batch_tokens = int(batch_tokens)
        self._add_bos = add_bos_token
        self._draws = random.Random(int(seed))
        special = self._special_tokens()
        self._eos = special.get("eos_token", self.tokenizer.eos if self.tokenizer.eos is not None else self.model.eos)
        self._bos = special.get("bos_token", self.model.bos)
        if add_bos_token and self._bos is None and not self.tokenizer.added_prefix:
            raise ValueError("nibble: add_bos_token: neither the tokenizer nor the model has a BOS")

    def _special_tokens(self):
        """The ids of BOS and EOS as tokenizer_config.json names them: what Hugging Face's tokenizer takes them for."""
        file = self.path / "tokenizer_config.json"
        config = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        ids = {}
        for name in ("bos_token", "eos_token"):
            token = config.get(name)
            token = token.get("content") if isinstance(token, dict) else token
            found = self.tokenizer.encode(token) if token else ()
            if len(found) == 1:
                ids[name] = int(found[0])
        return ids

    @property
    def eot_token_id(self):
        return self._eos

    @property
    def prefix_token_id(self):
        if self._prefix is None:
            raise ValueError("nibble: what is scored from its first token needs a BOS or an EOS in front, and neither "
                             "the tokenizer nor the model has one")
        return self._prefix

    @property
    def _prefix(self):
        return self._bos if self._bos is not None else self._eos

    @property
    def tokenizer_name(self):
        return self.tokenizer.fingerprint()

    def tok_encode(self, string, add_special_tokens=None, left_truncate_len=None, **_):
        ids = [int(i) for i in self.tokenizer.encode(string)]
        before = self.tokenizer.added_prefix or ([self._bos] if self._add_bos and self._bos is not None else [])
        if add_special_tokens is None:
            add_special_tokens = self._add_bos
            if self._prefix is not None and string.startswith(self.tokenizer.decode([self._prefix])):
                add_special_tokens = False
        if add_special_tokens is not False:
            ids = list(before) + ids
        return ids[-left_truncate_len:] if left_truncate_len else ids

    def _loglikelihood_tokens(self, requests, disable_tqdm=False, **_):
        scores = self.model.loglikelihood([(context, continuation) for _, context, continuation in requests],
                                          max_tokens=self.max_length, batch_tokens=self._batch_tokens,
                                          progress=None if disable_tqdm else True)
        for (pair, _, _), score in zip(requests, scores):
            if pair is not None:  # windows of a rolling text have no text of their own
                self.cache_hook.add_partial("loglikelihood", pair, score)
        return scores

    def loglikelihood_rolling(self, requests, disable_tqdm=False):
        windows, owners = [], []
        for index, (text,) in enumerate(request.args for request in requests):
            rolling = utils.get_rolling_token_windows(token_list=self.tok_encode(text), context_len=1,
                                                      prefix_token=self.prefix_token_id, max_seq_len=self.max_length)
            for window in map(utils.make_disjoint_window, rolling):
                windows.append((None, *window))
                owners.append(index)
        totals = [0.0] * len(requests)
        for owner, (score, _) in zip(owners, self._loglikelihood_tokens(windows, disable_tqdm)):
            totals[owner] += score
        for request, total in zip(requests, totals):
            self.cache_hook.add_partial("loglikelihood_rolling", request.args, total)
        return totals

    def generate_until(self, requests, disable_tqdm=False):
        eos = self.tokenizer.decode([self.eot_token_id])
        texts = []
        for context, options in (request.args for request in requests):
            kwargs = normalize_gen_kwargs(dict(options), self.max_gen_toks)
            until = handle_stop_sequences(kwargs.pop("until", None), eos=eos)
            room = kwargs["max_gen_toks"]
            if self.max_length <= room:
                raise ValueError(f"nibble: {room} tokens to generate do not fit behind a prompt into {self.max_length}")
            prompt = self.tok_encode(context, left_truncate_len=self.max_length - room)
            text = postprocess_generated_text(self._generate(prompt, room, until, kwargs), until, None)
            texts.append(text)
            self.cache_hook.add_partial("generate_until", (context, options), text)
        return texts

    def _generate(self, prompt, room, until, kwargs):
        ids = []

        def stop(token):
            ids.append(token)
            text = self._text(ids)
            return token == self.eot_token_id or any(term and term in text for term in until)

        sampling = {}
        if kwargs.get("do_sample") and kwargs.get("temperature", 1.0) > 0:
            sampling = {"temperature": kwargs.get("temperature", 1.0), "top_p": kwargs.get("top_p", 1.0),
                        "top_k": kwargs.get("top_k", 0), "seed": self._draws.getrandbits(64)}
        self.model.generate(prompt, room, on_token=stop, **sampling)
        return self._text(ids)

    def _text(self, ids):
        """Without special tokens, and without ids of an embedding padded beyond the tokenizer: these are no text."""
        return self.tokenizer.decode([i for i in ids if i < self.tokenizer.vocabulary_size], skip_special=True)


def main():
    """lm-evaluation-harness's command line, with this model in its list."""
    from lm_eval.__main__ import cli_evaluate

    cli_evaluate()
