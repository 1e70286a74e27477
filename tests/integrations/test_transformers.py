"""A SynIBTrainer trains as a plain loop does that calls the objective, and evaluates and saves the plain model."""

import copy
import textwrap

import pytest
import torch
from torch import nn

import synib
from synib import keys, methods

pytest.importorskip("accelerate", reason="the Trainer of transformers needs accelerate")

from transformers import BertConfig, BertForSequenceClassification, CLIPConfig, CLIPModel, Trainer, TrainingArguments
from transformers.modeling_outputs import SequenceClassifierOutput

from synib.integrations.transformers import SynIBTrainer

SMALL = {"hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 8}
TEXT = {"vocab_size": 20, "max_position_embeddings": 16, "bos_token_id": 18, "eos_token_id": 19, **SMALL}


class Towers(nn.Module):
    """CLIP's pooled embeddings and a classifier."""

    def __init__(self):
        super().__init__()
        pictures = {"image_size": 8, "patch_size": 4, **SMALL}
        self.clip = CLIPModel(CLIPConfig(text_config=TEXT, vision_config=pictures, projection_dim=6))
        self.clip.logit_scale.requires_grad_(False)  # no part of a classifier
        self.head = nn.Linear(12, 3)

    def embed(self, pixel_values, input_ids):
        found = self.clip(pixel_values=pixel_values, input_ids=input_ids)
        return {"image": found.image_embeds, "text": found.text_embeds}

    def classify(self, embeds):
        return self.head(torch.cat([embeds["image"], embeds["text"]], 1))

    def forward(self, pixel_values, input_ids, labels=None, **kwargs):  # which makes Trainer count examples for it
        logits = self.classify(self.embed(pixel_values, input_ids))
        loss = None if labels is None else nn.functional.cross_entropy(logits, labels)
        return SequenceClassifierOutput(loss=loss, logits=logits)

    @staticmethod
    def as_modalities(model, inputs):
        return model.classify, model.embed(inputs["pixel_values"], inputs["input_ids"]), inputs["labels"]

    @staticmethod
    def example(draw, i):
        return {
            "pixel_values": torch.randn(3, 8, 8, generator=draw),
            "input_ids": torch.randint(18, (5,), generator=draw),
            "labels": i % 3,
        }


class Reader(BertForSequenceClassification):
    """BERT over the tokens of both modalities."""

    def __init__(self):
        super().__init__(BertConfig(**TEXT, pad_token_id=0, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0))
        self.look = nn.Linear(4, 8)

    def forward(self, input_ids, attention_mask, patches, answer=None):
        found = self.read(self.tokens(input_ids, attention_mask, patches))
        loss = None if answer is None else nn.functional.cross_entropy(found, answer)
        return SequenceClassifierOutput(loss=loss, logits=found)

    def tokens(self, input_ids, attention_mask, patches):
        words, seen = self.get_input_embeddings()(input_ids), self.look(patches)
        here = torch.zeros(seen.shape[:2], dtype=torch.bool, device=seen.device)
        return {"text": synib.Tokens(words, attention_mask == 0), "image": synib.Tokens(seen, here)}

    def read(self, m):
        values = torch.cat([m["text"].values, m["image"].values], 1)
        hidden = torch.cat([m["text"].padding, m["image"].padding], 1)
        return super().forward(inputs_embeds=values, attention_mask=(~hidden).long()).logits

    @staticmethod
    def as_modalities(model, inputs):
        modalities = model.tokens(inputs["input_ids"], inputs["attention_mask"], inputs["patches"])
        return model.read, modalities, inputs["answer"]

    @staticmethod
    def example(draw, i):
        length = 2 + i % 3
        return {
            "input_ids": torch.randint(1, 18, (4,), generator=draw),
            "attention_mask": torch.tensor([1] * length + [0] * (4 - length)),
            "patches": torch.randn(3, 4, generator=draw),
            "answer": i % 2,
        }


def tokens(noise, **settings):
    return synib.SynIB(synib.RandomMask(0.5, over="tokens"), noise, weight=1.0, **settings)


CASES = {
    "pooled, matched": (Towers, lambda: synib.SynIB(weight=synib.LinearWarmup(2.0, steps=4))),
    "pooled, swapped": (Towers, lambda: synib.SynIB(synib.RandomMask(1.0), synib.ShuffledNoise(), draws=2)),
    "tokens, hidden": (Reader, lambda: tokens(synib.HideTokens())),
    "tokens, swapped": (Reader, lambda: tokens(synib.ShuffledNoise())),
}


def examples(model, n=32):
    draw = torch.Generator().manual_seed(1)
    return [model.example(draw, i) for i in range(n)]


def trainer(model, objective, folder, kind=SynIBTrainer, seen=None, **settings):
    """A Trainer by plain gradient descent; ``seen`` gets the generator's state and the inputs of every batch."""

    def noted(model, inputs):
        if seen is not None:
            seen.append((torch.get_rng_state(), inputs))
        return model.as_modalities(model, inputs)

    ours = {"objective": objective, "as_modalities": noted} if issubclass(kind, SynIBTrainer) else {}
    ours |= {name: settings.pop(name) for name in ("compute_loss_func", "model_init") if name in settings}
    args = TrainingArguments(
        output_dir=str(folder), use_cpu=True, report_to=[], disable_tqdm=True, logging_steps=1, max_grad_norm=0.0,
        per_device_train_batch_size=8, per_device_eval_batch_size=8, remove_unused_columns=False,
        **{"num_train_epochs": 1, "save_strategy": "no", **settings},
    )  # fmt: skip
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    flat = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1.0)
    data = examples(model)
    return kind(
        model=model, args=args, train_dataset=data, eval_dataset=data[:12], optimizers=(optimiser, flat), **ours
    )


