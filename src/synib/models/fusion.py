"""The model of all experiments: an encoder per modality, optional unimodal heads, one fusion head."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor, nn

from synib.checks import check_flag, check_modality, check_number, check_whole, check_widths, shown
from synib.models.mlp import OptionalEncoder, check_layers, mlp, perceptron_layers
from synib.objective.checks import check_modalities, check_names
from synib.objective.model import MultimodalModel, as_prediction
from synib.tokens import Modality, Tokens, values, with_values


class FusionModel(nn.Module, MultimodalModel):
    r"""Encoders :math:`f_{\theta_i}`, unimodal heads :math:`f_{\theta_{c_i}}` and a fusion head
    :math:`f_{\theta_{c_{12}}}` (Sec. "Problem setup").

    Because the parts are separate, an objective computes what a counterfactual leaves unchanged only once.

    Args:
        encoders: Modality → module from its batch to its latent.
        fusion: A module from a dict of latents to the family's parameters. If it has ``project(name, latent)`` and
            ``combine(projected)``, as in :class:`ConcatFusion`, the computation per modality is shared too.
        heads: Modality → module from its latent to the family's parameters; none by default.
        detach_heads: Whether to stop the gradients of the heads' losses before the encoders.

    Example:
        >>> import torch
        >>> from synib import FusionModel
        >>> model = FusionModel.mlp({"image": 8, "text": 4}, hidden=[16], classes=3)
        >>> model({"image": torch.zeros(5, 8), "text": torch.zeros(5, 4)}).shape
        torch.Size([5, 3])
    """

    def __init__(
        self,
        encoders: Mapping[str, nn.Module],
        fusion: nn.Module,
        heads: Mapping[str, nn.Module] | None = None,
        detach_heads: bool = False,
    ) -> None:
        super().__init__()
        for name, modules in {"encoders": encoders, "heads": {} if heads is None else heads}.items():
            _check_modules(name, modules)
        if len(encoders) < 2:
            raise ValueError(f"A FusionModel needs at least two modalities; got {', '.join(encoders) or 'none'}.")
        if not callable(fusion) or isinstance(fusion, type):
            raise ValueError(f"fusion must be a module from a dict of latents to a prediction; got {shown(fusion)}.")
        unknown = sorted(set(heads or {}) - set(encoders))
        if unknown:
            raise ValueError(
                f"Every head needs an encoder of the same modality; got heads for {', '.join(unknown)} without "
                "encoders."
            )
        self.encoders = nn.ModuleDict(encoders)
        self.heads = nn.ModuleDict(heads or {})
        self.fusion = fusion
        self.detach_heads = check_flag("detach_heads", detach_heads)
        self.names: tuple[str, ...] = tuple(encoders)

    @classmethod
    def mlp(
        cls,
        widths: Mapping[str, int],
        hidden: Sequence[int],
        classes: int = 1,
        *,
        head_hidden: Sequence[int] | None = None,
        fusion_hidden: Sequence[int] = (32,),
        dropout: float = 0.0,
        detach_heads: bool = False,
        missing: Collection[str] = (),
    ) -> "FusionModel":
        """Late fusion of multilayer perceptrons.

        Args:
            widths: Modality → its width.
            hidden: Widths of an encoder's layers; the last one is the width of the latent.
            classes: Number of outputs: 1 logit, K logits, or the parameters of another family.
            head_hidden: Hidden widths of the unimodal heads (empty for a linear head); ``None`` for no heads.
            fusion_hidden: Hidden widths of the fusion head.
            dropout: Dropout rate after every hidden layer.
            detach_heads: See :class:`FusionModel`.
            missing: Modalities that may be missing in some rows; pass them as :func:`synib.tokens.optional`.
        """
        check_widths("widths", widths, module=True)
        check_layers("hidden", hidden, "an encoder's layers")
        check_layers("fusion_hidden", fusion_hidden, "the fusion's hidden layers", least=0)
        if head_hidden is not None:
            check_layers("head_hidden", head_hidden, "a head's hidden layers", least=0)
        check_whole("classes", classes)
        check_number("dropout", dropout, least=0, below=1)
        encoders: dict[str, nn.Module] = {
            name: mlp([width, *hidden], dropout=dropout, last_activation=True) for name, width in widths.items()
        }
        if unknown := [name for name in missing if name not in widths]:
            raise ValueError(
                f"missing must contain only modalities, {', '.join(map(repr, widths))}; got {unknown[0]!r}."
            )
        encoders |= {name: OptionalEncoder(encoders[name], hidden[-1]) for name in missing}
        fusion = ConcatFusion(dict.fromkeys(widths, hidden[-1]), [*fusion_hidden, classes], dropout=dropout)
        heads = None
        if head_hidden is not None:
            heads = {name: mlp([hidden[-1], *head_hidden, classes], dropout=dropout) for name in widths}
        return cls(encoders, fusion, heads, detach_heads)

    def forward(self, modalities: Mapping[str, Modality]) -> Tensor:
        """Parameters of the prediction from all modalities."""
        return self.combine({name: self.project(name, z) for name, z in self.encode_all(modalities).items()})

    def encode_all(self, modalities: Mapping[str, Modality]) -> dict[str, Any]:
        """The latent of every modality."""
        if not torch.compiler.is_compiling() and not self._takes(modalities):
            if isinstance(modalities, Mapping):
                check_names(modalities, self.names)
            check_modalities(modalities)
        return {name: self.encode(name, modalities[name]) for name in self.names}

    def unimodal(self, modalities: Mapping[str, Modality]) -> dict[str, Tensor]:
        """The unimodal prediction of each modality that has a head."""
        return {name: self.head(name, self.encode(name, modalities[name])) for name in self.heads}

    def on_latents(self) -> "LatentModel":
        """This model as a function of its latents, for objectives that corrupt latents instead of inputs."""
        return LatentModel(self)

    def encode(self, name: str, x: Modality) -> Any:
        return self.encoders[name](x)

    def project(self, name: str, latent: Any) -> Any:
        project = getattr(self.fusion, "project", None)
        return latent if project is None else project(name, latent)

    def combine(self, projected: Mapping[str, Any]) -> Tensor:
        combine = getattr(self.fusion, "combine", self.fusion)
        output = combine({name: projected[name] for name in self.names})
        return output if isinstance(output, Tensor) and output.is_floating_point() else as_prediction(output)

    def has_head(self, name: str) -> bool:
        return name in self.heads

    def head(self, name: str, latent: Any, through: bool = False) -> Tensor:
        if self.detach_heads and not through:
            latent = with_values(latent, values(latent).detach())
        output = self.heads[name](latent)
        return output if isinstance(output, Tensor) and output.is_floating_point() else as_prediction(output)

    def unimodal_modules(self, name: str) -> list[nn.Module]:
        return [self.encoders[name], *([self.heads[name]] if name in self.heads else [])]

    def unimodal_layers(self, name: str) -> list[nn.Linear | nn.ReLU] | None:
        return perceptron_layers(self.unimodal_modules(name)) if type(self) is FusionModel else None

    def mixes_rows(self, encoder: str | None = None) -> bool:
        return normalises_batch(self.fusion if encoder is None else self.encoders[encoder])

    def _takes(self, modalities: Any) -> bool:
        return (
            isinstance(modalities, Mapping)
            and modalities.keys() == self.encoders.keys()
            and all(isinstance(x, Tensor | Tokens) for x in modalities.values())
        )


class LatentModel(MultimodalModel):
    """A :class:`FusionModel` without its encoders: the modalities are latents; fusion and heads are shared."""

    def __init__(self, model: FusionModel) -> None:
        self.model, self.names = model, model.names

    def __call__(self, latents: Mapping[str, Any]) -> Tensor:
        return self.combine({name: self.project(name, latents[name]) for name in self.model.names})

    def project(self, name: str, latent: Any) -> Any:
        return self.model.project(name, latent)

    def combine(self, projected: Mapping[str, Any]) -> Tensor:
        return self.model.combine(projected)

    def has_head(self, name: str) -> bool:
        return self.model.has_head(name)

    def head(self, name: str, latent: Any, through: bool = False) -> Tensor:
        return self.model.head(name, latent, through)

    def unimodal_modules(self, name: str) -> list[nn.Module]:
        return [self.model.heads[name]] if name in self.model.heads else []

    def unimodal_layers(self, name: str) -> list[nn.Linear | nn.ReLU] | None:
        return perceptron_layers(self.unimodal_modules(name)) if type(self.model) is FusionModel else None

    def mixes_rows(self, encoder: str | None = None) -> bool:
        return encoder is None and self.model.mixes_rows()


def normalises_batch(module: Any) -> bool:
    """Whether a layer currently normalises by batch statistics (BatchNorm in training mode)."""
    return isinstance(module, nn.Module) and any(
        isinstance(m, nn.modules.batchnorm._BatchNorm) and (m.training or not m.track_running_stats)
        for m in module.modules()
    )


class ConcatFusion(nn.Module):
    """Concatenates the latents and applies a multilayer perceptron.

    The first layer of a concatenation is a sum of one linear map per latent, and is stored and computed this way: a
    counterfactual changes one summand and reuses the others.

    Args:
        widths: Modality → width of its latent.
        layers: Widths of the layers after the concatenation; the last one is the number of outputs.
        dropout: Dropout rate after every hidden layer, or one rate for each.
    """

    def __init__(
        self, widths: Mapping[str, int], layers: Sequence[int], dropout: float | Sequence[float] = 0.0
    ) -> None:
        super().__init__()
        check_widths("widths", widths, module=True)
        check_layers("layers", layers, "the layers after the concatenation")
        whole = nn.Linear(sum(widths.values()), layers[0])  # initialised as one layer, as the concatenation would be
        self.slices = nn.ModuleDict()
        for (name, width), weight in zip(widths.items(), whole.weight.split(list(widths.values()), 1), strict=True):
            self.slices[name] = nn.Linear(width, layers[0], bias=False)
            cast(nn.Linear, self.slices[name]).weight = nn.Parameter(weight.detach().clone())
        self.bias = whole.bias
        self.rest = mlp(layers, dropout=dropout, first_activation=len(layers) > 1)

    def forward(self, latents: Mapping[str, Tensor]) -> Tensor:
        return self.combine({name: self.project(name, z) for name, z in latents.items()})

    def project(self, name: str, latent: Tensor) -> Tensor:
        if name not in self.slices:
            raise ValueError(f"The fusion has the modalities {', '.join(map(repr, self.slices))}; got {name!r}.")
        if not isinstance(latent, Tensor):
            raise ValueError(
                f"ConcatFusion expects tensors, but the encoder of {name!r} returns {type(latent).__name__}."
            )
        slice_ = cast(nn.Linear, self.slices[name])
        if latent.shape[-1] != slice_.in_features:
            raise ValueError(
                f"The latent of {name!r} has width {latent.shape[-1]}, but the fusion expects {slice_.in_features}."
            )
        return cast(Tensor, slice_(latent))

    def combine(self, projected: Mapping[str, Tensor]) -> Tensor:
        total = torch.stack(list(projected.values())).sum(0) if len(projected) > 2 else sum(projected.values())
        return cast(Tensor, self.rest(total + self.bias))


def _check_modules(name: str, modules: Any) -> None:
    """Raise ``ValueError`` unless the value is a dict of modality → module."""
    if not isinstance(modules, Mapping):
        raise ValueError(f"{name} must be a dict of modality → module; got {type(modules).__name__}.")
    for of, module in modules.items():
        check_modality(of, module=True)
        if not isinstance(module, nn.Module):
            raise ValueError(f"{name} must be modules; the one of {of!r} is {shown(module)}.")


def spurious_xor_model(widths: Mapping[str, int], dropout: float = 0.0, detach_heads: bool = False) -> FusionModel:
    """The Spurious-XOR network (App. "Spurious XOR"): encoders 64 → 16, linear heads, fusion 32 → 32 → 1.

    With more modalities the fusion head has a wider input; nothing else changes.
    """
    return FusionModel.mlp(
        widths, hidden=[16], classes=1, head_hidden=[], fusion_hidden=[32], dropout=dropout, detach_heads=detach_heads
    )


def pid_xor_model(
    widths: Mapping[str, int], width: int = 1024, dropout: float = 0.0, detach_heads: bool = False
) -> FusionModel:
    """The PID-XOR network (App. "PID-Controlled XOR"): encoders 32 → 1024 → 1024, heads 1024 → 1024 → 1, fusion
    2048 → 128 → 128 → 1.

    Args:
        widths: Modality → its width.
        width: Width of the layers of encoders and heads; below the paper's 1024, the model trains on a laptop.
        dropout: Dropout rate after the first hidden layer of the encoders and of the fusion; the paper does not state a
            rate.
        detach_heads: Whether the heads' losses stop at the latents, as in the authors' script but not in the paper's
            text.
    """
    check_widths("widths", widths, module=True)
    check_whole("width", width)
    return FusionModel(
        {name: mlp([n, width, width], dropout=[dropout, 0.0], last_activation=True) for name, n in widths.items()},
        ConcatFusion(dict.fromkeys(widths, width), [128, 128, 1], dropout=[dropout, 0.0]),
        {name: mlp([width, width, 1]) for name in widths},
        detach_heads,
    )
