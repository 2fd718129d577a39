"""GGUF files: every quantisation against numbers by hand, a whole model, and files that are none."""
from __future__ import annotations

import struct

import pytest
import torch
from tokenizers import pre_tokenizers

from minipaged import LLM, SamplingParams
from minipaged.errors import ModelFormatError, RequestError
from minipaged.runtime import gguf_loader
from minipaged.runtime.gguf_file import GGUFFile
from tests.runtime.conftest import make_weights

F32, F16, Q4_0, Q4_1, Q8_0, Q6_K = 0, 1, 2, 3, 8, 14


def packed(value: object) -> bytes:
    """A metadata value with its type."""
    def text(one: str) -> bytes:
        return struct.pack("<Q", len(one.encode())) + one.encode()

    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if value and isinstance(value[0], int):
        return struct.pack("<IIQ", 9, 5, len(value)) + struct.pack(f"<{len(value)}i", *value)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(map(text, value))


def write_gguf(path, metadata: dict, tensors: dict[str, tuple[list[int], int, bytes]]) -> None:
    """`tensors`: name -> (shape as torch has it, type, bytes)."""
    header = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        header += struct.pack("<Q", len(key)) + key.encode() + packed(value)
    data = b""
    for name, (shape, kind, raw) in tensors.items():
        data += b"\0" * (-len(data) % 32)
        header += struct.pack("<Q", len(name)) + name.encode() + struct.pack("<I", len(shape))
        header += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", kind, len(data))
        data += raw
    header += b"\0" * (-len(header) % 32)
    path.write_bytes(header + data)


def half(value: float) -> bytes:
    return struct.pack("<e", value)


def test_quantised_blocks_by_hand(tmp_path):
    nibbles = bytes(i | (15 - i) << 4 for i in range(16))  # low halves 0 to 15, high halves 15 to 0
    write_gguf(tmp_path / "x.gguf", {}, {
        "q4_0": ([1, 32], Q4_0, half(0.5) + nibbles), "q4_1": ([1, 32], Q4_1, half(0.5) + half(-3.0) + nibbles),
        "q8_0": ([2, 32], Q8_0, half(0.25) + bytes(range(32)) + half(-1.0) + bytes([255] * 32)),
        "f32": ([3], F32, struct.pack("<3f", 1, 2, 3)), "f16": ([1, 2], F16, half(1.5) + half(-2.0)),
        "bf16": ([2], 30, b"\x80\x3f\x00\xc0")})
    file = GGUFFile(tmp_path / "x.gguf")
    order = [*range(16), *range(15, -1, -1)]
    assert file.tensor("q4_0").tolist() == [[0.5 * (q - 8) for q in order]]
    assert file.tensor("q4_1").tolist() == [[0.5 * q - 3 for q in order]]
    assert file.tensor("q8_0").tolist() == [[0.25 * q for q in range(32)], [1.0] * 32]
    assert file.tensor("f32").tolist() == [1, 2, 3]
    assert file.tensor("f16").tolist() == [[1.5, -2.0]]
    assert file.tensor("bf16").tolist() == [1.0, -2.0]


def test_equal_to_the_gguf_package(tmp_path):
    gguf = pytest.importorskip("gguf", reason="the package gguf, the format's own reader, is not installed")
    import numpy

    numbers = numpy.random.default_rng(0).normal(size=(6, 64)).astype(numpy.float32)
    kinds = {"a": gguf.GGMLQuantizationType.Q4_0, "b": gguf.GGMLQuantizationType.Q4_1,
             "c": gguf.GGMLQuantizationType.Q8_0, "d": gguf.GGMLQuantizationType.F16}
    stored = {name: gguf.quants.quantize(numbers, kind) for name, kind in kinds.items()}
    write_gguf(tmp_path / "x.gguf", {}, {name: ([6, 64], int(kind), stored[name].tobytes())
                                         for name, kind in kinds.items()})
    file = GGUFFile(tmp_path / "x.gguf")
    for name, kind in kinds.items():
        assert file.tensor(name).tolist() == gguf.quants.dequantize(stored[name], kind).tolist()


# ---- a whole model ----

CONFIG = {"architectures": ["LlamaForCausalLM"], "vocab_size": 262, "hidden_size": 32, "intermediate_size": 64,
          "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
          "rms_norm_eps": 1e-5, "rope_theta": 5000.0, "torch_dtype": "float32"}
CHAT = "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}{% endfor %}"
CHAT += "{% if add_generation_prompt %}<|bot|>{% endif %}"


def tokens() -> list[str]:
    return ["<|end|>", "<|user|>", "<|bot|>", *sorted(pre_tokenizers.ByteLevel.alphabet()), "ĠĠ", "th", "the"]


def metadata(**changes) -> dict:
    return {"general.architecture": "llama", "llama.block_count": 2, "llama.context_length": 64,
            "llama.embedding_length": 32, "llama.feed_forward_length": 64, "llama.attention.head_count": 4,
            "llama.attention.head_count_kv": 2, "llama.attention.layer_norm_rms_epsilon": 1e-5,
            "llama.rope.freq_base": 5000.0, "tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "smollm",
            "tokenizer.ggml.tokens": tokens(), "tokenizer.ggml.token_type": [3] * 3 + [1] * 259,
            "tokenizer.ggml.merges": ["Ġ Ġ", "t h", "th e"], "tokenizer.ggml.eos_token_id": 0,
            "tokenizer.chat_template": CHAT, **changes}


