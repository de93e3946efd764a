"""One fixed look a method, and one for each row of a table."""

import pytest

import samlib
from samlib.bench.data import DATASETS, TASKS
from samlib.report.layouts import LAYOUTS, TABLE1, TABLE2, TABLE3
from samlib.report.styles import METHOD_STYLES, PHASE_LOOKS, SOURCE_LOOKS, TASK_LABELS, method_style


def test_every_method_has_a_style():
    assert set(samlib.METHODS) <= set(METHOD_STYLES)


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_every_row_of_a_table_has_a_label_of_its_own(layout):
    assert len({method_style(row).label for row in layout.rows}) == len(layout.rows)


def test_a_variant_is_named_after_its_method_and_has_its_colour():
    assert method_style("token_recycling cold").label == "Token Recycling, cold"
    assert method_style("sam[t] without auxiliary").label == "SAM[T] without auxiliary"
    assert method_style("sam without static").color == METHOD_STYLES["sam"].color
    with pytest.raises(KeyError):
        method_style("unheard_of cold")


def test_no_two_methods_look_alike_even_in_grey():
    looks = [*METHOD_STYLES.values(), method_style("token_recycling cold")]
    assert len({look.label for look in looks}) == len(looks)
    assert len({look.marker for look in looks}) == len(looks)


@pytest.mark.parametrize("layout", [TABLE1, TABLE2], ids=lambda layout: layout.name)
def test_no_two_methods_of_a_figure_share_a_colour(layout):
    colors = [method_style(row).color for row in layout.rows if row not in ("autoregressive", "hf_generate")]
    assert len(colors) - len(set(colors)) == len(layout.optional)  # a variant has its method's


@pytest.mark.parametrize("looks", [SOURCE_LOOKS, PHASE_LOOKS])
def test_no_two_parts_of_a_bar_share_a_look(looks):
    assert len({look[0] for look in looks.values()}) == len(looks)
    assert len({look[1] for look in looks.values()}) == len(looks)
    dark = [look for look in looks.values() if not look[2]]
    assert len(dark) <= 3  # the others are told apart by their hatches
    assert len({look[2] for look in looks.values()}) == len(looks) - len(dark) + 1


def test_every_task_and_data_set_has_a_label_in_the_benchmarks_order():
    assert tuple(TASK_LABELS) == tuple(TABLE1.columns) == tuple(TABLE3.columns) == (*TASKS, "overall")
    assert tuple(TABLE2.columns) == (*(name for name in DATASETS if name != "spec_bench"), "overall")
