"""A user's specification of a modality: ``"review:text"``, ``"age,department:table"``, ``"photo"``."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

from synib.checks import shown
from synib.own.columns import Source
from synib.own.raw.encoders.base import EncoderState, RawKind

RAW: tuple[str, ...] = get_args(RawKind)
VECTOR = "vector"


@dataclass(frozen=True)
class RawModality:
    """A modality whose vectors are computed from columns of texts, images, sounds or a table.

    Args:
        kind: The kind of content.
        columns: One column, or several of a table.
        encoders: The encoders, whose vectors are concatenated.
    """

    kind: RawKind
    columns: tuple[str, ...]
    encoders: tuple[EncoderState, ...] = ()

    @property
    def column(self) -> str:
        """The specification as a user writes it, which is also the name of the computed column."""
        return f"{','.join(self.columns)}:{self.kind}"

    @property
    def width(self) -> int:
        return sum(state.width for state in self.encoders)


def parse(source: Source, name: str, text: str) -> tuple[tuple[str, ...], str | None]:
    """The columns that a user names for a modality, and the kind, if it is stated.

    A text that is the name of a column, even with a comma or a colon, is taken as that column.
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"the modality {name} must be the name of a column; got {shown(text)}.")
    if text in source.kinds:
        return (text,), None
    listed, colon, kind = text.rpartition(":")
    if colon and kind.strip() in (*RAW, VECTOR):
        text, stated_kind = listed, kind.strip()
    elif colon and listed and all(part.strip() in source.kinds for part in _parts(source, listed)):
        kinds = ", ".join((*RAW, VECTOR))
        raise ValueError(
            f"{source.path}: the modality {name} has the kind {shown(kind)}; expected one of {kinds}, as in {listed}:text."
        )
    else:
        stated_kind = None
    columns = tuple(_parts(source, text))
    if len(columns) > 1 and stated_kind not in (None, "table"):
        raise ValueError(
            f"{source.path}: the modality {name} of kind {stated_kind} must be one column; got {', '.join(columns)}."
        )
    return columns, "table" if len(columns) > 1 else stated_kind


def _parts(source: Source, text: str) -> list[str]:
    return [text] if text in source.kinds else [part.strip() for part in text.split(",")]


def encoders_for(given: Mapping[str, str | Sequence[str]], name: str, kind: str) -> list[str]:
    """The encoders that a user names for a modality, by its name or its kind; empty for the default."""
    names = given.get(name, given.get(kind, ()))
    return [names] if isinstance(names, str) else list(names)


def check_encoders(
    given: Mapping[str, str | Sequence[str]] | None, modalities: Mapping[str, RawModality]
) -> dict[str, str | Sequence[str]]:
    """Validate the argument ``encoders``: each key must be a modality or a kind of the data."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"encoders must be a dict of modality → name of an encoder; got {shown(given)}.")
    kinds = {modality.kind for modality in modalities.values()}
    for key, value in given.items():
        if key not in modalities and key not in kinds:
            available = (
                ", ".join([*modalities, *sorted(kinds - modalities.keys())]) or "none, since all modalities are vectors"
            )
            raise ValueError(f"There is no modality {shown(key)} to encode; the raw modalities are: {available}.")
        names = [value] if isinstance(value, str) else list(value)
        if not names or not all(isinstance(encoder, str) and encoder for encoder in names):
            raise ValueError(f"The encoder of {key} must be a name, a folder or a hub id; got {shown(value)}.")
    return dict(given)
