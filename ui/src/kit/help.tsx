import { Title, Tooltip } from "@mantine/core";
import { Link } from "@tanstack/react-router";
import type { ReactNode } from "react";

/** A page of docs/, by its name without the ending. */
export type Topic =
  | "audit"
  | "authentication"
  | "files"
  | "identity"
  | "jobs"
  | "notebooks"
  | "policies"
  | "pools"
  | "spend"
  | "sql"
  | "sql-warehouses"
  | "ui"
  | "v1";

/** The documentation that belongs to a page. */
export function HelpLink({ topic }: { topic: Topic }) {
  return (
    <Tooltip label="Documentation of this page">
      <Link to="/help/$topic" params={{ topic }} className="iconbutton framed" aria-label="Documentation of this page">
        ?
      </Link>
    </Tooltip>
  );
}

/** The head of a page that is not of one object. */
export function PageHead({ title, topic, children }: { title: string; topic: Topic; children?: ReactNode }) {
  return (
    <div className="page-head">
      <Title order={1} size="h3">
        {title}
      </Title>
      <HelpLink topic={topic} />
      {children}
    </div>
  );
}
