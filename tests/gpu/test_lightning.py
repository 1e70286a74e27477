"""Steps on Lightning as CUDA graphs: they train what Lightning's own steps train."""

import pytest
import torch

import synib
from synib.studies.spurious_xor.data import spurious_xor
from synib.training import solo

pytest.importorskip("lightning")
pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")

METHODS = {
    "vanilla": lambda: synib.Vanilla(family=synib.Bernoulli()),
    "random": lambda: synib.SynIB(synib.RandomMask(0.4), synib.StandardNoise(), family=synib.Bernoulli(), weight=2.0),
    "learned": lambda: synib.SynIB(synib.LearnedMask(steps=2), synib.StandardNoise(), family=synib.Bernoulli()),
    "mmpareto": lambda: synib.methods.MMPareto(family=synib.Bernoulli()),
    "reconboost": lambda: synib.methods.ReconBoost(stage=2, family=synib.Bernoulli()),
}


def fit(method, recorded, epochs=4, **options):
    """A trained model and the result of the training."""
    torch.manual_seed(0)
    data = spurious_xor(beta=0.5, train=300, validation=100, test=100)
    model = synib.FusionModel.mlp(data.widths, hidden=[16], head_hidden=[], fusion_hidden=[8], dropout=0.3)
    fitted = solo.fit(
        METHODS[method](), model, data, lr=1e-2, epochs=epochs, batch_size=32, device="cuda", recorded=recorded,
        warmup=5, schedule="cosine", clip=0.5, **options,
    )  # fmt: skip
    return model, fitted


def same(one, other, rtol=1e-3, atol=1e-4):
    for mine, theirs in zip(one.parameters(), other.parameters(), strict=True):
        torch.testing.assert_close(mine, theirs, rtol=rtol, atol=atol)


@pytest.mark.parametrize("method", METHODS)
def test_replayed_steps_train_what_steps_of_lightning_do(method):
    (mine, recorded), (theirs, plain) = fit(method, True), fit(method, False)
    changes = "the step changed after it was recorded"
    assert recorded.not_recorded == (changes if method == "reconboost" else "")
    assert plain.not_recorded == "recorded=False"
    same(mine, theirs)
    for one, other in zip(recorded.history, plain.history, strict=True):
        assert one == pytest.approx(other, rel=1e-2, abs=1e-2)


class Stop(BaseException):
    pass


def test_a_stopped_training_goes_on_with_what_is_replayed(tmp_path):
    def stop(epoch):
        if epoch == 2:
            raise Stop

    whole, _ = fit("random", True)
    with pytest.raises(Stop):
        fit("random", True, folder=tmp_path, on_epoch=stop)
    resumed, _ = fit("random", True, folder=tmp_path)
    same(resumed, whole)


def test_a_module_of_a_user_takes_replayed_steps():
    from lightning.pytorch import LightningModule, Trainer

    from synib.integrations.lightning import SynIBMixin

    class Module(SynIBMixin, LightningModule):
        def __init__(self, automatic):
            super().__init__()
            self.automatic_optimization = automatic
            self.model = synib.FusionModel.mlp({"a": 8, "b": 6}, hidden=[16], classes=3, head_hidden=[])
            self.objective = synib.SynIB(synib.RandomMask(0.4), synib.StandardNoise(), weight=2.0)

        def training_step(self, batch, index):
            torch.manual_seed(self.global_step)
            batch = {"a": batch[0], "b": batch[1]}, batch[2], self.model
            if self.automatic_optimization:
                return self.synib_loss(*batch)[0]
            self.synib_step(*batch)
            return None

        def configure_optimizers(self):
            return torch.optim.Adam(self.parameters(), lr=1e-2)

    data = torch.utils.data.TensorDataset(torch.randn(96, 8), torch.randn(96, 6), torch.randint(3, (96,)))
    modules = []
    for automatic in (False, True):
        torch.manual_seed(0)
        modules.append(Module(automatic))
        trainer = Trainer(
            max_epochs=3, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
            enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        trainer.fit(modules[-1], torch.utils.data.DataLoader(data, batch_size=16))
        assert trainer.global_step == 18
    assert modules[0].synib_not_recorded == ""
    same(*modules, rtol=1e-2, atol=1e-3)  # recorded, Adam is another implementation
