"""Training data of Hateful Memes: images and texts, or the tokens that frozen encoders compute from them."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch

from synib.data import Dataset, Split
from synib.measure import synergy_subset
from synib.models import cache_features, memes_model
from synib.models.memes import ImageEncoder, TextEncoder
from synib.models.pretrained import Tune, transformers
from synib.studies.hateful_memes.files import dataset, load
from synib.studies.unimodal import unimodal_labels
from synib.tokens import values

ROWS = 64  # in a batch of predictions


class Prepared(NamedTuple):
    """Training data, and facts about them for the page.

    Attributes:
        data: Images and token ids, or with frozen encoders their tokens; the test split has the group ``subset``.
        sizes: ``subset_size``, ``memes_tested``, ``memes_skipped`` (unreadable images), ``texts_cut``.
    """

    data: Dataset
    sizes: Mapping[str, float]


@lru_cache(maxsize=1)
def prepared(folder: str, vision: str, text: str, tune: Tune, longest: int, cache: str, skip_broken: bool) -> Prepared:
    """The data with the synergy subset: memes that the logistic regressions on each encoder's mean token both
    predict wrongly.
    """
    memes = load(folder, skip_broken=skip_broken)
    cache_folder = Path(cache) if cache else Path(folder) / "synib-cache"
    tokenizer = _tokenizer(text)
    model = memes_model(vision, text)  # only its pretrained encoders are used
    image_size = cast(ImageEncoder, model.encoders["image"]).size
    raw = dataset(memes, tokenizer, cache_folder, size=image_size, longest=longest)
    _check_tokens(raw, tokenizer, cast(TextEncoder, model.encoders["text"]), text)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    latents, _ = cache_features(model, raw, cache_folder / "tokens", ROWS, device)
    test = cast(Split, latents.test)
    subset = torch.from_numpy(synergy_subset(unimodal_labels(latents), test.target).strict)
    lengths = [n for part in (latents.train, latents.validation, test) for n in part.columns["tokens"]]
    sizes = {
        "subset_size": float(subset.sum()),
        "memes_tested": float(len(subset)),
        "memes_skipped": float(sum(len(part.skipped) for part in (memes.train, memes.validation, memes.test))),
        "texts_cut": float(sum(n > longest for n in lengths)),
    }
    data = latents if tune == "frozen" else raw
    return Prepared(replace(data, test=replace(cast(Split, data.test), groups={"subset": subset})), sizes)


def _tokenizer(text: str) -> Any:
    """The tokenizer of a text model, from its folder or the transformers cache."""
    auto_tokenizer = transformers("AutoTokenizer")
    try:
        return auto_tokenizer.from_pretrained(text, local_files_only=True, trust_remote_code=False)
    except Exception as e:  # transformers and its hub raise many kinds
        reason = (
            "the folder has no tokenizer files" if Path(text).is_dir() else "it is not a folder, and not in the cache"
        )
        raise ValueError(
            f"Cannot load the tokenizer of {text} ({reason}, or a package that reads them is not installed): "
            "save it next to the model, or download it first (hf download ID; pip install sentencepiece "
            "protobuf)."
        ) from e


def _check_tokens(data: Dataset, tokenizer: Any, encoder: TextEncoder, text: str) -> None:
    """Raise ``ValueError`` if the tokenizer belongs to another model than the encoder, or knows hardly any word."""
    ids = torch.cat([values(part.modalities["text"]) for part in (data.train, data.validation, data.test) if part])
    vocabulary, largest = len(cast(Any, encoder.network).get_input_embeddings().weight), int(ids.max())
    if tokenizer.pad_token_id != encoder.padding_id or largest >= vocabulary:
        raise ValueError(
            f"The tokenizer of {text} pads with {tokenizer.pad_token_id} and has at least {largest + 1} "
            f"tokens, but the model pads with {encoder.padding_id} and has {vocabulary}: they belong to "
            "different models."
        )
    unknown = tokenizer.unk_token_id
    special = torch.tensor([i for i in tokenizer.all_special_ids if i != unknown])
    if (ids[~torch.isin(ids, special)] == unknown).float().mean() > 0.5:
        raise ValueError(
            f"The tokenizer of {text} does not know most words of the texts: save the model's own tokenizer "
            "next to it (tokenizer.json or spm.model)."
        )
