"""What the models of Hateful Memes are trained on: pictures and texts, or the tokens that frozen encoders make of them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor

from synib.data import Dataset, Split
from synib.measure import synergy_subset
from synib.models import cache_features, memes_model
from synib.models.memes import ImageEncoder, TextEncoder
from synib.models.pretrained import Tune, transformers
from synib.studies.affect.data import regress
from synib.studies.hateful_memes.files import dataset, load
from synib.tokens import Modality, Tokens, values

ROWS = 64  # through a network at a time


class Prepared(NamedTuple):
    """What models are trained on.

    Attributes:
        data: Pictures and token ids, or with frozen encoders their tokens; at test with the synergy subset as a group.
        known: How large the subset is, of how many; how many memes were left out, and how many texts cut.
    """

    data: Dataset
    known: Mapping[str, float]


@lru_cache(maxsize=1)
def prepared(folder: str, vision: str, text: str, tune: Tune, longest: int, cache: str, skip: bool) -> Prepared:
    """The data, and the synergy subset: what logistic regressions on the mean token of either encoder both get wrong."""
    memes = load(folder, skip_broken=skip)
    kept = Path(cache) if cache else Path(folder) / "synib-cache"
    tokenizer = _tokenizer(text)
    model = memes_model(vision, text)  # what follows has random weights, which nobody sees
    raw = dataset(memes, tokenizer, kept, size=cast(ImageEncoder, model.encoders["image"]).size, longest=longest)
    _check_tokens(raw, tokenizer, cast(TextEncoder, model.encoders["text"]), text)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    latents, _ = cache_features(model, raw, kept / "tokens", ROWS, device)
    parts = cast("tuple[Split, Split, Split]", (latents.train, latents.validation, latents.test))
    targets = [part.target for part in parts]
    alone = {name: regress([mean_tokens(part.modalities[name]) for part in parts], targets[:2]) for name in model.names}
    subset = torch.from_numpy(synergy_subset(alone, targets[2]).strict)
    lengths = [n for part in parts for n in part.columns["tokens"]]
    known = {
        "subset_size": float(subset.sum()),
        "memes_tested": float(len(subset)),
        "memes_skipped": float(sum(len(part.skipped) for part in (memes.train, memes.validation, memes.test))),
        "texts_cut": float(sum(n > longest for n in lengths)),
    }
    data = latents if tune == "frozen" else raw
    return Prepared(replace(data, test=replace(cast(Split, data.test), groups={"subset": subset})), known)


def _tokenizer(text: str) -> Any:
    """The tokenizer of a text model, from its folder or transformers' cache."""
    made = transformers("AutoTokenizer")
    try:
        return made.from_pretrained(text, local_files_only=True, trust_remote_code=False)
    except Exception as e:  # transformers and its hub raise many kinds
        what = "its tokenizer's files are not there" if Path(text).is_dir() else "it is no folder, and not in the cache"
        raise ValueError(
            f"There is no tokenizer of {text} ({what}, or a package that reads them is not): save it beside the model, or "
            "fetch it first (hf download ID; pip install sentencepiece protobuf)."
        ) from e


def _check_tokens(data: Dataset, tokenizer: Any, encoder: TextEncoder, text: str) -> None:
    """Raise ``ValueError`` if a tokenizer is of another model than the encoder, or none at all."""
    ids = torch.cat([values(part.modalities["text"]) for part in (data.train, data.validation, data.test) if part])
    words, most = len(cast(Any, encoder.network).get_input_embeddings().weight), int(ids.max())
    if tokenizer.pad_token_id != encoder.padding_id or most >= words:
        raise ValueError(
            f"The tokenizer of {text} pads with {tokenizer.pad_token_id} and knows {most + 1} tokens at least, and the model "
            f"pads with {encoder.padding_id} and knows {words}: they belong to different models."
        )
    unknown = tokenizer.unk_token_id
    said = ids[~torch.isin(ids, torch.tensor([i for i in tokenizer.all_special_ids if i != unknown]))]
    if (said == unknown).float().mean() > 0.5:
        raise ValueError(
            f"The tokenizer of {text} knows hardly a word of the texts: save the model's own beside it (tokenizer.json or "
            "spm.model)."
        )


def mean_tokens(x: Modality) -> Tensor:
    """The mean token of each example, a few examples at a time: tokens may be more than memory holds."""
    found = []
    for piece, padding in zip(*(part.split(ROWS) for part in cast(Tokens, x)), strict=True):
        there = (~padding)[..., None]
        found.append((piece.float() * there).sum(1) / there.sum(1).clamp(min=1))
    return torch.cat(found)
