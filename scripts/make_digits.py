"""Make src/penstock/data_files/digits.npz from the copy of the UCI optical digits in scikit-learn.

Run it in an environment that has scikit-learn (penstock itself does not need it):

    pip install scikit-learn && python scripts/make_digits.py
"""

from pathlib import Path

import numpy as np
from sklearn.datasets import load_digits

TARGET = Path(__file__).resolve().parent.parent / "src" / "penstock" / "data_files" / "digits.npz"


def main() -> None:
    digits = load_digits()
    images = digits.images.astype(np.uint8)
    labels = digits.target.astype(np.uint8)
    if not np.array_equal(images, digits.images):
        raise SystemExit("the source holds values that do not fit uint8")
    if images.shape != (1797, 8, 8) or images.max() > 16 or len(np.unique(labels)) != 10:
        raise SystemExit(f"unexpected source: shape {images.shape}, largest value {images.max()}")
    np.savez_compressed(TARGET, images=images, labels=labels)
    print(f"{TARGET}: {len(images)} images, {TARGET.stat().st_size} bytes")
    print(f"images per class: {np.bincount(labels).tolist()}")


if __name__ == "__main__":
    main()
