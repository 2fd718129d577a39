"""Finding a model by name or by folder, and what a wrong name is told."""

from __future__ import annotations

import subprocess
import sys

import pytest

from minipaged.errors import ModelFormatError
from minipaged.models import model_path


def test_the_bundled_name_gives_a_folder_with_all_files():
    names = {path.name for path in model_path("tiny").iterdir()}
    assert {"config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"} <= names


def test_a_folder_gives_itself(tmp_path):
    (tmp_path / "config.json").write_text("{}", encoding="utf-8")
    assert model_path(tmp_path) == tmp_path
    assert model_path(str(tmp_path)) == tmp_path


@pytest.mark.parametrize("name", ["tinny", "", " ", "no/such/folder"])
def test_an_unknown_name_is_named_with_the_names_there_are(name):
    with pytest.raises(ModelFormatError) as error:
        model_path(name)
    assert repr(name) in str(error.value)
    assert "bundled models are: tiny" in str(error.value)


def test_a_file_and_an_empty_folder_are_refused(tmp_path):
    with pytest.raises(ModelFormatError, match="no config.json"):
        model_path(tmp_path)
    file = tmp_path / "weights.bin"
    file.write_bytes(b"")
    with pytest.raises(ModelFormatError, match="is a file, not a folder"):
        model_path(file)


def test_finding_a_model_does_not_load_torch():
    code = "import sys, minipaged.models; minipaged.models.model_path('tiny'); print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
