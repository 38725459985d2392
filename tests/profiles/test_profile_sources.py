import hashlib
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import numpy as np
import pytest

from stacksweep.profiles import ProfileError, bundled_names, load_chip, load_memory, load_model
from stacksweep.profiles.bundled import bundled_directory

FIXED = {"schema_version": 1, "kind": "fixed_bandwidth", "bandwidth_bytes_per_s": 3.5e12, "capacity_bytes": 97}
MODEL = {
    "hidden_size": 96,
    "num_attention_heads": 6,
    "num_hidden_layers": 3,
    "intermediate_size": 200,
    "vocab_size": 1000,
}
LOADERS: dict[str, Callable[[Any], Any]] = {"chips": load_chip, "memory": load_memory, "models": load_model}


def test_what_is_bundled() -> None:
    assert bundled_names("chips") == [
        "b200",
        "b200-vllm",
        "h100_sxm",
        "h200",
        "mi300x",
        "mi325x",
        "mi325x-vllm",
        "plena",
    ]
    assert bundled_names("memory") == [
        "b200",
        "fictional_fixed_bandwidth",
        "fictional_stacked_dram",
        "h100_sxm",
        "h200",
        "mi300x",
        "mi325x",
    ]
    assert bundled_names("models") == [
        "deepseek-v3",
        "gemma-4-31b",
        "glm-5",
        "gpt-oss-120b",
        "gpt-oss-20b",
        "kimi-k2",
        "llama-3.1-405b",
        "llama-3.1-70b",
        "llama-3.1-8b",
        "llama-3.2-1b",
        "llama-3.2-3b",
        "llama-4-maverick",
        "llama-4-scout",
        "mimo-v2-flash",
        "minimax-m2.5",
        "mixtral-8x22b",
        "mixtral-8x7b",
        "nemotron-3-nano-30b-a3b",
        "qwen3-235b-a22b",
        "qwen3-30b-a3b",
        "qwen3-32b",
        "qwen3-8b",
        "qwen3.5-27b",
        "qwen3.5-397b-a17b",
        "step-3.7-flash",
    ]


@pytest.mark.parametrize("kind", LOADERS)
def test_bundled_profiles_load_by_name_and_by_path_with_their_origin(kind: Any) -> None:
    for name in bundled_names(kind):
        profile = LOADERS[kind](name)
        assert profile.name == name
        path = Path(profile.provenance.path)
        assert path.stem == name
        assert profile.provenance.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
        assert profile.provenance.notes["source"]
        assert LOADERS[kind](path) == LOADERS[kind](str(path)) == profile
        assert LOADERS[kind](profile) is profile
        assert pickle.loads(pickle.dumps(profile)) == profile
        assert hash(LOADERS[kind](name)) == hash(profile)


@pytest.mark.parametrize("kind", LOADERS)
def test_bundled_profiles_survive_a_round_trip_through_json(kind: Any) -> None:
    for name in bundled_names(kind):
        profile = LOADERS[kind](name)
        again = LOADERS[kind](json.loads(json.dumps(profile.to_dict())))
        assert again == profile
        assert again.provenance.notes == profile.provenance.notes
        assert again.provenance.path is None
        assert again.provenance.sha256 is None


def test_an_installed_package_has_its_profiles_beside_the_code(tmp_path: Path) -> None:
    package = tmp_path / "lib" / "site" / "stacksweep"
    (package / "bundled" / "memory").mkdir(parents=True)
    assert bundled_directory("memory", package) == package / "bundled" / "memory"
    checkout = tmp_path / "profiles" / "chips"
    checkout.mkdir(parents=True)
    assert bundled_directory("chips", tmp_path / "src" / "stacksweep") == checkout
    with pytest.raises(ProfileError, match="the bundled chips profiles are missing"):
        bundled_directory("chips", package)


def test_unknown_kind_of_bundled_profile() -> None:
    with pytest.raises(ProfileError, match="got 'chip', needs one of chips, memory, models"):
        bundled_names(cast("Any", "chip"))


@pytest.mark.parametrize("name", ["no_such_memory", "", "no/such/file.json", "a\0b"])
def test_unknown_name_lists_the_bundled_ones(name: str) -> None:
    with pytest.raises(ProfileError) as caught:
        load_memory(name)
    known = ", ".join(bundled_names("memory"))
    assert str(caught.value) == f"memory profile {name!r}: neither an existing file nor a bundled name ({known})"


@pytest.mark.parametrize("load", [load_chip, load_memory, load_model])
def test_what_cannot_be_a_source(load: Callable[[Any], Any]) -> None:
    for wrong in (3, None, ["plena"]):
        with pytest.raises(ProfileError, match="needs a bundled name, a path or a mapping"):
            load(wrong)


def test_a_bundled_name_comes_before_a_file_of_that_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "h200").write_text("{}")
    monkeypatch.chdir(tmp_path)
    assert load_memory("h200").numbers["capacity_bytes"] == 141_000_000_000
    with pytest.raises(ProfileError, match="kind: missing"):
        load_memory("./h200")


