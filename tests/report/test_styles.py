"""One fixed look a method, and one for each row of a table."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

import samlib
from samlib.bench.data import DATASETS, TASKS
from samlib.report.layouts import LAYOUTS, TABLE1, TABLE2, TABLE3
from samlib.report.styles import METHOD_STYLES, PHASE_LOOKS, SOURCE_LOOKS, TASK_LABELS, method_style

from .synthetic import variants


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
    assert len(colors) - len(set(colors)) == len(variants(layout))  # a variant has its method's


# Linear RGB as seen without the red, the green and the blue cones (Machado et al. 2009, severity 1).
BLINDNESS = [
    [[1, 0, 0], [0, 1, 0], [0, 0, 1]],
    [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
    [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
    [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
]
TO_XYZ = [[0.4339, 0.3762, 0.1899], [0.2126, 0.7152, 0.0722], [0.0177, 0.1095, 0.8730]]  # of white: 1, 1, 1


def seen(color, blindness):
    """A colour in CIELAB, in which distances are about as large as they look."""
    values = np.array(to_rgb(color))
    linear = np.where(values <= 0.04045, values / 12.92, ((values + 0.055) / 1.055) ** 2.4)
    xyz = np.array(TO_XYZ) @ np.clip(np.array(blindness) @ linear, 0, 1)
    x, y, z = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.mark.parametrize("blindness", BLINDNESS, ids=["none", "red", "green", "blue"])
def test_colours_of_a_figure_stay_apart_for_colour_blind_readers(blindness):
    for layout in LAYOUTS:
        colors = {method_style(row).color for row in layout.rows if row not in ("autoregressive", "hf_generate")}
        pairs = itertools.combinations([seen(color, blindness) for color in colors], 2)
        assert min(np.linalg.norm(first - second) for first, second in pairs) > 10


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
