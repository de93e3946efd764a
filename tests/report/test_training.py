"""The EAGLE head's training in figure, tables and words: every number is the log's, the verdict follows from them."""

import pandas as pd
import pytest

from samlib import paths
from samlib.bench.machine import device_words
from samlib.bench.profiles import load_profile
from samlib.bench.training_log import shipped_training
from samlib.report import (
    aim_sentence,
    live_sentence,
    live_training_caption,
    plot_live_training,
    plot_training,
    save_figure,
    save_training,
    training_caption,
    training_findings,
    training_frame,
    training_table,
    trial_table,
    vocabulary_table,
    write_report,
)
from tests.bench.training_records import step_records, trial_records, vocabulary_records, write_training

FACTS = {
    "chats": 12,
    "tokens": 1500,
    "parameters": 4_200_000,
    "feature_seconds": 9.6,
    "training_seconds": 20.4,
}


@pytest.fixture
def shipped(tmp_path):
    return shipped_training(write_training(tmp_path / "head"))


@pytest.fixture
def frame(shipped):
    return training_frame(shipped)


def live_losses(n=50):
    return pd.DataFrame(step_records()[:n]).assign(step=range(1, n + 1))


def values_of(line):
    return line.get_xdata().tolist(), line.get_ydata().tolist()


def test_the_figure_draws_every_loss_and_every_trial(frame):
    feature, logit, accepted = plot_training(frame).axes
    steps, trials = step_records(), trial_records()
    for ax, name in ((feature, "feature_loss"), (logit, "logit_loss")):
        assert values_of(ax.lines[0]) == ([row["step"] for row in steps], [row[name] for row in steps])
    mean, aim = (line for line in accepted.lines if line.get_label() == "aim: 1.0" or line.get_marker() == "o")
    assert values_of(mean) == ([row["step"] for row in trials], [row["accepted"] for row in trials])
    assert set(aim.get_ydata()) == {1.0}
    (bars,) = (each for each in accepted.collections if hasattr(each, "get_segments") and len(each.get_segments()) == 7)
    ends = [[point[1] for point in segment] for segment in bars.get_segments()]
    for found, row in zip(ends, trials, strict=True):
        assert found == pytest.approx([row["low"], row["high"]])
    assert accepted.get_ylim()[0] == 0 and accepted.get_ylim()[1] > max(row["high"] for row in trials)


def test_the_areas_lie_on_one_another_up_to_the_mean(frame):
    *_, accepted = plot_training(frame).axes
    areas = [each for each in accepted.collections if each.get_label() in ("1st token", "2nd", "3rd", "4th")]
    assert len(areas) == 4
    last = trial_records()[-1]
    tops = [max(point[1] for point in area.get_paths()[0].vertices) for area in areas]
    expected = [sum(last["by_depth"][:depth]) for depth in (1, 2, 3, 4)]
    assert tops == pytest.approx(expected) and tops[-1] == pytest.approx(last["accepted"], abs=1e-5)


def test_a_missed_aim_is_still_in_the_picture(tmp_path):
    low = write_training(tmp_path / "low", trials=trial_records(final=0.2, half_width=0.01))
    *_, accepted = plot_training(training_frame(shipped_training(low))).axes
    assert accepted.get_ylim()[1] > 1.0


def test_the_live_figure_draws_the_two_losses():
    losses = live_losses()
    for ax, name in zip(plot_live_training(losses).axes, ("feature_loss", "logit_loss"), strict=True):
        assert values_of(ax.lines[0]) == (losses["step"].tolist(), losses[name].tolist())


def test_files_are_saved_and_the_csv_says_the_same_as_the_log(shipped, frame):
    saved = save_figure(plot_training(frame), "eagle_training", "smoke", data=frame, caption="x")
    path = save_training(frame, training_table(shipped), "smoke", "A caption.")
    assert path.name == "eagle_training.md" and saved.pdf.exists() and saved.png.exists()
    again = pd.read_csv(saved.csv)
    pd.testing.assert_frame_equal(again, frame)
    assert again["kind"].value_counts().to_dict() == {"step": 300, "trial": 7, "vocabulary": 3}
    assert training_findings(again) == training_findings(frame)
    text = path.read_text()
    assert "A caption." in text and "| setting: batch_tokens | 1024 |" in text and "| 16,384 |" in text


def test_the_settings_are_the_manifests(shipped):
    table = training_table(shipped)["value"]
    assert table["chats"] == "1234" and table["setting: trials"] == "12" and table["machine: cpu"] == "CPU A"
    assert "machine: gpu" not in table, "what is not known is left out"


def test_trials_are_shown_from_the_first_to_the_last(frame):
    table = trial_table(frame)
    assert table["step"].tolist() == ["0", "500", "1,000", "1,500", "2,000", "2,500", "3,000"]
    last = table.iloc[-1]
    assert last["accepted a step [95 %]"] == "1.20 [1.10–1.30]" and last["steps"] == "3,900"
    assert last["1st accepted"] == "60.0 %" and last["4th accepted"] == "12.0 %"


def test_of_many_trials_a_dozen_are_shown(tmp_path):
    many = [{**trial_records()[-1], "step": step} for step in range(0, 3001, 30)]
    table = trial_table(training_frame(shipped_training(write_training(tmp_path / "many", trials=many))))
    assert len(table) == 12 and table["step"].iloc[0] == "0" and table["step"].iloc[-1] == "3,000"


