import { expect, it } from "vitest";
import { type Draft, Drafts } from "./drafts";
import { Kept } from "./testing";

const PATH = "/Users/me/a [b].c";
const draft = (source: string, at = 1): Draft => ({ source, base: { etag: "1", source: "" }, at });

function tabs(...open: string[]) {
  const storage = new Kept();
  const drafts = (tab: string, path = PATH, user = "me") =>
    new Drafts(user, path, tab, storage, async () => new Set(open));
  return { storage, drafts };
}

it("keeps a draft for each tab, notebook and user", async () => {
  const { drafts } = tabs("one", "two");
  for (const each of [drafts("one"), drafts("two"), drafts("one", "/other"), drafts("one", PATH, "you")])
    expect(each.write(draft(`${each.user} ${each.path} ${each.tab}`))).toBe(true);
  expect(drafts("one").read()?.source).toBe(`me ${PATH} one`);
  expect((await drafts("one").others()).map((each) => each.source)).toEqual([`me ${PATH} two`]);
  drafts("one").forget(`me ${PATH} one`);
  expect(drafts("one").read()).toBeUndefined();
  expect(drafts("two").read()?.source).toBe(`me ${PATH} two`);
  expect(drafts("one", "/other").read()?.source).toBe("me /other one");
});

it("tells which tab is closed, the newest draft first", async () => {
  const { drafts } = tabs("here", "open");
  drafts("gone").write(draft("old", 1));
  drafts("open").write(draft("new", 2));
  const told = (await drafts("here").others()).map(({ tab, closed }) => [tab, closed]);
  expect(told).toEqual([
    ["open", false],
    ["gone", true],
  ]);
});

it("takes no tab for closed in a browser that does not tell", async () => {
  const { storage, drafts } = tabs();
  drafts("gone").write(draft("text"));
  const [other] = await new Drafts("me", PATH, "here", storage, async () => undefined).others();
  expect(other?.closed).toBe(false);
});

it("forgets only what it means", () => {
  const { drafts } = tabs();
  drafts("one").write(draft("new"));
  drafts("two").forget("old", "one");
  expect(drafts("one").read()?.source).toBe("new");
  drafts("two").forget("new", "one");
  expect(drafts("one").read()).toBeUndefined();
});

it("lives with a storage that is full, absent, or holds something else", async () => {
  const { storage, drafts } = tabs();
  drafts("one").write(draft("x"));
  for (const key of storage.items.keys()) storage.items.set(key, "{");
  storage.items.set("brickyard.notebook.draft.nonsense", "{}");
  expect(drafts("one").read()).toBeUndefined();
  expect(await drafts("two").others()).toEqual([]);
  storage.full = true;
  expect(drafts("one").write(draft("y"))).toBe(false);
  const without = new Drafts("me", PATH, "one", undefined, async () => undefined);
  expect([without.write(draft("z")), without.read(), await without.others()]).toEqual([false, undefined, []]);
});
