import { expect, test } from "vitest";
import { isSecret, keptOf, restored, withoutCredentials } from "./drafts";
import type { Spec } from "./spec";

const BASE: Spec = { cluster_name: "a", num_workers: 1, spark_conf: { "a.b": "1" } };

test("a draft is the same after a reload", () => {
  const draft: Spec = { cluster_name: "b", autoscale: { min_workers: 1, max_workers: 3 }, custom_tags: { team: "x" } };
  const kept = JSON.parse(JSON.stringify(keptOf(BASE, draft)));
  expect(restored(BASE, kept)).toEqual({ draft, conflicts: [], lost: [] });
});

test("what others have saved meanwhile stays, and is a conflict where both have changed it", () => {
  const kept = keptOf(BASE, { ...BASE, num_workers: 4 });
  const saved: Spec = { ...BASE, num_workers: 2, cluster_name: "theirs" };
  expect(restored(saved, kept)).toEqual({
    draft: { ...saved, num_workers: 4 },
    conflicts: [{ path: ["size"], mine: { num_workers: 4 }, theirs: { num_workers: 2 } }],
    lost: [],
  });
  expect(restored({ ...BASE, num_workers: 4 }, kept).conflicts).toEqual([]);
});

test("secrets are not kept, and are named", () => {
  const draft: Spec = { ...BASE, spark_env_vars: { DB: "hunter2", REF: "{{secrets/scope/key}}" } };
  const kept = keptOf(BASE, draft);
  expect(JSON.stringify(kept)).not.toContain("hunter2");
  const again = restored(BASE, kept);
  expect(again.lost).toEqual(["spark_env_vars DB"]);
  expect(again.draft.spark_env_vars).toEqual({ REF: "{{secrets/scope/key}}" });
});

test.each([
  [["spark_conf", "fs.azure.account.key.x"], "v", true],
  [["spark_conf", "spark.hadoop.fs.s3a.secret.key"], "v", true],
  [["spark_conf", "spark.hadoop.fs.s3a.secret.key"], "{{secrets/a/b}}", false],
  [["spark_conf", "spark.sql.shuffle.partitions"], "8", false],
  [["spark_env_vars", "ANY"], "v", true],
  [["custom_tags", "token"], "v", false],
  [["docker_image", "basic_auth"], { password: "v" }, true],
  [["cluster_name"], "secret", false],
])("%j with %j may be a secret: %s", (path, value, secret) => {
  expect(isSecret(path, value)).toBe(secret);
});

test("an index's password is not kept", () => {
  const libraries = [{ pypi: { package: "a", repo: "https://me:pw@index.example/simple" } }, { jar: "dbfs:/a.jar" }];
  expect(withoutCredentials(libraries)).toEqual([
    { pypi: { package: "a", repo: "https://index.example/simple" } },
    { jar: "dbfs:/a.jar" },
  ]);
});
