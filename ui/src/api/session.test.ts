import { afterEach, expect, test, vi } from "vitest";
import { SessionStore } from "./session";

vi.mock("./early", () => ({ early: () => undefined }));

/** Who is logged in; "": nobody. */
function loggedIn(user: string) {
  const body = JSON.stringify({ user_name: user, csrf_token: `token of ${user}` });
  vi.stubGlobal("fetch", () => Promise.resolve(new Response(body, { status: user ? 200 : 401 })));
}

afterEach(() => vi.unstubAllGlobals());

test("a session that has ended goes on once its user has logged in again", async () => {
  const session = new SessionStore();
  loggedIn("ann");
  expect((await session.get()).csrf_token).toBe("token of ann");
  session.expire();
  loggedIn("");
  expect(await session.renew()).toBe(false);
  expect(session.expired.get()).toBe(true);
  loggedIn("ann");
  expect(await session.renew()).toBe(true);
  expect([session.expired.get(), session.other.get()]).toEqual([false, ""]);
});

test("what is open is never saved as somebody else's who has logged in meanwhile", async () => {
  const session = new SessionStore();
  loggedIn("ann");
  await session.get();
  session.expire();
  loggedIn("bob");
  expect((await session.get()).csrf_token).toBe("");
  expect(await session.renew()).toBe(false);
  expect([session.expired.get(), session.other.get()]).toEqual([true, "bob"]);
  loggedIn("ann");
  expect(await session.renew()).toBe(true);
  expect((await session.get()).csrf_token).toBe("token of ann");
  expect(session.other.get()).toBe("");
});
