"""A static model of a few words, as model2vec keeps one: made here, fetched nowhere."""

from pathlib import Path
from typing import Any

WORDS = ("[UNK]", "dog", "puppy", "rain", "tax", "the", "a", "shoe")


def toy_model(folder: Path, size: int = 8) -> Path:
    """A model that knows "dog" and "puppy" to be much the same, and its other words apart."""
    import numpy as np
    from model2vec import StaticModel
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

    tokenizer: Any = Tokenizer(models.WordLevel({word: at for at, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer.normalizer = normalizers.Lowercase()
    vectors = np.eye(len(WORDS), size, dtype=np.float32)
    vectors[2] = 0.9 * vectors[1] + 0.1 * vectors[2]
    StaticModel(vectors, tokenizer, normalize=True).save_pretrained(folder)
    return folder
