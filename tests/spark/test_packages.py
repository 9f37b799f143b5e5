"""What notebooks usually import, on a real cluster: the second layer of the default runtime's packages."""

from __future__ import annotations

import json

import pytest

from brickyard.runtime import catalogue
from brickyard.runtime.packages import install_packages, lock_file
from tests.spark.shared import Lent
from tests.support import layers
from tests.support.runtimes import cache_dir

pytestmark = pytest.mark.spark

CODE = """
import importlib.metadata, json
import boto3, joblib, plotly.graph_objects, requests, scipy.stats, sklearn.linear_model, yaml, matplotlib, pandas, pyarrow
from databricks.sdk import WorkspaceClient
from botocore.stub import Stubber

client = boto3.client("s3", region_name="us-east-1", aws_access_key_id="a", aws_secret_access_key="b")
with Stubber(client) as stub:
    stub.add_response("list_buckets", {"Buckets": []})
    assert client.list_buckets()["Buckets"] == []

def on_a_worker(number):
    from sklearn.linear_model import LinearRegression
    return float(LinearRegression().fit([[0.0], [1.0]], [0.0, 2.0]).predict([[number]])[0])

assert round(sc.parallelize([2.0], 1).map(on_a_worker).collect()[0], 6) == 4.0
print(json.dumps({name: importlib.metadata.version(name) for name in NAMES}))
"""


def test_what_notebooks_import_is_there_in_the_locked_versions(lent_single: Lent) -> None:
    environment = next(row.environment for row in catalogue.rows() if row.key == "17.3.x-scala2.13")
    install_packages(environment, cache_dir=cache_dir())  # `./dev test` has installed it: this only looks
    locked = layers.versions(lock_file(environment))
    names = ["boto3", "databricks-sdk", "joblib", "plotly", "pyyaml", "requests", "scikit-learn", "scipy"]
    found = json.loads(lent_single.run(f"NAMES = {names!r}\n{CODE}"))
    assert all(found[name] in locked[name] for name in names), found
