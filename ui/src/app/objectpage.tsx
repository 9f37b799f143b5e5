import { Button, Group, Title, Tooltip } from "@mantine/core";
import type { ReactNode } from "react";
import { ApiError, isGone, words } from "../api/client";
import type { ListTab } from "../compute/search";
import { Crumbs } from "./crumbs";
import { Icon, type IconName } from "./icons";
import { type Query, Reading } from "./reading";
import { useTitle } from "./title";

interface Back {
  tab?: ListTab;
  label?: string;
}

/** The page of an object that is being read, or cannot be. */
export function BeingRead({ noun, query, ...back }: Back & { noun: string; query: Query }) {
  return (
    <div className="content">
      <Crumbs {...back} />
      <Reading query={query} what={`Reading the ${noun}`} />
    </div>
  );
}

interface Props<T> {
  noun: string;
  query: Query & { data: T | undefined };
  title: string;
  back?: Back;
  children: (object: T, gone: boolean) => ReactNode;
}

/** The page of one object: the way back to its list, and whether it is gone or out of date. `children`: what it shows. */
export function ObjectPage<T>({ noun, query, title, back, children }: Props<T>) {
  useTitle(title);
  const { data, error } = query;
  if (data === undefined) return <BeingRead {...back} noun={noun} query={query} />;
  const gone = isGone(error);
  return (
    <div className="content cluster">
      <Crumbs {...back} />
      {gone ? (
        <div className="gone" role="alert">
          <b>This {noun} was deleted.</b> What you see is how it was; nothing can be done with it any more.
        </div>
      ) : (
        error instanceof ApiError &&
        error.status !== 401 && (
          <div className="gone" role="alert">
            <b>What you see may be old.</b> {words(error)}
          </div>
        )
      )}
      {children(data, gone)}
    </div>
  );
}

interface HeadProps {
  name: string;
  beside?: ReactNode; // beside the name
  actions: ReactNode;
  said?: string | null;
  children: ReactNode; // the facts
}

export function ObjectHead({ name, beside, actions, said, children }: HeadProps) {
  return (
    <header className="head">
      <Group justify="space-between" align="flex-start" gap="xs">
        <Group gap="sm" className="title">
          <Title order={1} size="h3">
            {name}
          </Title>
          {beside}
        </Group>
        {actions && <Group gap={6}>{actions}</Group>}
      </Group>
      {said && <p className="said soft">{said}</p>}
      {children}
    </header>
  );
}

interface ButtonProps {
  icon: IconName;
  label: string;
  why: string | undefined; // it is disabled
  loading?: boolean;
  onClick: () => void;
}

/** A button in the head of an object's page. */
export function HeadButton({ icon, label, why, loading, onClick }: ButtonProps) {
  return (
    <Tooltip label={why} disabled={why === undefined}>
      <Button
        variant="default"
        leftSection={<Icon name={icon} size={14} />}
        disabled={why !== undefined}
        loading={loading}
        onClick={onClick}
      >
        {label}
      </Button>
    </Tooltip>
  );
}
