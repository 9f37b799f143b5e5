import { useValue, Value } from "../lib/value";
import { Icon } from "./icons";
import { IconButton } from "./plain";

interface Toast {
  id: number;
  text: string;
  failed: boolean;
}

const shown = new Value<Toast[]>([]);
const LASTS_MS = 6000;
let last = 0;

function remove(id: number) {
  shown.set(shown.get().filter((each) => each.id !== id));
}

/** Says for a moment what was done. What failed, and what `stays`, is shown until it is closed. */
export function toast(text: string, { failed = false, stays = false }: { failed?: boolean; stays?: boolean } = {}) {
  const id = ++last;
  shown.set([...shown.get().slice(-4), { id, text, failed }]);
  if (!failed && !stays) setTimeout(() => remove(id), LASTS_MS);
}

export function Toasts() {
  return (
    <div className="toasts" role="status" aria-live="polite">
      {useValue(shown).map((each) => (
        <div key={each.id} className={each.failed ? "toast failed" : "toast"}>
          <span>{each.text}</span>
          <IconButton className="small" aria-label="Close this message" onClick={() => remove(each.id)}>
            <Icon name="close" size={12} />
          </IconButton>
        </div>
      ))}
    </div>
  );
}