def test_directories_and_long_names(tmp_path: Path) -> None:
    with pytest.raises(ProfileError, match=r"is a directory, needs a file$"):
        load_memory(tmp_path)
    with pytest.raises(ProfileError, match="cannot be read: File name too long"):
        load_memory("x" * 5000)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may read everything")
def test_file_without_permission(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(FIXED))
    path.chmod(0)
    with pytest.raises(ProfileError, match="cannot be read: Permission denied"):
        load_memory(path)


@pytest.mark.parametrize(
    ("file", "content", "message"),
    [
        ("m.json", b"{", "not valid JSON: Expecting property name"),
        ("m.json", b"", "not valid JSON: Expecting value"),
        ("m.json", b"\xff\xfe", "not valid JSON: 'utf-8' codec can't decode"),
        ("m.json", b"[" * 100_000, "not valid JSON: "),
        ("m.json", b'{"kind": "a", "kind": "b"}', "not valid JSON: key 'kind' stands twice"),
        ("m.json", b"[1]", "holds list, needs a table of named entries at its top"),
        ("m.toml", b"a = \nb", "not valid TOML: Invalid value"),
        ("m.toml", b"a = 1\na = 2", "not valid TOML: Cannot overwrite a value"),
    ],
)
def test_files_that_cannot_be_parsed(tmp_path: Path, file: str, content: bytes, message: str) -> None:
    path = tmp_path / file
    path.write_bytes(content)
    with pytest.raises(ProfileError) as caught:
        load_memory(path)
    text = str(caught.value)
    assert text.startswith(f"memory profile {str(path)!r}: {message}")
    assert "\n" not in text


def test_a_byte_order_mark_is_no_obstacle(tmp_path: Path) -> None:
    path = tmp_path / "m.json"
    path.write_text(json.dumps(FIXED), encoding="utf-8-sig")
    assert load_memory(path).numbers["capacity_bytes"] == 97


def test_names(tmp_path: Path) -> None:
    path = tmp_path / "my_memory.json"
    path.write_text(json.dumps(FIXED))
    assert load_memory(path).name == "my_memory"
    assert load_memory(FIXED).name == "custom"
    assert load_memory({**FIXED, "name": "mine"}).name == "mine"
    for wrong in ("", "  ", 3, None):
        with pytest.raises(ProfileError, match=r"name: got .*, needs text that is not empty"):
            load_memory({**FIXED, "name": wrong})


def test_a_downloaded_model_is_named_by_its_directory(tmp_path: Path) -> None:
    path = tmp_path / "tiny-model" / "config.json"
    path.parent.mkdir()
    path.write_text(json.dumps(MODEL))
    assert load_model(path).name == "tiny-model"
    assert load_model(path).provenance.path == str(path.resolve())


def test_messages_stay_on_one_line_and_short() -> None:
    with pytest.raises(ProfileError) as caught:
        load_memory({**FIXED, "name": "a\nb", "bandwidth_bytes_per_s": "x\n" * 500})
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 200


def test_notes_are_kept_as_plain_values() -> None:
    notes = {"source": "me", "list": [1, 2.5, None, True], "deep": {"a": 1}}
    profile = load_memory({**FIXED, "provenance": notes})
    assert profile.provenance.notes == notes
    assert profile.provenance.path is None
    assert profile.provenance.sha256 is None
    assert profile.to_dict()["provenance"] == notes
    assert load_memory(FIXED) == profile
    with pytest.raises(ProfileError, match="provenance: got 3, needs a table"):
        load_memory({**FIXED, "provenance": 3})
    with pytest.raises(ProfileError, match="provenance: got a table, needs finite numbers"):
        load_memory({**FIXED, "provenance": {"a": float("nan")}})


def test_dates_in_notes_become_text(tmp_path: Path) -> None:
    text = bundled_directory("chips").joinpath("plena.toml").read_text()
    path = tmp_path / "dated.toml"
    path.write_text(text.replace("[provenance]", "[provenance]\nread = 2026-01-31"))
    assert load_chip(path).provenance.notes["read"] == "2026-01-31"


def test_mappings_may_be_of_any_kind_and_hold_numpy_numbers() -> None:
    given = MappingProxyType({**FIXED, "bandwidth_bytes_per_s": np.float32(8.0), "capacity_bytes": np.int64(97)})
    profile = load_memory(given)
    assert profile.numbers == {"bandwidth_bytes_per_s": 8.0, "capacity_bytes": 97}
    assert [type(number) for number in profile.numbers.values()] == [float, int]
    with pytest.raises(ProfileError, match="memory profile given as a mapping: got the key 3, needs texts as keys"):
        load_memory({**FIXED, "energy": {3: 4}})


def test_importing_profiles_is_cheap() -> None:
    program = "import sys, stacksweep.profiles; print('pydantic' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, check=True)
    assert done.stdout.strip() == "False"