def made(case):
    kind, objective = CASES[case]
    return kind(), objective()


def names(case):
    return {"label_names": ["answer"]} if CASES[case][0] is Reader else {}


def same(one, other, **tolerance):
    mine, theirs = one.state_dict(), other.state_dict()
    assert mine.keys() == theirs.keys()
    for name, value in mine.items():
        torch.testing.assert_close(value, theirs[name], msg=lambda m, name=name: f"{name}: {m}", **tolerance)


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("case", CASES)
def test_it_trains_as_the_plain_loop_does(tmp_path, case, accumulate):
    (model, objective), seen = made(case), []
    plain, alike = copy.deepcopy(model), copy.deepcopy(objective)
    here = trainer(model, objective, tmp_path, seen=seen, gradient_accumulation_steps=accumulate, **names(case))
    here.train()
    optimiser, told = torch.optim.SGD(plain.parameters(), lr=0.1), []
    assert len(seen) == 4
    for step, (state, inputs) in enumerate(seen, 1):
        torch.set_rng_state(state)
        loss, parts = alike(*plain.as_modalities(plain, inputs))
        told.append({"loss": loss.item(), **{name: value.item() for name, value in parts.items()}})
        (loss / accumulate).backward()
        if step % accumulate == 0:
            optimiser.step()
            optimiser.zero_grad()
    same(model, plain, rtol=1e-6, atol=1e-7)
    same(objective, alike, rtol=0, atol=0)
    logged = [row for row in here.state.log_history if "loss" in row]
    groups = [told[i : i + accumulate] for i in range(0, 4, accumulate)]
    for row, group in zip(logged, groups, strict=True):
        for name in group[0]:
            assert row[name] == pytest.approx(sum(part[name] for part in group) / len(group), rel=1e-4)


@pytest.mark.parametrize("case", ["pooled, matched", "tokens, hidden"])
def test_it_evaluates_and_predicts_as_the_plain_trainer(tmp_path, case):
    model, objective = made(case)
    ours = trainer(model, objective, tmp_path, **names(case))
    theirs = trainer(model, None, tmp_path, kind=Trainer, **names(case))
    ours.train()
    remembered = copy.deepcopy(objective)
    assert ours.evaluate()["eval_loss"] == pytest.approx(theirs.evaluate()["eval_loss"], rel=1e-6)
    mine, plain = (one.predict(one.eval_dataset) for one in (ours, theirs))
    assert (mine.predictions == plain.predictions).all()
    assert (mine.label_ids == plain.label_ids).all()
    inputs = ours.data_collator(ours.eval_dataset)
    assert ours.compute_loss(model.eval(), dict(inputs)) == theirs.compute_loss(model, dict(inputs))
    with pytest.raises(ValueError, match="a loss and no outputs"):
        ours.compute_loss(model.train(), dict(inputs), return_outputs=True)
    same(objective, remembered, rtol=0, atol=0)


