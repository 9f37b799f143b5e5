import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { createElement } from "react";
import { renderToString } from "react-dom/server";
import { afterEach, expect, it, vi } from "vitest";

// No browser draws here: `drawn` does what is done after drawing.
const { after } = vi.hoisted(() => {
  Object.assign(globalThis, { window: globalThis, location: { pathname: "/jobs", search: "" } });
  return { after: [] as (() => void)[] };
});
vi.mock("react", async (real) => ({
  ...(await real<typeof import("react")>()),
  useEffect: (effect: () => void) => void after.push(effect),
}));
vi.mock("../kit/toasts", () => ({ toast: () => {} }));
const { useSaving } = await import("./saving");

interface Draft {
  name: string;
  size: number;
}

const items = new Map<string, string>();
vi.stubGlobal("sessionStorage", {
  getItem: (key: string) => items.get(key) ?? null,
  setItem: (key: string, value: string) => void items.set(key, value),
  removeItem: (key: string) => void items.delete(key),
});
afterEach(() => items.clear());

/** The form of a pool as its page draws it, with what it holds by then. `server`: what is saved. */
function drawn(server: { saved: Draft }, draft: Draft) {
  const found: { saving?: ReturnType<typeof useSaving<Draft>> } = {};
  const initial = server.saved;
  const Form = () => {
    found.saving = useSaving<Draft>({
      ...{ noun: "pool", id: "p", user: "me", name: "p", initial, draft, setDraft: () => {} },
      fieldsOf: (of) => ({ ...of }),
      read: async () => ({ ...server.saved }),
      create: async () => "p",
      edit: async () => {
        server.saved = draft;
      },
      done: async () => {},
    });
    return null;
  };
  const client = new QueryClient();
  renderToString(createElement(QueryClientProvider, { client }, createElement(Form)));
  for (const effect of after.splice(0)) effect();
  const save = async () => {
    found.saving?.act();
    await vi.waitFor(() => expect(client.getMutationCache().getAll()[0]?.state.status).toMatch(/success|error/));
  };
  return { ...found, save };
}

it("saves a draft of before a reload", async () => {
  const server = { saved: { name: "pool", size: 1 } };
  drawn(server, { name: "renamed", size: 1 });
  const again = drawn(server, { name: "renamed", size: 1 });
  expect(again.saving?.restored).toBeDefined();
  await again.save();
  expect(server.saved).toEqual({ name: "renamed", size: 1 });
});

it("does not save a draft of before a reload over what somebody else has saved meanwhile", async () => {
  const server = { saved: { name: "pool", size: 1 } };
  drawn(server, { name: "renamed", size: 1 });
  server.saved = { name: "pool", size: 20 };
  const again = drawn(server, { name: "renamed", size: 1 });
  expect(again.saving?.restored).toBeDefined();
  await again.save();
  expect(server.saved).toEqual({ name: "pool", size: 20 });
});
