"""A taskset of verifiers as somebody else might write one: parcels are weighed by a tool, which remembers that it was asked."""

import verifiers.v1 as vf

from parcels.scales import ScalesState, ScalesToolset, weight_of

__all__ = ["Parcels"]


class ParcelData(vf.TaskData):
    answer: str


class ParcelTask(vf.Task[ParcelData, ScalesState]):
    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        return [ScalesToolset(vf.ToolsetConfig())]

    @vf.reward(weight=3.0)
    async def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.answer)

    @vf.reward(weight=1.0)
    async def weighed(self, trace: vf.Trace) -> float:
        return float(bool(trace.state.weighed))


class ParcelsConfig(vf.TasksetConfig):
    count: int = 10


class Parcels(vf.Taskset[ParcelTask, ParcelsConfig]):
    def load(self) -> list[ParcelTask]:
        return [
            ParcelTask(ParcelData(prompt=f"What does parcel {n} weigh?", answer=weight_of(n)), self.config.task)
            for n in range(self.config.count)
        ]
