import { ActionIcon, Button, Tooltip } from "@mantine/core";
import { useEffect, useState } from "react";
import { Icon } from "./icons";
import { toast } from "./toasts";

const SHOWN_MS = 1500;

/** Browsers give the clipboard only to pages over https or on this machine. */
async function copy(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    toast("The browser does not allow copying. Select the text and copy it yourself.", { failed: true });
    return false;
  }
}

export function useCopied(): [boolean, (text: string) => void] {
  const [copied, setCopied] = useState(false);
  useEffect(() => {
    if (!copied) return;
    const timer = setTimeout(() => setCopied(false), SHOWN_MS);
    return () => clearTimeout(timer);
  }, [copied]);
  return [copied, (text) => void copy(text).then(setCopied)];
}

/** Copies a short text, such as an id. */
export function CopyIcon({ text, what }: { text: string; what: string }) {
  const [copied, give] = useCopied();
  return (
    <Tooltip label={copied ? "Copied" : what}>
      <ActionIcon size="xs" variant="subtle" color="gray" aria-label={what} onClick={() => give(text)}>
        <Icon name={copied ? "check" : "copy"} size={12} />
      </ActionIcon>
    </Tooltip>
  );
}

export function CopyButton({ text, label = "Copy" }: { text: string; label?: string }) {
  const [copied, give] = useCopied();
  return (
    <Button
      variant="default"
      leftSection={<Icon name={copied ? "check" : "copy"} size={14} />}
      onClick={() => give(text)}
    >
      {copied ? "Copied" : label}
    </Button>
  );
}
