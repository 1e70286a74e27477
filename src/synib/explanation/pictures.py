"""Scores drawn as words, bars and pixels in plain HTML and inline SVG, without scripts. Every text is escaped."""

import base64
import struct
import zlib
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from numpy.typing import ArrayLike, NDArray

FOR, AGAINST = (11, 111, 184), (204, 88, 12)  # colours of evidence for and against the answer
STRONGEST = 0.8  # opacity of the largest score

STYLE = """<style>
.synib-explanation { color-scheme: light dark; --ink: #1c2430; --soft: #5b6573; --line: #dfe3e8; --paper: #ffffff;
  --for: 11 111 184; --against: 204 88 12; --fill: .9; color: var(--ink); background: var(--paper); overflow-wrap: anywhere;
  padding: .5rem .8rem; border-radius: .5rem;
  font: 15px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
@media (prefers-color-scheme: dark) { .synib-explanation { --ink: #e8ebef; --soft: #a3adba; --line: #333c48;
  --paper: #1d242d; --for: 88 166 230; --against: 240 138 93; --fill: .6; } }
.synib-explanation section { border: 1px solid var(--line); border-radius: .5rem; padding: .6rem .8rem; margin: .8rem 0; }
.synib-explanation h3, .synib-explanation h4 { margin: .2rem 0 .5rem; font-size: 1rem; line-height: 1.3; color: var(--ink); }
.synib-explanation h4 { font-size: .92rem; margin-top: .9rem; }
.synib-explanation p { margin: .3rem 0; max-width: 46rem; }
.synib-explanation .soft { color: var(--soft); font-size: .88rem; }
.synib-explanation .bars { display: grid; grid-template-columns: fit-content(11rem) minmax(6rem, 30rem) max-content;
  gap: .15rem .7rem; align-items: center; font-variant-numeric: tabular-nums; font-size: .9rem; }
@media (max-width: 28rem) { .synib-explanation .bars { grid-template-columns: 1fr max-content; grid-auto-flow: dense; }
  .synib-explanation .track { grid-column: 1 / -1; } }
.synib-explanation .track { position: relative; height: 1.05rem; }
.synib-explanation .track > * { position: absolute; top: 0; bottom: 0; }
.synib-explanation .bar { background: rgb(var(--for)); top: .15rem; bottom: .15rem; border-radius: 2px; }
.synib-explanation .bar.against { background: rgb(var(--against)); }
.synib-explanation .zero { width: 1px; background: var(--soft); }
.synib-explanation .reach { border-bottom: 2px solid var(--ink); top: auto; bottom: .45rem; opacity: .75; }
.synib-explanation .words { line-height: 2; max-width: 46rem; }
.synib-explanation .words span { padding: .1rem .2rem; border-radius: .2rem;
  background: rgb(var(--for) / calc(var(--fill) * var(--w))); }
.synib-explanation .words span.against { background: rgb(var(--against) / calc(var(--fill) * var(--w))); }
.synib-explanation .pixels { display: flex; flex-wrap: wrap; gap: .8rem; }
.synib-explanation figure { margin: 0; width: 12rem; max-width: 100%; }
.synib-explanation figcaption { color: var(--soft); font-size: .82rem; }
.synib-explanation svg { width: 100%; height: auto; display: block; border: 1px solid var(--line); background: #fff; }
.synib-explanation image.sharp { image-rendering: pixelated; }
.synib-explanation img { display: block; max-width: 100%; border: 1px solid var(--line); }
.synib-explanation svg.outline { width: 12rem; max-width: 100%; background: none; }
.synib-explanation svg.outline path { stroke: var(--soft); stroke-width: 1; fill: none; }
.synib-explanation details { font-size: .88rem; margin-top: .5rem; }
.synib-explanation summary { cursor: pointer; color: var(--soft); }
.synib-explanation summary:focus-visible { outline: 2px solid rgb(var(--for)); outline-offset: 2px; }
.synib-explanation .scroll { overflow-x: auto; max-height: 20rem; }
.synib-explanation .scroll.kinds { max-height: none; margin: .5rem 0; }
.synib-explanation .kinds th, .synib-explanation .kinds td { max-width: none; overflow-wrap: normal; vertical-align: bottom; }
.synib-explanation .kinds th:first-child { min-width: 8rem; }
.synib-explanation .kinds td { white-space: nowrap; }
.synib-explanation table { border-collapse: collapse; font-variant-numeric: tabular-nums; color: var(--ink); }
.synib-explanation th, .synib-explanation td { text-align: right; padding: .15rem .5rem; border-bottom: 1px solid var(--line);
  background: none; }
.synib-explanation th:first-child { text-align: left; font-weight: normal; }
.synib-explanation .key { display: inline-block; width: .8rem; height: .8rem; border-radius: 2px; vertical-align: -.05rem; }
</style>"""


