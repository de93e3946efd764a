"""The figures of an EAGLE head's training: a few live steps, and the log of a shipped head."""

from matplotlib.figure import Figure

from samlib.bench.training_log import AIM, DEPTHS
from samlib.report.styles import BLACK, BLUE, ORANGE, PAGE_WIDTH, SKY, style_context

LOSSES = {
    "feature_loss": ("Smooth L1", BLUE, "-"),
    "logit_loss": ("Cross-entropy", ORANGE, "-"),
}
DEPTH_LOOKS = (("1st token", BLUE), ("2nd", SKY), ("3rd", "#A9D6F0"), ("4th", "#DCEEF9"))


def plot_live_training(steps):
    """The two losses of a few live steps, a panel each. steps: a DataFrame with step, feature_loss, logit_loss."""
    with style_context():
        fig = Figure(figsize=(PAGE_WIDTH, 2.0))
        for ax, name in zip(fig.subplots(1, 2), LOSSES, strict=True):
            _plot_loss(ax, steps, name)
            ax.set_xlabel("Step")
    return fig


def plot_training(frame):
    """The shipped training: its two losses to the left, the accepted tokens of its trials to the right, over steps.

    frame: of `samlib.report.training_tables.training_frame`. To the right the shares of steps that accept a 1st, 2nd,
    3rd and 4th token lie on one another, so that the height of all four is the mean; bars: its 95 % interval.
    """
    steps, trials = (frame[frame["kind"] == kind] for kind in ("step", "trial"))
    with style_context():
        fig = Figure(figsize=(PAGE_WIDTH, 2.9))
        grid = fig.add_gridspec(2, 2)
        feature = fig.add_subplot(grid[0, 0])
        logit = fig.add_subplot(grid[1, 0], sharex=feature)
        _plot_loss(feature, steps, "feature_loss")
        _plot_loss(logit, steps, "logit_loss")
        feature.tick_params(labelbottom=False)
        accepted = fig.add_subplot(grid[:, 1])
        _plot_accepted(accepted, trials)
        logit.set_xlabel("Step")
        accepted.set_xlabel("Step")
    return fig


def _plot_loss(ax, steps, name):
    label, color, linestyle = LOSSES[name]
    ax.plot(steps["step"], steps[name], linestyle, color=color)
    ax.set(title=label, xlim=(0, None))


def _plot_accepted(ax, trials):
    """The stack of shares by depth, the mean with its interval on top, and the aim."""
    x = trials["step"]
    labels, colors = zip(*DEPTH_LOOKS, strict=True)
    ax.stackplot(x, *(trials[name] for name in DEPTHS), labels=labels, colors=colors)
    ax.errorbar(x, trials["accepted"], _arms(trials), color=BLACK, marker="o", capsize=2, label="mean, 95 % interval")
    ax.axhline(AIM, color=BLACK, linestyle="--", linewidth=0.8, label=f"aim: {AIM}")
    ax.set(title="Accepted tokens a step, of chains of four", xlim=(0, None))
    ax.set_ylim(0, max(1.25 * AIM, 1.25 * trials["high"].max()))
    ax.legend(loc="upper left", ncols=2)


def _arms(rows):
    """The arms of error bars from `accepted` to `low` and `high`; none where there is no interval."""
    return [
        (rows["accepted"] - rows["low"]).clip(lower=0).fillna(0),
        (rows["high"] - rows["accepted"]).clip(lower=0).fillna(0),
    ]
