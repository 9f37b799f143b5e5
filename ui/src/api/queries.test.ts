import { QueryClient } from "@tanstack/react-query";
import { expect, test, vi } from "vitest";

const answers: ((value: Response) => void)[] = [];
vi.stubGlobal("location", { pathname: "/settings" });
vi.stubGlobal("fetch", () => new Promise<Response>((done) => answers.push(done)));
vi.stubGlobal(
  "Request",
  class extends Request {
    constructor(input: string, init: RequestInit) {
      super(new URL(input, "http://localhost"), init);
    }
  },
);
const { clustersQuery, refresh } = await import("./queries");
const { markGone } = await import("./gone");

const named = (name: string) => Response.json({ cluster_id: "a", cluster_name: name });

function listed() {
  const queries = new QueryClient();
  queries.setQueryData(clustersQuery.queryKey, [{ cluster_id: "a", cluster_name: "old" }] as never);
  answers.length = 0;
  return { queries, names: () => queries.getQueryData(clustersQuery.queryKey)?.map((each) => each.cluster_name) };
}

test("an answer that a later one has overtaken is dropped", async () => {
  const { queries, names } = listed();
  const reads = [refresh(queries, ["a"]), refresh(queries, ["a"])];
  await vi.waitFor(() => expect(answers).toHaveLength(2));
  answers[1]?.(named("new"));
  await reads[1];
  answers[0]?.(named("older"));
  await reads[0];
  expect(names()).toEqual(["new"]);
});

test("a late answer brings no deleted cluster back", async () => {
  const { queries, names } = listed();
  const late = refresh(queries, ["a"]);
  await vi.waitFor(() => expect(answers).toHaveLength(1));
  markGone("a", "The cluster was deleted.");
  await refresh(queries, ["a"]);
  expect(names()).toEqual([]);
  answers[0]?.(named("a"));
  await late;
  expect(names()).toEqual([]);
});

test("a list that was on its way before a change does not take the change back", async () => {
  const { queries, names } = listed();
  const list = queries.fetchQuery(clustersQuery);
  await vi.waitFor(() => expect(answers).toHaveLength(1));
  const changed = refresh(queries, ["b"]);
  await vi.waitFor(() => expect(answers).toHaveLength(2));
  answers[1]?.(Response.json({ cluster_id: "b", cluster_name: "new" }));
  await new Promise((done) => setTimeout(done, 20));
  const before = { cluster_id: "b", cluster_name: "old" };
  answers[0]?.(Response.json({ clusters: [before] }));
  await Promise.all([list, changed]);
  expect(names()).toEqual(["new"]);
});
