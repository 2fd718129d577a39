"""A learner's CUDA text, made into one that can do what a kernel does and nothing else (lab of chapter 13).

The program that measures a kernel is the kernel's own process. So its text must not reach that program: no function of
C, no counter, no address. Three steps see to it. Words that are not of this small CUDA get a tail, so `printf` names
nothing that there is. A pointer lives as long as its function and an array has a size: both become classes that check
each use (cuda_prelude.py). What could make other pointers (casts, addresses, structures, templates) is not taken.
"""
from __future__ import annotations

import re
from collections.abc import Collection

TAIL = "_learner"
MOST = 20_000  # characters
ALONE = "a kernel here stands alone, without directives, attributes and the program around it"
POINTER = "a pointer here is a parameter, or a variable declared alone, as in const float* half = query + 32;"
ARRAY = "an array here is declared alone, with its size, as in float part[32]; and is passed on as float*"
LINE = "it has too many values; in which line it stands is not for the kernel to say"
FUNCTION = "a function is only called here, and a variable begins with ="
BRACKETS = "its brackets don't match"
REFERENCE = "a reference or an address (&) can't be had here; use the array and an index"

_TYPES = frozenset("void bool char short int long unsigned signed float double size_t int8_t int16_t int32_t int64_t "
                   "uint8_t uint16_t uint32_t uint64_t float2 float4 int2 int4 uint2 uint4 dim3".split())
_BEFORE = frozenset("const constexpr static inline __shared__ __device__ __global__ __host__ __forceinline__".split())
_FLOW = frozenset("if else for while do break continue return switch case default sizeof static_cast".split())
_CALLS = frozenset(
    "__syncthreads __syncwarp __shfl_sync __shfl_xor_sync __shfl_down_sync __shfl_up_sync __ballot_sync __any_sync "
    "__all_sync __expf __logf __fdividef rsqrtf min max fminf fmaxf fabsf expf exp2f logf log2f sqrtf powf floorf "
    "ceilf fmaf isnan isinf abs make_float2 make_float4".split())
#: the most commas of those that would take a line behind their own values
_COMMAS = {"__syncwarp": 0, **dict.fromkeys(("__ballot_sync", "__any_sync", "__all_sync"), 1),
           **dict.fromkeys(("__shfl_sync", "__shfl_xor_sync", "__shfl_down_sync", "__shfl_up_sync"), 3)}
_WORDS = _TYPES | _BEFORE | _FLOW | _CALLS | frozenset(
    "__restrict__ true false threadIdx blockIdx blockDim gridDim x y z w INFINITY NAN Floats".split())
#: words of C++ that the compiler would not name as the reason
_FOREIGN = frozenset(
    "asm auto catch class const_cast decltype delete dynamic_cast enum explicit extern friend goto mutable namespace "
    "new noexcept nullptr operator private protected public reinterpret_cast struct template this thread_local throw "
    "try typedef typeid typename union using virtual volatile".split())
_TOKEN = re.compile(r"(?P<space>\s+|//[^\n]*|/\*.*?(?:\*/|\Z))|(?P<word>[A-Za-z_]\w*)"
                    r"|(?P<number>\.?\d(?:[eEpP][+-]|[\w.])*)"
                    r"|(?P<mark><:|<%|%:|\?\?|::|->|\.\.\.|&&|\|\||<<=|>>=|<<|>>|[-+*/%&|^=!<>]=|\+\+|--|.)",
                    re.DOTALL | re.ASCII)
_UNROLL = re.compile(r"^[ \t]*#[ \t]*pragma[ \t]+unroll\b[^\n]*", re.MULTILINE)
_MARKS = frozenset("( ) [ ] { } ; , . : ? ! ~ + - * / % & | ^ = < > && || << >> <<= >>= += -= *= /= %= &= |= ^= == != "
                   "<= >= ++ --".split())

_OPENED = {")": ("(", "for"), "]": ("[",), "}": ("{", "list")}


class Foreign(ValueError):
    """A text that is not taken; the message follows "text with"."""

    def __init__(self, what: str, why: str = ALONE) -> None:
        super().__init__(f"`{what[:30]}`: {why}")


