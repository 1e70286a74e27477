"""Term frequencies, weighted by rarity and reduced by a singular value decomposition: fitted to the texts themselves."""

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from heapq import nlargest, nsmallest
from itertools import chain, compress, pairwise
from typing import Any

import numpy as np

from synib.own.columns import Array
from synib.own.raw.encoders.base import Encoder, EncoderState, Fitter

NAME = "tfidf"
TERMS, WIDTH, DOCUMENTS = 20_000, 768, 20_000  # maximum number of terms, output width, and texts to fit to
NARROW, TEXTS = 32, 16  # minimum width; beyond it, texts needed per dimension
PASSES, MORE = 2, 16  # passes of the randomised SVD, and its oversampling
BUCKETS = 2**22  # of terms that are counted together at first
RARE = 2  # texts in which a term must occur
WORD = re.compile(r"[^\W_]+", re.UNICODE)
LICENCE = "none needed (fitted to the data)"


class TfIdf(Encoder):
    """TF-IDF of words and of pairs of neighbouring words, projected on the leading singular vectors.

    Args:
        terms: The words and pairs.
        weights: The inverse document frequency of each.
        components: (terms, width), the right singular vectors of the training texts.
    """

    kind = "text"
    batch = 1024

    def __init__(self, terms: Sequence[str], weights: Array, components: Array) -> None:
        fits = (weights.ndim, components.ndim) == (1, 2) and len(terms) == len(weights) == len(components) > 0
        if not fits:
            raise ValueError(
                f"tfidf has {len(terms)} terms, {len(weights)} weights and {len(components)} rows of numbers."
            )
        self._terms, self._weights, self._components = list(terms), weights, components
        self._number = {term: k for k, term in enumerate(terms)}
        digest = hashlib.sha256("\n".join(terms).encode() + weights.tobytes() + components.tobytes())
        self.name, self.revision, self.width, self.licence = NAME, digest.hexdigest()[:16], components.shape[1], LICENCE
        self.about = f"TF-IDF of {len(terms):,} words and pairs of words, reduced to {self.width} numbers"

    def encode(self, items: Sequence[str]) -> Array:
        return np.asarray(_matrix(items, self._number, self._weights) @ self._components, np.float32)

    def state(self) -> EncoderState:
        arrays = {"weights": self._weights, "components": self._components}
        return EncoderState(self.name, self.revision, self.width, self.licence, {"terms": self._terms}, arrays)

    @classmethod
    def restore(cls, state: EncoderState) -> "TfIdf":
        terms = state.settings.get("terms")
        if not isinstance(terms, list) or not all(isinstance(term, str) for term in terms):
            raise ValueError("its terms are not a list of strings.")
        return cls(terms, state.arrays["weights"], state.arrays["components"])


class TfIdfFitter(Fitter):
    """Fits to at most 20,000 texts, drawn evenly from all (reservoir sampling with a fixed seed)."""

    def __init__(self) -> None:
        self._kept: list[str] = []
        self._seen = 0
        self._random = np.random.default_rng(0)

    def add(self, items: Sequence[str]) -> None:
        for text in items:
            self._seen += 1
            if len(self._kept) < DOCUMENTS:
                self._kept.append(text)
            elif (place := int(self._random.integers(self._seen))) < DOCUMENTS:
                self._kept[place] = text

    def done(self) -> TfIdf:
        document_counts = _frequent(self._kept)
        terms = sorted(document_counts, key=lambda term: (-document_counts[term], term))[:TERMS]
        if not terms:
            raise ValueError(
                "no text has a word or a number that TF-IDF could count: name another encoder, "
                "such as --encoder text=wordllama."
            )
        documents = np.array([document_counts[term] for term in terms])
        weights = (np.log((1 + len(self._kept)) / (1 + documents)) + 1).astype(np.float32)
        matrix = _matrix(self._kept, {term: k for k, term in enumerate(terms)}, weights)
        rank = min(WIDTH, max(NARROW, len(self._kept) // TEXTS), min(matrix.shape) - 1)
        if rank < 1:
            return TfIdf(terms, weights, np.eye(len(terms), dtype=np.float32)[:, :1])
        directions = _leading(matrix, rank)
        # The sign of a singular vector is arbitrary.
        signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(1)])
        return TfIdf(terms, weights, np.ascontiguousarray((directions * signs[:, None]).T, dtype=np.float32))


