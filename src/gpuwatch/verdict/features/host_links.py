"""How GPUs are joined to their host and to each other: PCIe and NVLink, beside those of their siblings."""

from collections.abc import Sequence

import msgspec

from gpuwatch.agent import catalogue
from gpuwatch.agent.metric import Label, Labels
from gpuwatch.model.view import Columns, Window
from gpuwatch.verdict.features.rates import added, scaled

__all__ = ["Nvlink", "Pcie", "nvlinks", "pcies"]

_LANE_GB_S = {1: 0.25, 2: 0.5, 3: 0.985, 4: 1.969, 5: 3.938, 6: 7.563}
"""By generation, what one lane carries each way, encoding taken off (PCI Express Base Specification)."""
_STEADY = 0.05
_PLACE = catalogue.INDEX["gpu"]
_MOVED = Columns(
    "gpu", "gpm_pcie_rx_bytes_s", "gpm_pcie_tx_bytes_s", "pcie_rx_bytes", "pcie_tx_bytes"
)
_USUAL = Columns("gpu", "pcie_gen", "pcie_width", "pcie_replays")
_MOST = Columns("gpu", "pcie_gen_max", "pcie_width_max")
_NVLINK = Columns(
    "gpu", "gpm_nvlink_rx_bytes_s", "gpm_nvlink_tx_bytes_s", "nvlink_rx_bytes", "nvlink_tx_bytes",
    "nvlink_replays", "nvlink_crc_errors",
)  # fmt: skip


class Pcie(msgspec.Struct, frozen=True, gc=False):
    """One GPU's PCIe link: as it is, as it could be, and as the best of its siblings is.

    `to_s` and `from_s` are bytes a second to and from the GPU, `used` the fuller direction's share
    of what the link carries. `steady` tells whether the link was so all the time: it falls when idle.
    """

    gen: int
    width: int
    gen_max: int | None
    width_max: int | None
    gen_sibling: int | None
    width_sibling: int | None
    steady: bool
    to_s: float | None
    from_s: float | None
    replays_min: float | None

    @property
    def bytes_s(self) -> float:
        """Return what the link carries each way."""
        return self.width * _LANE_GB_S.get(self.gen, 0.0) * 1e9

    @property
    def used(self) -> float | None:
        """Return the fuller direction's share of that; None where it is not known."""
        moved = [way for way in (self.to_s, self.from_s) if way is not None]
        return max(moved) / self.bytes_s if moved and self.bytes_s else None


class Nvlink(msgspec.Struct, frozen=True, gc=False):
    """One GPU's NVLinks: `up` of them work, `sibling` is what the best of its siblings has.

    `bytes_s` is what all carry in the fuller direction, over the longer window, as a step that
    accumulates gradients is silent for seconds; `errors_s` are broken units and replays a second.
    """

    up: int
    sibling: int | None
    bytes_s: float | None
    errors_s: float | None
    recoveries: float | None


def pcies(fast: Window, slow: Window) -> dict[Labels, Pcie]:
    """Return the PCIe links of a node's GPUs that tell of theirs."""
    gens, widths = _now(slow, "pcie_gen"), _now(slow, "pcie_width")
    best_gens, best_widths = _siblings(gens), _siblings(widths)
    found = {}
    for labels in gens.keys() & widths.keys():
        gen, width, replays = slow.rates_of(labels, _USUAL)
        gen_max, width_max = slow.latest_of(labels, _MOST)
        ways = _moved(fast.rates_of(labels, _MOVED))
        found[labels] = Pcie(
            gens[labels],
            widths[labels],
            _whole(gen_max),
            _whole(width_max),
            best_gens[labels],
            best_widths[labels],
            _still(gen, gens[labels]) and _still(width, widths[labels]),
            ways[0],
            ways[1],
            scaled(replays, 60),
        )
    return found


def nvlinks(window: Window) -> dict[Labels, Nvlink]:
    """Return the NVLinks of a node's GPUs that tell of theirs, over a slow window."""
    ups = _now(window, "nvlink_up")
    best = _siblings(ups)
    found = {}
    for labels, up in ups.items():
        *moved, replays, errors = window.rates_of(labels, _NVLINK)
        ways = [way for way in _moved(moved) if way is not None]
        found[labels] = Nvlink(
            up,
            best[labels],
            max(ways, default=None),
            added((replays, errors)),
            window.growth("gpu", labels, "nvlink_recoveries"),
        )
    return found


def _now(window: Window, metric: str) -> dict[Labels, int]:
    place = _PLACE[metric]
    rows = window.sample.rows("gpu")
    return {row.labels: int(value) for row in rows if (value := row.values[place]) is not None}


def _still(usual: float | None, now: int) -> bool:
    return usual is not None and abs(usual - now) <= _STEADY


def _siblings(values: dict[Labels, int]) -> dict[Labels, int | None]:
    """Return, for each GPU, the largest value of the node's others of its model; None without one."""
    models: dict[Label, list[int]] = {}
    for labels, value in values.items():
        models.setdefault(labels[2], []).append(value)
    best = {model: sorted(own, reverse=True)[:2] for model, own in models.items()}
    return {
        labels: None if len(best[labels[2]]) == 1 else best[labels[2]][value == best[labels[2]][0]]
        for labels, value in values.items()
    }


def _moved(ways: Sequence[float | None]) -> list[float | None]:
    """Return bytes a second each way by the GPU's own monitor, else by the driver's counters."""
    return [
        counted if told is None else told for told, counted in zip(ways[:2], ways[2:], strict=True)
    ]


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
