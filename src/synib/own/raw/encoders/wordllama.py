"""Static embeddings of tokens from the package ``wordllama``, averaged over a text: needs no network and no GPU."""

import hashlib
from collections.abc import Sequence
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from synib.own.columns import Array
from synib.own.raw.encoders.base import Encoder

PACKAGE = "wordllama"
WEIGHTS, TOKENIZER = "weights/l2_supercat_256.safetensors", "tokenizers/l2_supercat_tokenizer_config.json"


def is_installed() -> bool:
    """Whether the package and the readers of its files are installed."""
    return all(find_spec(name) is not None for name in (PACKAGE, "tokenizers", "safetensors"))


class WordLlama(Encoder):
    """The mean of 256 numbers for each token of a text. Only the package's files are read; its code is not imported."""

    kind = "text"
    batch = 1024

    def __init__(self) -> None:
        if not is_installed():
            raise ValueError(
                'The encoder wordllama is not installed: pip install "synib[raw]", or use --encoder text=tfidf.'
            )
        from safetensors.numpy import load

        spec = find_spec(PACKAGE)
        assert spec is not None
        assert spec.submodule_search_locations is not None
        folder = Path(next(iter(spec.submodule_search_locations)))
        try:
            weights, tokenizer = (folder / WEIGHTS).read_bytes(), (folder / TOKENIZER).read_bytes()
        except OSError as e:
            raise ValueError(
                f"The installed package wordllama has no {Path(e.filename or WEIGHTS).name}: install version 0.4."
            ) from e
        self._table: Array = np.ascontiguousarray(next(iter(load(weights).values())), dtype=np.float32)
        self._tokenizer: Any = None
        self._vocabulary = tokenizer  # parsed on first use, since that is slow
        self.name = PACKAGE
        self.revision = hashlib.sha256(weights + tokenizer).hexdigest()[:16]
        self.width = self._table.shape[1]
        self.licence = "MIT (package wordllama; weights derived from token embeddings of Llama 2 and other models)"
        self.about = "static token embeddings of the package wordllama, averaged over the text"

    def encode(self, items: Sequence[str]) -> Array:
        from scipy.sparse import csr_matrix

        # The tokenizer rejects lone surrogates.
        texts = [text.encode("utf-8", "replace").decode() for text in items]
        tokens = [encoding.ids for encoding in self._loaded().encode_batch_fast(texts, add_special_tokens=False)]
        counts = np.array([len(ids) for ids in tokens])
        ids = np.fromiter(chain.from_iterable(tokens), np.int32, int(counts.sum())).clip(0, len(self._table) - 1)
        ends = np.concatenate([[0], counts.cumsum()])
        ones = np.ones(len(ids), np.float32)
        totals = csr_matrix((ones, ids, ends), shape=(len(texts), len(self._table))) @ self._table
        return np.asarray(totals / np.maximum(counts, 1)[:, None], np.float32)

    def _loaded(self) -> Any:
        if self._tokenizer is None:
            from tokenizers import Tokenizer

            self._tokenizer = Tokenizer.from_buffer(self._vocabulary)
            self._tokenizer.no_truncation()
            self._tokenizer.no_padding()
        return self._tokenizer
