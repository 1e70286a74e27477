import pytest
import torch

pytest.importorskip("transformers")

from synib import HideTokens, LearnedMask, MatchedNoise, RandomMask, ShuffledNoise, StandardNoise, SynIB, Tokens
from synib.models.lora import LowRank
from synib.models.memes import CLIP_B16, DEBERTA_V3_BASE
from synib.models.pretrained import transformers
from synib.tokens import values

MASKS = {
    "coordinates": (RandomMask(0.5), StandardNoise),
    "matched": (RandomMask(0.5), MatchedNoise),
    "tokens": (RandomMask(0.5, over="tokens"), ShuffledNoise),
    "hidden": (RandomMask(0.5, over="tokens"), HideTokens),
    "hidden whole": (RandomMask(1.0), HideTokens),
    "swapped": (RandomMask(1.0), ShuffledNoise),
    "learned": (LearnedMask(steps=2), StandardNoise),
}


def given(model, x, where):
    """Model and modalities such that masks act there."""
    return {
        "latents": lambda: (model.on_latents(), model.encode_all(x)),
        "tokens": lambda: (model, model.tokens(x)),
        "inputs": lambda: (model, x),
    }[where]()


def test_a_batch_becomes_tokens_latents_and_a_prediction(memes, meme_batch):
    model, (x, _) = memes(classes=3), meme_batch()
    shapes = {"image": (6, 9, 16), "text": (6, 6, 8)}
    assert {name: t.values.shape for name, t in model.tokens(x).items()} == shapes
    latents = model.encode_all(x)
    assert {name: z.values.shape for name, z in latents.items()} == shapes | {"image": (6, 10, 16)}
    assert torch.equal(latents["text"].padding, x["text"] == 0)
    assert model(x).shape == (6, 3)
    assert {p.shape for p in model.unimodal(x).values()} == {(6, 3)}


def test_its_tokens_are_those_of_transformers(memes, meme_batch):
    model, (x, _) = memes().eval(), meme_batch()
    image, text = model.encoders["image"], model.encoders["text"]
    theirs = image.network(pixel_values=image.normalise(x["image"])).last_hidden_state
    torch.testing.assert_close(image(x["image"]).values, theirs)
    theirs = text.network(input_ids=x["text"], attention_mask=(x["text"] != 0).long()).last_hidden_state
    torch.testing.assert_close(text(x["text"]).values, theirs)


def test_embedded_tokens_say_what_the_inputs_say(memes, meme_batch):
    model, (x, _) = memes(), meme_batch()
    torch.testing.assert_close(model(model.tokens(x)), model(x))


