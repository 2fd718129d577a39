"""Bugs of block keys: one prompt's memory served to another (chapter 06)."""
from __future__ import annotations

from minipaged.core import PrefixCache, block_hash
from minipaged.museum.bug import Piece, change
from minipaged.museum.stage import Stage, scene

CHAPTER = "06_prefix_cache"
TESTS = "tests/core/test_cases_b.py::"
X, Y, Z, W = ([token] * 4 for token in (1, 2, 3, 4))


def serve(stage: Stage, *prompts: list[int], salts: tuple = ()) -> list[int]:
    """One prompt after the other; how many tokens each found in the cache."""
    for number, prompt in enumerate(prompts):
        salt = salts[number] if salts else None
        stage.add(f"r{number}", prompt, max_tokens=2, cache_salt=salt)
        stage.finish()
    return [request.num_cached_tokens for request in stage.requests.values()]


@change(PrefixCache, "_find")
def equal_keys_are_enough(right, self, parent, key, tokens):
    return next(iter(self._nodes.get(key, ())), None)


@scene(12, hash_fn=lambda parent, tokens: sum(tokens) % 256)
def two_prompts_with_one_sum(stage: Stage) -> None:
    stage.expect("cached tokens", serve(stage, [1, 2, 3, 4, 9], [4, 3, 2, 1, 9]), [0, 0])


@change(PrefixCache, "_keys")
def keys_of_own_tokens_only(right, self, request, count):
    tokens, size = request.packed_tokens(), self.block_size
    return [block_hash.sha256_key(b"", tokens[start:start + size]) for start in range(0, count * size, size)]


@change(PrefixCache, "_find")
def parent_is_not_compared(right, self, parent, key, tokens):
    return next((node for node in self._nodes.get(key, ()) if node.tokens == tokens), None)


@scene(16)
def after_another_block(stage: Stage) -> None:
    stage.expect("cached tokens", serve(stage, X + W + [0], Z + Y + [0], X + Y + [0]), [0, 0, 4])


@change(block_hash, "root_key")
def salt_is_ignored(right, cache_salt):
    return right(None)


@scene(12)
def two_adapters(stage: Stage) -> None:
    stage.expect("cached tokens", serve(stage, X + Y, X + Y, salts=(("lora", 1), ("lora", 2))), [0, 0])


@change(block_hash, "encode")
def sixteen_bits(right, value):
    return right(value & 0xFFFF if type(value) is int else value)


@scene(12)
def two_images(stage: Stage) -> None:
    stage.expect("cached tokens", serve(stage, X + Y, X + Y, salts=(0x10001, 0x00001)), [0, 0])


@change(block_hash, "encode")
def parts_run_together(right, value):
    if isinstance(value, (list, tuple)):
        return b"".join(block_hash.encode(item) for item in value)
    return right(value)


@scene(12)
def two_shapes(stage: Stage) -> None:
    salts = (((1, 2), (3, 4, 5)), ((1, 2, 3), (4, 5)))
    stage.expect("cached tokens", serve(stage, X + Y, X + Y, salts=salts), [0, 0])


PIECES = (
    Piece("weak-hash-is-trusted", "Two prompts with the same hash are taken for one",
          "vllm-project/vllm#12621 (CVE-2025-25183)", CHAPTER,
          "A prompt that nobody has asked before is found in the cache, and the answer belongs to another prompt.",
          "A hit needs the same parent and the same tokens; a hash alone is never trusted.",
          (equal_keys_are_enough,), two_prompts_with_one_sum, "contents",
          TESTS + "test_B1_a_weak_hash_never_serves_another_prompt"),
    Piece("key-without-parent", "A block's key does not depend on what stands before it",
          "lmjlmj1234/mini-vllm-continuous-batching-lab (8e0b948): keys are not chained", CHAPTER,
          "A block with the same tokens is used again although another text stood before it. The words are fluent "
          "and wrong.",
          "K and V depend on every token before: a key is the hash of the parent's key and the tokens.",
          (keys_of_own_tokens_only, parent_is_not_compared), after_another_block, "contents",
          TESTS + "test_B1_the_parent_is_verified_too"),
    Piece("salt-is-ignored", "Two LoRA adapters share one prefix cache", "vllm-project/vllm#3264", CHAPTER,
          "The second adapter answers the first one's prompt from memory that the first one computed.",
          "Whatever changes K and V besides the tokens (adapter, version, image) is part of every key.",
          (salt_is_ignored,), two_adapters, "contents", TESTS + "test_B4_B5_B6_another_salt_is_a_miss"),
    Piece("salt-cut-to-16-bits", "Of an image's identity only 16 bits are kept", "LMCache/LMCache#3301", CHAPTER,
          "Most images are told apart, and now and then one is answered from another one's memory.",
          "Different salts give different keys; nothing is cut off.",
          (sixteen_bits,), two_images, "contents", TESTS + "test_B2_salts_are_not_cut"),
    Piece("salt-without-boundaries", "The parts of a salt are written one after the other without their lengths",
          "vllm-project/vllm#17378 (CVE-2025-46722)", CHAPTER,
          "((1, 2), (3, 4, 5)) and ((1, 2, 3), (4, 5)) give the same key, as an image of 30 x 150 and one of "
          "150 x 30 did.",
          "Shape, type and the borders between parts are hashed too.",
          (parts_run_together,), two_shapes, "contents",
          TESTS + "test_B3_shape_dtype_and_boundaries_are_part_of_a_salt"),
)