def bars(
    names: Sequence[str],
    scores: ArrayLike,
    low: ArrayLike | None = None,
    high: ArrayLike | None = None,
    reach: ArrayLike = (),
) -> str:
    """A bar for each named score, to the right if it is for the answer and to the left if against; intervals are lines.

    Args:
        names, scores: The bars.
        low, high: Their intervals.
        reach: Other numbers that the scale includes, so that several charts have the same scale.
    """
    value = np.asarray(scores, dtype=float)
    ends = [value if x is None else np.where(np.isfinite(x), x, value) for x in (low, high)]
    included = np.concatenate([[0.0], value, *ends, np.asarray(reach, dtype=float)])
    left, right = float(np.nanmin(included)), float(np.nanmax(included))
    width = max(right - left, 1e-12)

    def at(x: float) -> float:
        return round(100 * (x - left) / width, 2)

    rows = []
    for name, score, start, end in zip(names, value, *ends, strict=True):
        begin, stop = sorted((at(0.0), at(score)))
        side = " against" if score < 0 else ""
        interval = (
            f'<i class="reach" style="left:{at(start)}%;width:{at(end) - at(start):.2f}%"></i>' if end > start else ""
        )
        text = f"{score:+.2f}" + (f" [{start:+.2f}, {end:+.2f}]" if end > start else "")
        rows.append(
            f'<div>{escape(str(name))}</div><div class="track"><i class="bar{side}" '
            f'style="left:{begin}%;width:{stop - begin:.2f}%"></i><i class="zero" style="left:{at(0.0)}%"></i>{interval}</div>'
            f"<div>{text}</div>"
        )
    return f'<div class="bars">{"".join(rows)}</div>'


def words(text: Sequence[str], scores: ArrayLike, largest: float | None = None) -> str:
    """Words coloured by their scores; a tooltip shows the score of each word.

    Args:
        text: The words, in order.
        scores: A score for each.
        largest: The score that gets the full colour; by default the largest.
    """
    value = np.asarray(scores, dtype=float)
    if value.shape != (len(text),):
        raise ValueError(f"There must be one score per word, ({len(text)},); got {value.shape}.")
    scale = _scale(value, largest)
    spans = [
        f'<span{" class=against" if s < 0 else ""} style="--w:{STRONGEST * min(1.0, abs(s) / scale):.3f}" '
        f'title="{s:+.3f}">{escape(str(word))}</span>'
        for word, s in zip(text, value, strict=True)
    ]
    return f'<p class="words">{" ".join(spans)}</p>'


def pixels(picture: ArrayLike, scores: ArrayLike, label: str, largest: float | None = None) -> str:
    """A grey picture overlaid with its scores in colour.

    Args:
        picture: ``(height, width)``, or ``(height, width, 3)`` in colour; any range.
        scores: ``(height, width)``.
        label: Text alternative of the picture.
        largest: The score that gets the full colour; by default the largest.
    """
    grey = np.asarray(picture, dtype=float)
    value = np.asarray(scores, dtype=float)
    if value.ndim != 2 or grey.shape[:2] != value.shape or grey.ndim not in (2, 3):
        raise ValueError(
            f"A picture and its scores must have the same height and width; got {grey.shape} and {value.shape}."
        )
    colour = grey if grey.ndim == 3 else np.repeat(grey[..., None], 3, 2)
    dark, bright = np.percentile(colour, [1, 99])  # so that an outlier does not use up the contrast
    below = 255 * np.clip((colour - dark) / max(bright - dark, 1e-12), 0, 1)
    if grey.ndim == 2:
        below = 255 - 0.75 * below  # inverted, and light enough for the colours of the overlay
    height, width = value.shape
    return _over(_png(below), (width, height), value, label, largest, "sharp")


