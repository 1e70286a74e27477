"""SynIB in the Trainer of transformers."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from torch import Tensor, nn

try:
    from safetensors.torch import load_file, save_file
    from transformers import Trainer
    from transformers.trainer_utils import get_last_checkpoint
except ImportError as error:
    raise ImportError('SynIBTrainer needs transformers and safetensors: pip install "synib[text]"') from error

from synib.integrations import check_objective, processes
from synib.objective import Objective, Parts
from synib.objective.model import MultimodalModel, Predict
from synib.objective.wrappers import as_forward
from synib.tokens import Modality

STATE = "objective.safetensors"

AsModalities = Callable[[Any, Mapping[str, Any]], tuple[Predict | MultimodalModel, Mapping[str, Modality], Tensor]]


class SynIBTrainer(Trainer):
    """A Trainer that trains by an objective; the model is evaluated, used and saved without it.

    For your own Trainer: ``class Mine(SynIBTrainer, YourTrainer)``.

    Args:
        *args, **kwargs: Arguments of Trainer.
        objective: The training objective, such as ``synib.SynIB(...)``.
        as_modalities: Function from the model and Trainer's inputs of a batch to the arguments of the objective: a
            function from modalities to the family's parameters (or a ``FusionModel``), the modalities, the target.
    """

    def __init__(self, *args: Any, objective: Objective, as_modalities: AsModalities, **kwargs: Any) -> None:
        check_objective("objective", objective)
        if any(True for _ in objective.parameters()):
            raise ValueError(
                "The objective has trainable parameters (a mask network), which Trainer's optimiser does not "
                "train: use another mask, or Lightning (synib.integrations.lightning)."
            )
        super().__init__(*args, **kwargs)
        self._check_settings()
        # A loss is the mean of its batch, whatever the model does with its own: Trainer divides it where it accumulates.
        self.model_accepts_loss_kwargs = False
        self.objective: Objective = objective.to(self.args.device)
        self.as_modalities = as_modalities
        self._sums: dict[str, Tensor] = {}
        self._batches = 0

    def _check_settings(self) -> None:
        other_losses = {
            "compute_loss_func": self.compute_loss_func is not None,
            "label_smoothing_factor": self.label_smoother is not None,
        }
        if ignored := [name for name, is_set in other_losses.items() if is_set]:
            raise ValueError(
                f"The objective is the loss, so {ignored[0]} would have no effect in training: leave it out."
            )
        if self.model_init is not None:
            raise ValueError(
                "model_init creates new models, but the objective keeps statistics of the last one: pass model= "
                "instead."
            )
        if self.args.n_gpu > 1:
            raise ValueError(
                f"Trainer would copy the model to {self.args.n_gpu} GPUs by DataParallel, which objectives do not "
                "support: start the script with torchrun or accelerate launch, or use one GPU "
                "(CUDA_VISIBLE_DEVICES=0)."
            )

    def compute_loss(
        self,
        model: nn.Module,
        inputs: dict[str, Any],
        return_outputs: bool = False,
        num_items_in_batch: Tensor | int | None = None,
    ) -> Any:
        """The objective's loss in training, the plain Trainer's in evaluation."""
        if not model.training:
            return super().compute_loss(model, inputs, return_outputs, num_items_in_batch)
        if return_outputs:
            raise ValueError("In training the objective returns a loss and no outputs: use return_outputs=False.")
        own = self.accelerator.unwrap_model(model)

        def loss() -> tuple[Tensor, Parts]:
            with self.accelerator.autocast():
                batch = self.as_modalities(own, inputs)
                if not isinstance(batch, tuple) or len(batch) != 3:
                    raise ValueError(
                        f"as_modalities must return (predict, modalities, target); got {type(batch).__name__}."
                    )
                predict, modalities, target = batch
                return self.objective(predict, modalities, target, group=processes())  # type: ignore[no-any-return]

        total, parts = as_forward(model, loss, self.objective.searches)
        self._batches += 1
        for name, value in parts.items():
            self._sums[name] = self._sums[name] + value if name in self._sums else value
        return total

    def log(self, logs: dict[str, float], *args: Any, **kwargs: Any) -> None:
        """Trainer's log, with the parts of the loss as means over this process's batches since the last log."""
        if "loss" in logs and self._batches:
            logs |= {name: value.item() / self._batches for name, value in self._sums.items()}
            self._sums, self._batches = {}, 0
        super().log(logs, *args, **kwargs)

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the plain model; in a checkpoint also the state of the objective, in a separate file."""
        super().save_model(output_dir, _internal_call)
        if _internal_call and self.args.should_save:
            state = {name: t.contiguous() for name, t in self.objective.state_dict().items()}
            save_file(state, Path(str(output_dir or self.args.output_dir)) / STATE)

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Trainer's train; a checkpoint also restores the state of the objective."""
        folder = resume_from_checkpoint
        if folder is True:
            folder = get_last_checkpoint(self.args.output_dir)  # type: ignore[no-untyped-call]
        if folder:
            if not (state := Path(folder) / STATE).exists():
                raise ValueError(f"{folder} has no {STATE}: it is not a checkpoint of a SynIBTrainer.")
            self.objective.load_state_dict(load_file(state, device=str(self.args.device)))
        return super().train(resume_from_checkpoint, *args, **kwargs)
