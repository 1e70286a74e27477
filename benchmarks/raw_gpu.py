"""Encoders and explanations on a GPU: texts a second, and the seconds that one row of a CLIP-sized model takes to explain.

Networks have the sizes of all-MiniLM-L6-v2 and of CLIP's towers and random weights, which cost what trained ones do; nothing is
downloaded. Texts of 12 and of 60 made-up words go through `synib.read` as a user's do, and through the encoder alone. One row
of a two-tower model is explained with 256 parts of its image: `synib.explain` with its default of 32 random orders, each with
its reverse. Every figure is printed and written when it is there; what does not fit into the time given is left out.

    python benchmarks/raw_gpu.py [--seconds 60] [--device cuda] [--small] [--out FOLDER]
"""

import argparse
import csv
import os
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

import synib
from synib.explanation import patches
from synib.files import write_csv
from synib.models.fusion import ConcatFusion

MINILM: dict[str, Any] = {
    "hidden_size": 384,
    "num_hidden_layers": 6,
    "num_attention_heads": 12,
    "intermediate_size": 1536,
}
TINY: dict[str, Any] = {"hidden_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 64}
TOWERS: dict[str, tuple[int, dict[str, Any]]] = {  # CLIP's images: patch, and the size of the network; its texts
    "ViT-B/32": (
        32,
        {"hidden_size": 768, "num_hidden_layers": 12, "num_attention_heads": 12, "intermediate_size": 3072},
    ),
    "ViT-L/14": (
        14,
        {"hidden_size": 1024, "num_hidden_layers": 24, "num_attention_heads": 16, "intermediate_size": 4096},
    ),
}
TEXT: dict[str, Any] = {
    "hidden_size": 512,
    "num_hidden_layers": 12,
    "num_attention_heads": 8,
    "intermediate_size": 2048,
}
SIDE, PARTS, TOKENS, LATENT = 224, 256, 77, 512
WORDS = 30_000  # of the vocabulary
LENGTHS = (12, 60)  # words of a text


def encoder_folder(folder: Path, small: bool) -> Path:
    """A network of MiniLM's size with random weights and a tokenizer of made-up words."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import BertConfig, BertModel, PreTrainedTokenizerFast

    words = {"[PAD]": 0, "[UNK]": 1} | {f"w{k}": k + 2 for k in range(WORDS)}
    tokenizer = Tokenizer(models.WordLevel(words, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast: Any = PreTrainedTokenizerFast
    fast(tokenizer_object=tokenizer, pad_token="[PAD]", unk_token="[UNK]").save_pretrained(folder)
    bert: Any = BertModel
    bert(BertConfig(vocab_size=len(words), **(TINY if small else MINILM))).save_pretrained(folder)
    return folder


def texts(rows: int, length: int) -> list[str]:
    draw = np.random.default_rng(0).integers(WORDS, size=(rows, length))
    return [" ".join(f"w{k}" for k in row) for row in draw]


def embedding(folder: Path, device: str, rows: int, length: int, small: bool) -> list[dict[str, Any]]:
    """Texts a second: of the encoder in batches, and of reading a .csv with it.

    Args:
        folder: For files.
        device: Of the encoder.
        rows: Number of texts.
        length: Words in each text.
        small: Whether the network is tiny.
    """
    from synib.own.raw.encoders.pretrained import Pretrained

    name = str(encoder_folder(folder / "encoder", small))
    lines: list[dict[str, Any]] = []
    items = texts(rows, length)
    encoder = Pretrained("text", name, device=device)
    encoder.encode(items[: encoder.batch])
    start = time.perf_counter()
    for at in range(0, rows, encoder.batch):
        encoder.encode(items[at : at + encoder.batch])
    lines.append({"case": "encoder alone", "batch": encoder.batch, "seconds": time.perf_counter() - start})
    path = folder / f"texts-{length}.csv"
    with path.open("w", newline="") as stream:
        writer = csv.writer(stream)
        writer.writerow(["text", "age", "label"])
        writer.writerows([text, 20 + k % 60, k % 2] for k, text in enumerate(items))
    modalities = {"text": "text:text", "age": "age:table"}
    start = time.perf_counter()
    table = synib.read(path, modalities=modalities, encoders={"text": name}, device=device)
    lines.append({"case": "synib.read", "batch": encoder.batch, "seconds": time.perf_counter() - start})
    if not np.isfinite(np.asarray(table.modalities["text"])).all():
        raise SystemExit("The vectors should be finite.")
    return [
        {**line, "rows": rows, "words": length, "per_second": rows / line["seconds"], "asked": 5000} for line in lines
    ]


class Tower(nn.Module):
    """One of CLIP's encoders, in half precision on a GPU, with a projection.

    Args:
        network: Of transformers.
        width: Of what it gives.
        name: Of its input.
    """

    def __init__(self, network: nn.Module, width: int, name: str) -> None:
        super().__init__()
        self.network, self.name = network, name
        self.project = nn.Linear(width, LATENT)

    def forward(self, x: Tensor) -> Tensor:
        half = x.device.type == "cuda"
        with torch.autocast(x.device.type, torch.bfloat16, enabled=half):
            pooled = self.network(**{self.name: x}).pooler_output
        return torch.as_tensor(self.project(pooled.float()))


def two_towers(of: str, small: bool) -> synib.FusionModel:
    from transformers import CLIPTextConfig, CLIPTextModel, CLIPVisionConfig, CLIPVisionModel

    patch, size = TOWERS[of]
    size, text = (TINY, TINY) if small else (size, TEXT)
    vision = CLIPVisionModel(CLIPVisionConfig(image_size=SIDE, patch_size=patch, **size))
    words = CLIPTextModel(CLIPTextConfig(vocab_size=49_408, max_position_embeddings=TOKENS, eos_token_id=2, **text))
    encoders = {
        "image": Tower(vision, size["hidden_size"], "pixel_values"),
        "text": Tower(words, text["hidden_size"], "input_ids"),
    }
    return synib.FusionModel(encoders, ConcatFusion(dict.fromkeys(encoders, LATENT), [LATENT, 1])).eval()


def explaining(of: str, device: str, rows: int, draws: int, chunk: int, small: bool) -> dict[str, Any]:
    """Seconds to explain one row with 256 parts of its image; a first call prepares the card."""
    torch.manual_seed(0)
    model = two_towers(of, small).to(device)
    data = {
        "image": torch.randn(rows, 3, SIDE, SIDE, device=device),
        "text": torch.randint(3, 49_000, (rows, TOKENS), device=device),
    }
    parts = {"image": np.broadcast_to(patches((SIDE, SIDE), SIDE // int(PARTS**0.5)), (3, SIDE, SIDE)).copy()}
    line: dict[str, Any] = {"case": f"explain, {of}", "rows": 1, "parts": PARTS, "draws": draws, "asked": 2}
    line["parameters"] = sum(p.numel() for p in model.parameters())
    with torch.inference_mode():
        for name, orders in (("warm", 2), ("seconds", draws)):
            start = time.perf_counter()
            found = synib.explain(
                model, data, family=synib.Bernoulli(), parts=parts, of=[0], part_draws=orders, draws=16, chunk=chunk
            )
            line[name] = time.perf_counter() - start
    scores = np.asarray(found.parts["image"].together)
    if scores.shape != (1, PARTS) or not np.isfinite(scores).all():
        raise SystemExit(f"Expected {PARTS} finite scores, got {scores.shape}.")
    return line


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60.0, help="begin nothing after so many")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--small", action="store_true", help="tiny networks, to try the script")
    parser.add_argument("--texts", type=int, default=50_000)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    if options.device.startswith("cuda") and not torch.cuda.is_available():
        raise SystemExit("There is no GPU here: give --device cpu --small to try the script.")
    where = (
        torch.cuda.get_device_name() if options.device.startswith("cuda") else f"{torch.get_num_threads()} CPU threads"
    )
    begun = time.perf_counter()
    lines: list[dict[str, Any]] = []

    def keep(line: dict[str, Any]) -> None:
        line |= {"device": where, "torch": torch.__version__}
        lines.append({key: round(value, 4) if isinstance(value, float) else value for key, value in line.items()})
        print(lines[-1], flush=True)

    draws = 2 if options.small else 32
    jobs: list[Any] = [lambda: explaining("ViT-B/32", options.device, 32, draws, 1024, options.small)]
    jobs.append(lambda: explaining("ViT-B/32", options.device, 32, max(2, draws // 4), 1024, options.small))
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SYNIB_CACHE"] = str(Path(folder) / "cache")
        count = 200 if options.small else options.texts
        jobs[:0] = [partial(embedding, Path(folder), options.device, count, n, options.small) for n in LENGTHS]
        jobs.append(lambda: explaining("ViT-L/14", options.device, 32, max(2, draws // 4), 1024, options.small))
        for job in jobs:
            if time.perf_counter() - begun > options.seconds:
                print("out of time", flush=True)
                break
            try:
                made = job()
            except Exception as e:  # the others go on
                print(f"{type(e).__name__}: {str(e).splitlines()[0]}", flush=True)
                continue
            for line in made if isinstance(made, list) else [made]:
                keep(line)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
        for name, kind in (("raw_gpu_texts", "texts"), ("raw_gpu_explain", "explain")):
            of = [line for line in lines if line["case"].startswith("explain") == (kind == "explain")]
            if of:
                write_csv(options.out / f"{name}.csv", of)


if __name__ == "__main__":
    main()
