"""One model in an ordinary PyTorch loop. That the fleet's models equal it is tested with the fleet."""

from synib.training.loop import fit


def test_the_loop_counts_steps_and_epochs_aloud(tiny, cell):
    one = cell(epochs=2)
    data = tiny().data(one)
    heard = []
    fit(
        tiny().method(one, data), tiny().model(one, data), data, lr=1e-2, epochs=2, batch_size=16,
        on_epoch=lambda e: heard.append(f"epoch {e}"), on_step=heard.append,
    )  # fmt: skip
    assert heard == [0, 1, 2, "epoch 0", 3, 4, 5, "epoch 1"]
