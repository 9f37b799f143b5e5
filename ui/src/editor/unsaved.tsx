import { Alert, Button } from "@mantine/core";
import { ago, exactly, useNow } from "../lib/time";

interface Props {
  at: number; // when it was typed
  lost?: string[]; // fields that were typed, and whose values were not kept
  discard: () => void;
  close: () => void;
}

/** Says that the form is as it was before the page was loaded again, and takes that back. */
export function Unsaved({ at, lost = [], discard, close }: Props) {
  const now = useNow(30_000);
  return (
    <Alert
      variant="default"
      className="notice"
      role="status"
      withCloseButton
      closeButtonLabel="Close this message"
      onClose={close}
      title={
        <>
          Your unsaved changes are back <span title={exactly(at)}>(typed {ago(at, now)})</span>
        </>
      }
    >
      {lost.length > 0 && (
        <p>
          Values that may be secret are not kept. Type them again: <code>{lost.join(", ")}</code>
        </p>
      )}
      <Button variant="default" onClick={discard}>
        Discard draft
      </Button>
    </Alert>
  );
}
