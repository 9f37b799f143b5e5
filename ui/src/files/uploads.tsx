import { Button, Group, Progress } from "@mantine/core";
import { Icon } from "../kit/icons";
import { IconButton } from "../kit/plain";
import { bytes } from "../lib/sizes";
import { useValue } from "../lib/value";
import { cancel, forget, nameOfUpload, type Upload, uploads } from "./upload";

const WORDS = { waiting: "Waiting", sending: "", done: "Uploaded", failed: "", cancelled: "Cancelled" };

/** Uploads of this tab, with their progress. */
export function Uploads() {
  const shown = useValue(uploads);
  if (shown.length === 0) return null;
  const over = shown.every((each) => each.state !== "waiting" && each.state !== "sending");
  return (
    <section className="uploads" aria-label="Uploads">
      <Group justify="space-between" gap="xs">
        <b>Uploads</b>
        {over && (
          <Button variant="subtle" color="gray" onClick={forget}>
            Clear
          </Button>
        )}
      </Group>
      <ul>
        {shown.map((each) => (
          <Line key={each.id} upload={each} />
        ))}
      </ul>
    </section>
  );
}

function Line({ upload }: { upload: Upload }) {
  const { id, path, size, sent, state, reason } = upload;
  const name = nameOfUpload(upload);
  return (
    <li>
      <span title={path}>{name}</span>
      <Progress
        size="sm"
        value={size === 0 ? (state === "done" ? 100 : 0) : (sent / size) * 100}
        color={state === "failed" ? "var(--b-bad)" : undefined}
        aria-label={`Upload of ${name}`}
      />
      <span className={state === "failed" ? "word bad" : "soft"}>
        {state === "sending" ? `${bytes(sent)} of ${bytes(size)}` : state === "failed" ? reason : WORDS[state]}
      </span>
      {(state === "sending" || state === "waiting") && (
        <IconButton className="small" aria-label={`Cancel the upload of ${name}`} onClick={() => cancel(id)}>
          <Icon name="close" size={12} />
        </IconButton>
      )}
    </li>
  );
}
