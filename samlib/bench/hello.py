"""First contact: what will run, on what, and for how long."""

from samlib.bench.cost import cached_cost
from samlib.bench.data import TASKS, data_source, load_questions
from samlib.bench.machine import device_words
from samlib.bench.model import load_model
from samlib.bench.profiles import load_profile
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
            f"plan     Table 1 on the {data_source(profile)}: {_plan(profile)}, about {minutes:g} minutes",
        )
    )


def _plan(profile):
    methods = 3 + len(profile.paper) + len(profile.device_sized)
    per_round = len(TASKS)
    available = len(load_questions(profile))
    least = min(profile.min_rounds * per_round, available)
    most = min(profile.max_rounds * per_round, available)
    count = f"{least} to {most}" if most > least else f"{least}"
    return f"{methods} runs on each of {count} questions, {profile.max_new_tokens} new tokens a turn"
