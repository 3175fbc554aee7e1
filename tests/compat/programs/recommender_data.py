"""Files of the shapes of Criteo's and Taobao's, with clicks that depend on the keys, for published recommenders."""
import numpy as np


def criteo(folder, rows):
    """train.csv and eval.csv: a click, 13 numbers and 26 categories."""
    rng = np.random.default_rng(0)
    for name, count in ("train", rows), ("eval", rows // 5):
        keys = (rng.random((count, 26)) ** 2 * 200).astype(np.int64)
        numbers = rng.lognormal(size=(count, 13))
        hidden = np.sin(keys * 12.9898 + np.arange(26) * 78.233) * 2.0
        score = hidden[:, :8].sum(1) + 0.3 * np.log(numbers[:, :3]).sum(1)
        clicks = score + rng.logistic(size=count) > 0
        with open(folder / f"{name}.csv", "w") as f:
            for click, some, row in zip(clicks, numbers, keys, strict=True):
                f.write(",".join([str(int(click)), *[f"{x:.4f}" for x in some],
                                  *[f"{k * 2654435761 % 2**32:08x}" for k in row.tolist()]]) + "\n")


def taobao(folder, rows, kinds=20, items=500, users=1000):
    """Users, items and categories with histories, and the vocabularies. Users click on items of the kinds in their history."""
    rng = np.random.default_rng(0)
    for name, count in ("train", rows), ("test", rows // 5):
        with open(folder / f"local_{name}_splitByUser", "w") as f:
            for _ in range(count):
                liked = rng.integers(kinds)
                history = np.where(rng.random(12) < 0.3, rng.integers(0, items, 12), liked + kinds * rng.integers(
                    0, items // kinds, 12))
                item = (liked if rng.random() < 0.5 else rng.integers(kinds)) + kinds * rng.integers(items // kinds)
                click = int((item % kinds == liked) != (rng.random() < 0.05))
                seen, of = "\x02".join(f"i{h}" for h in history), "\x02".join(f"c{h % kinds}" for h in history)
                f.write("\t".join([str(click), f"u{rng.integers(users)}", f"i{item}", f"c{item % kinds}", seen, of]) + "\n")
    for name, words in (("uid", [f"u{i}" for i in range(users)]), ("mid", [f"i{i}" for i in range(items)]),
                        ("cat", [f"c{i}" for i in range(kinds)])):
        (folder / f"{name}_voc.txt").write_text("\n".join(["unknown", *words]) + "\n")
