"""Training: repeatable to the last byte, and mistakes on the command line are told in one line."""

from __future__ import annotations

import pytest
import torch

from minipaged.models import stories, train_tiny
from minipaged.models.train_tiny import (
    EOS,
    IGNORE,
    LlamaConfig,
    batches,
    chant_share,
    learning_rate,
    main,
    train,
    train_tokenizer,
)

SMALL = LlamaConfig(vocab_size=300, hidden_size=16, intermediate_size=32, num_hidden_layers=1, head_dim=4,
                    max_position_embeddings=64)


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def tokenizer():
    return train_tokenizer(stories.documents(50), vocab_size=SMALL.vocab_size)


def test_five_steps_twice_give_the_same_bytes(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(train_tiny, "TOKENIZER_DOCUMENTS", 100)
    monkeypatch.setattr(train_tiny, "HELD_OUT_STORIES", 2)
    for name in ("a", "b"):
        assert main(["--out", str(tmp_path / name), "--steps", "5"]) == 0
    assert "bits a byte on held-out stories" in capsys.readouterr().out
    files = sorted(path.name for path in (tmp_path / "a").iterdir())
    assert files == [
        "config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"]
    for name in files:
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_training_lowers_the_loss_and_the_seed_matters(tokenizer):
    torch.set_num_threads(1)
    losses: dict[int, list[float]] = {0: [], 1: []}
    for seed, seen in losses.items():
        train(SMALL, tokenizer, 30, batch_size=2, seed=seed, on_step=lambda _, loss, seen=seen: seen.append(loss))
    assert losses[0] != losses[1]
    assert all(seen[-1] < seen[0] - 0.5 for seen in losses.values())


def test_a_row_is_one_text_with_its_end_and_the_padding_does_not_count(tokenizer):
    eos = tokenizer.token_to_id(EOS)
    stream = batches(stories.chant, tokenizer, 4, 512, seed=0)
    padding = 0
    for inputs, targets in (next(stream) for _ in range(16)):
        assert inputs.shape == targets.shape and len(inputs) == 4
        for row, target in zip(inputs.tolist(), targets.tolist()):
            length = target.index(eos) + 1
            assert row[0] == eos and row[1:length] == target[: length - 1]
            assert target[length:] == [IGNORE] * (len(target) - length)
            assert tokenizer.decode(row)[0] in '"' + "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
            padding += len(target) - length
    assert padding > 0


def test_a_long_text_is_cut_where_the_model_ends(tokenizer):
    inputs, targets = next(batches(stories.document, tokenizer, 2, 64, seed=0))
    assert inputs.shape == (2, 64) and (inputs[:, 1:] == targets[:, :-1]).all()


def test_chants_come_first_and_then_only_stories():
    shares = [chant_share(step, 1000) for step in range(1000)]
    assert shares[0] == 1 and shares == sorted(shares, reverse=True)
    assert 0 < shares[399] and set(shares[400:]) == {0}


def test_the_model_looks_only_back(tokenizer):
    model = train(SMALL, tokenizer, 1, batch_size=1)
    ids = torch.arange(40)[None] + 5
    changed = ids.clone()
    changed[0, 20] = 3
    difference = (model(ids) - model(changed)).abs().amax(dim=(0, 2))
    assert (difference[:20] == 0).all() and (difference[20:] > 0).all()


def test_learning_rate_warms_up_and_falls():
    rates = [learning_rate(step, 1000, 1.0) for step in range(1000)]
    assert max(rates) == pytest.approx(1.0) and rates.index(max(rates)) in (49, 50)
    assert rates[0] == pytest.approx(0.02) and rates[-1] == pytest.approx(0.02, abs=1e-4)


@pytest.mark.parametrize("arguments", [["--steps", "0"], ["--steps", "many"], ["--out", "FILE"], ["--unknown"]])
def test_a_wrong_argument_is_one_line_and_exit_code_2(tmp_path, capsys, arguments):
    file = tmp_path / "file"
    file.write_text("", encoding="utf-8")
    with pytest.raises(SystemExit) as exit_:
        main([str(file) if argument == "FILE" else argument for argument in arguments])
    assert exit_.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
