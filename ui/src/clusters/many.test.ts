import { expect, test, vi } from "vitest";

vi.mock("../kit/toasts", () => ({ progress: vi.fn(() => ({ update: vi.fn(), end: vi.fn() })) }));
vi.mock("../api/client", () => ({
  ApiError: class extends Error {
    constructor(
      readonly status: number,
      message = "",
    ) {
      super(message);
    }
  },
  words: (error: Error) => error.message,
}));

const { ApiError, ...client } = await import("../api/client");
const { progress } = await import("../kit/toasts");
const { actOnAll, patiently } = await import("./many");
type Cluster = import("../api/client").Cluster;
const Refusal = ApiError as unknown as new (status: number, message?: string) => Error;

const clusters = (number: number) => Array.from({ length: number }, (_, at) => ({ cluster_id: `c${at}` }) as Cluster);

test("ten thousand are done, a few at a time, and what is refused is told", async () => {
  let now = 0;
  let most = 0;
  const call = async (id: string) => {
    most = Math.max(most, ++now);
    await Promise.resolve();
    now -= 1;
    if (id === "c7") throw new Error("no");
  };
  const outcome = await actOnAll(clusters(10_000), { label: "Stop", call });
  expect(outcome).toMatchObject({ done: 9_999, left: 0, refused: [{ why: "no", cluster: { cluster_id: "c7" } }] });
  expect(most).toBeLessThanOrEqual(4);
  expect(client.words(new Error("x"))).toBe("x");
});

test("the reader can skip the rest", async () => {
  const shown = vi.mocked(progress);
  shown.mockClear();
  let calls = 0;
  const outcome = await actOnAll(clusters(100), {
    label: "Stop",
    call: async () => {
      if (++calls === 20) shown.mock.calls[0]?.[1].act();
    },
  });
  expect(outcome.left).toBe(100 - calls);
  expect(calls).toBeLessThan(30);
});

test("a few show no progress", async () => {
  vi.mocked(progress).mockClear();
  await actOnAll(clusters(9), { label: "Stop", call: async () => {} });
  expect(progress).not.toHaveBeenCalled();
});

test("a busy server is asked again, and a refusal is not", async () => {
  let calls = 0;
  const busy = async () => {
    if (++calls < 3) throw new Refusal(429);
    return "done";
  };
  expect(await patiently(busy, [0, 0, 0])).toBe("done");
  calls = 0;
  const refuses = async () => {
    calls += 1;
    throw new Refusal(403, "no");
  };
  await expect(patiently(refuses, [0, 0])).rejects.toThrow("no");
  expect(calls).toBe(1);
});
