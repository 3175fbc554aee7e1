"""Makes src/penstock/data_files/unicode_scripts.npz: the script of every Unicode character, by ICU's numbers.

Run it with a Python that has TensorFlow, which carries ICU and RE2:

    python scripts/make_unicode_scripts.py src/penstock/data_files/unicode_scripts.npz

`start[i]` is the first code point of a run of characters of script `code[i]`; `names[j]` is the name, as regular
expressions write it, of script `name_codes[j]`.
"""
import re
import sys
import unicodedata

import numpy as np
import tensorflow as tf

LAST = 0x10FFFF
UNGUESSABLE = ("Common", "Inherited", "Han", "Canadian_Aboriginal", "Egyptian_Hieroglyphs", "Meroitic_Hieroglyphs",
               "SignWriting", "Anatolian_Hieroglyphs")


def main(path: str) -> None:
    """Writes the table to `path`."""
    points = np.arange(LAST + 1, dtype=np.int32)
    codes = tf.strings.unicode_script(points).numpy().astype(np.int16)
    start = np.concatenate([[0], np.nonzero(np.diff(codes))[0] + 1]).astype(np.int32)
    names = script_names(codes)
    np.savez_compressed(path, start=start, code=codes[start], names=np.array(sorted(names)),
                        name_codes=np.array([names[n] for n in sorted(names)], np.int16))
    missing = sorted(set(codes.tolist()) - set(names.values()) - {-1, 103})
    print(f"{len(start)} runs, {len(names)} names; scripts without a name: {missing}")


def script_names(codes: np.ndarray) -> dict[str, int]:
    """Names of scripts: guessed from the names of their characters, and kept where RE2 agrees."""
    names: dict[str, int] = {}
    for code in sorted(set(codes.tolist()) - {-1, 103}):
        members = [chr(c) for c in np.nonzero(codes == code)[0]]
        guesses = dict.fromkeys(UNGUESSABLE)
        for m in members[:200]:
            words = re.split(r"[ -]", unicodedata.name(m, ""))
            for n in (1, 2, 3):
                guesses["_".join(w.capitalize() for w in words[:n])] = None
        for guess in guesses:
            if guess and matches(guess, members):
                names[guess] = code
                break
    return names


def matches(name: str, members: list[str]) -> bool:
    """Whether RE2 knows the script `name` and finds its characters among `members`."""
    try:
        found = tf.strings.regex_full_match(members[:50], f"\\p{{{name}}}").numpy()
    except tf.errors.InvalidArgumentError:
        return False
    return bool(found.mean() > 0.5)


if __name__ == "__main__":
    main(sys.argv[1])
