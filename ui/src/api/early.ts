/** What a page asks before its own code is there. An answer is taken once; whoever comes later asks again. */
const ask = (path: string) => {
  const asked = fetch(path, { headers: { Accept: "application/json" } });
  asked.catch(() => {}); // whoever takes it learns of it
  return asked;
};

export const LIST = "/api/2.0/clusters/list" as const;
const waiting = new Map([["/login/session", ask("/login/session")]]);

/** Whether the list of clusters is what is opened. */
export const opensList = location.pathname === "/" || location.pathname === "/compute";
if (opensList) waiting.set(LIST, ask(LIST));

export function early(path: string): Promise<Response> | undefined {
  const asked = waiting.get(path);
  waiting.delete(path);
  return asked;
}
