"""From a Hugging Face ``config.json`` to a :class:`~minipaged.formulas.KVShape`. Used in chapters 01 and 02.

Model families name the same things differently (``n_head``, ``num_attention_heads``), hide the text model
inside a larger one, and state which layers slide in five ways. The rules here are those of the model
classes in ``transformers`` (5.24), and the tests compare the result with the caches that those classes make.
A config with a feature that changes the size and is not understood here is refused, and so is a value of
another type or beyond any real model: a damaged file should end in one clear line.

``keys`` reads the file and single values of it, ``layers`` finds out which layers slide, ``shape`` has the sizes.
"""

from minipaged.hf_config.keys import load_config
from minipaged.hf_config.shape import kv_shape

__all__ = ["kv_shape", "load_config"]