def safe(text: str, kernels: Collection[str] = ()) -> str:
    """The text as it is compiled, with the same lines. `kernels`: names that keep theirs. Errors: Foreign."""
    if len(text) > MOST:
        raise Foreign(text[:20], f"it has {len(text):,} characters; at most {MOST:,} are read")
    text = _UNROLL.sub("", text)
    if found := re.search(r"(?:__attribute|__asm|_Pragma)\w*", re.sub(r"\\\s*\n", "", text)):
        raise Foreign(found[0])
    pieces = [_piece(match) for match in _TOKEN.finditer(text)]
    code = [(at, piece) for at, piece in enumerate(pieces) if not piece.isspace()]
    reader = _Reader([piece for _, piece in code])
    reader.read()
    for number, new in reader.new.items():
        pieces[code[number][0]] = new
    known = _WORDS | set(kernels)
    return "".join(f"{piece}{TAIL}" if piece.isidentifier() and piece not in known else piece for piece in pieces)


def as_written(said: str) -> str:
    """What the compiler says, with the learner's own words."""
    return re.sub(rf"{TAIL}\b", "", said)


def _piece(match: re.Match) -> str:
    text = match[0]
    if match["space"] is not None:
        return re.sub(r"[^\n]", " ", text) or " "
    if match["word"] is not None and (text in _FOREIGN or text.endswith(TAIL)):
        raise Foreign(text)
    if match["mark"] is not None and text not in _MARKS:
        raise Foreign(text)
    return text