def _frequent(texts: Sequence[str]) -> Counter[str]:
    """Term → texts that it occurs in, for the terms of at least two texts, the 20,000 most frequent ones among them.

    Long texts have many millions of pairs of words, too many to count each. So texts are first counted for buckets of terms of
    the same hash, which is an upper bound for each term of a bucket; then for the terms of frequent buckets only. If no term
    occurs twice, the first ones in alphabetical order stand for all.
    """
    buckets = np.zeros(BUCKETS, np.int32)
    for text in texts:
        np.add.at(buckets, _buckets(set(_terms(text))), 1)
    least = max(RARE, int(np.partition(buckets, -2 * TERMS)[-2 * TERMS]))
    while True:
        found: Counter[str] = Counter()
        for text in texts:
            terms = set(_terms(text))
            found.update(compress(terms, buckets[_buckets(terms)] >= least))
        last = min(nlargest(TERMS, found.values())) if len(found) >= TERMS else 0
        if least <= max(last, RARE):  # what was not counted occurs in fewer than ``least`` texts
            break
        least = max(last, RARE)
    frequent = Counter({term: count for term, count in found.items() if count >= RARE})
    return frequent or Counter(nsmallest(TERMS, chain.from_iterable(set(_terms(text)) for text in texts)))


def _buckets(terms: Collection[str]) -> Array:
    """The bucket of each term. Python's hashes differ between processes; what is counted in the end does not."""
    return np.fromiter(map(hash, terms), np.int64, len(terms)) & (BUCKETS - 1)


def _leading(matrix: Any, rank: int) -> Array:
    """The leading right singular vectors, (rank, columns), by randomised subspace iteration (Halko et al. 2011)."""
    size = min(rank + MORE, min(matrix.shape))
    sketch = matrix @ np.random.default_rng(0).normal(size=(matrix.shape[1], size)).astype(np.float32)
    for _ in range(PASSES):
        sketch = matrix @ np.linalg.qr(matrix.T @ sketch)[0]
    small = (matrix.T @ np.linalg.qr(sketch)[0]).T
    squares, rotation = np.linalg.eigh((small @ small.T).astype(np.float64))
    order = np.argsort(-squares)[:rank]
    order = order[squares[order] > 1e-10 * squares.max()]
    return np.asarray((rotation[:, order] / np.sqrt(squares[order])).T.astype(np.float32) @ small)


def _terms(text: str) -> Iterator[str]:
    words = WORD.findall(text.lower())
    yield from words
    yield from map(" ".join, pairwise(words))


def _matrix(texts: Sequence[str], number: dict[str, int], weights: Array) -> Any:
    """(texts, terms): frequencies, damped by a logarithm and weighted, each row of length 1."""
    from scipy.sparse import csr_matrix

    columns, values = array("i"), array("i")  # lists would take twice the memory
    ends = [0]
    for text in texts:
        counts = Counter(number[term] for term in _terms(text) if term in number)
        columns.extend(counts)
        values.extend(counts.values())
        ends.append(len(columns))
    at = np.asarray(columns, np.int32)
    damped = (1 + np.log(np.array(values, np.float32))) * weights[at] if len(at) else np.zeros(0, np.float32)
    matrix = csr_matrix((damped.astype(np.float32), at, ends), shape=(len(texts), len(number)))
    lengths = np.sqrt(np.asarray(matrix.multiply(matrix).sum(1)).reshape(-1))
    matrix.data /= np.repeat(np.maximum(lengths, 1e-12), np.diff(ends)).astype(np.float32)
    return matrix