def test_padding_does_not_matter(memes, meme_batch):
    model, (x, _) = memes(), meme_batch()
    longer = torch.nn.functional.pad(x["text"], (0, 3))
    torch.testing.assert_close(model(x | {"text": longer}), model(x), rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(
        model.unimodal(x | {"text": longer})["text"], model.unimodal(x)["text"], rtol=1e-4, atol=1e-5
    )
    latents = model.encode_all(x)
    z = latents["text"]
    other = Tokens(torch.where(z.padding[..., None], 50.0, z.values), z.padding)
    torch.testing.assert_close(model.on_latents()(latents | {"text": other}), model.on_latents()(latents))


@pytest.mark.parametrize("where", ["latents", "tokens"])
@pytest.mark.parametrize("name", MASKS)
def test_the_shared_pass_is_separate_ones_and_its_gradients_are_finite(
    memes, meme_batch, key, name, where, separate_passes
):
    model, (x, y) = memes(), meme_batch()
    mask, noise = MASKS[name]
    gradients = []
    for way in (lambda called: called, separate_passes):
        model.zero_grad()
        called, here = given(model, x, where)
        loss, parts = SynIB(mask, noise())(way(called), here, y, key=key)
        loss.backward()
        assert parts["penalty/image"] > 0
        assert parts["penalty/text"] > 0
        gradients.append({name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad})
    assert all(g.isfinite().all() for g in gradients[0].values())
    torch.testing.assert_close(*gradients, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize(("where", "rows"), [("latents", [6]), ("tokens", [12]), ("inputs", [12])])
def test_each_encoder_runs_once(memes, meme_batch, key, where, rows):
    model, (x, y) = memes(), meme_batch()
    seen = []
    model.encoders["text"].network.register_forward_hook(
        lambda _, args, kwargs, __: seen.append(len(kwargs["inputs_embeds"])), with_kwargs=True
    )
    SynIB(RandomMask(0.5), ShuffledNoise())(*given(model, x, where), y, key=key)
    assert seen == rows


@pytest.mark.parametrize("where", ["latents", "tokens"])
@pytest.mark.parametrize("name", ["image", "text"])
def test_a_hidden_modality_says_nothing_and_the_other_still_does(memes, meme_batch, where, name):
    model, (x, _) = memes(), meme_batch()
    other, _ = meme_batch()
    called, here = given(model, x, where)
    _, there = given(model, other, where)
    hide = torch.ones(len(here[name].padding), 1, 1, dtype=torch.bool)
    hidden = [HideTokens().corrupt(m[name], hide, None) for m in (here, there)]
    torch.testing.assert_close(*(called(here | {name: h}) for h in hidden), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(called(there | {name: hidden[0]}), called(here | {name: hidden[0]}), atol=1e-4)
    assert not torch.allclose(called(here | {name: hidden[0]}), called(here), atol=1e-4)


def test_hidden_patches_are_seen_by_no_other_patch(memes, meme_batch):
    model, (x, _) = memes(), meme_batch()
    patches, padding = model.tokens(x)["image"]
    padding = padding.clone()
    padding[:, 3] = True
    other = patches.clone()
    other[:, 3] += 1.0
    a, b = (model.encode("image", Tokens(v, padding)) for v in (patches, other))
    assert a.padding[:, 4].all()
    torch.testing.assert_close(a.values[~a.padding], b.values[~b.padding])


def test_frozen_encoders_stay_as_they_are_even_in_training_mode(memes, meme_batch, key):
    model, (x, y) = memes("frozen", text={"hidden_dropout_prob": 0.5}, vision={"attention_dropout": 0.5}), meme_batch()
    model.train()
    assert all(torch.equal(values(z), values(model.encode_all(x)[name])) for name, z in model.encode_all(x).items())
    before = {name: t.clone() for name, t in model.state_dict().items()}
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    latents = model.encode_all(x)
    assert not any(values(z).requires_grad for z in latents.values())
    SynIB(RandomMask(0.5), StandardNoise())(model.on_latents(), latents, y, key=key)[0].backward()
    optimiser.step()
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, before[name]) is name.startswith("encoders."), name


def test_a_searching_mask_looks_through_a_frozen_encoder(memes, meme_batch):
    model, (x, _) = memes("frozen"), meme_batch()
    words = model.tokens(x)["text"]
    v = words.values.detach().requires_grad_()
    (gradient,) = torch.autograd.grad(
        model.head("text", model.encode("text", Tokens(v, words.padding))).square().sum(), v
    )
    assert gradient[~words.padding].abs().sum(-1).gt(0).all()


def test_lora_trains_its_own_parameters_and_no_others(memes, meme_batch, key):
    model, (x, y) = memes("lora", rank=2), meme_batch()
    for encoder in model.encoders.values():
        assert sum(isinstance(m, LowRank) for m in encoder.modules()) >= 2 * 3
        trained = {name.rpartition(".")[2] for name, p in encoder.named_parameters() if p.requires_grad}
        assert trained == {"a", "b"}
    before = {name: t.clone() for name, t in model.encoders.state_dict().items()}
    optimiser = torch.optim.Adam(model.parameters(), lr=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        SynIB(RandomMask(0.5), StandardNoise())(model.on_latents(), model.encode_all(x), y, key=key)[0].backward()
        optimiser.step()
    for name, tensor in model.encoders.state_dict().items():
        assert torch.equal(tensor, before[name]) is not name.endswith((".a", ".b")), name


def test_every_parameter_that_trains_gets_a_gradient(memes, meme_batch, key):
    for tune in ("full", "frozen", "lora"):
        model, (x, y) = memes(tune), meme_batch()
        SynIB(RandomMask(0.5), StandardNoise())(model.on_latents(), model.encode_all(x), y, key=key)[0].backward()
        assert [name for name, p in model.named_parameters() if p.requires_grad and p.grad is None] == []


def test_random_weights_are_of_the_real_sizes_unless_told_otherwise():
    deberta, clip = transformers("DebertaV2Model"), transformers("CLIPVisionConfig")
    with torch.device("meta"):
        network = deberta(deberta.config_class(**DEBERTA_V3_BASE))
    assert 183e6 < sum(p.numel() for p in network.parameters()) < 185e6  # the paper says 184M
    config = clip(**CLIP_B16)
    assert (config.hidden_size, config.num_hidden_layers, config.image_size // config.patch_size) == (768, 12, 14)


def test_wrong_batches_are_one_sentence(memes, meme_batch):
    model, (x, _) = memes(), meme_batch()
    with pytest.raises(ValueError, match=r"Images must have shape \(batch, 3, 12, 12\); got \(6, 3, 12, 11\)\."):
        model(x | {"image": x["image"][..., 1:]})
    with pytest.raises(
        ValueError,
        match=r"Texts must be integer token ids of shape \(batch, tokens\); got torch.float32 of shape \(6, 6\)\.",
    ):
        model(x | {"text": x["text"].float()})
    with pytest.raises(ValueError, match=r"An image must have 9 patches; got 8\."):
        model.encode("image", Tokens(torch.randn(2, 8, 16), torch.zeros(2, 8, dtype=torch.bool)))
    with pytest.raises(
        ValueError, match=r"TokenFusion expects synib.Tokens, but the encoder of 'text' returns Tensor\."
    ):
        model.project("text", torch.randn(2, 8))


@pytest.mark.parametrize("where", ["latents", "tokens"])
@pytest.mark.parametrize("name", ["coordinates", "hidden", "hidden whole"])
def test_it_trains_in_mixed_precision(memes, meme_batch, key, name, where):
    model, (x, y) = memes(), meme_batch()
    mask, noise = MASKS[name]
    with torch.autocast("cpu", torch.bfloat16):
        loss, _ = SynIB(mask, noise())(*given(model, x, where), y, key=key)
    loss.backward()
    assert all(p.grad.isfinite().all() for p in model.parameters() if p.requires_grad)
    full, _ = SynIB(mask, noise())(*given(model, x, where), y, key=key)
    torch.testing.assert_close(loss, full, rtol=0.1, atol=0.1)
