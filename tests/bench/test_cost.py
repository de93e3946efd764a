"""T(n, context): what is timed and in which order, how it is read, kept and found again, the command's last line."""

import dataclasses
import json

import pytest

from samlib import paths
from samlib.bench import cost, load_model, records, roofline
from samlib.bench.cost import CostCurve, cached_cost, load_cost, measure_cost, order_of_pass
from samlib.bench.profiles import load_profile
from samlib.bench.roofline import ForwardLimits

LIMITS = ForwardLimits(8, 1, 4, 2, bandwidth=2.0, rate=3.0)
SMALL = dataclasses.replace(load_profile("smoke"), cost_widths=(1, 2), cost_repeats=1, cost_contexts=(5, 9))


@pytest.fixture(scope="module")
def model():
    return load_model("smoke")[0]


@pytest.fixture(autouse=True)
def little_memory(monkeypatch):
    """Reading 256 MB at every pass would take most of the time of these tests."""
    monkeypatch.setitem(roofline.READ_FLOATS, "cpu", 1 << 16)


@pytest.fixture
def runs(tmp_path, monkeypatch):
    monkeypatch.setattr(paths, "RUNS", tmp_path)
    return tmp_path / "smoke"


def curve(seconds, further=None, **fields):
    others = {context: {"T": of_context, "T_plain": of_context} for context, of_context in (further or {}).items()}
    known = {"context": 300, "repeats": 1, "device": "made up"}
    return CostCurve(T=seconds, T_plain=seconds, further=others, **(known | fields))


# ---- reading the surface ----


def test_a_curve_is_linear_between_its_points_and_beyond_the_last_two():
    t = curve({1: 1.0, 8: 1.7, 16: 2.5})
    assert [t.seconds(n) for n in (1, 8, 16)] == [1.0, 1.7, 2.5]
    assert t.seconds(4) == pytest.approx(1.3)
    assert t.seconds(12) == pytest.approx(2.1)
    assert t.seconds(26) == pytest.approx(3.5)
    assert t.ratio(8) == pytest.approx(1.7)


def test_the_order_of_the_points_does_not_matter():
    assert curve({16: 2.5, 1: 1.0, 8: 1.7}).seconds(12) == pytest.approx(2.1)


def test_a_curve_of_one_point_is_constant():
    assert curve({1: 2.0}).seconds(40) == curve({1: 2.0}).seconds(40, 900) == 2.0


def test_a_surface_is_linear_in_both_directions():
    t = curve({1: 10.0, 9: 18.0}, {900: {1: 16.0, 9: 48.0}})
    assert t.seconds(9) == t.seconds(9, 300) == 18.0
    assert t.seconds(9, 900) == 48.0
    assert t.seconds(5, 300) == pytest.approx(14.0)
    assert t.seconds(1, 600) == pytest.approx(13.0)
    assert t.seconds(5, 500) == pytest.approx(14.0 + 18.0 / 3)
    assert t.ratio(9, 600) == pytest.approx(33.0 / 13.0)


def test_a_surface_is_prolonged_beyond_its_largest_and_held_below_its_smallest():
    t = curve({2: 10.0, 4: 14.0}, {900: {2: 16.0, 4: 26.0}})
    assert t.seconds(2, 1200) == pytest.approx(19.0)
    assert t.seconds(6, 300) == pytest.approx(18.0)
    assert t.seconds(6, 1200) == pytest.approx(36.0 + 9.0)
    assert t.seconds(1, 0) == t.seconds(2, 300) == 10.0


def test_noise_never_makes_more_work_cheaper_without_end():
    t = curve({1: 10.0, 8: 9.0}, {900: {1: 9.5, 8: 8.0}})
    assert t.seconds(1000) == 9.0
    assert t.seconds(1, 1_000_000) == 9.5


def test_contexts_may_be_measured_at_other_widths():
    t = curve({1: 10.0, 5: 14.0, 9: 22.0}, {900: {1: 20.0, 9: 28.0}})
    assert t.seconds(5, 600) == pytest.approx((14.0 + 24.0) / 2)


def test_a_curve_survives_json():
    quartiles = {300: {"T": {1: [0.9, 1.1], 8: [1.6, 1.8]}}}
    t = curve({1: 1.0, 8: 1.7}, {900: {1: 1.5, 8: 2.0}}, quartiles=quartiles, kernels=True, limits=LIMITS)
    assert CostCurve.from_json(t.to_json()) == t
    assert CostCurve.from_json(curve({1: 1.0}).to_json()) == curve({1: 1.0})


@pytest.mark.parametrize("text", ["", "3", "[]", "{}", '{"T": {"1": 1.0}}', '{"T": {"a": 1}}'])
def test_what_is_no_curve_is_a_value_error(text):
    with pytest.raises(ValueError):
        CostCurve.from_json(text)


