"""First contact: what will run, on what, and for how long."""

from samlib.bench.cost import cached_cost
from samlib.bench.data import data_source, load_questions, rounds
from samlib.bench.machine import device_words
from samlib.bench.model import load_model
from samlib.bench.profiles import PAPER_SETTINGS, load_profile
from samlib.bench.tables import RUNS, run_datasets, run_lines, title_of
from samlib.bench.threads import settle_threads


def first_contact(profile="cpu", *, minutes=None, model=None):
    """Return a few lines: model, device, threads, T(8)/T(1), and what will be measured in how many minutes.

    Loads the model unless it is given, and measures the cost of a forward unless that is on file (a minute or two).
    """
    profile = load_profile(profile)
    model = load_model(profile)[0] if model is None else model
    settle_threads(model, profile)
    cost = cached_cost(profile, model)
    parameters = sum(tensor.numel() for tensor in model.parameters()) / 1e6
    minutes = profile.minutes if minutes is None else minutes
    return "\n".join(
        (
            f"profile  {profile.name}",
            f"model    {profile.model}, {parameters:.1f} M parameters, {profile.dtype}, attention {profile.attention}",
            f"device   {device_words(profile)}",
            f"cost     one token {1e3 * cost.seconds(1):.1f} ms; T(8)/T(1) = {cost.ratio(8):.2f}: "
            f"verifying 8 tokens at once costs {cost.ratio(8):.2f} single ones",
            f"plan     {_plan(profile)}, in about {minutes:g} minutes",
        )
    )


def _plan(profile):
    """What is measured, for each run: "Tables 1 and 3: 23 lines on each of 12 to 72 questions"."""
    parts = [_run_plan(run, profile) for run in RUNS.values() if run_datasets(run, profile)]
    return ";\n         ".join([*parts, f"{profile.max_new_tokens} new tokens a turn"])


def _run_plan(run, profile):
    sized = {method: PAPER_SETTINGS[method] for method in profile.device_sized}
    lines = len(run_lines(run.name, profile, sized))
    datasets = run_datasets(run, profile)
    questions = [question for name in datasets for question in load_questions(profile, name)]
    sizes = [len(group) for group in rounds(questions, profile.seed)]
    least, most = sum(sizes[: profile.min_rounds[run.name]]), sum(sizes[: profile.max_rounds])
    count = f"{least} to {most}" if most > least else f"{least}"
    sources = ", ".join(data_source(profile, name) for name in datasets)
    return f"{title_of(run)}: {lines} lines on each of {count} questions of {sources}"
