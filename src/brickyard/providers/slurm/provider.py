"""Instances as Slurm's jobs.

Two places hold the record: the job's name, in Slurm, and the instance's directory in the storage, with the document that its
agent starts from. A job takes the document by renaming it, which only one can do. So however often a job is submitted or
requeued, there is one agent. Memory holds nothing that another server could not find there.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePath

import msgspec

from brickyard.domain.clock import SystemClock
from brickyard.domain.nodetypes import NodeType
from brickyard.machine import files
from brickyard.providers.base import (
    CapacityError,
    InvalidError,
    LaunchRequest,
    Observed,
    Provider,
    ProviderError,
    QuotaError,
    Setup,
    TransientError,
)
from brickyard.providers.engines.units import unit
from brickyard.providers.slurm import kinds, words
from brickyard.providers.slurm.jobs import Ask, Client, Job, Kind, job_name
from brickyard.providers.slurm.script import OUTPUT, UNIT, environment, script
from brickyard.providers.slurm.section import SlurmSection

_decode_kinds = msgspec.json.Decoder(list[Kind]).decode


PLACE = "slurm"  # in the storage: a directory for each instance
_KINDS = ".kinds.json"  # beside them: what Slurm said last of its partitions
_JOB, _ENDING = "job", "ending"  # in that: the job's number once Slurm has taken it, and why the instance is to end
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9-]{0,60}")
_TURNS = 64
FRESH_S, AGAIN_S = 30.0, 5.0  # how long what Slurm said of its partitions is believed, and after what time it is asked again
LAUNCH_S = 300.0  # no launch takes longer: a directory without a job that is older was left by a server that was killed
_TAIL = 2048


class SlurmProvider(Provider):
    """See `providers.base.Provider`. `python`: on the machines; `environ`: what jobs inherit from."""

    name = "slurm"
    where = "elsewhere"

    def __init__(
        self, *, setup: Setup, section: SlurmSection, client: Client, python: str, environ: Mapping[str, str] | None = None
    ) -> None:
        self._clock = SystemClock()
        self._setup = setup
        self._section = section
        self._client = client
        self._python = section.python or python
        self._environment = environment(os.environ if environ is None else environ)
        self._root = setup.settings.storage_dir / PLACE
        self._machines_root = PurePath(section.machine_storage_dir or setup.settings.storage_dir) / PLACE
        self._turns = [threading.Lock() for _ in range(_TURNS)]  # one call at a time for an instance
        self._prefix = job_name(setup.workspace_id, "")
        self._offers: tuple[kinds.Offer, ...] | None = None
        self._until_s = float("-inf")  # when Slurm is asked for its partitions again
        self._asking = threading.Lock()

    def node_types(self) -> Sequence[NodeType]:
        """See Provider.node_types. Slurm is asked every FRESH_S, in the background after the first time; while it does not
        answer, what it said last holds."""
        known = self._known() if self._offers is None else self._offers
        if time.monotonic() >= self._until_s and not self._asking.locked():
            threading.Thread(target=self._known, name="slurm-kinds", daemon=True).start()
        return tuple(each.node_type for each in known)

    def launch(self, request: LaunchRequest) -> None:
        """See Provider.launch."""
        instance_id = request.instance_id
        if not _ID.fullmatch(instance_id):
            raise InvalidError(f"{instance_id!r} cannot be the name of an instance")
        with self._turn(instance_id):
            try:
                self._launch(request, self._root / instance_id)
            except OSError as error:
                raise TransientError(f"instance {instance_id} cannot be recorded in {self._root}: {error}") from error

    def _launch(self, request: LaunchRequest, directory: Path) -> None:
        instance_id = request.instance_id
        if (directory / _ENDING).exists():
            raise InvalidError(f"instance {instance_id} was terminated and cannot be launched again")
        if (directory / _JOB).exists():
            return
        # Whoever makes the directory is the first to submit. Anybody else looks for the job of a server that was killed.
        if not directory.exists() and self._record(request, directory):
            known = None
        else:
            known = next(iter(self._client.jobs(self._name(instance_id))), None)
        if known is None and (directory / UNIT).exists():
            try:
                number = self._client.submit(self._ask(request))
            except (InvalidError, QuotaError, CapacityError):
                files.remove_tree(directory)  # what was refused does not exist
                raise
        else:
            number = known.job_id if known is not None else 0  # it has started already, and Slurm has forgotten it
        if directory.is_dir():
            _note(directory / _JOB, str(number))
        if number and (not directory.is_dir() or (directory / _ENDING).exists()):
            self._client.cancel([number])  # another server has terminated it meanwhile

    def _record(self, request: LaunchRequest, directory: Path) -> bool:
        """Makes the instance's directory, complete or not at all. False if there is one."""
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        draft = self._root / f".{request.instance_id}.{secrets.token_hex(4)}"
        draft.mkdir(mode=0o700)
        try:
            with os.fdopen(os.open(draft / UNIT, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600), "wb") as file:
                file.write(unit(request, self._setup, self._section))
                file.flush()
                os.fsync(file.fileno())  # another machine reads it next
            draft.rename(directory)
        except FileExistsError:
            return False
        except OSError as error:
            if directory.exists():
                return False
            raise error from None
        finally:
            files.remove_tree(draft)
        return True

    def _ask(self, request: LaunchRequest) -> Ask:
        instance_id, node_type = request.instance_id, request.node_type
        offer = self._offer(node_type.node_type_id)
        options = self._section.options(node_type.node_type_id)
        directory = self._machines_root / instance_id
        return Ask(
            name=self._name(instance_id),
            script=script(
                instance_id,
                directory,
                python=self._python,
                prelude=self._section.prelude,
                node_address=self._section.address == "node",
            ),
            directory=str(directory),
            output=str(directory / OUTPUT),
            environment=self._environment,
            cpus=int(offer.node_type.num_cores),
            memory_mb=offer.memory_mb,
            gres=offer.gres,
            partition=options.partition or offer.partition,
            constraint=options.constraint,
            account=options.account,
            qos=options.qos,
            reservation=options.reservation,
            licenses=options.licenses,
            nice=options.nice,
            limit_minutes=kinds.limit(offer, self._section),
        )

    def terminate(self, instance_id: str, *, reason: str) -> None:
        """See Provider.terminate."""
        if not _ID.fullmatch(instance_id):
            return
        directory = self._root / instance_id
        with self._turn(instance_id):
            try:
                if directory.is_dir() and not (directory / _ENDING).exists():
                    _note(directory / _ENDING, reason)
                left = [job.job_id for job in self._client.jobs(self._name(instance_id)) if not job.ended]
                if left:
                    self._client.cancel(left)
                else:
                    files.remove_tree(directory)
            except OSError as error:
                raise TransientError(f"the files of instance {instance_id} cannot be removed yet: {error}") from error

    def observe(self) -> Mapping[str, Observed]:
        """See Provider.observe. Files are looked at only for instances without a living job."""
        try:
            # First the directories, then the jobs: whatever is launched in between is in the second list.
            recorded = self._recorded()
            jobs, now_s = self._jobs(), self._clock.now_ms() / 1000
            found: dict[str, Observed] = {}
            for instance_id, ours in jobs.items():
                job = words.best(ours)
                if not job.ended:
                    found[instance_id] = words.observed(instance_id, job, now_s=now_s)
            left = [each for each in recorded if each not in found]
            forgotten = [each for each in left if each not in jobs and (self._root / each / _JOB).exists()]
            if forgotten:  # Slurm took their jobs, perhaps after the look above
                jobs = self._jobs()
            for instance_id in left:
                if (seen := self._without_job(instance_id, jobs.get(instance_id, ()), now_s=now_s)) is not None:
                    found[instance_id] = seen
        except OSError as error:
            raise TransientError(f"the instances in {self._root} cannot be listed: {error.strerror}") from error
        return found

    def _jobs(self) -> dict[str, list[Job]]:
        """The workspace's jobs, by instance."""
        found: dict[str, list[Job]] = {}
        for job in self._client.jobs():
            if job.name.startswith(self._prefix):
                found.setdefault(job.name.removeprefix(self._prefix), []).append(job)
        return found

    def _without_job(self, instance_id: str, jobs: Sequence[Job], *, now_s: float) -> Observed | None:
        """An instance that has files and perhaps jobs that have ended. None: it does not exist, or not yet."""
        directory = self._root / instance_id
        if jobs:
            job = words.best(jobs)
            return words.observed(instance_id, job, now_s=now_s, last_line=last_line(directory / OUTPUT))
        try:
            made_s = directory.stat().st_mtime
        except FileNotFoundError:
            return None  # it was terminated meanwhile
        if (directory / _JOB).exists():
            said = last_line(directory / OUTPUT)
            return Observed(
                instance_id=instance_id, alive=False, message="its Slurm job has ended" + (f": {said}" if said else "")
            )
        if now_s - made_s < LAUNCH_S and not (directory / _ENDING).exists():
            return None  # it is being launched
        return Observed(instance_id=instance_id, alive=False, message="its launch was not completed")

    def _recorded(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError), os.scandir(self._root) as entries:
            return [entry.name for entry in entries if not entry.name.startswith(".")]
        return []

    def _known(self) -> tuple[kinds.Offer, ...]:
        """What Slurm offers, asked anew if it is time to. May take as long as Slurm's answer."""
        with self._asking:
            if self._offers is None or time.monotonic() >= self._until_s:
                self._offers = self._ask_what_there_is()
            return self._offers

    def _ask_what_there_is(self) -> tuple[kinds.Offer, ...]:
        """While Slurm does not answer: what it said last, also to the server before this one."""
        file = self._root / _KINDS
        try:
            told = self._client.kinds()
            with contextlib.suppress(OSError):  # a full disk is no reason to offer nothing
                self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
                _note(file, msgspec.json.encode(told).decode())
            self._until_s = time.monotonic() + FRESH_S
        except ProviderError:
            self._until_s = time.monotonic() + AGAIN_S
            if self._offers:
                return self._offers
            try:
                told = _decode_kinds(file.read_bytes())
            except (OSError, msgspec.MsgspecError):
                told = []
        own = kinds.named(self._section, told)
        names = {each.node_type.node_type_id for each in own}
        return (*own, *(each for each in kinds.offers(told, self._section) if each.node_type.node_type_id not in names))

    def _offer(self, node_type_id: str) -> kinds.Offer:
        """What gives a machine of that type: asked anew if it is not known."""
        with contextlib.suppress(InvalidError):
            return kinds.find(node_type_id, self._known())
        self._until_s = float("-inf")
        return kinds.find(node_type_id, self._known())

    def _name(self, instance_id: str) -> str:
        return f"{self._prefix}{instance_id}"

    def _turn(self, instance_id: str) -> threading.Lock:
        return self._turns[hash(instance_id) % _TURNS]


def _note(path: Path, text: str) -> None:
    """Writes a file as a whole. Servers on several machines may do so at once."""
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    draft.write_text(text)
    draft.replace(path)


def last_line(path: Path) -> str:
    """What a job wrote last; "" if nothing."""
    try:
        with path.open("rb") as file:
            file.seek(max(0, path.stat().st_size - _TAIL))
            lines = file.read().decode(errors="replace").splitlines()
    except OSError:
        return ""
    told = [line.strip() for line in lines if line.strip() and not line.startswith(("slurmstepd:", "srun:"))]
    return told[-1][:500] if told else ""