@pytest.mark.parametrize("change", ['{"T": {}}', '{"T": {"1": null}}', '{"further": 3}', '{"limits": {"rate": 1}}'])
def test_a_curve_with_a_damaged_field_is_a_value_error(change):
    fields = json.loads(curve({1: 1.0}).to_json())
    with pytest.raises(ValueError):
        CostCurve.from_json(json.dumps(fields | json.loads(change)))


# ---- measuring ----


def test_a_pass_times_every_cell_once_with_contexts_and_ways_next_to_each_other():
    first = order_of_pass(0, (1, 8), (300, 900), ("T", "T_plain"))
    assert first == [(w, c, way) for w in (1, 8) for c in (300, 900) for way in ("T", "T_plain")]
    second = order_of_pass(1, (1, 8), (300, 900), ("T", "T_plain"))
    assert second[:2] == [(1, 900, "T_plain"), (1, 900, "T")]
    assert sorted(second) == sorted(first)


def test_over_the_passes_every_cell_comes_first():
    starts = {order_of_pass(turn, (1, 2, 8), (5, 9), ("T",))[0] for turn in range(6)}
    assert len(starts) == 6


def test_every_width_is_timed_with_that_many_tokens_after_each_context(model, monkeypatch):
    timed = []

    def spy(model, target, width):
        timed.append((width, target.num_cached))
        return 0.001 * width * target.num_cached * (100 if len(timed) <= 4 else 1)

    monkeypatch.setattr(cost, "time_forward", spy)
    found = measure_cost(model, widths=(1, 8), context=50, further=(70,), repeats=3)
    assert sorted(timed) == sorted([(w, c) for w in (1, 8) for c in (50, 70)] * 4)  # the warm-up pass and three more
    assert timed[:4] == [(1, 50), (1, 70), (8, 50), (8, 70)]
    assert timed[4:6] == [(1, 70), (8, 50)]
    assert found.T == pytest.approx({1: 0.05, 8: 0.4})  # without the warm-up pass
    assert found.further[70]["T"] == pytest.approx({1: 0.07, 8: 0.56})


def test_the_forwards_are_real(model):
    from samlib.bench.answers import forward_clock

    with forward_clock(model) as forwards:
        found = measure_cost(model, widths=(1, 2, 8), context=50, repeats=2)
    widths = [width for width, _ in forwards]
    assert widths[0] == 50
    assert sorted(widths[1:]) == [1] * 3 + [2] * 3 + [8] * 3
    assert sorted(found.T) == [1, 2, 8]
    assert all(seconds > 0 for seconds in found.T.values())
    assert found.T_plain == found.T and not found.kernels
    assert found.limits.bandwidth > 0 and found.limits.rate > 0


def test_median_and_quartiles_are_those_of_the_forwards_timed(model, monkeypatch):
    times = iter([99.0, 5.0, 1.0, 3.0, 2.0, 4.0])
    monkeypatch.setattr(cost, "time_forward", lambda *_: next(times))
    found = measure_cost(model, widths=(1,), context=5, repeats=5)
    assert found.T == {1: 3.0}
    assert found.quartiles == {5: {"T": {1: [2.0, 4.0]}}}


def test_with_kernels_each_forward_is_timed_inside_and_outside_of_them(model, monkeypatch):
    class Kernels:
        active = False

        def __enter__(self):
            self.active = True

        def __exit__(self, *_):
            self.active = False

    kernels, timed = Kernels(), []

    def spy(model, target, width):
        timed.append(kernels.active)
        return 1.0 if kernels.active else 2.0

    monkeypatch.setattr(cost, "time_forward", spy)
    found = measure_cost(model, widths=(1, 2), context=5, further=(9,), repeats=1, kernels=kernels)
    assert timed == [True, False] * 4 + [False, True] * 4
    assert (found.T, found.T_plain) == ({1: 1.0, 2: 1.0}, {1: 2.0, 2: 2.0})
    assert found.kernels and found.further[9]["T_plain"] == {1: 2.0, 2: 2.0}
    assert list(found.curves("T_plain")) == [5, 9]


# ---- keeping ----


def test_a_measured_curve_is_kept_with_a_manifest_and_measured_again_for_other_settings(model, runs):
    first = cached_cost(SMALL, model, progress=False)
    kept = json.loads((runs / "cost.json").read_text())
    assert json.loads((runs / kept["manifest"]).read_text())["cost_key"] == kept["key"]
    assert cached_cost(SMALL, model, progress=False) == first
    other = cached_cost(dataclasses.replace(SMALL, cost_contexts=(6,)), model, progress=False)
    assert other.context == 6 and not other.further
    assert not list(runs.glob("*.tmp")) + list(runs.glob(".*"))


