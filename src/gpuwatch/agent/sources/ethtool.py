"""What drivers count of a physical port beyond /sys: pause frames, discards, a cloud's allowances.

By SIOCETHTOOL (linux/ethtool.h), which needs no right for statistics. Names are asked once, values
at each tick, of cards with very many now and then. Each driver has names of its own: the locators
list those of mlx5, mlx4, ice, i40e, ixgbe, bnxt, tg3 and ena.
"""

import errno
import os
import struct
from array import array
from typing import Any, Dict, List, Tuple

from gpuwatch.agent.host import Host
from gpuwatch.agent.metric import COUNTER, Absent, Labels, Metric, Reading, Values, fill
from gpuwatch.agent.pick import pick, told

GSTRINGS, GSTATS, GSSET_INFO = 0x1B, 0x1D, 0x37
STATISTICS = 1
"""The set of strings ETH_SS_STATS."""
NAME = 32
UNCOUNTED = "its driver does not count it"
MAX_STATISTICS = 16384
ROOM = 32768
"""Values for which there is room: more than twice what is asked for, as the kernel writes all that
there are, and there may be more since they were counted."""
MANY, SELDOM = 300, 5
"""With more statistics than that they are read in each fifth tick: some cards have 1,500."""
AGAIN = 60
"""Ticks until a port that counts none of these is asked for its names again."""

ROWS = (
    Metric("rx_pause_frames", "nic", COUNTER, "int", "1", "rx_pause_ctrl_phy | rx_global_pause | rx_pause_frames | rx_pause | rx_flow_control_xoff + rx_flow_control_xon | port.link_xoff_rx + port.link_xon_rx | link_xoff_rx.nic + link_xon_rx.nic | rx_xoff_pause_rcvd + rx_xon_pause_rcvd", "Pause frames received: what is behind this port's link cannot absorb what it sends."),
    Metric("tx_pause_frames", "nic", COUNTER, "int", "1", "tx_pause_ctrl_phy | tx_global_pause | tx_pause_frames | tx_pause | tx_flow_control_xoff + tx_flow_control_xon | port.link_xoff_tx + port.link_xon_tx | link_xoff_tx.nic + link_xon_tx.nic | tx_xoff_sent + tx_xon_sent", "Pause frames sent: this host cannot absorb what it receives."),
    Metric("rx_pfc_frames", "nic", COUNTER, "int", "1", "rx_prio#_pause | rx_pfc_frames | rx_pause_prio_# | port.rx_priority_#_xoff + port.rx_priority_#_xon | rx_priority_#_xoff.nic + rx_priority_#_xon.nic | rx_pb_#_pxoff + rx_pb_#_pxon | frames_rx_pripause", "The same by priority (PFC), all priorities together."),
    Metric("tx_pfc_frames", "nic", COUNTER, "int", "1", "tx_prio#_pause | tx_pfc_frames | tx_pause_prio_# | port.tx_priority_#_xoff + port.tx_priority_#_xon | tx_priority_#_xoff.nic + tx_priority_#_xon.nic | tx_pb_#_pxoff + tx_pb_#_pxon | frames_tx_pripause", "The same by priority (PFC), all priorities together."),
    Metric("rx_pause_us", "nic", COUNTER, "int", "us", "rx_prio#_pause_duration + rx_global_pause_duration | rx_pause_duration_prio_# | pfc_pri#_rx_duration_us", "Time that this port was paused, summed over priorities."),
    Metric("tx_pause_us", "nic", COUNTER, "int", "us", "tx_prio#_pause_duration + tx_global_pause_duration | tx_pause_duration_prio_# | pfc_pri#_tx_duration_us", "Time that this port paused the other end, summed over priorities."),
    Metric("pause_storms", "nic", COUNTER, "int", "1", "tx_pause_storm_warning_events + tx_pause_storm_error_events", "Times that this port paused the other end for very long."),
    Metric("rx_discards", "nic", COUNTER, "int", "1", "rx_discards_phy | port.rx_dropped | rx_dropped.nic | rx_missed_errors | rx_stat_discard | rx_discards", "Packets dropped as the card had no room: the host took them too slowly."),
    Metric("tx_discards", "nic", COUNTER, "int", "1", "tx_discards_phy | tx_stat_discard", "Packets discarded before they went out."),
    Metric("rx_out_of_buffer", "nic", COUNTER, "int", "1", "rx_out_of_buffer | rx_no_dma_resources | rx_no_buffer_count | rx_total_oom_discards", "Packets dropped as the host had posted no buffer."),
    Metric("rx_symbol_errors", "nic", COUNTER, "int", "1", "rx_symbol_err_phy", "Bad symbols on the link."),
    Metric("link_downs", "nic", COUNTER, "int", "1", "link_down_events_phy | link_down_events", "Times that the card saw the link go down."),
    Metric("bw_in_exceeded", "nic", COUNTER, "int", "1", "bw_in_allowance_exceeded", "Packets that the cloud held back or dropped: more received than the instance is allowed."),
    Metric("bw_out_exceeded", "nic", COUNTER, "int", "1", "bw_out_allowance_exceeded", "The same: more bytes sent than allowed."),
    Metric("pps_exceeded", "nic", COUNTER, "int", "1", "pps_allowance_exceeded", "The same: more packets than allowed."),
    Metric("conntrack_exceeded", "nic", COUNTER, "int", "1", "conntrack_allowance_exceeded", "Packets that the cloud dropped: more connections than it tracks for the instance."),
)  # fmt: skip