def gguf_weights(weights: dict[str, torch.Tensor]) -> dict:
    """The same weights under GGUF's names, with q and k in pairs."""
    names = {new: old for old, new in gguf_loader._OUTER.items()}
    inner = {new: old for old, new in gguf_loader._INNER.items()}
    found = {}
    for name, tensor in weights.items():
        if name.startswith("model.layers."):
            _, _, layer, rest = name.split(".", 3)
            part = rest.removesuffix(".weight")
            if part in ("self_attn.q_proj", "self_attn.k_proj"):
                heads = tensor.shape[0] // 8
                tensor = tensor.view(heads, 2, 4, -1).transpose(1, 2).reshape(tensor.shape)
            target = f"blk.{layer}.{inner[part]}.weight"
        else:
            target = names[name]
        found[target] = (list(tensor.shape), F32, tensor.contiguous().numpy().tobytes())
    return found


@pytest.fixture(scope="module")
def gguf_file(tmp_path_factory):
    path = tmp_path_factory.mktemp("gguf") / "model.gguf"
    write_gguf(path, metadata(), gguf_weights(make_weights(CONFIG)))
    return path


def test_the_same_model_as_a_folder(gguf_file, make_model):
    folder = make_model(tokenizer=False, **{key: value for key, value in CONFIG.items() if key != "architectures"})
    params = SamplingParams(temperature=0, max_tokens=20, ignore_eos=True)
    prompts = [[5, 6, 7, 8, 9, 10], [20, 21]]
    found, expected = (LLM(source, dtype="float64").generate(prompts, params) for source in (gguf_file, folder))
    assert [one.outputs[0].token_ids for one in found] == [one.outputs[0].token_ids for one in expected]


def test_its_tokenizer_and_chat(gguf_file):
    llm = LLM(str(gguf_file))
    ids = llm.tokenizer.encode("the 12  é<|end|>")
    assert [tokens()[token] for token in ids] == ["the", "Ġ", "1", "2", "Ġ", "Ġ", "Ã", "©", "<|end|>"]
    assert llm.tokenizer.decode(ids) == "the 12  é"
    messages = [{"role": "user", "content": "the"}]
    output = llm.chat(messages, SamplingParams(temperature=0, max_tokens=4))[0]
    assert [tokens()[token] for token in output.prompt_token_ids] == ["<|user|>", "the", "<|bot|>"]
    assert len(llm.chat([messages, messages], SamplingParams(max_tokens=2))) == 2
    for bad in ([], [{"role": "user"}], ["hello"]):
        with pytest.raises(RequestError, match="a conversation is a list"):
            llm.chat(bad)


def test_a_template_stays_in_its_sandbox(tmp_path):
    weights = gguf_weights(make_weights(CONFIG))
    for template, message in (("{{ messages.__class__.__mro__[1].__subclasses__() }}", "template fails"),
                              ("{{ raise_exception('no system') }}", "refuses this conversation: no system"),
                              ("{% if %}", "template fails")):
        write_gguf(tmp_path / "x.gguf", metadata(**{"tokenizer.chat_template": template}), weights)
        with pytest.raises(RequestError, match=message):
            LLM(tmp_path / "x.gguf").chat([{"role": "user", "content": "x"}])


def test_a_model_without_a_template_says_so(folder):
    with pytest.raises(RequestError, match="no chat template.*smollm2"):
        LLM(folder).chat([{"role": "user", "content": "x"}])


@pytest.mark.parametrize("share", [0.0, 0.0001, 0.01, 0.2, 0.5, 0.99, 0.99999])
def test_a_file_that_is_cut_short(gguf_file, tmp_path, share):
    content = gguf_file.read_bytes()
    (tmp_path / "cut.gguf").write_bytes(content[:int(share * len(content))])
    with pytest.raises(ModelFormatError, match="cut.gguf"):
        LLM(tmp_path / "cut.gguf")


@pytest.mark.parametrize(("change", "message"), [
    ({"general.architecture": "qwen2"}, "architecture 'qwen2'"),
    ({"tokenizer.ggml.model": "llama"}, "tokenizer of kind 'llama'"),
    ({"llama.rope.scaling.type": "yarn"}, "rotary positions"),
    ({"llama.block_count": 3}, "blk|model.layers.2.*missing"),
    ({"llama.block_count": 1}, "model.layers.1.*not part"),
    ({"llama.feed_forward_length": 32}, "config.json asks for|shape"),
    ({"llama.attention.head_count": 3}, "num_attention_heads"),
])
def test_a_model_of_another_kind(tmp_path, change, message):
    write_gguf(tmp_path / "x.gguf", metadata(**change), gguf_weights(make_weights(CONFIG)))
    with pytest.raises(ModelFormatError, match=message):
        LLM(tmp_path / "x.gguf")


def test_other_files(tmp_path, monkeypatch):
    write_gguf(tmp_path / "k.gguf", metadata(), {"token_embd.weight": ([1, 256], Q6_K, b"\0" * 210)})
    with pytest.raises(ModelFormatError, match="quantisation type 14; there are F32.*Q8_0"):
        LLM(tmp_path / "k.gguf")
    (tmp_path / "text.gguf").write_text("hello", encoding="utf-8")
    with pytest.raises(ModelFormatError, match="not a GGUF file"):
        LLM(tmp_path / "text.gguf")
    with pytest.raises(ModelFormatError, match="no such file"):
        LLM(tmp_path / "none.gguf")
    monkeypatch.setattr(gguf_loader, "find_spec", lambda name: None)
    with pytest.raises(ModelFormatError, match="make smollm2"):
        LLM("smollm2")