class _Reader:
    """One way through the tokens. `new`: number of a token -> what stands in its place."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens, self.new = tokens, {}
        self.open: list[str] = []  # brackets around: "for" is ( of a statement, "list" is { of values
        self.functions: set[str] = set(_CALLS)
        self.closed: dict[int, int] = {}  # number of a ( -> of the ) that belongs to it
        opened: list[int] = []
        for number, token in enumerate(tokens):
            if token == "(":
                opened.append(number)
            elif token == ")" and opened:
                self.closed[opened.pop()] = number

    def at(self, number: int) -> str:
        return self.tokens[number] if 0 <= number < len(self.tokens) else ""

    def read(self) -> None:
        number = 0
        while number < len(self.tokens):
            token = self.tokens[number]
            if token in _TYPES or token == "Floats":
                number = self._type(number)
                continue
            self._bracket(number, token)
            before, after = self.at(number - 1), self.at(number + 1)
            named = before in (")", "]") or _own(before)
            if token in ("&", "&&") and not named and not before.lstrip(".")[:1].isdigit():
                raise Foreign(f"{token}{after}", REFERENCE)
            if token == "[" and not named:
                raise Foreign(f"{before}[", ARRAY)
            if token == "," and self.open[-1:] not in (["("], ["["], ["list"]):
                self._comma(number, after)
            if token == "." and not after.isidentifier():
                raise Foreign(f".{after}")
            if token in self.functions and after != "(":
                raise Foreign(token, FUNCTION)
            many = token in _COMMAS and self._parts(number + 2, self.closed.get(number + 1, number)) > _COMMAS[token]
            if many or token == "__syncthreads" and self.at(number + 2) != ")":
                raise Foreign(token, LINE)
            number += 1
        if self.open:
            raise Foreign(self.open[-1], BRACKETS)

    def _bracket(self, number: int, token: str) -> None:
        before, inner = self.at(number - 1), self.open[-1] if self.open else ""
        if token == "(":
            self.open.append("for" if before in ("for", "if", "while", "switch") else "(")
        elif token == "{" and before == "(" or token == ";" and inner == "list":
            raise Foreign(f"{before}{token}")
        elif token == "{":
            inside = inner in ("list", "(") or before in ("=", ",", "return", "]") or _own(before)
            self.open.append("list" if inside else "{")
        elif token == "[":
            self.open.append("[")
        elif token in _OPENED:
            if inner not in _OPENED[token]:
                raise Foreign(token, BRACKETS)
            self.open.pop()

    def _comma(self, number: int, after: str) -> None:
        """Between declarations: `int i, *p` and `int i, a[4]` would bring a pointer and an array with them."""
        if after in ("*", "&", "&&", "("):
            raise Foreign(f", {after}", POINTER)
        if after.isidentifier() and self.at(number + 2) in ("[", "("):
            raise Foreign(f", {after}{self.at(number + 2)}", ARRAY)

    def _type(self, first: int) -> int:
        """A run of words that name a type, and what they declare; the number of the token after."""
        start, last = first, first
        while self.at(start - 1) == "const":
            start -= 1
        while self.at(last + 1) in _TYPES or self.at(last + 1) == "const":
            last += 1
        run = " ".join(self.tokens[start:last + 1])
        after, second = self.at(last + 1), self.at(last + 2)
        parameter = self.open[-1:] == ["("]
        if "Floats" in run and not (parameter and _own(after) and second in (",", ")")):
            raise Foreign(f"{run} {after}", POINTER)
        if after == "*":
            self._pointer(start, last, run, parameter)
        elif after in ("&", "&&"):
            if not (after == "&" and parameter and _own(second) and self.at(last + 3) in (",", ")")):
                raise Foreign(f"{run}{after} {second}", REFERENCE)
            return last + 2
        elif after == "[" or after == "(" and (second in ("*", "&", "&&") or self._behind(last + 1) == "["):
            raise Foreign(f"{run} {after}{second}", ARRAY)
        elif after == "(" and self.at(start - 1) in ("", ";", "{", "}", ")", *_BEFORE):
            raise Foreign(f"{run} (", FUNCTION)
        elif _own(after) and second == "(":
            self.functions.add(after)
        elif _own(after) and second == "[":
            self._array(start, last, run, parameter)
        return last + 1

    def _behind(self, number: int) -> str:
        """The token after the bracket that opens at `number` is closed."""
        return self.at(self.closed.get(number, -2) + 1)

    def _parts(self, first: int, last: int) -> int:
        """Commas between two tokens, outside of brackets."""
        depth = found = 0
        for token in self.tokens[first:last]:
            depth += (token in ("(", "[", "{")) - (token in (")", "]", "}"))
            found += token == "," and depth == 0
        return found

    def _pointer(self, start: int, last: int, run: str, parameter: bool) -> None:
        name = last + 2
        while self.at(name) in ("const", "__restrict__"):
            self.new[name] = ""
            name += 1
        first = start
        while self.at(first - 1) in _BEFORE:
            first -= 1
        lasting = {"static", "__shared__"} & set(self.tokens[first:start])
        local = self.open[-1:] in (["{"], ["for"]) and not lasting and self.at(name + 1) == "="
        if not _own(self.at(name)) or not (local or parameter and self.at(name + 1) in (",", ")")):
            raise Foreign(f"{run}* {self.at(name)}", POINTER)
        if local:  # its first value is of others: one that is made of itself could be any address
            end = next((at for at in range(name, len(self.tokens)) if self.tokens[at] == ";"), len(self.tokens))
            if self._parts(name + 1, end) or self.at(name) in self.tokens[name + 1:end]:
                raise Foreign(f"{run}* {self.at(name)}", POINTER)
        self._rename(start, last, f"lab::Pointer<{run}>")
        self.new[last + 1] = " "

    def _array(self, start: int, last: int, run: str, parameter: bool) -> None:
        name, number, sizes = last + 1, last + 2, []
        while self.at(number) == "[":
            end = number + 1
            while self.at(end) not in ("]", "[", ";", ""):
                end += 1
            sizes.append(" ".join(map(self._worded, self.tokens[number + 1:end])))
            if self.at(end) != "]" or not sizes[-1] or "," in sizes[-1]:
                raise Foreign(f"{run} {self.at(name)}[", ARRAY)
            for gone in range(number, end + 1):
                self.new[gone] = ""
            number = end + 1
        if self.open[-1:] not in ([], ["{"]) or parameter or self.at(number) not in (";", "=", "{"):
            raise Foreign(f"{run} {self.at(name)}[", ARRAY)
        kind = run
        for size in reversed(sizes):
            kind = f"lab::Array<{kind}, ({size})>"
        self._rename(start, last, kind)

    def _worded(self, token: str) -> str:
        return f"{token}{TAIL}" if _own(token) else token

    def _rename(self, start: int, last: int, kind: str) -> None:
        self.new[start] = f"{kind} "
        self.new.update(dict.fromkeys(range(start + 1, last + 1), ""))


def _own(token: str) -> bool:
    """A word that the learner chose, or a member or variable of the GPU."""
    return token.isidentifier() and token not in _TYPES | _BEFORE | _FLOW
