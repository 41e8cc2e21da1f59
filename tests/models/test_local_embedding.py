"""A static model in a folder."""

from pathlib import Path

import pytest

from nanomem.errors import TellUser
from nanomem.models import local_embedding
from nanomem.models.local_embedding import LocalEmbedder, folder_of, trouble
from tests.models.toy import toy_model


async def test_unknown_words_point_nowhere(tmp_path: Path) -> None:
    """Known ones point where their model says."""
    unknown, dog, puppy, tax = (
        await LocalEmbedder(toy_model(tmp_path / "toy")).embed(["zzz", "dog", "puppy", "tax"])
    ).vectors
    assert not any(unknown)
    assert sum(a * b for a, b in zip(dog, puppy, strict=True)) > 0.9
    assert sum(a * b for a, b in zip(dog, tax, strict=True)) < 0.1


async def test_what_is_no_model_is_said_each_time_and_never_fetched(tmp_path: Path) -> None:
    """A folder without a model, one with damage, and one that went away; a good one is used as soon as it is there."""
    folder = tmp_path / "toy"
    embedder = LocalEmbedder(folder)
    with pytest.raises(TellUser, match="toy"):
        await embedder.embed(["dog"])
    folder.mkdir()
    with pytest.raises(TellUser, match="toy"):
        await embedder.embed(["dog"])
    toy_model(folder)
    whole = (folder / "model.safetensors").read_bytes()
    (folder / "model.safetensors").write_bytes(b"\0" * 100)
    with pytest.raises(TellUser, match="toy"):
        await embedder.embed(["dog"])
    (folder / "model.safetensors").write_bytes(whole)
    assert any((await embedder.embed(["dog"])).vectors[0])


def test_another_model_in_the_same_folder_has_another_name(tmp_path: Path) -> None:
    """So that its vectors are not compared with those of the one before."""
    before = LocalEmbedder(toy_model(tmp_path / "toy")).name
    assert LocalEmbedder(tmp_path / "toy").name == before
    toy_model(tmp_path / "toy", size=6)
    assert LocalEmbedder(tmp_path / "toy").name != before


def test_the_folder_of_a_setting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As a person writes it: from the root, from their own home, or in nanomem's home folder."""
    monkeypatch.setenv("HOME", "/home/ann")
    assert folder_of("local:/srv/model", tmp_path) == Path("/srv/model")
    assert folder_of("local:~/model", tmp_path) == Path("/home/ann/model")
    assert folder_of("local: models/small ", tmp_path) == tmp_path / "models" / "small"


def test_what_is_missing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Packages, with what installs them, and a folder; a name like one of a hub is a folder, too."""
    assert trouble("openai/text-embedding-3-small", tmp_path) is None
    (tmp_path / "toy").mkdir()
    assert trouble("local:toy", tmp_path) is None
    for wanted in ("local:minishlab/potion-base-8M", "local:", "local:  "):
        assert "there is no folder" in (trouble(wanted, tmp_path) or ("",))[0]
    monkeypatch.setattr(local_embedding, "find_spec", lambda name: None)
    for wanted, names in (("local:toy", "numpy and model2vec"), ("openai/m", "numpy")):
        found = trouble(wanted, tmp_path)
        assert found == (f"{names} must be installed for {wanted}", "pip install 'nanomem[embeddings]'")
