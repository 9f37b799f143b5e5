import type { ListSearch, ListTab } from "./listsearch";

const KEY = "brickyard.lists";

type Lists = Partial<Record<ListTab | "all", ListSearch>>;

/** What this tab of the browser has shown last of each list, so that the ways back to one keep its filters. */
function read(): Lists {
  try {
    return JSON.parse(sessionStorage.getItem(KEY) ?? "{}") as Lists;
  } catch {
    return {};
  }
}

export function rememberList(search: ListSearch) {
  try {
    sessionStorage.setItem(KEY, JSON.stringify({ ...read(), [search.tab ?? "all"]: search }));
  } catch {
    // A browser without storage leads back to the whole list.
  }
}

export const lastList = (tab: ListTab | undefined): ListSearch =>
  read()[tab ?? "all"] ?? (tab === undefined ? {} : { tab });
