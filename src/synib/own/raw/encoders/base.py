"""The interface of encoders: a name, a revision that identifies its outputs, a width, and a function of a batch."""

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

from synib.own.columns import Array

RawKind = Literal["text", "image", "audio", "table"]


@dataclass(frozen=True)
class EncoderState:
    """The state of an encoder in a saved model.

    Args:
        name: A built-in name, a folder, or a hub id.
        revision: A checksum, a version or a commit; another revision may give other vectors.
        width: Width of its vectors.
        licence: Licence of its weights, if it has any.
        settings: Fitted plain values.
        arrays: Fitted arrays.
    """

    name: str
    revision: str
    width: int
    licence: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, Array] = field(default_factory=dict)


class Encoder(ABC):
    """A frozen encoder of one kind of content.

    ``prepare`` is called for each item, in several threads; ``encode`` for a batch of prepared items, in one thread.
    """

    kind: ClassVar[RawKind]
    batch: ClassVar[int] = 256
    is_network: ClassVar[bool] = False  # encoding takes much longer than decoding
    name: str
    revision: str
    width: int
    licence: str
    about: str  # a short description

    def prepare(self, item: Any) -> Any:
        """Prepare a text, an image, a sound or a row of cells for encoding."""
        return item

    @abstractmethod
    def encode(self, items: Sequence[Any]) -> Array:
        """(items, width) of float32."""

    def state(self) -> EncoderState:
        """The state from which the same encoder can be restored."""
        return EncoderState(self.name, self.revision, self.width, self.licence)


class Fitter(Protocol):
    """Fits an encoder to blocks of items, without the target."""

    def add(self, items: Sequence[Any]) -> None:
        """Add a block of items."""

    def done(self) -> Encoder:
        """The fitted encoder."""