@pytest.mark.parametrize("what", ["threads", "sources", "torch"])
def test_a_curve_of_another_machine_or_other_code_is_not_taken(model, runs, monkeypatch, what):
    cached_cost(SMALL, model, progress=False)
    key = cost.cost_key(SMALL)
    if what == "threads":
        monkeypatch.setattr(cost, "machine", lambda: {"threads": 77})
    elif what == "sources":
        monkeypatch.setattr(cost, "sources_key", lambda folder: "other")
    else:
        monkeypatch.setattr(cost.metadata, "version", lambda package: "0")
    assert cost.cost_key(SMALL) != key
    monkeypatch.setattr(cost, "_measure", lambda *_: curve({1: 123.0}))
    assert cached_cost(SMALL, model, progress=False).T == {1: 123.0}


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: "",
        lambda text: text[: len(text) // 2],
        lambda text: "[1, 2]",
        lambda text: json.dumps({"curve": json.loads(text)["curve"]}),
        lambda text: json.dumps(json.loads(text) | {"curve": "{}"}),
        lambda text: json.dumps(json.loads(text) | {"curve": 5}),
        lambda text: text.replace("repeats", "repeat"),
        lambda text: "\udcff",
    ],
)
def test_a_damaged_or_foreign_file_is_measured_anew(model, runs, damage):
    cached_cost(SMALL, model, progress=False)
    path = runs / "cost.json"
    path.write_bytes(damage(path.read_text()).encode(errors="surrogateescape"))
    found = cached_cost(SMALL, model, progress=False)
    assert CostCurve.from_json(json.loads(path.read_text())["curve"]) == found
    assert sorted(found.T) == [1, 2]


def test_an_interrupted_write_leaves_the_old_file(model, runs, monkeypatch):
    cached_cost(SMALL, model, progress=False)
    before = (runs / "cost.json").read_bytes()

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(records.os, "replace", interrupted)
    monkeypatch.setattr(cost, "write_manifest", lambda *_, **__: None)
    with pytest.raises(KeyboardInterrupt):
        cost.keep_cost(SMALL, curve({1: 123.0}))
    assert (runs / "cost.json").read_bytes() == before
    assert not list(runs.glob(".*"))


def test_the_notebooks_frame_is_what_is_on_file(runs, monkeypatch):
    monkeypatch.setattr(cost, "measure_cost", lambda *_, **__: curve({1: 1.0, 2: 1.5}, {900: {1: 2.0, 2: 3.0}}))
    found, rows = load_cost("smoke", progress=False)
    assert found.seconds(2, 900) == 3.0
    assert list(rows["seconds"]) == [1.0, 1.5, 2.0, 3.0]
    assert (runs / "records" / "cost.csv").exists()
    monkeypatch.setattr(cost, "measure_cost", lambda *_, **__: pytest.fail("it is on file"))
    assert load_cost("smoke", progress=False)[0] == found


# ---- the command ----


def test_the_command_ends_with_one_line_of_json(runs, capsys):
    cost.main(["--profile", "smoke", "--context", "20", "30", "--repeats", "1"])
    *table, last = capsys.readouterr().out.splitlines()
    found = json.loads(last)
    assert found["context"] == 20
    assert list(found["T"]) == list(found["T_plain"]) == [str(n) for n in load_profile("smoke").cost_widths]
    assert list(found)[:2] == ["T", "T_plain"] and list(found["further"]) == ["30"]
    assert [line for line in table if line.startswith("context")] == ["context 20", "context 30"]
    assert not (runs / "cost.json").exists(), "other settings than the profile's are not kept"


def test_the_command_keeps_what_it_measured_with_the_profiles_own_settings(runs, capsys, monkeypatch):
    monkeypatch.setattr(cost, "measure_cost", lambda *_, **given: curve({1: 1.0}, context=given["context"]))
    cost.main(["--profile", "smoke"])
    last = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert last["T"] == {"1": 1.0} and last["context"] == load_profile("smoke").cost_contexts[0]
    assert (runs / "cost.json").exists()


@pytest.mark.parametrize("wrong", [["--repeats", "0"], ["--context", "-3"], ["--context", "x"]])
def test_the_command_refuses_what_is_no_positive_number(wrong, capsys):
    with pytest.raises(SystemExit):
        cost.main(["--profile", "smoke", *wrong])
    assert "is not a positive number" in capsys.readouterr().err


def test_the_cpu_profile_measures_the_widths_that_are_compared_everywhere():
    profile = load_profile("cpu")
    assert {1, 2, 4, 8, 16, 24, 32, 41, 61} <= set(profile.cost_widths)
    assert profile.cost_contexts == (300, 900) and profile.cost_repeats >= 15
