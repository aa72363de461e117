"""What tests share: tiny models, stores and studies, and where the repository is."""

from pathlib import Path

ROOT = Path(__file__).parents[2]
