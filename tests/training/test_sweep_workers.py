"""Sweeps on workers that are lost, end, run out of memory or have no room."""

import pytest

from synib.files import read_csv, read_json
from synib.training.folder import Folder
from synib.training.shards import Failure
from synib.training.sweep import row, train_and_collect


class Workers:
    """Workers that train nothing: a shard comes back with rows, or with the failure that ``fails(shard, attempt)`` names."""

    tries, in_order, memory_of = 3, True, "a worker"

    def __init__(self, slots=1, fails=lambda shard, attempt: None):
        self.slots, self.fails = slots, fails
        self.submitted, self.attempts, self.most = [], [], 0

    def room(self):
        return self.slots - len(self.submitted)

    def submit(self, shard, on_epoch, halvings):
        self.submitted.append(shard)
        self.attempts.append([cell.id for cell in shard])
        self.most = max(self.most, len(self.submitted))

    def results(self):
        for shard in self.submitted[:1]:
            self.submitted.remove(shard)
            attempt = self.attempts.count([cell.id for cell in shard])
            timing = {"seconds": 0.0, "device": "none", "precision": "float32"}
            rows = [row(cell, {"test_accuracy": 0.5}) for cell in shard]
            yield shard, self.fails(shard, attempt) or {"rows": rows, "curves": [{}] * len(shard), "timing": timing}


@pytest.fixture
def train(tmp_path, tiny):
    """``train(workers, shards)``: all shards of a run; returns the cells of its table."""

    def run(workers, shards, on_progress=lambda done, total: None, say=lambda sentence: None):
        cells = [cell for shard in shards for cell in shard]
        folder = Folder(tmp_path, {})
        train_and_collect(tiny(), cells, folder, workers, lambda: shards, on_progress, say)
        assert [r["cell"] for r in read_csv(tmp_path / "results.csv")] == [cell.id for cell in cells]

    return run


@pytest.fixture
def single(cell):
    """Eight shards of one model each."""
    return [[cell(seed=s)] for s in range(8)]


def test_as_many_shards_are_submitted_as_there_is_room_and_progress_rises_with_each(train, single):
    workers, progress = Workers(slots=4), []
    train(workers, single, on_progress=lambda done, total: progress.append((done, total)))
    assert workers.most == 4
    assert len(workers.attempts) == 8
    assert progress == [(2.0 * done, 16.0) for done in range(9)]  # two epochs each


def test_shards_wait_until_there_is_room(train, single):
    class Later(Workers):
        def results(self):
            self.slots = 1
            return super().results()

    train(Later(slots=0), single)


def test_a_shard_is_trained_again_as_often_as_its_node_is_lost(train, single):
    workers = Workers(fails=lambda shard, attempt: Failure.NODE_LOST if attempt < 9 else None)
    train(workers, single[:1])
    assert len(workers.attempts) == 9


def test_a_shard_whose_process_ended_once_is_trained_again(train, single):
    train(Workers(fails=lambda shard, attempt: Failure.PROCESS_ENDED if attempt == 1 else None), single)


def test_a_shard_that_ends_its_process_three_times_stops_the_run_and_the_others_are_kept(train, single, tmp_path):
    workers = Workers(fails=lambda shard, attempt: Failure.PROCESS_ENDED if shard == single[3] else None)
    with pytest.raises(ValueError, match="The process that trains 1 vanilla models ended 3 times"):
        train(workers, single)
    assert workers.attempts.count([single[3][0].id]) == 3
    assert len(list((tmp_path / "shards").iterdir())) == 3


def test_a_shard_that_does_not_fit_is_halved_with_the_waiting_ones_of_its_program_that_are_as_large(
    train, cell, tmp_path
):
    vanilla, other = [cell(seed=s) for s in range(10)], [cell("synib-random", seed=s) for s in range(4)]
    shards, said = [vanilla[:4], other, vanilla[4:8], vanilla[8:]], []
    workers = Workers(fails=lambda shard, attempt: Failure.OUT_OF_MEMORY if len(shard) > 2 and shard != other else None)
    train(workers, shards, say=said.append)
    assert sorted(map(len, read_json(tmp_path / "shards.json"))) == [2, 2, 2, 2, 2, 4]
    assert [len(ids) for ids in workers.attempts].count(4) == 2  # the first, and that of another program
    assert [sentence.split(":")[0] for sentence in said] == ["Out of memory with 4 models at once on a worker"]


def test_the_longest_shard_is_next_as_measured_on_the_first_of_its_program(train, cell):
    seconds = {"vanilla": 1.0, "confidence": 9.0, "masked-random": 2.0}

    class Timed(Workers):
        in_order = False

        def results(self):
            for shard, result in super().results():
                result["timing"]["seconds"] = seconds[shard[0].method]
                yield shard, result

    workers = Timed()
    shards = [[cell(method, seed=s)] for s in range(2) for method in seconds]
    train(workers, shards)
    methods = {c.id: c.method for shard in shards for c in shard}
    order = [methods[ids[0]] for ids in workers.attempts]
    assert order == ["vanilla", "confidence", "confidence", "masked-random", "masked-random", "vanilla"]
