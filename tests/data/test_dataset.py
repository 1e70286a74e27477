"""What every data set is, and its random streams."""

import torch

from synib import Tokens
from synib.data import Dataset, Split
from synib.data.dataset import generator


def test_a_split_is_as_long_as_its_target_and_a_data_set_knows_its_widths():
    split = Split({"a": torch.zeros(5, 3), "b": torch.zeros(5, 2, 7)}, torch.zeros(5))
    assert len(split) == 5
    assert Dataset(split, split, split).widths == {"a": 3, "b": 7}
    assert Dataset(split, split, split).blocks == {}
    assert split.groups == {}
    assert split.columns == {}


def test_sequences_with_padding_are_as_wide_as_their_tokens():
    tokens = Tokens(torch.zeros(5, 4, 3), torch.zeros(5, 4, dtype=torch.bool))
    split = Split({"a": tokens, "b": torch.zeros(5, 2)}, torch.zeros(5))
    assert Dataset(split, split, None).widths == {"a": 3, "b": 2}


def test_each_purpose_and_seed_has_a_stream_of_its_own_that_stays_the_same():
    first = torch.randn(50, generator=generator(0, "train"))
    assert torch.equal(first, torch.randn(50, generator=generator(0, "train")))
    for seed, label in ((0, "test"), (1, "train")):
        assert not torch.equal(first, torch.randn(50, generator=generator(seed, label)))
    # The same numbers in every process and version: the hash of the label is crc32, not hash().
    assert generator(0, "train").initial_seed() == 1464962835