class Reader(object):
    """Asks the cards of the physical ports, as the source of ports named them."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._cards: Dict[str, Card] = {}
        self._values = array("Q", bytes(8 * (ROOM + 1)))

    def read(self) -> Reading:
        """Read all rows once.

        Raises:
            Absent: when no card counts any of them.
        """
        names = self._host.board.ports
        self._cards = {n: self._cards.get(n) or Card(self._host, n, self._values) for n in names}
        rows: List[Tuple[str, Labels, Values]] = []
        without: Dict[str, List[str]] = {}
        for turn, (name, card) in enumerate(self._cards.items()):
            found = card.read(turn)
            if found:
                rows.append(("nic", (name,), fill(ROWS, found)))
            else:
                without.setdefault(card.reason, []).append(name)
        text = "; ".join(told(who, len(names)) + ": " + why for why, who in without.items())
        if not rows:
            raise Absent(text or "no network port")
        missing = self._missing()
        if text:
            missing["ethtool.ports"] = text
        return Reading(rows, missing)

    def _missing(self) -> Dict[str, str]:
        """Tell of each row which of the cards that count something do not count it."""
        missing: Dict[str, str] = {}
        counting = [card for card in self._cards.values() if card.places]
        for row in ROWS:
            names = [card.name for card in counting if row.locator not in card.places]
            if names:
                missing["ethtool." + row.name] = told(names, len(counting)) + ": " + UNCOUNTED
        return missing


class Card(object):
    """One port's statistics.

    Attributes:
        name: of the port.
        places: locator to where its values stand in the driver's list.
        reason: why there are none; "" while there are.
    """

    def __init__(self, host: Host, name: str, values: Any) -> None:
        self.name = name
        self.places: Dict[str, List[int]] = {}
        self.reason = ""
        self._host = host
        self._values = values
        self._count = 0
        self._held: Dict[str, Any] = {}
        self._tick = 0

    def read(self, turn: int) -> Dict[str, Any]:
        """Return the raw reading of each locator; nothing where the card counts none of them.

        Args:
            turn: of this card, so that those that are read seldom are not read at once.
        """
        again = self._tick % AGAIN == 0
        seldom = self._count > MANY and (self._tick + turn) % SELDOM != 0
        self._tick += 1
        try:
            if again:
                self._learn()
            if self.places and (again or not seldom) and not self._take():
                self._learn()
                if self.places:
                    self._take()
        except OSError as error:
            self._held = {}
            self.places = {}
            self.reason = os.strerror(error.errno or 0)
            if error.errno == errno.EOPNOTSUPP:
                self.reason = "its driver has none"
            else:
                self._tick = AGAIN - SELDOM
        return self._held

    def _learn(self) -> None:
        """Ask how many statistics there are and what they are called."""
        request = array("B", bytes(64))
        struct.pack_into("=IIQ", request, 0, GSSET_INFO, 0, 1 << STATISTICS)
        self._host.ethtool(self.name, request)
        mask, count = struct.unpack_from("=QI", request, 8)
        self._count = count if mask else 0
        self.places = {}
        self.reason = ""
        if self._count > MAX_STATISTICS:
            self.reason = "more than %d statistics" % MAX_STATISTICS
        elif self._count:
            self.places = self._find(self._strings())
            self.reason = "" if self.places else "its driver counts none of these"
        else:
            self.reason = "its driver has none"
        if not self.places:
            self._held = {}

    def _strings(self) -> List[str]:
        request = array("B", bytes(12 + NAME * (self._count * 2 + 4096)))
        struct.pack_into("=III", request, 0, GSTRINGS, STATISTICS, self._count)
        self._host.ethtool(self.name, request)
        self._count = min(self._count, struct.unpack_from("=III", request, 0)[2])
        text = request.tobytes()[12 : 12 + NAME * self._count]
        names = (text[i : i + NAME].partition(b"\0")[0] for i in range(0, len(text), NAME))
        return [name.strip().decode("ascii", "replace") for name in names]

    def _find(self, names: List[str]) -> Dict[str, List[int]]:
        places = {name: place for place, name in enumerate(names)}
        chosen = {row.locator: pick(row.locator, places) for row in ROWS}
        return {locator: [places[n] for n in found] for locator, found in chosen.items() if found}

    def _take(self) -> bool:
        """Ask for the values; tell whether there are as many as names."""
        struct.pack_into("=II", self._values, 0, GSTATS, self._count)
        self._host.ethtool(self.name, self._values)
        if struct.unpack_from("=II", self._values, 0)[1] != self._count:
            self._held = {}
            return False
        self._held = {
            locator: sum(self._values[1 + place] for place in places)
            for locator, places in self.places.items()
        }
        return True
