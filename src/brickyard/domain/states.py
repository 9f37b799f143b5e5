"""Public states and related small enums, with the API's names."""

from __future__ import annotations

from enum import StrEnum


class State(StrEnum):
    ERROR = "ERROR"
    PENDING = "PENDING"
    RESIZING = "RESIZING"
    RESTARTING = "RESTARTING"
    RUNNING = "RUNNING"
    TERMINATED = "TERMINATED"
    TERMINATING = "TERMINATING"
    UNKNOWN = "UNKNOWN"


class ClusterSource(StrEnum):
    API = "API"
    JOB = "JOB"
    MODELS = "MODELS"
    PIPELINE = "PIPELINE"
    PIPELINE_MAINTENANCE = "PIPELINE_MAINTENANCE"
    SQL = "SQL"
    UI = "UI"


class GetEventsOrder(StrEnum):
    ASC = "ASC"
    DESC = "DESC"


class ListClustersSortByDirection(StrEnum):
    ASC = "ASC"
    DESC = "DESC"


class ListClustersSortByField(StrEnum):
    CLUSTER_NAME = "CLUSTER_NAME"
    DEFAULT = "DEFAULT"


class Language(StrEnum):
    PYTHON = "python"
    R = "r"
    SCALA = "scala"
    SQL = "sql"


class ContextStatus(StrEnum):
    ERROR = "Error"
    PENDING = "Pending"
    RUNNING = "Running"


class CommandStatus(StrEnum):
    CANCELLED = "Cancelled"
    CANCELLING = "Cancelling"
    ERROR = "Error"
    FINISHED = "Finished"
    QUEUED = "Queued"
    RUNNING = "Running"


class ResultType(StrEnum):
    ERROR = "error"
    IMAGE = "image"
    IMAGES = "images"
    TABLE = "table"
    TEXT = "text"
