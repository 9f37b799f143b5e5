/** This tab among those of the browser. Its name outlives a reload and a crash. */

const KEY = "brickyard.tab";
const RELEASE_MS = 1000; // a page that is left gives its lock up within this time

const lockOf = (tab: string) => `brickyard.tab.${tab}`;

const random = () => Array.from(crypto.getRandomValues(new Uint32Array(3)), (each) => each.toString(36)).join("");

function kept(): string | null {
  try {
    return sessionStorage.getItem(KEY);
  } catch {
    return null;
  }
}

function keep(tab: string) {
  try {
    sessionStorage.setItem(KEY, tab);
  } catch {
    // A browser without storage has no drafts either.
  }
}

/** Takes the name, until the page ends in any way. False: another tab has it, of which this one is a copy. */
function taken(tab: string): Promise<boolean> {
  return new Promise((answer) => {
    const held = () => {
      answer(true);
      return new Promise<never>(() => {});
    };
    navigator.locks.request(lockOf(tab), { signal: AbortSignal.timeout(RELEASE_MS) }, held).catch(() => answer(false));
  });
}

async function named(): Promise<string> {
  const before = kept();
  // Browsers have locks only with HTTPS and on the server's own machine. Without them, a tab's copy has its name, too.
  if (before !== null && (navigator.locks === undefined || (await taken(before)))) return before;
  const made = random();
  keep(made);
  if (navigator.locks !== undefined) await taken(made);
  return made;
}

let name: Promise<string> | undefined;

/** The name of this tab. */
export function tabName(): Promise<string> {
  name ??= named();
  return name;
}

/** The names of the tabs that are open; undefined: this browser does not tell. */
export async function openTabs(): Promise<Set<string> | undefined> {
  if (navigator.locks === undefined) return undefined;
  const { held = [] } = await navigator.locks.query();
  const prefix = lockOf("");
  return new Set(held.flatMap((each) => (each.name?.startsWith(prefix) ? [each.name.slice(prefix.length)] : [])));
}
