import "./editor.css";
import { Alert, Button, Group, Title } from "@mantine/core";
import type { ReactNode } from "react";
import { useLeaveGuard, useMainKey } from "../kit/leaving";

interface Props {
  title: ReactNode;
  above?: ReactNode;
  action: string;
  act: () => void;
  busy: boolean;
  unsaved: boolean;
  blocked?: string; // why it cannot be done now
  disabled?: boolean;
  cancel: () => void;
  problem: string | undefined;
  className?: string;
  children: ReactNode;
}

/** A page that edits something: its head with the buttons, why it was not saved, and below it what can be edited. */
export function EditorFrame(props: Props) {
  const {
    title,
    above,
    action,
    act,
    busy,
    unsaved,
    blocked,
    disabled = false,
    cancel,
    problem,
    className,
    children,
  } = props;
  useLeaveGuard(unsaved);
  useMainKey();
  return (
    <div className={`content editor ${className ?? ""}`}>
      <div className="editor-head">
        <div className="editor-title">
          {above}
          <Title order={1} size="h3">
            {title}
          </Title>
        </div>
        <Group gap={8} wrap="nowrap">
          <Button variant="default" onClick={cancel}>
            Cancel
          </Button>
          <Button
            data-main-action
            onClick={act}
            loading={busy}
            disabled={disabled || blocked !== undefined}
            title={blocked}
          >
            {action}
          </Button>
        </Group>
      </div>
      {problem !== undefined && (
        <Alert variant="default" className="notice bad" role="alert" title="Not saved">
          {problem}
        </Alert>
      )}
      {children}
    </div>
  );
}

/** A part of the page that is always open. */
export function Part({ title, narrow = false, children }: { title: string; narrow?: boolean; children: ReactNode }) {
  return (
    <section className="part" aria-label={title}>
      <h2>{title}</h2>
      <div className={narrow ? "part-body narrow" : "part-body"}>{children}</div>
    </section>
  );
}
