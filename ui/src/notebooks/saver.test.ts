import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { ApiError } from "../api/client";
import { Overtaken, type Stored } from "./calls";
import { Drafts } from "./drafts";
import { Saver } from "./saver";
import { Kept } from "./testing";

// What the API's client and the saver take from a browser when they are loaded.
vi.hoisted(() =>
  Object.assign(globalThis, { window: globalThis, location: { pathname: "/workspace/notebook", search: "" } }),
);
beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** A workspace with one notebook. `fails`: what the next writes throw. */
class Workspace {
  source = "begin";
  etag = 1;
  gone = false;
  readonly writes: string[] = [];
  readonly fails: unknown[] = [];

  stored = (): Stored => ({
    objectId: 1,
    language: "python",
    source: this.source,
    etag: String(this.etag),
    modified: this.etag,
  });

  read = async () => {
    if (this.gone) throw new ApiError(404, "RESOURCE_DOES_NOT_EXIST", "gone", "");
    return this.stored();
  };

  write = async ({ source, base }: { source: string; base?: Pick<Stored, "etag" | "source"> }) => {
    if (this.fails.length > 0) throw this.fails.shift();
    if (base && this.gone) throw new ApiError(404, "RESOURCE_DOES_NOT_EXIST", "gone", "");
    if (base && base.etag !== String(this.etag) && source !== this.source) throw new Overtaken();
    this.gone = false;
    this.writes.push(source);
    this.change(source);
    return String(this.etag);
  };

  change(source: string) {
    this.source = source;
    this.etag++;
  }
}

function opened(workspace = new Workspace(), storage = new Kept(), tab = "one") {
  const page = { text: workspace.source };
  const drafts = new Drafts("me", "/n", tab, storage, async () => new Set([tab]));
  const saver = new Saver("/n", workspace.stored(), drafts, () => page.text, workspace);
  const type = (text: string) => {
    page.text = text;
    saver.edited();
  };
  return { workspace, storage, drafts, saver, page, type };
}

const passed = (ms: number) => vi.advanceTimersByTimeAsync(ms);

it("saves a moment after the last key, and forgets the draft then", async () => {
  const { workspace, saver, drafts, type } = opened();
  type("a");
  await passed(1000);
  type("ab");
  await passed(1000);
  expect([workspace.writes, saver.state.get().kind, drafts.read()?.source]).toEqual([[], "waiting", "ab"]);
  await passed(500);
  expect([workspace.writes, saver.state.get().kind, drafts.read()]).toEqual([["ab"], "saved", undefined]);
  expect(saver.base).toMatchObject({ source: "ab", etag: "2" });
});

it("saves while somebody types without a pause", async () => {
  const { workspace, type } = opened();
  for (let at = 0; at < 21; at++) {
    type(`${at}`);
    await passed(500);
  }
  expect(workspace.writes).toHaveLength(1);
});

it("saves what was typed while it saved", async () => {
  const { workspace, saver, type } = opened();
  let go = () => {};
  const write = workspace.write;
  workspace.write = async (asked) => {
    await new Promise<void>((done) => {
      go = done;
    });
    return write(asked);
  };
  type("a");
  void saver.flush();
  await passed(0);
  type("ab");
  go();
  await passed(1500);
  go();
  await passed(0);
  expect([workspace.writes, saver.state.get().kind]).toEqual([["a", "ab"], "saved"]);
});

it("tries again while the server is away, and keeps the text", async () => {
  const { workspace, saver, drafts, type } = opened();
  workspace.fails.push(new TypeError("Failed to fetch"), new ApiError(503, "TEMPORARILY_UNAVAILABLE", "later", ""));
  type("a");
  await passed(1500);
  expect([saver.state.get().kind, drafts.read()?.source]).toEqual(["trouble", "a"]);
  await passed(5000);
  expect(saver.state.get().kind).toBe("trouble");
  await passed(5000);
  expect([workspace.source, saver.state.get().kind, drafts.read()]).toEqual(["a", "saved", undefined]);
});

it("waits for an edit after a refusal", async () => {
  const { workspace, saver, type } = opened();
  workspace.fails.push(new ApiError(403, "PERMISSION_DENIED", "no", ""));
  type("a");
  await passed(60_000);
  expect(saver.state.get()).toEqual({ kind: "refused", why: "no" });
  type("ab");
  await passed(1500);
  expect(workspace.source).toBe("ab");
});

it("does not overwrite what somebody else has saved", async () => {
  const { workspace, saver, drafts, page, type } = opened();
  workspace.change("theirs");
  type("mine");
  await passed(1500);
  expect(saver.state.get()).toMatchObject({ kind: "conflict", theirs: { source: "theirs" } });
  type("mine, too");
  await passed(60_000);
  expect([workspace.source, drafts.read()?.source]).toEqual(["theirs", "mine, too"]);
  await saver.keepMine();
  expect([workspace.source, saver.state.get().kind]).toEqual(["mine, too", "saved"]);

  workspace.change("theirs again");
  type("mine again");
  await passed(1500);
  saver.takeTheirs();
  page.text = saver.base.source;
  await passed(60_000);
  expect([workspace.source, page.text, saver.state.get().kind, drafts.read()]).toEqual([
    "theirs again",
    "theirs again",
    "saved",
    undefined,
  ]);
});

