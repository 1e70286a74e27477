"""What every encoder is: a name, a revision that says which numbers it gives, a width, and a function of a batch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from synib.own.columns import Array

RawKind = Literal["text", "image", "audio", "table"]


@dataclass(frozen=True)
class EncoderState:
    """An encoder as a saved model keeps it: plain values, and arrays where it was fitted to data.

    Args:
        name: What finds it again: a built-in name, a folder, an id of the hub.
        revision: A checksum, a version or a commit: an encoder of another revision gives other numbers.
        width: Of its vectors.
        licence: Of its weights, or "MIT (synib)" where it has none.
        settings: Plain values that it was fitted to.
        arrays: Numbers that it was fitted to.
    """

    name: str
    revision: str
    width: int
    licence: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


class Encoder(ABC):
    """A frozen encoder of one kind of content.

    ``prepare`` is called for each item, in several threads; ``encode`` for a batch of what it made, in one.
    """

    kind: ClassVar[RawKind]
    batch: ClassVar[int] = 256
    name: str
    revision: str
    width: int
    licence: str
    about: str  # what it is, in a few words

    def prepare(self, item: Any) -> Any:
        """What is encoded, from a text, an image, a sound or a row of cells."""
        return item

    @abstractmethod
    def encode(self, items: Sequence[Any]) -> Array:
        """(items, width) of float32."""

    def state(self) -> EncoderState:
        """What a saved model needs to find, or to make, the same encoder again."""
        return EncoderState(self.name, self.revision, self.width, self.licence)


class Fitter(Protocol):
    """Fits an encoder to items that come in blocks; it never sees the target."""

    def add(self, items: Sequence[Any]) -> None:
        """Look at some items."""

    def done(self) -> Encoder:
        """The encoder that fits what was seen."""