def test_a_checkpoint_holds_the_plain_model_and_beside_it_the_objective(tmp_path):
    def fresh():
        torch.manual_seed(0)
        return made("pooled, matched")

    (whole, remembered), (model, objective), (resumed, again) = fresh(), fresh(), fresh()
    settings = {"save_strategy": "steps", "save_steps": 2, "num_train_epochs": 2}
    trainer(whole, remembered, tmp_path / "whole", **settings).train()
    short = trainer(model, objective, tmp_path / "cut", **settings, seed=3)
    short.train()
    seen = []
    trainer(resumed, again, tmp_path / "whole", seen=seen, **settings).train(str(tmp_path / "whole" / "checkpoint-2"))
    assert len(seen) == 6
    same(resumed, whole, rtol=0, atol=0)
    same(again, remembered, rtol=0, atol=0)
    last = made("pooled, matched")[1]
    trainer(made("pooled, matched")[0], last, tmp_path / "whole", **settings).train(True)
    same(last, remembered, rtol=0, atol=0)
    short.save_model(str(tmp_path / "final"))
    assert not (tmp_path / "final" / "objective.safetensors").exists()
    with pytest.raises(ValueError, match=r"final has no objective\.safetensors"):
        short.train(str(tmp_path / "final"))


def test_a_trainer_of_ones_own_keeps_what_it_does(tmp_path):
    class Theirs(Trainer):
        def training_step(self, *args, **kwargs):
            self.steps = getattr(self, "steps", 0) + 1
            return super().training_step(*args, **kwargs)

    class Both(SynIBTrainer, Theirs):
        pass

    here = trainer(Towers(), synib.Vanilla(), tmp_path, kind=Both, save_strategy="epoch")
    here.train()
    assert here.steps == 4
    assert "task" in here.state.log_history[0]
    assert (tmp_path / "checkpoint-4" / "objective.safetensors").exists()


def test_in_mixed_precision_layers_are_16_bit_and_the_loss_is_not(tmp_path):
    (model, objective), kinds, seen = made("tokens, hidden"), set(), []
    model.classifier.register_forward_hook(lambda *a: kinds.add(a[-1].dtype))
    here = trainer(model, objective, tmp_path, seen=seen, bf16=True, label_names=["answer"])
    here.train()
    assert kinds == {torch.bfloat16}
    assert 0 < here.state.log_history[0]["task"] < 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"objective": methods.MMPareto()}, r"MMPareto weighs the gradients .*solo"),
        ({"objective": 0.5}, r"objective must be an Objective such as synib\.SynIB.*; got 0\.5"),
        ({"objective": synib.SynIB(synib.AmortizedMask({"image": 6, "text": 6}))}, r"has trainable parameters"),
        ({"label_smoothing_factor": 0.1}, r"label_smoothing_factor would have no effect in training"),
        ({"compute_loss_func": lambda *_, **__: 0}, r"compute_loss_func would have no effect in training"),
    ],
)
def test_a_setting_that_would_be_ignored_is_refused(tmp_path, change, message):
    model, objective = made("tokens, hidden")
    with pytest.raises(ValueError, match=message):
        trainer(model, **{"objective": objective, "folder": tmp_path, **change})


def test_modalities_alone_are_not_all_that_the_objective_needs(tmp_path):
    here = trainer(*made("pooled, matched"), tmp_path)
    here.as_modalities = lambda model, inputs: model.embed(inputs["pixel_values"], inputs["input_ids"])
    with pytest.raises(ValueError, match=r"must return \(predict, modalities, target\); got dict"):
        here.train()


