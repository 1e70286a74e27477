"""The data sets that users provide as files, by name."""

from synib.data.files import Source
from synib.studies import features
from synib.studies.affect import multibench
from synib.studies.crema_votes.data import CREMA_VOTES
from synib.studies.digits.data import DIGITS
from synib.studies.hateful_memes.files import HATEFUL_MEMES
from synib.studies.irony.crema_d import CREMA_D
from synib.studies.irony.ravdess import RAVDESS

SOURCES: dict[str, Source] = {
    source.name: source
    for source in (*multibench.SOURCES, *features.SOURCES, CREMA_D, CREMA_VOTES, RAVDESS, HATEFUL_MEMES, DIGITS)
}
