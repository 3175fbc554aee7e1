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


def negatives(folder):
    """For each line of the files of `taobao`, items and categories that the user saw and did not click on."""
    rng = np.random.default_rng(1)
    for name in ("train", "test"):
        with open(folder / f"local_{name}_splitByUser") as lines, open(folder / f"local_{name}_splitByUser_neg", "w") as f:
            for line in lines:
                seen = line.rstrip("\n").split("\t")[4].count("\x02") + 1
                items = rng.integers(0, 500, seen)
                f.write("\x02".join(f"i{i}" for i in items) + "\t" + "\x02".join(f"c{i % 20}" for i in items) + "\n")


_LISTS = {"tag_category_list": 40, "tag_brand_list": 40}
_FIELDS = {"pid": 2, "adgroup_id": 400, "cate_id": 40, "campaign_id": 300, "customer": 300, "brand": 40, "user_id": 600,
           "cms_segid": 90, "cms_group_id": 12, "final_gender_code": 2, "age_level": 6, "pvalue_level": 3, "shopping_level": 3,
           "occupation": 2, "new_user_class_level": 4, **_LISTS, "price": 50}


def advertising(folder, rows):
    """taobao_train_data and taobao_test_data: a click, a purchase, and the fields of a user, an advertisement and its place.
    A user clicks on the categories and brands in the lists of the user's past; fewer clicks are purchases."""
    rng = np.random.default_rng(2)
    for name, count in ("train", rows), ("test", rows // 5):
        with open(folder / f"taobao_{name}_data", "w") as f:
            for _ in range(count):
                row = {n: int(rng.random() ** 2 * size) for n, size in _FIELDS.items()}
                past = {n: rng.integers(0, size, 5) for n, size in _LISTS.items()}
                if rng.random() < 0.5:
                    row["cate_id"], row["brand"] = (int(p[rng.integers(5)]) for p in past.values())
                known = (row["cate_id"] in past["tag_category_list"]) + (row["brand"] in past["tag_brand_list"])
                score = 2.5 * known - 2.5 + 2 * np.sin(row["cate_id"] * 12.9898) + 2 * np.sin(row["user_id"] * 78.233)
                click = score + rng.logistic() > 0
                buys = click and score + np.sin(row["price"]) + rng.logistic() > 2
                texts = {n: "|".join(map(str, v)) for n, v in {**{n: [v] for n, v in row.items()}, **past}.items()}
                f.write(",".join([str(int(click)), str(int(buys)), *(texts[n] for n in _FIELDS)]) + "\n")