it("takes the same text of somebody else for its own", async () => {
  const { workspace, saver, type } = opened();
  workspace.write = async () => {
    throw new Overtaken();
  };
  workspace.change("same");
  type("same");
  await passed(1500);
  await passed(10);
  expect(saver.state.get().kind).toBe("saved");
});

it("saves a deleted notebook again only when asked", async () => {
  const { workspace, saver, type } = opened();
  workspace.gone = true;
  type("a");
  await passed(60_000);
  expect([saver.state.get(), workspace.writes]).toEqual([{ kind: "conflict", theirs: undefined }, []]);
  await saver.keepMine();
  expect([workspace.writes, saver.state.get().kind]).toEqual([["a"], "saved"]);
});

it("goes on with its own draft after a reload", async () => {
  const before = opened();
  before.workspace.fails.push(...Array.from({ length: 9 }, () => new TypeError("away")));
  before.type("typed");
  await passed(1500);
  before.workspace.fails.length = 0;
  const after = opened(before.workspace, before.storage);
  expect(after.saver.restore()).toBe("typed");
  after.page.text = "typed";
  await passed(1500);
  expect([after.workspace.source, after.drafts.read()]).toEqual(["typed", undefined]);
});

it("asks about a draft of content that somebody has changed since", () => {
  const { workspace, storage, drafts } = opened();
  drafts.write({ source: "typed", base: { etag: "1", source: "" }, at: 1 });
  workspace.change("theirs");
  const { saver } = opened(workspace, storage);
  expect(saver.restore()).toBe("typed");
  expect(saver.state.get()).toMatchObject({ kind: "conflict", theirs: { source: "theirs" } });
});

it("takes over the draft of a closed tab, and only without one of its own", async () => {
  const { workspace, storage, drafts } = opened();
  drafts.write({ source: "of one", base: { etag: "1", source: "" }, at: 1 });
  const two = opened(workspace, storage, "two");
  const [other] = await two.drafts.others();
  expect(two.saver.restore(other)).toBe("of one");
  expect([drafts.read(), two.drafts.read()?.source]).toEqual([undefined, "of one"]);

  const three = opened(workspace, storage, "three");
  three.drafts.write({ source: "of three", base: { etag: "1", source: "" }, at: 2 });
  const [another] = await three.drafts.others();
  expect(three.saver.restore(another)).toBe("of three");
  expect(two.drafts.read()?.source).toBe("of one");
});

it("leaves the other tab's draft where its own cannot be kept", async () => {
  const { workspace, storage, drafts } = opened();
  drafts.write({ source: "typed", base: { etag: "1", source: "" }, at: 1 });
  storage.full = true;
  const two = opened(workspace, storage, "two");
  const [other] = await two.drafts.others();
  expect(two.saver.restore(other)).toBe("typed");
  expect(drafts.read()?.source).toBe("typed");
  two.page.text = "typed more";
  two.saver.edited();
  await passed(300);
  expect(two.saver.atRisk.get()).toBe(true);
});

it("shows what somebody else has saved unless something is typed here", async () => {
  const { workspace, saver, type } = opened();
  expect(await saver.newer(workspace.etag)).toBeUndefined();
  workspace.change("theirs");
  expect((await saver.newer(workspace.etag))?.source).toBe("theirs");
  workspace.change("theirs again");
  type("mine");
  expect(await saver.newer(workspace.etag)).toBeUndefined();
});

/** A call that is held until it is let go. */
function held<A extends unknown[], T>(call: (...args: A) => Promise<T>) {
  let go = () => {};
  const open = new Promise<void>((done) => {
    go = done;
  });
  const calls = async (...args: A) => {
    await open;
    return call(...args);
  };
  return { calls, go };
}

it("does not take its own text for somebody else's while it replaces theirs", async () => {
  const { workspace, saver, type } = opened();
  workspace.change("theirs");
  type("mine");
  await passed(1500);
  const { calls, go } = held(workspace.write);
  workspace.write = calls;
  const kept = saver.keepMine();
  await passed(0);
  type("mine, and more");
  await passed(3000);
  go();
  await kept;
  await passed(3000);
  expect([workspace.writes, saver.state.get()]).toEqual([["mine", "mine, and more"], { kind: "saved" }]);
});

it("drops what it has read of the workspace before its own save", async () => {
  const { workspace, saver, type } = opened();
  const before = workspace.stored();
  const { calls, go } = held(async () => before);
  workspace.read = calls;
  const newer = saver.newer(0);
  type("mine");
  await passed(1500);
  expect(saver.state.get().kind).toBe("saved");
  go();
  expect(await newer).toBeUndefined();
  expect(saver.base).toMatchObject({ source: "mine", etag: "2" });
});
