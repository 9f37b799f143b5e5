import "./editor.css";
import { Alert, Button, Group, Title } from "@mantine/core";
import { useElementSize } from "@mantine/hooks";
import type { CSSProperties, ReactNode } from "react";
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
  news?: ReactNode; // what else must be seen wherever one works on the page
  beside?: ReactNode; // beside the buttons
  className?: string;
  children: ReactNode;
}

/** A page that edits something: its head with the buttons, and why it was not saved, which both stay in sight; below it what can be
 * edited. */
export function EditorFrame(props: Props) {
  const { title, above, action, act, busy, unsaved, blocked, disabled = false, cancel } = props;
  const { problem, news, beside, className, children } = props;
  const { ref, height } = useElementSize();
  useLeaveGuard(unsaved);
  useMainKey();
  const style = { "--editor-head": `${Math.round(height)}px` } as CSSProperties;
  return (
    <div className={`content editor ${className ?? ""}`} style={style}>
      <div className="editor-head" ref={ref}>
        <div className="editor-bar">
          <div className="editor-title">
            {above}
            <Title order={1} size="h3">
              {title}
            </Title>
          </div>
          <Group gap={8} wrap="nowrap">
            {beside}
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
        <div className="editor-notices">
          {problem !== undefined && (
            <Alert variant="default" className="notice bad" role="alert" title="Not saved">
              {problem}
            </Alert>
          )}
          {news}
        </div>
      </div>
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