def overlay(
    base: str, size: tuple[int, int], scores: ArrayLike | None, label: str, largest: float | None = None
) -> str:
    """A grid of scores, stretched over a picture.

    Args:
        base: The picture's data URI.
        size: The width and height at which it is drawn.
        scores: ``(rows, columns)``; ``None`` for the picture without scores.
        label: Text alternative of the picture.
        largest: The score that gets the full colour; by default the largest.
    """
    if scores is None:
        return _svg(size, label, {base: ""})
    return _over(base, size, np.asarray(scores, dtype=float), label, largest)


def grey(picture: ArrayLike) -> str:
    """The data URI of a picture ``(height, width)`` in light grey on white."""
    value = np.asarray(picture, dtype=float)
    dark, bright = np.percentile(value, [1, 99])
    ink = np.clip((value - dark) / max(bright - dark, 1e-12), 0, 1)
    return _png(np.repeat(255 - 190 * ink[..., None], 3, 2))


def figures(drawn: Mapping[str, str]) -> str:
    """Pictures side by side, title → picture."""
    items = (f"<figure>{picture}<figcaption>{escape(title)}</figcaption></figure>" for title, picture in drawn.items())
    return f'<div class="pixels">{"".join(items)}</div>'


def _over(
    base: str,
    size: tuple[int, int],
    scores: NDArray[np.float64],
    label: str,
    largest: float | None,
    kind: str = "",
) -> str:
    strength = STRONGEST * np.minimum(1.0, np.abs(scores) / _scale(scores, largest))
    colour = np.where((scores < 0)[..., None], np.array(AGAINST), np.array(FOR))
    above = _png(np.concatenate([colour, 255 * strength[..., None]], 2))
    return _svg(size, label, {base: kind, above: "sharp"})


def _svg(size: tuple[int, int], label: str, layers: Mapping[str, str]) -> str:
    """Layered pictures, data URI → class."""
    full_size = f'width="{size[0]}" height="{size[1]}" preserveAspectRatio="none"'
    drawn = "".join(f'<image {full_size} class="{kind}" href="{address}"/>' for address, kind in layers.items())
    return f'<svg viewBox="0 0 {size[0]} {size[1]}" role="img" aria-label="{escape(label, quote=True)}">{drawn}</svg>'


def numbers(names: Sequence[str], columns: dict[str, ArrayLike]) -> str:
    """The scores as a collapsed table, which also opens with the keyboard."""
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in ("part", *columns))
    values = [np.asarray(column, dtype=float) for column in columns.values()]
    rows = "".join(
        f'<tr><th scope="row">{escape(str(name))}</th>' + "".join(f"<td>{x[i]:+.3f}</td>" for x in values) + "</tr>"
        for i, name in enumerate(names)
    )
    return (
        '<details><summary>Numbers</summary><div class="scroll" tabindex="0"><table>'
        f"<thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div></details>"
    )


def legend() -> str:
    """The legend of the two colours."""
    return (
        '<p class="soft"><i class="key" style="background:rgb(var(--for))"></i> for the answer '
        '<i class="key" style="background:rgb(var(--against))"></i> against it; lines are intervals over draws.</p>'
    )


def _scale(value: NDArray[np.float64], largest: float | None) -> float:
    return max(float(np.abs(value).max(initial=0.0)) if largest is None else largest, 1e-12)


def _png(pixels: NDArray[np.float64]) -> str:
    """Colours from 0 to 255, ``(height, width, 3 or 4)``, as the data URI of a PNG picture."""
    height, width, channels = pixels.shape
    rows = np.clip(np.round(pixels), 0, 255).astype(np.uint8).reshape(height, -1)
    raw = np.concatenate(
        [np.zeros((height, 1), np.uint8), rows], 1
    ).tobytes()  # each line begins with its filter type, 0

    def chunk(kind: bytes, content: bytes) -> bytes:
        checksum = zlib.crc32(kind + content)
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", checksum)

    header = struct.pack(">IIBBBBB", width, height, 8, {3: 2, 4: 6}[channels], 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b"")
    return f"data:image/png;base64,{base64.b64encode(data).decode()}"
