"""What l_bias, l_threshold and the draft size change, by replay: `python -m samlib.bench.grids`.

The paper's Figures 2 and 3 over all questions, in seconds instead of hours. The answers are recorded once (see
trajectories.py); every setting is then replayed on them. Tokens a step are exact for SAM and approximate for SAM[T],
since a replay shows Token Recycling nothing of rejected tokens. Speeds are *modelled*: decoding alone, by this device's
T(n).
"""

import argparse
import itertools
import json

import pandas as pd
from tqdm import tqdm

from samlib import make_drafter
from samlib.bench.cost import cached_cost
from samlib.bench.metrics import MIN_QUESTIONS_OVERALL, speedup, speedup_interval
from samlib.bench.model import load_model
from samlib.bench.profiles import PAPER_SETTINGS, load_profile
from samlib.bench.replay import modelled_seconds, replay
from samlib.bench.static import load_static
from samlib.bench.trajectories import recorded_answers

BIASES = (0, 2, 5, 8, 12)
THRESHOLDS = (1, 3, 5, 8, 12)
DRAFT_SIZES = (5, 10, 20, 30, 40, 50, 60, 70)
METHODS = ("sam", "sam[t]")
PAPER_BEST = {"l_bias": 5, "l_threshold": 5, "draft_size": 40}
MEASURES = ("mat", "speedup")


def threshold_settings():
    """Figure 2's: every l_bias with every l_threshold."""
    return [{"l_bias": bias, "l_threshold": least} for bias, least in itertools.product(BIASES, THRESHOLDS)]


def size_settings():
    """Figure 3's: every draft size."""
    return [{"draft_size": size} for size in DRAFT_SIZES]


def replayed_rows(recorded, method, settings, *, static, cost, progress=True):
    """Replay a method at each of the settings over Recorded turns; a DataFrame, one row a setting and question.

    Columns: the settings' names, question_id, task, steps, emitted, drafted, accepted, seconds (modelled), baseline
    (modelled seconds of decoding token by token). Every setting has a new drafter, which sees all questions in order.
    """
    rows = []
    for setting in tqdm(settings, desc=f"replay {method}", unit="setting", disable=not progress):
        drafter = make_drafter(method, static=static, **(PAPER_SETTINGS[method] | setting))
        for turn in recorded:
            rows.append(setting | {"question_id": turn.question_id, "task": turn.task} | _replayed(drafter, turn, cost))
    names = list(settings[0])
    return pd.DataFrame(rows).groupby([*names, "question_id", "task"], sort=False, as_index=False).sum()


def _replayed(drafter, turn, cost):
    generation, start = replay(drafter, turn.trajectory), len(turn.trajectory.prompt)
    emitted = sum(len(step.tokens) for step in generation.steps)
    return {
        "steps": len(generation.steps),
        "emitted": emitted,
        "drafted": sum(step.drafted for step in generation.steps),
        "accepted": sum(step.accepted for step in generation.steps),
        "seconds": modelled_seconds(generation, cost, start),
        "baseline": sum(cost.seconds(1, start + place) for place in range(emitted)),
    }


def grid_of(rows):
    """One row a setting: n (questions), mat, and speedup, modelled, with its 95 % interval over questions.

    rows: of `replayed_rows`. The speed-up is the mean over questions of modelled tokens a second by that of decoding
    token by token, as in the tables. The interval is nan where there are fewer questions than the tables ask for.
    """
    names = list(rows.columns[: rows.columns.get_loc("question_id")])
    return pd.DataFrame([_setting_row(names, key, group) for key, group in rows.groupby(names, sort=False)])


def _setting_row(names, key, group):
    group = group[group["steps"] > 0]
    speeds = [group["emitted"] / group[name] for name in ("seconds", "baseline")]
    low, high = speedup_interval(*speeds) if len(group) >= MIN_QUESTIONS_OVERALL else (float("nan"),) * 2
    found = {"n": len(group), "mat": group["emitted"].sum() / group["steps"].sum()}
    found |= {"speedup": speedup(*speeds), "speedup_low": low, "speedup_high": high}
    return dict(zip(names, key, strict=True)) | found


def grids_text(method, grid):
    """A grid as plain text, the best setting and the paper's named below."""
    names = list(grid.columns[: grid.columns.get_loc("n")])
    best, paper = grid.loc[grid["speedup"].idxmax()], _paper_row(grid, names)
    if len(names) == 2:
        tables = [f"{what}\n{grid.pivot(index=names[0], columns=names[1], values=what).round(2)}" for what in MEASURES]
    else:
        tables = [str(grid.round(3).to_string(index=False))]
    words = f"best modelled speed at {_words(best, names)}; at the paper's {_words(paper, names)}"
    return "\n".join([f"{method}, {int(best['n'])} questions", *tables, words])


def _paper_row(grid, names):
    return grid[(grid[names] == pd.Series({name: PAPER_BEST[name] for name in names})).all(axis=1)].iloc[0]


def _words(row, names):
    setting = ", ".join(f"{name} {int(row[name])}" for name in names)
    return f"{setting}: {row['speedup']:.2f} [{row['speedup_low']:.2f}-{row['speedup_high']:.2f}], MAT {row['mat']:.2f}"


def main(arguments=None):
    """The command line: both grids of both methods, then one line of JSON."""
    parser = argparse.ArgumentParser(prog="python -m samlib.bench.grids", description=__doc__.splitlines()[0])
    parser.add_argument("--profile", default="cpu")
    parser.add_argument("--rounds", type=int, metavar="N", help="of one question a task (default: all questions)")
    args = parser.parse_args(arguments)
    profile = load_profile(args.profile)
    recorded = recorded_answers(profile, most_rounds=args.rounds)
    model, tokenizer = load_model(profile)
    shared = {"static": load_static(profile, tokenizer=tokenizer), "cost": cached_cost(profile, model)}
    found = {}
    for method, settings in itertools.product(METHODS, (threshold_settings(), size_settings())):
        grid = grid_of(replayed_rows(recorded, method, settings, **shared))
        print(grids_text(method, grid), end="\n\n")
        numbers = grid.astype(object).where(grid.notna(), None)  # JSON has no nan
        found[f"{method}, {' and '.join(settings[0])}"] = numbers.to_dict("records")
    print(json.dumps({"grids": found}, allow_nan=False))


if __name__ == "__main__":
    main()
