"""The steps that bring a node to its assignment, one file per step: how to do it, what to report meanwhile, its time limit and
its failure code. `converge.py` decides which step is next, `node.py` does it.

A new step needs a file here, a line in `LADDER`, a member of `converge.Step`, and a place in `converge.decide`.
"""

from __future__ import annotations

from collections.abc import Mapping

from brickyard.agent.converge import Step
from brickyard.agent.steps import (
    begin,
    close,
    cool,
    host,
    install,
    join,
    libraries,
    release,
    retire,
    scripts,
    start,
    take,
    tell_master,
    warm,
)
from brickyard.agent.steps.work import Work

LADDER: Mapping[Step, Work] = {
    Step.RELEASE: release.WORK,
    Step.BEGIN: begin.WORK,
    Step.INSTALL: install.WORK,
    Step.HOST: host.WORK,
    Step.SCRIPTS: scripts.WORK,
    Step.START: start.WORK,
    Step.LIBRARIES: libraries.WORK,
    Step.JOIN: join.WORK,
    Step.TELL_MASTER: tell_master.WORK,
    Step.RETIRE: retire.WORK,
    Step.CLOSE: close.WORK,
    Step.WARM: warm.WORK,
    Step.COOL: cool.WORK,
    Step.TAKE: take.WORK,
}