def test_vocabularies_are_compared_with_all_ids(frame):
    table = vocabulary_table(frame)
    assert table["ids drafted"].tolist() == ["all", "16,384", "4,096"]
    assert table["drafting a step (ms)"].tolist() == ["20.00", "10.00", "6.67"]
    assert table["beside the first line"].tolist() == ["1.00", "0.50", "0.33"]
    assert table["accepted a step [95 %]"].iloc[1] == "1.15 [1.05–1.25]"


def test_without_a_comparison_nothing_is_said_of_it(tmp_path):
    frame = training_frame(shipped_training(write_training(tmp_path / "head", vocabularies=[])))
    assert vocabulary_table(frame).empty
    assert not any("Drafting over" in sentence for sentence in training_findings(frame))
    assert len(plot_training(frame).axes) == 3


def test_the_findings_are_the_logs_numbers(frame):
    losses, trial, aim, vocabulary = training_findings(frame)
    assert losses == (
        "3,000 steps over 3,000,000 tokens (repeats counted) in 2.5 hours brought smooth L1 from 0.499 to 0.200 and "
        "cross-entropy from 5.99 to 3.00."
    )
    assert "the 1st in 60.0 %, the 2nd in 30.0 %, the 3rd in 18.0 % and the 4th in 12.0 % of 3,900 steps" in trial
    assert trial.endswith("the untrained head has 0.02 accepted a step.")
    assert aim == (
        "The aim of at least 1.0 accepted tokens a step is reached, by the mean and by the whole 95 % interval (1.200 "
        "beside the bonus token, 95 % interval 1.100 to 1.300, 3,900 steps)."
    )
    assert vocabulary == (
        "Drafting over all ids has 1.20 [1.10–1.30] accepted a step and takes 20.00 ms a step; over the most frequent "
        "16,384 ids 1.15 [1.05–1.25] in 0.50 of the time and 4,096 ids 1.10 [1.00–1.20] in 0.33 of the time."
    )


@pytest.mark.parametrize(
    "mean, low, high, verdict",
    [
        (1.2, 1.0, 1.4, "is reached, by the mean and by the whole 95 % interval ("),
        (1.2, 0.99, 1.4, "is reached by the mean, but the 95 % interval begins below it"),
        (0.999, 0.9, 1.1, "is missed by the mean, though the 95 % interval does not rule it out ("),
        (0.8, 0.7, 0.999, "is missed, by the mean and by the whole 95 % interval ("),
    ],
)
def test_the_verdict_on_the_aim_follows_from_mean_and_interval(mean, low, high, verdict):
    text = aim_sentence({"accepted": mean, "low": low, "high": high, "steps": 70})
    assert verdict in text and f"{mean:.3f} beside the bonus token, 95 % interval {low:.3f} to {high:.3f}" in text


def test_the_aim_is_judged_by_the_reading_that_rests_on_more_steps(tmp_path):
    whole, *parts = vocabulary_records()
    for steps, wanted in ((800, "1.200 beside"), (9000, "0.500 beside")):
        more = {**whole, "accepted": 0.5, "low": 0.4, "high": 0.6, "steps": steps}
        frame = training_frame(shipped_training(write_training(tmp_path / "head", vocabularies=[more, *parts])))
        (aim,) = (sentence for sentence in training_findings(frame) if sentence.startswith("The aim"))
        assert wanted in aim


def test_an_earlier_trial_that_was_better_is_named(tmp_path):
    trials = trial_records()
    trials[4] = {**trials[4], "accepted": 1.5, "low": 1.4, "high": 1.6}
    frame = training_frame(shipped_training(write_training(tmp_path / "head", trials=trials)))
    assert "An earlier trial, at step 2,000, gave more: 1.50 [1.40–1.60]; shipped is the last." in training_findings(
        frame
    )


def test_the_untrained_head_is_named_only_where_it_was_tried(tmp_path):
    frame = training_frame(shipped_training(write_training(tmp_path / "head", trials=trial_records()[1:])))
    assert not any("untrained" in sentence for sentence in training_findings(frame))


def test_the_live_training_is_told_as_what_it_is():
    text = live_sentence(live_losses(), FACTS)
    assert text.startswith("50 steps took 20 s; before that, extracting the features of 12 chats (1,500 tokens)")
    assert "smooth L1 went from 0.497 to 0.452 and cross-entropy from 5.97 to 5.52" in text
    assert text.endswith("of 4.2 million parameters, is thrown away: so few steps make no drafter.")


def test_captions_name_who_trained_and_what_it_rests_on(shipped):
    text = training_caption(shipped, "cpu")
    assert text.endswith(
        "Profile cpu; smollm2-135m-instruct in float32, sdpa attention; trained on CPU A, 2 threads; n = 3,000 steps "
        "of training, and 3,900 of decoding in the last trial."
    )
    shipped.manifest["profile"]["device"], shipped.manifest["machine"]["gpu"] = "cuda", "GPU B"
    assert "; trained on GPU B; " in training_caption(shipped, "cpu")
    live = live_training_caption(live_losses(), FACTS, "smoke")
    assert "not the training of the shipped head" in live
    assert live.endswith(f"attention; {device_words(load_profile('smoke'))}; n = 12 chats, 50 points.")


def test_the_report_tells_the_training_and_shows_its_figure(frame):
    assert "The EAGLE head" not in write_report("smoke").read_text()
    save_figure(plot_training(frame), "eagle_training", "smoke", data=frame, caption="How it was trained.")
    page = write_report("smoke").read_text()
    assert "<h3>The EAGLE head</h3>" in page and "<figcaption>How it was trained.</figcaption>" in page
    for sentence in training_findings(frame):
        assert f"<li>{sentence}</li>" in page
    assert (paths.FIGURES / "smoke" / "eagle_training.csv").exists()