def test_copies_on_several_gpus_by_threads_and_models_made_anew_are_refused(tmp_path):
    here = trainer(*made("pooled, matched"), tmp_path)
    here.args._n_gpu = 2
    with pytest.raises(ValueError, match=r"2 GPUs by DataParallel.*torchrun"):
        here._check_settings()
    here.model_init = Towers
    with pytest.raises(ValueError, match=r"model_init creates new models"):
        here._check_settings()


SCRIPT = """
    import os
    import torch, synib
    from synib.integrations.transformers import SynIBTrainer
    from transformers import TrainingArguments

    class Towers(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.image, self.text, self.head = torch.nn.Linear(4, 6), torch.nn.Linear(3, 6), torch.nn.Linear(12, 2)

        def forward(self, image, text, labels=None):
            embeds = self.embed(image, text)
            return {"logits": self.classify(embeds), "embeds": embeds}

        def embed(self, image, text):
            return {"image": self.image(image).relu(), "text": self.text(text).relu()}

        def classify(self, m):
            return self.head(torch.cat([m["image"], m["text"]], 1))

    def make():
        return Towers(), synib.SynIB(synib.RandomMask(0.5), weight=synib.LinearWarmup(2.0, steps=4))

    if __name__ == "__main__":
        torch.set_num_threads(1)
        os.environ.update(ENVIRONMENT)
        torch.manual_seed(0)
        (model, objective), seen = make(), []
        start = {name: t.clone() for name, t in model.state_dict().items()}
        data = [{"image": torch.randn(4), "text": torch.randn(3), "labels": i % 2} for i in range(32)]

        def as_modalities(model, inputs):
            seen.append((torch.get_rng_state(), inputs["image"], inputs["text"], inputs["labels"]))
            return model.classify, model(inputs["image"], inputs["text"])["embeds"], inputs["labels"]

        args = TrainingArguments(FOLDER, use_cpu=True, ddp_backend="gloo", report_to=[], disable_tqdm=True, max_grad_norm=0.0,
                                 save_strategy="no", num_train_epochs=1, per_device_train_batch_size=4,
                                 gradient_accumulation_steps=2, remove_unused_columns=False)
        optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
        flat = torch.optim.lr_scheduler.LambdaLR(optimiser, lambda step: 1.0)
        trainer = SynIBTrainer(model, args, train_dataset=data, optimizers=(optimiser, flat), objective=objective,
                               as_modalities=as_modalities)
        trainer.train()
        assert type(trainer.model_wrapped).__name__ == "DistributedDataParallel"
        torch.save({"start": start, "end": model.state_dict(), "objective": objective.state_dict(), "seen": seen},
                   f"{FOLDER}/{RANK}.pt")
"""


def test_two_processes_train_by_the_mean_of_their_gradients_with_draws_of_their_own_and_common_statistics(together):
    ranks = together(SCRIPT, ["synib.integrations.transformers", "accelerate"])
    names = {"__name__": "script"}
    exec(textwrap.dedent(SCRIPT), names)
    model, objective = names["make"]()
    model.load_state_dict(ranks[0]["start"])
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    assert len(ranks[0]["seen"]) == 4
    for step in range(4):
        after = []
        for rank, found in enumerate(ranks):
            state, image, text, label = found["seen"][step]
            torch.set_rng_state(state)
            mine = copy.deepcopy(objective)
            key = keys.fold(keys.fresh(), "rank", rank)
            loss, _ = mine(model.classify, model.embed(image, text), label, key=key)
            (loss / 4).backward()  # two processes, two batches for each update
            after.append(mine.state_dict())
        if step % 2:
            optimiser.step()
            optimiser.zero_grad()
        mean = {name: (t + after[1][name]) / 2 if t.is_floating_point() else t for name, t in after[0].items()}
        objective.load_state_dict(mean)
    for found in ranks:
        for want, got in ((model.state_dict(), found["end"]), (objective.state_dict(), found["objective"])):
            for name, value in want.items():
                torch.testing.assert_close(got[name], value, rtol=1e-5, atol=1e-6)
    assert not torch.equal(ranks[0]["seen"][0][1], ranks[1]["seen"][0][1])
