"""Makes docs/synchrony.svg: asynchronous training, synchronous training, and synchronous training with a backup worker.

    python scripts/make_synchrony_plot.py            # takes a few minutes

Left: accuracy on the test digits over the steps. Right: steps per second, and the same with one of the three workers slowed
tenfold. Each run is a cluster of real processes: a parameter server and three workers of examples/digits_cluster.py.
"""
import argparse
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "src"), str(ROOT)]
from tests.chaos.storm import Cluster  # noqa: E402
from tests.cluster.nursery import Nursery  # noqa: E402

MODES = {"asynchronous": [], "synchronous": ["--sync"], "synchronous, one backup": ["--sync", "--aggregate=2"]}
COLORS = dict(zip(MODES, ("#888888", "#c0392b", "#2471a3"), strict=True))
SAID = re.compile(r"worker 0: step (\d+) loss ([\d.]+) accuracy ([\d.]+)(?: own steps \d+ steps/s ([\d.]+))?")


def run(nursery, folder, *args):
    """One training: [(step, accuracy)] of the chief, and its steps per second."""
    folder.mkdir(parents=True)
    cluster = Cluster(nursery, folder, {"ps": 1, "worker": 3}, *args, cuttable=False)
    try:
        cluster.start_all()
        if not cluster.wait(300):
            raise SystemExit(f"a training did not end; its logs are in {folder}")
    finally:
        cluster.close()
    found = SAID.findall((folder / "worker0.log").read_text())
    return [(int(step), float(accuracy)) for step, _, accuracy, _ in found], float(found[-1][3])


def measure(nursery, folder, steps, timed_steps, delay):
    """(curves, rates) of all modes; rates are pairs: all workers alike, one of them slowed."""
    curves, rates = {}, {}
    for i, (mode, args) in enumerate(MODES.items()):
        curves[mode], _ = run(nursery, folder / f"curve{i}", *args, f"--steps={steps}", f"--report_steps={max(1, steps // 20)}")
        rates[mode] = tuple(run(nursery, folder / f"rate{i}{slow}", *args, f"--steps={timed_steps}", f"--delay={delay}",
                                f"--slow_worker={slow}")[1] for slow in (-1, 2))
        print(f"{mode}: accuracy {curves[mode][-1][1]:.4f}; {rates[mode][0]:.1f} steps/s, with a slow worker "
              f"{rates[mode][1]:.1f} ({rates[mode][1] / rates[mode][0]:.0%})", flush=True)
    return curves, rates


# -- the picture ----------------------------------------------------------------------------------------------------------
def text(x, y, words, anchor="start", size=12):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">{words}</text>'


def draw_curves(curves, left, top, width, height):
    last = max(step for points in curves.values() for step, _ in points)
    low = 0.5
    def at(step, accuracy): return left + width * step / last, top + height * (1 - (max(accuracy, low) - low) / (1 - low))
    out = [text(left, top - 14, "accuracy on the test digits, over steps", size=13)]
    for value in (0.5, 0.6, 0.7, 0.8, 0.9, 1.0):
        y = at(0, value)[1]
        out += [f'<line x1="{left}" x2="{left + width}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>',
                text(left - 6, y + 4, value, "end")]
    out += [text(at(last * q / 4, 0)[0], top + height + 18, round(last * q / 4), "middle") for q in range(5)]
    for i, (mode, points) in enumerate(curves.items()):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*p) for p in points))
        out += [f'<polyline points="{path}" fill="none" stroke="{COLORS[mode]}" stroke-width="2"/>',
                text(left + width - 6, top + height - 14 - 16 * i, f'<tspan fill="{COLORS[mode]}">{mode} '
                     f"({points[-1][1]:.3f})</tspan>", "end")]
    return out


def draw_rates(rates, left, top, width, height):
    most = max(max(pair) for pair in rates.values())
    out = [text(left, top - 14, "steps per second; pale: with one worker slowed tenfold", size=13)]
    slot = width / len(rates)
    for i, (mode, pair) in enumerate(rates.items()):
        for k, rate in enumerate(pair):
            tall, x = height * rate / most, left + i * slot + (k + 0.25) * slot / 2.8
            out += [f'<rect x="{x:.1f}" y="{top + height - tall:.1f}" width="{slot / 3.2:.1f}" height="{tall:.1f}" '
                    f'fill="{COLORS[mode]}" opacity="{0.4 if k else 1}"/>',
                    text(x + slot / 6.4, top + height - tall - 4, f"{rate:.1f}", "middle", 11)]
        out += [text(left + (i + 0.45) * slot, top + height + 18 + 14 * j, w, "middle", 11) for j, w in enumerate(
            [*mode.split(", "), f"keeps {pair[1] / pair[0]:.0%}"])]
    return out


def picture(curves, rates):
    parts = draw_curves(curves, 60, 50, 400, 260) + draw_rates(rates, 530, 50, 380, 260)
    return ('<svg xmlns="http://www.w3.org/2000/svg" width="940" height="370" font-family="sans-serif">'
            '<rect width="940" height="370" fill="white"/>' + "\n".join(parts) + "</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--timed-steps", type=int, default=150)
    parser.add_argument("--delay", type=float, default=0.1)
    parser.add_argument("--out", default=str(ROOT / "docs" / "synchrony.svg"))
    args = parser.parse_args()
    with Nursery() as nursery, tempfile.TemporaryDirectory() as folder:
        curves, rates = measure(nursery, pathlib.Path(folder), args.steps, args.timed_steps, args.delay)
    pathlib.Path(args.out).write_text(picture(curves, rates))
    print(f"written: {args.out}")


if __name__ == "__main__":
    main()
