import { QueryObserver } from "@tanstack/react-query";
import { expect, test } from "vitest";
import { Queries } from "./queryclient";

test("a change during the first answer is asked for again", async () => {
  const queries = new Queries();
  const answers: ((value: string) => void)[] = [];
  const queryFn = () => new Promise<string>((done) => answers.push(done));
  const observer = new QueryObserver(queries, { queryKey: ["files", "/a"], queryFn });
  const stop = observer.subscribe(() => {});
  const again = queries.invalidateQueries({ queryKey: ["files"] });
  answers[0]?.("before the change");
  await new Promise((done) => setTimeout(done, 10));
  expect(answers).toHaveLength(2);
  answers[1]?.("after it");
  await again;
  expect(observer.getCurrentResult().data).toBe("after it");
  stop();
});
