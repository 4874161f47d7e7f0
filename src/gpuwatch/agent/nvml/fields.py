"""Field values: all counters of one GPU in one call, each with a return code of its own."""

from typing import Any, Dict, Iterable, List

from gpuwatch.agent.nvml.locator import NOT_SUPPORTED, VALUE_OF_TYPE, Answer, Call, why

ASK_AGAIN = 60
"""Readings after which a field that a GPU does not support is asked for again: modes change."""


class Fields(object):
    """Reads them, leaving out what a GPU said it does not have.

    Args:
        nvml: the module pynvml.
        calls: of the kind `field`: its number, and a scope.
    """

    def __init__(self, nvml: Any, calls: Iterable[Call]) -> None:
        self._nvml = nvml
        self._calls = sorted(calls)
        self._refused: Dict[int, Dict[Call, Answer]] = {}
        self._turns: Dict[int, int] = {}

    def read(self, index: int, device: Any) -> Dict[Call, Answer]:
        """Return the answer to each call; raises what the call as a whole raises."""
        turn = self._turns[index] = self._turns.get(index, -1) + 1
        if turn % ASK_AGAIN == 0:
            self._refused[index] = {}
        refused = self._refused[index]
        asked = [call for call in self._calls if call not in refused]
        answers = dict(refused)
        values = self._values(device, asked) if asked else []
        for place, call in enumerate(asked):
            answers[call] = values[place]
            if values[place] == NOT_SUPPORTED:
                refused[call] = NOT_SUPPORTED
        return answers

    def forget(self, index: int) -> None:
        """Take it that this is another GPU now."""
        self._turns.pop(index, None)

    def _values(self, device: Any, asked: List[Call]) -> List[Answer]:
        fields = [(call.arguments + (0,))[:2] for call in asked]
        return [self._answer(v) for v in self._nvml.nvmlDeviceGetFieldValues(device, fields)]

    def _answer(self, value: Any) -> Answer:
        if value.nvmlReturn:
            return why(self._nvml.NVMLError(value.nvmlReturn))
        if value.valueType >= len(VALUE_OF_TYPE):
            return "of unknown type %d" % value.valueType
        answer: Answer = getattr(value.value, VALUE_OF_TYPE[value.valueType])
        return answer
