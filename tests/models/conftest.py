"""Networks of transformers a few numbers wide, with random weights, and batches for them."""

import pytest
import torch

from synib.models import memes_model, resnet_model

VISION = {
    "hidden_size": 16,
    "intermediate_size": 24,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "patch_size": 4,
    "image_size": 12,
}
TEXT = {
    "vocab_size": 40,
    "hidden_size": 8,
    "intermediate_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "max_position_embeddings": 32,
    "position_buckets": 8,
}
RESNET = {"embedding_size": 4, "hidden_sizes": [4, 6], "depths": [1, 1]}


@pytest.fixture
def tiny():
    """Settings of the networks, by what they see."""
    return {"vision": VISION, "text": TEXT, "resnet": RESNET}


@pytest.fixture
def memes():
    """``memes(tune, **settings)`` → a tiny model that drops nothing, unless it is told to."""

    def make(tune="full", **settings):
        vision = VISION | settings.pop("vision", {})
        text = TEXT | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0} | settings.pop("text", {})
        return memes_model(vision, text, tune=tune, **{"width": 12, "heads": 3, "dropout": 0.0} | settings)

    return make


@pytest.fixture
def meme_batch():
    """Pictures as bytes, texts of 2 to 6 words padded to 6, and labels."""

    def make(rows=6):
        text = torch.randint(1, 40, (rows, 6))
        text[torch.arange(6) >= 2 + torch.arange(rows)[:, None] % 5] = 0
        image = torch.randint(0, 256, (rows, 3, 12, 12), dtype=torch.uint8)
        return {"image": image, "text": text}, torch.arange(rows) % 2

    return make


@pytest.fixture
def clips():
    """``clips(**settings)`` → a tiny model of frames and spectrograms, and a batch for it."""

    def make(rows=6, **settings):
        model = resnet_model(3, **{"weights": RESNET, "hidden": 5, "dropout": 0.0} | settings)
        video = torch.randint(0, 256, (rows, 2, 3, 16, 16), dtype=torch.uint8)
        return model, {"video": video, "audio": torch.randn(rows, 17, 12)}, torch.arange(rows) % 3

    return make
