import { Button, Group, Title, Tooltip } from "@mantine/core";
import { Link, useNavigate } from "@tanstack/react-router";
import type { ReactNode } from "react";
import { ApiError, isGone, words } from "../api/client";
import { Crumbs } from "./crumbs";
import { HelpLink, type Topic } from "./help";
import { Icon, type IconName } from "./icons";
import type { ListTab } from "./listsearch";
import { type Query, Reading } from "./reading";
import { useTitle } from "./title";

interface Back {
  tab?: ListTab;
  label?: string;
  to?: "/jobs"; // of what is not on the Compute page
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
          <b>This {noun} was deleted.</b> This page shows its last state.
        </div>
      ) : (
        error instanceof ApiError &&
        error.status !== 401 && (
          <div className="gone" role="alert">
            <b>This page may be out of date.</b> {words(error)}
          </div>
        )
      )}
      {children(data, gone)}
    </div>
  );
}

interface HeadProps {
  name: string;
  topic: Topic; // of the documentation
  beside?: ReactNode; // beside the name
  actions: ReactNode;
  said?: string | null;
  children: ReactNode; // the facts
}

export function ObjectHead({ name, topic, beside, actions, said, children }: HeadProps) {
  return (
    <header className="head">
      <Group justify="space-between" align="flex-start" gap="xs">
        <Group gap="sm" className="title">
          <Title order={1} size="h3">
            {name}
          </Title>
          <HelpLink topic={topic} />
          {beside}
        </Group>
        {actions && <Group gap={6}>{actions}</Group>}
      </Group>
      {said && <p className="said soft">{said}</p>}
      {children}
    </header>
  );
}

interface ActionsProps {
  why: string | undefined; // nothing but creating a cluster is allowed
  create: { pool: string } | { policy: string }; // what the cluster is to use
  edit: () => void;
  clone?: () => void;
  remove: () => Promise<boolean>; // whether it is gone
  removing: boolean;
  tab: ListTab; // where the page leads to once it is gone
}

/** What can be done with an object that clusters use. */
export function ObjectActions({ why, create, edit, clone, remove, removing, tab }: ActionsProps) {
  const navigate = useNavigate();
  const leave = async () => {
    if (await remove()) await navigate({ to: "/compute", search: { tab } });
  };
  return (
    <>
      <Button
        renderRoot={(props) => <Link {...props} to="/compute/create" search={create} />}
        variant="default"
        leftSection={<Icon name="plus" size={14} />}
      >
        Create compute
      </Button>
      <HeadButton icon="pencil" label="Edit" why={why} onClick={edit} />
      {clone && <HeadButton icon="copy" label="Clone" why={why} onClick={clone} />}
      <HeadButton icon="trash" label="Delete" why={why} loading={removing} onClick={() => void leave()} />
    </>
  );
}

interface ButtonProps {
  icon: IconName;
  label: string;
  why: string | undefined; // it is disabled
  loading?: boolean;
  onClick: () => void;
}

/** One of what can be done with an object. */
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
