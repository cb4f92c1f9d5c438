"""Its tool server, a program of its own."""

import verifiers.v1 as vf


class ScalesState(vf.State):
    weighed: list[int] = []


def weight_of(parcel: int) -> str:
    return f"{7 * parcel + 3} g"


class ScalesToolset(vf.Toolset[vf.ToolsetConfig, ScalesState]):
    TOOL_PREFIX = "scales"

    @vf.tool
    async def weigh(self, parcel: int) -> str:
        """Weigh a parcel."""
        self.state.weighed.append(parcel)
        return weight_of(parcel)


if __name__ == "__main__":
    ScalesToolset.run()
