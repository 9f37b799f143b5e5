import { expect, test } from "vitest";
import { inTurns } from "./turns";

const soon = () => new Promise<void>((done) => setTimeout(done));

test("each item gets its turn once, and no more than the limit at a time", async () => {
  const items = Array.from({ length: 1000 }, (_, at) => at);
  const done: number[] = [];
  let now = 0;
  let most = 0;
  const begun = await inTurns(items, 8, async (item) => {
    now += 1;
    most = Math.max(most, now);
    await soon();
    now -= 1;
    done.push(item);
  });
  expect(begun).toBe(1000);
  expect(most).toBe(8);
  expect(new Set(done).size).toBe(1000);
});

test("after a stop, what was begun ends and nothing else begins", async () => {
  const stop = new AbortController();
  const done: number[] = [];
  const begun = await inTurns(
    Array.from({ length: 100 }, (_, at) => at),
    4,
    async (item) => {
      await soon();
      done.push(item);
      if (item === 10) stop.abort();
    },
    stop.signal,
  );
  expect(begun).toBe(done.length);
  expect(begun).toBeLessThan(20);
});

test("nothing to do", async () => {
  expect(await inTurns([], 4, soon)).toBe(0);
});
