"""Images as a contextual bandit: classify a digit, and learn only whether the class was right."""

from __future__ import annotations

import hashlib
import os
import tempfile
import urllib.error
import urllib.request
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from tpo.lab.names import IMAGES
from tpo.lab.tasks.base import Contexts

MNIST_URL = "https://storage.googleapis.com/tensorflow/tf-keras-datasets/mnist.npz"
MNIST_SHA256 = "731c5ac602752760c8e48fbffcf8c3b850d9dc2a2aedcf2cc48468fc17b673d1"


class Images(NamedTuple):
    """Flat images in [0, 1] and their labels, for training and for testing."""

    x_train: jax.Array
    y_train: jax.Array
    x_test: jax.Array
    y_test: jax.Array


@dataclass(frozen=True)
class Digits:
    """Classify digits: `digits` (scikit-learn's 8x8, embedded) or `mnist` (28x28).

    MNIST comes from `path` (an .npz with x_train, y_train, x_test, y_test), else from the cache
    ($TPO_CACHE or ~/.cache/tpo), else it is downloaded there and its checksum verified.
    Of the embedded digits every fifth is held out. A batch is drawn with replacement.
    """

    source: str = "digits"
    path: str = ""

    def __post_init__(self) -> None:
        if self.source not in IMAGES:
            raise ValueError(f"source is {self.source!r}, expected one of {', '.join(IMAGES)}")

    @property
    def observes(self) -> tuple[str, int]:
        return "features", 64 if self.source == "digits" else 784

    @property
    def actions(self) -> int:
        return 10

    @property
    def length(self) -> int:
        return 1

    @property
    def dense(self) -> bool:
        return True

    def load(self) -> Images:
        arrays = _digits() if self.source == "digits" else _mnist(self.path)
        return Images(*(jnp.asarray(x) for x in arrays))

    def contexts(self, data: Images, key: jax.Array, batch: int) -> Contexts:
        index = jax.random.randint(key, (batch,), 0, data.y_train.shape[0])
        return Contexts(data.x_train[index], data.y_train[index])

    def rewards(self, answer: jax.Array, actions: jax.Array) -> jax.Array:
        return (actions == answer[:, None, None]).astype(jnp.float32)

    def held_out(self, data: Images) -> Contexts:
        return Contexts(data.x_test, data.y_test)


Arrays = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


@lru_cache(maxsize=1)
def _digits() -> Arrays:
    from sklearn.datasets import load_digits

    x, y = load_digits(return_X_y=True)
    x, y = (x / 16).astype(np.float32), y.astype(np.int32)
    test = np.arange(len(y)) % 5 == 0
    return x[~test], y[~test], x[test], y[test]


@lru_cache(maxsize=1)
def _mnist(path: str) -> Arrays:
    file = Path(path) if path else _cached_mnist()
    if not file.is_file():
        raise FileNotFoundError(
            f"path is {str(file)!r}, where no file is; expected an .npz of MNIST with arrays "
            "x_train, y_train, x_test, y_test. Leave path empty to download it"
        )
    with np.load(file, allow_pickle=False) as z:
        names = ("x_train", "y_train", "x_test", "y_test")
        missing = [name for name in names if name not in z]
        if missing:
            raise ValueError(f"{file} lacks {', '.join(missing)}; expected an .npz of MNIST")
        x_train, y_train, x_test, y_test = (z[name] for name in names)
    return _flat(x_train), y_train.astype(np.int32), _flat(x_test), y_test.astype(np.int32)


def _flat(x: np.ndarray) -> np.ndarray:
    return x.reshape(len(x), -1).astype(np.float32) / 255


def _cached_mnist() -> Path:
    """The cached file, downloaded first if it is absent; an incomplete download leaves no file."""
    folder = Path(os.environ.get("TPO_CACHE", "~/.cache/tpo")).expanduser()
    file = folder / "mnist.npz"
    if file.is_file():
        return file
    folder.mkdir(parents=True, exist_ok=True)
    try:
        with urllib.request.urlopen(MNIST_URL, timeout=60) as reply:
            content = reply.read()
    except (urllib.error.URLError, TimeoutError) as error:
        raise OSError(
            f"MNIST could not be downloaded from {MNIST_URL} ({error}): give path=... to a local "
            "copy, or use the embedded digits with source='digits'"
        ) from error
    return keep_verified(content, file, MNIST_SHA256)


def keep_verified(content: bytes, file: Path, sha256: str) -> Path:
    """Write `content` to `file` if its checksum is right; raise and write nothing otherwise."""
    found = hashlib.sha256(content).hexdigest()
    if found != sha256:
        raise OSError(
            f"the download for {file.name} has checksum {found}, expected {sha256}: "
            "try again, or give path=... to a copy you trust"
        )
    with tempfile.NamedTemporaryFile(dir=file.parent, delete=False) as part:
        part.write(content)
    Path(part.name).replace(file)
    return file
