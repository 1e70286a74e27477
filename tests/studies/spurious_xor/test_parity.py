"""Three-modality parity."""

from synib.objective import SynIB
from synib.studies import Parity


def test_three_modalities_take_part_and_the_paper_gives_no_value():
    experiment = Parity(seeds=1, beta=(1.0,), methods=("vanilla", "synib-oracle"))
    vanilla, oracle = experiment.cells()
    data = experiment.data(oracle)
    assert len(data.train) == 1000
    assert experiment.model(vanilla, data).names == ("x1", "x2", "x3")
    method = experiment.method(oracle, data)
    assert isinstance(method, SynIB)
    assert method.mask.indices == {name: [0, 1, 2, 3] for name in ("x1", "x2", "x3")}
    assert experiment.paper("vanilla", {"beta": 1.0}, "test_accuracy") is None
