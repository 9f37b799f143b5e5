"""The storage as a directory: one server's (by default its data directory), or one that several servers mount."""

from __future__ import annotations

import contextlib
import os
import secrets
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from brickyard.machine import files, locks
from brickyard.machine.disk import Amount
from brickyard.machine.pressure import DBFS_FULL
from brickyard.storage import newnames
from brickyard.storage.private import WorkspaceError, create_private, prepare, unusable, write_private

if TYPE_CHECKING:
    from brickyard.storage.logs import KeptLogs

LOCK_PATIENCE_S = 2.0  # a mere check holds the lock for a moment
_CALLED = "storage directory"
_REMEDY = "choose another with storage_url"


class StorageInUse(WorkspaceError):
    """Another server uses the storage."""


class Storage:
    """The storage of one workspace. Creating the object reads and writes nothing."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._held: int | None = None

    # ── places: nodes mount some of them, so they are directories on every machine with nodes ───────────────────────────────────

    @property
    def trees(self) -> tuple[Path, ...]:
        """The workspace's files, all of them."""
        return (self.dbfs, self.volumes, self.workspace)

    @property
    def dbfs(self) -> Path:
        """The workspace's files at dbfs:/."""
        return self.root / "dbfs"

    @property
    def volumes(self) -> Path:
        """The workspace's files at /Volumes, below catalog, schema and volume."""
        return self.root / "volumes"

    @property
    def workspace(self) -> Path:
        """The workspace's files at /Workspace: notebooks and the files beside them."""
        return self.root / "workspace"

    @cached_property
    def logs(self) -> KeptLogs:
        """Logs of nodes that have ended."""
        from brickyard.storage.logs import KeptLogs  # noqa: PLC0415 - a tenth of a second of imports that commands do without

        return KeptLogs(self._logs)

    @property
    def _logs(self) -> Path:
        return self.root / "logs"

    @property
    def log_roots(self) -> dict[str, Path]:
        """The directories in which logs are delivered, by the kind of place."""
        return {"dbfs": self.dbfs, "volumes": self.volumes}

    @property
    def clusters(self) -> Path:
        """One directory per cluster, shared by all of its nodes."""
        return self.root / "clusters"

    @property
    def workspaces(self) -> Path:
        """One directory per cluster: its workspace directory (`current`), and what is needed to exchange that."""
        return self.root / "workspaces"

    @property
    def snapshots(self) -> Path:
        """Snapshots of workspace directories (storage/snapshots/). No cluster sees them."""
        return self.root / "snapshots"

    @property
    def metastore(self) -> Path:
        """What Spark knows of the workspace's tables. Agents and servers read and write it."""
        return self.root / "metastore"

    @property
    def notices(self) -> Path:
        """What servers tell all agents, such as that the workspace's files exceed their limit."""
        return (self.root / DBFS_FULL).parent

    @property
    def of_nodes(self) -> tuple[Path, ...]:
        """All that agents on other machines use. What is secret is elsewhere."""
        return (*self.trees, self.clusters, self.workspaces, self.metastore, self._logs, self.notices)

    @property
    def uploads(self) -> Path:
        """Files on their way into one of `trees`, on the same disk. No cluster sees them."""
        return self.root / "uploads"

    @property
    def multipart(self) -> Path:
        """Files of volumes that arrive in parts, on the same disk. No cluster sees them."""
        return self.root / "multipart"

    @property
    def versions(self) -> Path:
        """Earlier contents of notebooks. No cluster sees them."""
        return self.root / "versions"

    @property
    def statements(self) -> Path:
        """Results of SQL statements, for an hour. No cluster sees them."""
        return self.root / "statements"

    @property
    def instances(self) -> Path:
        """Instances of the local provider: all servers that use it are on one machine."""
        return self.root / "instances"

    @property
    def instances_lock(self) -> Path:
        """The lock for launching an instance and for deciding that one ends."""
        return self.root / "instances.lock"

    @property
    def switchboards(self) -> Path:
        """Which servers hold the switchboard of the instances' networks."""
        return self.root / "switchboards"

    @property
    def ways(self) -> Path:
        """Sockets into the networks of those instances."""
        return self.root / "ways"

    @property
    def kept(self) -> tuple[Path, ...]:
        """The directories that make up the workspace: what moves with it, and what a backup has."""
        uploads = (self.uploads, self.multipart, self.versions, self.statements)
        return (*self.trees, self.clusters, self.workspaces, self.snapshots, self.metastore, self._logs, *uploads)

    @property
    def simulated(self) -> Path:
        """The directory of the simulated world, if that is a separate process."""
        return self.root / "simulated"

    def instance_logs(self, instance_id: str) -> Path:
        """Logs of a local provider's instance while its node runs."""
        return self.instances / Path(instance_id).name / "node" / "logs"

    def cluster_directories(self) -> list[str]:
        """The ids of the clusters with a directory in `clusters` or `workspaces`."""
        from brickyard.storage.logs import directories  # noqa: PLC0415 - as above

        return sorted({path.name for top in (self.clusters, self.workspaces) for path in directories(top)})

    def remove_cluster(self, cluster_id: str) -> None:
        """Removes what a cluster's nodes shared. Raises OSError."""
        for top in (self.workspaces, self.clusters):
            files.remove_tree(top / Path(cluster_id).name)

    # ── secrets ─────────────────────────────────────────────────────────────────────────────────────────────────────────────

    def prepare(self, *, instead_of: Storage) -> str:
        """Makes the directory, private to its owner. `instead_of` is the data directory: it must not hold the workspace's files
        if the storage does not. Returns why its disk is full, or "". Raises WorkspaceError."""
        if instead_of._key_file.exists() and not self._key_file.exists():
            names = ", ".join(
                (
                    *(path.name for path in instead_of.kept),
                    "workspace.key",
                    "workspace.id",
                    "admin-token",
                    "secrets.key",
                    "agents-ca.pem",
                    "clients-ca.pem",
                )
            )
            raise WorkspaceError(
                f"the workspace's files are in {instead_of.root}, and storage_url is {self.root}, which has none. Stop all "
                f"servers and move there what exists of {names}; or correct storage_url."
            )
        return prepare(self.root, known=self._key_file.exists(), called=_CALLED, remedy=_REMEDY)

    def check_names(self) -> None:
        """Refuses a file system on which commits to tables could replace each other. Raises WorkspaceError."""
        try:
            why = newnames.trouble((self.root, *self.trees))
        except OSError as error:
            raise self._unusable(error) from error
        if why:
            raise WorkspaceError(f"cannot use the {_CALLED} {self.root}: {why}, or {_REMEDY}.")

    @property
    def _key_file(self) -> Path:
        return self.root / "workspace.key"

    @property
    def has_key(self) -> bool:
        """Whether the workspace's secret exists."""
        return self._key_file.exists()

    def key(self) -> bytes:
        """The workspace's 32-byte secret, created if there is none. Raises WorkspaceError."""
        path = self._key_file
        try:
            key = bytes.fromhex(create_private(path, secrets.token_hex(32)).strip())
        except ValueError:  # includes text that is not UTF-8
            key = b""
        except OSError as error:
            raise self._unusable(error) from error
        if len(key) != 32:
            raise WorkspaceError(
                f"{path} is damaged: it must hold 64 hex digits. Restore it from a backup; without a backup, remove it and run "
                "`brickyard adopt-storage`: a new one is created, tokens stop working and running nodes end."
            )
        return key

    @property
    def agents_authority_file(self) -> Path:
        """The file with the authority that agents on other machines trust (nodes/authority.py)."""
        return self.root / "agents-ca.pem"

    @property
    def clients_authority_file(self) -> Path:
        """The file with the authority that clients trust (the same): made by the first server that has the setting `tls`."""
        return self.root / "clients-ca.pem"

    @property
    def secrets_key_file(self) -> Path:
        """The file with the key that encrypts secrets (storage/vault.py); made with the first secret."""
        return self.root / "secrets.key"

    @property
    def admin_token_file(self) -> Path:
        """The file with the administrator's token."""
        return self.root / "admin-token"

    @property
    def key_files(self) -> tuple[Path, ...]:
        """All files with keys and tokens."""
        authorities = (self.agents_authority_file, self.clients_authority_file)
        return (self._key_file, self.admin_token_file, self.secrets_key_file, *authorities)

    @property
    def restoring_file(self) -> Path:
        """Is there while a backup is being restored: until that is complete, no server may make a new workspace here."""
        return self.root / "restoring"

    @property
    def drafts(self) -> Path:
        """What is being restored, until all of it is there and checked."""
        return self.root / "restoring.d"

    def end_restoring(self) -> None:
        """Removes both. Raises WorkspaceError."""
        try:
            files.remove_tree(self.drafts)
            self.restoring_file.unlink(missing_ok=True)
        except OSError as error:
            raise self._unusable(error) from error

    def admin_token(self, given: str) -> tuple[str, bool]:
        """The administrator's token, and whether it has just been created. A given token replaces the stored one: the server
        started last decides for all. Raises WorkspaceError."""
        path = self.admin_token_file
        made = "dapi" + secrets.token_hex(16)
        try:
            stored = create_private(path, (given or made) + "\n").strip()
            if not stored or (given and stored != given):
                stored = given or made
                write_private(path, stored + "\n")
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error
        return stored, stored == made

    def stored_token(self) -> str:
        """The administrator's token of a workspace that has been started before. Raises WorkspaceError."""
        try:
            return self.admin_token_file.read_text().strip()
        except FileNotFoundError as error:
            raise WorkspaceError(f"{self.root} has no admin token: start the workspace once with `brickyard up`.") from error
        except (OSError, UnicodeDecodeError) as error:
            raise self._unreadable(error) from error

    # ── owner ───────────────────────────────────────────────────────────────────────────────────────────────────────────────────

    @property
    def id_file(self) -> Path:
        """The file with the id of the workspace that owns the storage."""
        return self.root / "workspace.id"

    def workspace_id(self) -> str:
        """The id of the workspace that owns the storage; "" if none does yet. Raises WorkspaceError."""
        try:
            return self.id_file.read_text().strip()
        except FileNotFoundError:
            return ""
        except (OSError, UnicodeDecodeError) as error:
            raise WorkspaceError(f"cannot read {self.id_file}: {error}. Run as the user who owns it.") from error

    def belong_to(self, workspace_id: str) -> str:
        """Writes the id of its workspace, unless the storage has one; returns the one that it has then. Raises WorkspaceError."""
        try:
            return create_private(self.id_file, workspace_id + "\n").strip()
        except OSError as error:
            raise self._unusable(error) from error

    def traces(self) -> list[str]:
        """The names of what only a workspace's server makes here, besides `workspace.id`. Raises WorkspaceError."""
        trees = (self.clusters, self.workspaces, self.snapshots, self.metastore)
        try:
            return [path.name for path in (*self.key_files, self.restoring_file) if path.exists()] + [
                tree.name for tree in trees if holds_anything(tree)
            ]
        except OSError as error:
            raise self._unusable(error) from error

    def hold(self, *, alone: bool, patience_s: float = LOCK_PATIENCE_S) -> None:
        """Marks the storage as used by a server until `close` or the end of this process; with `alone`, no other server may use
        it. A server with a private database must be alone: it would end nodes that only another database knows. May be called
        again for the other mode. Raises StorageInUse, which is a WorkspaceError; nothing is held then.
        """
        if self._held is None:
            try:
                self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
                self._held = os.open(self.root / "storage.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            except OSError as error:
                raise self._unusable(error) from error
        try:
            taken = locks.take(self._held, shared=not alone, patience_s=patience_s)
        except OSError as error:
            self.close()
            raise self._unusable(error) from error
        if not taken:
            self.close()
            raise StorageInUse(
                f"another server with another database uses the storage {self.root}. Servers of one workspace have the same "
                "database_url, which is PostgreSQL; give another workspace another storage_url."
            )

    def trouble(self) -> str:
        """Whether the directory that is held is still where it was: it may be removed, or another one mounted over it, and then
        files are written where nobody finds them. "" if all is well, or if nothing is held. Blocks."""
        if (handle := self._held) is None:
            return ""
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            found, held = (self.root / "storage.lock").stat(), os.fstat(handle)
            if (found.st_dev, found.st_ino) == (held.st_dev, held.st_ino):
                return ""
        return f"the storage {self.root} was removed or replaced while the server runs"

    def close(self) -> None:
        """Ends `hold`."""
        handle, self._held = self._held, None
        if handle is not None:
            os.close(handle)

    # ── the size of the workspace's files ───────────────────────────────────────────────────────────────────────────────────────

    def tell_dbfs_size(self, used: Amount, *, full: bool) -> None:
        """Publishes the size of the workspace's files to all servers, and to the nodes whether it exceeds the limit. Best effort:
        if the disk is full, its own floor still applies."""
        with contextlib.suppress(OSError):
            flag = self.root / DBFS_FULL
            flag.parent.mkdir(mode=0o700, exist_ok=True)
            flag.touch() if full else flag.unlink(missing_ok=True)
            files.write_atomic(self.root / "dbfs.size", f"{used.size} {used.inodes}\n".encode())

    def dbfs_size(self) -> Amount:
        """The last published size; nothing if there is none yet."""
        try:
            return Amount(*map(int, (self.root / "dbfs.size").read_text().split()))
        except (OSError, TypeError, ValueError):
            return Amount()

    def _unusable(self, error: OSError) -> WorkspaceError:
        return unusable(self.root, error, called=_CALLED, remedy=_REMEDY)

    def _unreadable(self, error: Exception) -> WorkspaceError:
        return WorkspaceError(f"cannot use {self.admin_token_file}: {error}. Run as the user who started the server.")


def holds_anything(directory: Path) -> bool:
    """Whether there is anything in the directory. A missing one holds nothing."""
    try:
        with os.scandir(directory) as entries:
            return next(entries, None) is not None
    except FileNotFoundError:
        return False
