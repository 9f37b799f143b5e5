import { useNavigate, useSearch } from "@tanstack/react-router";
import { type ComponentType, type KeyboardEvent, lazy, Suspense, useEffect } from "react";
import { Icon } from "../kit/icons";
import { useInSight } from "../kit/insight";
import { lastList, rememberList } from "../kit/lastlist";
import type { ListTab } from "../kit/listsearch";
import { styled } from "../kit/look";
import { Go } from "../kit/plain";
import { useTitle } from "../kit/title";
import { Waiting } from "../kit/waiting";
import { Clusters } from "./clusters";

interface Shown {
  tab: ListTab | "all";
  label: string;
  Content: ComponentType;
  topic?: string; // of the documentation
  create?: {
    to: "/compute/create" | "/compute/pools/create" | "/compute/policies/create" | "/compute/warehouses/create";
    label: string;
  };
}

const compute = { to: "/compute/create", label: "Create compute" } as const;
const SHOWN: Shown[] = [
  { tab: "all", label: "All-purpose", Content: Clusters, create: compute },
  { tab: "job", label: "Job", Content: Clusters }, // what creates these is a run
  {
    tab: "pools",
    label: "Pools",
    Content: lazy(styled(() => import("../pools/list"))),
    create: { to: "/compute/pools/create", label: "Create pool" },
    topic: "pools",
  },
  {
    tab: "policies",
    label: "Policies",
    Content: lazy(styled(() => import("../policies/list"))),
    create: { to: "/compute/policies/create", label: "Create policy" },
    topic: "policies",
  },
  {
    tab: "sql",
    label: "SQL warehouses",
    Content: lazy(styled(() => import("../warehouses/list"))),
    create: { to: "/compute/warehouses/create", label: "Create SQL warehouse" },
    topic: "sql-warehouses",
  },
];

export function ComputePage() {
  const search = useSearch({ from: "/compute" });
  const navigate = useNavigate({ from: "/compute" });
  const shown = SHOWN.find((each) => each.tab === (search.tab ?? "all")) ?? (SHOWN[0] as Shown);
  useTitle(shown.tab === "all" ? "Compute" : shown.tab === "job" ? "Job compute" : shown.label);
  useEffect(() => rememberList(search), [search]);
  const open = (tab: Shown["tab"]) => void navigate({ search: lastList(tab === "all" ? undefined : tab) });
  return (
    <div className="content list">
      <div className="headline">
        <h1>Compute</h1>
        <Go to={`/help/${shown.topic ?? "ui"}`} className="iconbutton framed" aria-label="Documentation of this page">
          ?
        </Go>
        {shown.create && (
          <div className="tools">
            {shown.create === compute && (
              <Go to="/compute/create?like=last" className="plainbutton">
                Like my last
              </Go>
            )}
            <Go to={shown.create.to} className="plainbutton main">
              <Icon name="plus" size={14} />
              {shown.create.label}
            </Go>
          </div>
        )}
      </div>
      <TopTabs shown={shown.tab} open={open} />
      <Suspense fallback={<Waiting what="Loading" />}>
        <shown.Content key={shown.tab} />
      </Suspense>
    </div>
  );
}

const STEPS: Record<string, number> = { ArrowLeft: -1, ArrowRight: 1 };

function TopTabs({ shown, open }: { shown: Shown["tab"]; open: (tab: Shown["tab"]) => void }) {
  const step = (event: KeyboardEvent<HTMLElement>) => {
    const by = STEPS[event.key];
    const tabs = [...event.currentTarget.querySelectorAll("button")];
    const at = tabs.indexOf(document.activeElement as HTMLButtonElement);
    if (by === undefined || at < 0) return;
    event.preventDefault();
    const next = tabs.at((at + by) % tabs.length);
    next?.focus();
    next?.click();
  };
  return (
    <div
      ref={useInSight<HTMLDivElement>(shown)}
      className="toptabs"
      role="tablist"
      aria-label="Kinds of compute"
      onKeyDown={step}
    >
      {SHOWN.map(({ tab, label }) => (
        <button
          key={tab}
          type="button"
          role="tab"
          aria-selected={tab === shown}
          tabIndex={tab === shown ? 0 : -1}
          onClick={() => open(tab)}
        >
          {label}
        </button>
      ))}
    </div>
  );
}
