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
        kind: What the columns hold.
        columns: One column; of a table one or more.
        encoders: The encoders, whose vectors are joined.
    """

    kind: RawKind
    columns: tuple[str, ...]
    encoders: tuple[EncoderState, ...] = ()

    @property
    def column(self) -> str:
        """What a user writes for it, and what the computed column is called."""
        return f"{','.join(self.columns)}:{self.kind}"

    @property
    def width(self) -> int:
        return sum(state.width for state in self.encoders)


def parse(source: Source, name: str, text: str) -> tuple[tuple[str, ...], str | None]:
    """The columns that a user names for a modality, and the kind, where it is said.

    A column whose own name has a comma or a colon is found first.
    """
    if not isinstance(text, str) or not text.strip():
        raise ValueError(f"the modality {name} is the name of a column; got {shown(text)}.")
    if text in source.kinds:
        return (text,), None
    listed, colon, kind = text.rpartition(":")
    if colon and kind.strip() in (*RAW, VECTOR):
        text, said = listed, kind.strip()
    elif colon and listed and all(part.strip() in source.kinds for part in _parts(source, listed)):
        known = ", ".join((*RAW, VECTOR))
        raise ValueError(
            f"{source.path}: the modality {name} is of kind {shown(kind)}; expected one of {known}, as in {listed}:text."
        )
    else:
        said = None
    columns = tuple(_parts(source, text))
    if len(columns) > 1 and said not in (None, "table"):
        raise ValueError(f"{source.path}: the modality {name} of kind {said} has one column; got {', '.join(columns)}.")
    return columns, "table" if len(columns) > 1 else said


def _parts(source: Source, text: str) -> list[str]:
    return [text] if text in source.kinds else [part.strip() for part in text.split(",")]


def encoders_for(given: Mapping[str, str | Sequence[str]], name: str, kind: str) -> list[str]:
    """The encoders that a user names for a modality, by its name or by its kind; none for the default."""
    names = given.get(name, given.get(kind, ()))
    return [names] if isinstance(names, str) else list(names)


def check_encoders(
    given: Mapping[str, str | Sequence[str]] | None, modalities: Mapping[str, RawModality]
) -> dict[str, str | Sequence[str]]:
    """The argument ``encoders``, if each belongs to a modality or a kind that is there."""
    if given is None:
        return {}
    if not isinstance(given, Mapping):
        raise ValueError(f"encoders are a dict of modality → name of an encoder; got {shown(given)}.")
    kinds = {modality.kind for modality in modalities.values()}
    for key, value in given.items():
        if key not in modalities and key not in kinds:
            known = (
                ", ".join([*modalities, *sorted(kinds - modalities.keys())]) or "none, since all modalities are vectors"
            )
            raise ValueError(f"There is no modality {shown(key)} to encode; there are: {known}.")
        names = [value] if isinstance(value, str) else list(value)
        if not names or not all(isinstance(one, str) and one for one in names):
            raise ValueError(f"The encoder of {key} is a name, a folder or an id of the hub; got {shown(value)}.")
    return dict(given)
